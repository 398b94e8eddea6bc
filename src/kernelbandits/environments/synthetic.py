"""Synthetic environments: RKHS functions of known norm, and clustered actions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from math import sqrt
from typing import Final, Literal, TypeAlias

import numpy as np

from kernelbandits._text import repr_of_fields
from kernelbandits.environments.base import DrawnRounds, Round
from kernelbandits.errors import InvalidParameter
from kernelbandits.kernels import Kernel, as_kernel
from kernelbandits.types import Matrix, Parameters, Points, Vector
from kernelbandits.validation import (
    LARGEST,
    check_array,
    check_bool,
    check_float,
    check_int,
    check_nonnegative,
    check_positive,
    check_seed,
    check_size,
    check_vector,
    is_one_of,
    short_repr,
)

__all__ = ["Clustered", "RKHSFunction", "SyntheticRKHS", "SyntheticWorld"]


@dataclass(frozen=True, eq=False)
class RKHSFunction:
    """Weighted sum of similarities to a few centers: f(x) = Σᵢ cᵢ k(xᵢ, x).

    Such functions lie in the RKHS of the kernel, and their norm is known exactly: ‖f‖² = cᵀ K c with K the Gram matrix
    of the centers.

    >>> from kernelbandits.kernels import Gaussian
    >>> f = RKHSFunction(Gaussian(length_scale=1.0), np.zeros((1, 2)), np.array([0.5]))
    >>> f.norm, f(np.zeros((3, 2)))
    (0.5, array([0.5, 0.5, 0.5]))
    """

    __repr__ = repr_of_fields

    kernel: Kernel
    centers: Points
    coefficients: Vector

    def __post_init__(self) -> None:
        object.__setattr__(self, "kernel", as_kernel(self.kernel))
        object.__setattr__(self, "centers", self.kernel.kind.check(self.centers))
        coefficients, n_centers = check_vector(self.coefficients, "Coefficients"), self.kernel.kind.count(self.centers)
        if len(coefficients) != n_centers:
            raise InvalidParameter(f"There is one coefficient per center: {n_centers}, got {len(coefficients)}.")
        if np.abs(coefficients).max() > LARGEST:
            raise InvalidParameter(f"Coefficients must be at most {LARGEST:g}, got {np.abs(coefficients).max():g}.")
        object.__setattr__(self, "coefficients", coefficients)

    def __call__(self, contexts: Points) -> Vector:
        """Return the value at each context."""
        return np.asarray(self.kernel.gram(self.kernel.kind.check(contexts), self.centers) @ self.coefficients)

    @cached_property
    def norm(self) -> float:
        """RKHS norm, exact up to rounding."""
        squared = self.coefficients @ self.kernel.gram(self.centers) @ self.coefficients
        return sqrt(max(float(squared), 0.0))  # rounding may make it negative for a function that is almost zero

    def times(self, factor: float) -> RKHSFunction:
        """Return the function multiplied by a factor."""
        return RKHSFunction(self.kernel, self.centers, factor * self.coefficients)


Noise: TypeAlias = Literal["gaussian", "bernoulli"]

LARGEST_PROBABILITY: Final = 0.95
"""Largest success probability of Bernoulli rewards if no norm is given: the best action is good but not certain."""

BERNOULLI_SCALE: Final = 0.5
"""Sub-Gaussian constant of rewards in {0, 1}, for any mean (Hoeffding's lemma)."""

ROUNDING: Final = 1e-9
"""Rounding tolerance for expected rewards outside [0, 1]; a larger violation indicates an invalid kernel."""


@dataclass(frozen=True)
class SyntheticRKHS:
    """Rewards from a random function of known RKHS norm, contexts uniform in the unit cube.

    The expected reward of a context is f(x) = Σᵢ cᵢ k(xᵢ, x) with random centers xᵢ and coefficients cᵢ, scaled so that
    ‖f‖ = `norm` exactly (‖f‖² = cᵀ K c). The run provides `world.norm` and `world.expected(contexts)`.

    Parameters
    ----------
    kernel
        A kernel over rows of numbers, or an object that can be converted to one.
    n_actions
        Number of actions per round.
    n_features
        Number of features of each context: the dimension of the cube.
    norm
        RKHS norm of the function. None: 1 with Gaussian noise, the largest that gives valid probabilities with
        Bernoulli.
    n_centers
        Number of centers: few give a function with separate peaks, many a rugged one. With fixed actions the centers
        are actions, so at most `n_actions` are used.
    fixed_actions
        True: one set of contexts, shown in every round. False: a new set each round.
    noise
        "gaussian": f(x) plus normal noise; coefficients of either sign. "bernoulli": 1 with probability f(x), else 0;
        coefficients are non-negative, so the kernel must be non-negative too.
    noise_scale
        Standard deviation of Gaussian noise, 0.1 by default. With Bernoulli rewards it is 0.5, their sub-Gaussian
        constant, so in both cases `noise_scale` is the parameter of a confidence width.
    seed
        None: each run draws its own function (and its own fixed actions), as required for a study over many seeds. A
        number: every run has the same function, and only contexts and noise differ.
    action_seed
        A number: the fixed actions are drawn from it, independent of the function. None: they are drawn with the
        function.

    Notes
    -----
    With Bernoulli noise f must lie in [0, 1] at every context. For contexts redrawn each round this follows from
    f(x) ≤ ‖f‖ sqrt(k(x, x)) ≤ ‖f‖ sqrt(k_max), so a norm above 1/sqrt(k_max) is rejected, and the default is
    0.95/sqrt(k_max). For fixed actions the largest f is known: by default it is 0.95, and a given norm is rejected if
    an action exceeds 1. k_max is evaluated at the corners (0, …, 0) and (1, …, 1), where the kernels of this library
    have their largest diagonal; a user-defined kernel that is larger in between, or negative somewhere, is rejected in
    the round where this occurs.

    Examples
    --------
    >>> from kernelbandits.kernels import Gaussian
    >>> environment = SyntheticRKHS(Gaussian(length_scale=0.3), n_actions=5, n_features=2, norm=2.0)
    >>> world = environment.start(np.random.default_rng(1))
    >>> round(world.norm, 12), world.observe().contexts.shape
    (2.0, (5, 2))
    """

    kernel: Kernel
    _: KW_ONLY
    n_actions: int
    n_features: int
    norm: float | None = None
    n_centers: int = 30
    fixed_actions: bool = False
    noise: Noise = "gaussian"
    noise_scale: float = None  # type: ignore[assignment]  # None is gone once __post_init__ has run
    seed: int | None = None
    action_seed: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "kernel", as_kernel(self.kernel))
        for name in ("n_actions", "n_features", "n_centers"):
            object.__setattr__(self, name, check_int(getattr(self, name), name))
        object.__setattr__(self, "fixed_actions", check_bool(self.fixed_actions, "`fixed_actions`"))
        check_size("The contexts of a round", self.n_actions, self.n_features)
        check_size("The centers", self.n_centers, self.n_features)
        check_size("The similarities of the centers", self.n_centers, self.n_centers)
        if not is_one_of(self.noise, ("gaussian", "bernoulli")):
            raise InvalidParameter(f'The noise must be "gaussian" or "bernoulli", got {short_repr(self.noise)}.')
        if self.seed is not None:
            object.__setattr__(self, "seed", check_seed(self.seed, "The seed of the function"))
        if self.action_seed is not None:
            object.__setattr__(self, "action_seed", check_seed(self.action_seed, "The seed of the actions"))
            if not self.fixed_actions:
                raise InvalidParameter(
                    f"Fresh contexts are drawn in every round, so action_seed={short_repr(self.action_seed)} fixes "
                    "nothing. Leave it out, or set fixed_actions=True."
                )
        object.__setattr__(self, "noise_scale", self._checked_noise_scale())
        self._check_norm()

    @property
    def reward_range(self) -> tuple[float, float] | None:
        """(0, 1) with Bernoulli noise; None with Gaussian noise, which is unbounded."""
        return (0.0, 1.0) if self.noise == "bernoulli" else None

    def start(self, rng: np.random.Generator) -> SyntheticWorld:
        """Draw a function and start a run; function, contexts and noise have separate generators."""
        function_rng, context_rng, noise_rng = rng.spawn(3)
        if self.seed is not None:
            function_rng = np.random.default_rng(self.seed)
        action_rng = function_rng if self.action_seed is None else np.random.default_rng(self.action_seed)
        actions = self._contexts(action_rng) if self.fixed_actions else None
        function = self._function(function_rng, actions)
        if actions is None:
            rounds = self._fresh_rounds(function, context_rng, noise_rng)
        else:
            actions.setflags(write=False)  # shared by all rounds, so read-only
            rounds = self._fixed_rounds(actions, self._expected(function, actions), noise_rng)
        return SyntheticWorld(function, rounds)

    def describe(self) -> Parameters:
        """Return class and parameters as plain values."""
        return {
            "class": type(self).__name__,
            "kernel": self.kernel.describe(),
            "n_actions": self.n_actions,
            "n_features": self.n_features,
            "norm": self.norm,
            "n_centers": self.n_centers,
            "fixed_actions": self.fixed_actions,
            "noise": self.noise,
            "noise_scale": self.noise_scale,
            "seed": self.seed,
            "action_seed": self.action_seed,
        }

    def _checked_noise_scale(self) -> float:
        if self.noise == "gaussian":
            return 0.1 if self.noise_scale is None else check_nonnegative(self.noise_scale, "The noise scale")
        if self.noise_scale is not None and check_float(self.noise_scale, "The noise scale") != BERNOULLI_SCALE:
            raise InvalidParameter(
                f"Bernoulli rewards have their own noise, got noise_scale={short_repr(self.noise_scale)}. Leave it out."
            )
        return BERNOULLI_SCALE

    def _check_norm(self) -> None:
        largest = self._largest_similarity()
        if self.norm is None:
            return
        object.__setattr__(self, "norm", check_positive(self.norm, "The norm"))
        if self.noise == "bernoulli" and not self.fixed_actions and self.norm * sqrt(largest) > 1.0 + ROUNDING:
            raise InvalidParameter(
                f"A function of norm {self.norm!r} can exceed 1, which is not a probability. With Bernoulli noise over "
                f"fresh contexts the norm may be at most 1/sqrt(k_max) = {1 / sqrt(largest):.4g}; leave it out for the "
                "usual one."
            )

    def _largest_similarity(self) -> float:
        """Return k_max over the cube, from its two extreme corners."""
        corners = np.array([[0.0] * self.n_features, [1.0] * self.n_features])
        largest = float(np.max(self.kernel.diagonal(self.kernel.kind.check(corners))))
        if not largest > 0.0:
            raise InvalidParameter(f"The kernel may not be zero all over the unit cube, got {self.kernel!r}.")
        return largest

    def _contexts(self, rng: np.random.Generator) -> Matrix:
        return rng.random((self.n_actions, self.n_features))

    def _function(self, rng: np.random.Generator, actions: Matrix | None) -> RKHSFunction:
        centers = rng.random((self.n_centers, self.n_features)) if actions is None else actions[: self.n_centers]
        coefficients = rng.standard_normal(len(centers))
        if self.noise == "bernoulli":
            coefficients = np.abs(coefficients)
        function = RKHSFunction(self.kernel, centers, coefficients)
        return function.times(self._height(function, actions))

    def _height(self, function: RKHSFunction, actions: Matrix | None) -> float:
        """Return the factor that gives the drawn function its norm."""
        if self.norm is not None:
            return self.norm / function.norm
        if self.noise == "gaussian":
            return 1.0 / function.norm
        if actions is None:
            return LARGEST_PROBABILITY / (function.norm * sqrt(self._largest_similarity()))
        return LARGEST_PROBABILITY / float(np.max(function(actions)))

    def _fresh_rounds(
        self, function: RKHSFunction, context_rng: np.random.Generator, noise_rng: np.random.Generator
    ) -> Iterator[tuple[Round, Vector]]:
        """Yield infinitely many rounds, each with the rewards of all its actions."""
        while True:
            contexts = self._contexts(context_rng)
            expected = self._expected(function, contexts)
            yield Round(contexts, expected=expected), self._rewards(expected, noise_rng)

    def _fixed_rounds(
        self, actions: Matrix, expected: Vector, noise_rng: np.random.Generator
    ) -> Iterator[tuple[Round, Vector]]:
        """Yield the same round infinitely often, with new noise each time."""
        while True:
            yield Round(actions, expected=expected), self._rewards(expected, noise_rng)

    def _expected(self, function: RKHSFunction, contexts: Matrix) -> Vector:
        expected = function(contexts)
        if self.noise == "gaussian":
            return expected
        lowest, highest = float(expected.min()), float(expected.max())
        if lowest < -ROUNDING or highest > 1.0 + ROUNDING:
            raise InvalidParameter(
                f"With Bernoulli noise expected rewards are probabilities, got values from {lowest:.4g} to "
                f"{highest:.4g} for norm {function.norm:.4g}. Choose a smaller norm, and a kernel that is nowhere "
                "negative on the unit cube."
            )
        return np.clip(expected, 0.0, 1.0)

    def _rewards(self, expected: Vector, rng: np.random.Generator) -> Vector:
        """Draw the reward of each action in this round."""
        if self.noise == "bernoulli":
            return (rng.random(len(expected)) < expected).astype(np.float64)
        return expected + self.noise_scale * rng.standard_normal(len(expected))


class SyntheticWorld:
    """One run of `SyntheticRKHS`; it never ends."""

    def __init__(self, function: RKHSFunction, rounds: Iterator[tuple[Round, Vector]]) -> None:
        self.function = function
        self._drawn = DrawnRounds(rounds)

    @property
    def norm(self) -> float:
        """RKHS norm of the reward function."""
        return self.function.norm

    def expected(self, contexts: Points) -> Vector:
        """Return the expected reward of each context."""
        return self.function(contexts)

    def observe(self) -> Round:
        """Return the next round."""
        return self._drawn.observe()

    def peek_rounds(self, n_rounds: int) -> list[tuple[Round, Vector]]:
        """Return the next rounds with the rewards of all actions."""
        return self._drawn.peek_rounds(n_rounds)

    def reward(self, action: int) -> float:
        """Return the reward of an action in the last observed round."""
        return self._drawn.reward(action)


@dataclass(frozen=True, kw_only=True)
class Clustered:
    """Clusters of actions in the unit cube, with Bernoulli rewards whose probability is constant within a cluster.

    The reward function is neither linear nor smooth: it jumps between clusters, and within a cluster every action has
    the same value. Each run draws its own clusters: centers uniform in the cube, values uniform in `values`.

    Parameters
    ----------
    n_actions, n_features
        Number of actions per round, and number of features of each context.
    n_clusters
        Number of clusters; every action belongs to a random one.
    spread
        Standard deviation, per column, of an action around the center of its cluster.
    values
        Lowest and highest success probability.
    fixed_actions
        True: one set of contexts, shown in every round. False: a new set each round.

    Examples
    --------
    >>> world = Clustered(n_actions=6, n_clusters=2).start(np.random.default_rng(0))
    >>> observed = world.observe()
    >>> observed.contexts.shape, len(set(observed.expected.tolist())) <= 2
    ((6, 2), True)
    """

    __repr__ = repr_of_fields

    n_actions: int
    n_features: int = 2
    n_clusters: int = 5
    spread: float = 0.02
    values: tuple[float, float] = (0.05, 0.95)
    fixed_actions: bool = False

    def __post_init__(self) -> None:
        for name in ("n_actions", "n_features", "n_clusters"):
            object.__setattr__(self, name, check_int(getattr(self, name), name))
        object.__setattr__(self, "spread", check_nonnegative(self.spread, "The spread"))
        object.__setattr__(self, "fixed_actions", check_bool(self.fixed_actions, "`fixed_actions`"))
        values = check_array(self.values, "Values")
        if values.shape != (2,) or not 0.0 <= values[0] <= values[1] <= 1.0:
            raise InvalidParameter(f"Values are two probabilities, the lower one first, got {short_repr(self.values)}.")
        object.__setattr__(self, "values", tuple(values.tolist()))
        check_size("The contexts of a round", self.n_actions, self.n_features)
        check_size("The centers of the clusters", self.n_clusters, self.n_features)

    @property
    def reward_range(self) -> tuple[float, float]:
        """Range of rewards, which are 0 or 1."""
        return 0.0, 1.0

    def start(self, rng: np.random.Generator) -> DrawnRounds:
        """Draw the clusters and start a run; clusters, contexts and noise have separate generators."""
        group_rng, context_rng, noise_rng = rng.spawn(3)
        centers = group_rng.random((self.n_clusters, self.n_features))
        values = group_rng.uniform(*self.values, size=self.n_clusters)
        return DrawnRounds(self._rounds(centers, values, context_rng, noise_rng))

    def describe(self) -> Parameters:
        """Return class and parameters as plain values."""
        return {"class": type(self).__name__, **vars(self), "values": list(self.values)}

    def _rounds(
        self, centers: Matrix, values: Vector, context_rng: np.random.Generator, noise_rng: np.random.Generator
    ) -> Iterator[tuple[Round, Vector]]:
        observed: Round | None = None
        while True:
            if observed is None or not self.fixed_actions:
                groups = context_rng.integers(self.n_clusters, size=self.n_actions)
                noise = context_rng.standard_normal((self.n_actions, self.n_features))
                contexts = centers[groups] + self.spread * noise
                contexts.setflags(write=False)  # shared by all rounds if actions are fixed
                observed = Round(contexts, expected=values[groups])
            assert observed.expected is not None
            yield observed, (noise_rng.random(self.n_actions) < observed.expected).astype(np.float64)
