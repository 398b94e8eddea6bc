"""Upper-confidence policies: the base class, and KernelUCB."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, Literal, Self

import numpy as np

from kernelbandits._parameters import Parameter, one_of, parameter
from kernelbandits.errors import NotSupported
from kernelbandits.policies.posterior_policy import EXPLORATION, KernelPolicy, PosteriorPolicy, ScoredPrediction
from kernelbandits.policies.rounds import KnownRounds
from kernelbandits.policies.slates import Ranking
from kernelbandits.posterior import Placed, Posterior
from kernelbandits.selection.actions import Actions, CatalogActions
from kernelbandits.selection.box import BoxActions
from kernelbandits.selection.selectors import Selectors
from kernelbandits.selection.ties import Ties, checked_ties, pick_best, pick_tied, tie_probabilities, tied_rows
from kernelbandits.theory.exploration import Constant, Exploration
from kernelbandits.types import (
    Indices,
    Plays,
    Points,
    Selection,
    SelectionCost,
    Vector,
    new_cost,
)

__all__ = ["KernelUCB", "UpperConfidencePolicy"]

SIMILARITIES_AT_ONCE: Final = 4_000_000
"""Largest number of similarities computed at once for a batch of rounds: 32 MB."""


class UpperConfidencePolicy(PosteriorPolicy):
    """Select the highest mean + exploration · width under a posterior; the subclass defines the posterior."""

    reports_posterior_width = True
    accepts_offsets = True
    _searches_boxes = True

    ties: Ties = parameter(partial(checked_ties, may_be_exact=True), default="lowest")

    def _setup(self) -> None:
        super()._setup()
        self._ties: Ties = self.ties
        self._uses_selectors = self._ties != "exact"  # engines agree up to rounding, which would then decide
        self._selectors = Selectors()

    def _adopt(self, posterior: Posterior) -> None:
        super()._adopt(posterior)
        self._selectors = Selectors()

    # -- choosing --------------------------------------------------------------------------------------------------

    def _pick(self, actions: Actions) -> Selection:
        if type(actions) is BoxActions:
            return self._pick_inside(actions)
        if not self._uses_selectors or actions.offset is not None:
            return self._pick_from_all(actions)
        waiting = self._waiting() if self._ledger.pending else None
        selector, schedule = self._selectors.of(self.posterior, actions, waiting), self._exploration
        if selector is None:
            return self._pick_from_all(actions)
        if type(schedule) is Constant:
            exploration = schedule.value * self._exploration_unit
        else:
            exploration = self._exploration_now(actions.n_actions, waiting, self._ledger.round_index, selector)
        selection = selector.select(actions, exploration, self._break_tie)
        return self._pick_from_all(actions) if selection is None else selection

    def _break_tie(self, tied: Indices) -> tuple[int, float]:
        return pick_tied(tied, self._ties, self._rng)

    def _pick_inside(self, actions: BoxActions) -> Selection:
        """Search a box."""
        waiting = self._waiting()
        exploration = self._exploration_now(0, waiting, self._ledger.round_index)
        selector = self._selectors.of(self.posterior, actions, waiting)
        selection = None if selector is None else selector.select(actions, exploration, self._break_tie)
        assert selection is not None
        return selection

    def _pick_from_all(self, actions: Actions) -> Selection:
        """Score every action and select the best."""
        estimate = self._scored(actions)
        return self._choice(estimate, *pick_best(estimate.scores, self._ties, self._rng))

    def _scored(self, actions: Actions) -> ScoredPrediction:
        """Return mean and width of all eligible actions, and the exploration of this round."""
        estimate = self._estimate(actions.points, actions.n_actions, self._waiting(), self._ledger.round_index)
        return estimate if actions.offset is None else estimate._replace(offset=actions.offset)

    def _pick_batch(self, rounds: Sequence[Actions]) -> list[Selection]:
        """Compute all means and widths in one posterior query, at matrix-matrix speed, where most widths are needed."""
        is_selective = self._uses_selectors and not self._ledger.pending
        if len(rounds) < 2 or any(self._selectors.are_selective(self.posterior, rounds, uses_search=is_selective)):
            return super()._pick_batch(rounds)
        if any(actions.offset is not None for actions in rounds):
            return super()._pick_batch(rounds)
        if not self.posterior.size:  # nothing learned: rounds need not have the same shape
            return super()._pick_batch(rounds)
        return [
            self._choice(estimate, *pick_best(estimate.scores, self._ties, self._rng))
            for estimate in self._estimates(rounds)
        ]

    def _estimates(self, rounds: Sequence[Actions]) -> Iterator[ScoredPrediction]:
        """Yield the estimate of each round, from one posterior query."""
        waiting = self._waiting()
        whole, first = self._predict(self._stacked(rounds), waiting), 0
        for actions in rounds:
            part = slice(first, first + actions.n_actions)
            exploration = self._exploration_now(actions.n_actions, waiting, self._ledger.round_index)
            yield ScoredPrediction(whole.at(part), exploration)
            first = part.stop

    def _stacked(self, rounds: Sequence[Actions]) -> Points:
        return self.posterior.kernel.kind.stack(*(actions.points for actions in rounds))

    def _ranking(self, actions: Actions, *, diverse: bool) -> ScoreRanking:
        return ScoreRanking(self, actions, diverse=diverse)

    def _choice(self, estimate: ScoredPrediction, row: int, propensity: float) -> Selection:
        mean, width = float(estimate.prediction.mean[row]), float(estimate.prediction.width[row])
        n_actions, errors = len(estimate.prediction.mean), estimate.prediction.error
        cost = _screened(n_actions, n_actions)
        error = 0.0 if errors is None else float(errors[row]) * (1.0 + estimate.exploration)
        score = mean + estimate.exploration * width
        if estimate.offset is not None:
            score += float(estimate.offset[row])
        return Selection(row, mean, width, score, propensity, cost=cost, error=error)

    def _probabilities(self, actions: Actions) -> Vector:
        estimate = self._scored(actions)
        return tie_probabilities(tied_rows(estimate.scores, self._ties), self._ties, actions.n_actions)

    def _probabilities_batch(self, rounds: Sequence[Actions]) -> list[Vector]:
        """Compute ties in batches; exact ties, where the last digit may decide, in separate queries per round."""
        if len(rounds) < 2 or self._ties == "exact" or not self.posterior.size:  # rounds need not have the same shape
            return super()._probabilities_batch(rounds)
        if any(actions.offset is not None for actions in rounds):
            return super()._probabilities_batch(rounds)
        found = [self._probabilities(rounds[0])]  # separately: the first query may change the form of the posterior
        for part in self._side_by_side(rounds[1:]):
            if len(part) == 1:
                found.append(self._probabilities(part[0]))
                continue
            tied = zip(self._tied_in_each(part), part, strict=True)
            found += [tie_probabilities(rows, self._ties, actions.n_actions) for rows, actions in tied]
        return found

    def _side_by_side(
        self, rounds: Sequence[Actions], *, similarities_at_once: int = SIMILARITIES_AT_ONCE
    ) -> Iterator[list[Actions]]:
        """Split consecutive rounds into batches for joint queries; a catalog, which caches work, forms its own."""
        part: list[Actions] = []
        n_points, most = 0, max(1, similarities_at_once // max(1, self.posterior.size))
        for actions in rounds:
            is_alone = isinstance(actions, CatalogActions)
            if part and (is_alone or n_points + actions.n_actions > most):
                yield part
                part, n_points = [], 0
            part.append(actions)
            n_points += most if is_alone else actions.n_actions
        if part:
            yield part

    def _tied_in_each(self, rounds: Sequence[Actions]) -> list[Indices]:
        """Return the rows tied for the best score of each round."""
        if self._waiting() is None and self._uses_selectors:
            exploration = [
                self._exploration_now(actions.n_actions, None, self._ledger.round_index) for actions in rounds
            ]
            tied = self._selectors.tied_in_each(self.posterior, rounds, np.array(exploration))
            if tied is not None:
                return tied
        return [tied_rows(estimate.scores, self._ties) for estimate in self._estimates(rounds)]

    # -- learning --------------------------------------------------------------------------------------------------

    @property
    def has_compiled_loop(self) -> bool:
        """As in `Policy`: True if the posterior supports it and there is no schedule, random tie or pending reward."""
        is_plain = isinstance(self._exploration, Constant) and self._ties == "lowest" and not self._ledger.pending
        return is_plain and self._search_due is None and self._uses_selectors and self.posterior.supports_batch_play

    def _play(self, known: KnownRounds, plays: Plays, rounds: range) -> None:
        t, stop, notes, n_notes = rounds.start, rounds.stop, self._journal.notes, -1
        while t < stop:
            if self.has_compiled_loop:
                exploration = self._exploration_now(1, None, self._ledger.round_index)  # the same in all rounds
                for start, contexts, rewards in known.blocks(t, stop):
                    rows, means, widths = self.posterior._play(contexts, rewards, exploration)
                    t = start + len(rows)
                    done = slice(start, t)
                    plays.action[done], plays.mean[done], plays.width[done] = rows, means, widths
                    plays.score[done] = means + exploration * widths
                    plays.reward[done] = rewards[np.arange(len(rows)), rows]
                    self._ledger.count(len(rows))
                    if len(rows) < len(contexts):
                        break
            if t < stop:
                if n_notes < 0:  # from here on one copy instead of one journal entry per round
                    self._ledger.count(0)
                    self._note_copy()
                    n_notes = len(notes)
                self._play_round(known, plays, t, self._pick)
                t += 1
            if n_notes >= 0:
                del notes[n_notes:]


def _screened(n_actions: int, n_widths: int) -> SelectionCost:
    """Return the cost of a selection for which all means and some widths were computed."""
    if n_widths == n_actions:
        return new_cost(("exhaustive", n_actions, n_actions, n_actions, 0))
    return new_cost(("screened", n_actions, n_actions, n_widths, n_actions))


class ScoreRanking(Ranking):
    """Slate by upper confidence bounds. In a diverse slate, placed actions count as pending and reduce the widths."""

    def __init__(self, policy: UpperConfidencePolicy, actions: Actions, *, diverse: bool) -> None:
        super().__init__(actions.n_actions)
        self._policy = policy
        points, waiting = actions.points, policy._waiting()
        self.estimate = policy._scored(actions)
        """Mean and width of all actions, and the exploration, at the next place."""
        self._placed = Placed(policy.posterior, points, self.estimate.prediction, waiting) if diverse else None

    def select(self) -> Selection:
        policy = self._policy
        best, propensity = pick_best(self.estimate.scores[self.left], policy._ties, policy._rng)
        return policy._choice(self.estimate, int(self.left[best]), propensity)

    def probabilities(self) -> Vector:
        ties = self._policy._ties
        return tie_probabilities(tied_rows(self.estimate.scores[self.left], ties), ties, len(self.left))

    def estimate_of(self, row: int) -> tuple[float, float]:
        prediction = self.estimate.prediction
        return float(prediction.mean[row]), float(prediction.width[row])

    def copy(self) -> Self:
        if self._placed is not None:
            raise NotSupported("A diverse slate is built once: probabilities of slates are those without `diverse`.")
        return super().copy()

    def place(self, row: int) -> None:
        super().place(row)
        placed, mean = self._placed, self.estimate.prediction.mean
        if placed is not None:
            placed.place(row)
            round_index = self._policy._ledger.round_index + len(mean) - len(self.left)
            exploration = self._policy._exploration_now(len(self.left), placed, round_index)
            prediction = replace(self.estimate.prediction, width=np.sqrt(placed.squares))
            self.estimate = self.estimate._replace(prediction=prediction, exploration=exploration)


class KernelUCB(KernelPolicy, UpperConfidencePolicy):
    """Select the action with the highest mean + exploration · width (Valko et al. 2013, KernelUCB with online updates).

    Kernel ridge regression gives the mean and width of every action of the round from the rewards learned so far;
    actions that were never tried are predicted from their similarity to actions that were. With m distinct learned
    contexts, choosing among N actions costs O(N m), plus O(m²) for each action that may be the best: O(N m²) if all
    widths must be computed. Learning costs O(m²), or O(m) for the action chosen just before.

    Parameters
    ----------
    kernel
        A kernel, a square similarity matrix, a scikit-learn kernel, or a function (first, second) → matrix.
    regularization
        γ > 0: the ridge parameter. Larger values shrink predictions toward the prior mean 0.
    exploration
        Number of widths added to the mean of an action: a number tuned to the problem (0.1 to 2), or a schedule of
        `kernelbandits.theory.exploration` such as `Mixture`, whose confidence statement is proved.
    posterior
        "auto" (the cheaper exact form), "exact", "primal", or a function (kernel, regularization) → posterior. For
        binary rewards: "logistic". For rewards that change over time: posterior_factory("windowed", length=200) or
        posterior_factory("forgetting", rate=0.99). With these, all actions are scored, and exploration must be tuned.
    budget
        Number of distinct contexts up to which all is exact. Beyond it a dictionary of at most this size replaces them
        (Nyström): memory and time of a round are bounded. None: always exact.
    accuracy
        Instead of a budget, in (0, 1): approximate as soon as that pays, with at most this fraction of γ left
        unexplained in sum. All contexts are stored.
    device
        "cpu", or "cuda" for the exact model on a GPU (extra `gpu`). The choices are the same, so it is not part of the
        fingerprint or of saved files.
    refit
        "auto" learns length scales, weights of sums and the regularization from the rewards after 20, 40, 80, …
        of them, a number n after every n; a `posterior.Refit` also names the criterion. None keeps them as given.
        `kernel` and `regularization` are where every search begins, `policy.posterior` has those in use. A number given
        as `exploration` is multiplied by the root of γ in use over γ given where that is below 1, so that an
        unknown action never gets a larger bonus than with the given γ. No confidence statement is proved then.
    reward_range
        Range of valid rewards; others are rejected. None accepts any finite number.
    ties
        Scores within 1e-10 of the best are tied. "lowest" selects the lowest row; "random" draws one using `seed` and
        records its propensity in the decision. "exact" is the plain argmax: the last digit decides, and all actions are
        scored.
    engine
        "auto" finds the best action without scoring all actions where possible; "exhaustive" scores every action, for
        comparison. The choices are the same, so it is not part of the fingerprint or of saved files.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelbandits.kernels import Gaussian
    >>> policy = KernelUCB(Gaussian(length_scale=0.3), regularization=0.1, exploration=0.2)
    >>> contexts = np.linspace(0, 1, 5)[:, None]
    >>> for _ in range(10):
    ...     decision = policy.choose(contexts)
    ...     policy.learn(decision, reward=1.0 - abs(contexts[decision.action, 0] - 0.75))
    >>> policy.choose(contexts).action
    3
    """

    exploration: Parameter[float | Exploration, Exploration] = parameter(EXPLORATION, default=1.0, is_assignable=True)
    engine: Literal["auto", "exhaustive"] = parameter(
        one_of("auto", "exhaustive", message="The engine is 'auto', or 'exhaustive' to score every action"),
        default="auto",
        is_described=False,
    )

    def _setup(self) -> None:
        super()._setup()
        self._uses_selectors = self._uses_selectors and self.engine == "auto"
