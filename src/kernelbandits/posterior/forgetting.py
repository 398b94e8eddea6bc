"""The posterior of observations that count less as they grow old."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from math import floor, inf, log
from typing import Final

import numpy as np

from kernelbandits.checks import a_number
from kernelbandits.errors import InvalidParameter
from kernelbandits.kernels import Kernel
from kernelbandits.posterior.auto import AutoPosterior
from kernelbandits.posterior.ordered import OrderedPosterior
from kernelbandits.types import Vector

__all__ = ["ForgettingPosterior"]

LEAST_WEIGHT: Final = 1e-8
"""Observations that count less are dropped; the class says what that changes."""


class ForgettingPosterior(OrderedPosterior):
    """Ridge regression in which an observation counts rateᵍ once g others have been learnt after it.

    For rewards that change slowly all the time. With W the weights of all observations, which are fractional counts,

        mean   = kᵀ (K + γ W⁻¹)⁻¹ y
        width² = (k(x, x) − kᵀ (K + γ W⁻¹)⁻¹ k) / γ.

    The regularisation is not discounted, so widths grow back to sqrt(k(x, x)/γ) where nothing is observed any more. All
    weights together approach 1/(1 − rate): so many observations is what it remembers.

    No interval of `kernelbandits.theory.widths` is proved for weighted data (the noise term needs the squared weights):
    tune a constant exploration.

    All weights change with every observation, so the factor over points has to be made anew for the next question:
    O(m³), m the distinct points remembered, at most about 18/(1 − rate). Where the kernel has fewer features D than
    that, O(D² + D³) by the recursion

        C ← rate·C + (1 − rate)·γI + φφᵀ,   b ← rate·b + reward·φ;

    where the points have a low numerical rank r, O(m·r² + r³). Observing alone costs O(m), or O(m + D²). A question
    costs O(m²), O(D²) or O(r²) a point. Nothing depends on how much was observed before. Where points are new every
    round and neither D nor r is small, m³ is felt: at rate 0.99 a round takes thirty times as long as with a window of
    400.

    Observations of weight below 1e-8 are dropped: these count ε < 1e-8/(1 − rate) together. With κ the largest k(x, x),
    width² comes out larger than it is by at most the factor 1 + εκ/γ, and the mean is off by at most εκ/γ times the
    largest residual |reward − mean| of what was dropped; both apart from rounding.

    Parameters
    ----------
    kernel
        Any kernel.
    regularisation
        γ > 0.
    rate
        0 < rate ≤ 1, what is left of a weight from one observation to the next. 0.99 remembers about 100 observations,
        0.9 about 10; 1 forgets nothing.

    Notes
    -----
    The order of observations, hence their age, is that of learning. `amend` and `remove` know an observation by its
    number, as a policy gives it, or by its point and reward; of several that fit, the latest is meant. For one that has
    been dropped they raise NotLearnt and change nothing. Removing one makes all that were learnt before it younger by
    one.

    Examples
    --------
    >>> from kernelbandits.kernels import Gaussian
    >>> posterior = ForgettingPosterior(Gaussian(length_scale=0.5), regularisation=0.1, rate=0.5)
    >>> posterior.observe([[0.0], [1.0], [1.0]], [0.2, 0.9, 0.7])
    >>> posterior.predict([[0.0], [1.0]]).mean.round(3)
    array([0.17 , 0.719])
    >>> posterior.support()[2]
    array([0.25, 1.5 ])
    """

    def __init__(self, kernel: Kernel, *, regularisation: float, rate: float) -> None:
        super().__init__(AutoPosterior(kernel, regularisation=regularisation))
        self.rate = a_number(rate, "The rate")
        if not 0.0 < self.rate <= 1.0:
            raise InvalidParameter(
                f"The rate has to lie above 0 and be at most 1, got {rate!r}. It is what is left of a weight from one "
                "observation to the next; 0.99 remembers about 100 observations."
            )

    @property
    def _most(self) -> float:
        return inf if self.rate == 1.0 else 1.0 + floor(log(LEAST_WEIGHT) / log(self.rate))

    def _weights(self, n: int) -> Vector:
        return self.rate ** np.arange(n - 1, -1, -1.0)

    def _make_room(self, leaving: Mapping[Hashable, int], n: int) -> None:
        if self.rate == 1.0 or not len(self._history):
            return
        gone = [key for key, times in leaving.items() if not self._history.rest(key, times)]
        self._inner.fade(self.rate**n, gone)
