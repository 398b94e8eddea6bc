"""Regret bounds of other systems, for comparison in one table.

Each row states the status of its formula: *verified* means derived and checked here, *quoted* that it is taken from the
literature with its constants as documentation. A bound that is a rate without constants has no value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import log, log1p, pi, sqrt
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kernelbandits._text import encodable
from kernelbandits.errors import InvalidParameter
from kernelbandits.theory.bounds import kernel_ucb_bound, sup_kernel_ucb_bound, theorem_1_bound
from kernelbandits.types import Parameters
from kernelbandits.validation import (
    check_int,
    check_list,
    check_mapping,
    check_nonnegative,
    check_positive,
    check_probability,
    check_vector,
)

__all__ = [
    "compare_bounds",
    "confidence_ball_bound",
    "exp4_bound",
    "exp4p_bound",
    "format_bounds",
    "gp_ucb_agnostic_bound",
    "gp_ucb_bound",
    "oful_bound",
    "policy_elimination_bound",
    "sup_lin_rel_bound",
    "ucb1_bound",
]


def ucb1_bound(gaps: ArrayLike, *, horizon: int) -> float:
    """UCB1: 8 Σ ln T / Δᵢ + (1 + π²/3) Σ Δᵢ over the actions that are not best.

    In expectation, for fixed actions with independent rewards in [0, 1]; Δᵢ is the gap between the best mean reward and
    that of action i. Quoted from Auer, Cesa-Bianchi and Fischer (2002).
    """
    below = check_vector(gaps, "The gaps")
    if np.any(below < 0):
        raise InvalidParameter(f"A gap must not be negative, since it is the distance to the best action, got {below}.")
    below = below[below > 0]
    horizon = check_int(horizon, "The horizon")
    with np.errstate(over="ignore"):  # a gap of 1e-320: infinite bound
        inverse = float(np.sum(1.0 / below))
    return float(8.0 * log(horizon) * inverse + (1.0 + pi**2 / 3.0) * np.sum(below))


def sup_lin_rel_bound(*, horizon: int, n_actions: int, n_features: int) -> float:
    """SupLinRel: 44 (1 + ln(2NT ln T))^(3/2) sqrt(Td) + 2 sqrt(T).

    Assumes ‖x‖ ≤ 1, ‖θ*‖ ≤ 1 and rewards in [0, 1]. Quoted from Auer (2002), constants unverified. The power of the
    logarithm is outside the root (erratum E24).
    """
    horizon, n_actions, d = _problem(horizon, n_actions, n_features)
    logarithm = 1.0 + log(2.0 * n_actions * horizon * log(horizon))
    return 44.0 * sqrt(logarithm**3 * horizon * d) + 2.0 * sqrt(horizon)


def oful_bound(
    *,
    horizon: int,
    n_features: int,
    regularization: float,
    norm_bound: float,
    failure_probability: float,
    noise_scale: float = 0.5,
) -> float:
    """OFUL: 4 sqrt(T d ln(γ + T/d)) ( sqrt(γ) B + R sqrt(2 ln(1/δ) + d ln(1 + T/(γd))) ).

    With probability 1 − δ, for ‖x‖ ≤ 1 and f in [−1, 1]. Quoted from Abbasi-Yadkori et al. (2011); needs γ + T/d > 1.
    The data form of the same argument is `kernel_ucb_bound`, which is verified.
    """
    horizon, _, d = _problem(horizon, 1, n_features)
    gamma = check_positive(regularization, "The regularization")
    if gamma + horizon / d <= 1.0:
        raise InvalidParameter(
            f"The OFUL bound wants regularization + horizon / n_features above 1, got {gamma} + {horizon}/{d}. "
            "It is meant for runs longer than the number of features."
        )
    information = 2.0 * log(1.0 / check_probability(failure_probability)) + d * log(1.0 + horizon / (gamma * d))
    bias = sqrt(gamma) * check_nonnegative(norm_bound, "The norm bound")
    interval = bias + check_nonnegative(noise_scale, "The noise scale") * sqrt(information)
    return 4.0 * sqrt(horizon * d * log(gamma + horizon / d)) * interval


def confidence_ball_bound(*, horizon: int, n_features: int, failure_probability: float) -> float:
    """ConfidenceBall₂: sqrt(8 d T β_T ln T), β_T = max{128 d ln T ln(T²/δ), (8/3 ln(T²/δ))²}.

    With probability 1 − δ, for rewards in [−1, 1] and a fixed set of actions. Quoted from Dani et al. (2008).
    """
    horizon, _, d = _problem(horizon, 1, n_features)
    logarithm = log(horizon**2 / check_probability(failure_probability))
    beta = max(128.0 * d * log(horizon) * logarithm, (8.0 / 3.0 * logarithm) ** 2)
    return sqrt(8.0 * d * horizon * beta * log(horizon))


def gp_ucb_bound(
    *, horizon: int, n_actions: int, information_gain: float, noise_variance: float, failure_probability: float
) -> float:
    """GP-UCB: sqrt(C₁ T β_T γ_T), C₁ = 8 / ln(1 + 1/σ²), β_T = 2 ln(N T² π² / (6δ)).

    With probability 1 − δ, for f drawn from the process, Gaussian noise of variance σ² and k(x, x) ≤ 1. γ_T is the
    maximum information gain of T points. Quoted from Srinivas et al. (2010).
    """
    horizon, n_actions, _ = _problem(horizon, n_actions, 1)
    constant = 8.0 / log1p(1.0 / check_positive(noise_variance, "The noise variance"))
    beta = 2.0 * log(n_actions * horizon**2 * pi**2 / (6.0 * check_probability(failure_probability)))
    return sqrt(constant * horizon * beta * check_nonnegative(information_gain, "The information gain"))


def gp_ucb_agnostic_bound(
    *,
    horizon: int,
    information_gain: float,
    noise_variance: float,
    norm_bound: float,
    failure_probability: float,
) -> float:
    """GP-UCB without a prior over f: sqrt(C₁ T β_T γ_T), C₁ = 8 / ln(1 + 1/σ²), β_T = 2B² + 300 γ_T ln³(T/δ).

    With probability 1 − δ, for ‖f‖ ≤ B = `norm_bound`, noise bounded by σ and k(x, x) ≤ 1. γ_T is the maximum
    information gain of T points, an upper bound of which `maximum_information_gain` computes. The bound is linear in B
    and in γ_T. The paper quotes it as (12), quadratic in the norm and with the gain of the data (erratum E23).

    Quoted from Srinivas et al. (2010), Theorem 3, constants unverified.
    """
    horizon, _, _ = _problem(horizon, 1, 1)
    constant = 8.0 / log1p(1.0 / check_positive(noise_variance, "The noise variance"))
    gain = check_nonnegative(information_gain, "The information gain")
    bias = 2.0 * check_nonnegative(norm_bound, "The norm bound") ** 2
    beta = bias + 300.0 * gain * log(horizon / check_probability(failure_probability)) ** 3
    return sqrt(constant * horizon * beta * gain)


def exp4_bound(*, horizon: int, n_actions: int, n_experts: int) -> float:
    """EXP4: 2.63 sqrt(T N ln M), in expectation, against the best of M experts. Quoted from Auer et al. (2003)."""
    horizon, n_actions, _ = _problem(horizon, n_actions, 1)
    return 2.63 * sqrt(horizon * n_actions * log(_experts(n_experts)))


def exp4p_bound(*, horizon: int, n_actions: int, n_experts: int, failure_probability: float) -> float:
    """EXP4.P: 6 sqrt(T N ln(M/δ)), with probability 1 − δ, against the best of M experts.

    Requires ln(M/δ) ≤ N T and a uniform expert in the set. Quoted from Beygelzimer et al. (2010).
    """
    horizon, n_actions, _ = _problem(horizon, n_actions, 1)
    return 6.0 * sqrt(horizon * n_actions * log(_experts(n_experts) / check_probability(failure_probability)))


def policy_elimination_bound(*, horizon: int, n_actions: int, n_policies: int, failure_probability: float) -> float:
    """PolicyElimination: 16 sqrt(2 T N ln(4 T² M / δ)), with probability 1 − δ, against the best of M policies.

    Assumes contexts and rewards drawn independently from one distribution. Quoted from Dudík et al. (2011).
    """
    horizon, n_actions, _ = _problem(horizon, n_actions, 1)
    experts = check_int(n_policies, "The number of policies")
    return 16.0 * sqrt(
        2.0 * horizon * n_actions * log(4.0 * horizon**2 * experts / check_probability(failure_probability))
    )


def compare_bounds(
    *,
    horizon: int,
    n_actions: int,
    n_features: int,
    regularization: float = 1.0,
    norm_bound: float = 1.0,
    noise_scale: float = 0.5,
    failure_probability: float = 0.05,
    effective_dimension: float | None = None,
    log_det_gain: float | None = None,
    exploration: float | None = None,
    information_gain: float | None = None,
    n_experts: int | None = None,
    gaps: ArrayLike | None = None,
) -> list[Parameters]:
    """Table of regret bounds: one row per system, as plain dictionaries.

    A row has `system`, `bound` (the formula), `value` (None for a rate, or if an input is missing: `needs` then
    names it), `holds` (with which probability), `assumes`, `standing` ("verified" or "quoted"), and
    `exceeds_horizon` (True if the bound is vacuous, because regret in [0, 1] cannot exceed T).

    Parameters
    ----------
    n_features
        d of the linear systems.
    effective_dimension
        d̃ of the SupKernelUCB rows; by default d, which is an upper bound for the linear kernel.
    log_det_gain, exploration
        L_T and η_T of a KernelUCB run.
    information_gain
        γ_T of GP-UCB, whose noise variance is `noise_scale`²: `maximum_information_gain` bounds it. L_T/2 is its data
        version.
    n_experts
        M of the expert systems.
    gaps
        Δᵢ of UCB1.

    >>> rows = compare_bounds(horizon=10_000, n_actions=100, n_features=5)
    >>> rows[1]["system"], round(rows[1]["value"], -3), rows[1]["exceeds_horizon"]
    ('SupKernelUCB', 101000.0, True)
    """
    horizon, n_actions, n_features = _problem(horizon, n_actions, n_features)
    size: dict[str, Any] = {"horizon": horizon, "n_actions": n_actions}
    failure_probability = check_probability(failure_probability)
    regularization = check_positive(regularization, "The regularization")
    noise_scale = check_nonnegative(noise_scale, "The noise scale")
    delta: dict[str, Any] = {"failure_probability": failure_probability}
    kernel: dict[str, Any] = {
        **size,
        **delta,
        "regularization": regularization,
        "effective_dimension": n_features if effective_dimension is None else effective_dimension,
    }
    length: dict[str, Any] = {"horizon": horizon, "n_features": n_features, **delta}
    values: dict[str, Callable[[], float]] = {
        "Theorem 1 as printed": lambda: theorem_1_bound(**kernel, norm=norm_bound),
        "SupKernelUCB": lambda: sup_kernel_ucb_bound(**kernel, norm_bound=norm_bound, noise_scale=noise_scale),
        "KernelUCB": lambda: kernel_ucb_bound(
            horizon=horizon,
            regularization=regularization,
            log_det_gain=_given(log_det_gain, "log_det_gain"),
            exploration=_given(exploration, "exploration"),
        ),
        "UCB1": lambda: ucb1_bound(_given(gaps, "gaps"), horizon=horizon),
        "SupLinRel": lambda: sup_lin_rel_bound(**size, n_features=n_features),
        "OFUL": lambda: oful_bound(
            **length,
            regularization=_given(regularization if regularization + horizon / n_features > 1 else None, "more rounds"),
            norm_bound=norm_bound,
            noise_scale=noise_scale,
        ),
        "ConfidenceBall_2": lambda: confidence_ball_bound(**length),
        "GP-UCB": lambda: gp_ucb_bound(
            **size,
            **delta,
            information_gain=_given(information_gain, "information_gain"),
            noise_variance=noise_scale**2,
        ),
        "GP-UCB, agnostic": lambda: gp_ucb_agnostic_bound(
            **delta,
            horizon=horizon,
            information_gain=_given(information_gain, "information_gain"),
            noise_variance=noise_scale**2,
            norm_bound=norm_bound,
        ),
        "EXP4": lambda: exp4_bound(**size, n_experts=_given(n_experts, "n_experts")),
        "EXP4.P": lambda: exp4p_bound(**size, **delta, n_experts=_given(n_experts, "n_experts")),
        "PolicyElimination": lambda: policy_elimination_bound(
            **size, **delta, n_policies=_given(n_experts, "n_experts")
        ),
    }
    likely = f"with probability {1.0 - failure_probability:g}"
    return [
        _row(system, formula, values.get(system), likely if holds is None else holds, assumes, standing, horizon)
        for system, formula, holds, assumes, standing in TABLE
    ]


def format_bounds(rows: Iterable[Mapping[str, Any]]) -> str:
    """The table of `compare_bounds` as aligned text.

    A value marked `> T` exceeds the horizon, so it is vacuous for this run; a dash is a rate without constants.

    >>> rows = compare_bounds(horizon=100, n_actions=2, n_features=1, n_experts=4)
    >>> print(format_bounds([row for row in rows if row["system"] in ("EXP4", "SupLinRel", "Epoch-Greedy")]))
    system        bound on regret  holds                  standing  formula
    SupLinRel         1.1e+04 > T  with high probability  quoted    44 (1 + ln(2NT ln T))^(3/2) sqrt(Td) + 2 sqrt(T)
    EXP4                 43.8      in expectation         quoted    2.63 sqrt(T N ln M)
    Epoch-Greedy            –      in expectation         quoted    O(T^(2/3) (N ln M)^(1/3))
    """
    listed = [check_mapping(row, "The columns of a row") for row in check_list(rows, "The rows")]
    missing = [name for name in ("system", "holds", "standing", "bound") if any(name not in row for row in listed)]
    if missing:
        raise InvalidParameter(f"Rows are those of `compare_bounds`, and some here have no {', '.join(missing)}.")
    lines = [("system", "bound on regret", "holds", "standing", "formula")]
    lines.extend((row["system"], _figure(row), row["holds"], row["standing"], row["bound"]) for row in listed)
    widest = [max(len(line[column]) for line in lines) for column in range(4)]
    align = (str.ljust, str.rjust, str.ljust, str.ljust)
    return encodable(
        "\n".join(
            "  ".join([*(pad(cell, width) for pad, cell, width in zip(align, line, widest, strict=False)), line[-1]])
            for line in lines
        )
    )


BEST_EXPERT = "regret against the best expert, not the best action"
LINEAR = "contexts and weights of norm at most 1, rewards in [0, 1]"

TABLE: tuple[tuple[str, str, str | None, str, str], ...] = (
    (
        "Theorem 1 as printed",
        "[2 + 2(1 + sqrt(γ/q))‖θ*‖ + 8 sqrt((12 + 15/γ) l_T³ q)] sqrt(d̃ T)",
        None,
        "k(x, x) and |r| at most 1, and a printed scale that happens to be valid (erratum E1)",
        "quoted",
    ),
    (
        "SupKernelUCB",
        "2 sqrt(T) + 8 scale sqrt(2 κ S d̃ l_T T)",
        None,
        "k(x, x) at most 1, rewards in [0, 1], norm of f at most norm_bound, contexts that do not react to rewards",
        "verified",
    ),
    (
        "KernelUCB",
        "2 η_T sqrt(κ T L_T)",
        None,
        "k(x, x) at most 1 and a valid schedule that never falls (SelfNormalized or Mixture)",
        "verified",
    ),
    (
        "UCB1",
        "8 Σ ln T/Δᵢ + (1 + π²/3) Σ Δᵢ",
        "in expectation",
        "fixed actions, independent rewards in [0, 1]",
        "quoted",
    ),
    ("SupLinUCB", "O(sqrt(T d ln³(NT ln T/δ)))", None, LINEAR, "quoted"),
    (
        "SupLinRel",
        "44 (1 + ln(2NT ln T))^(3/2) sqrt(Td) + 2 sqrt(T)",
        "with high probability",
        f"{LINEAR}; constants unverified",
        "quoted",
    ),
    (
        "OFUL",
        "4 sqrt(T d ln(γ + T/d)) (sqrt(γ) B + R sqrt(2 ln(1/δ) + d ln(1 + T/(γd))))",
        None,
        "contexts of norm at most 1, f in [-1, 1], sub-Gaussian noise",
        "quoted",
    ),
    ("ConfidenceBall_2", "sqrt(8 d T β_T ln T)", None, "fixed actions, rewards in [-1, 1]", "quoted"),
    (
        "GP-UCB",
        "sqrt(C₁ T β_T γ_T)",
        None,
        "f drawn from the process, Gaussian noise of standard deviation noise_scale",
        "quoted",
    ),
    (
        "GP-UCB, agnostic",
        "sqrt(C₁ T (2B² + 300 γ_T ln³(T/δ)) γ_T)",
        None,
        "norm of f at most norm_bound, noise of at most noise_scale in absolute value",
        "quoted",
    ),
    ("IGP-UCB", "O(B sqrt(T γ_T) + R γ_T sqrt(T))", None, "norm of f at most B, sub-Gaussian noise", "quoted"),
    (
        "contextual zooming",
        "O(T^(1 − 1/(2 + c)) ln T), c the zooming dimension",
        "in expectation",
        "f Lipschitz in a known distance",
        "quoted",
    ),
    ("EXP4", "2.63 sqrt(T N ln M)", "in expectation", BEST_EXPERT, "quoted"),
    ("EXP4.P", "6 sqrt(T N ln(M/δ))", None, f"{BEST_EXPERT}; N T at least ln(M / failure_probability)", "quoted"),
    (
        "PolicyElimination",
        "16 sqrt(2 T N ln(4 T² M/δ))",
        None,
        "independent draws; regret against the best policy of the class",
        "quoted",
    ),
    (
        "Epoch-Greedy",
        "O(T^(2/3) (N ln M)^(1/3))",
        "in expectation",
        "independent draws; regret against the best policy of the class",
        "quoted",
    ),
)
"""Rows: system, formula, probability (None: with probability 1 − δ), assumptions in ASCII, status."""


class _MissingError(Exception):
    """An input of a row is missing."""


def _given(value: Any, name: str) -> Any:
    if value is None:
        raise _MissingError(name)
    return value


def _row(
    system: str,
    formula: str,
    compute: Callable[[], float] | None,
    holds: str,
    assumes: str,
    standing: str,
    horizon: int,
) -> Parameters:
    value, needs = None, None
    if compute is not None:
        try:
            value = compute()
        except _MissingError as missing:
            needs = str(missing)
    return {
        "system": system,
        "bound": formula,
        "value": value,
        "needs": needs,
        "holds": holds,
        "assumes": assumes,
        "standing": standing,
        "exceeds_horizon": value is not None and value > horizon,
    }


def _figure(row: Mapping[str, Any]) -> str:
    if row["value"] is None:
        return f"needs {row['needs']}" if row.get("needs") else "–    "
    return f"{row['value']:.3g} > T" if row["exceeds_horizon"] else f"{row['value']:.3g}    "  # keeps numbers aligned


def _problem(horizon: int, n_actions: int, n_features: int) -> tuple[int, int, int]:
    return (
        check_int(horizon, "The horizon", least=2, hint="With a single round ln T is zero."),
        check_int(n_actions, "The number of actions"),
        check_int(n_features, "The number of features"),
    )


def _experts(n_experts: int) -> int:
    return check_int(n_experts, "The number of experts")
