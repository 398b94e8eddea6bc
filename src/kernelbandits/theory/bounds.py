"""Regret bounds of KernelUCB and SupKernelUCB: the paper's, and the corrected ones.

Regret is pseudo-regret, Σ_t max_a f(x_{a,t}) − f(x_{a_t,t}), unless a function states otherwise;
`pseudo_to_realized` bounds the difference to realized regret. Common assumptions, repeated where they matter:

    A1  k(x, x) ≤ 1, or at most `largest_similarity`
    A2  the noise is R-sub-Gaussian, R = `noise_scale`: ½ for rewards in [0, 1], 1 for rewards in [−1, 1]
    A3  ‖f‖ ≤ B, B = `norm_bound`
    A4  (SupKernelUCB) contexts do not depend on rewards

In addition, every reward is learned before the next choice. A bound larger than the horizon is vacuous for a short
run: compare before quoting.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log, log1p, pi, sqrt
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from kernelbandits.errors import InvalidParameter
from kernelbandits.validation import (
    check_bool,
    check_int,
    check_nonnegative,
    check_positive,
    check_probability,
    check_vector,
    is_one_of,
    short_repr,
)

__all__ = [
    "balanced_regularization",
    "horizon_logarithm",
    "kappa",
    "kernel_ucb_bound",
    "kernel_ucb_trace_bound",
    "n_stages",
    "pseudo_to_realized",
    "simple_regularization",
    "sup_kernel_ucb_anytime_scale",
    "sup_kernel_ucb_bound",
    "sup_kernel_ucb_data_bound",
    "sup_kernel_ucb_scale",
    "theorem_1_bound",
]


def kappa(*, regularization: float, largest_similarity: float = 1.0) -> float:
    """Factor for bounding squared widths by a log-determinant: κ = u / ln(1 + u) with u = k_max/γ.

    Since u ↦ u / ln(1 + u) is increasing, every width² ≤ k_max/γ satisfies width² ≤ κ ln(1 + width²). κ decreases to 1
    as γ grows, and κ ≤ 1 + k_max/γ. Assumes k(x, x) ≤ k_max = `largest_similarity`.

    >>> round(kappa(regularization=0.5), 4)
    1.8205
    """
    u = check_positive(largest_similarity, "The largest similarity") / check_positive(
        regularization, "The regularization"
    )
    return u / log1p(u)


def horizon_logarithm(*, horizon: int, effective_dimension: float, regularization: float) -> float:
    """The paper's l_T = max{ ln(1 + T/(d̃γ)), ln T }: bound on the log-determinant gain per effective dimension.

    It implies L_T ≤ 2 d̃ l_T: d̃ leading directions contribute at most ln(1 + T/(d̃γ)) each, all the others together
    d̃ ln T. Assumes at most T points of k(x, x) ≤ 1.
    """
    horizon = _horizon(horizon)
    dimension = check_positive(effective_dimension, "The effective dimension")
    return max(log1p(horizon / (dimension * check_positive(regularization, "The regularization"))), log(horizon))


def n_stages(horizon: int) -> int:
    """Number of levels that SupKernelUCB can reach: S = max(1, ⌈½ log₂ T⌉).

    At level S "every width at most 2^(−S)" implies "every width at most 1/sqrt(T)", so the round ends there. The
    paper's ln T is not an integer, and is too small for T = 2, 5, 6, 7 and 17 to 20.

    >>> [n_stages(horizon) for horizon in (1, 4, 5, 10_000)]
    [1, 1, 2, 7]
    """
    horizon = check_int(horizon, "The horizon")
    return max(1, ((horizon - 1).bit_length() + 1) // 2)  # ⌈log₂ T⌉ in integers, halved and rounded up


def sup_kernel_ucb_scale(
    *,
    horizon: int,
    n_actions: int,
    failure_probability: float,
    regularization: float = 1.0,
    norm_bound: float | None = None,
    noise_scale: float = 0.5,
    mode: Literal["valid", "paper"] = "valid",
) -> float:
    """Factor by which SupKernelUCB multiplies its widths.

        valid   R η + sqrt(γ) B,  η = sqrt(2 ln(2 N T S / δ))
        paper   sqrt(2 ln(2 T N / δ))

    The valid scale makes |mean − f| ≤ scale · width for every action, round and level at once with probability 1 − δ,
    under A2, A3 and A4 with at most N actions per round. The printed one does so only if R η + sqrt(γ)‖f‖ does not
    exceed it (erratum E1), and then with probability 1 − S δ (E12).

    >>> scale = sup_kernel_ucb_scale(horizon=10_000, n_actions=20, failure_probability=0.05, norm_bound=1.0)
    >>> round(scale, 4)
    3.9867
    """
    horizon, n_actions = check_int(horizon, "The horizon"), check_int(n_actions, "The number of actions")
    failure_probability = check_probability(failure_probability)
    if not is_one_of(mode, ("valid", "paper")):
        raise InvalidParameter(f"The mode must be 'valid' or 'paper', got {short_repr(mode)}.")
    if mode == "paper":
        return sqrt(2.0 * log(2.0 * horizon * n_actions / failure_probability))
    union = n_actions * horizon * n_stages(horizon)
    return _scale(union, failure_probability, regularization, norm_bound, noise_scale)


def sup_kernel_ucb_anytime_scale(
    *,
    round_index: int,
    n_actions: int,
    failure_probability: float,
    regularization: float = 1.0,
    norm_bound: float,
    noise_scale: float = 0.5,
) -> float:
    """SupKernelUCB's valid scale in round t for an unknown horizon: R η_t + sqrt(γ) B.

    η_t = sqrt(2 ln(2 N S_t π² t² / (6δ))), S_t = max(1, ⌈½ log₂ t⌉): round t gets the fraction 6δ/(π² t²) of δ. It
    never decreases, and N may be the largest number of actions so far. Assumes A2, A3 and A4.
    """
    t = check_int(round_index, "The round")
    union = check_int(n_actions, "The number of actions") * n_stages(t) * t**2 * pi**2 / 6.0
    return _scale(union, check_probability(failure_probability), regularization, norm_bound, noise_scale)


def theorem_1_bound(
    *,
    horizon: int,
    n_actions: int,
    regularization: float,
    effective_dimension: float,
    norm: float,
    failure_probability: float,
) -> float:
    """The paper's Theorem 1 as printed; false as printed, see erratum E1.

        [ 2 + 2 (1 + sqrt(γ/q)) ‖θ*‖ + 8 sqrt((12 + 15/γ) l_T³ q) ] sqrt(d̃ T),    q = 2 ln(2TN(1 + ln T)/δ)

    Its stated assumptions are k(x, x) ≤ 1 and rewards of at most 1 in absolute value; it is stated for the realized
    regret of SupKernelUCB with the printed scale. If that scale is valid, the corrected theorem implies it: rewards in
    [0, 1], η = sqrt(q) in the algorithm (erratum E12) and sqrt(γ)‖θ*‖ ≤ η/2. Otherwise quote `sup_kernel_ucb_bound`.

    Reference: Valko et al. (2013), Theorem 1.
    """
    horizon, n_actions = _horizon(horizon), check_int(n_actions, "The number of actions")
    regularization, norm = check_positive(regularization, "The regularization"), check_nonnegative(norm, "The norm")
    effective_dimension = check_positive(effective_dimension, "The effective dimension")
    q = 2.0 * log(2.0 * horizon * n_actions * (1.0 + log(horizon)) / check_probability(failure_probability))
    l_T = horizon_logarithm(horizon=horizon, effective_dimension=effective_dimension, regularization=regularization)
    bias = 2.0 + 2.0 * (1.0 + sqrt(regularization / q)) * norm
    noise = 8.0 * sqrt((12.0 + 15.0 / regularization) * l_T**3 * q)
    return (bias + noise) * sqrt(effective_dimension * horizon)


def sup_kernel_ucb_bound(
    *,
    horizon: int,
    n_actions: int,
    regularization: float,
    effective_dimension: float,
    norm_bound: float,
    failure_probability: float,
    noise_scale: float = 0.5,
    largest_gap: float = 1.0,
    threshold_unit: float = 1.0,
    realized_span: float | None = None,
) -> float:
    """The corrected theorem for SupKernelUCB with the valid scale, in terms of d̃.

        2 u sqrt(T) + 8 max(1, G/4u) · scale · sqrt(2 κ S d̃ l_T T)

    Holds with probability 1 − δ under A1 to A4, at most N actions per round, and d̃ of all T points learned (any upper
    bound is valid). Proof: on the event that all intervals hold the best action survives every elimination, so an
    action active at level s ≥ 2 has a gap of at most u 2^(3−s), and at level 1 of at most G; exploit rounds cost
    2u/sqrt(T); u 2^(−s) ψ_s < scale · Σ width ≤ scale · sqrt(ψ_s κ L_s); the rest follows from Cauchy–Schwarz over the
    levels and L_s ≤ 2 d̃ l_T.

    Parameters
    ----------
    largest_gap
        G, at least max f − min f of every round. 1 for rewards in [0, 1], 2 for rewards in [−1, 1]; 2B is always valid.
    threshold_unit
        u, the factor of the thresholds 2^(−s) and 1/sqrt(T): the length of a declared reward range.
    realized_span
        Length of an interval that contains all rewards: the bound then holds for the realized regret. δ is split into
        two halves, and `pseudo_to_realized` is added.
    """
    failure_probability = check_probability(failure_probability)
    moved = 0.0
    if realized_span is not None:
        failure_probability /= 2.0
        moved = pseudo_to_realized(horizon=horizon, failure_probability=failure_probability, reward_span=realized_span)
    scale = sup_kernel_ucb_scale(
        horizon=horizon,
        n_actions=n_actions,
        failure_probability=failure_probability,
        regularization=regularization,
        norm_bound=norm_bound,
        noise_scale=noise_scale,
    )
    l_T = horizon_logarithm(horizon=horizon, effective_dimension=effective_dimension, regularization=regularization)
    spread = sqrt(
        2.0 * kappa(regularization=regularization) * n_stages(horizon) * float(effective_dimension) * l_T * horizon
    )
    unit = check_positive(threshold_unit, "The threshold unit")
    return 2.0 * unit * sqrt(horizon) + _gap_factor(largest_gap, unit) * scale * spread + moved


def sup_kernel_ucb_data_bound(
    *,
    scale: float,
    horizon: int,
    regularization: float,
    stage_sizes: Sequence[int],
    stage_log_det_gains: Sequence[float],
    largest_gap: float = 1.0,
    threshold_unit: float = 1.0,
    largest_similarity: float = 1.0,
    is_anytime: bool = False,
) -> float:
    """Corrected theorem for SupKernelUCB after a run, from the data of its levels.

        2 u sqrt(T) + 8 max(1, G/4u) · scale · Σ_s sqrt(κ ψ_s L_s)

    ψ_s and L_s are the size and the log-determinant gain of level s. Holds on the event that all intervals of this
    `scale` hold: with probability 1 − δ for `sup_kernel_ucb_scale` under A1 to A4. For the realized regret compute the
    scale with δ/2 and add `pseudo_to_realized(failure_probability=δ/2)`. For the anytime variant pass the scale of
    round T; its exploit rounds cost 4 u sqrt(T) together. Other parameters as in `sup_kernel_ucb_bound`.
    """
    horizon, scale = check_int(horizon, "The horizon"), check_nonnegative(scale, "The scale")
    sizes, gains = check_vector(stage_sizes, "The stage sizes"), check_vector(stage_log_det_gains, "The stage gains")
    if sizes.shape != gains.shape or np.any(sizes < 0) or np.any(gains < 0):
        raise InvalidParameter(
            f"Every stage has one size and one log-determinant gain, zero or above, got {sizes} and {gains}."
        )
    factor = kappa(regularization=regularization, largest_similarity=largest_similarity)
    unit = check_positive(threshold_unit, "The threshold unit")
    exploited = (4.0 if check_bool(is_anytime, "`is_anytime`") else 2.0) * unit * sqrt(horizon)
    return exploited + _gap_factor(largest_gap, unit) * scale * float(np.sum(np.sqrt(factor * sizes * gains)))


def kernel_ucb_bound(
    *,
    horizon: int,
    regularization: float,
    log_det_gain: float,
    exploration: float,
    largest_similarity: float = 1.0,
) -> float:
    """Regret bound of KernelUCB from the log-determinant gain of all T points: 2 η_T sqrt(κ T L_T).

    Holds with probability 1 − δ under A1 if `exploration` is the last value of a valid nondecreasing schedule:
    `SelfNormalized` or `Mixture` (with A2, A3), not `FixedDesign` and not a tuned constant. L_T and η_T may be upper
    bounds, so a data-independent gain can be used.
    """
    horizon = check_int(horizon, "The horizon")
    gain = check_nonnegative(log_det_gain, "The log-determinant gain")
    factor = kappa(regularization=regularization, largest_similarity=largest_similarity)
    return 2.0 * check_nonnegative(exploration, "The exploration") * sqrt(factor * horizon * gain)


def kernel_ucb_trace_bound(explorations: ArrayLike, widths: ArrayLike) -> float:
    """Regret bound of KernelUCB after a run: 2 Σ_t η_t · width_t(x_t), widths at choice; tighter than the closed form.

    Holds under the assumptions of the schedule; unlike the closed form also with delayed rewards, if their delays do
    not depend on their values.

    >>> kernel_ucb_trace_bound([1.0, 2.0], [0.5, 0.25])
    2.0
    """
    eta, width = check_vector(explorations, "The explorations"), check_vector(widths, "The widths")
    if eta.shape != width.shape or np.any(eta < 0) or np.any(width < 0):
        raise InvalidParameter(
            f"Every round has one exploration and one width, zero or above; got {eta.size} and {width.size} numbers."
        )
    return 2.0 * float(eta @ width)


def pseudo_to_realized(*, horizon: int, failure_probability: float, reward_span: float = 1.0) -> float:
    """Bound on the difference of realized and pseudo-regret: ℓ sqrt(2 T ln(2/δ)) with probability 1 − δ.

    Assumes rewards in an interval of length ℓ = `reward_span`. In each round the difference of two rewards minus its
    expectation then lies in an interval of length 2ℓ, and Azuma–Hoeffding gives the bound.
    """
    span = check_positive(reward_span, "The length of the reward range")
    spread = 2.0 * check_int(horizon, "The horizon") * log(2.0 / check_probability(failure_probability))
    return span * sqrt(spread)


def balanced_regularization(
    *, noise_scale: float, norm_bound: float, n_actions: int, horizon: int, failure_probability: float
) -> float:
    """Regularization that balances noise and bias in the valid scale: (R η / B)², η = sqrt(2 ln(2 N T S / δ)).

    Remark 3 of the paper suggests γ of the order 1/B, which its own theorem does not support (erratum E20).
    """
    noise = check_positive(noise_scale, "The noise scale", "Without noise any small regularization serves.")
    bound = check_positive(norm_bound, "The norm bound")
    eta = sup_kernel_ucb_scale(
        horizon=horizon, n_actions=n_actions, failure_probability=failure_probability, norm_bound=0.0, noise_scale=1.0
    )
    return (noise * eta / bound) ** 2


def simple_regularization(*, noise_scale: float, norm_bound: float) -> float:
    """Regularization of the Bayesian interpretation, noise variance over prior variance: R²/B².

    >>> simple_regularization(noise_scale=0.5, norm_bound=2.0)
    0.0625
    """
    noise = check_positive(noise_scale, "The noise scale", "Without noise any small regularization serves.")
    return (noise / check_positive(norm_bound, "The norm bound")) ** 2


def _scale(
    union: float, failure_probability: float, regularization: float, norm_bound: float | None, noise_scale: float
) -> float:
    if norm_bound is None:
        raise InvalidParameter(
            "The valid scale needs norm_bound, a bound on ‖f‖; without one only mode='paper' is defined."
        )
    eta = sqrt(2.0 * log(2.0 * union / failure_probability))
    bias = sqrt(check_positive(regularization, "The regularization")) * check_nonnegative(norm_bound, "The norm bound")
    return check_nonnegative(noise_scale, "The noise scale") * eta + bias


def _gap_factor(largest_gap: float, unit: float) -> float:
    return 8.0 * max(1.0, check_positive(largest_gap, "The largest gap") / (4.0 * unit))


def _horizon(horizon: int) -> int:
    return check_int(horizon, "The horizon", least=2, hint="With a single round ln T is zero.")
