"""Published environments: EK-UCB's joint spaces, NeuralUCB's functions and the wheel."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass
from functools import cache
from itertools import islice
from typing import ClassVar, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from kernelbandits.environments.base import DrawnRounds, Round
from kernelbandits.errors import InvalidParameter
from kernelbandits.types import Matrix, Pairs, Parameters, Points, Vector
from kernelbandits.validation import (
    check_array,
    check_bool,
    check_int,
    check_nonnegative,
    check_positive,
    check_seed,
    check_size,
    is_one_of,
    short_repr,
)

__all__ = [
    "Bump",
    "Chessboard",
    "CosineWave",
    "InnerSquare",
    "JointSpace",
    "QuadraticForm",
    "Spherical",
    "StepDiagonal",
    "Wheel",
]

N_ACTIONS: Final = 10

PUBLISHED_FIRST_ACTION: Final = 2
"""Row that the authors' agents select first: the result of RandomState(123).choice(10)."""


class BumpParameters(NamedTuple):
    """Parameters of the bump function."""

    action: float
    context: Vector
    slope: Vector


class PublishedRound(NamedTuple):
    """A round of the authors' stream: one noise value for the chosen action, another for the best reward."""

    context: Vector
    noise: float
    best_noise: float


@dataclass(frozen=True, kw_only=True)
class JointSpace(ABC):
    """Base class of three environments: ten fixed actions a, contexts x uniform in [0, 1]^p, rewards f(x, a) + noise.

    A row of a round is (x, a), the context's columns followed by the action. Expected rewards are those of the ten
    actions, so pseudo-regret is measured against the best attainable reward.

    Parameters
    ----------
    noise_scale
        Standard deviation of the Gaussian noise, drawn independently for every action unless the stream is published.
    published
        False: contexts and noise come from the run's generator. True: from the stream that the authors' code draws for
        the run's seed (theirs are 0, 1 and 2), with one noise value per round for all actions. Their first round, which
        is chosen at random and not counted, is then the initial history of every policy.
    """

    n_columns: ClassVar[int]
    """Number of columns of a context, without the action."""

    noise_scale: float = 0.1
    published: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "noise_scale", check_nonnegative(self.noise_scale, "The noise scale"))
        object.__setattr__(self, "published", check_bool(self.published, "`published`"))

    @abstractmethod
    def value(self, context: Vector, actions: Vector) -> Vector:
        """Return the expected reward of each action in a context."""

    def claimed_best(self, context: Vector) -> float:
        """Return the reward that the authors measure regret against: 1, even if no action attains it."""
        return 1.0

    @property
    def actions(self) -> Vector:
        """The ten actions, the same in every run."""
        return _published_draws()[0].copy()

    @property
    def reward_range(self) -> None:
        """None: Gaussian noise is unbounded."""
        return None

    def start(self, rng: np.random.Generator) -> DrawnRounds:
        """Start a run; contexts and noise have separate generators, or come from the published stream."""
        return PublishedWorld(self, _seed_of(rng)) if self.published else DrawnRounds(self._fresh_rounds(*rng.spawn(2)))

    def describe(self) -> Parameters:
        """Return class and parameters as plain values."""
        return {"class": type(self).__name__, **vars(self)}

    def printed_regret(self, rewards: ArrayLike, *, seed: int) -> Vector:
        """Return the cumulative regret as the authors print it: Σ (claimed best + separate noise) − Σ reward.

        It grows linearly for any policy if the claimed best is not attainable, and it is noisy; `Trace.regret` is
        neither. The authors print it at step t after t + 1 rounds: `printed_regret(trace.reward)[t]`.

        Parameters
        ----------
        rewards
            Rewards of the first rounds of a run of the published stream: `trace.reward`.
        seed
            Seed of that run.
        """
        paid = check_array(rewards, "The rewards of a run")
        return self.claimed_total(len(paid), seed=seed) - np.cumsum(paid)

    def claimed_total(self, n_rounds: int, *, seed: int) -> Vector:
        """Return Σ (claimed best + separate noise) after each of the first rounds of the published stream."""
        rounds = islice(_stream(self, check_seed(seed)), 1, 1 + n_rounds)
        return np.cumsum([self.claimed_best(context) + noise for context, _, noise in rounds])

    def round_at(self, context: Vector) -> tuple[Round, Vector]:
        """Return the round of a context, and the expected rewards of its actions."""
        actions = _published_draws()[0]
        contexts = np.column_stack([np.tile(context, (len(actions), 1)), actions])
        expected = self.value(context, contexts[:, -1])
        return Round(contexts, expected=expected), expected

    def _fresh_rounds(
        self, context_rng: np.random.Generator, noise_rng: np.random.Generator
    ) -> Iterator[tuple[Round, Vector]]:
        while True:
            observed, expected = self.round_at(context_rng.random(self.n_columns))
            yield observed, expected + self.noise_scale * noise_rng.standard_normal(len(expected))


class PublishedWorld(DrawnRounds):
    """One run of the authors' stream."""

    def __init__(self, environment: JointSpace, seed: int) -> None:
        self._environment, self._seed = environment, seed
        super().__init__(self._same_rounds())

    def initial_history(self) -> tuple[Matrix, Vector]:
        """Return the authors' first round: one row, chosen at random, and its reward."""
        context, noise, _ = next(_stream(self._environment, self._seed))
        observed, expected = self._environment.round_at(context)
        return observed.contexts[[PUBLISHED_FIRST_ACTION]], expected[[PUBLISHED_FIRST_ACTION]] + noise

    def _same_rounds(self) -> Iterator[tuple[Round, Vector]]:
        for context, noise, _ in islice(_stream(self._environment, self._seed), 1, None):
            observed, expected = self._environment.round_at(context)
            yield observed, expected + noise


def _stream(environment: JointSpace, seed: int) -> Iterator[PublishedRound]:
    """Yield the authors' draws in their order: context, noise, noise of the best; the first round lacks the last."""
    state, scale = np.random.RandomState(seed), environment.noise_scale
    has_best = False
    while True:
        context = state.uniform(size=environment.n_columns)
        noise = state.normal(scale=scale)
        yield PublishedRound(context, noise, state.normal(scale=scale) if has_best else 0.0)
        has_best = True


def _seed_of(rng: np.random.Generator) -> int:
    """Return the integer seed of a generator."""
    entropy = getattr(rng.bit_generator.seed_seq, "entropy", None)
    if not isinstance(entropy, int | np.integer) or entropy >= 2**32:
        raise InvalidParameter(
            f"A published stream must have a seed from 0 to 4,294,967,295, got a run without such a seed "
            f"({entropy!r}). The authors' seeds are 0, 1 and 2: simulate(..., seed=0)."
        )
    return int(entropy)


@dataclass(frozen=True, kw_only=True)
class Bump(JointSpace):
    """A ridge in five context columns: f(x, a) = max(0, 1 − |a − a*| − w·(x − x*)) (Zenati et al. 2022).

    a* is one of the ten actions, so the same action is the best in every context with a positive reward; x* is uniform
    in [0, 1]⁵ and w in [−1, 1]⁵. All are drawn once and are the same in every run. Parameters as in `JointSpace`.

    Under a kernel as narrow as the authors' (length scale 0.1), hardly any two contexts of five columns are similar:
    most scores of a round then differ by less than 1e-10, which the policies of this library treat as ties, and the tie
    rule decides.

    Examples
    --------
    >>> world = Bump(published=True).start(np.random.default_rng(0))
    >>> observed = world.observe()
    >>> observed.contexts.shape, int(observed.expected.argmax())
    ((10, 6), 8)
    """

    n_columns: ClassVar[int] = 5

    def value(self, context: Vector, actions: Vector) -> Vector:
        """Return the expected reward of each action in a context."""
        return np.maximum(0.0, 1.0 - np.abs(actions - _published_draws()[1].action) - self._tilt(context))

    def claimed_best(self, context: Vector) -> float:
        """Return the reward of a*, which the best action attains."""
        return max(0.0, 1.0 - self._tilt(context))

    def _tilt(self, context: Vector) -> float:
        bump = _published_draws()[1]
        return float((context - bump.context) @ bump.slope)


@dataclass(frozen=True, kw_only=True)
class Chessboard(JointSpace):
    """Squares of side ¼ over (x, a) with reward 1, ½ or 0 (Zenati et al. 2022). Parameters as in `JointSpace`.

    For x in the first or the third quarter, no action has reward 1: the attainable mean reward is 0.75 per round.

    Examples
    --------
    >>> Chessboard().value(np.array([0.3]), np.array([0.1, 0.3, 0.6]))
    array([1., 0., 1.])
    """

    n_columns: ClassVar[int] = 1

    BOARD: ClassVar[Matrix] = np.array(  # rows: quarters of x; columns: quarters of a
        [[0.0, 0.5, 0.0, 0.0], [1.0, 0.0, 1.0, 0.0], [0.0, 0.5, 0.0, 0.5], [0.0, 0.0, 1.0, 0.0]]
    )

    def value(self, context: Vector, actions: Vector) -> Vector:
        """Return the expected reward of each action in a context."""
        return self.BOARD[_quarter(context), _quarter(actions)]


@dataclass(frozen=True, kw_only=True)
class StepDiagonal(JointSpace):
    """Two stripes along x = a: 1 if |x − (a + 0.15)| < 0.1, else ½ if |x − (a − 0.15)| < 0.1, else 0.

    In some contexts no action has reward 1: the attainable mean reward is 0.965 per round (Zenati et al. 2022).
    Parameters as in `JointSpace`.

    Examples
    --------
    >>> StepDiagonal().value(np.array([0.3]), np.array([0.1, 0.3, 0.5]))
    array([1. , 0. , 0.5])
    """

    n_columns: ClassVar[int] = 1

    def value(self, context: Vector, actions: Vector) -> Vector:
        """Return the expected reward of each action in a context."""
        above, below = np.abs(context - (actions + 0.15)) < 0.1, np.abs(context - (actions - 0.15)) < 0.1
        return np.where(above, 1.0, np.where(below, 0.5, 0.0))


def _quarter(values: Vector) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    return np.minimum(values // 0.25, 3).astype(np.intp)


@cache
def _published_draws() -> tuple[Vector, BumpParameters]:
    """Return the authors' one-time draws, in their order: ten actions, then the parameters of the bump."""
    state = np.random.RandomState(123)
    actions = state.choice(np.arange(0, 1, 0.01), size=N_ACTIONS, replace=False)
    actions.setflags(write=False)
    action = actions[state.choice(N_ACTIONS)]
    return actions, BumpParameters(float(action), state.uniform(0, 1, size=5), state.uniform(-1, 1, size=5))


@dataclass(frozen=True, kw_only=True)
class Spherical(ABC):
    """Base class of the three environments: contexts uniform on the sphere, redrawn each round, rewards h(x) + noise.

    Parameters
    ----------
    n_actions, n_features
        Number of actions per round, and number of columns of each context.
    noise_scale
        Standard deviation of the Gaussian noise.
    seed
        None: each run draws its own function. A number: every run has the same function.
    """

    n_actions: int = 4
    n_features: int = 20
    noise_scale: float = 1.0
    seed: int | None = None

    def __post_init__(self) -> None:
        for name in ("n_actions", "n_features"):
            object.__setattr__(self, name, check_int(getattr(self, name), name))
        check_size("The contexts of a round", self.n_actions, self.n_features)
        object.__setattr__(self, "noise_scale", check_nonnegative(self.noise_scale, "The noise scale"))
        if self.seed is not None:
            object.__setattr__(self, "seed", check_seed(self.seed, "The seed of the function"))

    @abstractmethod
    def function(self, rng: np.random.Generator) -> Callable[[Matrix], Vector]:
        """Draw h: a function from rows to expected rewards."""

    @property
    def reward_range(self) -> None:
        """None: Gaussian noise is unbounded."""
        return None

    def start(self, rng: np.random.Generator) -> DrawnRounds:
        """Draw a function and start a run; function, contexts and noise have separate generators."""
        function_rng, context_rng, noise_rng = rng.spawn(3)
        function = self.function(function_rng if self.seed is None else np.random.default_rng(self.seed))
        return DrawnRounds(self._rounds(function, context_rng, noise_rng))

    def describe(self) -> Parameters:
        """Return class and parameters as plain values."""
        return {"class": type(self).__name__, **vars(self)}

    def _rounds(
        self,
        function: Callable[[Matrix], Vector],
        context_rng: np.random.Generator,
        noise_rng: np.random.Generator,
    ) -> Iterator[tuple[Round, Vector]]:
        while True:
            contexts = _on_the_sphere(context_rng, self.n_actions, self.n_features)
            expected = function(contexts)
            noise = self.noise_scale * noise_rng.standard_normal(self.n_actions)
            yield Round(contexts, expected=expected), expected + noise


@dataclass(frozen=True, kw_only=True)
class InnerSquare(Spherical):
    """h(x) = 10 (xᵀa)², a uniform on the unit sphere (Zhou et al. 2020, their h₁). Parameters as in `Spherical`.

    Examples
    --------
    >>> world = InnerSquare(n_features=3).start(np.random.default_rng(1))
    >>> world.observe().contexts.shape
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
    >>> bool((world.observe().expected >= 0).all())
    True
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        check_size("The entries of A", self.n_features, self.n_features)

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
    >>> bool((world.observe().expected <= 1).all())
    True
    """

    def function(self, rng: np.random.Generator) -> Callable[[Matrix], Vector]:
        """Draw a."""
        direction = _on_the_sphere(rng, 1, self.n_features)[0]
        return lambda contexts: np.asarray(np.cos(3.0 * (contexts @ direction)))


def _on_the_sphere(rng: np.random.Generator, n_rows: int, n_columns: int) -> Matrix:
    """Return rows uniform on the unit sphere: normal draws, scaled to length 1."""
    rows = rng.standard_normal((n_rows, n_columns))
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


LABELS: Final = (1, 2, 3, 4, 5)
"""Action labels as numbered in the paper: one per quadrant, and a safe one."""

SAFE, SAFE_REWARD, PLAIN_REWARD, RIM_REWARD = 4, 1.2, 1.0, 50.0

Encoding = Literal["pairs", "rows", "disjoint"]


@dataclass(frozen=True)
class Wheel:
    """Contexts uniform in the unit disc, five actions; the highest reward is observable only near the rim.

    The fifth action always has reward 1.2 and the others 1.0, except that for ‖x‖ ≥ radius the action of x's quadrant
    has reward 50. The larger the radius, the rarer the informative contexts.

    Parameters
    ----------
    radius
        Inner radius of the rim, from 0 up to, not including, 1. 0.5 is easy, 0.99 hard.
    scale
        Factor of rewards and noise: 1/50 scales them to [0, 1], up to the noise.
    noise_scale
        Standard deviation of the noise before scaling.
    encoding
        "pairs": Pairs(x, labels), for one kernel per action,
        `PairProduct(context=Gaussian(length_scale=0.3), action=Delta())`. "rows": x itself for every action, with its
        label as id, for `LinUCB(model="disjoint")`. "disjoint": x in the action's own block of ten columns, for any
        kernel over rows.

    Examples
    --------
    >>> import kernelbandits as kb
    >>> from kernelbandits.kernels import Delta, Gaussian, PairProduct
    >>> kernel = PairProduct(context=Gaussian(length_scale=0.3), action=Delta())
    >>> policy = kb.KernelUCB(kernel, regularization=0.01, exploration=0.02)
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
        object.__setattr__(self, "radius", check_nonnegative(self.radius, "The radius"))
        if self.radius >= 1.0:
            raise InvalidParameter(f"The radius must be below 1, where the disc ends, got {self.radius!r}.")
        object.__setattr__(self, "scale", check_positive(self.scale, "The scale"))
        object.__setattr__(self, "noise_scale", check_nonnegative(self.noise_scale, "The noise scale"))
        if not is_one_of(self.encoding, ("pairs", "rows", "disjoint")):
            raise InvalidParameter(
                f'The encoding must be "pairs", "rows" or "disjoint", got {short_repr(self.encoding)}.'
            )

    @property
    def reward_range(self) -> None:
        """None: Gaussian noise is unbounded."""
        return None

    def start(self, rng: np.random.Generator) -> DrawnRounds:
        """Start a run; contexts and noise have separate generators."""
        return DrawnRounds(self._rounds(*rng.spawn(2)))

    def describe(self) -> Parameters:
        """Return class and parameters as plain values."""
        return {"class": type(self).__name__, **vars(self)}

    def value(self, context: Vector) -> Vector:
        """Return the expected reward of each action in a context."""
        values = np.full(len(LABELS), PLAIN_REWARD)
        values[SAFE] = SAFE_REWARD
        if np.hypot(*context) >= self.radius:
            values[2 * int(context[0] < 0.0) + int(context[1] < 0.0)] = RIM_REWARD
        return self.scale * values

    def _rounds(
        self, context_rng: np.random.Generator, noise_rng: np.random.Generator
    ) -> Iterator[tuple[Round, Vector]]:
        while True:
            context = _in_the_disc(context_rng)
            expected = self.value(context)
            ids = list(LABELS) if self.encoding == "rows" else None
            noise = self.scale * self.noise_scale * noise_rng.standard_normal(len(expected))
            yield Round(self._encoded(context), ids=ids, expected=expected), expected + noise

    def _encoded(self, context: Vector) -> Points:
        if self.encoding == "pairs":
            return Pairs(context, list(LABELS))
        if self.encoding == "rows":
            return np.tile(context, (len(LABELS), 1))
        return np.kron(np.eye(len(LABELS)), context)


def _in_the_disc(rng: np.random.Generator) -> Vector:
    """Return a point uniform in the unit disc: its radius is the square root of a uniform number."""
    radius, angle = np.sqrt(rng.random()), 2.0 * np.pi * rng.random()
    return np.array([radius * np.cos(angle), radius * np.sin(angle)])
