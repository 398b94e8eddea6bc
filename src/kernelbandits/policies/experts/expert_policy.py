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
    """Draws actions of any kind, and needs to know the range of rewards: `_rewards.unit` gives their share of it."""

    needs_reward_range = True

    def _kind(self, contexts: Points) -> PointKind:
        return kind_of(contexts)

    def _catalog_points(self, view: CatalogView) -> Points:
        return plain_points(view)


class ExpertPolicy(UnitRewardPolicy):
    """Draws an action from a mixture of what experts advise; contexts are whatever the experts understand.

    Experts see the whole round. Where some actions are not eligible, the probability that an expert gave to these is
    spread over the others in proportion, or evenly where nothing else is left.
    """

    def __init__(
        self, experts: Sequence[Expert], *, reward_range: tuple[float, float] = (0.0, 1.0), seed: Seed = None
    ) -> None:
        super().__init__(reward_range=reward_range, seed=seed)
        self._panel = Panel(experts)

    @property
    def experts(self) -> tuple[Expert, ...]:
        """Those whose advice is mixed."""
        return self._panel.experts

    def _note_model(self) -> None:
        self._note_references()

    def _advice(self, actions: Actions) -> Matrix:
        """A row per expert of probabilities of the eligible actions."""
        return self._panel.advice(actions)

    def _expert_parameters(self) -> Parameters:
        """What `_parameters` says of the experts."""
        return {"experts": {"n_experts": len(self.experts), "digest": self._panel.digest}}

    def _structure(self) -> Parameters:
        return {"experts": packed_experts(self.experts)}

    @classmethod
    def _build(cls, saved: Saved) -> Policy:
        experts = unpacked_experts(saved.structure["experts"])
        return super()._build(saved._replace(structure={**saved.structure, "experts": experts}))
