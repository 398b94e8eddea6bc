"""Three published reward functions of contexts on the unit sphere (Zhou et al. 2020, NeuralUCB)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from kernelbandits.checks import a_count, a_seed, a_size, not_negative
from kernelbandits.environments.base import DrawnRounds, Round
from kernelbandits.types import Matrix, Parameters, Vector

__all__ = ["CosineWave", "InnerSquare", "QuadraticForm", "Spherical"]


@dataclass(frozen=True, kw_only=True)
class Spherical(ABC):
    """What the three worlds share: contexts uniform on the unit sphere, drawn anew each round, rewards h(x) + noise.

    Parameters
    ----------
    n_actions, n_features
        Actions in each round, and columns of the context of each.
    noise_scale
        Standard deviation of the Gaussian noise.
    seed
        None: each run draws its own function. A number: every run meets the same function.
    """

    n_actions: int = 4
    n_features: int = 20
    noise_scale: float = 1.0
    seed: int | None = None

    def __post_init__(self) -> None:
        for name in ("n_actions", "n_features"):
            object.__setattr__(self, name, a_count(getattr(self, name), name))
        a_size("The contexts of a round", self.n_actions, self.n_features)
        object.__setattr__(self, "noise_scale", not_negative(self.noise_scale, "The noise scale"))
        if self.seed is not None:
            object.__setattr__(self, "seed", a_seed(self.seed, "The seed of the function"))

    @abstractmethod
    def function(self, rng: np.random.Generator) -> Callable[[Matrix], Vector]:
        """Draw h: a function from rows to expected rewards."""

    @property
    def reward_range(self) -> None:
        """Gaussian noise knows no bounds."""
        return None

    def start(self, rng: np.random.Generator) -> DrawnRounds:
        """Draw a function and begin a run; function, contexts and luck have a generator each."""
        function_rng, context_rng, luck_rng = rng.spawn(3)
        function = self.function(function_rng if self.seed is None else np.random.default_rng(self.seed))
        return DrawnRounds(self._rounds(function, context_rng, luck_rng))

    def describe(self) -> Parameters:
        """Class and parameters as plain values."""
        return {"class": type(self).__name__, **vars(self)}

    def _rounds(
        self,
        function: Callable[[Matrix], Vector],
        context_rng: np.random.Generator,
        luck_rng: np.random.Generator,
    ) -> Iterator[tuple[Round, Vector]]:
        while True:
            contexts = _on_the_sphere(context_rng, self.n_actions, self.n_features)
            expected = function(contexts)
            luck = self.noise_scale * luck_rng.standard_normal(self.n_actions)
            yield Round(contexts, expected=expected), expected + luck


@dataclass(frozen=True, kw_only=True)
class InnerSquare(Spherical):
    """h(x) = 10 (xᵀa)², a uniform on the unit sphere (Zhou et al. 2020, their h₁). Parameters as in `Spherical`.

    Examples
    --------
    >>> world = InnerSquare(n_features=3).start(np.random.default_rng(1))
    >>> world.show().contexts.shape
    (4, 3)
    """

    def function(self, rng: np.random.Generator) -> Callable[[Matrix], Vector]:
        """Draw a."""
        direction = _on_the_sphere(rng, 1, self.n_features)[0]
        return lambda contexts: 10.0 * (contexts @ direction) ** 2


@dataclass(frozen=True, kw_only=True)
class QuadraticForm(Spherical):
    """h(x) = xᵀAᵀAx, entries of A standard normal (Zhou et al. 2020, their h₂). Parameters as in `Spherical`.

    Examples
    --------
    >>> world = QuadraticForm(n_features=3).start(np.random.default_rng(1))
    >>> bool((world.show().expected >= 0).all())
    True
    """

    def function(self, rng: np.random.Generator) -> Callable[[Matrix], Vector]:
        """Draw A."""
        matrix = rng.standard_normal((self.n_features, self.n_features))
        return lambda contexts: np.asarray(np.sum((contexts @ matrix.T) ** 2, axis=1))


@dataclass(frozen=True, kw_only=True)
class CosineWave(Spherical):
    """h(x) = cos(3xᵀa), a uniform on the unit sphere (Zhou et al. 2020, their h₃). Parameters as in `Spherical`.

    Examples
    --------
    >>> world = CosineWave(n_features=3).start(np.random.default_rng(1))
    >>> bool((world.show().expected <= 1).all())
    True
    """

    def function(self, rng: np.random.Generator) -> Callable[[Matrix], Vector]:
        """Draw a."""
        direction = _on_the_sphere(rng, 1, self.n_features)[0]
        return lambda contexts: np.asarray(np.cos(3.0 * (contexts @ direction)))


def _on_the_sphere(rng: np.random.Generator, n_rows: int, n_columns: int) -> Matrix:
    """Rows uniform on the unit sphere: normal draws, brought to length 1."""
    rows = rng.standard_normal((n_rows, n_columns))
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))
