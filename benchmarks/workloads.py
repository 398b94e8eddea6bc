"""The problems: worlds that hand out rounds, the same ones to every contestant."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "GAUSSIAN",
    "LINEAR",
    "REGIMES",
    "ROUGH",
    "FixedSet",
    "FreshContexts",
    "KernelSpec",
    "Matrix",
    "Plane",
    "Regime",
    "Round",
    "Vector",
    "World",
    "similarity",
]

Matrix: TypeAlias = NDArray[np.float64]
Vector: TypeAlias = NDArray[np.float64]

N_FEATURES: Final = 10
LENGTH_SCALE: Final = 0.5
NOISE_SCALE: Final = 0.1
N_CENTERS: Final = 30
N_SCALING_POINTS: Final = 20_000
"""Fresh contexts have no set to scale the rewards over; this many uniform points stand in for it."""


class Regime(NamedTuple):
    """Regularization γ and exploration η."""

    regularization: float
    exploration: float


REGIMES: Final = {
    "A": Regime(0.1, 0.2),  # the best regret
    "B": Regime(1.0, 0.5),
    "C": Regime(1.0, 1.0),  # explores too much
    "D": Regime(0.1, 1.0),  # never repeats an action: the worst case
}


class KernelSpec(NamedTuple):
    """Which similarity, in words that every contestant can translate for itself."""

    family: Literal["gaussian", "matern 1/2", "linear"]
    length_scale: float = 1.0


GAUSSIAN: Final = KernelSpec("gaussian", LENGTH_SCALE)
LINEAR: Final = KernelSpec("linear")
NARROW: Final = KernelSpec("gaussian", 0.1)
ROUGH: Final = KernelSpec("matern 1/2", 1.0)


def similarity(kernel: KernelSpec, first: Matrix, second: Matrix) -> Matrix:
    """Gram matrix in plain NumPy, at matrix-matrix speed: what a careful user would write."""
    gram = first @ second.T
    if kernel.family == "linear":
        return gram
    # −‖x − z‖²/2ℓ² = (x·z − ‖x‖²/2 − ‖z‖²/2)/ℓ², in place: temporaries of this size cost more than the arithmetic.
    gram -= 0.5 * np.einsum("nd,nd->n", first, first)[:, None]
    gram -= 0.5 * np.einsum("nd,nd->n", second, second)
    gram *= kernel.length_scale**-2
    np.minimum(gram, 0.0, out=gram)
    if kernel.family == "matern 1/2":
        gram = -np.sqrt(-2.0 * gram)
    return np.exp(gram, out=gram)


class Round(NamedTuple):
    """What one round offers, and what it would pay."""

    contexts: Matrix
    """(n_actions, n_features); the same array in every round where the set is fixed."""

    expected: Callable[[slice], Vector]
    """Expected rewards of some rows."""

    noise: float
    """The same whichever row is taken."""

    def reward(self, row: int) -> float:
        """What this row would pay."""
        return float(self.expected(slice(row, row + 1))[0]) + self.noise

    def rewards(self) -> Vector:
        """What every row would pay."""
        return self.expected(slice(None)) + self.noise


class World(Protocol):
    """A problem; `rounds` yields the same rounds from the first each time it is called."""

    @property
    def n_actions(self) -> int:
        """Actions in every round."""

    @property
    def n_features(self) -> int:
        """Numbers that describe an action."""

    @property
    def kernel(self) -> KernelSpec:
        """Similarity that the model uses."""

    @property
    def is_fixed(self) -> bool:
        """Whether every round offers the same set."""

    def rounds(self) -> Iterator[Round]:
        """Rounds without end."""


@dataclass(frozen=True, eq=False)
class _Function:
    """f(x) = Σ w_j k(x, c_j), shifted and scaled."""

    kernel: KernelSpec
    centers: Matrix
    weights: Vector
    lowest: float = 0.0
    spread: float = 1.0

    @classmethod
    def draw(cls, kernel: KernelSpec, rng: np.random.Generator, n_features: int = N_FEATURES) -> _Function:
        centers = rng.uniform(size=(N_CENTERS, n_features))
        return cls(kernel, centers, rng.standard_normal(N_CENTERS))

    def __call__(self, contexts: Matrix) -> Vector:
        return (similarity(self.kernel, contexts, self.centers) @ self.weights - self.lowest) / self.spread

    def scaled(self, contexts: Matrix) -> _Function:
        """The same function with values in [0, 1] over these contexts."""
        values = self(contexts)
        return _Function(self.kernel, self.centers, self.weights, float(values.min()), float(np.ptp(values)))


def _noise(seed: int) -> Iterator[float]:
    rng = np.random.default_rng(seed + 1)
    while True:
        yield NOISE_SCALE * float(rng.standard_normal())


@dataclass(frozen=True)
class FixedSet:
    """W1: one set of actions, offered in every round; Gaussian kernel over the cube [0, 1]^10.

    Drawn from `default_rng(seed)` in the order contexts, centers, weights; noise from `default_rng(seed + 1)`.
    """

    n_actions: int
    seed: int = 0
    n_features: int = N_FEATURES
    kernel: KernelSpec = GAUSSIAN
    is_fixed: bool = True

    def rounds(self) -> Iterator[Round]:
        rng = np.random.default_rng(self.seed)
        contexts = rng.uniform(size=(self.n_actions, N_FEATURES))
        expected = _Function.draw(self.kernel, rng).scaled(contexts)(contexts)
        for noise in _noise(self.seed):
            yield Round(contexts, expected.__getitem__, noise)


@dataclass(frozen=True)
class FreshContexts:
    """W2 (Gaussian kernel) and W3 (linear kernel): new actions in every round, uniform in a cube, [0, 1]^10.

    Drawn from `default_rng(seed)` in the order centers, weights, the points that set the scale, contexts by rounds.
    """

    n_actions: int
    kernel: KernelSpec = GAUSSIAN
    seed: int = 0
    n_features: int = N_FEATURES
    is_fixed: bool = False

    def rounds(self) -> Iterator[Round]:
        rng = np.random.default_rng(self.seed)
        drawn = _Function.draw(self.kernel, rng, self.n_features)
        function = drawn.scaled(rng.uniform(size=(N_SCALING_POINTS, self.n_features)))
        for noise in _noise(self.seed):
            contexts = rng.uniform(size=(self.n_actions, self.n_features))
            yield Round(contexts, _values(function, contexts), noise)


def _values(function: _Function, contexts: Matrix) -> Callable[[slice], Vector]:
    return lambda rows: function(contexts[rows])  # on demand: few of them are needed


@dataclass(frozen=True)
class Plane:
    """The chessboard and the step-diagonal of EK-UCB (Zenati et al. 2022): a context and one of ten actions.

    A round draws the context, the noise of the reward, and one more number, which the published code spends on a noise
    for the best reward. That code takes its first action at random; here the policy takes it too.
    """

    pattern: Literal["chessboard", "step-diagonal"]
    seed: int = 0
    n_actions: int = 10
    n_features: int = 2
    kernel: KernelSpec = NARROW
    is_fixed: bool = False

    def rounds(self) -> Iterator[Round]:
        # The legacy generator is the published setting, not a choice of ours.
        actions = np.random.RandomState(123).choice(np.arange(0, 1, 0.01), self.n_actions, replace=False)
        rng = np.random.RandomState(self.seed)
        value = chessboard if self.pattern == "chessboard" else step_diagonal
        while True:
            x = float(rng.uniform())
            noise = NOISE_SCALE * float(rng.normal())
            rng.normal()
            contexts = np.column_stack([np.full(self.n_actions, x), actions])
            expected = np.array([value(x, float(a)) for a in actions])
            yield Round(contexts, expected.__getitem__, noise)


def chessboard(x: float, a: float) -> float:
    """Expected reward by the quarter in which context and action lie; the upper edge belongs to the last quarter."""
    quarters = min(int(4 * x), 3), min(int(4 * a), 3)
    if quarters in ((1, 0), (1, 2), (3, 2)):
        return 1.0
    return 0.5 if quarters in ((0, 1), (2, 1), (2, 3)) else 0.0


def step_diagonal(x: float, a: float) -> float:
    """Expected reward: a high step above the diagonal and a low one below it."""
    if abs(x - (a + 0.15)) < 0.1:
        return 1.0
    return 0.5 if abs(x - (a - 0.15)) < 0.1 else 0.0
