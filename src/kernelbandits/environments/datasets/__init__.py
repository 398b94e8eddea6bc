"""Published data sets as worlds, each read from a file that you name.

`from_file` finds a reader by its name, for studies that are written down in plain values; the readers themselves are
functions with the same names. Nothing is downloaded and no folder is assumed. Tables are CSV files with a header line,
plain or gzip-compressed; a file that is not the one expected is refused.
"""

from kernelbandits.environments.datasets.loaders import (
    abalone,
    adult,
    agnews,
    covertype,
    mnist,
    mushroom,
    newsfeeds,
    onlinenews,
    open_bandit,
    shuttle,
    splice,
)
from kernelbandits.environments.datasets.registry import LOADERS, from_file

__all__ = [
    "LOADERS",
    "abalone",
    "adult",
    "agnews",
    "covertype",
    "from_file",
    "mnist",
    "mushroom",
    "newsfeeds",
    "onlinenews",
    "open_bandit",
    "shuttle",
    "splice",
]
