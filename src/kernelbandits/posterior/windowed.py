"""The posterior of the latest observations."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Final

import numpy as np

from kernelbandits.checks import a_count
from kernelbandits.kernels import Kernel
from kernelbandits.posterior.exact import ExactPosterior
from kernelbandits.posterior.history import exact_sum
from kernelbandits.posterior.ordered import OrderedPosterior
from kernelbandits.posterior.primal import PrimalPosterior
from kernelbandits.types import Points, Vector

__all__ = ["WindowedPosterior"]

FEW_FEATURES: Final = 16.0
"""Times the length: up to as many squared features it is cheaper to sum anew over the window when an observation leaves
it, at matrix-matrix speed, than to change a factor over its points."""


class WindowedPosterior(OrderedPosterior):
    """Exactly the posterior of the last `length` observations: what is older has never been.

    For rewards that change with time. The oldest observation leaves when one comes for which there is no room: its
    point's count falls by one, and at 0 its row leaves the factor. Widths grow back where nothing was observed lately,
    so such actions are tried again.

    No interval of `kernelbandits.theory.widths` is proved for it: within a window the function may have changed, and
    which data are left does depend on the time. Tune a constant exploration.

    Observing costs O(m²) for the m ≤ `length` distinct points of the window, on average over observations: a change of
    rank one for what leaves, a row for what comes, and a new factor after every m/3 points that have left. A question
    costs O(m²) a point, and every action of a round is asked about: what finds the best one without that relies on
    widths that never grow. With D features, D² ≤ 16·length, it is m·D² ≤ 16·m·length to observe and D² a question.
    Memory is up to 7·m² bytes. Nothing depends on how much was observed before.

    Parameters
    ----------
    kernel
        Any kernel.
    regularisation
        γ > 0.
    length
        Observations that count. Twice as many halve the noise, and a change takes twice as long to be seen.

    Notes
    -----
    The order of observations is that of learning. `amend` and `remove` know an observation by its number, as a policy
    gives it, or by its point and reward; of several that fit, the latest is meant. For one that has left the window
    they raise NotLearnt and change nothing. What `remove` takes out leaves a place free; what has left does not come
    back into it.

    Examples
    --------
    >>> from kernelbandits.kernels import Gaussian
    >>> posterior = WindowedPosterior(Gaussian(length_scale=0.5), regularisation=0.1, length=2)
    >>> posterior.observe([[0.0], [1.0], [1.0]], [0.2, 0.9, 0.7])
    >>> posterior.predict([[0.0], [1.0]]).mean.round(3)
    array([0.103, 0.762])
    >>> posterior.n_observations, posterior.size
    (2, 1)
    """

    def __init__(self, kernel: Kernel, *, regularisation: float, length: int) -> None:
        super().__init__(ExactPosterior(kernel, regularisation=regularisation))
        self.length = a_count(length, "The length of the window", way_out="200 is a good start.")

    @property
    def _most(self) -> float:
        return self.length

    def _weights(self, n: int) -> Vector:
        return np.ones(n)

    def _start(self, points: Points) -> None:
        n_features = self.kernel.n_features(points)
        is_few = n_features is not None and n_features <= self.length and n_features**2 <= FEW_FEATURES * self.length
        form = PrimalPosterior if is_few else ExactPosterior
        self._inner = form(self.kernel, regularisation=self.regularisation)
        self._inner._join(self._journal)

    def _make_room(self, leaving: Mapping[Hashable, int], n: int) -> None:
        if not leaving:
            return
        left = [self._history.rest(key, times) for key, times in leaving.items()]
        # Sums over what is left: subtracting would leave the rounding errors of what has left behind.
        counts, sums = np.array([float(len(part)) for part in left]), np.array([exact_sum(part) for part in left])
        self._inner.retotal(list(leaving), counts, sums)
