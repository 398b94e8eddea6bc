"""Features as JSON, in the way Vowpal Wabbit reads it: objects are namespaces, strings are features of value 1."""

from __future__ import annotations

import sys
from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Any, Final

from kernelbandits.adapters.lines import Malformed
from kernelbandits.adapters.vowpal_wabbit import Feature, FeatureValues
from kernelbandits.errors import InvalidContexts

__all__ = ["json_number", "read_features", "textual", "write_features"]

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


def textual(described: Iterable[FeatureValues]) -> set[Feature]:
    """Features such as `colour=red` that are the string red called colour in all of these rows.

    Vowpal Wabbit hashes a string otherwise than a number of the same name, so that a feature has to be the one or the
    other throughout: a string where all values are 1 or 0, no row has two colours, and nothing else is called colour.
    """
    features: set[Feature] = set()
    spoilt: set[Feature] = set()
    for values in described:
        features.update(values)
        worn = [(_key(feature), value) for feature, value in values.items() if value]
        keys = [key for key, _ in worn]
        spoilt.update(key for key, value in worn if value != 1.0 or keys.count(key) > 1)
    spoilt |= features | {("", namespace) for namespace, _ in features}
    return {feature for feature in features if _key(feature)[1] and _key(feature) not in spoilt}


def _key(feature: Feature) -> Feature:
    """What a string would be called, no name where it would have none."""
    namespace, name = feature
    key, is_text, _ = name.partition("=")
    return namespace, key if is_text else ""


def write_features(values: FeatureValues, texts: Container[Feature] = ()) -> dict[str, Any]:
    """Features as an object: namespaces are objects in it, features without one stand in it directly.

    Those of `texts` that have the value 1 become strings.
    """
    namespaces: dict[str, dict[str, Any]] = {}
    for (namespace, name), value in values.items():
        for word in filter(None, (namespace, name)):
            if word.startswith("_") or word == " ":
                raise InvalidContexts(f"Vowpal Wabbit passes over JSON names like {word!r}. Rename the feature.")
        inside = namespaces.setdefault(namespace, {})
        if value and (namespace, name) in texts:
            key, _, text = name.partition("=")
            inside[key] = text
        else:
            inside[name] = value
    direct = namespaces.pop("", {})
    for name in direct.keys() & namespaces.keys():
        raise InvalidContexts(
            f"A namespace and a feature without one cannot both be called {name!r} in JSON. Rename one of them."
        )
    return {**direct, **namespaces}
