"""Features as JSON, in the way Vowpal Wabbit reads it: objects are namespaces, strings are features of value 1."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any, Final

from kernelbandits.adapters.lines import Malformed
from kernelbandits.adapters.vowpal_wabbit import Feature, FeatureValues
from kernelbandits.errors import InvalidContexts

__all__ = ["json_number", "read_features", "write_features"]

LARGEST: Final = sys.float_info.max


def json_number(value: Any, name: str) -> float:
    """A finite number of a line."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not abs(value) <= LARGEST:  # also catches NaN
        raise Malformed(f"`{name}` has to be a finite number, got {value!r}.")
    return float(value)


def read_features(described: Mapping[str, Any], namespace: str = "") -> FeatureValues:
    """Values by namespace and name; what is nested has the namespace of the innermost object or list."""
    found: FeatureValues = {}
    for feature, value in _walk(described, namespace):
        found[feature] = found.get(feature, 0.0) + value
    return found


def _walk(described: Mapping[str, Any], namespace: str) -> Iterator[tuple[Feature, float]]:
    for name, value in described.items():
        inner = "" if name == " " else name  # a blank is the namespace without a name
        if name == "_text" and isinstance(value, str):
            yield from (((namespace, word), 1.0) for word in value.split())
        elif name.startswith("_") or value is None or value is False:
            continue
        elif value is True:
            yield (namespace, name), 1.0
        elif isinstance(value, str):
            yield (namespace, f"{name}={value}"), 1.0
        elif isinstance(value, dict):
            yield from _walk(value, inner)
        elif isinstance(value, list):
            yield from _walk_list(value, inner)
        else:
            yield (namespace, name), json_number(value, name)


def _walk_list(values: list[Any], namespace: str) -> Iterator[tuple[Feature, float]]:
    for place, value in enumerate(values):
        if isinstance(value, dict):
            yield from _walk(value, namespace)
        else:
            yield (namespace, str(place)), json_number(value, f"{namespace}[{place}]")


def write_features(values: FeatureValues) -> dict[str, Any]:
    """Features as an object: namespaces are objects in it, features without one stand in it directly."""
    namespaces: dict[str, dict[str, float]] = {}
    for (namespace, name), value in values.items():
        for word in filter(None, (namespace, name)):
            if word.startswith("_") or word == " ":
                raise InvalidContexts(f"Vowpal Wabbit passes over JSON names like {word!r}. Rename the feature.")
        namespaces.setdefault(namespace, {})[name] = value
    direct = namespaces.pop("", {})
    for name in direct.keys() & namespaces.keys():
        raise InvalidContexts(
            f"A namespace and a feature without one cannot both be called {name!r} in JSON. Rename one of them."
        )
    described = {namespace: _entries(inside, taken=set()) for namespace, inside in namespaces.items()}
    return {**_entries(direct, taken=set(namespaces)), **described}


def _entries(values: Mapping[str, float], *, taken: set[str]) -> dict[str, Any]:
    """Names and values; `colour=red` of value 1 is the string red called colour, where that name is free."""
    entries: dict[str, Any] = {}
    for name, value in values.items():
        key, is_text, text = name.partition("=")
        is_free = key not in entries and key not in values and key not in taken
        if is_text and key and value == 1.0 and is_free:
            entries[key] = text
        else:
            entries[name] = value
    return entries
