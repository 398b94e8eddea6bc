"""Three problems over a fixed set of actions, so that policies of every family can play them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from math import sqrt
from typing import Final

import numpy as np

from kernelbandits.environments import Clustered, DrawnRounds, Environment, Round, SyntheticRKHS
from kernelbandits.kernels import Gaussian, Linear, median_length_scale
from kernelbandits.types import Matrix, Parameters, Vector

__all__ = ["N_ACTIONS", "PROBLEMS", "Problem", "Setting"]

N_ACTIONS: Final = 100


@dataclass(frozen=True)
class InUnitBall:
    """Another world with its contexts, points of the unit cube, shrunk into the unit ball: many proofs ask for that."""

    environment: Environment
    n_features: int

    @property
    def reward_range(self) -> tuple[float, float] | None:
        """That of the other world."""
        return self.environment.reward_range

    def start(self, rng: np.random.Generator) -> DrawnRounds:
        """Begin a run."""
        return DrawnRounds(self._rounds(rng))

    def _rounds(self, rng: np.random.Generator) -> Iterator[tuple[Round, Vector]]:
        world = self.environment.start(rng)
        while True:
            shown = world.observe()
            contexts = np.clip(shown.contexts, 0.0, 1.0) / sqrt(self.n_features)
            yield (
                Round(contexts, expected=shown.expected),
                np.array([world.reward(row) for row in range(len(contexts))]),
            )

    def describe(self) -> Parameters:
        """Class and parameters as plain values."""
        return {"class": type(self).__name__, "environment": self.environment.describe()}


@dataclass(frozen=True)
class Problem:
    """A world of fixed actions in the unit ball with rewards of 0 and 1."""

    title: str
    environment: Environment


@dataclass(frozen=True, eq=False)
class Setting:
    """What a policy may know of one run before it begins."""

    actions: Matrix
    horizon: int
    seed: int

    @property
    def n_actions(self) -> int:
        """Actions of every round."""
        return len(self.actions)

    @property
    def n_features(self) -> int:
        """Numbers of a context."""
        return int(self.actions.shape[1])

    @property
    def kernel(self) -> Gaussian:
        """The same recipe on every problem: half the median distance of two actions."""
        return Gaussian(length_scale=0.5 * median_length_scale(self.actions, seed=0))


_RKHS: Final = partial(SyntheticRKHS, n_actions=N_ACTIONS, fixed_actions=True, noise="bernoulli")

PROBLEMS: Final[Mapping[str, Problem]] = {
    "linear": Problem(
        "Linear: the chance of a reward is linear in five features",
        InUnitBall(_RKHS(Linear(), n_features=5), 5),
    ),
    "smooth": Problem(
        "Smooth: a few hills over a square",
        InUnitBall(_RKHS(Gaussian(length_scale=0.2), n_features=2, n_centers=5), 2),
    ),
    "clustered": Problem(
        "Clustered: five tight groups of actions that pay alike",
        InUnitBall(Clustered(n_actions=N_ACTIONS, n_features=2, n_clusters=5, fixed_actions=True), 2),
    ),
}
