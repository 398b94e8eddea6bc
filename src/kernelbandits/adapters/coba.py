"""Adapter for coba: learners, environments and logs.

coba accepts any object with its methods, and its interactions are dictionaries, so this module does not import coba.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from numbers import Real
from typing import Any, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kernelbandits.environments import DrawnRounds, Log, Round
from kernelbandits.errors import InvalidContexts, InvalidParameter, NotSupported
from kernelbandits.policies import Policy
from kernelbandits.types import Decision, Pairs, Parameters, Points, Vector
from kernelbandits.validation import (
    MOST_NUMBERS,
    as_iterable,
    check_callable,
    check_int,
    check_mapping,
    is_one_of,
    short_repr,
)

__all__ = ["CobaEnvironment", "CobaLayout", "CobaLearner", "CobaPoints", "PointsOf", "from_coba"]

CobaLayout: TypeAlias = Literal["pairs", "joined", "actions"]
SPARSE_COLUMNS: Final = 1 << 20


class CobaPoints:
    """Conversion of a context and a set of actions of coba to the points of a round.

    Contexts and actions are converted by type: numbers and sequences of numbers are dense rows; categorical values are
    their one-hot rows, also within a sequence; a plain string is a string; mappings, and sequences that hold strings,
    are sparse rows. A sparse feature gets the next free column when it first occurs; a string value gets the column
    `name=value` with the value 1. There are no collisions. All rows have `sparse_columns` columns.

    Parameters
    ----------
    layout
        "pairs" gives `Pairs(context, actions)`, for pair kernels; "joined" one row per action with the context's
        columns and the action's, for any kernel of rows; "actions" omits the context. Without a context (None)
        rounds are the actions alone, whatever the layout.
    sparse_columns
        Columns of sparse rows, which is the largest number of features.

    Examples
    --------
    >>> points = CobaPoints("joined")
    >>> points((0.5, 2.0), [(1, 0), (0, 1)])
    array([[0.5, 2. , 1. , 0. ],
           [0.5, 2. , 0. , 1. ]])
    >>> points(None, ["red", "blue"])
    ['red', 'blue']
    """

    def __init__(self, layout: CobaLayout = "pairs", *, sparse_columns: int = SPARSE_COLUMNS) -> None:
        if not is_one_of(layout, ("pairs", "joined", "actions")):
            raise InvalidParameter(f"The layout must be 'pairs', 'joined' or 'actions', got {short_repr(layout)}.")
        self.layout = layout
        self._context_half = _Half(check_int(sparse_columns, "The number of sparse columns", most=MOST_NUMBERS))
        self._action_half = _Half(check_int(sparse_columns, "The number of sparse columns", most=MOST_NUMBERS))

    def __call__(self, context: Any, actions: Sequence[Any]) -> Points:
        """Return the points of a round, one per action."""
        points = self._action_half.points(actions)
        if context is None or self.layout == "actions":
            return points
        contexts = self._context_half.points([context])
        if self.layout == "joined":
            return _joined(contexts, points)
        return Pairs(contexts if hasattr(contexts, "tocsr") else contexts[0], points)


class _Half:
    """Points of contexts, or of actions, with their own columns."""

    def __init__(self, n_columns: int) -> None:
        self._n_columns = n_columns
        self._column: dict[str, int] = {}

    def points(self, things: Sequence[Any]) -> Points:
        if all(isinstance(thing, str) and not hasattr(thing, "as_onehot") for thing in things):
            return [str(thing) for thing in things]
        rows = [_numbers(thing) for thing in things]
        known = [row for row in rows if row is not None]
        if len(known) == len(rows) and len({len(row) for row in known}) == 1:
            return np.array(known)
        return self._sparse([_named(thing) for thing in things])

    def _sparse(self, described: Sequence[Mapping[str, float]]) -> Points:
        from scipy.sparse import csr_array

        known = [
            (row, self._place(name), value) for row, values in enumerate(described) for name, value in values.items()
        ]
        rows, columns, values = zip(*known, strict=True) if known else ((), (), ())
        places = np.array(rows, dtype=np.int64), np.array(columns, dtype=np.int64)
        return csr_array((np.array(values, dtype=np.float64), places), shape=(len(described), self._n_columns))

    def _place(self, name: str) -> int:
        column = self._column.setdefault(name, len(self._column))
        if column >= self._n_columns:
            del self._column[name]
            raise InvalidContexts(
                f"There are more than {self._n_columns} sparse features. Give more columns: "
                f"CobaPoints(sparse_columns={2 * self._n_columns})."
            )
        return column


def _numbers(thing: Any) -> NDArray[np.float64] | None:
    """Return a dense row, or None if there is no such form."""
    if isinstance(thing, Mapping) or hasattr(thing, "items"):
        return None
    members = [thing] if isinstance(thing, str | Real) else list(thing)
    numbers: list[float] = []
    for member in members:
        if hasattr(member, "as_onehot"):
            numbers.extend(member.as_onehot)
        elif isinstance(member, Real):
            numbers.append(float(member))
        else:
            return None
    return np.array(numbers)


def _named(thing: Any) -> dict[str, float]:
    """Return features by name: those of a mapping, or of a sequence by index."""
    if isinstance(thing, str | Real):
        pairs: Any = [("", thing)]
    else:
        pairs = thing.items() if hasattr(thing, "items") else enumerate(thing)
    named: dict[str, float] = {}
    for name, value in pairs:
        if isinstance(value, str):
            named[f"{name}={value}"] = 1.0
        elif isinstance(value, Real):
            named[str(name)] = float(value)
        else:
            raise InvalidContexts(f"A feature must be a number or a string, got {type(value).__name__} for {name!r}.")
    return named


def _joined(context: Points, actions: Points) -> Points:
    if isinstance(context, list) or isinstance(actions, list):
        raise InvalidContexts(
            "Strings cannot be joined to rows. Use CobaPoints('pairs') and a pair kernel, or a function of your own."
        )
    n_actions = actions.shape[0]
    if not hasattr(context, "tocsr") and not hasattr(actions, "tocsr"):
        return np.hstack([np.repeat(context, n_actions, axis=0), actions])
    from scipy.sparse import csr_array, hstack, vstack

    return csr_array(hstack([vstack([csr_array(context)] * n_actions), csr_array(actions)], format="csr"))


PointsOf: TypeAlias = Callable[[Any, Sequence[Any]], Points]
"""Points of a round from coba's context and actions."""


class CobaLearner:
    """A policy as a learner for coba's experiments (version 8).

    On-policy learning (`learn` with the decision that `predict` returned) is one `learn` of the
    policy. Off-policy learning, where the logged action has no decision, is a `warm_start`, which not every
    policy has. Batched interactions are processed one by one. Continuous actions (none are listed) are rejected.

    Parameters
    ----------
    policy
        Continues to learn from its current state; coba copies a learner that is used in several environments.
    points
        Function (context, actions) → points of the policy's kernel; `CobaPoints()` by default: pairs of context
        and action if there is a context, for policies with a pair kernel, and otherwise actions alone.

    Examples
    --------
    >>> from kernelbandits import KernelUCB
    >>> from kernelbandits.kernels import Gaussian
    >>> learner = CobaLearner(KernelUCB(Gaussian(length_scale=1.0)), CobaPoints("joined"))
    >>> action, probability, extra = learner.predict((0.5,), [(1, 0), (0, 1)])
    >>> learner.learn((0.5,), action, 1.0, probability, **extra)
    >>> action, probability, learner.score((0.5,), [(1, 0), (0, 1)], (1, 0))
    ((1, 0), 1.0, 1.0)
    """

    def __init__(self, policy: Policy, points: PointsOf | None = None) -> None:
        if not isinstance(policy, Policy):
            raise InvalidParameter(f"A learner must be built from a policy, got {type(policy).__name__}.")
        self.policy = policy
        self.points: PointsOf = CobaPoints() if points is None else check_callable(points, "`points`")

    @property
    def params(self) -> Mapping[str, Any]:
        """Parameters of the policy: columns of coba's table of learners."""
        described = self.policy.describe()
        plain = {name: value if _is_plain(value) else str(value) for name, value in described.items()}
        return {"family": plain.pop("class"), **plain}

    def predict(self, context: Any, actions: Sequence[Any]) -> tuple[Any, float, dict[str, Decision]]:
        """Return the action, its probability, and the decision, which coba passes to `learn`."""
        decision = self.policy.choose(self._points(context, actions))
        return actions[decision.action], decision.propensity, {"decision": decision}

    def score(self, context: Any, actions: Sequence[Any], action: Any) -> float:
        """Return the probability of this action."""
        points = self._points(context, actions)
        return float(self.policy.probabilities(points)[_row(actions, action)])

    def learn(
        self, context: Any, action: Any, reward: float, probability: float | None, decision: Decision | None = None
    ) -> None:
        """Update the policy with the reward of an action."""
        if decision is not None:
            self.policy.learn(decision, reward)
        else:
            self.policy.warm_start(self._points(context, [action]), [reward])

    def _points(self, context: Any, actions: Sequence[Any] | None) -> Points:
        if hasattr(context, "is_batch") or hasattr(actions, "is_batch"):
            raise NotSupported("Interactions must be passed one by one, got a batch.")  # coba then does so
        if actions is None or not len(actions):
            raise NotSupported("The actions of a round must be listed; continuous actions are not supported.")
        return self.points(context, actions)


def from_coba(interactions: Iterable[Mapping[str, Any]], *, points: PointsOf | None = None) -> Log:
    """Read a log from coba's logged interactions, or from an environment that has them.

    Parameters
    ----------
    interactions
        Each with `action`, `reward`, `probability`, `actions`, and `context` if there is one.
    points
        As in `CobaLearner`.

    Examples
    --------
    >>> logged = [{"context": None, "actions": ["a", "b"], "action": "b", "reward": 2.0, "probability": 0.25}]
    >>> log = from_coba(logged)
    >>> log.rounds, log.actions.tolist(), log.propensities.tolist()
    ([['a', 'b']], [1], [0.25])
    """
    to_points = CobaPoints() if points is None else check_callable(points, "`points`")
    listed = list(_read(interactions))
    for t, interaction in enumerate(listed):
        _require(interaction, ("action", "actions", "reward", "probability"), t)
    return Log(
        [to_points(interaction.get("context"), interaction["actions"]) for interaction in listed],
        np.array([_row(interaction["actions"], interaction["action"]) for interaction in listed], dtype=np.intp),
        np.array([interaction["probability"] for interaction in listed], dtype=np.float64),
        np.array([interaction["reward"] for interaction in listed], dtype=np.float64),
    )


class CobaEnvironment:
    """Simulated environment of coba as an environment for `simulate`, with coba's rounds in their order.

    All random numbers were drawn by coba when the environment was built, so every run has the same rounds. Expected
    rewards are not known.

    Parameters
    ----------
    environment
        An object whose `read()` returns interactions with `actions` and `rewards`; or the interactions, as a list.
    points
        As in `CobaLearner`. Sparse features get columns when they first occur, so one object serves all runs.

    Examples
    --------
    >>> rounds = [{"context": None, "actions": [(1, 0), (0, 1)], "rewards": [0.25, 0.5]}]
    >>> world = CobaEnvironment(rounds).start(np.random.default_rng(0))
    >>> world.observe().contexts.tolist(), world.reward(1)
    ([[1.0, 0.0], [0.0, 1.0]], 0.5)
    """

    def __init__(self, environment: Any, *, points: PointsOf | None = None) -> None:
        if not hasattr(environment, "read") and not isinstance(environment, Sequence):
            raise InvalidParameter(
                f"The environment must be one of coba, or a list of interactions, got {type(environment).__name__}."
            )
        self._environment = environment
        self._points: PointsOf = CobaPoints() if points is None else check_callable(points, "`points`")

    @property
    def reward_range(self) -> tuple[float, float] | None:
        """Range of rewards, which is unknown."""
        return None

    def start(self, rng: np.random.Generator) -> DrawnRounds:
        """Start a run. No random numbers are drawn."""
        return DrawnRounds(self._rounds())

    def describe(self) -> Parameters:
        """Return coba's parameters of the environment as plain values, or a digest of a list of interactions."""
        params = getattr(self._environment, "params", {})
        plain = {str(name): value if _is_plain(value) else str(value) for name, value in params.items()}
        described = {"class": type(self).__name__, "environment": type(self._environment).__name__, "parameters": plain}
        return described if hasattr(self._environment, "read") else {**described, "digest": self._digest()}

    def _digest(self) -> str:
        digest = hashlib.sha256()
        for interaction in _read(self._environment):
            content = (interaction.get("context"), interaction.get("actions"), _rewards(interaction).tolist())
            digest.update(repr(content).encode())
        return digest.hexdigest()[:16]

    def _rounds(self) -> Iterator[tuple[Round, Vector]]:
        for t, interaction in enumerate(_read(self._environment)):
            _require(interaction, ("actions", "rewards"), t)
            yield Round(self._points(interaction.get("context"), interaction["actions"])), _rewards(interaction)


def _read(interactions: Any) -> Iterator[Mapping[str, Any]]:
    given = as_iterable(interactions.read() if hasattr(interactions, "read") else interactions)
    if not isinstance(given, Iterable) or hasattr(given, "tocsr") or getattr(given, "ndim", 1) == 0:
        raise InvalidParameter(f"Interactions must be those of coba, got {short_repr(given)}.")
    for interaction in given:
        yield check_mapping(interaction, "The parts of an interaction")


def _rewards(interaction: Mapping[str, Any]) -> Vector:
    """Return the reward of each action: coba has a list, or a function of the action."""
    rewards = interaction["rewards"]
    return np.array(
        [rewards(action) for action in interaction["actions"]] if callable(rewards) else rewards, dtype=float
    )


def _require(interaction: Mapping[str, Any], names: Sequence[str], t: int) -> None:
    missing = [name for name in names if interaction.get(name) is None]
    if missing:
        raise InvalidParameter(
            f"Interaction {t} has no {' and no '.join(missing)}. Logged interactions have action, actions, reward and "
            "probability; simulated ones actions and rewards."
        )


def _row(actions: Sequence[Any], action: Any) -> int:
    """Return the index of an action among those of the round."""
    for row, candidate in enumerate(actions):
        if candidate is action or candidate == action:
            return row
    raise InvalidParameter(f"The action {action!r} is not among the {len(actions)} of its round.")


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, bool | int | float | str)
