"""What policies share that bring rewards to [0, 1] and do not care what points are."""

from __future__ import annotations

from kernelbandits.errors import InvalidParameter
from kernelbandits.kernels import PointKind, kind_of
from kernelbandits.policies.action_set import plain_points
from kernelbandits.policies.randomised_policy import RandomisedPolicy
from kernelbandits.selection import CatalogueView
from kernelbandits.types import Points, Seed

__all__ = ["UnitRewardPolicy"]


class UnitRewardPolicy(RandomisedPolicy):
    """Draws actions of any kind, and needs to know the range of rewards: `_rewards.unit` gives their share of it."""

    def __init__(self, *, reward_range: tuple[float, float], seed: Seed) -> None:
        if reward_range is None:
            raise InvalidParameter(
                f"{type(self).__name__} brings rewards to [0, 1], so it needs a reward_range, got None."
            )
        super().__init__(reward_range=reward_range, seed=seed)

    def _kind(self, contexts: Points) -> PointKind:
        return kind_of(contexts)

    def _catalogue_points(self, view: CatalogueView) -> Points:
        return plain_points(view)
