"""SquareCB with kernel ridge regression: inverse gap weighting."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from inspect import signature
from math import inf, sqrt
from typing import Any, Final, Protocol, runtime_checkable

import numpy as np

from kernelbandits._parameters import Parameter, ValueType, described, parameter
from kernelbandits.errors import CannotSave, ForeignFile, InvalidParameter, NotSupported
from kernelbandits.policies.posterior_policy import KernelPolicy
from kernelbandits.policies.randomized import ActionDistribution, DistributionRanking, RandomizedPolicy
from kernelbandits.policies.slates import Ranking
from kernelbandits.selection import tied_for_best
from kernelbandits.selection.actions import Actions
from kernelbandits.types import Parameters, Vector
from kernelbandits.validation import check_int, check_positive, short_repr

__all__ = [
    "ConstantGapWeight",
    "GapWeight",
    "GrowingGapWeight",
    "KernelSquareCB",
    "as_gap_weight",
    "gap_weight_from",
    "inverse_gap_probabilities",
    "packed_gap_weight",
]


@runtime_checkable
class GapWeight(Protocol):
    """Interface of gap weights λ; a plain number is a constant weight. Implement these two methods for your own."""

    @abstractmethod
    def __call__(self, *, round_index: int, n_actions: int) -> float:
        """Return the factor of the gaps in this round, zero or above."""

    @abstractmethod
    def describe(self) -> Parameters:
        """Return class and parameters as plain values."""


@dataclass(frozen=True)
class ConstantGapWeight:
    """Constant gap weight."""

    value: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", check_positive(self.value, "The weight of gaps", "Large is greedy."))

    def __call__(self, *, round_index: int, n_actions: int) -> float:
        """Return the value."""
        return self.value

    def describe(self) -> Parameters:
        """Return class and parameters as plain values."""
        return {"class": "ConstantGapWeight", "value": self.value}


@dataclass(frozen=True, kw_only=True)
class GrowingGapWeight:
    """Gap weight scale · sqrt(N T) with a known horizon T; scale · sqrt(N t), growing with the round t, without one.

    It has the order of Foster and Rakhlin's weight, sqrt(N T / L) with L the regret of the oracle. In theory, scale is
    one over the square root of the cumulative squared error of the estimates (rewards in [0, 1]), which is unknown in
    advance.

    >>> GrowingGapWeight(scale=2.0)(round_index=9, n_actions=4)
    12.0
    """

    scale: float = 1.0
    horizon: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", check_positive(self.scale, "The scale of gap weights", "Large is greedy."))
        if self.horizon is not None:
            object.__setattr__(self, "horizon", check_int(self.horizon, "The horizon"))

    def __call__(self, *, round_index: int, n_actions: int) -> float:
        """Return the weight of this round."""
        return self.scale * sqrt(n_actions * (round_index if self.horizon is None else self.horizon))

    def describe(self) -> Parameters:
        """Return class and parameters as plain values."""
        return {"class": "GrowingGapWeight", "scale": self.scale, "horizon": self.horizon}


KNOWN: Mapping[str, type[Any]] = {known.__name__: known for known in (ConstantGapWeight, GrowingGapWeight)}
"""Classes that a file may name. Nothing is imported by a name found in a file."""


def as_gap_weight(value: float | GapWeight) -> GapWeight:
    """Convert a number to a constant weight."""
    if isinstance(value, type):
        raise InvalidParameter(f"A weight of gaps is a number or a schedule, got the class {value.__name__} itself.")
    if not isinstance(value, GapWeight):
        return ConstantGapWeight(value)
    try:
        signature(value).bind(round_index=1, n_actions=1)
    except (TypeError, ValueError):  # such as a schedule of the exploration
        raise InvalidParameter(
            f"A weight of gaps is a number or a schedule of round_index and n_actions, got {short_repr(value)}. "
            "GrowingGapWeight(scale=4.0) is the one to try first."
        ) from None
    return value


def packed_gap_weight(weight: GapWeight) -> Parameters:
    """Return the description of a weight; raise CannotSave if it is not one of the library's classes."""
    if KNOWN.get(type(weight).__name__) is not type(weight):
        raise CannotSave(f"A weight of gaps of your own ({type(weight).__name__}) cannot be saved.")
    return weight.describe()


def gap_weight_from(description: Mapping[str, Any]) -> GapWeight:
    """Inverse of `packed_gap_weight`."""
    arguments = dict(description)
    name = arguments.pop("class")
    if name not in KNOWN:
        raise ForeignFile(f"The file holds a weight of gaps {name!r}, which is not known here.")
    weight: GapWeight = KNOWN[name](**arguments)
    return weight


GAP_WEIGHT: Final = ValueType(as_gap_weight, described, packed_gap_weight, gap_weight_from)


class KernelSquareCB(KernelPolicy, RandomizedPolicy):
    """Draw actions with probability decreasing in their gap to the best mean (Foster and Rakhlin 2020, SquareCB).

    Kernel ridge regression is the oracle. With b the action of highest mean, N actions and λ the gap weight,

        p_a = 1 / (N + λ (mean_b − mean_a))   for a ≠ b,      p_b = 1 − Σ p_a.

    The policy does not use confidence widths: its regret follows from that of the regression, for any rewards whose
    expectation the kernel can represent. Propensities are exact and above 1 / (N + λ · largest gap). The rule is due to
    Abe and Long (1999). Means cost O(N m) after m distinct contexts; the widths, which the decisions report, O(N m²).

    Parameters
    ----------
    kernel, regularization, posterior, budget, accuracy, device, refit, reward_range
        As in `KernelUCB`.
    gap_weight
        λ: a number (a large value is greedy; unit: one over the reward), or a schedule
        (round_index, n_actions) → number such as GrowingGapWeight(scale=…, horizon=…). None: GrowingGapWeight(scale=4),
        that is 4 sqrt(N t). The value of the theory is below 1 and learns slowly.
    seed
        Seed of the draws.

    Examples
    --------
    >>> from kernelbandits.kernels import Linear
    >>> policy = KernelSquareCB(Linear(), regularization=1.0, gap_weight=10.0, seed=0)
    >>> policy.warm_start([[1.0], [2.0]], [0.5, 1.0])
    >>> policy.probabilities([[0.2], [1.4]]).round(3)
    array([0.143, 0.857])
    """

    accepts_offsets = True

    gap_weight: Parameter[float | GapWeight | None, GapWeight] = parameter(GAP_WEIGHT, default=None, is_assignable=True)

    def _setup(self) -> None:
        super()._setup()
        if self.gap_weight is None:
            self._resolve(gap_weight=GrowingGapWeight(scale=4.0))

    def _distribution(self, actions: Actions) -> ActionDistribution:
        prediction = self._predict(actions.points, self._waiting())
        weight = self.gap_weight(round_index=self._ledger.round_index, n_actions=actions.n_actions)
        if (horizon := getattr(self.gap_weight, "horizon", None)) is not None:
            self._warn_beyond(horizon)
        if not 0.0 <= weight < inf:  # also catches NaN
            raise InvalidParameter(
                f"A weight of gaps must be a finite number, zero or above, got {weight!r} from "
                f"{self.gap_weight.describe()} in round {self._ledger.round_index}."
            )
        scores = prediction.mean if actions.offset is None else prediction.mean + actions.offset
        return ActionDistribution(inverse_gap_probabilities(scores, weight), prediction, scores)

    def _ranking(self, actions: Actions, *, diverse: bool) -> Ranking:
        if diverse:
            raise NotSupported(
                "KernelSquareCB explores by the gaps between means, which do not depend on the actions placed; it has "
                "no diverse slates. Leave `diverse` out, or take KernelUCB or Softmax."
            )
        return DistributionRanking(self, actions)


def inverse_gap_probabilities(means: Vector, weight: float) -> Vector:
    """Return 1 / (N + weight · gap) for all but the best action, and the remaining probability for the best.

    >>> inverse_gap_probabilities(np.array([0.5, 1.0, 0.5]), 4.0)
    array([0.2, 0.6, 0.2])
    """
    best = tied_for_best(means)[0]
    gaps = np.maximum(means[best] - means, 0.0)  # a mean tied with the best may exceed it by a rounding error
    with np.errstate(over="ignore"):
        probabilities = 1.0 / (len(means) + weight * gaps)
    probabilities[best] = 0.0
    probabilities[best] = 1.0 - probabilities.sum()
    return np.asarray(probabilities)
