"""Rounds of one run: the world shows, the policy chooses, the world pays, the policy learns."""

from __future__ import annotations

from math import isnan
from sys import maxsize
from time import perf_counter
from typing import Final

import numpy as np

from kernelbandits.checks import a_count
from kernelbandits.environments.base import DrawnRounds, ForeseeableWorld, LateWorld, Round, WarmWorld, World
from kernelbandits.errors import NotSupported
from kernelbandits.evaluation.gain import InformationGain
from kernelbandits.evaluation.late import LateRewards
from kernelbandits.evaluation.recorder import Recorder
from kernelbandits.policies.base import Policy
from kernelbandits.selection import Catalogue, CatalogueView
from kernelbandits.types import Decision, Points, Vector

__all__ = ["Driver"]

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
    """Whether a policy's own loop cannot play the round: catalogues have engines instead, and nan is not learnt."""
    return isinstance(shown.contexts, Catalogue | CatalogueView) or bool(np.isnan(rewards).any())
