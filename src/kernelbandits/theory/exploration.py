"""Exploration schedules: the factor that multiplies the width, per round.

A schedule η multiplies `width`, so that `mean + η · width` is the upper confidence bound. Most have a theorem:
under its assumptions, |mean − f| ≤ η_t · width for all actions and rounds at once with probability 1 − δ. With L_t the
log-determinant gain of the data before round t, R the noise scale and B the bound on ‖f‖:

    Constant         a number                                           tuned; no guarantee
    FixedDesign      R sqrt(2 ln(2NT/δ)) + sqrt(γ) B                    Valko et al. (2013), Lemma 1, tight form
    SelfNormalized   R sqrt(L_t + 2 ln(1/δ)) + sqrt(γ) B                Abbasi-Yadkori et al. (2011); see below
    Mixture          sqrt(R² (L_t + 2 ln(1/δ)) + γ B²)                  Flynn and Reeb (2024): recommended
    IGPUCB           sqrt(γ) (B + R sqrt(2 (I_t + 1 + ln(1/δ))))        Chowdhury and Gopalan (2017), γ = 1 + 2/T
    GPUCBFinite      sqrt(γ β_t), β_t = 2 ln(N t² π² / (6δ))            Srinivas et al. (2010), f drawn from the GP
    GPUCBAgnostic    sqrt(γ β_t), β_t = 2B² + 300 I_t ln³(t/δ)          Srinivas et al. (2010), ‖f‖ ≤ B; very wide

I_t = L_t / 2 is the information gain of the observed data; the theorems of the last and the IGP-UCB row are stated
for its maximum over all choices of t points. The noise is R-sub-Gaussian: R = ½ for rewards in [0, 1], R = 1 for
rewards in [−1, 1]. The self-normalized row in infinite dimension, for any γ > 0, is due to Whitehouse et al. (2023).

For a Nyström posterior with ‖K − K̃‖ ≤ ρ, all but the GP-UCB rows hold with (sqrt(γ) + sqrt(ρ)) B in place of
sqrt(γ) B; the mixture becomes the self-normalized row.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields
from math import inf, isclose, isnan, log, pi, sqrt
from typing import Any, ClassVar, Final, Protocol, runtime_checkable

import numpy as np

from kernelbandits.errors import ForeignFile, InvalidParameter
from kernelbandits.types import Parameters
from kernelbandits.validation import (
    check_float,
    check_int,
    check_mapping,
    check_nonnegative,
    check_positive,
    check_probability,
    short_repr,
)

__all__ = [
    "IGPUCB",
    "Constant",
    "Exploration",
    "FixedDesign",
    "GPUCBAgnostic",
    "GPUCBFinite",
    "Mixture",
    "RoundState",
    "SelfNormalized",
    "as_exploration",
    "exploration_from",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundState:
    """State of a round: the inputs of a schedule."""

    round_index: int
    """Index of the current round, from 1."""

    n_actions: int
    """Number of actions of this round."""

    log_det_gain: float
    """ln det(I + K/γ) of the data learned before this round."""

    regularization: float

    residual: float = 0.0
    """Upper bound on ‖K − K̃‖ of a posterior that uses K̃ instead of K (`Posterior.residual`); 0 for an exact one."""

    is_continuous: bool = False
    """Whether the actions are a box. `n_actions` is then the number of points from which its search starts."""

    def __post_init__(self) -> None:
        for name in ("round_index", "n_actions", "log_det_gain", "regularization", "residual"):
            value = getattr(self, name)
            if type(value) is not float and not (type(value) is int and 0 <= value < 2**63):
                object.__setattr__(self, name, check_float(value, f"`{name}`"))
        if self.round_index < 1 or self.n_actions < 1 or not 0.0 < self.regularization < inf:
            raise InvalidParameter(
                f"Rounds and actions are counted from 1 and the regularization is positive, got {short_repr(self)}."
            )
        if isnan(self.log_det_gain):
            raise InvalidParameter(f"The log-determinant gain must be a number, got {short_repr(self)}.")
        if not 0.0 <= self.residual < inf:
            raise InvalidParameter(f"The residual must be finite, zero or above, got {short_repr(self)}.")

    @property
    def gain(self) -> float:
        """`log_det_gain` clipped at zero, since rounding may make it negative."""
        return max(self.log_det_gain, 0.0)

    @property
    def bias(self) -> float:
        """Factor of B in an interval: sqrt(γ), and sqrt(residual) for what an approximate posterior leaves out."""
        return sqrt(self.regularization) + sqrt(self.residual)


@runtime_checkable
class Exploration(Protocol):
    """Protocol of schedules: the multiplier of `width` in a round. A number is the constant schedule.

    Define your own by subclassing: implement `__call__` and `describe`; without the other members it counts as tuned.
    """

    @property
    def assumes(self) -> str:
        """Assumptions of the interval, as an ASCII sentence that can be printed anywhere."""
        return "A schedule of your own: no claim is made for it."

    @property
    def is_tuned(self) -> bool:
        """Whether no interval is claimed, so that there is no guarantee to lose."""
        return True

    @abstractmethod
    def __call__(self, state: RoundState) -> float:
        """η of this round, zero or above."""

    @abstractmethod
    def describe(self) -> Parameters:
        """Class and parameters as plain values."""

    def violated_assumption(self, state: RoundState) -> str | None:
        """Description of an assumption that is visibly violated in this round, or None."""
        return None


class _Named:
    """Base class of the schedules below: describes a schedule by its fields."""

    __slots__ = ()

    is_tuned: ClassVar[bool] = False

    def describe(self) -> Parameters:
        """Class and parameters as plain values."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]
        return {"class": type(self).__name__, **values}

    def violated_assumption(self, state: RoundState) -> str | None:
        """Description of an assumption that is visibly violated in this round, or None."""
        return None

    def _keep(self, **values: float) -> None:
        """Store validated values as plain floats and ints, so that a description can be written to a file."""
        for name, value in values.items():
            object.__setattr__(self, name, value)


@dataclass(frozen=True, slots=True)
class Constant(_Named):
    """The same multiplier in every round, tuned by experience.

    >>> Constant(0.5).describe()
    {'class': 'Constant', 'value': 0.5}
    """

    value: float = 1.0

    assumes: ClassVar[str] = "Nothing, and claims nothing: a tuned constant has no guarantee."
    is_tuned: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self._keep(value=check_nonnegative(self.value, "A constant exploration", "1.0 is a good start."))

    def __call__(self, state: RoundState) -> float:
        return self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedDesign(_Named):
    """Lemma 1 in its tight form: η = R sqrt(2 ln(2NT/δ)) + sqrt(γ) B.

    It is a union bound over N actions in each of T rounds, so the interval is narrow; but it holds only if the learned
    points do not depend on their rewards. KernelUCB violates that by design, so its regret bound cannot use this row;
    SupKernelUCB's levels satisfy it (with N·T·S for N·T: see `sup_kernel_ucb_scale`).
    """

    noise_scale: float
    norm_bound: float
    failure_probability: float = 0.05
    n_actions: int
    horizon: int

    assumes: ClassVar[str] = (
        "The data are not adaptive (no point was chosen by looking at the rewards that are learned with it), there are "
        "at most n_actions actions in each of horizon rounds, the noise is noise_scale-sub-Gaussian and the RKHS norm "
        "of f is at most norm_bound."
    )

    def __post_init__(self) -> None:
        self._keep(
            **_noise_norm_and_probability(self.noise_scale, self.norm_bound, self.failure_probability),
            n_actions=check_int(self.n_actions, "The number of actions"),
            horizon=check_int(self.horizon, "The horizon"),
        )

    def __call__(self, state: RoundState) -> float:
        spread = sqrt(2.0 * log(2.0 * self.n_actions * self.horizon / self.failure_probability))
        return self.noise_scale * spread + state.bias * self.norm_bound

    def violated_assumption(self, state: RoundState) -> str | None:
        if state.is_continuous:
            return NOT_FOR_BOXES
        if state.n_actions > self.n_actions:
            return (
                f"The interval was built for at most {self.n_actions} actions per round, and round "
                f"{state.round_index} has {state.n_actions}."
            )
        return _beyond(self.horizon, state)


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfNormalized(_Named):
    """Schedule valid for adaptively collected data: η_t = R sqrt(L_t + 2 ln(1/δ)) + sqrt(γ) B.

    Never smaller than `Mixture`, which has the same assumptions; provided for comparison with OFUL and its descendants.
    """

    noise_scale: float
    norm_bound: float
    failure_probability: float = 0.05

    assumes: ClassVar[str] = (
        "The noise is noise_scale-sub-Gaussian given the past, the RKHS norm of f is at most norm_bound, and the "
        "regularization was fixed in advance. Contexts may react to the past; the interval holds for all rounds and "
        "points at once."
    )

    def __post_init__(self) -> None:
        self._keep(**_noise_norm_and_probability(self.noise_scale, self.norm_bound, self.failure_probability))

    def __call__(self, state: RoundState) -> float:
        spread = sqrt(state.gain + 2.0 * log(1.0 / self.failure_probability))
        return self.noise_scale * spread + state.bias * self.norm_bound


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixture(_Named):
    """Tightest valid schedule of this module: η_t = sqrt(R² (L_t + 2 ln(1/δ)) + γ B²).

    Proof. For every function h, exp{(‖y − f‖² − ‖y − h‖²) / 2R²} over the observed points is a supermartingale. Mixing
    over h ~ GP(0, (R²/γ) k) and Ville's inequality give, for all rounds at once,

        ‖y − f‖² ≤ γ yᵀ(K + γI)⁻¹ y + R² (L_t + 2 ln(1/δ)).

    Adding γ‖f‖² ≤ γB² and completing the square around the ridge solution gives (θ* − θ̂)ᵀ C (θ* − θ̂) ≤ η_t², and
    Cauchy–Schwarz implies |mean − f| ≤ η_t · width at every point. For an approximate posterior (residual ρ > 0) the
    proof does not hold, and the factor is that of `SelfNormalized`, with sqrt(ρ) B added.

    >>> schedule = Mixture(noise_scale=0.5, norm_bound=2.0, failure_probability=0.1)
    >>> round(schedule(RoundState(round_index=1, n_actions=3, log_det_gain=0.0, regularization=0.25)), 4)
    1.4667
    """

    noise_scale: float
    norm_bound: float
    failure_probability: float = 0.05

    assumes: ClassVar[str] = SelfNormalized.assumes

    def __post_init__(self) -> None:
        self._keep(**_noise_norm_and_probability(self.noise_scale, self.norm_bound, self.failure_probability))

    def __call__(self, state: RoundState) -> float:
        noise = self.noise_scale**2 * (state.gain + 2.0 * log(1.0 / self.failure_probability))
        if state.residual:
            return sqrt(noise) + state.bias * self.norm_bound
        return sqrt(noise + state.regularization * self.norm_bound**2)


@dataclass(frozen=True, slots=True, kw_only=True)
class IGPUCB(_Named):
    """Improved GP-UCB: η_t = sqrt(γ) (B + R sqrt(2 (I_t + 1 + ln(1/δ)))), with γ = 1 + 2/T.

    I_t is the information gain of the data before round t, ½ L_t; the authors state it with its maximum.
    """

    noise_scale: float
    norm_bound: float
    failure_probability: float = 0.05
    horizon: int

    assumes: ClassVar[str] = (
        "The regularization is 1 + 2/horizon, the noise is noise_scale-sub-Gaussian given the past and the RKHS norm "
        "of f is at most norm_bound. Quoted with the data's own information gain in place of the maximal one."
    )

    def __post_init__(self) -> None:
        self._keep(
            **_noise_norm_and_probability(self.noise_scale, self.norm_bound, self.failure_probability),
            horizon=check_int(self.horizon, "The horizon"),
        )

    def __call__(self, state: RoundState) -> float:
        information = state.gain / 2.0
        spread = sqrt(2.0 * (information + 1.0 + log(1.0 / self.failure_probability)))
        return state.bias * self.norm_bound + sqrt(state.regularization) * self.noise_scale * spread

    def violated_assumption(self, state: RoundState) -> str | None:
        wanted = 1.0 + 2.0 / self.horizon
        if not isclose(state.regularization, wanted, rel_tol=1e-9):
            return (
                f"The schedule wants the regularization 1 + 2/horizon = {wanted:.12g}, and it is "
                f"{state.regularization:.12g}."
            )
        return _beyond(self.horizon, state)


@dataclass(frozen=True, slots=True, kw_only=True)
class GPUCBFinite(_Named):
    """GP-UCB over finitely many actions: η_t = sqrt(γ β_t), β_t = 2 ln(N t² π² / (6δ)) / divide_by.

    sqrt(γ) converts `width` to the standard deviation of the process. Its authors divide β by 5 in their experiments;
    with divide_by > 1 the schedule is tuned and has no guarantee.
    """

    failure_probability: float = 0.05
    divide_by: float = 1.0

    assumes: ClassVar[str] = (
        "f is drawn from the Gaussian process with this kernel, and the noise is Gaussian with the regularization as "
        "its variance. Claimed for divide_by of at most 1."
    )

    def __post_init__(self) -> None:
        self._keep(
            failure_probability=check_probability(self.failure_probability),
            divide_by=check_positive(self.divide_by, "The divisor of β", "1.0 keeps the theorem; its authors use 5.0."),
        )

    @property
    def is_tuned(self) -> bool:  # type: ignore[override]  # a claim that depends on a field
        """Whether β is divided by more than 1."""
        return self.divide_by > 1.0

    def __call__(self, state: RoundState) -> float:
        rounds = state.round_index**2 * pi**2 / 6.0  # Σ 1/t² = π²/6 splits δ among all rounds
        beta = 2.0 * log(state.n_actions * rounds / self.failure_probability)
        return sqrt(state.regularization * beta / self.divide_by)

    def violated_assumption(self, state: RoundState) -> str | None:
        return NOT_FOR_BOXES if state.is_continuous else _not_for_approximations(state)


@dataclass(frozen=True, slots=True, kw_only=True)
class GPUCBAgnostic(_Named):
    """GP-UCB without a prior over f: η_t = sqrt(γ β_t), β_t = (2B² + 300 I_t ln³(t/δ)) / divide_by.

    B is squared inside a square root, so the schedule is linear in B (erratum E23). Far too wide to be useful
    undivided; with divide_by > 1 the schedule is tuned and has no guarantee.
    """

    norm_bound: float
    failure_probability: float = 0.05
    divide_by: float = 1.0

    assumes: ClassVar[str] = (
        "The RKHS norm of f is at most norm_bound and the noise is bounded by the square root of the regularization. "
        "Quoted with the data's own information gain in place of the maximal one. Claimed for divide_by of at most 1."
    )

    def __post_init__(self) -> None:
        self._keep(
            norm_bound=_norm(self.norm_bound),
            failure_probability=check_probability(self.failure_probability),
            divide_by=check_positive(self.divide_by, "The divisor of β", "1.0 keeps the theorem; larger is narrower."),
        )

    @property
    def is_tuned(self) -> bool:  # type: ignore[override]  # a claim that depends on a field
        """Whether β is divided by more than 1."""
        return self.divide_by > 1.0

    def __call__(self, state: RoundState) -> float:
        information = state.gain / 2.0
        growth = 300.0 * information * log(state.round_index / self.failure_probability) ** 3
        return sqrt(state.regularization * (2.0 * self.norm_bound**2 + growth) / self.divide_by)

    def violated_assumption(self, state: RoundState) -> str | None:
        return _not_for_approximations(state)


NOT_FOR_BOXES: Final = (
    "The interval is proved for finitely many actions, and these are a box. Mixture, SelfNormalized and IGPUCB hold "
    "for all points at once."
)

SCHEDULES: Final[dict[str, type[_Named]]] = {
    schedule.__name__: schedule
    for schedule in (Constant, FixedDesign, SelfNormalized, Mixture, IGPUCB, GPUCBFinite, GPUCBAgnostic)
}
"""Schedules that a file may name; no others are accepted."""


@dataclass(frozen=True, slots=True)
class _Foreign(Exploration):
    """Wrapper of a user-defined schedule that supplies missing members: it then counts as tuned."""

    schedule: Any  # any object with __call__ and describe

    @property
    def assumes(self) -> str:
        """Assumptions stated by the schedule, or a default sentence."""
        return str(getattr(self.schedule, "assumes", "A schedule of your own: no claim is made for it."))

    @property
    def is_tuned(self) -> bool:
        """Value stated by the schedule, else True."""
        return bool(getattr(self.schedule, "is_tuned", True))

    def __call__(self, state: RoundState) -> float:
        return float(self.schedule(state))

    def describe(self) -> Parameters:
        return dict(self.schedule.describe())

    def violated_assumption(self, state: RoundState) -> str | None:
        violated: str | None = (
            self.schedule.violated_assumption(state) if hasattr(self.schedule, "violated_assumption") else None
        )
        return violated


def as_exploration(value: float | Exploration) -> Exploration:
    """Convert any `exploration` argument to a schedule: a number becomes `Constant`, a schedule is unchanged.

    An object with `__call__` and `describe` only is wrapped: it counts as tuned and has no guarantee.

    >>> as_exploration(2)
    Constant(value=2.0)
    """
    if isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool):
        return Constant(check_float(value, "The exploration"))
    if isinstance(value, type) or not (callable(value) and callable(getattr(value, "describe", None))):
        raise InvalidParameter(
            f"The exploration must be a number or a schedule with __call__ and describe, got {short_repr(value)}. "
            "Mixture(noise_scale=…, norm_bound=…, failure_probability=…) is the schedule to try first."
        )
    return value if isinstance(value, Exploration) else _Foreign(value)


def exploration_from(description: Mapping[str, Any]) -> Exploration:
    """Schedule from its `describe()` output; used to open files, so only classes of this module are known.

    >>> exploration_from({"class": "Constant", "value": 0.5})
    Constant(value=0.5)
    """
    values = dict(check_mapping(description, "The parameters of a schedule"))
    name = values.pop("class", None)
    schedule = SCHEDULES.get(name) if isinstance(name, str) else None
    if schedule is None:
        raise ForeignFile(f"No exploration schedule {name!r} is known here. Known are {', '.join(SCHEDULES)}.")
    try:
        made: Any = schedule(**values)
    except (TypeError, InvalidParameter) as error:
        raise ForeignFile(f"The exploration schedule {name!r} cannot be made from {values}: {error}") from error
    return as_exploration(made)


def _noise_norm_and_probability(noise_scale: float, norm_bound: float, failure_probability: float) -> dict[str, float]:
    return {
        "noise_scale": check_nonnegative(noise_scale, "The noise scale", "0.5 is right for rewards in [0, 1]."),
        "norm_bound": _norm(norm_bound),
        "failure_probability": check_probability(failure_probability),
    }


def _norm(norm_bound: float) -> float:
    return check_nonnegative(
        norm_bound, "The norm bound", "It bounds ‖f‖ in the kernel's space; 1.0 is a common guess."
    )


def _not_for_approximations(state: RoundState) -> str | None:
    if state.residual:
        return (
            "The interval is proved for the exact posterior, and this one is approximate. Mixture and SelfNormalized "
            "hold for both."
        )
    return None


def _beyond(horizon: int, state: RoundState) -> str | None:
    if state.round_index > horizon:
        return f"The interval was built for {horizon} rounds, and this is round {state.round_index}."
    return None
