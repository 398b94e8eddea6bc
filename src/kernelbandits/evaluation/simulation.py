"""Simulation: one policy in one environment, with delayed rewards and information gain."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from heapq import heappop, heappush
from itertools import count
from math import isnan, log1p, nan
from sys import maxsize
from time import perf_counter
from typing import Any, Final

import numpy as np

from kernelbandits.environments.base import (
    DrawnRounds,
    Environment,
    ForeseeableWorld,
    LateWorld,
    Round,
    WarmWorld,
    World,
)
from kernelbandits.errors import NotSupported
from kernelbandits.evaluation._inputs import a_policy, an_environment
from kernelbandits.evaluation.trace import Recorder, Trace
from kernelbandits.policies import CGPUCB, GPUCB, KernelUCB, LinUCB
from kernelbandits.policies.base import Policy
from kernelbandits.posterior import (
    AutoPosterior,
    CompressedPosterior,
    ExactPosterior,
    PartitionedPosterior,
    PerActionPosterior,
    PrimalPosterior,
)
from kernelbandits.selection import Catalog, CatalogView
from kernelbandits.types import Decision, Parameters, Points, Seed, Vector
from kernelbandits.validation import a_count, a_function, a_seed

__all__ = ["Driver", "InformationGain", "LateRewards", "simulate", "start_world"]


class LateRewards:
    """Decisions whose reward is on its way; `deliver` lets the policy learn what has come.

    A reward of round t with delay d > 0 is learnt at the start of round t + d, before that round's choice. Of several
    that come at once, the one sent first is learnt first. Until then the policy expects it, if it can.
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._waiting: list[tuple[int, int, Decision, float]] = []
        self._sent = count()

    def __len__(self) -> int:
        return len(self._waiting)

    def send(self, decision: Decision, reward: float, *, due: int) -> None:
        """Announce a reward that will be told in round `due`."""
        # Whatever chooses and learns will do as a policy; one that cannot await a reward just learns it late.
        expect = getattr(self._policy, "expect", None)
        if expect is not None:
            with suppress(NotSupported):
                expect(decision)
        heappush(self._waiting, (due, next(self._sent), decision, reward))

    def deliver(self, round_index: int) -> bool:
        """Let the policy learn everything due up to this round; whether there was anything."""
        has_come = False
        while self._waiting and self._waiting[0][0] <= round_index:
            _, _, decision, reward = heappop(self._waiting)
            self._policy.learn(decision, reward)
            has_come = True
        return has_come


PLAIN_POLICIES: Final = (CGPUCB, GPUCB, KernelUCB, LinUCB)
"""Policies whose decisions carry the width of the posterior that then learns them, each once."""

EXACT_POSTERIORS: Final = (
    AutoPosterior,
    CompressedPosterior,
    ExactPosterior,
    PartitionedPosterior,
    PerActionPosterior,
    PrimalPosterior,
)


class InformationGain:
    """Ln det(I + K/γ) of what a policy has learnt; nan where it has no posterior.

    An observation multiplies det(I + K/γ) by 1 + width², so the sum of ln(1 + width²) over what was learnt is the
    gain. Where decisions carry that width it is added up. A posterior would have to bring its factor up to date to
    answer, which a policy over a catalog can do without; where nothing can be added up it is asked all the same.
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._adds_up = isinstance(policy, PLAIN_POLICIES) and isinstance(policy.posterior, EXACT_POSTERIORS)
        self.now = self._asked()

    def add(self, width: float) -> None:
        """A decision of this width was learnt in the round it was chosen in."""
        if self._adds_up and not self._policy.pending:  # what is pending narrows widths without being learnt
            self.add_played(width)
        else:
            self.renew()

    def add_played(self, width: float) -> None:
        """A round of this width was chosen and learnt by the policy's own loop, which knows no other case."""
        self.now += log1p(width * width)

    def renew(self) -> None:
        """Something was learnt whose width is no longer, or never was, that of its decision."""
        self.now = self._asked()

    def _asked(self) -> float:
        posterior = getattr(self._policy, "posterior", None)  # not every policy has one
        return nan if posterior is None else float(posterior.log_det_gain)


ROUNDS_AT_ONCE: Final = 256
"""Rounds, at least, that are played together where the world can foresee them and the policy has a loop of its own."""


class Driver:
    """One policy in one run of a world.

    Rewards of the first `learn_rounds` rounds are learnt, whenever they come (None: of all rounds). A reward that is
    not known (nan) is recorded and not learnt.
    """

    def __init__(self, world: World, policy: Policy, *, learn_rounds: int | None = None) -> None:
        self.recorder = Recorder()
        self.n_finished = 0
        self._policy = policy
        self._learn_rounds = maxsize if learn_rounds is None else learn_rounds
        self._world = world
        self._late_world = world if isinstance(world, LateWorld) else None
        self._late = LateRewards(policy)
        if isinstance(world, WarmWorld):
            self._warm_up(*world.warm_up())
        self._gain = InformationGain(policy)

    def _warm_up(self, contexts: Points, rewards: Vector) -> None:
        """Tell the policy what is known before the first round; one that takes no history starts without."""
        try:
            self._policy.warm_start(contexts, rewards)
        except NotSupported:
            return

    def advance(self, most: int) -> int:
        """Play some of the next rounds, at most so many; how many were played: none where the world has ended."""
        world = self._world
        if self._may_play_at_once and isinstance(world, ForeseeableWorld):
            # Blocks that grow: a policy puts its whole state aside for each, to be able to go back.
            at_once = max(ROUNDS_AT_ONCE, self.n_finished // 4)
            return self._play(world.foresee(min(most, at_once, self._n_to_learn)))
        return self._step(world)

    @property
    def _may_play_at_once(self) -> bool:
        """Whether the policy has a loop of its own for the next rounds; it learns from all, and at once."""
        # Whatever chooses and learns will do as a policy, so it need not have heard of playing.
        return self._n_to_learn > 0 and self._late_world is None and getattr(self._policy, "is_fused", False)

    @property
    def _n_to_learn(self) -> int:
        """Rounds to come that are learnt from, once none are left zero or below."""
        return self._learn_rounds - self.n_finished

    def _step(self, world: World) -> int:
        """One round, or none where the world has ended."""
        try:
            shown = world.show()
        except StopIteration:
            return 0
        began = perf_counter()
        has_come = self._late.deliver(self.n_finished + 1)
        decision = self._policy.choose(shown.contexts, ids=shown.ids)
        choosing = perf_counter() - began
        if has_come:
            self._gain.renew()

        reward = world.pay(decision.action)

        began = perf_counter()
        is_learnt = self._teach(decision, reward)
        seconds = choosing + perf_counter() - began

        if is_learnt:
            self._gain.add(decision.width)
        self.recorder.record(shown, decision, reward, log_det_gain=self._gain.now, seconds=seconds)
        self.n_finished += 1
        return 1

    def _teach(self, decision: Decision, reward: float) -> bool:
        """Let the policy learn, now or later, what there is to learn; whether it has learnt now."""
        if isnan(reward) or self._n_to_learn <= 0:
            return False
        delay = 0 if self._late_world is None else a_count(self._late_world.delay(), "A delay", least=0)
        if delay:
            self._late.send(decision, reward, due=self.n_finished + 1 + delay)
            return False
        self._policy.learn(decision, reward)
        return True

    def _play(self, foreseen: list[tuple[Round, Vector]]) -> int:
        """Many rounds at once, with the rows that steps would give."""
        if any(_has_to_be_stepped(shown, rewards) for shown, rewards in foreseen):
            world = DrawnRounds(iter(foreseen))
            return sum(self._step(world) for _ in foreseen)
        if not foreseen:
            return 0
        began = perf_counter()
        plays = self._policy.play([shown.contexts for shown, _ in foreseen], [rewards for _, rewards in foreseen])
        seconds = (perf_counter() - began) / len(foreseen)
        for t, (shown, rewards) in enumerate(foreseen):
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
            self.recorder.record(shown, decision, plays.reward[t], log_det_gain=self._gain.now, seconds=seconds)
        self.n_finished += len(foreseen)
        return len(foreseen)


def _has_to_be_stepped(shown: Round, rewards: Vector) -> bool:
    """Whether a policy's own loop cannot play the round: catalogs have engines instead, and nan is not learnt."""
    return isinstance(shown.contexts, Catalog | CatalogView) or bool(np.isnan(rewards).any())


def simulate(
    environment: Environment,
    policy: Policy,
    *,
    horizon: int,
    seed: Seed = None,
    progress: Callable[[int], None] | None = None,
    learn_rounds: int | None = None,
) -> Trace:
    """Let a policy choose and learn, round after round, in a fresh run of a world.

    Parameters
    ----------
    environment
        The world's description; a run of it is started.
    policy
        Goes on learning from where it is: give a fresh one for a fresh start.
    horizon
        Most rounds to play; the trace is shorter when the world ends before.
    seed
        Of the world alone (a policy has a seed of its own). The same seed shows the same contexts and the same luck
        to any policy. None draws one, and `trace.spec["seed"]` tells it.
    progress
        Called with the number of finished rounds after each.
    learn_rounds
        Learn from the first so many rounds only, and just choose in all others; None learns from all.

    Notes
    -----
    A world that pays nan says that this reward is not known: the round is recorded and nothing is learnt from it. A
    world with a method `delay` says in how many rounds the reward of the round last shown will be told. A reward of
    round t with delay d > 0 is learnt at the start of round t + d, before that round's choice, in order of arrival;
    until then the policy is told to `expect` it. What is not due when the run ends stays pending in the policy.

    Examples
    --------
    >>> import kernelbandits as kb
    >>> kernel = kb.kernels.Gaussian(length_scale=0.3)
    >>> world = kb.environments.SyntheticRKHS(kernel, n_actions=5, n_features=2)
    >>> trace = kb.simulate(world, kb.KernelUCB(kernel), horizon=20, seed=1)
    >>> len(trace), trace.regret.shape
    (20, (20,))
    """
    an_environment(environment)
    a_policy(policy)
    horizon = a_count(horizon, "The horizon")
    if progress is not None:
        a_function(progress, "What is told of progress")
    sequence = _seed_sequence(seed)
    spec: Parameters = {
        "environment": environment.describe(),
        "policy": policy.describe(),
        "horizon": horizon,
        "seed": _plain_seed(sequence),
        "learn_rounds": None
        if learn_rounds is None
        else a_count(learn_rounds, "The number of rounds to learn from", least=0),
    }
    driver = Driver(start_world(environment, sequence), policy, learn_rounds=spec["learn_rounds"])
    while driver.n_finished < horizon:
        n_played = driver.advance(horizon - driver.n_finished)
        if not n_played:
            break
        if progress is not None:
            for done in range(driver.n_finished - n_played, driver.n_finished):
                progress(done + 1)
    return driver.recorder.trace(spec)


def start_world(environment: Environment, seed: Seed) -> World:
    """The very run of a world that `simulate` plays under this seed, to look at it again: `trace.spec["seed"]`."""
    an_environment(environment)
    (world_seed,) = _seed_sequence(seed).spawn(1)  # the first child; others stay free for what may need chance later
    return environment.start(np.random.default_rng(world_seed))


def _seed_sequence(seed: Seed) -> np.random.SeedSequence:
    """A sequence of our own: spawning from the caller's would give the next run with it other luck."""
    if isinstance(seed, np.random.Generator):
        return np.random.SeedSequence(int(seed.integers(2**63)))
    if isinstance(seed, np.random.SeedSequence):
        return np.random.SeedSequence(seed.entropy, spawn_key=seed.spawn_key, pool_size=seed.pool_size)
    if seed is None:
        return np.random.SeedSequence()
    return np.random.SeedSequence(a_seed(seed))


def _plain_seed(sequence: np.random.SeedSequence) -> Any:
    """The number that starts the same run again, or, for a spawned sequence, its parts."""
    if not sequence.spawn_key:
        return sequence.entropy
    return {"entropy": sequence.entropy, "spawn_key": list(sequence.spawn_key)}
