"""A baseline that is left only for what is better for sure."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from kernelbandits.checks import is_one_of, not_negative, shown
from kernelbandits.errors import InvalidContexts, InvalidParameter
from kernelbandits.kernels import Ids
from kernelbandits.policies.action_set import Actions
from kernelbandits.policies.base import Choice
from kernelbandits.policies.posterior_policy import Estimate
from kernelbandits.policies.randomised.upper_confidence_wrapper import UpperConfidenceWrapper
from kernelbandits.policies.ties import pick_tied, tie_probabilities, tied_rows
from kernelbandits.policies.upper_confidence import UpperConfidencePolicy
from kernelbandits.types import Indices, ItemId, Parameters, Vector

__all__ = ["Guarded"]


class _Judged(NamedTuple):
    """What a round comes down to: the places that may be taken, tied for the best, and what they were judged by."""

    tied: Indices
    estimate: Estimate


class Guarded(UpperConfidenceWrapper):
    """Play a baseline action unless another is better with confidence.

    The baseline is left only for an action whose lower confidence bound exceeds the baseline's upper one by more than
    `margin`, both at the exploration of the policy inside:

        mean − exploration · width  >  baseline's mean + exploration · its width + margin.

    Among such actions the one of highest upper confidence bound is played. Where the bounds hold, no action is ever
    played that is not better than the baseline by the margin. In a round where the baseline is not eligible, the policy
    inside chooses freely.

    It does not explore: while the baseline is played, other actions are known only as far as they are similar to it.
    Evidence has to come from elsewhere: `warm_start` with history, or `Mixed(Guarded(...), epsilon=0.05)`, which
    risks a known share of the rounds. Every action of a round is scored: O(N m²) after m distinct contexts.

    Parameters
    ----------
    policy
        KernelUCB, LinUCB, GP-UCB or another that takes the highest upper confidence bound; taken over, not copied. Its
        exploration says what is meant by confidence.
    baseline
        Id of the baseline action, as `ids` or a catalogue name it; the row where there are no ids.
    margin
        By how much an action has to be better, zero or above, in units of the reward.
    absent
        A round that does not have the baseline at all is "refuse"d, so that no misspelt name switches the guard off;
        or the policy inside is "free" there, for baselines that come and go.

    Examples
    --------
    >>> from kernelbandits.kernels import Delta
    >>> from kernelbandits.policies import KernelUCB
    >>> policy = Guarded(KernelUCB(Delta(), regularisation=0.1, exploration=0.5), baseline="old", margin=0.1)
    >>> policy.choose(["old", "new"], ids=["old", "new"]).item
    'old'
    >>> policy.warm_start(["old", "new"], [0.2, 0.9], times=50)
    >>> policy.choose(["old", "new"], ids=["old", "new"]).item
    'new'
    """

    def __init__(
        self,
        policy: UpperConfidencePolicy,
        *,
        baseline: ItemId,
        margin: float = 0.0,
        absent: Literal["refuse", "free"] = "refuse",
    ) -> None:
        super().__init__(policy)
        try:
            self._baseline: ItemId = Ids().check_one(baseline)
        except InvalidContexts as error:
            name = shown(baseline)
            raise InvalidParameter(
                f"The baseline is named by its id, a whole number or a string, got {name}."
            ) from error
        self._margin = not_negative(margin, "The margin")
        if not is_one_of(absent, ("refuse", "free")):
            raise InvalidParameter(f"A round without the baseline is 'refuse'd or 'free', got absent={shown(absent)}.")
        self._absent = absent

    @property
    def baseline(self) -> ItemId:
        """Id of the baseline action."""
        return self._baseline

    @property
    def margin(self) -> float:
        """By how much an action has to be better."""
        return self._margin

    def _pick(self, actions: Actions) -> Choice:
        judged = self._judged(actions)
        if judged is None:
            return self.policy._pick(actions)
        place, propensity = pick_tied(judged.tied, self.policy._ties, self.policy._rng)
        return self.policy._choice(judged.estimate, place, propensity)

    def _probabilities(self, actions: Actions) -> Vector:
        judged = self._judged(actions)
        if judged is None:
            return self.policy._probabilities(actions)
        return tie_probabilities(judged.tied, self.policy._ties, actions.n_actions)

    def _judged(self, actions: Actions) -> _Judged | None:
        """None where the baseline may not be taken in this round; InvalidContexts where it is no action of it."""
        baseline = actions.place_of(self._baseline)
        if baseline is None:
            if self._absent == "refuse":
                self._require_known(actions)
            return None
        estimate = self._estimate(actions)
        upper, lower = estimate.scores, estimate.prediction.lower(estimate.exploration)
        better = np.flatnonzero(lower > upper[baseline] + self._margin)
        if not len(better):
            return _Judged(np.array([baseline]), estimate)
        return _Judged(better[tied_rows(upper[better], self.policy._ties)], estimate)

    def _require_known(self, actions: Actions) -> None:
        """A guard that is silently off would be worse than none."""
        if all(actions.item(row) != self._baseline for row in range(actions.n_rows)):
            raise InvalidContexts(
                f"The baseline {shown(self._baseline)} is no action of this round. Name the actions, ids=[…], with the "
                "baseline among them, or take absent='free' for a baseline that comes and goes."
            )

    def _parameters(self) -> Parameters:
        return {
            **self._wrapped_parameters(),
            "baseline": self._baseline,
            "margin": self._margin,
            "absent": self._absent,
        }
