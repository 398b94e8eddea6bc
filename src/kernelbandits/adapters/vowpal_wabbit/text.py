"""Vowpal Wabbit's text format for actions with features (`--cb_adf`, `--cb_explore_adf`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import isfinite
from os import PathLike
from typing import Final

from kernelbandits.adapters.vowpal_wabbit.log import (
    Event,
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
from kernelbandits.environments.logged import single_actions
from kernelbandits.errors import InvalidContexts
from kernelbandits.evaluation.propensities import warn_if_estimated
from kernelbandits.validation import check_instance

__all__ = ["read_adf_text", "write_adf_text"]

BLANKS: Final = " \t\r\n"


def read_adf_text(
    path: str | PathLike[str],
    *,
    layout: Layout = "pairs",
    vocabulary: Vocabulary | None = None,
    sparse: bool = True,
    on_error: OnError = "raise",
) -> VowpalLog:
    r"""Read logged decisions from Vowpal Wabbit's multi-line text; `.gz` is decompressed.

    An event has one line per action, after a line that begins with `shared` if actions share features, and ends with a
    blank line. The logged action carries `0:cost:probability` (reward = −cost; the first number means nothing here).
    Behind each bar stand a namespace, or none, and features `name` or `name:value`; a namespace may have a weight,
    `|user:2`, and features without a name, `:0.5`, are named by their place. A tag, `'a7 |` or `a7|`, becomes the id
    of an action where all have one. Events without a cost are left out and counted.

    Parameters
    ----------
    path, layout, vocabulary, sparse, on_error
        As in `read_dsjson`; malformed events are omitted as a whole.

    Examples
    --------
    >>> from pathlib import Path
    >>> text = "shared |User age:3\n|Item color=red\n0:-1.5:0.25 |Item color=blue price:2\n"
    >>> _ = Path("decisions.txt").write_text(text)
    >>> log = read_adf_text("decisions.txt", sparse=False)
    >>> log.rounds[0].actions.tolist(), log.actions.tolist(), log.rewards.tolist()
    ([[0.0, 1.0, 0.0], [1.0, 0.0, 2.0]], [1], [1.5])
    >>> log.vocabulary.context
    (('User', 'age'),)
    """
    events, left_out = parsed(_blocks(numbered_lines(path)), _event, path=path, on_error=on_error)
    return log_of(events, left_out, layout=layout, vocabulary=vocabulary, sparse=sparse)


def write_adf_text(log: Log, path: str | PathLike[str], *, vocabulary: Vocabulary | None = None) -> None:
    """Write a log as multi-line text, compressed if the name ends in `.gz`.

    Cost = −reward. Dense rows are written with their zeros, so that no column is lost; of sparse rows what is stored.
    Ids become tags, hence strings; probabilities of other actions are not part of the format.

    Parameters
    ----------
    log, path, vocabulary
        As in `write_dsjson`. Names must not contain blanks, bars or colons.
    """
    check_instance(log, Log, "The log", "Build one: Log(rounds, actions, propensities, rewards).")
    single_actions(log, "The text format")
    warn_if_estimated(log)
    write_lines((line for event in events_of(log, vocabulary) for line in _lines(event)), path)


# -- reading -----------------------------------------------------------------------------------------------------------


def _blocks(lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, list[str]]]:
    """Lines up to the next blank one, with the number of the first."""
    block: list[str] = []
    first = 0
    for number, line in lines:
        if line.strip(BLANKS):
            first = first if block else number
            block.append(line)
        elif block:
            yield first, block
            block = []
    if block:
        yield first, block


def _event(block: list[str]) -> list[Event | Unused]:
    shared: FeatureValues = {}
    actions: list[FeatureValues] = []
    tags: list[str | None] = []
    labeled: list[tuple[int, float, float]] = []
    for place, line in enumerate(block):
        try:
            label, tag, features = _parts(line)
            if label == "shared":
                if place:
                    raise Malformed(
                        "`shared` must be on the first line of an event. A blank line ends the previous event."
                    )
                shared = features
                continue
            if label:
                labeled.append((len(actions), *_cost(label)))
        except Malformed as error:
            raise Malformed(str(error), place) from error
        actions.append(features)
        tags.append(tag)
    if not actions:
        raise Malformed("an event must have at least one action, got none.")
    if len(labeled) > 1:
        raise Malformed(f"exactly one action of an event must have a cost, got {len(labeled)}.")
    if not labeled:
        return ["unlabeled"]
    ((chosen, cost, propensity),) = labeled
    return [Event(shared, actions, tags, chosen, 0.0 - cost, propensity)]


def _parts(line: str) -> tuple[str, str | None, FeatureValues]:
    """Label, tag and features of a line. A word that touches the first bar, or begins with a quote, is a tag."""
    head, bar, rest = line.partition("|")
    if not bar:
        raise Malformed("a line must have a bar before its features: `0:cost:probability | features`.")
    words = _words(head)
    tag = None
    if words and (words[-1].startswith("'") or head[-1] not in BLANKS):
        tag = words.pop().removeprefix("'")
        if tag == "shared" or ":" in tag:
            raise Malformed(f"a word that touches the bar is a tag, and {tag!r} looks like a label. Insert a blank.")
    if len(words) > 1:
        raise Malformed(f"before the bar there must be a label and a tag, got {head.strip()!r}.")
    return words[0] if words else "", tag, _features(rest)


def _cost(label: str) -> tuple[float, float]:
    """Cost and probability of a label."""
    parts = label.split(":")
    if len(parts) != 3:
        raise Malformed(f"a label must be `action:cost:probability`, got {label!r}.")
    _number(parts[0], "action of a label")
    cost, propensity = _number(parts[1], "cost"), _number(parts[2], "probability")
    if not 0.0 < propensity <= 1.0:
        raise Malformed(f"the probability of a label must be above 0 and at most 1, got {propensity!r}.")
    return cost, propensity


def _features(text: str) -> FeatureValues:
    found: FeatureValues = {}
    for part in text.split("|"):
        namespace, weight = "", 1.0
        words = _words(part)
        if part and part[0] not in BLANKS and words:
            namespace, colon, scale = words.pop(0).partition(":")
            weight = _number(scale, "weight of a namespace") if colon else 1.0
        n_nameless = 0
        for word in words:
            name, colon, value = word.partition(":")
            if not name:
                name, n_nameless = str(n_nameless), n_nameless + 1
            number = _number(value, f"value of feature {name!r}") if colon else 1.0
            found[namespace, name] = found.get((namespace, name), 0.0) + weight * number
    return found


def _words(text: str) -> list[str]:
    return [word for word in text.replace("\t", " ").split(" ") if word]


def _number(text: str, name: str) -> float:
    try:
        number = float(text.replace("_", "?"))  # 1_000 is a number for Python, not for Vowpal Wabbit
    except ValueError as error:
        raise Malformed(f"the {name} must be a number, got {text!r}.") from error
    if not isfinite(number):
        raise Malformed(f"the {name} must be finite, got {text!r}.")
    return number


# -- writing -----------------------------------------------------------------------------------------------------------


def _lines(event: Event) -> Iterator[str]:
    if event.shared:
        yield f"shared {_text(event.shared)}"
    for row, (values, tag) in enumerate(zip(event.actions, event.tags, strict=True)):
        label = f"0:{0.0 - event.reward!r}:{event.propensity!r} " if row == event.chosen else ""
        yield label + ("" if tag is None else f"'{_tag(tag)} ") + _text(values)
    yield ""


def _text(values: FeatureValues) -> str:
    """Features by namespace, each namespace after a bar."""
    namespaces: dict[str, list[str]] = {}
    for (namespace, name), value in values.items():
        word = _plain(name, "feature")
        namespaces.setdefault(namespace, []).append(word if value == 1.0 else f"{word}:{value!r}")
    if not namespaces:
        return "|"
    return " ".join(
        f"|{_plain(namespace, 'namespace') if namespace else ''} {' '.join(words)}"
        for namespace, words in namespaces.items()
    )


def _tag(tag: str) -> str:
    if tag == "shared":
        raise InvalidContexts(
            "The id of an action must not be `shared`, which marks shared features in Vowpal Wabbit's text. Rename it."
        )
    return _plain(tag, "tag")


def _plain(word: str, what: str) -> str:
    is_lone = any("\ud800" <= sign <= "\udfff" for sign in word)  # half a character, which no file can hold
    if not word or is_lone or any(sign in BLANKS or sign in "|:" for sign in word):
        raise InvalidContexts(
            f"In Vowpal Wabbit's text a {what} must be a word without blanks, bars and colons, got {word!r}. Rename "
            "it, or write decision-service lines."
        )
    return word
