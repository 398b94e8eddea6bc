"""Study files: a study from TOML, with environments from data files."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Mapping
from functools import partial, reduce
from pathlib import Path
from typing import Any, Final, TypeAlias

from kernelbandits._text import short_repr
from kernelbandits.environments.base import Environment
from kernelbandits.environments.datasets import LOADERS as DATA_SETS
from kernelbandits.environments.datasets import from_file
from kernelbandits.errors import InvalidParameter, KernelBanditError
from kernelbandits.experiments.own_files import OwnFile, OwnName
from kernelbandits.experiments.policy_spec import (
    Grid,
    PolicySpec,
    build_value,
    check_arguments,
    find_class,
    known_classes,
    suggest,
)
from kernelbandits.validation import check_has_methods

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


def read_study(path: Path, loaders: Mapping[str, Loader], own: Mapping[str, OwnName]) -> tuple[dict[str, Any], bytes]:
    """Read the arguments of `Study` from a file, and its content; errors name the file and the place.

    Parameters
    ----------
    loaders
        Functions that load data, by name.
    own
        Classes of a user's own, by name.
    """
    try:
        content = path.read_bytes()
        values = tomllib.loads(content.decode("utf-8-sig"))  # some editors write a byte order mark
    except OSError as error:
        raise InvalidParameter(f"The study {str(path)!r} cannot be read: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:  # ValueError also for a number with too many digits
        raise InvalidParameter(f"{path} is not TOML: {error!s:.200}.") from error
    try:
        _check_keys(values)
        sources: dict[str, tuple[OwnFile, ...]] = {}
        tables: dict[str, dict[str, Any]] = {"environments": {}, "policies": {}}
        for kind, found in tables.items():
            for name, table in values[kind].items():
                used: dict[OwnFile, None] = {}
                found[name] = _with_own(table, f"{kind}.{name}", own, used)
                if used:
                    sources[f"{kind}.{name}"] = tuple(used)
        environments = {
            name: _environment(table, f"environments.{name}", loaders, path.parent)
            for name, table in tables["environments"].items()
        }
        policies = {
            name: _policy_spec(_with_items(table, f"policies.{name}", environments), f"policies.{name}")
            for name, table in tables["policies"].items()
        }
    except InvalidParameter as error:
        raise InvalidParameter(f"{path}: {error}") from error
    return {**values, "environments": environments, "policies": policies, "sources": sources}, content


def _with_own(value: Any, place: str, own: Mapping[str, OwnName], used: dict[OwnFile, None]) -> Any:
    """Replace names of a user's own classes by the classes, and note the files that they come from.

    `class = "Name"` names a class, or a function that builds something; `{ function = "name" }` is the function itself.
    """
    if isinstance(value, list):
        return [_with_own(part, f"{place}.{row}", own, used) for row, part in enumerate(value)]
    if not isinstance(value, Mapping):
        return value
    made = {name: _with_own(part, f"{place}.{name}", own, used) for name, part in value.items()}
    key = "function" if set(value) == {"function"} else "class"
    name = value.get(key)
    if not isinstance(name, str):
        return made
    if name in own:
        made[key] = own[name].value
        file = own[name].file
        if file is not None:
            used[file] = None
    elif key == "function":
        hint = (
            suggest(name, own) if own else " Give the file that defines it: --with FILE.py, or classes=[...] in Python."
        )
        raise InvalidParameter(f"{place}: no function {name!r} is known.{hint}")
    elif own and name not in known_classes() and suggest(name, own).startswith(" Did"):
        raise InvalidParameter(f"{place}: no class {name!r} is known.{suggest(name, own)}")
    return made


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
    hint = "A function of your own returns one."
    made: Environment = check_has_methods(environment, f"The environment of {place}", "start", "describe", hint=hint)
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
    _check_tables(kind, arguments, place)
    for name, values in _table(table.get("grid", {}), f"{place}.grid").items():
        if not isinstance(values, list) or not values:
            inner = f'Values inside a table have a dotted name in quotes: "{name}.length_scale" = [0.1, 1.0].'
            hint = f" {inner}" if isinstance(values, dict) else ""
            raise InvalidParameter(
                f"{place}.grid.{name}: a grid is a list of values, at least one, got {short_repr(values)}.{hint}"
            )
        arguments = _with_grid(arguments, name.split("."), values, f"{place}.grid.{name}")
    check_arguments(kind, arguments, place)
    try:
        return PolicySpec(kind, learn_rounds=table.get("learn_rounds"), **arguments)
    except InvalidParameter as error:
        raise InvalidParameter(f"{place}: {error}") from error


TABLES: Final = {
    "exploration": '{ class = "Mixture", noise_scale = 0.5, norm_bound = 1.0, failure_probability = 0.05 }',
    "kernel": '{ class = "Gaussian", length_scale = 0.2 }',
    "policy": '{ class = "LinUCB" }',
}
"""Examples of arguments that are objects in Python, as tables of a study file."""

NUMBERS: Final = ("exploration",)
"""Arguments of these that may also be numbers."""


def _check_tables(kind: Any, arguments: Mapping[str, Any], place: str) -> None:
    """Raise InvalidParameter for a value in place of a table, in the words of a study."""
    if not getattr(kind, "__module__", "").startswith("kernelbandits."):
        return
    for name, form in TABLES.items():
        value = arguments.get(name)
        if isinstance(value, str | bool) or (isinstance(value, int | float) and name not in NUMBERS):
            also = "a number or " if name in NUMBERS else ""
            raise InvalidParameter(f"{place}.{name}: this must be {also}a table, such as {form}, got {value!r}.")


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

    table = reduce(inner, outer, changed)
    if last in table:
        raise InvalidParameter(
            f"{place}: {last!r} has the value {short_repr(table[last])} already, which the grid would replace. Keep "
            "one of the two."
        )
    table[last] = Grid(*values)
    return changed
