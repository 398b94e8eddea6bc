"""Kernel Thompson sampling."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from functools import partial
from math import erfc, inf, isnan, nan, sqrt
from typing import Any, Final, Literal, Self

import numpy as np

from kernelbandits._parameters import Parameter, one_of, parameter
from kernelbandits._saved_state import saved_count
from kernelbandits.errors import NotSupported
from kernelbandits.kernels import Kernel
from kernelbandits.kernels.fourier_features import check_even_count, has_random_features
from kernelbandits.policies.posterior_policy import EXPLORATION, KernelPolicy
from kernelbandits.policies.randomized import ActionDistribution, RandomizedPolicy, drawn
from kernelbandits.policies.slates import Ranking
from kernelbandits.posterior.sampling import JITTER, Paths, draw_jointly, draw_paths, feature_map, has_feature_map
from kernelbandits.selection import tied_for_best
from kernelbandits.selection.actions import Actions
from kernelbandits.selection.box import BoxActions, best_tried, maximize
from kernelbandits.selection.ties import Ties, best_of_each, checked_ties, tie_probabilities, worst_tied_of_each
from kernelbandits.theory.exploration import Constant, Exploration
from kernelbandits.types import Matrix, Parameters, Points, Seed, Selection, SelectionCost, Vector
from kernelbandits.validation import as_generator, check_int, short_repr

__all__ = ["KernelThompson"]

PRACTICAL: Final = 0.25
"""Default standard deviation of a draw, in those of the posterior: the best of a grid on problems apart."""

MOST_JOINT: Final = 512
"""Largest number of actions for which "auto" draws jointly.

Measured once, with 1000 features and 256 draws after 100 and 500 contexts: features are 3 to 4 times slower at 256
actions, 1.2 to 1.5 times slower at 512 and 1.6 times faster at 1024.
"""

MOST_DRAWS: Final = 1_000_000
"""Largest number of draws for the propensities of a round: each draw takes 8 bytes per action."""


class KernelThompson(KernelPolicy, RandomizedPolicy):
    """Select each action with its posterior probability of being the best (Chowdhury and Gopalan 2017, GP-TS).

    The rewards g of a round's actions are modeled as N(mean, η² Σ̂), with η the exploration; γ Σ̂ is the posterior
    covariance of a Gaussian process with noise variance γ. Thompson sampling draws g and selects its largest entry: it
    selects action a with the probability that a is the best. This policy computes that probability first and draws the
    action from it. The propensity of a decision is therefore exact, and equals the result of `probabilities`:

    - One action: 1. Two actions: Φ(difference of means / its standard deviation).
    - More: the fraction of `propensity_draws` joint draws in which the action is the best. These draws use a separate
      generator, seeded by the seed and the round index: a repeated query of the same model gives the same fractions.
      Following one of the draws, selected at random, is Thompson sampling. The fraction is the exact probability of the
      selected action, and an estimate of the ideal probability p with standard error sqrt(p(1 − p)/n) from n draws. An
      action that is not the best in any draw cannot be selected in that round.

    So most actions have probability 0 once something is learned, and the log cannot evaluate a policy that selects
    them. For a log that will be reused, `Mixed(KernelThompson(…), epsilon=0.1)` gives every one of N actions at least
    epsilon / N, and its propensities are exact too.

    A slate ranks by one such draw; each propensity is conditional on the items above. Pending decisions reduce the
    variance of the draws and do not change the mean. The noise of the rewards is assumed to be about normal; in
    practice, any bounded reward works.

    A round of N actions after m distinct contexts costs O(N m² + N² m + N³) jointly, plus N² per draw; by features
    O(m² + m D) per draw and O(m + D) per draw and action: it grows with m, not with the cube of N. A posterior in a
    finite feature space, such as that of `RandomFourier`, draws D weights: O(D²) per draw and O(D) per draw and action.

    Parameters
    ----------
    kernel, regularization, posterior, budget, accuracy, device, refit, reward_range
        As in KernelUCB; the regularization is the noise variance of the process.
    exploration
        η, the standard deviation of a draw in widths: a number, or a schedule of `kernelbandits.theory`. None:
        sqrt(regularization) / 4, the best of a grid (docs/defaults.md); sqrt(regularization) is the posterior itself if
        the regularization is the noise variance. Smaller values are greedier. IGPUCB at half the failure probability is
        the scale of the regret proof, sqrt(γ) (B + R sqrt(2 (I_t + 1 + ln(2/δ)))), which explores far too long for
        practical use.
    draws
        "joint": from the covariance of the round's actions, with 1e-10 of its trace added to the diagonal. "features":
        function samples, from a prior draw over random Fourier features and its exact correction by the data; requires
        a kernel with explicit features (`Linear`, `RandomFourier`, …) or with a spectral density (`Gaussian`,
        `Matern`, …). "auto": by features for
        more than 512 actions if the kernel supports it. Two actions are always treated jointly.
    n_features
        Number of random features of a prior draw, an even number; redrawn in each round.
    propensity_draws
        Number of draws from which the probabilities are computed. 1 is the cheapest and makes the policy deterministic
        between two updates: the propensity is 1.0, and its log cannot be used to evaluate another policy.
    ties
        Actions that tie in a draw, such as equal points: "lowest" assigns the draw to the lowest row, "random" splits
        it equally.
    seed
        Seed of the draws.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelbandits.kernels import Gaussian
    >>> policy = KernelThompson(Gaussian(length_scale=0.3), regularization=0.05, seed=0)
    >>> contexts = np.linspace(0, 1, 5)[:, None]
    >>> for _ in range(40):
    ...     decision = policy.choose(contexts)
    ...     policy.learn(decision, reward=1.0 - abs(contexts[decision.action, 0] - 0.75))
    >>> int(np.argmax(policy.probabilities(contexts)))
    3
    """

    accepts_offsets = True

    exploration: Parameter[float | Exploration | None, Exploration] = parameter(
        EXPLORATION, default=None, is_assignable=True
    )
    draws: Literal["auto", "joint", "features"] = parameter(
        one_of("auto", "joint", "features", message="Draws are made 'joint', by 'features' or the way 'auto' finds"),
        default="auto",
    )
    n_features: int = parameter(check_even_count, default=1_000)
    propensity_draws: int = parameter(partial(check_int, name="The number of draws", most=MOST_DRAWS), default=256)
    ties: Ties = parameter(checked_ties, default="lowest")

    _searches_boxes = True

    def _setup(self) -> None:
        if self.draws == "features" and not _may_have_features(self.kernel):
            raise NotSupported(
                f"Draws by features need a kernel with features, or Gaussian or Matern, got {self.kernel!r:.80}. Take "
                "draws='joint'."
            )
        if self.draws == "features" and not (self.budget is None and self.accuracy is None):
            raise NotSupported(
                "Draws by features are corrected by all observations, and beyond a budget or with an accuracy only a "
                "dictionary of them is used. Take draws='joint'."
            )
        super()._setup()
        self._entropy = int(self._rng.integers(2**63))  # seed of the generators of the draws

    def reseed(self, seed: Seed = None) -> None:
        """As described in `Policy`."""
        super().reseed(seed)
        self._journal.note(setattr, self, "_entropy", self._entropy)
        self._entropy = int(self._rng.integers(2**63))

    def _first_exploration(self) -> Exploration:
        if self.exploration is None:
            self._resolve(exploration=Constant(PRACTICAL * sqrt(self.regularization)))
        return self.exploration

    # -- choosing --------------------------------------------------------------------------------------------------

    def draw(self, contexts: Points, n_draws: int = 1, *, seed: Seed = None) -> Matrix:
        """Sample rewards of these actions from the current posterior: one row per draw, one column per action."""
        rng = as_generator(seed)
        points = self._points(contexts, None)
        return self._drawn(
            points, self._kind(points).count(points), check_int(n_draws, "The number of draws", most=MOST_DRAWS), rng
        )

    def _pick(self, actions: Actions) -> Selection:
        return self._pick_inside(actions) if type(actions) is BoxActions else super()._pick(actions)

    def _pick_batch(self, rounds: Sequence[Actions]) -> list[Selection]:
        if any(type(actions) is BoxActions for actions in rounds):
            return [self._pick(actions) for actions in rounds]
        return super()._pick_batch(rounds)

    def _pick_inside(self, actions: BoxActions) -> Selection:
        """Draw a function and search the box for its maximum. A point of a box has no probability."""
        box, kernel = actions.box, self.kernel
        point = actions.points_at(box.low[None])
        if self.draws == "joint" or not self._is_correctable:
            raise NotSupported(
                "KernelThompson searches a box for the maximum of a drawn function, which needs draws='auto' or "
                "'features', no budget, no accuracy and no logistic posterior. KernelUCB searches a box with any of "
                "these."
            )
        if not has_feature_map(kernel, point):
            raise NotSupported(
                "KernelThompson searches a box for the maximum of a drawn function, which needs a kernel with explicit "
                f"or random features (Gaussian, Matern, RandomFourier, …), got {short_repr(kernel)}. Take such a "
                "kernel over rows that join the context and the action, or KernelUCB."
            )
        paths = self._paths(point, 0, 1, self._rng)

        def values(rows: Matrix) -> Vector:
            heights: Vector = paths.at(actions.points_at(rows))[0]
            return heights

        def climb(rows: Matrix) -> tuple[Vector, Matrix]:
            return values(rows), paths.gradient(actions.points_at(rows))[:, -box.n_columns :]

        rows, n_scored = maximize(box, values, climb, best_tried(self.posterior, actions))
        heights = values(rows)
        best = int(np.argmax(heights))
        actions.find(rows[[best]])
        cost = SelectionCost("gradient", 0, n_scored + len(rows), 0, 0)
        choice = Selection(0, score=float(heights[best]), propensity=nan, cost=cost)
        return self._with_estimate(choice, actions.points)

    def _distribution(self, actions: Actions) -> ActionDistribution:
        points, n_actions = actions.points, actions.n_actions
        if n_actions > 2 and self._draws_paths(points, n_actions):
            return ActionDistribution(self._shares(_shifted(self._round_draws(points, n_actions), actions.offset)))
        prediction = self._predict(points, self._waiting())
        if n_actions == 1:
            return ActionDistribution(np.ones(1), prediction)
        if n_actions == 2:
            return ActionDistribution(
                self._shares_of_two(_shifted(prediction.mean, actions.offset), self._covariance(points, n_actions)),
                prediction,
            )
        draws = self._joint_draws(points, prediction.mean, self.propensity_draws, self._round_generator())
        return ActionDistribution(self._shares(_shifted(draws, actions.offset)), prediction)

    def _drawn_choice(self, actions: Actions, distribution: ActionDistribution) -> Selection:
        choice = super()._drawn_choice(actions, distribution)
        return self._with_estimate(choice, actions.points) if isnan(choice.mean) else choice

    def _with_estimate(self, choice: Selection, points: Points) -> Selection:
        """Add mean and width of the selected action."""
        mean, width = self._predict_one(points, choice.row)
        return choice._replace(mean=mean, width=width)

    def _ranking(self, actions: Actions, *, diverse: bool) -> Ranking:
        if diverse:
            raise NotSupported(
                "KernelThompson ranks by one draw, in which similar actions go together; it has no diverse slates. "
                "Leave `diverse` out, or take KernelUCB."
            )
        return _DrawRanking(self, actions)

    def _round_draws(self, points: Points, n_actions: int) -> Matrix:
        return self._drawn(points, n_actions, self.propensity_draws, self._round_generator())

    def _round_generator(self) -> np.random.Generator:
        """Return the generator of the current round, independent of earlier queries."""
        return np.random.default_rng([self._entropy, self.round_index])

    def _drawn(self, points: Points, n_actions: int, n_draws: int, rng: np.random.Generator) -> Matrix:
        """Return samples: one row per draw, one column per point."""
        if not self._draws_paths(points, n_actions):
            return self._joint_draws(points, self.posterior._estimate(points).mean, n_draws, rng)
        return self._paths(points, n_actions, n_draws, rng).at(points)

    def _paths(self, points: Points, n_actions: int, n_draws: int, rng: np.random.Generator) -> Paths:
        """Draw functions of such points."""
        if self.posterior.size:
            self._kind(points).validate_comparable(self.posterior.support()[0], points)
        pending, times = self._pending_tally().distinct() if self._ledger.pending else (None, 1)
        return draw_paths(
            self.posterior,
            n_draws,
            prior=feature_map(self.posterior.kernel, points, self.n_features, rng),
            rng=rng,
            spread=self._draw_scale(n_actions) / sqrt(self.posterior.regularization),
            pending=pending,
            times=times,
        )

    def _joint_draws(self, points: Points, mean: Vector, n_draws: int, rng: np.random.Generator) -> Matrix:
        """Sample jointly at the distinct points, so that equal points get equal rewards."""
        places: dict[Hashable, int] = {}
        slots = [places.setdefault(key, len(places)) for key in self._kind(points).keys(points)]
        if len(places) == len(slots):
            return draw_jointly(mean, self._covariance(points, len(slots)), n_draws, rng)
        _, firsts = np.unique(slots, return_index=True)
        distinct = self._kind(points).take(points, firsts)
        return draw_jointly(mean[firsts], self._covariance(distinct, len(slots)), n_draws, rng)[:, slots]

    def _draws_paths(self, points: Points, n_actions: int) -> bool:
        if self.draws == "auto":
            return self._is_correctable and n_actions > MOST_JOINT and has_feature_map(self.posterior.kernel, points)
        return self.draws == "features"

    @property
    def _is_correctable(self) -> bool:
        """Whether a prior draw can be corrected by the data: all observations are used, and their noise is Gaussian."""
        is_exact = self.budget is None and self.accuracy is None
        return is_exact and not self.posterior.capabilities.predicts_log_odds

    def _covariance(self, points: Points, n_actions: int) -> Matrix:
        """Return η² Σ̂, including pending decisions."""
        waiting = self._waiting()
        covariance = self.posterior.covariance(points) if waiting is None else waiting.covariance(points, points)
        return self._draw_scale(n_actions) ** 2 * covariance

    def _draw_scale(self, n_actions: int) -> float:
        """Return the standard deviation of a draw, in widths."""
        return self._exploration_now(n_actions, self._waiting(), self.round_index)

    # -- probabilities ---------------------------------------------------------------------------------------------

    def _shares(self, draws: Matrix) -> Vector:
        """Return the fraction of the draws in which each action is the best."""
        if self.ties == "lowest":
            return np.bincount(best_of_each(draws), minlength=draws.shape[1]) / len(draws)
        tied = draws >= worst_tied_of_each(draws)[:, None]
        return np.asarray((tied / tied.sum(axis=1, keepdims=True)).mean(axis=0))

    def _shares_of_two(self, mean: Vector, covariance: Matrix) -> Vector:
        """Return P(g₀ > g₁) and its complement."""
        variance = float(covariance[0, 0] + covariance[1, 1] - covariance[0, 1] - covariance[1, 0])
        if variance <= JITTER * float(np.trace(covariance)):
            return tie_probabilities(tied_for_best(mean), self.ties, n_actions=2)
        gap = float(mean[0] - mean[1]) / sqrt(2.0 * variance)
        return np.array([0.5 * erfc(-gap), 0.5 * erfc(gap)])

    # -- description and serialization -----------------------------------------------------------------------------

    def _state(self) -> Parameters:
        return {**super()._state(), "entropy": self._entropy}

    def _restore(self, state: Mapping[str, Any]) -> None:
        super()._restore(state)
        self._entropy = saved_count(state, "entropy", most=inf)


class _DrawRanking(Ranking):
    """Slate by the order of one draw: each place follows one of the draws that agree with the places above."""

    def __init__(self, policy: KernelThompson, actions: Actions) -> None:
        super().__init__(actions.n_actions)
        self._policy, self._points = policy, actions.points
        self._draws = policy._round_draws(actions.points, actions.n_actions)
        self._weights = np.full(len(self._draws), 1.0 / len(self._draws))
        """Probability of each draw, given what is placed."""
        self._shares = self._best()
        self._followed: int | None = None  # drawn from the weights, whatever has been placed; None: to be drawn
        self._selected = -1

    def _best(self) -> Matrix:
        """Return the probability of each action to be the best of each draw: ties are split or go to the lowest row."""
        if self._policy.ties == "lowest":
            return np.eye(self._draws.shape[1])[best_of_each(self._draws)]
        tied = self._draws >= worst_tied_of_each(self._draws)[:, None]
        return np.asarray(tied / tied.sum(axis=1, keepdims=True))

    def select(self) -> Selection:
        rng = self._policy._rng
        if self._followed is None:
            self._followed = drawn(self._weights, rng)
        shares = self._shares[self._followed]
        row = self._selected = drawn(shares, rng) if shares.max() < 1.0 else int(shares.argmax())
        choice = Selection(
            row, score=float(self._draws[self._followed, row]), propensity=float(self._weights @ self._shares[:, row])
        )
        return self._policy._with_estimate(choice, self._points)

    def probabilities(self) -> Vector:
        return np.asarray((self._weights @ self._shares)[self.left])

    def estimate_of(self, row: int) -> tuple[float, float]:
        return self._policy._predict_one(self._points, row)

    def copy(self) -> Self:
        continued = super().copy()
        continued._draws = self._draws.copy()
        return continued

    def place(self, row: int) -> None:
        super().place(row)
        if row != self._selected:  # a wrapper placed another action
            self._followed = None
        weights = self._weights * self._shares[:, row]
        if weights.sum() > 0.0:  # otherwise the action is the best in no draw
            self._weights = weights / weights.sum()
        self._draws[:, row] = -np.inf
        self._shares = self._best()


def _shifted(draws: Matrix, offset: Vector | None) -> Matrix:
    """Add the offset of each action, if there is one, to its means or draws."""
    return draws if offset is None else draws + offset


def _may_have_features(kernel: Kernel) -> bool:
    """Whether the kernel may have features, explicit or random; only its points determine this with certainty."""
    return has_random_features(kernel) or type(kernel).n_features is not Kernel.n_features
