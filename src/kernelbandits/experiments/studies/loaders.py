"""Environments made of data files, by name: what `load = "mushroom"` in a study's file stands for."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

from kernelbandits.environments.base import Environment
from kernelbandits.environments.datasets import LOADERS as DATA_SETS
from kernelbandits.environments.datasets import from_file
from kernelbandits.errors import InvalidParameter, KernelBanditError
from kernelbandits.experiments.studies.registry import close_to

__all__ = ["LOADERS", "Loader", "loaded", "resolved_path"]

Loader: TypeAlias = Callable[..., Environment]
"""Called with the path and the options of the table."""

LOADERS: Final[Mapping[str, Loader]] = {name: partial(from_file, name) for name in DATA_SETS}
"""Loaders that every study's file can name; `Study.from_toml(path, loaders=...)` adds some of your own."""


def loaded(table: Mapping[str, Any], place: str, *, loaders: Mapping[str, Loader], beside: Path) -> Environment:
    """The environment that a table with `load`, `path` and options asks for; relative paths start from `beside`."""
    options = dict(table)
    name, path = options.pop("load"), options.pop("path", None)
    if name not in loaders:
        raise InvalidParameter(f"{place}: no data called {name!r} can be loaded.{close_to(name, loaders)}")
    if not isinstance(path, str):
        raise InvalidParameter(f'{place}: data needs its file, path = "...", got {path!r}.')
    file = resolved_path(path, place, beside)
    try:
        return loaders[name](file, **options)
    except (KernelBanditError, OSError, TypeError, ValueError) as error:
        raise InvalidParameter(f"{place}: {error}") from error


def resolved_path(path: str, place: str, beside: Path) -> Path:
    """The path with environment variables and ~ filled in; a relative one starts from `beside`."""
    filled = os.path.expandvars(path)
    unset = re.search(r"\$\{?(\w+)", filled)
    if unset is not None:
        raise InvalidParameter(
            f"{place}: the environment variable {unset[1]} is not set, and the path {path!r} needs it. "
            f"Set it: export {unset[1]}=..."
        )
    return beside / Path(filled).expanduser()
