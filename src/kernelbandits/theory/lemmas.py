"""The paper's lemmas as checks on data: each tests a claim on numbers from a run.

The statements are the corrected ones; their constants are far below the paper's (errata E15, E18), so they imply the
printed ones. Lemmas 1 and 7 hold with the probability that their scale was computed for; the others always. A failed
check is therefore a defect, in the code or in an assumption: each check states its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log, log1p, sqrt
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from kernelbandits.errors import InvalidParameter
from kernelbandits.theory.bounds import horizon_logarithm, kappa
from kernelbandits.theory.spectra import effective_dimension, information_gain
from kernelbandits.types import Prediction, StageStep, Vector
from kernelbandits.validation import (
    LARGEST,
    check_array,
    check_instance,
    check_int,
    check_list,
    check_nonnegative,
    check_positive,
    check_vector,
)

__all__ = [
    "Check",
    "elliptical_potential",
    "gain_and_dimension",
    "interlacing",
    "lemma_1",
    "lemma_2",
    "lemma_3",
    "lemma_4",
    "lemma_5",
    "lemma_6",
    "lemma_7",
    "shrinking_widths",
]

ROUNDING: Final = 1e-9
"""Slack of every check, relative to the larger side and to 1: both sides are sums of rounded numbers of order one."""

MOST_STAGES: Final = 500
"""Largest level: 4 to this power is finite, and no horizon has as many levels."""


@dataclass(frozen=True, kw_only=True)
class Check:
    """Result of testing one claim on data: it holds if left ≤ right, up to rounding."""

    name: str
    left: float
    right: float
    holds: bool
    assumes: str

    def __bool__(self) -> bool:
        return self.holds


def elliptical_potential(
    widths: ArrayLike, *, log_det_gain: float, regularization: float, largest_similarity: float = 1.0
) -> Check:
    """Elliptical potential lemma: Σ width_t² ≤ κ L.

    `widths` are those of the learned points, each just before it was learned, in the order of learning; L is the
    log-determinant gain of them all, Σ ln(1 + width_t²).
    """
    total = float(np.sum(_checked_widths(widths) ** 2))
    factor = kappa(regularization=regularization, largest_similarity=largest_similarity)
    right = factor * check_nonnegative(log_det_gain, "The log-determinant gain")
    return _check("Elliptical potential", total, right, assumes="k(x, x) is at most largest_similarity")


def gain_and_dimension(
    gram: ArrayLike | None = None,
    *,
    regularization: float,
    noise_variance: float,
    horizon: int,
    spectrum: ArrayLike | None = None,
    counts: ArrayLike | None = None,
) -> Check:
    """Section 4.1, corrected: ½ (d̃ − 1) ln(1 + (γ/σ²) ln T) ≤ I.

    The information gain I with noise variance σ² grows at least like d̃ ln ln T, so a bound in terms of d̃ is never of a
    larger order than one in terms of I. Proof: let j = d̃ − 1 ≥ 1, x = μ_j/σ² and c = (γ/σ²) ln T. As ln(1 + u)/u falls,
    each later eigenvalue contributes at least μᵢ/μ_j times ln(1 + x), and these factors add up to more than
    j γ ln T/μ_j = j c/x, because j is not yet the effective dimension. So 2 I ≥ j (1 + c/x) ln(1 + x), and this is at
    least j ln(1 + c): by the 1 if x ≥ c, by the c/x if x ≤ c. The paper exchanges two factors of this step and has no
    factor ½ (errata E21, E22).

    Parameters
    ----------
    gram
        Similarities of the learned points, or their whole `spectrum` instead, or similarities of distinct points with
        `counts`, as in `effective_dimension`.
    regularization, noise_variance, horizon
        γ, σ² and T ≥ 2.

    Reference: Valko et al. (2013), section 4.1.
    """
    noise_variance = check_positive(noise_variance, "The noise variance")
    dimension = effective_dimension(
        gram, regularization=regularization, horizon=horizon, spectrum=spectrum, counts=counts
    )
    gain = information_gain(gram, noise_variance=noise_variance, spectrum=spectrum, counts=counts)
    growth = log1p(float(regularization) / noise_variance * log(horizon))
    return _check("Section 4.1", (dimension - 1) / 2.0 * growth, gain, assumes="one whole spectrum")


def interlacing(before: ArrayLike, after: ArrayLike) -> Check:
    """Interlacing: learning a point decreases no eigenvalue, μ_j ≤ μ'_j for every j.

    `before` and `after` are spectra of the Gram matrix without and with the point; missing eigenvalues are zeros.
    Left and right are the pair of eigenvalues with the smallest margin.
    """
    old, new = _aligned(before, after)
    place = int(np.argmax(old - new))
    return _check(
        "Lemma 3, eigenvalues", float(old[place]), float(new[place]), assumes="one Gram matrix holds the other"
    )


def shrinking_widths(before: ArrayLike, after: ArrayLike) -> Check:
    """Learning increases no width: at the same points, width after ≤ width before.

    Left and right are the pair of widths with the smallest margin.
    """
    old, new = check_vector(before, "The widths"), check_vector(after, "The widths")
    _same_length(old, new, "widths before and after")
    place = int(np.argmax(new - old))
    return _check(
        "Widths never grow", float(new[place]), float(old[place]), assumes="the same points and regularization"
    )


def lemma_1(prediction: Prediction, truth: ArrayLike, *, scale: float) -> Check:
    """Confidence interval: |mean − f| ≤ scale · width at every point.

    Left and right belong to the point with the smallest margin. With `sup_kernel_ucb_scale` it holds for all actions,
    rounds and levels with probability 1 − δ; the printed form has the scale (1 + ‖θ*‖)η + sqrt(γ)‖θ*‖ (erratum E18).
    """
    return _interval("Lemma 1", [prediction], [check_vector(truth, "The true rewards")], scale)


def lemma_2(features: ArrayLike, gram: ArrayLike) -> Check:
    """ΦᵀΦ and K = ΦΦᵀ have the same non-zero eigenvalues.

    Left is the largest difference between the two spectra, relative to the largest eigenvalue of K; right is 0. The
    rows of Φ are coordinates in an *orthonormal* basis; in any other basis the claim is false (erratum E16).
    """
    phi, k = check_array(features, "Features"), check_array(gram, "Similarities")
    if not (np.isfinite(phi).all() and np.isfinite(k).all()):
        raise InvalidParameter("Features and similarities must be finite numbers.")
    if phi.ndim != 2 or k.shape != (phi.shape[0], phi.shape[0]) or phi.size == 0:
        raise InvalidParameter(
            f"n rows of features go with an n × n Gram matrix, got shapes {phi.shape} and {k.shape}."
        )
    primal, dual = _aligned(np.linalg.eigvalsh(phi.T @ phi), np.linalg.eigvalsh(k))
    unit = float(np.max(np.abs(dual)))
    left = float(np.max(np.abs(primal - dual))) / (unit if unit > 0.0 else 1.0)
    return _check("Lemma 2", left, 0.0, assumes="features in an orthonormal basis")


def lemma_3(
    before: ArrayLike, after: ArrayLike, *, width: float, regularization: float, largest_similarity: float = 1.0
) -> Check:
    """Width and change of the spectrum: width² ≤ κ Σ_j (μ'_j − μ_j)/(μ_j + γ), and no eigenvalue decreases.

    `width` is that of the point just before it was learned; `before` and `after` are the spectra of the Gram matrix
    without and with it (missing eigenvalues are zeros). If an eigenvalue decreased, that check is returned.
    Proof: Π (1 + u_j) = 1 + width² for u_j = (μ'_j − μ_j)/(μ_j + γ) ≥ 0, so Σ u_j ≥ ln(1 + width²) ≥ width²/κ.
    The paper has 4 + 6/γ in place of κ.
    """
    order = interlacing(before, after)
    if not order.holds:
        return order
    old, new = _aligned(before, after)
    gamma = check_positive(regularization, "The regularization")
    if not (old + gamma > 0.0).all():
        raise InvalidParameter(f"Eigenvalues of a Gram matrix are zero or above, got {old.min()}.")
    growth = float(np.sum((new - old) / (old + gamma)))
    factor = kappa(regularization=regularization, largest_similarity=largest_similarity)
    left = check_nonnegative(width, "The width") ** 2
    return _check("Lemma 3", left, factor * growth, assumes="k(x, x) is at most largest_similarity")


def lemma_4(widths: ArrayLike, *, effective_dimension: float, regularization: float, horizon: int) -> Check:
    """Sum of the widths of one level: Σ width_t ≤ sqrt(2 κ d̃ ψ l_T), ψ the number of them.

    `widths` are those of the learned points, each just before it was learned; d̃ may be that of all T points. Proof:
    Cauchy–Schwarz, the elliptical potential, and L ≤ 2 d̃ l_T. The paper has 10 + 15/γ in place of 2κ.
    """
    learned = check_vector(widths, "The widths")
    room = _room(effective_dimension, regularization, horizon)
    return _check(
        "Lemma 4",
        float(np.sum(learned)),
        sqrt(room * learned.size),
        assumes="k(x, x) is at most 1, at most horizon points, every reward learned before the next choice",
    )


def lemma_5(
    stage_size: int, stage: int, *, scale: float, effective_dimension: float, regularization: float, horizon: int
) -> Check:
    """Size of a level of SupKernelUCB: ψ_s ≤ 4^s scale² · 2 κ d̃ l_T.

    Every round it learned had scale · width > 2^(−s), and lemma 4 bounds the sum of those widths. If the thresholds are
    multiplied by a unit, pass scale / unit.
    """
    size = check_int(stage_size, "The size of a stage", least=0)
    level = check_int(stage, "The stage", most=MOST_STAGES)
    right = (
        4.0**level * check_nonnegative(scale, "The scale") ** 2 * _room(effective_dimension, regularization, horizon)
    )
    return _check(
        f"Lemma 5, level {level}",
        float(size),
        right,
        assumes="k(x, x) is at most 1, every reward learned before the next choice",
    )


def lemma_6(original: Sequence[Sequence[StageStep]], replaced: Sequence[Sequence[StageStep]], *, stage: int) -> Check:
    """The rounds that a level learns do not depend on that level's rewards; hence the rewards are independent.

    Both arguments are runs over the same contexts: for each round its levels, a sequence of `StageStep`. In `replaced`
    the rewards of level `stage` were replaced arbitrarily while those of lower levels are unchanged; higher levels may
    differ arbitrarily. Up to and including level `stage` every round must be the same in both: the levels visited, the
    actions active there, their scaled widths, and what the level did. (That determines membership and, since the
    explored action is the widest, the learned context.) Means of level `stage` may differ, and so may everything beyond
    it.

    Left is the number of rounds that differ; right is 0.
    """
    level = check_int(stage, "The stage")
    original, replaced = (
        [_walk(walk) for walk in check_list(run, "The rounds of a run")] for run in (original, replaced)
    )
    if len(original) != len(replaced):
        raise InvalidParameter(
            f"Both runs must cover the same rounds, got {len(original)} and {len(replaced)} of them."
        )
    differing = sum(not _same_down_to(level, first, second) for first, second in zip(original, replaced, strict=True))
    return _check(
        f"Lemma 6, level {level}",
        float(differing),
        0.0,
        assumes="contexts that do not react to rewards; rewards of lower levels kept",
    )


def lemma_7(
    walk: Sequence[StageStep], truth: ArrayLike, *, scale: float, threshold_unit: float = 1.0
) -> tuple[Check, Check, Check]:
    """Invariants of SupKernelUCB's levels in one round: the interval, survival of the best action, small gaps.

        interval   |mean − f| ≤ scale · width for every active action of every level
        survival   the best action is active at every level (left: the gap of the best active one; right: 0)
        gap        max f − f(a) ≤ u 2^(3−s) for every action a active at level s

    `truth` is f at all actions of the round. On the event that the interval holds everywhere the other two follow for
    s ≥ 2; at level 1 nothing has been eliminated yet, and the gap of 4u is an assumption of the regret bound on f. u is
    the factor of the thresholds.
    """
    f, unit = check_vector(truth, "The true rewards"), check_positive(threshold_unit, "The threshold unit")
    walk = _walk(walk)
    if not walk:
        raise InvalidParameter("A walk has at least one level; this one is empty.")
    if max(int(np.max(step.active)) for step in walk) >= f.size:
        raise InvalidParameter(f"The walk speaks of actions beyond the {f.size} whose true rewards were given.")
    best = float(np.max(f))
    interval = _interval(
        "Lemma 7, interval", [step.prediction for step in walk], [f[step.active] for step in walk], scale
    )
    lacking = max(best - float(np.max(f[step.active])) for step in walk)
    gaps = [(best - float(np.min(f[step.active])), unit * 2.0 ** (3 - step.stage)) for step in walk]
    left, right = max(gaps, key=lambda gap: gap[0] - gap[1])
    follows = "the interval holds at every level"
    return (
        interval,
        _check("Lemma 7, survival of the best action", lacking, 0.0, assumes=follows),
        _check("Lemma 7, gap", left, right, assumes=f"{follows}; f spans at most 4 threshold units in a round"),
    )


def _walk(walk: Sequence[StageStep]) -> list[StageStep]:
    """Validate the steps of a round; raise InvalidParameter otherwise."""
    hint = "`SupKernelUCB.walk` gives them."
    return [
        check_instance(step, StageStep, "A step of a walk", hint) for step in check_list(walk, "The steps of a walk")
    ]


def _check(name: str, left: float, right: float, *, assumes: str) -> Check:
    slack = ROUNDING * max(1.0, abs(left), abs(right))
    return Check(name=name, left=left, right=right, holds=bool(left <= right + slack), assumes=assumes)


def _interval(name: str, predictions: Sequence[Prediction], truths: Sequence[Vector], scale: float) -> Check:
    scale = check_nonnegative(scale, "The scale")
    for prediction, truth in zip(predictions, truths, strict=True):
        check_instance(prediction, Prediction, "The prediction", "`posterior.predict(points)` gives one.")
        _same_length(prediction.mean, truth, "predictions and true rewards")
    errors = np.abs(np.concatenate([p.mean for p in predictions]) - np.concatenate(list(truths)))
    limits = scale * np.concatenate([p.width for p in predictions])
    place = int(np.argmax(errors - limits))
    return _check(
        name,
        float(errors[place]),
        float(limits[place]),
        assumes="data that are not adaptive, R-sub-Gaussian noise, an RKHS norm of f of at most B, and a scale of at "
        "least R times the exploration plus B times the square root of the regularization",
    )


def _checked_widths(widths: ArrayLike) -> Vector:
    checked = check_vector(widths, "The widths")
    if checked.size and not (checked.min() >= 0.0 and checked.max() <= LARGEST):
        raise InvalidParameter(f"Widths must lie between 0 and {LARGEST:g}, got {checked.min()} to {checked.max()}.")
    return checked


def _room(effective_dimension: float, regularization: float, horizon: int) -> float:
    """2 κ d̃ l_T."""
    l_T = horizon_logarithm(horizon=horizon, effective_dimension=effective_dimension, regularization=regularization)
    return 2.0 * kappa(regularization=regularization) * float(effective_dimension) * l_T


def _aligned(first: ArrayLike, second: ArrayLike) -> tuple[Vector, Vector]:
    """Two decreasing spectra, the shorter one padded with zeros."""
    one, other = check_vector(first, "The eigenvalues"), check_vector(second, "The eigenvalues")
    size = max(one.size, other.size)
    if size == 0:
        raise InvalidParameter("Both spectra are empty; give at least one eigenvalue.")
    padded = [np.flip(np.sort(np.append(values, np.zeros(size - values.size)))) for values in (one, other)]
    return padded[0], padded[1]


def _same_length(first: Vector, second: Vector, what: str) -> None:
    if first.shape != second.shape or first.size == 0:
        raise InvalidParameter(f"There must be equally many {what}, at least one, got {first.size} and {second.size}.")


def _same_down_to(stage: int, first: Sequence[StageStep], second: Sequence[StageStep]) -> bool:
    one, other = ([step for step in walk if step.stage <= stage] for walk in (first, second))
    return len(one) == len(other) and all(
        a.stage == b.stage
        and a.outcome == b.outcome
        and np.array_equal(a.active, b.active)
        and np.allclose(a.scaled_width, b.scaled_width, rtol=ROUNDING, atol=0.0)
        for a, b in zip(one, other, strict=True)
    )
