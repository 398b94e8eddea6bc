"""Linear policies: LinUCB (shared, disjoint, hybrid) and OFUL."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from math import log1p
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from kernelbandits._parameters import Parameter, one_of, parameter
from kernelbandits._saved_state import saved_array, saved_count, saved_part
from kernelbandits.errors import InvalidParameter, NotSupported
from kernelbandits.kernels import Ids, LabeledLinear, Linear, Rows
from kernelbandits.kernels.pairs import PairRows
from kernelbandits.policies.comparators.spanning import unit_rows
from kernelbandits.policies.posterior_policy import EXPLORATION
from kernelbandits.policies.upper_confidence import UpperConfidencePolicy
from kernelbandits.posterior import PerActionPosterior, Posterior, PrimalPosterior
from kernelbandits.posterior.base import SMALLEST_REGULARIZATION, checked_regularization
from kernelbandits.selection import CatalogView
from kernelbandits.selection.actions import one_id_per_action
from kernelbandits.theory.exploration import Exploration, SelfNormalized
from kernelbandits.types import TIE_TOLERANCE, Decision, ItemId, Matrix, Parameters, Point, Points, Vector
from kernelbandits.validation import (
    MOST_IN_MEMORY,
    check_int,
    check_list,
    check_nonnegative,
    check_probability,
    short_repr,
)

__all__ = ["OFUL", "LinUCB"]

KEPT: Final = 100_000
"""Number of stored contexts, whose rewards can be amended, unlearned and explained."""


def _columns(columns: Sequence[int]) -> list[int] | None:
    if not isinstance(columns, Iterable):
        raise InvalidParameter(f"`shared_columns` is a list of column numbers, got {short_repr(columns)}.")
    listed = check_list(columns, "`shared_columns`")
    return [check_int(column, "A shared column", least=0, most=MOST_IN_MEMORY) for column in listed] or None


class LinUCB(UpperConfidencePolicy):
    """Ridge regression on features, selecting the highest mean + exploration · width (Li et al. 2010).

    shared: one weight vector for all actions; KernelUCB with the linear kernel. disjoint: one weight vector per action.
    hybrid: the shared columns have one weight vector for all actions, the other columns one per action. In the last two
    models, actions are identified by `ids`, or by their row numbers if there are no ids. The cost of a round does not
    depend on the number of learned rewards: O(N d² + d³) shared, O(N d³) otherwise. The last 100,000 distinct contexts
    are stored, so that their rewards can be amended, unlearned and explained. Older contexts are stored only as sums,
    in which every reward still counts.

    Parameters
    ----------
    model
        "shared", "disjoint" or "hybrid".
    shared_columns
        hybrid only: columns whose weights all actions share. Duplicate a column to use it in both parts.
    regularization, exploration, reward_range, ties, seed
        As in KernelUCB. Li et al. suggest exploration 1 + sqrt(ln(2/δ)/2); 0.1 to 2 is usual.

    Examples
    --------
    >>> import numpy as np
    >>> policy = LinUCB(regularization=1.0, exploration=0.5)
    >>> contexts = np.array([[1.0, 0.0], [0.0, 2.0]])
    >>> decision = policy.choose(contexts)
    >>> decision.action
    1
    >>> policy.learn(decision, reward=-1.0)
    >>> policy.choose(contexts).action
    0
    """

    model: Literal["shared", "disjoint", "hybrid"] = parameter(
        one_of("shared", "disjoint", "hybrid", message="The model must be 'shared', 'disjoint' or 'hybrid'"),
        default="shared",
    )
    shared_columns: Parameter[Sequence[int] | None, list[int] | None] = parameter(_columns, default=None)
    regularization: float = parameter(checked_regularization, default=1.0)
    exploration: Parameter[float | Exploration, Exploration] = parameter(EXPLORATION, default=1.0, is_assignable=True)

    def _setup(self) -> None:
        columns = self.shared_columns
        if (self.model == "hybrid") != bool(columns):
            raise InvalidParameter(
                f"`shared_columns` names the columns that a hybrid model shares, and only there; got "
                f"model={self.model!r}, shared_columns={short_repr(columns)}."
            )
        super()._setup()
        self._model = self.model
        self._has_plain_rows = self.model == "shared"
        self._plain_kind = self._point_kind if self.model == "shared" else None
        self._uses_selectors = self.model == "shared"  # labels are not part of a catalog's items

    def _new_posterior(self) -> Posterior:
        if self.model == "shared":
            return PrimalPosterior(Linear(), regularization=self.regularization, keep=KEPT)
        labeled = LabeledLinear(tuple(self.shared_columns or ()))
        return PerActionPosterior(labeled, regularization=self.regularization, keep=KEPT)

    def _points(self, contexts: Points, ids: Sequence[ItemId] | None) -> Points:
        if self._model == "shared":
            return self._point_kind.check(contexts)
        rows = Rows().check(contexts)
        n_actions = Rows().count(rows)
        labels = list(range(n_actions)) if ids is None else list(ids)
        one_id_per_action(labels, n_actions)
        return PairRows(labels, rows, is_shared=False)

    def _catalog_points(self, view: CatalogView) -> Points:
        if self._model == "shared":
            return super()._catalog_points(view)
        return PairRows(list(view.ids), view.points(Rows()), is_shared=False)

    def _context(self, points: Points, row: int) -> Point:
        return self._point_kind.one(points, row) if self._model == "shared" else Rows().one(points.actions, row)

    def _point(self, decision: Decision) -> Points:
        if self._model == "shared":
            return super()._point(decision)
        return PairRows([Ids().check_one(decision.item)], Rows().as_collection(decision.context), is_shared=False)


LARGEST_REWARD: Final = 1e100
"""Larger rewards are fitted immediately, so that an overflowing sum is rejected together with its cause."""


class _Growth(NamedTuple):
    """Growth of the determinant of C = γI + Σ x xᵀ since the last refit."""

    inverse: Matrix
    """C⁻¹ including all learned data."""

    logarithm: float
    """ln det C − ln det C at the last refit."""

    @classmethod
    def since(cls, posterior: Posterior, like: Points) -> _Growth:
        """Return zero growth, directly after a refit."""
        return cls(posterior.covariance(unit_rows(like)), 0.0)

    def after(self, rows: Matrix) -> _Growth:
        """Add rows by det(C + x xᵀ) = (1 + xᵀ C⁻¹ x) det C and the Sherman–Morrison formula."""
        inverse, logarithm = self
        for row in rows:
            pulled = inverse @ row
            squared_width = max(float(row @ pulled), 0.0)  # rounding may make it negative
            logarithm += log1p(squared_width)
            inverse = inverse - np.outer(pulled, pulled / (1.0 + squared_width))
        return _Growth(inverse, logarithm)


class OFUL(UpperConfidencePolicy):
    """Optimism for linear rewards with self-normalized confidence sets (Abbasi-Yadkori, Pál and Szepesvári 2011).

    With C = γI + Σ x xᵀ over the learned contexts, θ̂ = C⁻¹ Σ r x, noise scale R and ‖θ‖ ≤ B:

        score = x·θ̂ + η · sqrt(xᵀ C⁻¹ x),   η = R sqrt(ln det(C/γ) + 2 ln(1/δ)) + sqrt(γ) B

    The choices equal those of KernelUCB with the linear kernel and the schedule `SelfNormalized`. Action sets may
    change, even adversarially in response to rewards. (`Mixture`, with LinUCB or KernelUCB, has the same assumptions
    and is never wider.)

    With `switching` c > 0 the policy switches rarely: θ̂, C and η are those of the last refit, and a refit occurs when
    det C exceeds 1 + c times its value at the last refit. This gives O(d log T / log(1 + c)) refits, at the cost of a
    factor sqrt(1 + c) in the regret bound. Between refits, choices depend only on the actions, so they can be made in
    advance. Rounds do not become cheaper, because a refit for one reward is a rank-one update here. Corrections
    (`amend`, `unlearn`) and `warm_start` refit immediately. A round costs O(N d²) for any t.

    Parameters
    ----------
    regularization
        γ > 0.
    noise_scale
        R of the sub-Gaussian noise; 0.5 for rewards in [0, 1].
    norm_bound
        B ≥ ‖θ‖.
    failure_probability
        δ: the probability that any interval of any round fails.
    switching
        c; 0: refit with every reward. 0.5 to 1 is usual.
    reward_range, ties, seed
        As in `KernelUCB`.

    Examples
    --------
    >>> policy = OFUL(noise_scale=0.1, norm_bound=1.0, switching=0.5)
    >>> rng = np.random.default_rng(0)
    >>> for _ in range(200):
    ...     decision = policy.choose(rng.uniform(size=(5, 2)))
    ...     policy.learn(decision, reward=float(decision.context @ [0.2, 0.8]))
    >>> policy.choose(np.array([[1.0, 0.0], [0.0, 1.0]])).action, policy.n_refits < 30
    (1, True)
    """

    reports_posterior_width = False  # its posterior may be older than the learned data

    regularization: float = parameter(checked_regularization, default=1.0)
    noise_scale: float = parameter(
        partial(check_nonnegative, name="The noise scale", hint="0.5 is right for rewards in [0, 1].")
    )
    norm_bound: float = parameter(partial(check_nonnegative, name="The norm bound", hint="1.0 is a common guess."))
    failure_probability: float = parameter(check_probability, default=0.05)
    switching: float = parameter(
        partial(check_nonnegative, name="The growth of the determinant between refits", hint="0 refits every time."),
        default=0.0,
    )

    def _setup(self) -> None:
        super()._setup()
        self._switching = self.switching
        # `posterior` is the model used for choices, as of the last refit. Rewards learned since then are buffered here.
        self._later: list[Points] = []
        self._later_rewards: list[float] = []
        self._growth: _Growth | None = None  # derived from both; None: to be recomputed
        self._n_refits = 0

    def _new_posterior(self) -> Posterior:
        return PrimalPosterior(Linear(), regularization=self.regularization)

    def _first_exploration(self) -> Exploration:
        return SelfNormalized(
            noise_scale=self.noise_scale, norm_bound=self.norm_bound, failure_probability=self.failure_probability
        )

    @property
    def n_refits(self) -> int:
        """Number of refits of the model used for choices."""
        return self._n_refits

    @property
    def n_since_refit(self) -> int:
        """Number of rewards learned since the last refit."""
        return len(self._later_rewards)

    def _points(self, contexts: Points, ids: Sequence[ItemId] | None) -> Points:
        points = super()._points(contexts, ids)
        if self._later:  # not fitted yet, but later points must be compatible with it
            self.posterior.kernel.kind.validate_comparable(self._later[0], points)
        return points

    # -- learning --------------------------------------------------------------------------------------------------

    def _update(self, decision: Decision, reward: float) -> None:
        if self._switching:
            self._store(self._point(decision), [reward])
        else:
            super()._update(decision, reward)
            self._n_refits += 1

    def _update_many(self, decisions: Sequence[Decision], rewards: Vector) -> None:
        if self._switching:
            stack = self.posterior.kernel.kind.stack
            self._store(stack(*(self._point(decision) for decision in decisions)), rewards.tolist())
        else:
            super()._update_many(decisions, rewards)
            self._n_refits += 1

    def _store(self, points: Points, rewards: list[float]) -> None:
        """Refit with these and all buffered rewards if the determinant has grown enough, otherwise buffer them."""
        growth = self._growth_with(points)
        if growth.logarithm <= log1p(self._switching) + TIE_TOLERANCE and self._may_wait(points, rewards):
            kind = self.posterior.kernel.kind
            self._journal.note(_truncate, len(self._later), self._later, self._later_rewards)
            self._later += [kind.take(points, np.array([row])) for row in range(len(rewards))]
            self._later_rewards += rewards
            self._growth = growth
        else:
            self._refit(points, rewards)

    def _growth_with(self, points: Points) -> _Growth:
        """Return the growth of the determinant including these points; reject incompatible points."""
        if self._later:
            self.posterior.kernel.kind.validate_comparable(self._later[0], points)
        growth = self._growth
        with np.errstate(over="ignore", invalid="ignore"):  # overflow is rejected at the refit
            if growth is None:
                growth = _Growth.since(self.posterior, points)
                for point in self._later:
                    growth = growth.after(self.posterior.kernel.features(point))
            return growth.after(self.posterior.kernel.features(points))

    def _may_wait(self, points: Points, rewards: list[float]) -> bool:
        """Whether fitting them later is guaranteed to succeed."""
        largest = float(self.posterior.kernel.diagonal(points).max())
        is_ordinary = SMALLEST_REGULARIZATION * largest <= self.posterior.regularization
        return is_ordinary and self.posterior.is_well_posed and max(map(abs, rewards)) < LARGEST_REWARD

    def _refit(self, points: Points = None, rewards: Sequence[float] = ()) -> None:
        """Fit all buffered rewards, and these."""
        later = self._later if points is None else [*self._later, points]
        if not later:
            return
        self.posterior.observe(self.posterior.kernel.kind.stack(*later), [*self._later_rewards, *rewards])
        self._later, self._later_rewards, self._growth, self._pending_effect = [], [], None, None
        self._n_refits += 1

    def _note_model(self) -> None:
        super()._note_model()
        self._note_references("_later", "_later_rewards", "_growth", "_n_refits")

    def _amend_reward(self, decision: Decision, was: float, now: float, number: int | None) -> None:
        self._refit()
        super()._amend_reward(decision, was, now, number)

    def _remove_reward(self, decision: Decision, reward: float, number: int | None) -> None:
        self._refit()
        super()._remove_reward(decision, reward, number)

    def _warm_start(self, points: Points, rewards: Vector, times: ArrayLike) -> None:
        self._refit()
        super()._warm_start(points, rewards, times)

    def _check_refit(self, values: Mapping[str, Any]) -> None:
        super()._check_refit(values)
        if self.switching or values.get("switching"):
            raise NotSupported(
                "With rare switching, which rewards the model holds depends on the parameters at the time. Let a new "
                "policy learn the log: policy.clone(…)."
            )

    # -- description and serialization -----------------------------------------------------------------------------

    def _state(self) -> Parameters:
        later: Parameters = {}
        if self._later:
            kind = self.posterior.kernel.kind
            later = {"points": kind.pack(kind.stack(*self._later)), "rewards": np.array(self._later_rewards)}
        return {**super()._state(), "later": later, "n_refits": self._n_refits}

    def _restore(self, state: Mapping[str, Any]) -> None:
        super()._restore(state)
        self._n_refits = saved_count(state, "n_refits")
        later = saved_part(state, "later")
        if later:
            kind = self.posterior.kernel.kind
            points = kind.check(kind.unpack(saved_part(later, "points")))
            self._validate_comparable(points)
            self._later_rewards = saved_array(later, "rewards", "f", (kind.count(points),)).tolist()
            self._later = [kind.take(points, np.array([row])) for row in range(len(self._later_rewards))]


def _truncate(length: int, *lists: list[Any]) -> None:
    for values in lists:
        del values[length:]
