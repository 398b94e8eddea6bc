"""What policies share that bring rewards to [0, 1] and do not care what points are."""

from __future__ import annotations

from kernelbandits.kernels import PointKind, kind_of
from kernelbandits.policies.action_set import plain_points
from kernelbandits.policies.randomised_policy import RandomisedPolicy
from kernelbandits.selection import CatalogueView
from kernelbandits.types import Points

__all__ = ["UnitRewardPolicy"]


class UnitRewardPolicy(RandomisedPolicy):
    """Draws actions of any kind, and needs to know the range of rewards: `_rewards.unit` gives their share of it."""

    needs_reward_range = True

    def _kind(self, contexts: Points) -> PointKind:
        return kind_of(contexts)

    def _catalogue_points(self, view: CatalogueView) -> Points:
        return plain_points(view)
