"""The wheel: a rare and large reward at the rim (Riquelme et al. 2018)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from typing import Final, Literal

import numpy as np

from kernelbandits.checks import is_one_of, not_negative, positive, shown
from kernelbandits.environments.base import DrawnRounds, Round
from kernelbandits.errors import InvalidParameter
from kernelbandits.types import Pairs, Parameters, Points, Vector

__all__ = ["Wheel"]

LABELS: Final = (1, 2, 3, 4, 5)
"""Actions as the paper numbers them: one a quadrant, and a safe one."""

SAFE, SAFE_REWARD, PLAIN_REWARD, RIM_REWARD = 4, 1.2, 1.0, 50.0

Encoding = Literal["pairs", "rows", "disjoint"]


@dataclass(frozen=True)
class Wheel:
    """Contexts uniform in the unit disc, five actions; what pays most is learnt only at the rim.

    The fifth action always pays 1.2, the others 1.0, but where ‖x‖ ≥ radius the action of x's quadrant pays 50. The
    larger the radius, the rarer the contexts that tell.

    Parameters
    ----------
    radius
        From 0 up to, not including, 1: how far out the rim begins. 0.5 is easy, 0.99 hard.
    scale
        Multiplies rewards and noise: 1/50 brings them into [0, 1], give or take the noise.
    noise_scale
        Standard deviation of the noise before scaling.
    encoding
        "pairs": Pairs(x, labels), for one kernel an action, `PairProduct(context=Gaussian(length_scale=0.3),
        action=Delta())`. "rows": x itself for every action, with its label as id, for `LinUCB(model="disjoint")`.
        "disjoint": x in the action's own block of ten columns, for any kernel over rows.

    Examples
    --------
    >>> import kernelbandits as kb
    >>> from kernelbandits.kernels import Delta, Gaussian, PairProduct
    >>> kernel = PairProduct(context=Gaussian(length_scale=0.3), action=Delta())
    >>> policy = kb.KernelUCB(kernel, regularisation=0.01, exploration=0.02)
    >>> trace = kb.simulate(Wheel(0.5, scale=1 / 50), policy, horizon=50, seed=1)
    >>> bool(trace.best.max() == 1.0)
    True
    """

    radius: float
    _: KW_ONLY
    scale: float = 1.0
    noise_scale: float = 0.01
    encoding: Encoding = "pairs"

    def __post_init__(self) -> None:
        object.__setattr__(self, "radius", not_negative(self.radius, "The radius"))
        if self.radius >= 1.0:
            raise InvalidParameter(f"The radius has to be below 1, where the disc ends, got {self.radius!r}.")
        object.__setattr__(self, "scale", positive(self.scale, "The scale"))
        object.__setattr__(self, "noise_scale", not_negative(self.noise_scale, "The noise scale"))
        if not is_one_of(self.encoding, ("pairs", "rows", "disjoint")):
            raise InvalidParameter(f'The encoding has to be "pairs", "rows" or "disjoint", got {shown(self.encoding)}.')

    @property
    def reward_range(self) -> None:
        """Gaussian noise knows no bounds."""
        return None

    def start(self, rng: np.random.Generator) -> DrawnRounds:
        """Begin a run; contexts and luck have a generator each."""
        return DrawnRounds(self._rounds(*rng.spawn(2)))

    def describe(self) -> Parameters:
        """Class and parameters as plain values."""
        return {"class": type(self).__name__, **vars(self)}

    def value(self, context: Vector) -> Vector:
        """Expected reward of each action in a context."""
        values = np.full(len(LABELS), PLAIN_REWARD)
        values[SAFE] = SAFE_REWARD
        if np.hypot(*context) >= self.radius:
            values[2 * int(context[0] < 0.0) + int(context[1] < 0.0)] = RIM_REWARD
        return self.scale * values

    def _rounds(
        self, context_rng: np.random.Generator, luck_rng: np.random.Generator
    ) -> Iterator[tuple[Round, Vector]]:
        while True:
            context = _in_the_disc(context_rng)
            expected = self.value(context)
            ids = list(LABELS) if self.encoding == "rows" else None
            luck = self.scale * self.noise_scale * luck_rng.standard_normal(len(expected))
            yield Round(self._encoded(context), ids=ids, expected=expected), expected + luck

    def _encoded(self, context: Vector) -> Points:
        if self.encoding == "pairs":
            return Pairs(context, list(LABELS))
        if self.encoding == "rows":
            return np.tile(context, (len(LABELS), 1))
        return np.kron(np.eye(len(LABELS)), context)


def _in_the_disc(rng: np.random.Generator) -> Vector:
    """A point uniform in the unit disc: its radius is the root of a uniform number."""
    radius, angle = np.sqrt(rng.random()), 2.0 * np.pi * rng.random()
    return np.array([radius * np.cos(angle), radius * np.sin(angle)])
