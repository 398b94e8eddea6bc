"""Registry of data sets by name, for specifications in plain values: a study file, a command line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from kernelbandits.environments.base import Environment
from kernelbandits.environments.datasets.files import Path
from kernelbandits.environments.datasets.loaders import (
    abalone,
    adult,
    agnews,
    covertype,
    mnist,
    mushroom,
    newsfeeds,
    onlinenews,
    shuttle,
    splice,
)
from kernelbandits.errors import InvalidParameter
from kernelbandits.validation import check_path, is_one_of, short_repr

__all__ = ["LOADERS", "from_file"]

_ALL: Final = (abalone, adult, agnews, covertype, mnist, mushroom, newsfeeds, onlinenews, shuttle, splice)

LOADERS: Final[Mapping[str, Callable[..., Environment]]] = MappingProxyType(
    {loader.__name__: loader for loader in _ALL}
)
"""Loaders of `from_file`, by name."""


def from_file(name: str, path: Path, **options: Any) -> Environment:
    """Create the environment of a data set from its file; every option is a plain value.

    Parameters
    ----------
    name
        One of `LOADERS`: abalone, adult, agnews, covertype, mnist, mushroom, newsfeeds, onlinenews, shuttle, splice.
    path
        Path of the file; no other location is searched.
    **options
        Options of the function of that name in `kernelbandits.environments.datasets`, such as normalize_rows=True.

    Examples
    --------
    `from_file("mushroom", "data/mushroom.csv.gz", normalize_rows=True)`

    >>> sorted(LOADERS)[:3]
    ['abalone', 'adult', 'agnews']
    """
    if not is_one_of(name, LOADERS):
        raise InvalidParameter(
            f"The data sets that can be read by name are {', '.join(LOADERS)}, got {short_repr(name)}. Another table: "
            "Classification.from_frame, FixedCatalog.from_frame; logged decisions: datasets.open_bandit."
        )
    try:
        return LOADERS[name](check_path(path), **options)
    except TypeError as error:
        if "argument" not in str(error):
            raise
        raise InvalidParameter(
            f"These options do not fit the data set {name!r}: {sorted(options)}. {error}."
        ) from error
