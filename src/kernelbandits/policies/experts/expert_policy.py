"""What policies share that choose by the advice of experts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

import numpy as np

from kernelbandits.kernels import PointKind, kind_of
from kernelbandits.policies.action_set import Actions
from kernelbandits.policies.base import Policy, Saved
from kernelbandits.policies.experts.advice import Expert, advice_of, checked_experts
from kernelbandits.policies.experts.saving import packed_experts, unpacked_experts
from kernelbandits.policies.randomised_policy import RandomisedPolicy
from kernelbandits.selection import CatalogueView
from kernelbandits.types import Matrix, Parameters, Points, Seed

__all__ = ["ExpertPolicy"]


class ExpertPolicy(RandomisedPolicy):
    """Draws an action from a mixture of what experts advise; contexts are whatever the experts understand.

    Experts see the whole round. Where some actions are not eligible, the probability that an expert gave to these is
    spread over the others in proportion, or evenly where nothing else is left.
    """

    def __init__(
        self, experts: Sequence[Expert], *, reward_range: tuple[float, float] | None = (0.0, 1.0), seed: Seed = None
    ) -> None:
        super().__init__(reward_range=reward_range, seed=seed)
        self.experts = checked_experts(experts)
        """Those whose advice is mixed."""

    def _kind(self, contexts: Points) -> PointKind:
        return kind_of(contexts)

    def _catalogue_points(self, view: CatalogueView) -> Points:
        return view.points(view.catalogue.kind)

    def _advice(self, actions: Actions) -> Matrix:
        """A row per expert of probabilities of the eligible actions."""
        advice = advice_of(self.experts, actions.whole, actions.n_rows)
        if actions.rows is None:
            return advice
        left = advice[:, actions.rows]
        mass = left.sum(axis=1, keepdims=True)
        return np.where(mass > 0.0, left / np.where(mass > 0.0, mass, 1.0), 1.0 / actions.n_actions)

    def _expert_parameters(self) -> Parameters:
        """What `_parameters` says of the experts."""
        text = json.dumps([expert.describe() for expert in self.experts], sort_keys=True)
        return {"experts": {"n_experts": len(self.experts), "digest": hashlib.sha256(text.encode()).hexdigest()[:16]}}

    def _structure(self) -> Parameters:
        return {"experts": packed_experts(self.experts)}

    @classmethod
    def _build(cls, saved: Saved) -> Policy:
        experts = unpacked_experts(saved.structure["experts"])
        return super()._build(saved._replace(structure={**saved.structure, "experts": experts}))
