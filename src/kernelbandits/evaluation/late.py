"""Rewards that are told some rounds after the choice they belong to."""

from __future__ import annotations

from contextlib import suppress
from heapq import heappop, heappush
from itertools import count

from kernelbandits.errors import NotSupported
from kernelbandits.policies.base import Policy
from kernelbandits.types import Decision

__all__ = ["LateRewards"]


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
