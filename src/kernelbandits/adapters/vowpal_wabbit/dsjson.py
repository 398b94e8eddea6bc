"""Vowpal Wabbit's decision-service format (`--dsjson`)."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from functools import partial
from os import PathLike, fspath
from typing import Any, Final, Literal, NamedTuple, TypeAlias

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
from kernelbandits.environments.logged import ROUNDED_SUM
from kernelbandits.errors import ForeignFile, InvalidContexts, InvalidParameter
from kernelbandits.evaluation.propensities import warn_if_estimated
from kernelbandits.types import Vector
from kernelbandits.validation import check_int, is_one_of, short_repr

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


SlotForm: TypeAlias = Literal["slates", "decisions"]


def read_dsjson(
    path: str | PathLike[str],
    *,
    layout: Layout = "pairs",
    vocabulary: Vocabulary | None = None,
    sparse: bool = True,
    on_error: OnError = "raise",
    slots: SlotForm | int = "slates",
) -> VowpalLog:
    """Read logged decisions from a file of decision-service lines; `.gz` is decompressed.

    A line tells the cost `_label_cost` (reward = −cost), the probability `_label_probability`, the logged action
    (`_labelIndex` from 0, `_label_Action` from 1; where both are there they must agree) and, under `c`, the features
    that all actions share, with a list `_multi` of those of each action. Objects are namespaces; `"color": "red"` is
    the feature `color=red` of value 1, true is 1, false and null are nothing, numbers in a list are named by their
    place, words of `_text` are counted, other names that begin with `_` are skipped, all as Vowpal Wabbit reads
    them. `_tag` becomes the id of an action where all have one; `a` and `p` give `probabilities`. Flagged
    (`_skipLearn`) and unlabeled lines are left out and counted. `pdrop`, by which Vowpal Wabbit weighs events, and
    all other fields are skipped.

    A line with several slots (`_slots`, `_outcomes`) is a slate: the slots of a conditional contextual bandit are its
    places, with a cost and a probability given the slots above each, and actions counted from 0 (`_a`, `_p`). Slots
    whose actions are restricted (`_inc`), and those of slates (actions with a `_slot_id`, one `_label_cost` for all),
    have actions of their own; they are read with `slots="decisions"`.

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
        "raise" an error that names the line and the rule it breaks, or "skip" and count it in `log.left_out`. "raise"
        also rejects a file without any decision that has a cost, or without any slate of the length `slots`.
    slots
        Form of lines with several slots. "slates": one round of a log of slates, all of the same length; what
        describes the slots themselves is left out, and a line with a single decision becomes a slate of one. A number:
        the slates of that length only; others are counted in `log.left_out`. "decisions": each slot is a round of
        its own, as in Vowpal Wabbit, among the actions that it had left, with the features of the line, of the slot,
        and `place=0`, `place=1`, … in the namespace Slot. One cost of a whole line is the cost of each of its slots.

    Examples
    --------
    >>> log = Log([np.array([[0.5, 2.0], [1.0, 0.0]])], actions=[1], propensities=[0.25], rewards=[3.0])
    >>> write_dsjson(log, "decisions.json")
    >>> again = read_dsjson("decisions.json", sparse=False)
    >>> again.rounds[0].tolist(), again.rewards.tolist(), again.vocabulary.action
    ([[0.5, 2.0], [1.0, 0.0]], [3.0], (('Action', '0'), ('Action', '1')))
    """
    k = None
    if not isinstance(slots, str):
        k = check_int(slots, "The length of the slates (`slots`, or 'slates' or 'decisions')")
    elif not is_one_of(slots, ("slates", "decisions")):
        raise InvalidParameter(
            f"`slots` must be 'slates', 'decisions' or the length of the slates, got {short_repr(slots)}."
        )
    parse = partial(_events, slots="decisions" if slots == "decisions" else "slates")
    lines = ((number, line) for number, line in numbered_lines(path) if line.strip())
    events, left_out = parsed(lines, parse, path=path, on_error=on_error)
    if slots != "decisions":
        events, left_out = _of_one_length(events, left_out, k, path, on_error)
    return log_of(events, left_out, layout=layout, vocabulary=vocabulary, sparse=sparse)


def write_dsjson(log: Log, path: str | PathLike[str], *, vocabulary: Vocabulary | None = None) -> None:
    """Write a log as decision-service lines, compressed if the name ends in `.gz`.

    Cost = −reward. Dense rows are written with their zeros, so that no column is lost; of sparse rows what is stored.
    A feature `color=red` that is 1 or 0 throughout the log, in rows of one color each, is written as the string red
    called color, any other as a number: Vowpal Wabbit hashes the two differently. Ids become tags, hence strings.
    Slates become lines of a conditional contextual bandit, with a slot for each place. `a` begins with the logged
    action, as Vowpal Wabbit asks; `p` is written only where the log knows all probabilities: one of them
    does not tell the others.

    Parameters
    ----------
    log
        Rounds must be rows of numbers, or `Pairs` of a row and rows.
    path
        The file.
    vocabulary
        Names of the columns; by default those that the log was read with, otherwise their numbers.
    """
    warn_if_estimated(log)
    texts = textual(row for event in events_of(log, vocabulary) for row in (event.shared, *event.actions))
    events = enumerate(events_of(log, vocabulary))
    write_lines((json.dumps(_line(event, t, texts), allow_nan=False) for t, event in events), path)


# -- reading -----------------------------------------------------------------------------------------------------------


def _events(line: str, slots: SlotForm) -> Iterator[Event | Unused]:
    fields = _object(line)
    if fields.get("_skipLearn") is True:
        yield "skip_learn"
        return
    context = fields.get("c")
    has_slots = isinstance(context, dict) and "_slots" in context
    if "_label_cost" not in fields and not (has_slots and "_outcomes" in fields):
        yield "unlabeled"
        return
    if not isinstance(context, dict) or not isinstance(context.get("_multi"), list) or not context["_multi"]:
        raise Malformed("the actions of an event must be a list `_multi`, not empty, in its context `c`.")
    actions = context.pop("_multi")
    if not all(isinstance(action, dict) for action in actions):
        raise Malformed("every action in `_multi` must be an object.")
    if any("__aid" in action for action in actions):
        raise Malformed("actions must be written out, and `__aid` refers to another line. Expand them first.")
    if has_slots:
        decided = _slot_decisions(fields, context.pop("_slots"), actions)
        shared, described = read_features(context), [read_features(action) for action in actions]
        tags = [_tag(action) for action in actions]
        form = _slate if slots == "slates" else _decisions
        yield from form(decided, shared, described, tags)
        return
    if "_outcomes" in fields:
        raise Malformed("`_outcomes` must belong to a list `_slots` in the context `c`, and there is none.")
    yield Event(
        read_features(context),
        [read_features(action) for action in actions],
        [_tag(action) for action in actions],
        _chosen(fields, len(actions)),
        0.0 - json_number(fields["_label_cost"], "_label_cost"),
        _propensity(fields),
        _probabilities(fields, len(actions)),
    )


class _Slot(NamedTuple):
    """One slot of a line: what it could show, and what it showed."""

    features: FeatureValues
    available: list[int]
    """Rows of the actions, in order."""
    is_restricted: bool
    """Whether actions are missing that stand in no slot above."""
    ranked: list[int]
    """Rows as logged, the action that was shown first."""
    shares: list[float]
    """Their probabilities, given the slots above."""
    cost: float | None


def _slot_decisions(fields: Mapping[str, Any], slots: Any, actions: list[dict[str, Any]]) -> list[_Slot]:
    """Slots of a line: of a conditional bandit, or of slates, where each slot has its own actions (`_slot_id`)."""
    outcomes = fields.get("_outcomes")
    if not isinstance(slots, list) or not slots or not all(isinstance(slot, dict) for slot in slots):
        raise Malformed("`_slots` must be a list of objects, not empty.")
    if not isinstance(outcomes, list) or len(outcomes) != len(slots):
        n_outcomes = len(outcomes) if isinstance(outcomes, list) else 0
        raise Malformed(f"`_outcomes` must have an entry for each of the {len(slots)} slots, got {n_outcomes}.")
    pools = _pools(slots, actions)
    found: list[_Slot] = []
    for place, (slot, outcome) in enumerate(zip(slots, outcomes, strict=True)):
        if not isinstance(outcome, dict):
            raise Malformed("every entry of `_outcomes` must be an object.")
        above = {earlier.ranked[0] for earlier in found}
        left = [row for row in range(len(actions)) if row not in above]
        available = left if pools is None else pools[place]
        if slot.get("_inc"):
            included = _rows(slot["_inc"], "_inc", len(actions))
            available = [row for row in available if row in included]
        ranked = _rows(outcome.get("_a"), "_a", len(actions if pools is None else pools[place]))
        if pools is not None:
            ranked = [pools[place][number] for number in ranked]
        if ranked[0] not in available:
            raise Malformed(
                f"slot {place} must show one of its actions that stands in no slot above, got action {ranked[0]}."
            )
        cost = outcome.get("_label_cost", fields.get("_label_cost"))
        found.append(
            _Slot(
                read_features(slot),
                available,
                len(available) < len(left),
                ranked,
                _shares(outcome.get("_p"), len(ranked)),
                None if cost is None else json_number(cost, "_label_cost"),
            )
        )
    return found


def _pools(slots: list[Any], actions: list[dict[str, Any]]) -> list[list[int]] | None:
    """Rows of the actions of each slot, where actions have a `_slot_id`."""
    if not any("_slot_id" in action for action in actions):
        return None
    owners = [_index(action.get("_slot_id"), "_slot_id", 0) for action in actions]
    for owner in owners:
        if not 0 <= owner < len(slots):
            raise Malformed(f"`_slot_id` must be the number of one of the {len(slots)} slots, from 0, got {owner}.")
    return [[row for row, owner in enumerate(owners) if owner == place] for place in range(len(slots))]


def _rows(value: Any, name: str, n_actions: int) -> list[int]:
    """Distinct rows from 0; one number is a list of one."""
    rows = [_index(row, name, 0) for row in (value if isinstance(value, list) else [value])]
    if not rows or len(set(rows)) < len(rows) or not all(0 <= row < n_actions for row in rows):
        raise Malformed(f"`{name}` must hold different actions from 0 to {n_actions - 1}, got {value!r}.")
    return rows


def _shares(value: Any, n_ranked: int) -> list[float]:
    shares = [json_number(share, "_p") for share in (value if isinstance(value, list) else [value])]
    if len(shares) != n_ranked:
        raise Malformed(f"`_p` must have one probability for each of the {n_ranked} actions in `_a`, got {value!r}.")
    if not 0.0 < shares[0] <= 1.0:
        raise Malformed(f"the probability of the logged action must be above 0 and at most 1, got {shares[0]!r}.")
    return shares


def _slate(
    slots: list[_Slot], shared: FeatureValues, actions: list[FeatureValues], tags: list[str | None]
) -> Iterator[Event | Unused]:
    """The slots of a line as one slate; what describes the slots themselves has no place in it."""
    costs = [slot.cost for slot in slots if slot.cost is not None]
    if any(slot.is_restricted for slot in slots):
        raise ForeignFile(
            "The slots of this file have actions of their own (`_slot_id`, `_inc`), and the places of a slate share "
            'theirs. Read each slot as a decision: read_dsjson(path, slots="decisions").'
        )
    if len(costs) < len(slots):
        yield "unlabeled"
        return
    chosen, shares = tuple(slot.ranked[0] for slot in slots), tuple(slot.shares[0] for slot in slots)
    yield Event(shared, actions, tags, chosen, tuple(0.0 - cost for cost in costs), shares)


def _decisions(
    slots: list[_Slot], shared: FeatureValues, actions: list[FeatureValues], tags: list[str | None]
) -> Iterator[Event | Unused]:
    """Each slot as a decision among its actions, described by the line, by the slot and by its place."""
    for place, slot in enumerate(slots):
        if slot.cost is None:
            yield "unlabeled"
            continue
        described = dict(shared)
        for feature, value in {**slot.features, ("Slot", f"place={place}"): 1.0}.items():
            described[feature] = described.get(feature, 0.0) + value
        known = dict(zip(slot.ranked, slot.shares, strict=True))
        is_complete = known.keys() == set(slot.available)
        yield Event(
            described,
            [actions[row] for row in slot.available],
            [tags[row] for row in slot.available],
            slot.available.index(slot.ranked[0]),
            0.0 - slot.cost,
            slot.shares[0],
            _distribution(np.array([known[row] for row in slot.available]), "_p") if is_complete else None,
        )


def _of_one_length(
    events: list[Event], left_out: dict[str, int], k: int | None, path: str | PathLike[str], on_error: OnError
) -> tuple[list[Event], dict[str, int]]:
    """Slates of one length: the only one, or those of length k. A decision among slates is a slate of one."""
    if k is None and not any(isinstance(event.chosen, tuple) for event in events):
        return events, left_out
    slates = [event if isinstance(event.chosen, tuple) else _slate_of_one(event) for event in events]
    lengths = Counter(len(event.chosen) for event in slates)
    listed = ", ".join(f"{count:,} of {length}" for length, count in sorted(lengths.items()))
    if k is not None and slates and k not in lengths and on_error == "raise":
        raise ForeignFile(
            f"{fspath(path)!r} holds no slate of length {k}, but {listed}. Read those of one length: "
            f'slots={max(lengths)}; or each slot as a decision: slots="decisions".'
        )
    if k is None and len(lengths) > 1:
        raise ForeignFile(
            f"The slates of a log have one length, and {fspath(path)!r} holds {listed}. Read those of one length: "
            f'slots={max(lengths)}; or each slot as a decision: slots="decisions".'
        )
    kept = [event for event in slates if k in (None, len(event.chosen))]
    return kept, {**left_out, "other_lengths": len(slates) - len(kept)}


def _slate_of_one(event: Event) -> Event:
    chosen, reward, propensity = ((value,) for value in (event.chosen, event.reward, event.propensity))
    return event._replace(chosen=chosen, reward=reward, propensity=propensity, probabilities=None)


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
            "`_labelIndex` (from 0) and `_label_Action` (from 1) name the logged action, and must agree, got "
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
    """Probabilities by row: `p` has them in the order of `a`, which counts from 1, or from 0 if it holds a 0."""
    if fields.get("p") is None:
        return None
    order, given = fields.get("a", list(range(n_actions))), fields["p"]
    numbers = sorted(_index(action, "a", 0) for action in order) if isinstance(order, list) else []
    first = numbers[0] if numbers else 1
    if first not in (0, 1) or numbers != list(range(first, first + n_actions)):
        raise Malformed(f"`a` must hold every action from 1 to {n_actions}, or from 0, once, got {order!r}.")
    if not isinstance(given, list) or len(given) != n_actions:
        raise Malformed(f"`p` must have one probability for each of the {n_actions} actions, got {given!r}.")
    probabilities = np.empty(n_actions)
    probabilities[np.array(order) - first] = [json_number(probability, "p") for probability in given]
    return _distribution(probabilities, "p")


def _distribution(probabilities: Vector, name: str) -> Vector:
    is_right = ((probabilities >= 0.0) & (probabilities <= 1.0)).all()
    if not is_right or abs(float(probabilities.sum()) - 1.0) > ROUNDED_SUM:
        raise Malformed(
            f"`{name}` must hold probabilities of all actions, from 0 to 1 with the sum 1, got "
            f"{short_repr(probabilities.tolist())}."
        )
    return probabilities


def _tag(action: Mapping[str, Any]) -> str | None:
    tag = action.get("_tag")
    return None if tag is None else str(tag)


# -- writing -----------------------------------------------------------------------------------------------------------


def _line(event: Event, t: int, texts: Container[Feature]) -> dict[str, Any]:
    actions = [
        {**({} if tag is None else {"_tag": tag}), **write_features(values, texts)}
        for values, tag in zip(event.actions, event.tags, strict=True)
    ]
    context = {**write_features(event.shared, texts), "_multi": actions}
    if isinstance(event.chosen, tuple):
        places = zip(event.chosen, event.propensity, event.reward, strict=True)
        outcomes: list[dict[str, Any]] = [
            {"_label_cost": 0.0 - reward, "_a": [row], "_p": [share]} for row, share, reward in places
        ]
        context["_slots"] = [{} for _ in outcomes]
        return {"Version": "1", "EventId": str(t), "c": context, "_outcomes": outcomes}
    n_actions, chosen = len(event.actions), event.chosen
    order = [chosen, *(row for row in range(n_actions) if row != chosen)]
    line = {
        "_label_cost": 0.0 - event.reward,
        "_label_probability": event.propensity,
        "_label_Action": chosen + 1,
        "_labelIndex": chosen,
        "Version": "1",
        "EventId": str(t),
        "a": [row + 1 for row in order],
        "c": context,
    }
    if event.probabilities is not None:
        line["p"] = [float(event.probabilities[row]) for row in order]
    return line
