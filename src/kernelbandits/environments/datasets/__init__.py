"""Published data sets as environments, each read from a given file.

`from_file` finds a loader by its name, for studies that are specified by plain values; the loaders themselves are
functions with the same names. Nothing is downloaded and no folder is assumed. Tables are CSV files with a header line,
plain or gzip-compressed; an unexpected file is rejected.
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
