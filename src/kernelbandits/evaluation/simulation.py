"""Simulation: one policy in one environment, with delayed rewards and information gain."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from heapq import heappop, heappush
from itertools import count
from math import isnan, log1p, nan, sqrt
from sys import maxsize
from time import perf_counter
from typing import Any, Final

import numpy as np

from kernelbandits.environments.base import (
    BatchWorld,
    DrawnRounds,
    Environment,
    Round,
    World,
    WorldWithDelays,
    WorldWithHistory,
)
from kernelbandits.errors import NotSupported
from kernelbandits.evaluation._inputs import check_environment, check_policy
from kernelbandits.evaluation.trace import Recorder, Trace
from kernelbandits.policies.base import Policy
from kernelbandits.selection import Catalog, CatalogView
from kernelbandits.types import Decision, Parameters, Points, Seed, Vector
from kernelbandits.validation import check_bool, check_callable, check_int, check_seed

__all__ = ["DelayedRewardQueue", "Driver", "InformationGain", "simulate", "start_world"]


class DelayedRewardQueue:
    """Queue of decisions with delayed rewards; `deliver` passes the rewards that are due to the policy.

    A reward of round t with delay d > 0 is learned at the start of round t + d, before that round's choice. Rewards
    that are due in the same round are learned in the order in which they were sent. Until then the decision is pending
    in the policy, if the policy supports it.
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._waiting: list[tuple[int, int, Decision, float]] = []
        self._sent = count()

    def __len__(self) -> int:
        return len(self._waiting)

    def send(self, decision: Decision, reward: float, *, due: int) -> None:
        """Enqueue a reward that is due in round `due`."""
        # Any object with `choose` and `learn` is a policy; without `expect`, the reward is only learned later.
        expect = getattr(self._policy, "expect", None)
        if expect is not None:
            with suppress(NotSupported):
                expect(decision)
        heappush(self._waiting, (due, next(self._sent), decision, reward))

    def deliver(self, round_index: int) -> bool:
        """Let the policy learn everything due up to this round; return whether there was anything."""
        has_come = False
        while self._waiting and self._waiting[0][0] <= round_index:
            _, _, decision, reward = heappop(self._waiting)
            self._policy.learn(decision, reward)
            has_come = True
        return has_come


class InformationGain:
    """Ln det(I + K/γ) of the data that a policy has learned; nan if it has no posterior.

    An observation multiplies det(I + K/γ) by 1 + width², so the gain is the sum of ln(1 + width²) over the
    observations. If decisions report that width, the sum is updated. A posterior query would update its
    factorization, which a policy over a catalog does not otherwise need; it is used only if the sum cannot be updated.
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._is_plain = getattr(policy, "reports_posterior_width", False)  # any object that chooses is simulated
        self.now = self._read()

    def add(self, width: float) -> None:
        """Add a decision with this width, learned in the round in which it was chosen."""
        # A posterior that reaches its budget is exact no more; pending decisions narrow widths without being learned.
        is_sum = self._is_plain and self._policy.posterior.capabilities.is_exact  # type: ignore[attr-defined]
        if is_sum and not self._policy.pending:
            self.add_played(width)
        else:
            self.renew()

    def add_played(self, width: float) -> None:
        """Add a round with this width from the policy's own loop, in which no decision is pending."""
        self.now += log1p(width * width)

    def renew(self) -> None:
        """Recompute the gain after an observation whose width is unknown or differs from that of its decision."""
        self.now = self._read()

    def _read(self) -> float:
        posterior = getattr(self._policy, "posterior", None)  # not every policy has one
        return nan if posterior is None else float(posterior.log_det_gain)


ROUNDS_AT_ONCE: Final = 256
"""Smallest number of rounds per batch, if the world supports look-ahead and the policy has a compiled loop."""


class Driver:
    """Driver of one policy in one run of an environment.

    Rewards of the first `learn_rounds` rounds are learned, whenever they arrive (None: of all rounds). An unknown
    reward (nan) is recorded and not learned.
    """

    def __init__(
        self, world: World, policy: Policy, *, learn_rounds: int | None = None, keep_contexts: bool = False
    ) -> None:
        self.recorder = Recorder(keep_contexts=keep_contexts)
        self.n_finished = 0
        self._policy = policy
        self._learn_rounds = maxsize if learn_rounds is None else learn_rounds
        self._world = world
        self._late_world = world if isinstance(world, WorldWithDelays) else None
        self._late = DelayedRewardQueue(policy)
        if isinstance(world, WorldWithHistory):
            self._learn_initial_history(*world.initial_history())
        self._gain = InformationGain(policy)

    def _learn_initial_history(self, contexts: Points, rewards: Vector) -> None:
        """Pass the initial history to the policy; a policy without `warm_start` starts without it."""
        try:
            self._policy.warm_start(contexts, rewards)
        except NotSupported:
            return

    def advance(self, most: int) -> int:
        """Run at most `most` of the next rounds; return how many were run: none if the world has ended."""
        world = self._world
        if self._may_play_at_once and isinstance(world, BatchWorld):
            # Growing blocks: a policy copies its whole state for each, to support a rollback.
            at_once = max(ROUNDS_AT_ONCE, self.n_finished // 4)
            return self._play(world.peek_rounds(min(most, at_once, self._n_to_learn)))
        return self._step(world)

    @property
    def _may_play_at_once(self) -> bool:
        """Whether the policy has a compiled loop for the next rounds; it learns from all of them, immediately."""
        # Any object with `choose` and `learn` is a policy, so it need not have `has_compiled_loop`.
        return self._n_to_learn > 0 and self._late_world is None and getattr(self._policy, "has_compiled_loop", False)

    @property
    def _n_to_learn(self) -> int:
        """Number of remaining rounds to learn from; zero or negative if there are none."""
        return self._learn_rounds - self.n_finished

    def _step(self, world: World) -> int:
        """Run one round; return 0 if the world has ended."""
        try:
            observed = world.observe()
        except StopIteration:
            return 0
        began = perf_counter()
        has_come = self._late.deliver(self.n_finished + 1)
        decision = self._policy.choose(observed.contexts, ids=observed.ids)
        choosing = perf_counter() - began
        if has_come:
            self._gain.renew()

        reward = world.reward(decision.action)

        began = perf_counter()
        is_learned = self._teach(decision, reward)
        seconds = choosing + perf_counter() - began

        if is_learned:
            self._gain.add(decision.width)
        self.recorder.record(
            observed, decision, reward, log_det_gain=self._gain.now, inflation=_inflation(self._policy), seconds=seconds
        )
        self.n_finished += 1
        return 1

    def _teach(self, decision: Decision, reward: float) -> bool:
        """Let the policy learn the reward, now or later, if it is known; return whether it has learned now."""
        if isnan(reward) or self._n_to_learn <= 0:
            return False
        delay = 0 if self._late_world is None else check_int(self._late_world.delay(), "A delay", least=0)
        if delay:
            self._late.send(decision, reward, due=self.n_finished + 1 + delay)
            return False
        self._policy.learn(decision, reward)
        return True

    def _play(self, rounds: list[tuple[Round, Vector]]) -> int:
        """Run a batch of rounds, with the same rows as single steps."""
        if any(_needs_single_steps(observed, rewards) for observed, rewards in rounds):
            world = DrawnRounds(iter(rounds))
            return sum(self._step(world) for _ in rounds)
        if not rounds:
            return 0
        contexts, ids = [observed.contexts for observed, _ in rounds], [observed.ids for observed, _ in rounds]
        known = None if all(each is None for each in ids) else ids
        began = perf_counter()
        plays = self._policy.play(contexts, [rewards for _, rewards in rounds], ids=known)
        seconds, inflation = (perf_counter() - began) / len(rounds), _inflation(self._policy)
        for t, (observed, rewards) in enumerate(rounds):
            self._gain.add_played(plays.width[t])
            decision = Decision(
                action=int(plays.action[t]),
                context=None,
                mean=plays.mean[t],
                width=plays.width[t],
                score=plays.score[t],
                propensity=plays.propensity[t],
                n_actions=len(rewards),
            )
            self.recorder.record(
                observed, decision, plays.reward[t], log_det_gain=self._gain.now, inflation=inflation, seconds=seconds
            )
        self.n_finished += len(rounds)
        return len(rounds)


def _inflation(policy: Policy) -> float:
    """1 + sqrt(residual/γ) of the posterior; nan if the policy has none."""
    posterior = getattr(policy, "posterior", None)
    if posterior is None:
        return nan
    residual = getattr(posterior, "residual", 0.0)  # any object may be the posterior of a policy of one's own
    return 1.0 + sqrt(residual / posterior.regularization) if residual else 1.0


def _needs_single_steps(observed: Round, rewards: Vector) -> bool:
    """Whether a compiled loop cannot run the round: catalogs use engines instead, and nan is not learned."""
    return isinstance(observed.contexts, Catalog | CatalogView) or bool(np.isnan(rewards).any())


def simulate(
    environment: Environment,
    policy: Policy,
    *,
    horizon: int,
    seed: Seed = None,
    progress: Callable[[int], None] | None = None,
    learn_rounds: int | None = None,
    keep_contexts: bool = False,
) -> Trace:
    """Simulate a policy in a new run of an environment: it chooses and learns in every round.

    Parameters
    ----------
    environment
        Description of the environment; a new run is started.
    policy
        Continues to learn from its current state: pass a new policy for a fresh start.
    horizon
        Largest number of rounds; the trace is shorter if the world ends earlier.
    seed
        Seed of the environment alone (a policy has its own seed). The same seed gives the same contexts and the same
        noise for any policy. None draws a seed, which is recorded in `trace.spec["seed"]`.
    progress
        Callback, called with the number of finished rounds after each.
    learn_rounds
        Learn from the first `learn_rounds` rounds only, and only choose in all others; None learns from all.
    keep_contexts
        Keep the chosen context of every round in `trace.contexts`.

    Notes
    -----
    If a world returns the reward nan, the reward is unknown: the round is recorded and nothing is learned from it. The
    method `delay` of a world, if it exists, returns the delay of the reward of the last round, in rounds. A reward of
    round t with delay d > 0 is learned at the start of round t + d, before that round's choice, in order of arrival;
    until then the decision is pending in the policy (`expect`). Rewards that are not due when the run ends stay
    pending.

    Examples
    --------
    >>> import kernelbandits as kb
    >>> kernel = kb.kernels.Gaussian(length_scale=0.3)
    >>> world = kb.environments.SyntheticRKHS(kernel, n_actions=5, n_features=2)
    >>> trace = kb.simulate(world, kb.KernelUCB(kernel), horizon=20, seed=1)
    >>> len(trace), trace.regret.shape
    (20, (20,))
    """
    check_environment(environment)
    check_policy(policy)
    horizon = check_int(horizon, "The horizon")
    if progress is not None:
        check_callable(progress, "The progress callback")
    sequence = _seed_sequence(seed)
    spec: Parameters = {
        "environment": environment.describe(),
        "policy": policy.describe(),
        "horizon": horizon,
        "seed": _plain_seed(sequence),
        "learn_rounds": None
        if learn_rounds is None
        else check_int(learn_rounds, "The number of rounds to learn from", least=0),
    }
    driver = Driver(
        start_world(environment, sequence),
        policy,
        learn_rounds=spec["learn_rounds"],
        keep_contexts=check_bool(keep_contexts, "`keep_contexts`"),
    )
    while driver.n_finished < horizon:
        n_played = driver.advance(horizon - driver.n_finished)
        if not n_played:
            break
        if progress is not None:
            for done in range(driver.n_finished - n_played, driver.n_finished):
                progress(done + 1)
    return driver.recorder.trace(spec)


def start_world(environment: Environment, seed: Seed) -> World:
    """Start the run of an environment that `simulate` uses for this seed, to reproduce it: `trace.spec["seed"]`."""
    check_environment(environment)
    (world_seed,) = _seed_sequence(seed).spawn(1)  # the first child; others are reserved for future use
    return environment.start(np.random.default_rng(world_seed))


def _seed_sequence(seed: Seed) -> np.random.SeedSequence:
    """Return a new seed sequence: spawning from the caller's would change the noise of its next run."""
    if isinstance(seed, np.random.Generator):
        return np.random.SeedSequence(int(seed.integers(2**63)))
    if isinstance(seed, np.random.SeedSequence):
        return np.random.SeedSequence(seed.entropy, spawn_key=seed.spawn_key, pool_size=seed.pool_size)
    if seed is None:
        return np.random.SeedSequence()
    return np.random.SeedSequence(check_seed(seed))


def _plain_seed(sequence: np.random.SeedSequence) -> Any:
    """Return the number that reproduces the run, or, for a spawned sequence, its parts."""
    if not sequence.spawn_key:
        return sequence.entropy
    return {"entropy": sequence.entropy, "spawn_key": list(sequence.spawn_key)}
