"""Coverage and calibration of confidence intervals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isnan
from typing import Any, Final

import numpy as np

from kernelbandits.environments.base import Environment, Round, World, WorldWithDelays
from kernelbandits.errors import InvalidParameter, NotSupported
from kernelbandits.evaluation._inputs import check_trace, points_of
from kernelbandits.evaluation.off_policy import CONFIDENCE
from kernelbandits.evaluation.simulation import DelayedRewardQueue, start_world
from kernelbandits.evaluation.trace import Trace
from kernelbandits.policies.base import Policy
from kernelbandits.policies.posterior_policy import PosteriorPolicy
from kernelbandits.theory.exploration import RoundState
from kernelbandits.validation import check_callable, check_confidence, check_int, check_seed, check_vector, pluralize

__all__ = ["Coverage", "calibration", "coverage", "share_interval"]

ROUNDING: Final = 1e-9
"""Tolerance for an expected reward outside an interval of width zero."""


@dataclass(frozen=True, kw_only=True)
class Coverage:
    """Fraction of runs in which an interval failed, for any action in any round."""

    n_failed: int
    """Number of runs in which an expected reward was outside its interval at least once."""

    n_runs: int
    low: float
    """Lower end of the exact 95 % interval (Clopper and Pearson, 1934) of the fraction of such runs."""

    high: float
    failure_probability: float | None
    """Upper bound on the fraction stated by the exploration schedule; None if it makes no statement."""

    first_failures: tuple[int, ...]
    """Round of the first failure in each failed run, counted from 1."""

    @property
    def share(self) -> float:
        """Fraction of runs that failed."""
        return self.n_failed / self.n_runs

    @property
    def is_kept(self) -> bool | None:
        """Whether these runs are consistent with the stated bound; None if there is none."""
        return None if self.failure_probability is None else self.low <= self.failure_probability

    def __str__(self) -> str:
        claim = "no claim" if self.failure_probability is None else f"claimed {self.failure_probability:g} at most"
        interval = f"{self.low:.3g} to {self.high:.3g}"
        return f"{self.n_failed} of {pluralize(self.n_runs, 'run')} failed: {self.share:.3g} ({interval}), {claim}"


def coverage(
    environment: Environment, make_policy: Callable[[int], Policy], *, horizon: int, repeats: int, seed: int = 0
) -> Coverage:
    """Simulate many runs and count those in which an expected reward ever left mean ± exploration · width.

    Every action of every round is checked before the policy chooses, with all data learned so far; delayed and unknown
    rewards are treated as in `simulate`. A schedule with a theorem (`theory.exploration`) guarantees that the fraction
    of such runs is at most its failure probability. A constant has no guarantee; its coverage shows the validity of a
    tuned number. Costs a prediction of all actions in every round.

    Parameters
    ----------
    environment
        An environment that knows its expected rewards.
    make_policy
        Function that creates a policy from a seed: one with a posterior and an exploration, such as KernelUCB, or a
        wrapper of it.
    horizon
        Number of rounds of each run.
    repeats
        Number of runs; their seeds are seed, seed + 1, ….
    seed
        Seed of the first run.

    Examples
    --------
    >>> import kernelbandits as kb
    >>> kernel = kb.kernels.Gaussian(length_scale=0.3)
    >>> world = kb.environments.SyntheticRKHS(kernel, n_actions=5, n_features=1, norm=1.0, noise_scale=0.1)
    >>> schedule = kb.theory.Mixture(noise_scale=0.1, norm_bound=1.0, failure_probability=0.1)
    >>> estimate = coverage(world, lambda seed: kb.KernelUCB(kernel, exploration=schedule), horizon=20, repeats=5)
    >>> estimate.n_failed, estimate.is_kept
    (0, True)
    """
    horizon, repeats = check_int(horizon, "The horizon"), check_int(repeats, "The number of repeats")
    seed = check_seed(seed)
    check_callable(make_policy, "What makes a policy", "lambda seed: KernelUCB(kernel) is one.")
    seeds = range(seed, seed + repeats)
    failures = [_first_failure(start_world(environment, run), make_policy(run), horizon) for run in seeds]
    rounds = tuple(first for first in failures if first is not None)
    low, high = share_interval(len(rounds), repeats)
    claim = _claim(_model_of(make_policy(seed)))
    return Coverage(
        n_failed=len(rounds), n_runs=repeats, low=low, high=high, failure_probability=claim, first_failures=rounds
    )


def calibration(trace: Trace, *, levels: Sequence[float] = (0.5, 1.0, 2.0, 3.0)) -> list[dict[str, Any]]:
    """Return how often the expected reward of the chosen action was within z widths of its mean.

    There is one row per level z, with the fraction of rounds in which |mean − expected| ≤ z · width, and one for the
    exploration that the policy used. Only rounds with a mean, a width and a known expectation are used. Chosen actions
    are a biased sample of all actions, since a policy selects those that it overestimates.

    >>> import kernelbandits as kb
    >>> kernel = kb.kernels.Gaussian(length_scale=0.3)
    >>> world = kb.environments.SyntheticRKHS(kernel, n_actions=5, n_features=1)
    >>> rows = calibration(kb.simulate(world, kb.KernelUCB(kernel), horizon=50, seed=1), levels=[0.0, 1e6])
    >>> [(row["level"], row["share"]) for row in rows[:2]]
    [(0.0, 0.0), (1000000.0, 1.0)]
    """
    check_trace(trace)
    known = np.isfinite(trace.mean) & np.isfinite(trace.width) & np.isfinite(trace.expected)
    if not known.any():
        raise InvalidParameter(
            "No round has a mean, a width and a known expectation, so there is nothing to compare. Take a policy with "
            "a posterior and a world that knows its expectations."
        )
    miss, width, used = np.abs(trace.mean - trace.expected)[known], trace.width[known], trace.exploration[known]
    rows: list[dict[str, Any]] = [
        {"level": level, "share": float(np.mean(miss <= level * width + ROUNDING)), "n_rounds": len(miss)}
        for level in check_vector(levels, "Levels").tolist()
    ]
    has = np.isfinite(used)
    if has.any():
        held = miss[has] <= used[has] * width[has] + ROUNDING
        rows.append({"level": "exploration", "share": float(held.mean()), "n_rounds": int(has.sum())})
    return rows


def share_interval(n_hits: int, n_trials: int, *, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Return the exact interval of a probability from hits in independent trials (Clopper and Pearson, 1934).

    >>> low, high = share_interval(0, 10)
    >>> low, round(high, 4)
    (0.0, 0.3085)
    """
    from scipy.special import betaincinv  # import SciPy only when needed

    n_hits, n_trials = check_int(n_hits, "The hits", least=0), check_int(n_trials, "The trials", least=0)
    if n_hits > n_trials:
        raise InvalidParameter(f"There cannot be more hits than trials, got {n_hits} in {n_trials}.")
    confidence = check_confidence(confidence)
    tail = (1.0 - confidence) / 2.0
    low = 0.0 if n_hits == 0 else float(betaincinv(n_hits, n_trials - n_hits + 1, tail))
    high = 1.0 if n_hits == n_trials else float(betaincinv(n_hits + 1, n_trials - n_hits, 1.0 - tail))
    return low, high


def _first_failure(world: World, policy: Policy, horizon: int) -> int | None:
    """Return the first round in which an interval fails, counted from 1."""
    model, late = _model_of(policy), DelayedRewardQueue(policy)
    for t in range(1, horizon + 1):
        try:
            observed = world.observe()
        except StopIteration:
            return None
        late.deliver(t)
        if not _holds(model, observed):
            return t
        decision = policy.choose(observed.contexts, ids=observed.ids)
        reward, delay = world.reward(decision.action), world.delay() if isinstance(world, WorldWithDelays) else 0
        if isnan(reward):
            continue
        if delay:
            late.send(decision, reward, due=t + delay)
        else:
            policy.learn(decision, reward)
    return None


def _holds(model: PosteriorPolicy, observed: Round) -> bool:
    """Whether every expected reward of the round lies in its interval."""
    if observed.expected is None:
        raise InvalidParameter("This world does not know its expected rewards, so no interval can be checked in it.")
    posterior = model.posterior
    prediction = posterior.predict(points_of(posterior.kernel.kind, observed.contexts))
    state = RoundState(
        round_index=model.round_index,
        n_actions=len(observed.expected),
        log_det_gain=posterior.log_det_gain,
        regularization=posterior.regularization,
        residual=posterior.residual,
    )
    half_width = model.exploration(state) * posterior.inflation * prediction.width
    return bool(np.all(np.abs(prediction.mean - observed.expected) <= half_width + ROUNDING))


def _model_of(policy: Policy) -> PosteriorPolicy:
    """Return the policy that has the intervals: the policy itself, or the one that it wraps."""
    inside: Any = policy
    while not isinstance(inside, PosteriorPolicy):
        inside = getattr(inside, "policy", None)
        if inside is None:
            raise NotSupported(
                f"{type(policy).__name__} has no intervals mean ± exploration · width to check. KernelUCB, LinUCB and "
                "GP-UCB have."
            )
    return inside


def _claim(model: PosteriorPolicy) -> float | None:
    stated = getattr(model.exploration, "failure_probability", None)
    return None if model.exploration.is_tuned or model.unproved or stated is None else float(stated)
