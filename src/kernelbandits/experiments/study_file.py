"""Study files: a study from TOML, with environments from data files."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Mapping
from functools import partial, reduce
from pathlib import Path
from typing import Any, Final, TypeAlias

from kernelbandits.environments.base import Environment
from kernelbandits.environments.datasets import LOADERS as DATA_SETS
from kernelbandits.environments.datasets import from_file
from kernelbandits.errors import InvalidParameter, KernelBanditError
from kernelbandits.experiments.policy_spec import Grid, PolicySpec, build_value, check_arguments, find_class, suggest

__all__ = ["LOADERS", "Loader", "load_environment", "read_study", "resolve_path"]

Loader: TypeAlias = Callable[..., Environment]
"""Function of the path and the options of a table."""

LOADERS: Final[Mapping[str, Loader]] = {name: partial(from_file, name) for name in DATA_SETS}
"""Built-in loaders, by the name in `load = "mushroom"`; `Study.from_toml(path, loaders=...)` adds others."""


def load_environment(
    table: Mapping[str, Any], place: str, *, loaders: Mapping[str, Loader], beside: Path
) -> Environment:
    """Load the environment of a table with `load`, `path` and options; relative paths start from `beside`."""
    options = dict(table)
    name, path = options.pop("load"), options.pop("path", None)
    if name not in loaders:
        raise InvalidParameter(f"{place}: no data called {name!r} can be loaded.{suggest(name, loaders)}")
    if not isinstance(path, str):
        raise InvalidParameter(f'{place}: data needs its file, path = "...", got {path!r}.')
    file = resolve_path(path, place, beside)
    try:
        return loaders[name](file, **options)
    except (KernelBanditError, OSError, TypeError, ValueError) as error:
        raise InvalidParameter(f"{place}: {error}") from error


def resolve_path(path: str, place: str, beside: Path) -> Path:
    """Expand environment variables and ~ in a path; a relative path starts from `beside`."""
    filled = os.path.expandvars(path)
    unset = re.search(r"\$\{?(\w+)", filled)
    if unset is not None:
        raise InvalidParameter(
            f"{place}: the environment variable {unset[1]} is not set, and the path {path!r} needs it. "
            f"Set it: export {unset[1]}=..."
        )
    return beside / Path(filled).expanduser()


KEYS: Final = ("name", "horizon", "seeds", "every", "environments", "policies")
NEEDED: Final = ("name", "horizon", "seeds", "environments", "policies")


def read_study(path: Path, loaders: Mapping[str, Loader]) -> dict[str, Any]:
    """Read the arguments of `Study` from a file; errors name the file and the place."""
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8-sig"))  # some editors write a byte order mark
    except OSError as error:
        raise InvalidParameter(f"The study {str(path)!r} cannot be read: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:  # ValueError also for a number with too many digits
        raise InvalidParameter(f"{path} is not TOML: {error!s:.200}.") from error
    try:
        _check_keys(values)
        environments = {
            name: _environment(table, f"environments.{name}", loaders, path.parent)
            for name, table in values["environments"].items()
        }
        policies = {
            name: _policy_spec(_with_items(table, f"policies.{name}", environments), f"policies.{name}")
            for name, table in values["policies"].items()
        }
    except InvalidParameter as error:
        raise InvalidParameter(f"{path}: {error}") from error
    return {**values, "environments": environments, "policies": policies}


def _check_keys(values: Mapping[str, Any]) -> None:
    for key in values:
        if key not in KEYS:
            raise InvalidParameter(f"a study has no {key!r}.{suggest(key, KEYS)}")
    for key in NEEDED:
        if key not in values:
            raise InvalidParameter(f"the study has no {key!r}.")
    for key in ("environments", "policies"):
        for name, table in (_table(values[key], key)).items():
            _table(table, f"{key}.{name}")


def _table(value: Any, place: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidParameter(f"{place}: this must be a table, got {value!r}.")
    return value


def _environment(table: Mapping[str, Any], place: str, loaders: Mapping[str, Loader], beside: Path) -> Environment:
    """Build the environment of a table; tables inside that load data are loaded first."""
    environment = _with_data(table, place, loaders, beside)
    if isinstance(environment, Mapping):
        find_class(environment.get("class"), place, "environment")
        environment = build_value(environment, place)
    made: Environment = environment
    return made


def _with_data(value: Any, place: str, loaders: Mapping[str, Loader], beside: Path) -> Any:
    if not isinstance(value, Mapping):
        return value
    if "load" in value:
        return load_environment(value, place, loaders=loaders, beside=beside)
    return {name: _with_data(part, f"{place}.{name}", loaders, beside) for name, part in value.items()}


def _with_items(value: Any, place: str, environments: Mapping[str, Environment]) -> Any:
    """Replace every `{ items_of = "name" }` in a table by the items of that environment."""
    if isinstance(value, list):
        return [_with_items(part, f"{place}.{row}", environments) for row, part in enumerate(value)]
    if not isinstance(value, Mapping):
        return value
    if set(value) != {"items_of"}:
        return {name: _with_items(part, f"{place}.{name}", environments) for name, part in value.items()}
    name = value["items_of"]
    if name not in environments:
        raise InvalidParameter(f"{place}: there is no environment {name!r}.{suggest(name, environments)}")
    items = getattr(environments[name], "items", None)
    if items is None:
        raise InvalidParameter(f"{place}: the environment {name!r} has no items.")
    return list(items)


def _policy_spec(table: Mapping[str, Any], place: str) -> PolicySpec:
    arguments = {name: value for name, value in table.items() if name not in ("class", "grid", "learn_rounds")}
    kind = find_class(table.get("class"), place, "policy")
    for name, values in _table(table.get("grid", {}), f"{place}.grid").items():
        if not isinstance(values, list) or not values:
            raise InvalidParameter(f"{place}.grid.{name}: a grid is a list of values, at least one, got {values!r}.")
        arguments = _with_grid(arguments, name.split("."), values, f"{place}.grid.{name}")
    check_arguments(kind, arguments, place)
    try:
        return PolicySpec(kind, learn_rounds=table.get("learn_rounds"), **arguments)
    except InvalidParameter as error:
        raise InvalidParameter(f"{place}: {error}") from error


def _with_grid(arguments: Mapping[str, Any], names: list[str], values: list[Any], place: str) -> dict[str, Any]:
    """Add a grid at the dotted name; all tables on the way have to exist."""
    changed = dict(arguments)
    *outer, last = names

    def inner(table: dict[str, Any], name: str) -> dict[str, Any]:
        if not isinstance(table.get(name), dict):
            raise InvalidParameter(f"{place}: there is no table {name!r} to vary.{suggest(name, table)}")
        table[name] = dict(table[name])
        found: dict[str, Any] = table[name]
        return found

    reduce(inner, outer, changed)[last] = Grid(*values)
    return changed
