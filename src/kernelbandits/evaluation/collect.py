"""Logs collected in simulated environments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from kernelbandits.environments import Log
from kernelbandits.environments.base import Environment, Round, World, place_of
from kernelbandits.errors import InvalidParameter, KernelBanditWarning, warn_user
from kernelbandits.evaluation._inputs import DistinctRounds, check_environment, check_policy
from kernelbandits.evaluation.off_policy import (
    CONFIDENCE,
    Estimate,
    mean_with_error,
    normal_interval,
    shows_one_action_only,
)
from kernelbandits.evaluation.simulation import simulate, start_world
from kernelbandits.policies.base import Policy
from kernelbandits.selection import CatalogView
from kernelbandits.types import Parameters, Seed, Vector
from kernelbandits.validation import check_bool, check_confidence, check_int

__all__ = ["collect_log", "true_value"]


def collect_log(
    environment: Environment,
    policy: Policy,
    *,
    horizon: int,
    seed: Seed = None,
    k: int | None = None,
    cascade: bool = False,
    place_propensities: bool = False,
    probabilities: bool = False,
) -> Log:
    """Run a policy as in `simulate`, and return its decisions as a log.

    Propensities are those reported by the policy. A log says nothing about actions that its policy could not select: a
    warning is issued if the policy is deterministic, or gives an eligible action probability 0 in a round 1, 2, 4, 8, …
    (`Mixed(policy, epsilon=0.1)` gives every action at least epsilon / N), of slates at the top place. Rounds whose
    reward is unknown are omitted.

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
    k
        Length of slates; None logs single actions. The policy learns the reward of each place.
    cascade
        Whether the user reads a slate from the top and stops at the first reward above 0: places below it are not
        seen. Their reward is 0 in the log, and the policy does not learn it.
    place_propensities
        Whether to log the probability of each action at its place, too, which estimators with behavior="independent"
        need (`Policy.place_probabilities`).
    probabilities
        Whether to log the probabilities of all actions of each round, too, which `MarginalizedIPS` needs; for single
        actions.

    Examples
    --------
    >>> import kernelbandits as kb
    >>> world = kb.environments.Clustered(n_actions=4)
    >>> log = collect_log(world, kb.UniformRandom(seed=0), horizon=10, seed=1)
    >>> len(log), float(log.propensities[0])
    (10, 0.25)
    >>> collect_log(world, kb.UniformRandom(seed=0), horizon=10, seed=1, k=2).propensities[0].round(3)
    array([0.25 , 0.333])
    """
    cascade = check_bool(cascade, "`cascade`")
    place_propensities = check_bool(place_propensities, "`place_propensities`")
    probabilities = check_bool(probabilities, "`probabilities`")
    if k is not None:
        if probabilities:
            raise InvalidParameter("The probabilities of all actions are logged for single actions: leave `k` out.")
        return _collect_slates(
            check_environment(environment),
            policy,
            check_int(horizon, "The horizon"),
            seed,
            check_int(k, "The length of slates"),
            cascade=cascade,
            place_propensities=place_propensities,
        )
    if cascade or place_propensities:
        raise InvalidParameter("`cascade` and `place_propensities` belong to slates, so they need their length: k=….")
    watched = _Watched(check_environment(environment), policy, keep_probabilities=probabilities)
    trace = simulate(watched, policy, horizon=horizon, seed=seed)
    observed = watched.observed[: len(trace)]  # a world may have shown a round without a decision
    actions = np.array(
        [place_of(one.contexts, row) for one, row in zip(observed, trace.action, strict=True)], dtype=np.intp
    )
    is_known = np.flatnonzero(np.isfinite(trace.reward))
    log = Log(
        [observed[t].contexts for t in is_known],
        actions[is_known],
        trace.propensity[is_known],
        trace.reward[is_known],
        _ids([observed[t] for t in is_known]),
        probabilities=[watched.probabilities[t] for t in is_known] if probabilities else None,
    )
    _warn_of_support(log, policy, watched.excluded)
    return log


def _warn_of_support(log: Log, policy: Policy, excluded: Sequence[float]) -> None:
    """Warn of a deterministic policy, or of actions with probability 0 in the examined rounds."""
    if shows_one_action_only(log):
        warn_user(
            f"{type(policy).__name__} is deterministic, so this log contains no information about other policies. "
            "Log with UniformRandom, or with Mixed(policy, epsilon=0.1).",
            KernelBanditWarning,
        )
    elif excluded:
        warn_user(
            f"{type(policy).__name__} gave probability 0 to some eligible actions: to {excluded[-1]:.0%} of "
            "them in the last such round that was examined. The log contains no information about policies that select "
            "them. Log with Mixed(policy, epsilon=0.1), KernelSquareCB or UniformRandom: these can select any action.",
            KernelBanditWarning,
        )


def _is_examined(number: int) -> bool:
    return number & (number - 1) == 0


def _probabilities(policy: Policy, observed: Round) -> Vector:
    """Return the probabilities of the actions of a round."""
    contexts, probabilities = observed.contexts, policy.probabilities(observed.contexts, ids=observed.ids)
    return probabilities[contexts.rows] if isinstance(contexts, CatalogView) else probabilities


def _collect_slates(
    environment: Environment,
    policy: Policy,
    horizon: int,
    seed: Seed,
    k: int,
    *,
    cascade: bool,
    place_propensities: bool,
) -> Log:
    check_policy(policy, "choose", "learn_many", *(["place_probabilities"] if place_propensities else []))
    world = start_world(environment, seed)
    rounds, slates, rewards, at_places, excluded = [], [], [], [], []
    for number, observed in enumerate(_observed_by(world, horizon), start=1):
        contexts, ids = observed.contexts, observed.ids
        if _is_examined(number) and (is_zero := _probabilities(policy, observed) == 0.0).any():
            excluded.append(float(np.mean(is_zero)))
        probabilities = policy.place_probabilities(contexts, k, ids=ids) if place_propensities else None
        slate = policy.choose(contexts, k=k, ids=ids)
        earned = np.array([world.reward(decision.action) for decision in slate])
        if not np.isfinite(earned).all():
            continue  # the rewards of the round are not known
        n_seen = k
        if cascade and (earned > 0.0).any():
            n_seen = int(np.argmax(earned > 0.0)) + 1
            earned[n_seen:] = 0.0
        policy.learn_many(list(slate[:n_seen]), earned[:n_seen])
        rounds.append(observed)
        slates.append(slate)
        rewards.append(earned)
        if probabilities is not None:
            at_places.append(probabilities[np.arange(k), slate.actions])
    log = Log(
        [observed.contexts for observed in rounds],
        np.array(
            [
                [place_of(observed.contexts, decision.action) for decision in slate]
                for observed, slate in zip(rounds, slates, strict=True)
            ],
            dtype=np.intp,
        ).reshape(-1, k),
        np.array([[decision.propensity for decision in slate] for slate in slates]).reshape(-1, k),
        np.array(rewards).reshape(-1, k),
        _ids(rounds),
        place_propensities=np.array(at_places).reshape(-1, k) if place_propensities else None,
    )
    _warn_of_support(log, policy, excluded)
    return log


def true_value(
    environment: Environment,
    policy: Policy,
    *,
    horizon: int,
    seed: Seed = None,
    k: int | None = None,
    confidence: float = CONFIDENCE,
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
    k
        Length of slates, whose rewards are added: Σ_l Σ_a P(a at place l) f(x, a). None evaluates single actions.
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
    check_policy(policy, "probabilities_many" if k is None else "place_probabilities")
    rounds = list(_observed_by(world, horizon))
    expected = [_expected(observed) for observed in rounds]
    sets = DistinctRounds([(observed.contexts, observed.ids) for observed in rounds])
    if k is None:
        probabilities = sets.probabilities(policy)
    else:
        length = check_int(k, "The length of slates")
        probabilities = [matrix.sum(axis=0) for matrix in sets.place_probabilities(policy, length)]
    values = [float(probabilities[place] @ rewards) for place, rewards in zip(sets.which, expected, strict=True)]
    value, error = mean_with_error(np.array(values))
    low, high = normal_interval(value, error, confidence)
    return Estimate(
        value=value, standard_error=error, low=low, high=high, n_rounds=len(values), n_matched=len(values),
        effective_sample_size=float(len(values)), confidence=confidence,
    )  # fmt: skip


def _observed_by(world: World, horizon: int) -> Iterator[Round]:
    """Yield the rounds of a run, to its end or the horizon."""
    for _ in range(horizon):
        try:
            yield world.observe()
        except StopIteration:
            return


class _Watched:
    """Environment wrapper that records the rounds of its run, and how many actions the policy excludes."""

    def __init__(self, environment: Environment, policy: Policy, *, keep_probabilities: bool) -> None:
        self._environment, self._policy, self._keeps = environment, policy, keep_probabilities
        self.probabilities: list[Vector] = []
        """Those of all actions of each round, if they are kept."""
        self.observed: list[Round] = []
        self.excluded: list[float] = []
        """Fraction of actions with probability 0, of the examined rounds that have some."""

    @property
    def reward_range(self) -> tuple[float, float] | None:
        return self._environment.reward_range

    def start(self, rng: np.random.Generator) -> World:
        return _WatchedWorld(self._environment.start(rng), self)

    def note(self, observed: Round) -> None:
        """Record a round before the policy chooses; examine it if its number is a power of two."""
        self.observed.append(observed)
        is_examined = _is_examined(len(self.observed))
        if is_examined or self._keeps:
            probabilities = _probabilities(self._policy, observed)
            if self._keeps:
                self.probabilities.append(probabilities)
            if is_examined and (probabilities == 0.0).any():
                self.excluded.append(float(np.mean(probabilities == 0.0)))

    def describe(self) -> Parameters:
        return self._environment.describe()


class _WatchedWorld:
    """World wrapper that records every round; it has no look-ahead, so rounds are shown one at a time."""

    def __init__(self, world: World, watched: _Watched) -> None:
        self._world, self._watched = world, watched

    def observe(self) -> Round:
        observed = self._world.observe()
        self._watched.note(observed)
        return observed

    def reward(self, action: int) -> float:
        return self._world.reward(action)

    def __getattr__(self, name: str) -> Any:
        """Forward all other attributes, such as `delay`."""
        if name.startswith("_") or name == "peek_rounds":
            raise AttributeError(name)
        return getattr(self._world, name)


def _expected(observed: Round) -> Vector:
    if observed.expected is None:
        raise InvalidParameter("The expected rewards of this environment are unknown, so the true value is unknown.")
    return observed.expected


def _ids(observed: list[Round]) -> list[Any] | None:
    ids = [one.ids for one in observed]
    return ids if ids and all(names is not None for names in ids) else None
