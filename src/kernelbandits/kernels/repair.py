"""Repair of indefinite similarity matrices."""

from __future__ import annotations

from typing import Final, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from kernelbandits.errors import InvalidParameter
from kernelbandits.kernels.similarity_table import (
    GrowthRule,
    LandmarkGrowth,
    RepairReport,
    ShiftGrowth,
    SimilarityTable,
    SpectralGrowth,
    rounding,
    symmetric,
)
from kernelbandits.types import Matrix, Vector
from kernelbandits.validation import check_nonnegative, is_one_of, short_repr

__all__ = ["RepairReport", "detect", "repair"]

Method = Literal["clip", "flip", "shift", "square"]

TOLERANCE: Final = 1e-8
"""Eigenvalues above −tolerance · (largest similarity) count as rounding; a posterior has the same tolerance."""


def detect(table: SimilarityTable | ArrayLike, *, tolerance: float = TOLERANCE) -> RepairReport:
    """Report negative eigenvalues, which a kernel does not have; nothing is changed.

    >>> detect([[1.0, 2.0], [2.0, 1.0]])
    RepairReport(method='none', n_negative=1, most_negative=-1.0, negative_mass=0.25, largest_change=0.0)
    """
    values = _values(table)
    spectrum = np.asarray(np.linalg.eigvalsh(values), dtype=np.float64)
    return RepairReport.of(spectrum, "none", limit=_limit(values, spectrum, tolerance), change=0.0)


def repair(
    table: SimilarityTable | ArrayLike, *, method: Method = "clip", tolerance: float = TOLERANCE
) -> tuple[SimilarityTable, RepairReport]:
    """Create a positive semi-definite table from similarities, and report the changes.

    With S = V Λ Vᵀ the spectral decomposition of the similarities:

    - ``"clip"``: negative eigenvalues become zero, V max(Λ, 0) Vᵀ: the nearest positive semi-definite matrix.
    - ``"flip"``: they become positive, V |Λ| Vᵀ: preserves the information of the negative part about differences.
    - ``"shift"``: the magnitude of the lowest eigenvalue is added to the diagonal; no similarity between different
      items changes, every item becomes more similar to itself. New items that would need a larger shift are rejected.
    - ``"square"``: S² / ‖S‖, items are similar if they are similar to the same items. Dividing by ‖S‖ = max |Λ|
      preserves the largest eigenvalue. Unlike the other methods it also changes a table that needed no repair.

    The new table repairs items that are added later in the same way, and never changes an entry: clip and flip
    project their similarities onto the retained eigenspace, square compares them with the items of this first table,
    shift rejects those that would need more (`kernels.similarity_table` has the formulas).

    Parameters
    ----------
    table
        A `SimilarityTable` (its ids are used, it is not changed itself), or a square symmetric matrix.
    method
        One of the four above.
    tolerance
        Eigenvalues above −tolerance · (largest similarity) count as rounding, and are not repaired.

    >>> table, report = repair([[1.0, 2.0], [2.0, 1.0]])
    >>> table.values
    array([[1.5, 1.5],
           [1.5, 1.5]])
    >>> report.n_negative, round(report.largest_change, 6)
    (1, 0.5)

    Reference: Chen et al. (2009), Similarity-based classification.
    """
    if not is_one_of(method, get_args(Method)):
        raise InvalidParameter(f'The method must be "clip", "flip", "shift" or "square", got {short_repr(method)}.')
    values = _values(table)
    ids = table.ids[: len(values)] if isinstance(table, SimilarityTable) else None  # it may have grown since
    spectrum, vectors = np.linalg.eigh(values)
    limit = _limit(values, spectrum, tolerance)
    repaired, rule = _repaired(values, spectrum, vectors, method, limit)
    change = float(np.abs(repaired - values).max())
    return SimilarityTable(repaired, ids=ids, rule=rule), RepairReport.of(spectrum, method, limit=limit, change=change)


def _repaired(
    values: Matrix, spectrum: Vector, vectors: Matrix, method: Method, limit: float
) -> tuple[Matrix, GrowthRule]:
    """Repaired matrix and the growth rule for new items."""
    lowest = min(float(spectrum[0]), float(np.diagonal(values).min()))  # up to rounding, no diagonal entry is lower
    is_sound = lowest >= -limit and np.diagonal(values).min() >= 0.0
    if method == "square":
        norm = float(np.abs(spectrum).max()) or 1.0
        scaled = values / np.sqrt(norm)
        return scaled @ scaled.T, LandmarkGrowth(scaled, norm=norm)
    if method == "shift":
        shift = 0.0 if is_sound else -lowest
        # Twice the limit: a valid table may lie at the limit itself, and its factor must exist.
        return values + shift * np.eye(len(values)), ShiftGrowth(shift, slack=2.0 * limit or TOLERANCE)
    if is_sound:
        spectrum = np.maximum(spectrum, 0.0)
        return values, SpectralGrowth.of_spectrum(method, spectrum, vectors, limit=limit, allowance=0.0)
    coordinates = vectors * np.sqrt(np.abs(spectrum) if method == "flip" else np.maximum(spectrum, 0.0))
    repaired = coordinates @ coordinates.T
    allowance = float((np.diagonal(repaired) - np.diagonal(values)).max())
    return repaired, SpectralGrowth.of_spectrum(method, spectrum, vectors, limit=limit, allowance=allowance)


def _values(table: SimilarityTable | ArrayLike) -> Matrix:
    if isinstance(table, SimilarityTable):
        return table.values
    values = symmetric(table, "The similarities")
    if not len(values):
        raise InvalidParameter("The matrix must have at least one item, got an empty one.")
    return values


def _limit(values: Matrix, spectrum: Vector, tolerance: float) -> float:
    """Magnitude up to which a negative eigenvalue counts as rounding."""
    given = check_nonnegative(tolerance, "The tolerance") * float(np.abs(values).max())
    return max(given, rounding(spectrum, len(spectrum)))
