"""What policies share that are made of another policy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from numpy.typing import ArrayLike

from kernelbandits.checks import a_generator
from kernelbandits.errors import InvalidParameter
from kernelbandits.kernels import PointKind
from kernelbandits.policies.action_set import Actions
from kernelbandits.policies.base import Policy, Saved
from kernelbandits.policies.explanation import Explanation
from kernelbandits.selection import CatalogueView
from kernelbandits.types import Decision, ItemId, Parameters, Point, Points, Seed, Vector

__all__ = ["WrappedPolicy"]


class WrappedPolicy(Policy):
    """Chooses otherwise than the policy inside, which learns every reward.

    Both keep one and the same ledger of what was learnt and is awaited: rounds count alike, and what is awaited counts
    in the widths inside. The wrapper's decisions carry its own fingerprint. The policy inside is taken over as it is,
    with what it has learnt, and is not copied; from then on it is asked through the wrapper.
    """

    def __init__(self, policy: Policy, *, seed: Seed = None) -> None:
        if not isinstance(policy, Policy):
            raise InvalidParameter(f"{type(self).__name__} wraps a policy, got {type(policy).__name__}.")
        super().__init__(reward_range=policy.reward_range, seed=seed)
        self._journal = policy._journal  # one lock and one undo log for both
        self.policy = policy
        """The one inside."""
        self.kernel = policy.kernel
        self.needs_fixed_actions = policy.needs_fixed_actions
        self.learns_from_any_action = policy.learns_from_any_action
        self._ledger = policy._ledger
        self._is_numbered = policy._is_numbered
        self._has_notes_to_make = policy._has_notes_to_make

    # -- points are what they are inside ---------------------------------------------------------------------------

    def _kind(self, contexts: Points) -> PointKind:
        return self.policy._kind(contexts)

    def _points(self, contexts: Points, ids: Sequence[ItemId] | None) -> Points:
        return self.policy._points(contexts, ids)

    def _catalogue_points(self, view: CatalogueView) -> Points:
        return self.policy._catalogue_points(view)

    def _context(self, points: Points, row: int) -> Point:
        return self.policy._context(points, row)

    def _point(self, decision: Decision) -> Points:
        return self.policy._point(decision)

    def _refuse_other_set(self, points: Points) -> None:
        self.policy._refuse_other_set(points)

    def _refuse_incomparable(self, point: Points) -> None:
        self.policy._refuse_incomparable(point)

    def _estimate_of(self, actions: Actions, place: int) -> tuple[float, float]:
        return self.policy._estimate_of(actions, place)

    # -- the policy inside learns ------------------------------------------------------------------------------------

    def _note_model(self) -> None:
        self.policy._note_model()

    def _numbers_of(self, decisions: Sequence[Decision]) -> Sequence[int | None]:
        return self.policy._numbers_of(decisions)

    def _validate_decision(self, decision: Decision) -> None:
        self.policy._validate_decision(decision)

    def _take_in(self, decision: Decision, reward: float) -> None:
        self.policy._take_in(decision, reward)

    def _take_in_many(self, decisions: Sequence[Decision], rewards: Vector) -> None:
        self.policy._take_in_many(decisions, rewards)

    def _correct(self, decision: Decision, was: float, now: float, number: int | None) -> None:
        self.policy._correct(decision, was, now, number)

    def _take_back(self, decision: Decision, reward: float, number: int | None) -> None:
        self.policy._take_back(decision, reward, number)

    def _start_from(self, points: Points, rewards: Vector, times: ArrayLike) -> None:
        self.policy._start_from(points, rewards, times)

    def _pending_changed(self, decision: Decision, change: int) -> None:
        self.policy._pending_changed(decision, change)

    def _draw_by(self, id: str | None) -> None:
        super()._draw_by(id)
        self.policy._draw_by(id)

    def _note_random(self) -> None:
        super()._note_random()
        self.policy._note_random()

    def reseed(self, seed: Seed = None) -> None:
        """As described in `Policy`; the policy inside gets a seed of its own, derived from this one."""
        own, inner = a_generator(seed).spawn(2)
        super().reseed(own)
        self.policy.reseed(inner)

    def explain(self, decision: Decision, *, most: int = 10) -> Explanation:
        """Why the action scores as it does, by the policy inside as it is now."""
        self._require_own(decision)
        return self.policy.explain(replace(decision, policy=""), most=most)

    # -- keeping -----------------------------------------------------------------------------------------------------

    def _wrapped_parameters(self) -> Parameters:
        """What `_parameters` says of the policy inside."""
        kernel = {} if self.kernel is None else {"kernel": self.kernel.describe()}
        return {"policy": self.policy.describe(), **kernel}

    def _structure(self) -> Parameters:
        from kernelbandits.policies.saving import packed_policy

        return {"policy": packed_policy(self.policy)}

    @classmethod
    def _build(cls, saved: Saved) -> Policy:
        given = {name: value for name, value in saved.parameters.items() if name not in ("policy", "kernel")}
        return cls(saved.rebuild(saved.structure["policy"]), **given)

    def _state(self) -> Parameters:
        return {}  # the policy inside is kept whole, in `_structure`

    def _restore(self, state: Any) -> None:
        """There is nothing to restore."""
