"""Report on how well a kernel fits points and rewards: leave-one-out errors, effective dimension, neighbors."""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from kernelbandits._text import html_table
from kernelbandits.errors import InvalidParameter, NotPositiveSemidefinite
from kernelbandits.kernels import Kernel, KernelLike, as_kernel
from kernelbandits.posterior.base import check_no_overflow, checked_regularization, checked_rewards, checked_times
from kernelbandits.theory import effective_dimension
from kernelbandits.types import Indices, Matrix, Parameters, Points, Seed, Vector
from kernelbandits.validation import as_generator, check_int, pluralize

__all__ = ["Disagreement", "KernelReport", "kernel_report"]

HALF: Final = 0.6744897501960817
NINE_TENTHS: Final = 1.6448536269514722
"""Half the width of the central 50 % and 90 % of a standard normal variable."""

FACTORS: Final = (0.25, 0.5, 2.0, 4.0)
"""Multiples of the length scales that are compared."""

NOTABLE: Final = 3.0
"""Gain in leave-one-out log density at which another length scale is recommended."""

ALIKE: Final = 0.95
APART: Final = 0.05
"""Similarities k(x, z) / sqrt(k(x, x) k(z, z)) beyond which points are almost the same, or have nothing in common."""

CALIBRATED: Final = 0.06
"""Largest difference from 90 % that is not remarked on."""

SURPRISING: Final = 2.0
"""Difference of two neighbors' rewards, in its standard deviations, from which they are listed."""

MOST_LISTED: Final = 10
"""Largest number of pairs that are listed."""

EQUAL: Final = 1e-12
"""Relative difference of rewards that is taken for rounding, such as that of means of equal rewards."""

SMALLEST: Final = 1e-300


ALL_EQUAL: Final = "All rewards are equal, so there is nothing that a kernel could explain. Give a larger sample."


class Disagreement(NamedTuple):
    """Two nearest neighbors with different rewards."""

    first: int
    second: int
    """Places in the points that were given."""

    similarity: float
    """k(x, z) / sqrt(k(x, x) k(z, z))."""

    rewards: tuple[float, float]
    deviations: float
    """Difference of the rewards in standard deviations of it under the model."""


@dataclass(frozen=True, kw_only=True, repr=False)
class KernelReport:
    """How well a kernel fits points and rewards. Printed, it is a short table; `remarks` say what stands out."""

    kernel: Parameters
    regularization: float
    n_points: int
    """Number of points used."""

    explained: float
    """1 − squared error / that of the mean of the other rewards, both of points that were left out. 1: perfect; 0 or
    less: similar points tell nothing. 0 if all rewards are equal."""

    error: float
    """Root mean squared error of a reward that was left out."""

    within_half: float
    """Share of rewards in their central 50 % interval when left out."""

    within_nine_tenths: float
    """Share of rewards in their central 90 % interval when left out."""

    effective_dimension: float
    """`theory.effective_dimension` of these points: about the number of directions in which the model can vary."""

    median_similarity: float
    """Median over all pairs of k(x, z) / sqrt(k(x, x) k(z, z))."""

    nearest_similarity: float
    """Median over all points of the similarity to the nearest other point."""

    scales: dict[float, float]
    """Gain in leave-one-out log density if all length scales are multiplied by a factor; empty without length
    scales."""

    disagreements: tuple[Disagreement, ...]
    """Nearest neighbors whose rewards differ most against the model."""

    remarks: tuple[str, ...]
    """What stands out, as sentences."""

    def _rows(self) -> list[list[str]]:
        rows = [
            ["points", f"{self.n_points:,}"],
            ["explained, left out", f"{self.explained:.0%}"],
            ["error, left out", f"{self.error:.3g}"],
            ["in 50 % and 90 % intervals", f"{self.within_half:.0%}, {self.within_nine_tenths:.0%}"],
            ["effective dimension", f"{self.effective_dimension:.1f}"],
            ["similarity, median", f"{self.median_similarity:.2f}"],
            ["similarity, nearest", f"{self.nearest_similarity:.2f}"],
        ]
        if self.scales:
            gains = ", ".join(f"× {factor:g}: {gain:+.1f}" for factor, gain in self.scales.items())
            rows.append(["log density at other scales", gains])
        for pair in self.disagreements[:3]:
            rewards = " and ".join(f"{reward:.3g}" for reward in pair.rewards)
            text = f"similarity {pair.similarity:.2f}, rewards {rewards}"
            rows.append([f"neighbors {pair.first} and {pair.second}", text])
        return rows

    def __str__(self) -> str:
        rows = self._rows()
        width = max(len(name) for name, _ in rows)
        return "\n".join([*(f"{name:<{width}}  {value}" for name, value in rows), *self.remarks])

    def __repr__(self) -> str:
        points = pluralize(self.n_points, "point")
        return f"KernelReport({self.kernel['class']}: {self.explained:.0%} explained, {points})"

    def _repr_html_(self) -> str:
        return html_table("Kernel report", [*self._rows(), *(["remark", remark] for remark in self.remarks)])


def kernel_report(
    kernel: KernelLike,
    points: Points,
    rewards: ArrayLike,
    *,
    times: ArrayLike = 1,
    regularization: float = 1.0,
    sample: int = 1_000,
    seed: Seed = None,
) -> KernelReport:
    """Report how well a kernel and a regularization fit points and rewards.

    Every reward is predicted from all others by kernel ridge regression, in closed form: with B = (K + γ D⁻¹)⁻¹ and D
    the diagonal matrix of `times`, the error is (By)ᵢ / Bᵢᵢ and its variance s² / Bᵢᵢ. The scale s² is that under
    which the errors have the right size on average, so calibration shows whether they are large where the model says
    so. For a policy, give the points, mean rewards and counts of `policy.posterior.support()`.

    Parameters
    ----------
    kernel, regularization
        What a policy is to use.
    points, rewards
        A sample: random actions with their rewards. Actions that a policy chose are a sample of good ones.
    times
        Number of rewards that each of the `rewards` is the mean of.
    sample
        Largest number of points used; of more, a random sample.
    seed
        Seed of the sample.

    >>> from kernelbandits.kernels import Gaussian
    >>> x = np.linspace(0, 1, 40)[:, None]
    >>> y = np.sin(20 * x[:, 0])
    >>> for length_scale in (0.1, 5.0):
    ...     report = kernel_report(Gaussian(length_scale=length_scale), x, y, regularization=0.1)
    ...     print(f"{report.explained:.0%}")
    98%
    -2%
    >>> print(report.remarks[0])
    Nearly all points look the same (median similarity 1.00): shorten the length scale.
    """
    kernel, gamma = as_kernel(kernel), checked_regularization(regularization)
    points = kernel.kind.check(points)
    n_points = kernel.kind.count(points)
    targets, counts = checked_rewards(rewards, n_points), checked_times(times, n_points)
    rows = _sampled(n_points, check_int(sample, "The sample", least=3), seed)
    if len(rows) < 3:
        raise InvalidParameter(f"A report needs at least three points, got {n_points}.")
    points, targets, counts = kernel.kind.take(points, rows), targets[rows], counts[rows]
    gram = kernel.gram(points)
    check_no_overflow(gram)
    errors, variances = _left_out(gram, gamma / counts, targets)
    scale = max(float(np.mean(errors**2 / variances)), SMALLEST)
    deviations = np.abs(errors) / np.sqrt(scale * variances)
    of_mean = (targets - targets.mean()) * len(targets) / (len(targets) - 1.0)
    differ = bool(np.ptp(targets) > EQUAL * np.abs(targets).max())
    similarity = _relative(gram, kernel.diagonal(points))
    nearest = np.where(np.eye(len(rows), dtype=bool), -np.inf, similarity)
    found: dict[str, Any] = {
        "n_points": len(rows),
        "explained": 1.0 - float(errors @ errors) / float(of_mean @ of_mean) if differ else 0.0,
        "error": float(np.sqrt(np.mean(errors**2))),
        "within_half": float(np.mean(deviations <= HALF)),
        "within_nine_tenths": float(np.mean(deviations <= NINE_TENTHS)),
        "effective_dimension": float(
            effective_dimension(gram, counts=counts, regularization=gamma, horizon=int(counts.sum()))
        ),
        "median_similarity": float(np.median(similarity[np.triu_indices(len(rows), k=1)])),
        "nearest_similarity": float(np.median(nearest.max(axis=1))),
        "scales": _gains(kernel, points, gamma / counts, targets),
    }
    return KernelReport(
        kernel=kernel.describe(),
        regularization=gamma,
        **found,
        disagreements=_disagreements(gram, nearest, gamma / counts, targets, scale, rows),
        remarks=_remarks(found) if differ else (ALL_EQUAL,),
    )


def _sampled(n_points: int, sample: int, seed: Seed) -> Indices:
    if n_points <= sample:
        return np.arange(n_points)
    return np.sort(as_generator(seed).choice(n_points, size=sample, replace=False))


def _left_out(gram: Matrix, noise: Vector, targets: Vector) -> tuple[Vector, Vector]:
    """Return the error of every target predicted from all others, and its variance in units of the scale."""
    try:
        inverse = np.linalg.inv(np.linalg.cholesky(gram + np.diag(noise)))
    except np.linalg.LinAlgError as error:
        raise NotPositiveSemidefinite(
            "The similarities of the sample are not positive semi-definite. Repair them first: "
            "kb.kernels.repair(table, method='clip')."
        ) from error
    precision = np.einsum("ij,ij->j", inverse, inverse)
    return inverse.T @ (inverse @ targets) / precision, 1.0 / precision


def _relative(gram: Matrix, diagonal: Vector) -> Matrix:
    """Return k(x, z) / sqrt(k(x, x) k(z, z)), 0 where k(x, x) = 0."""
    norms = np.sqrt(np.maximum(diagonal, 0.0))
    inverse = np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0.0)
    relative: Matrix = gram * inverse[:, None] * inverse[None, :]
    return relative


def _log_density(gram: Matrix, noise: Vector, targets: Vector) -> float:
    """Return the leave-one-out log density at the best scale, up to a constant."""
    errors, variances = _left_out(gram, noise, targets)
    scale = max(float(np.mean(errors**2 / variances)), SMALLEST)
    return -0.5 * len(targets) * log(scale) - 0.5 * float(np.log(variances).sum())


def _gains(kernel: Kernel, points: Points, noise: Vector, targets: Vector) -> dict[float, float]:
    values = kernel.log_parameters()
    if not len(values) or not targets.any():
        return {}
    given = _log_density(kernel.gram(points), noise, targets)
    others = {factor: kernel.with_log_parameters(values + log(factor)) for factor in FACTORS}
    return {factor: _log_density(other.gram(points), noise, targets) - given for factor, other in others.items()}


def _disagreements(
    gram: Matrix, nearest: Matrix, noise: Vector, targets: Vector, scale: float, rows: Indices
) -> tuple[Disagreement, ...]:
    """Return pairs of a point and its nearest neighbor, those that the model expects least first."""
    others = nearest.argmax(axis=1)
    pairs = sorted({(min(pair), max(pair)) for pair in enumerate(others.tolist())})
    found = []
    for first, second in pairs:
        variance = gram[first, first] + gram[second, second] - 2.0 * gram[first, second] + noise[first] + noise[second]
        apart = abs(targets[first] - targets[second]) / np.sqrt(scale * max(float(variance), SMALLEST))
        rewards = float(targets[first]), float(targets[second])
        places = int(rows[first]), int(rows[second])
        if apart > SURPRISING:
            found.append(Disagreement(*places, float(nearest[first, second]), rewards, float(apart)))
    return tuple(sorted(found, key=lambda pair: -pair.deviations)[:MOST_LISTED])


def _remarks(found: dict[str, Any]) -> tuple[str, ...]:
    remarks = []
    if found["median_similarity"] > ALIKE:
        remarks.append(
            f"Nearly all points look the same (median similarity {found['median_similarity']:.2f}): shorten the length "
            "scale."
        )
    if found["nearest_similarity"] < APART:
        remarks.append(
            f"Most points resemble no other one (similarity to the nearest {found['nearest_similarity']:.2f}): "
            "lengthen the length scale, or take another kernel."
        )
    if found["explained"] <= 0.0:
        remarks.append("Similar points tell no more about a reward than the mean of all rewards does.")
    if abs(found["within_nine_tenths"] - 0.9) > CALIBRATED:
        remarks.append(f"Intervals of 90 % hold {found['within_nine_tenths']:.0%} of the rewards that were left out.")
    best = max(found["scales"], key=found["scales"].get, default=None)
    if best is not None and found["scales"][best] > NOTABLE:
        remarks.append(f"Length scales {best:g} times as long fit better (log density {found['scales'][best]:+.1f}).")
    return tuple(remarks)
