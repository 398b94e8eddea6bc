"""Adapter for the Open Bandit Pipeline (Saito et al. 2021): logs from and to its `bandit_feedback` dictionaries.

The format is a plain dictionary of arrays, so this module does not import obp.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelbandits._sparse import sound
from kernelbandits.environments import Log
from kernelbandits.environments.logged import single_actions
from kernelbandits.errors import InvalidContexts, InvalidParameter, NotSupported
from kernelbandits.evaluation.propensities import warn_if_estimated
from kernelbandits.types import Matrix, Pairs, Points
from kernelbandits.validation import check_array, check_instance, check_int, check_mapping, check_vector

__all__ = ["from_obp", "to_obp"]


def to_obp(log: Log, *, expected_reward: ArrayLike | None = None) -> dict[str, Any]:
    """Log as `bandit_feedback`: n_rounds, n_actions, context, action_context, action, position, reward, pscore.

    The format has one fixed set of actions, so all rounds must have the same actions in the same order.

    Parameters
    ----------
    log
        Rounds are `Pairs` of a context row and the actions' rows, or the actions' rows alone: then `context` has no
        columns. Sparse rows become dense; ids are not part of the format and are omitted.
    expected_reward
        Expected reward of each action in each round, if known: rounds × actions.

    Examples
    --------
    >>> actions = np.eye(2)
    >>> rounds = [Pairs([0.5], actions), Pairs([0.7], actions)]
    >>> log = Log(rounds, actions=[1, 0], propensities=[0.4, 0.6], rewards=[2.0, 0.0])
    >>> feedback = to_obp(log)
    >>> feedback["n_actions"], feedback["context"].tolist(), feedback["pscore"].tolist()
    (2, [[0.5], [0.7]], [0.4, 0.6])
    """
    check_instance(log, Log, "The log", "Build one: Log(rounds, actions, propensities, rewards).")
    if not len(single_actions(log, "The format")):
        raise InvalidParameter(
            "The log must have at least one round, got none: the format needs the numbers of actions and columns."
        )
    warn_if_estimated(log)
    shared = _dense(_actions(log.rounds[0]), 0)
    for t, points in enumerate(log.rounds):
        _check_same_actions(shared, log.rounds[0], points, t)
    feedback: dict[str, Any] = {
        "n_rounds": len(log),
        "n_actions": len(shared),
        "context": _contexts(log),
        "action_context": shared,
        "action": log.actions.astype(np.int64),
        "position": None,
        "reward": log.rewards.copy(),
        "pscore": log.propensities.copy(),
    }
    if expected_reward is not None:
        known = check_array(expected_reward, "Expected rewards")
        if known.shape != (len(log), len(shared)):
            raise InvalidParameter(
                f"Expected rewards must be rounds × actions, {(len(log), len(shared))}, got shape {known.shape}."
            )
        feedback["expected_reward"] = known
    return feedback


def from_obp(feedback: Mapping[str, Any], *, position: int | None = None) -> Log:
    """Return `bandit_feedback` as a log; rounds are `Pairs` of the round's context and the actions.

    If `context` is missing or has no columns, rounds are the actions' rows alone. If `action_context` is missing,
    actions are the unit vectors. Expected rewards are not part of a log and are omitted.

    Parameters
    ----------
    feedback
        At least `action`, `reward`, `pscore`, and `n_actions` or `action_context`.
    position
        Position in the list of recommendations whose rounds are used; required if there are several.

    Examples
    --------
    >>> feedback = {"n_actions": 3, "context": [[0.5], [0.7]], "action": [2, 0], "reward": [1, 0], "pscore": [0.2, 0.5]}
    >>> log = from_obp(feedback)
    >>> log.rounds[1].context, log.n_actions.tolist()
    (array([0.7]), [3, 3])
    """
    check_mapping(feedback, "The arrays of feedback")
    position = None if position is None else check_int(position, "The position", least=0)
    missing = [name for name in ("action", "reward", "pscore") if feedback.get(name) is None]
    if missing:
        raise InvalidParameter(f"The feedback must have action, reward and pscore; it has no {', '.join(missing)}.")
    actions = _action_context(feedback)
    chosen = np.atleast_1d(feedback["action"])
    selected = _rounds_at(feedback.get("position"), position, len(chosen))
    return Log(
        _rounds(feedback.get("context"), actions, len(chosen)),
        chosen,
        check_vector(feedback["pscore"], "The pscore of feedback"),
        check_vector(feedback["reward"], "The rewards of feedback"),
    )[selected]


def _actions(points: Points) -> Points:
    return points.actions if isinstance(points, Pairs) else points


def _dense(points: Points, t: int) -> Matrix:
    rows = sound(points).toarray() if hasattr(points, "tocsr") else np.asarray(points)
    if rows.ndim != 2 or rows.dtype.kind not in "buif":
        raise InvalidContexts(
            f"Actions of the Open Bandit Pipeline must be rows of numbers, got {type(points).__name__} in round "
            f"{t}. Describe every action by features first."
        )
    return np.array(rows, dtype=np.float64)


def _check_same_actions(shared: Matrix, first: Points, points: Points, t: int) -> None:
    if isinstance(points, Pairs) != isinstance(first, Pairs):
        raise NotSupported(f"All rounds must have a shared context, or none; round {t} differs from round 0.")
    if _actions(points) is not _actions(first) and not np.array_equal(_dense(_actions(points), t), shared):
        raise NotSupported(
            f"The Open Bandit Pipeline has one set of actions for all rounds, and round {t} has others than round 0. "
            "Select rounds that share a set: log[rows]."
        )


def _contexts(log: Log) -> Matrix:
    rows = [_context_row(points.context, t) for t, points in enumerate(log.rounds) if isinstance(points, Pairs)]
    if len({len(row) for row in rows}) > 1:
        raise InvalidContexts("The contexts of all rounds must be equally long.")
    return np.array(rows) if rows else np.zeros((len(log), 0))


def _context_row(context: Any, t: int) -> NDArray[np.float64]:
    (row,) = _dense(context if hasattr(context, "tocsr") else np.atleast_2d(context), t)
    return np.asarray(row)


def _action_context(feedback: Mapping[str, Any]) -> Matrix:
    described = feedback.get("action_context")
    if described is None and feedback.get("n_actions") is None:
        raise InvalidParameter("The feedback must have n_actions or action_context, and has neither.")
    given = feedback.get("n_actions")
    n_actions = None if given is None else check_int(given, "n_actions of feedback")
    actions = np.eye(n_actions or 0) if described is None else check_array(described, "Actions of feedback")
    if actions.ndim != 2 or len(actions) != (n_actions or len(actions)):
        raise InvalidParameter(
            f"action_context must have a row for each of the {n_actions} actions, got shape {actions.shape}."
        )
    actions.setflags(write=False)  # shared by all rounds
    return actions


def _rounds(context: Any, actions: Matrix, n_rounds: int) -> list[Points]:
    contexts = np.zeros((n_rounds, 0)) if context is None else check_array(context, "Contexts of feedback")
    if contexts.ndim != 2 or len(contexts) != n_rounds:
        raise InvalidParameter(
            f"The context of feedback must have one row per round, {n_rounds} in all, got shape {contexts.shape}."
        )
    return [Pairs(row, actions) if len(row) else actions for row in contexts]


def _rounds_at(positions: Any, position: int | None, n_rounds: int) -> NDArray[np.bool_]:
    """Return a mask of the rounds at this position."""
    if positions is None:
        if position not in (None, 0):
            raise InvalidParameter(f"The feedback has no positions, so there is no position {position!r}.")
        return np.ones(n_rounds, dtype=bool)
    places = np.asarray(positions)
    if places.shape != (n_rounds,):
        raise InvalidParameter(
            f"The position of feedback must be one per round, {n_rounds} in all, got shape {places.shape}."
        )
    if position is not None and n_rounds and not (places == position).any():
        raise InvalidParameter(f"No round has position {position!r}; there are {np.unique(places).tolist()}.")
    if position is None and len(np.unique(places)) > 1:
        raise InvalidParameter(
            f"The feedback has rounds of {len(np.unique(places))} positions, whose rewards are not comparable. "
            f"Choose one: position={places.min()}."
        )
    return np.ones(n_rounds, dtype=bool) if position is None else places == position
