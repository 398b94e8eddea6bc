"""Policies as learners of coba, and coba's interactions as logs and worlds.

coba takes anything that has its methods, and its interactions are dictionaries, so nothing has to be installed here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from kernelbandits.adapters.coba_points import CobaPoints
from kernelbandits.checks import a_function, a_mapping, shown
from kernelbandits.environments import DrawnRounds, Log, Round
from kernelbandits.errors import InvalidParameter, NotSupported
from kernelbandits.policies import Policy
from kernelbandits.types import Decision, Parameters, Points, Vector

__all__ = ["CobaEnvironment", "CobaLearner", "PointsOf", "from_coba"]

PointsOf: TypeAlias = Callable[[Any, Sequence[Any]], Points]
"""Points of a round from coba's context and actions."""


class CobaLearner:
    """A policy as a learner for coba's experiments (version 8).

    What is learnt on coba's own account (`learn` with the decision that `predict` gave along) is one `learn` of the
    policy; off-policy learning, where the logged action comes without a decision, is a `warm_start`, which not every
    policy has. Batched interactions are taken one by one. Continuous actions (none are listed) are refused.

    Parameters
    ----------
    policy
        Goes on learning from where it is; coba copies a learner that meets several environments.
    points
        Function (context, actions) → points that the policy understands; `CobaPoints()` by default: pairs of context
        and action where there is a context, for policies with a pair kernel, and actions alone where there is none.

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
            raise InvalidParameter(f"A learner is made of a policy, got {type(policy).__name__}.")
        self.policy = policy
        self.points: PointsOf = CobaPoints() if points is None else a_function(points, "`points`")

    @property
    def params(self) -> Mapping[str, Any]:
        """Parameters of the policy: columns of coba's table of learners."""
        described = self.policy.describe()
        plain = {name: value if _is_plain(value) else str(value) for name, value in described.items()}
        return {"family": plain.pop("class"), **plain}

    def predict(self, context: Any, actions: Sequence[Any]) -> tuple[Any, float, dict[str, Decision]]:
        """The action to take, its probability, and the decision, which coba hands to `learn`."""
        decision = self.policy.choose(self._points(context, actions))
        return actions[decision.action], decision.propensity, {"decision": decision}

    def score(self, context: Any, actions: Sequence[Any], action: Any) -> float:
        """Probability that this action would be taken."""
        points = self._points(context, actions)
        return float(self.policy.probabilities(points)[_row(actions, action)])

    def learn(
        self, context: Any, action: Any, reward: float, probability: float | None, decision: Decision | None = None
    ) -> None:
        """Take in the reward of an action."""
        if decision is not None:
            self.policy.learn(decision, reward)
        else:
            self.policy.warm_start(self._points(context, [action]), [reward])

    def _points(self, context: Any, actions: Sequence[Any] | None) -> Points:
        if hasattr(context, "is_batch") or hasattr(actions, "is_batch"):
            raise NotSupported("Interactions are taken one by one, got a batch.")  # coba then does so by itself
        if actions is None or not len(actions):
            raise NotSupported("The actions of a round have to be listed; continuous actions are not supported.")
        return self.points(context, actions)


def from_coba(interactions: Iterable[Mapping[str, Any]], *, points: PointsOf | None = None) -> Log:
    """A log from coba's logged interactions, or from an environment that reads them.

    Parameters
    ----------
    interactions
        Each with `action`, `reward`, `probability`, `actions`, and `context` where there is one.
    points
        As in `CobaLearner`.

    Examples
    --------
    >>> logged = [{"context": None, "actions": ["a", "b"], "action": "b", "reward": 2.0, "probability": 0.25}]
    >>> log = from_coba(logged)
    >>> log.rounds, log.actions.tolist(), log.propensities.tolist()
    ([['a', 'b']], [1], [0.25])
    """
    to_points = CobaPoints() if points is None else a_function(points, "`points`")
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
    """A simulated environment of coba as a world for `simulate`: it shows coba's rounds, in their order.

    All chance is coba's own, and was drawn when the environment was made: every run shows the same rounds. Expected
    rewards are not known.

    Parameters
    ----------
    environment
        Has `read()`, which gives interactions with `actions` and `rewards`; or the interactions themselves, as a list.
    points
        As in `CobaLearner`. Sparse features get their columns as they are first seen, so one object serves all runs.

    Examples
    --------
    >>> rounds = [{"context": None, "actions": [(1, 0), (0, 1)], "rewards": [0.25, 0.5]}]
    >>> world = CobaEnvironment(rounds).start(np.random.default_rng(0))
    >>> world.show().contexts.tolist(), world.pay(1)
    ([[1.0, 0.0], [0.0, 1.0]], 0.5)
    """

    def __init__(self, environment: Any, *, points: PointsOf | None = None) -> None:
        if not hasattr(environment, "read") and not isinstance(environment, Sequence):
            raise InvalidParameter(
                f"An environment of coba, or a list of interactions, is needed, got {type(environment).__name__}."
            )
        self._environment = environment
        self._points: PointsOf = CobaPoints() if points is None else a_function(points, "`points`")

    @property
    def reward_range(self) -> tuple[float, float] | None:
        """Not known."""
        return None

    def start(self, rng: np.random.Generator) -> DrawnRounds:
        """Begin to read; nothing is drawn."""
        return DrawnRounds(self._rounds())

    def describe(self) -> Parameters:
        """What coba says of the environment, as plain values; a digest of interactions that come without a word."""
        params = getattr(self._environment, "params", {})
        plain = {str(name): value if _is_plain(value) else str(value) for name, value in params.items()}
        described = {"class": type(self).__name__, "environment": type(self._environment).__name__, "parameters": plain}
        return described if hasattr(self._environment, "read") else {**described, "digest": self._digest()}

    def _digest(self) -> str:
        digest = hashlib.sha256()
        for interaction in _read(self._environment):
            shown = (interaction.get("context"), interaction.get("actions"), _paid(interaction).tolist())
            digest.update(repr(shown).encode())
        return digest.hexdigest()[:16]

    def _rounds(self) -> Iterator[tuple[Round, Vector]]:
        for t, interaction in enumerate(_read(self._environment)):
            _require(interaction, ("actions", "rewards"), t)
            yield Round(self._points(interaction.get("context"), interaction["actions"])), _paid(interaction)


def _read(interactions: Any) -> Iterator[Mapping[str, Any]]:
    given = interactions.read() if hasattr(interactions, "read") else interactions
    if not isinstance(given, Iterable) or (isinstance(given, np.ndarray) and given.ndim == 0):
        raise InvalidParameter(f"Interactions of coba are needed, got {shown(given)}.")
    for interaction in given:
        yield a_mapping(interaction, "The parts of an interaction")


def _paid(interaction: Mapping[str, Any]) -> Vector:
    """What every action pays: a list, or a function of the action."""
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
    """Place of an action among those of the round."""
    for row, candidate in enumerate(actions):
        if candidate is action or candidate == action:
            return row
    raise InvalidParameter(f"The action {action!r} is not among the {len(actions)} of its round.")


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, bool | int | float | str)
