"""Logs collected in simulated environments."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from kernelbandits.environments import Log
from kernelbandits.environments.base import Environment, Round, World, place_of
from kernelbandits.errors import InvalidParameter, KernelBanditWarning, warn_user
from kernelbandits.evaluation._inputs import DistinctRounds, a_policy, an_environment
from kernelbandits.evaluation.off_policy import (
    CONFIDENCE,
    Estimate,
    mean_with_error,
    normal_interval,
    shows_one_action_only,
)
from kernelbandits.evaluation.simulation import simulate, start_world
from kernelbandits.policies.base import Policy
from kernelbandits.types import Parameters, Seed, Vector
from kernelbandits.validation import check_confidence, check_int

__all__ = ["collect_log", "true_value"]


def collect_log(environment: Environment, policy: Policy, *, horizon: int, seed: Seed = None) -> Log:
    """Run a policy as in `simulate`, and return its decisions as a log.

    Propensities are those reported by the policy. The log of a deterministic policy cannot be used to evaluate others;
    a warning is issued. Rounds whose reward is unknown are omitted.

    Parameters
    ----------
    environment
        Description of the environment; a new run is started.
    policy
        The logging policy; it continues to learn from its current state. A log of `UniformRandom` suits any target
        policy.
    horizon
        Largest number of rounds.
    seed
        Seed of the environment alone, as in `simulate`.

    Examples
    --------
    >>> import kernelbandits as kb
    >>> world = kb.environments.Clustered(n_actions=4)
    >>> log = collect_log(world, kb.UniformRandom(seed=0), horizon=10, seed=1)
    >>> len(log), float(log.propensities[0])
    (10, 0.25)
    """
    watched = _Watched(an_environment(environment))
    trace = simulate(watched, policy, horizon=horizon, seed=seed)
    shown = watched.shown[: len(trace)]  # a world may have shown a round without a decision
    actions = np.array(
        [place_of(one.contexts, row) for one, row in zip(shown, trace.action, strict=True)], dtype=np.intp
    )
    is_known = np.flatnonzero(np.isfinite(trace.reward))
    log = Log(
        [shown[t].contexts for t in is_known],
        actions[is_known],
        trace.propensity[is_known],
        trace.reward[is_known],
        _ids([shown[t] for t in is_known]),
    )
    if shows_one_action_only(log):
        warn_user(
            f"{type(policy).__name__} is deterministic, so this log contains no information about other policies. "
            "Log with UniformRandom, or with Mixed(policy, epsilon=0.1).",
            KernelBanditWarning,
        )
    return log


def true_value(
    environment: Environment, policy: Policy, *, horizon: int, seed: Seed = None, confidence: float = CONFIDENCE
) -> Estimate:
    """Return the mean reward per round of a fixed policy, from the expected rewards of a world: Σ_a π(a|x) f(x, a).

    There is no reward noise and no learning; only contexts are random, and the standard error measures their variance.
    With the seed of a log, the environment and its first contexts are the same, so a longer horizon gives the ground
    truth for that log.

    Parameters
    ----------
    environment
        An environment that knows its expected rewards.
    policy
        Queried for its probabilities; it does not learn.
    horizon
        Number of rounds.
    seed
        Seed of the environment alone, as in `simulate`.
    confidence
        Confidence level of the normal interval.

    Examples
    --------
    >>> import kernelbandits as kb
    >>> world = kb.environments.Clustered(n_actions=4, values=(0.5, 0.5))
    >>> true_value(world, kb.UniformRandom(), horizon=10, seed=1).value
    0.5
    """
    horizon, world = check_int(horizon, "The horizon"), start_world(environment, seed)
    confidence = check_confidence(confidence)
    a_policy(policy, "probabilities_many")
    rounds = list(_shown_by(world, horizon))
    expected = [_expected(shown) for shown in rounds]
    sets = DistinctRounds([(shown.contexts, shown.ids) for shown in rounds])
    probabilities = sets.probabilities(policy)
    values = [float(probabilities[place] @ rewards) for place, rewards in zip(sets.which, expected, strict=True)]
    value, error = mean_with_error(np.array(values))
    low, high = normal_interval(value, error, confidence)
    return Estimate(
        value=value, standard_error=error, low=low, high=high, n_rounds=len(values), n_matched=len(values),
        effective_sample_size=float(len(values)), confidence=confidence,
    )  # fmt: skip


def _shown_by(world: World, horizon: int) -> Iterator[Round]:
    """Yield the rounds of a run, to its end or the horizon."""
    for _ in range(horizon):
        try:
            yield world.observe()
        except StopIteration:
            return


class _Watched:
    """Environment wrapper that records the rounds of its run."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self.shown: list[Round] = []

    @property
    def reward_range(self) -> tuple[float, float] | None:
        return self._environment.reward_range

    def start(self, rng: np.random.Generator) -> World:
        return _WatchedWorld(self._environment.start(rng), self.shown)

    def describe(self) -> Parameters:
        return self._environment.describe()


class _WatchedWorld:
    """World wrapper that records every round; it has no look-ahead, so rounds are shown one at a time."""

    def __init__(self, world: World, shown: list[Round]) -> None:
        self._world, self._shown = world, shown

    def observe(self) -> Round:
        self._shown.append(self._world.observe())
        return self._shown[-1]

    def reward(self, action: int) -> float:
        return self._world.reward(action)

    def __getattr__(self, name: str) -> Any:
        """Forward all other attributes, such as `delay`."""
        if name.startswith("_") or name == "peek_rounds":
            raise AttributeError(name)
        return getattr(self._world, name)


def _expected(shown: Round) -> Vector:
    if shown.expected is None:
        raise InvalidParameter("The expected rewards of this environment are unknown, so the true value is unknown.")
    return shown.expected


def _ids(shown: list[Round]) -> list[Any] | None:
    ids = [one.ids for one in shown]
    return ids if ids and all(names is not None for names in ids) else None
