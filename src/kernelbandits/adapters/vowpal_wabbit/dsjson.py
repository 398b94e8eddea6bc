"""Vowpal Wabbit's decision-service format (`--dsjson`)."""

from __future__ import annotations

import json
import sys
from collections.abc import Container, Iterable, Iterator, Mapping
from os import PathLike
from typing import Any, Final

import numpy as np

from kernelbandits.adapters.vowpal_wabbit.log import (
    Event,
    Feature,
    FeatureValues,
    Layout,
    Malformed,
    OnError,
    Unused,
    Vocabulary,
    VowpalLog,
    events_of,
    log_of,
    numbered_lines,
    parsed,
    write_lines,
)
from kernelbandits.environments import Log
from kernelbandits.errors import InvalidContexts
from kernelbandits.types import Vector

__all__ = ["json_number", "read_dsjson", "read_features", "textual", "write_dsjson", "write_features"]

LARGEST: Final = sys.float_info.max


def json_number(value: Any, name: str) -> float:
    """Validate a finite number of a line."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not abs(value) <= LARGEST:  # also catches NaN
        raise Malformed(f"`{name}` must be a finite number, got {value!r}.")
    return float(value)


def read_features(described: Mapping[str, Any], namespace: str = "") -> FeatureValues:
    """Values by namespace and name; nested values have the namespace of the innermost object or list."""
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
    """Features such as `color=red` that are the string red called color in all of these rows.

    Vowpal Wabbit hashes a string differently from a number of the same name, so a feature must be the one or the
    other throughout: a string where all values are 1 or 0, no row has two colors, and nothing else is called color.
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
    """Name of a string feature, empty if it has none."""
    namespace, name = feature
    key, is_text, _ = name.partition("=")
    return namespace, key if is_text else ""


def write_features(values: FeatureValues, texts: Container[Feature] = ()) -> dict[str, Any]:
    """Features as an object: namespaces are objects in it, features without one are in it directly.

    Those of `texts` that have the value 1 become strings.
    """
    namespaces: dict[str, dict[str, Any]] = {}
    for (namespace, name), value in values.items():
        for word in filter(None, (namespace, name)):
            if word.startswith("_") or word == " ":
                raise InvalidContexts(f"Vowpal Wabbit ignores JSON names such as {word!r}. Rename the feature.")
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


OTHER_PROBLEMS: Final = ("_slots", "_outcomes")
"""Marks of lines with several decisions each: conditional bandits and slates."""


def read_dsjson(
    path: str | PathLike[str],
    *,
    layout: Layout = "pairs",
    vocabulary: Vocabulary | None = None,
    sparse: bool = True,
    on_error: OnError = "raise",
) -> VowpalLog:
    """Read logged decisions from a file of decision-service lines; `.gz` is decompressed.

    A line tells the cost `_label_cost` (reward = −cost), the probability `_label_probability`, the action shown
    (`_labelIndex` from 0, `_label_Action` from 1; where both are there they must agree) and, under `c`, the features
    that all actions share, with a list `_multi` of those of each action. Objects are namespaces; `"color": "red"` is
    the feature `color=red` of value 1, true is 1, false and null are nothing, numbers in a list are named by their
    place, words of `_text` are counted, other names that begin with `_` are passed over, all as Vowpal Wabbit reads
    them. `_tag` becomes the id of an action where all have one; `a` and `p` give `probabilities`. Flagged
    (`_skipLearn`) and unlabeled lines are left out and counted. `pdrop`, by which Vowpal Wabbit weighs events, and
    all other fields are passed over.

    Parameters
    ----------
    path
        The file.
    layout
        "pairs": rounds are `Pairs(context, actions)`, for pair kernels, or rows where the file has no shared feature.
        "joined": rows that hold the shared features and the action's own.
    vocabulary
        Known columns, such as those of an earlier log: other features are ignored and counted. None
        gives every feature of the file a column, sorted by namespace and name.
    sparse
        True: sparse rows of SciPy. False: dense rows.
    on_error
        "raise" an error that names the line and the rule it breaks, or "skip" and count it in `log.left_out`.

    Examples
    --------
    >>> log = Log([np.array([[0.5, 2.0], [1.0, 0.0]])], actions=[1], propensities=[0.25], rewards=[3.0])
    >>> write_dsjson(log, "decisions.json")
    >>> again = read_dsjson("decisions.json", sparse=False)
    >>> again.rounds[0].tolist(), again.rewards.tolist(), again.vocabulary.action
    ([[0.5, 2.0], [1.0, 0.0]], [3.0], (('Action', '0'), ('Action', '1')))
    """
    lines = ((number, line) for number, line in numbered_lines(path) if line.strip())
    events, left_out = parsed(lines, _event, path=path, on_error=on_error)
    return log_of(events, left_out, layout=layout, vocabulary=vocabulary, sparse=sparse)


def write_dsjson(log: Log, path: str | PathLike[str], *, vocabulary: Vocabulary | None = None) -> None:
    """Write a log as decision-service lines, compressed if the name ends in `.gz`.

    Cost = −reward. Dense rows are written with their zeros, so that no column is lost; of sparse rows what is stored.
    A feature `color=red` that is 1 or 0 throughout the log, in rows of one color each, is written as the string red
    called color, any other as a number: Vowpal Wabbit hashes the two differently. Ids become tags, hence strings. `a`
    begins with the action shown, as Vowpal Wabbit asks; `p` is written only where the log knows all probabilities (a
    `VowpalLog` that was read with them): one of them does not tell the others.

    Parameters
    ----------
    log
        Rounds must be rows of numbers, or `Pairs` of a row and rows.
    path
        The file.
    vocabulary
        Names of the columns; by default those that the log was read with, otherwise their numbers.
    """
    texts = textual(row for event in events_of(log, vocabulary) for row in (event.shared, *event.actions))
    events = enumerate(events_of(log, vocabulary))
    write_lines((json.dumps(_line(event, t, texts), allow_nan=False) for t, event in events), path)


# -- reading -----------------------------------------------------------------------------------------------------------


def _event(line: str) -> Event | Unused:
    fields = _object(line)
    if fields.get("_skipLearn") is True:
        return "skip_learn"
    if "_label_cost" not in fields:
        return "unlabeled"
    context = fields.get("c")
    if not isinstance(context, dict) or not isinstance(context.get("_multi"), list) or not context["_multi"]:
        raise Malformed("the actions of an event must be a list `_multi`, not empty, in its context `c`.")
    if any(name in part for name in OTHER_PROBLEMS for part in (context, fields)):
        raise Malformed("a line must hold one decision, and this one has slots (conditional bandits and slates).")
    actions = context.pop("_multi")
    if not all(isinstance(action, dict) for action in actions):
        raise Malformed("every action in `_multi` must be an object.")
    return Event(
        read_features(context),
        [read_features(action) for action in actions],
        [_tag(action) for action in actions],
        _chosen(fields, len(actions)),
        0.0 - json_number(fields["_label_cost"], "_label_cost"),
        _propensity(fields),
        _probabilities(fields, len(actions)),
    )


def _object(line: str) -> dict[str, Any]:
    try:
        fields = json.loads(line, object_pairs_hook=_without_repeats)
    except (ValueError, RecursionError) as error:  # no JSON, or a number of thousands of digits
        raise Malformed(f"a line must be one JSON object ({error}).") from error
    if not isinstance(fields, dict):
        raise Malformed(f"a line must be one JSON object, got {type(fields).__name__}.")
    return fields


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise Malformed(f"the names of an object must be unique, and {twice!r} occurs twice.")
    return fields


def _propensity(fields: Mapping[str, Any]) -> float:
    propensity = json_number(fields.get("_label_probability"), "_label_probability")
    if not 0.0 < propensity <= 1.0:
        raise Malformed(f"`_label_probability` must be above 0 and at most 1, got {propensity!r}.")
    return propensity


def _chosen(fields: Mapping[str, Any], n_actions: int) -> int:
    """Row of the chosen action: one field counts from 0, the other from 1."""
    bases = {"_labelIndex": 0, "_label_Action": 1}
    rows = {_index(fields[name], name, base) for name, base in bases.items() if name in fields}
    if len(rows) != 1:
        raise Malformed(
            "`_labelIndex` (from 0) and `_label_Action` (from 1) name the action shown, and must agree, got "
            f"{fields.get('_labelIndex')!r} and {fields.get('_label_Action')!r}."
        )
    (row,) = rows
    if not 0 <= row < n_actions:
        raise Malformed(f"the chosen action must be one of the {n_actions} in `_multi`, got index {row}.")
    return row


def _index(value: Any, name: str, base: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise Malformed(f"`{name}` must be a whole number, got {value!r}.")
    return value - base


def _probabilities(fields: Mapping[str, Any], n_actions: int) -> Vector | None:
    """Probabilities by row: `p` has them in the order of `a`, which counts from 1."""
    if fields.get("p") is None:
        return None
    all_actions = list(range(1, n_actions + 1))
    order, given = fields.get("a", all_actions), fields["p"]
    if not isinstance(order, list) or sorted(_index(action, "a", 0) for action in order) != all_actions:
        raise Malformed(f"`a` must hold every action from 1 to {n_actions} once, got {order!r}.")
    if not isinstance(given, list) or len(given) != n_actions:
        raise Malformed(f"`p` must have one probability for each of the {n_actions} actions, got {given!r}.")
    probabilities = np.empty(n_actions)
    probabilities[np.array(order) - 1] = [json_number(probability, "p") for probability in given]
    return probabilities


def _tag(action: Mapping[str, Any]) -> str | None:
    tag = action.get("_tag")
    return None if tag is None else str(tag)


# -- writing -----------------------------------------------------------------------------------------------------------


def _line(event: Event, t: int, texts: Container[Feature]) -> dict[str, Any]:
    n_actions, chosen = len(event.actions), event.chosen
    order = [chosen, *(row for row in range(n_actions) if row != chosen)]
    actions = [
        {**({} if tag is None else {"_tag": tag}), **write_features(values, texts)}
        for values, tag in zip(event.actions, event.tags, strict=True)
    ]
    line = {
        "_label_cost": 0.0 - event.reward,
        "_label_probability": event.propensity,
        "_label_Action": chosen + 1,
        "_labelIndex": chosen,
        "Version": "1",
        "EventId": str(t),
        "a": [row + 1 for row in order],
        "c": {**write_features(event.shared, texts), "_multi": actions},
    }
    if event.probabilities is not None:
        line["p"] = [float(event.probabilities[row]) for row in order]
    return line
