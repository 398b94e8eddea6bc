"""The cheaper of the two exact forms, at any moment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelbandits.kernels import Kernel
from kernelbandits.posterior.base import Best, Posterior, RecordedPosterior
from kernelbandits.posterior.exact import ExactPosterior
from kernelbandits.posterior.observations import Observations
from kernelbandits.posterior.primal import PrimalPosterior
from kernelbandits.types import Indices, Matrix, Points, Prediction, Vector

__all__ = ["AutoPosterior"]


class AutoPosterior(Posterior):
    """Exact over distinct points while these are few, primal over features once they outnumber those.

    A query costs size² in one form and D² in the other (D features), so the form changes when the size passes D, and
    back when it has fallen below D/2. The answers are the same.

    >>> from kernelbandits.kernels import Linear
    >>> posterior = AutoPosterior(Linear(), regularisation=1.0)
    >>> posterior.observe([[1.0, 0.0]], [1.0])
    >>> posterior.form
    'exact'
    >>> posterior.observe([[0.5, 1.0], [1.0, 1.0]], [0.5, 0.0])
    >>> posterior.form
    'primal'
    """

    def __init__(self, kernel: Kernel, *, regularisation: float) -> None:
        self._form: RecordedPosterior = ExactPosterior(kernel, regularisation=regularisation)
        self.kernel = kernel
        self.regularisation = self._form.regularisation

    @property
    def form(self) -> str:
        """Which form it has now: "exact" or "primal"."""
        return "primal" if isinstance(self._form, PrimalPosterior) else "exact"

    @property
    def record(self) -> Observations:
        """What was observed: distinct points in slots, their counts and reward sums."""
        return self._form.record

    def observe(self, points: Points, rewards: ArrayLike, *, times: ArrayLike = 1) -> None:
        points = self.kernel.kind.check(points)
        n_points = self.kernel.kind.count(points)
        if n_points > 1:
            n_points = len(set(self.kernel.kind.keys(points)))
        self._take_cheaper_form(points, self.size + n_points)
        self._form.observe(points, rewards, times=times)

    def observe_one(self, point: Points, reward: float) -> None:
        if isinstance(self._form, ExactPosterior):  # the primal form stays the cheaper one as points are added
            self._take_cheaper_form(point, self.size + 1)
        self._form.observe_one(point, reward)

    def amend(self, points: Points, changes: ArrayLike) -> None:
        self._form.amend(points, changes)

    def remove(self, points: Points, rewards: ArrayLike) -> None:
        self._form.remove(points, rewards)
        if self.size:
            self._take_cheaper_form(self._form.record.kept()[0], self.size)

    def _take_cheaper_form(self, points: Points, size: int) -> None:
        """Change the form if the other one is cheaper for such points at this size."""
        n_features = self.kernel.n_features(points)
        if n_features is None:
            return
        if self.form == "exact" and size > n_features:
            self._change_to(PrimalPosterior)
        elif self.form == "primal" and size < n_features / 2:
            self._change_to(ExactPosterior)

    def _change_to(self, form: type[RecordedPosterior]) -> None:
        changed = form(self.kernel, regularisation=self.regularisation)
        if self.size:
            changed.absorb(*self._form.record.kept())
        self._form = changed

    def predict(self, points: Points, *, pending: Points | None = None) -> Prediction:
        return self._form.predict(points, pending=pending)

    def estimate(self, points: Points) -> Prediction:
        return self._form.estimate(points)

    def best(self, points: Points, exploration: float) -> Best | None:
        return self._form.best(points, exploration)

    def play(self, rounds: NDArray[np.float64], rewards: Matrix, exploration: float) -> tuple[Indices, Vector, Vector]:
        return self._form.play(rounds, rewards, exploration)

    @property
    def plays(self) -> bool:
        return self._form.plays

    def covariance(self, points: Points, others: Points | None = None) -> Matrix:
        return self._form.covariance(points, others)

    def support(self) -> tuple[Points, Vector, Vector, Vector]:
        return self._form.support()

    @property
    def log_det_gain(self) -> float:
        return self._form.log_det_gain

    @property
    def size(self) -> int:
        return self._form.size

    @property
    def n_observations(self) -> int:
        return self._form.n_observations

    @property
    def norm(self) -> float:
        """As described in `Posterior`, in the form it has now."""
        return self._form.norm

    def state(self) -> dict[str, NDArray[Any]]:
        return self._form.state()

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        self._form.restore(state)
        if self.size:
            self._take_cheaper_form(self._form.record.kept()[0], self.size)
