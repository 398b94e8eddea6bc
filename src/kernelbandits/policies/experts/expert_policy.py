"""Base classes of expert policies: rewards scaled to [0, 1], any context type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Self

from kernelbandits._parameters import Parameter, ValueType, parameter
from kernelbandits.kernels import PointKind, kind_of
from kernelbandits.policies.base import REWARD_RANGE, SEED
from kernelbandits.policies.experts.base import Expert, Panel, checked_experts
from kernelbandits.policies.experts.serialization import packed_experts, unpacked_experts
from kernelbandits.policies.randomized import RandomizedPolicy
from kernelbandits.selection import CatalogView
from kernelbandits.selection.actions import Actions, plain_points
from kernelbandits.types import Matrix, Parameters, Points, Seed

__all__ = ["EXPERTS", "ExpertPolicy", "SharedExperts", "UnitRewardPolicy"]


class SharedExperts(tuple[Expert, ...]):
    """Experts, which are immutable: a copied policy has the same ones."""

    __slots__ = ()

    def __deepcopy__(self, memo: object) -> Self:
        return self

    @classmethod
    def checked(cls, experts: Sequence[Expert]) -> Self:
        """Validate experts."""
        return cls(checked_experts(experts))


EXPERTS: Final = ValueType(SharedExperts.checked, len, packed_experts, unpacked_experts)
"""The experts of a policy. Those that are not of the library cannot be saved."""


class UnitRewardPolicy(RandomizedPolicy):
    """Base class of randomized policies for any point type; `_rewards.unit` maps the reward range to [0, 1]."""

    needs_reward_range = True

    reward_range: tuple[float, float] = parameter(REWARD_RANGE, default=(0.0, 1.0))
    seed: Seed = parameter(SEED, default=None, is_described=False)

    def _kind(self, contexts: Points) -> PointKind:
        return kind_of(contexts)

    def _catalog_points(self, view: CatalogView) -> Points:
        return plain_points(view)


class ExpertPolicy(UnitRewardPolicy):
    """Base class of policies that draw an action from a mixture of expert advice; the experts define the context type.

    Experts receive the whole round. The probability that an expert assigns to ineligible actions is redistributed over
    the eligible ones in proportion, or uniformly if their total is zero.
    """

    experts: Parameter[Sequence[Expert], tuple[Expert, ...]] = parameter(EXPERTS, kw_only=False)

    def _setup(self) -> None:
        super()._setup()
        self._panel = Panel(self.experts)

    def _note_model(self) -> None:
        self._note_references()

    def _advice(self, actions: Actions) -> Matrix:
        """Return one row per expert with the probabilities of the eligible actions."""
        return self._panel.advice(actions)

    def _description(self) -> Parameters:
        experts = {"n_experts": len(self.experts), "digest": self._panel.digest}
        return {**super()._description(), "experts": experts}
