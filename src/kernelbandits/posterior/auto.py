"""Automatic choice of the cheapest posterior: exact, or within a budget."""

from __future__ import annotations

import logging
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelbandits._saved_state import saved_array
from kernelbandits._threads import limit_blas_threads
from kernelbandits._transactions import Journal, handles_transaction, inside_transaction
from kernelbandits.errors import InvalidParameter, NotSupported
from kernelbandits.kernels import Kernel
from kernelbandits.posterior._projection import Projection
from kernelbandits.posterior.base import Posterior, References
from kernelbandits.posterior.device import Device
from kernelbandits.posterior.dictionaries import ResidualDictionary, checked_accuracy, checked_budget
from kernelbandits.posterior.exact import ExactPosterior
from kernelbandits.posterior.low_rank import LowRankPosterior
from kernelbandits.posterior.nystroem import NystroemPosterior
from kernelbandits.posterior.observations import Observations
from kernelbandits.posterior.primal import PrimalPosterior
from kernelbandits.posterior.recorded import RecordedPosterior
from kernelbandits.types import Certificate, Indices, Matrix, Points, Prediction, Selection, Vector

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

    With a budget or an accuracy, a `NystroemPosterior` takes over when exactness becomes expensive. It is an
    approximation: `certificate` and the `error` of every prediction say how large the difference can be.

    Parameters
    ----------
    kernel
        Any kernel.
    regularization
        γ > 0.
    budget
        Number of distinct points up to which it is exact; then the size of the dictionary. Memory and time of a round
        are bounded for ever, and earlier points are not stored. A kernel with at most this many features stays exact.
    accuracy
        In (0, 1): what the dictionary leaves unexplained is at most this fraction of γ, Σ n (k(x, x) − ‖z‖²) ≤ accuracy
        · γ. The dictionary grows as needed, and all points are stored. It is used while it has at most half as many
        points as were observed.
    device
        "cuda", "cuda:1", …: where large queries are answered beyond the budget; None: on the processor.
    array_library
        "torch", or the name of a module that implements the array API standard.

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

    def __init__(
        self,
        kernel: Kernel,
        *,
        regularization: float,
        budget: int | None = None,
        accuracy: float | None = None,
        device: str | None = None,
        array_library: str = "torch",
    ) -> None:
        if budget is not None and accuracy is not None:
            raise InvalidParameter(
                f"A posterior has a budget or an accuracy, got {budget=} and {accuracy=}. A budget bounds memory and "
                "time, an accuracy the error."
            )
        self.budget = None if budget is None else checked_budget(budget)
        self.accuracy = None if accuracy is None else checked_accuracy(accuracy)
        self._device = None if device is None else Device(device, array_library)
        self._chosen_tolerance = ResidualDictionary.tolerance
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
        """Current form: "exact", "primal", "compressed" or "nystroem"."""
        if isinstance(self._form, NystroemPosterior):
            return "nystroem"
        if isinstance(self._form, LowRankPosterior):
            return "compressed"
        return "primal" if isinstance(self._form, PrimalPosterior) else "exact"

    def _set_form(self, form: RecordedPosterior) -> None:
        self._form, self.capabilities = form, form.capabilities

    def _current_form(self, points: Points | None = None) -> RecordedPosterior:
        form = self._form
        # There are never more distinct points than observations, which are counted at no cost.
        if points is None or type(form) is PrimalPosterior or form.n_merged:
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
        self._keep_budget(n_points)
        self._form.observe(points, rewards, times=times)
        self._keep_budget(self._form.record.size)

    def _observe_one(self, point: Points, reward: float) -> None:
        if self._may_have_features and type(self._form) is not PrimalPosterior:  # primal stays cheaper
            self._take_cheaper_form(point, self._form.record.size + 1)
        self._form._observe_one(point, reward)
        if self.budget is not None:
            self._keep_budget(self._form.record.size)

    def amend(self, points: Points, *, was: ArrayLike, now: ArrayLike, numbers: Sequence[int | None] = ()) -> None:
        self._form.amend(points, was=was, now=now)

    def remove(self, points: Points, rewards: ArrayLike, *, numbers: Sequence[int | None] = ()) -> None:
        self._form.remove(points, rewards)
        if self._form.record.size:
            self._take_cheaper_form(self._form.record.stored()[0], self.size)

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
        if n_features is None or (self.budget is not None and n_features > self.budget):
            return
        if self.form == "exact" and size > n_features:
            self._change_to(PrimalPosterior(self.kernel, regularization=self.regularization, keep=self.budget))
        elif self.form == "primal" and size < n_features / 2 and not self._form.n_merged:
            self._change_to(ExactPosterior(self.kernel, regularization=self.regularization))

    def _keep_budget(self, n_points: int) -> None:
        """Begin to approximate if there are more distinct points than the budget allows."""
        if self.budget is None or n_points <= self.budget or self.form in ("primal", "nystroem"):
            return
        tolerance = self._tolerance()
        self._journal.note(setattr, self, "_chosen_tolerance", self._chosen_tolerance)
        self._chosen_tolerance = tolerance
        self._change_to(self._approximation())
        logger.info(
            "A posterior has reached its budget of %d points. It is exact up to here; from now on it is approximate, "
            "and `certificate` bounds the difference. Earlier points are dropped once the dictionary is full.",
            self.budget,
        )

    def _tolerance(self) -> float:
        """Tolerance with which the points so far fill half of the budget, if that is finer than the default."""
        record, default = self._form.record, ResidualDictionary.tolerance
        if self.budget is None or not record.size:
            return default
        points = record.stored()[0]
        diagonal = self.kernel.diagonal(points)
        empty = Projection(self.kernel, regularization=self.regularization)
        _, rows = empty.select(points, diagonal, 0.0, max(1, self.budget // 2))
        left = float((diagonal - np.einsum("mn,mn->n", rows, rows)).max())
        return min(default, max(left, 0.0) / self.regularization)

    def _approximation(self) -> NystroemPosterior:
        rule = ResidualDictionary(size=self.budget, accuracy=self.accuracy, tolerance=self._chosen_tolerance)
        device = self._device
        return NystroemPosterior(
            self.kernel, regularization=self.regularization, dictionary=rule,
            device=None if device is None else device.name, array_library="torch" if device is None else device.library,
        )  # fmt: skip

    def _change_to(self, changed: RecordedPosterior) -> None:
        if self._form.record.size:
            changed.absorb(*self._form.record.stored(), self._form.record.errors())
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
            elif self.accuracy is not None:
                self._take_approximation()
        elif isinstance(form, NystroemPosterior):
            if not form.has_history or form.record.size < self._next_measurement:
                return
            if form.certificate.n_atoms > HIGH_RANK * form.record.size:
                self._change_to(ExactPosterior(self.kernel, regularization=self.regularization))
        elif isinstance(form, LowRankPosterior) and self._is_too_much_for(form):
            self._replace_form(form.whole)
        else:
            return
        self._next_measurement, self._queried = int(MEASUREMENT_GROWTH * self._form.record.size), []

    def _take_approximation(self) -> None:
        """Approximate with the given accuracy if that takes at most half of the points."""
        changed = self._approximation()
        changed.absorb(*self._form.record.stored(), self._form.record.errors())
        if changed.certificate.n_atoms <= LOW_RANK * self._form.record.size:
            self._replace_form(changed)
            logger.info(
                "A posterior of %d points is approximated with the accuracy %g from now on. All points are stored; "
                "budget=… bounds the memory.", self.size, self.accuracy,
            )  # fmt: skip

    def _is_too_much_for(self, form: LowRankPosterior) -> bool:
        return form.needs_exact_fallback or form.error_is_visible or form.rank > HIGH_RANK * self._form.record.size

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

    def _draw_weights(
        self, n_draws: int, rng: np.random.Generator, spread: float, pending: Points | None, times: ArrayLike
    ) -> Matrix | None:
        return self._form._draw_weights(n_draws, rng, spread, pending, times)

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

    def _knows(self, point: Points) -> bool:
        return self._form._knows(point)

    def _references(self, points: Points) -> References:
        self._take_lower_rank()
        return _FormReferences(self, points)

    def covariance_of_sum(self, points: Points, weights: Vector, others: Points) -> Vector:
        return self._form.covariance_of_sum(points, weights, others)

    def gradient(self, points: Points, others: Points, weights: Matrix) -> Matrix:
        return self._form.gradient(points, others, weights)

    def support(self) -> tuple[Points, Vector, Vector, Vector]:
        return self._form.support()

    def weights_for(self, values: Matrix) -> Matrix:
        return self._form.weights_for(values)

    @property
    def log_det_gain(self) -> float:
        return self._form.log_det_gain

    @property
    @handles_transaction
    def residual(self) -> float:
        return self._form.residual

    @property
    @handles_transaction
    def n_merged(self) -> int:  # type: ignore[override]
        """See `Posterior`."""
        return self._form.n_merged

    @property
    def certificate(self) -> Certificate | None:
        """Bounds on the difference from the exact posterior; None while there is none."""
        return self._form.certificate if isinstance(self._form, NystroemPosterior) else None

    @property
    def size(self) -> int:
        return self._form.size

    @property
    def n_observations(self) -> int:
        return self._form.n_observations

    @property
    def norm(self) -> float:
        """RKHS norm of the mean function, computed by the current form."""
        return self._form.norm

    def state(self) -> dict[str, NDArray[Any]]:
        state = self._form.state()
        if isinstance(self._form, NystroemPosterior) and state:
            state["dictionary.tolerance"] = np.array([self._chosen_tolerance])
        return state

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        self._journal.note(self._set_form, self._form)
        if "merged.count" in state:
            self._set_form(PrimalPosterior(self.kernel, regularization=self.regularization, keep=self.budget))
        elif "dictionary.drawn" in state:
            if self.budget is not None or self.accuracy is not None:
                self._chosen_tolerance = float(saved_array(state, "dictionary.tolerance", "f", (1,), least=0.0)[0])
                self._set_form(self._approximation())
            elif "dictionary.count" in state:
                raise NotSupported(
                    "Of the points that were learned only a dictionary is stored, so the posterior cannot be exact "
                    "again. Keep the budget, or let a new policy learn the log: policy.clone(budget=None)."
                )
        self._form._join(self._journal)
        self._form.restore(state)
        atoms = 0 if self.certificate is None else self.certificate.n_atoms
        if self.budget is not None and atoms > self.budget:
            raise NotSupported(
                f"The dictionary has {atoms} points, which cannot become fewer, and the budget is {self.budget}. Keep "
                f"at least {atoms}, or let a new policy learn the log: policy.clone(budget={self.budget})."
            )
        if self._form.record.size:
            self._take_cheaper_form(self._form.record.stored()[0], self._form.record.size)
            self._keep_budget(self._form.record.size)


class _FormReferences(References):
    """References of the current form; queries are stored as those of the posterior are."""

    def __init__(self, posterior: AutoPosterior, points: Points) -> None:
        super().__init__(posterior, points)
        self._remember, self._inner = posterior._remember, posterior._form._references(points)

    def covariance(self) -> Matrix:
        return self._inner.covariance()

    def covariance_with(self, others: Points) -> Matrix:
        return self._inner.covariance_with(others)

    def estimate(self, others: Points) -> tuple[Prediction, Matrix]:
        found = self._inner.estimate(others)
        self._remember(others)
        return found
