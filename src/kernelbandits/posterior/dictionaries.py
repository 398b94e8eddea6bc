"""Dictionaries of the Nyström posterior: rules by which observed points become atoms."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import inf, sqrt
from typing import Any, Final, Literal, Protocol

import numpy as np

from kernelbandits.errors import InvalidParameter
from kernelbandits.types import Indices, Vector
from kernelbandits.validation import check_float, check_int, check_nonnegative, check_positive, is_one_of, short_repr

__all__ = [
    "BatchedResampling",
    "Dictionary",
    "OnlineRowSampling",
    "Resampling",
    "ResidualDictionary",
    "checked_accuracy",
    "checked_budget",
    "checked_threshold",
]


class Learned(Protocol):
    """What a rule may look at."""

    regularization: float

    @property
    def counts(self) -> Vector:
        """Observations of every stored point."""

    def squared_widths(self) -> Vector:
        """DTC width² of every stored point."""

    def uniforms(self, n: int) -> Vector:
        """Uniform random numbers."""


@dataclass(frozen=True, kw_only=True)
class Dictionary(ABC):
    """Rule by which observed points become atoms. Immutable: what it draws and counts is kept by the posterior.

    Any dictionary gives a valid certificate, whatever it was chosen by; the rule decides how small it is.
    """

    size: int | None = None
    """Largest number of atoms; None: no limit."""

    drops_history = False
    """Whether the dictionary is fixed once it is full, so that earlier points need not be stored."""

    samples_rows = False
    """Whether arriving points are drawn by `OnlineRowSampling.probability`."""

    has_batches = False
    """Whether the dictionary is selected again at the end of adaptive batches only."""

    delays_means = False
    """Whether means are those of the start of the batch."""

    def __post_init__(self) -> None:
        if self.size is not None:
            _keep(self, size=checked_budget(self.size, "The size of a dictionary"))

    @abstractmethod
    def least_residual(self, regularization: float) -> float:
        """Residual above which an arriving point becomes an atom; infinite for a rule that draws."""

    def most_unexplained(self, regularization: float) -> float:
        """Largest sum of n · residual; above it, the points with the largest become atoms."""
        return inf

    def selects_anew(self, inflation: float) -> bool:
        """Whether the whole dictionary is selected again now; `inflation` = 1 + Σ width² of the batch."""
        return False

    def select(self, learned: Learned) -> Indices:
        """Stored points that form the new dictionary."""
        return np.arange(len(learned.counts))


@dataclass(frozen=True, kw_only=True)
class ResidualDictionary(Dictionary):
    """Add a point when the dictionary leaves too much of it unexplained. Deterministic; the default.

    A point becomes an atom if its residual k(x, x) − ‖z(x)‖² exceeds tolerance · γ, until there are `size` atoms. With
    `accuracy`, further points become atoms, those with the largest n · residual first, so that the sum of all residuals
    stays below accuracy · γ: that bounds every width and every mean by the certificate, and the dictionary has no
    largest size.

    Parameters
    ----------
    size
        Largest number of atoms. When it is reached, the dictionary is fixed and the points are dropped: memory is
        bounded for ever.
    tolerance
        Fraction of γ, 0 or above.
    accuracy
        Largest sum of residuals as a fraction of γ, in (0, 1); None: no bound. Not together with a size.
    """

    tolerance: float = 0.1
    accuracy: float | None = None

    drops_history = True

    def __post_init__(self) -> None:
        super().__post_init__()
        _keep(self, tolerance=check_nonnegative(self.tolerance, "The tolerance", "0.1 is a good start."))
        if self.accuracy is not None:
            _keep(self, accuracy=checked_accuracy(self.accuracy))
            if self.size is not None:
                raise InvalidParameter(
                    f"A dictionary has a largest size or an accuracy, got size={self.size} and "
                    f"accuracy={self.accuracy}. A size bounds the memory, an accuracy the error."
                )

    def least_residual(self, regularization: float) -> float:
        return self.tolerance * regularization if self.accuracy is None else inf

    def most_unexplained(self, regularization: float) -> float:
        return inf if self.accuracy is None else self.accuracy * regularization


@dataclass(frozen=True, kw_only=True)
class OnlineRowSampling(Dictionary):
    """Draw arriving points by their ridge leverage score; atoms stay (KORS, EK-UCB).

    Calandriello et al. (2017), kernel online row sampling, and Zenati et al. (2022), with the corrected score.
    With weights 1/sqrt(p) on the atoms, S = diag(weights), b_j = k(z_j, x)/sqrt(p_j) and μ = projection · γ,

        e = k(x, x) − bᵀ (S K_ZZ S + μI)⁻¹ b,   τ = (1 + ε) e / (e + μ),   p = min(1, β τ).

    Parameters
    ----------
    oversampling
        β. In theory 3 ln(T/δ)/ε², in practice 1 to 10.
    accuracy
        ε in (0, 1).
    projection
        μ as a multiple of the regularization.
    """

    oversampling: float = 2.0
    accuracy: float = 0.5
    projection: float = 1.0

    samples_rows = True

    def __post_init__(self) -> None:
        super().__post_init__()
        _keep(
            self,
            oversampling=check_positive(self.oversampling, "The oversampling", "1 to 10 serve in practice."),
            accuracy=checked_accuracy(self.accuracy),
            projection=check_positive(self.projection, "The projection parameter", "1.0 is that of the paper."),
        )

    def least_residual(self, regularization: float) -> float:
        return inf

    def probability(self, unexplained: float, regularization: float) -> float:
        """Probability p of a point with this e."""
        left = max(unexplained, 0.0)
        score = (1.0 + self.accuracy) * left / (left + self.projection * regularization)
        return min(1.0, self.oversampling * score)


@dataclass(frozen=True, kw_only=True)
class Resampling(Dictionary):
    """Redraw the whole dictionary after every reward (BKB: Calandriello et al. 2019).

    Point i is kept with probability min(1, q · width²(x_i) · n_i), by the DTC widths under the current dictionary.

    Parameters
    ----------
    oversampling
        q. In theory 6 ρ ln(4T/δ)/ε² with ρ = (1 + ε)/(1 − ε), in practice 2 to 10.
    """

    oversampling: float = 5.0

    def __post_init__(self) -> None:
        super().__post_init__()
        _keep(self, oversampling=check_positive(self.oversampling, "The oversampling", "2 to 10 serve in practice."))

    def least_residual(self, regularization: float) -> float:
        return inf

    def selects_anew(self, inflation: float) -> bool:
        return True

    def select(self, learned: Learned) -> Indices:
        wanted = np.minimum(1.0, self.oversampling * learned.squared_widths() * learned.counts)
        return np.flatnonzero(learned.uniforms(len(wanted)) < wanted)


@dataclass(frozen=True, kw_only=True)
class BatchedResampling(Resampling):
    """Redraw the dictionary at the end of adaptive batches (BBKB, CBBKB).

    Calandriello et al. (2020) and, for contextual rounds, Zenati et al. (2022). A batch ends when 1 + Σ width² of its
    points, by the widths at its start, exceeds `threshold`. Widths shrink within the batch.

    Parameters
    ----------
    threshold
        C > 1.
    batch
        "mean": dictionary and means are those of the start of the batch (BBKB); "dictionary": means are current
        (CBBKB).
    """

    threshold: float = 2.0
    batch: Literal["dictionary", "mean"] = "mean"

    has_batches = True

    @property
    def delays_means(self) -> bool:  # type: ignore[override]
        """Whether means are those of the start of the batch."""
        return self.batch == "mean"

    def __post_init__(self) -> None:
        super().__post_init__()
        _keep(self, threshold=checked_threshold(self.threshold))
        if not is_one_of(self.batch, ("dictionary", "mean")):
            raise InvalidParameter(
                f"Within a batch the 'dictionary' is kept, or also the 'mean', got {short_repr(self.batch)}."
            )

    def selects_anew(self, inflation: float) -> bool:
        return inflation > self.threshold


BYTES_PER_PAIR: Final = 110
"""Bytes per pair of atoms: factors, sums and recent changes, and the history before the dictionary is fixed."""


def checked_budget(budget: float, name: str = "The budget") -> int:
    """Validate a number of atoms that fits into memory; raise InvalidParameter otherwise."""
    size = check_int(budget, name, hint="It is a number of points; 1,000 is a good start.")
    memory = _memory()
    if BYTES_PER_PAIR * size**2 > memory:
        raise InvalidParameter(
            f"{name} must fit into memory, got {size:,}: {BYTES_PER_PAIR * size**2 / 1e9:,.1f} GB, and this machine "
            f"has {memory / 1e9:,.1f} GB. At most {int(sqrt(memory / BYTES_PER_PAIR)):,} fit."
        )
    return size


def _memory() -> float:
    """Bytes of memory of this machine; infinite if the system does not tell."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE")) * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # Windows
        return inf


def checked_threshold(threshold: float) -> float:
    """Validate a number above 1; raise InvalidParameter otherwise."""
    value = check_float(threshold, "The threshold of a batch")
    if not 1.0 < value < inf:
        raise InvalidParameter(
            f"The threshold of a batch must be above 1 and finite, got {short_repr(threshold)}. It bounds by how much "
            "widths may shrink within a batch; 2.0 is a good start."
        )
    return value


def checked_accuracy(accuracy: float) -> float:
    """Validate a number in (0, 1); raise InvalidParameter otherwise."""
    value = check_float(accuracy, "The accuracy")
    if not 0.0 < value < 1.0:
        raise InvalidParameter(
            f"The accuracy must lie between 0 and 1, exclusive, got {short_repr(accuracy)}. It bounds what the "
            "dictionary leaves unexplained, as a fraction of the regularization; 0.01 is a good start."
        )
    return value


def _keep(rule: Dictionary, **values: Any) -> None:
    """Store validated values as plain numbers."""
    for name, value in values.items():
        object.__setattr__(rule, name, value)
