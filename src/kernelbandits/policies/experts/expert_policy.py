"""Base classes of expert policies: rewards scaled to [0, 1], any context type."""

from __future__ import annotations

from collections.abc import Sequence

from kernelbandits.kernels import PointKind, kind_of
from kernelbandits.policies.base import Policy, Saved
from kernelbandits.policies.experts.base import Expert, Panel
from kernelbandits.policies.experts.serialization import packed_experts, unpacked_experts
from kernelbandits.policies.randomized import RandomizedPolicy
from kernelbandits.selection import CatalogView
from kernelbandits.selection.actions import Actions, plain_points
from kernelbandits.types import Matrix, Parameters, Points, Seed

__all__ = ["ExpertPolicy", "UnitRewardPolicy"]


class UnitRewardPolicy(RandomizedPolicy):
    """Base class of randomized policies for any point type; `_rewards.unit` maps the reward range to [0, 1]."""

    needs_reward_range = True

    def _kind(self, contexts: Points) -> PointKind:
        return kind_of(contexts)

    def _catalog_points(self, view: CatalogView) -> Points:
        return plain_points(view)


class ExpertPolicy(UnitRewardPolicy):
    """Base class of policies that draw an action from a mixture of expert advice; the experts define the context type.

    Experts receive the whole round. The probability that an expert assigns to ineligible actions is redistributed over
    the eligible ones in proportion, or uniformly if their total is zero.
    """

    def __init__(
        self, experts: Sequence[Expert], *, reward_range: tuple[float, float] = (0.0, 1.0), seed: Seed = None
    ) -> None:
        super().__init__(reward_range=reward_range, seed=seed)
        self._panel = Panel(experts)

    @property
    def experts(self) -> tuple[Expert, ...]:
        """Experts whose advice is mixed."""
        return self._panel.experts

    def _note_model(self) -> None:
        self._note_references()

    def _advice(self, actions: Actions) -> Matrix:
        """Return one row per expert with the probabilities of the eligible actions."""
        return self._panel.advice(actions)

    def _expert_parameters(self) -> Parameters:
        """Return the entries of `_parameters` that describe the experts."""
        return {"experts": {"n_experts": len(self.experts), "digest": self._panel.digest}}

    def _structure(self) -> Parameters:
        return {"experts": packed_experts(self.experts)}

    @classmethod
    def _build(cls, saved: Saved) -> Policy:
        experts = unpacked_experts(saved.structure["experts"])
        return super()._build(saved._replace(structure={**saved.structure, "experts": experts}))
