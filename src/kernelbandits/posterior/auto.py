"""Automatic choice of the cheapest exact posterior."""

from __future__ import annotations

import logging
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelbandits._threads import limit_blas_threads
from kernelbandits._transactions import Journal, handles_transaction, inside_transaction
from kernelbandits.kernels import Kernel
from kernelbandits.posterior.base import Posterior
from kernelbandits.posterior.exact import ExactPosterior
from kernelbandits.posterior.low_rank import LowRankPosterior
from kernelbandits.posterior.observations import Observations
from kernelbandits.posterior.primal import PrimalPosterior
from kernelbandits.posterior.recorded import RecordedPosterior
from kernelbandits.types import Indices, Matrix, Points, Prediction, Selection, Vector

__all__ = ["AutoPosterior"]

logger: Final = logging.getLogger(__name__)

FIRST_MEASUREMENT: Final = 128
MEASUREMENT_GROWTH: Final = 1.5
"""Growth factor of the size between two measurements of the rank; the first is made when a query finds 128 distinct
points."""

LOW_RANK: Final = 0.5
HIGH_RANK: Final = 0.7
"""Fractions of the size at which the form changes: a query costs about 3r² in the compressed form and size² in the
exact one, and a change of the form has its own cost."""

MOST_QUERIES: Final = 64
POINTS_PER_QUERY: Final = 16
"""Number of queries remembered before the rank is measured, and the approximate number of points per query: these
points must lie in the basis, too."""


class AutoPosterior(Posterior):
    """Exact over distinct points while these are few, then primal over few features or compressed to a low rank.

    A query costs size² in the exact form and D² in the primal one (D features), so the form changes when the size
    exceeds D, and back when it falls below D/2. Predictions are the same. If the rank of the points is at most half
    their number, the compressed form replaces the exact one, until the rank is above 0.7 of it or too many query points
    lie outside. This is done only for PSD-certified kernels, and never if the regularization is so small relative to
    the similarities that the compression error would be visible.

    >>> from kernelbandits.kernels import Linear
    >>> posterior = AutoPosterior(Linear(), regularization=1.0)
    >>> posterior.observe([[1.0, 0.0]], [1.0])
    >>> posterior.form
    'exact'
    >>> posterior.observe([[0.5, 1.0], [1.0, 1.0]], [0.5, 0.0])
    >>> posterior.form
    'primal'
    """

    changes_form = True

    def __init__(self, kernel: Kernel, *, regularization: float) -> None:
        self._form: RecordedPosterior
        self._set_form(ExactPosterior(kernel, regularization=regularization))
        self._form._join(self._journal)
        self.kernel = kernel
        self.regularization = self._form.regularization
        self._may_have_features = type(kernel).n_features is not Kernel.n_features
        self._next_measurement = FIRST_MEASUREMENT
        self._queried: list[Points] = []  # some of the latest query points

    @property
    def form(self) -> str:
        """Current form: "exact", "primal" or "compressed"."""
        if isinstance(self._form, LowRankPosterior):
            return "compressed"
        return "primal" if isinstance(self._form, PrimalPosterior) else "exact"

    def _set_form(self, form: RecordedPosterior) -> None:
        self._form, self.capabilities = form, form.capabilities

    def _current_form(self, points: Points | None = None) -> RecordedPosterior:
        form = self._form
        # There are never more distinct points than observations, which are counted at no cost.
        if points is None or type(form) is PrimalPosterior:
            return form
        if type(form) is not ExactPosterior or form.record.n_observations >= self._next_measurement - MOST_QUERIES:
            self._take_lower_rank()
            self._remember(points)
        return self._form

    @property
    @inside_transaction
    def record(self) -> Observations:
        """Observations: distinct points in slots, their counts and reward sums."""
        return self._form.record

    def observe(self, points: Points, rewards: ArrayLike, *, times: ArrayLike = 1) -> None:
        points = self.kernel.kind.check(points)
        n_points = self.kernel.kind.count(points)
        if n_points > 1:
            n_points = len(set(self.kernel.kind.keys(points)))
        self._take_cheaper_form(points, self.size + n_points)
        self._form.observe(points, rewards, times=times)

    def _observe_one(self, point: Points, reward: float) -> None:
        if self._may_have_features and type(self._form) is not PrimalPosterior:  # primal stays cheaper
            self._take_cheaper_form(point, self._form.record.size + 1)
        self._form._observe_one(point, reward)

    def amend(self, points: Points, *, was: ArrayLike, now: ArrayLike, numbers: Sequence[int | None] = ()) -> None:
        self._form.amend(points, was=was, now=now)

    def remove(self, points: Points, rewards: ArrayLike, *, numbers: Sequence[int | None] = ()) -> None:
        self._form.remove(points, rewards)
        if self.size:
            self._take_cheaper_form(self._form.record.kept()[0], self.size)

    def observe_weighted(self, points: Points, rewards: Vector, weights: Vector) -> None:
        """See `RecordedPosterior`."""
        self._take_cheaper_form(points, self.size + len(set(self.kernel.kind.keys(points))))
        self._form.observe_weighted(points, rewards, weights)

    def set_totals(self, keys: Sequence[Hashable], counts: Vector, sums: Vector) -> None:
        """See `RecordedPosterior`."""
        self._form.set_totals(keys, counts, sums)

    def discount(self, rate: float, gone: Sequence[Hashable]) -> None:
        """See `RecordedPosterior`."""
        self._form.discount(rate, gone)

    def _join(self, journal: Journal) -> None:
        self._journal = journal
        self._form._join(journal)

    def _note_change(self) -> None:
        """Record nothing: the forms record their own changes."""

    def _take_cheaper_form(self, points: Points, size: int) -> None:
        """Change the form if another one is cheaper for such points at this size."""
        n_features = self.kernel.n_features(points)
        if n_features is None:
            return
        if self.form == "exact" and size > n_features:
            self._change_to(PrimalPosterior)
        elif self.form == "primal" and size < n_features / 2:
            self._change_to(ExactPosterior)

    def _change_to(self, form: type[RecordedPosterior]) -> None:
        changed = form(self.kernel, regularization=self.regularization)
        if self._form.record.size:
            changed.absorb(*self._form.record.kept(), self._form.record.errors())
        self._replace_form(changed)

    def _replace_form(self, form: RecordedPosterior) -> None:
        """Switch to another form. Earlier changes of the old form can still be rolled back."""
        before = self.form
        form._join(self._journal)
        self._journal.note(self._set_form, self._form)
        self._set_form(form)
        logger.debug(
            "A posterior of %d distinct points is %s now; it was %s.", self._form.record.size, self.form, before
        )

    def _take_lower_rank(self) -> None:
        """Switch between exact and compressed if that is cheaper; called before a query, the expensive operation."""
        form = self._form
        if type(form) is PrimalPosterior:
            return
        if isinstance(form, ExactPosterior):
            if self._form.record.size < self._next_measurement:
                return
            with limit_blas_threads(self._form.record.size**2.5):  # many small products
                compressed = LowRankPosterior.over(form, self._queried, most=LOW_RANK * self._form.record.size)
            if compressed is not None:
                self._replace_form(compressed)
        elif isinstance(form, LowRankPosterior) and self._is_too_much_for(form):
            self._replace_form(form.whole)
        else:
            return
        self._next_measurement, self._queried = int(MEASUREMENT_GROWTH * self._form.record.size), []

    def _is_too_much_for(self, form: LowRankPosterior) -> bool:
        return form.needs_exact_fallback or form.shows or form.rank > HIGH_RANK * self._form.record.size

    def _remember(self, points: Points) -> None:
        """Store some of the points for the next measurement of the rank."""
        if (
            len(self._queried) < MOST_QUERIES
            and self._next_measurement - MOST_QUERIES <= self._form.record.size < self._next_measurement
        ):
            n_points = self.kernel.kind.count(points)
            some = np.arange(0, n_points, 1 + n_points // POINTS_PER_QUERY)
            self._queried.append(self.kernel.kind.take(points, some))

    def predict(self, points: Points, *, pending: Points | None = None) -> Prediction:
        points = self.kernel.kind.check(points)
        self._take_lower_rank()
        prediction = self._form.predict(points, pending=pending)
        self._remember(points)
        return prediction

    def _estimate(self, points: Points) -> Prediction:
        self._take_lower_rank()
        prediction = self._form._estimate(points)
        self._remember(points)
        return prediction

    def _best(self, points: Points, exploration: float) -> Selection | None:
        return self._current_form(points)._best(points, exploration)

    def _play(self, rounds: NDArray[np.float64], rewards: Matrix, exploration: float) -> tuple[Indices, Vector, Vector]:
        return self._form._play(rounds, rewards, exploration)

    @property
    @handles_transaction
    def is_well_posed(self) -> bool:
        return self._form.is_well_posed

    @property
    @handles_transaction
    def supports_batch_play(self) -> bool:
        return self._form.supports_batch_play

    def covariance(self, points: Points, others: Points | None = None) -> Matrix:
        return self._form.covariance(points, others)

    def covariance_of_sum(self, points: Points, weights: Vector, others: Points) -> Vector:
        return self._form.covariance_of_sum(points, weights, others)

    def support(self) -> tuple[Points, Vector, Vector, Vector]:
        return self._form.support()

    def weights_for(self, values: Matrix) -> Matrix:
        return self._form.weights_for(values)

    @property
    def log_det_gain(self) -> float:
        return self._form.log_det_gain

    @property
    def size(self) -> int:
        return self._form.record.size

    @property
    def n_observations(self) -> int:
        return self._form.n_observations

    @property
    def norm(self) -> float:
        """RKHS norm of the mean function, computed by the current form."""
        return self._form.norm

    def state(self) -> dict[str, NDArray[Any]]:
        return self._form.state()

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        self._form.restore(state)
        if self._form.record.size:
            self._take_cheaper_form(self._form.record.kept()[0], self._form.record.size)
