"""Three published worlds over the joint space of a context and ten actions (Zenati et al. 2022, EK-UCB)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import ClassVar, Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from kernelbandits.checks import a_flag, a_seed, an_array, not_negative
from kernelbandits.environments.base import DrawnRounds, Round
from kernelbandits.errors import InvalidParameter
from kernelbandits.types import Matrix, Parameters, Vector

__all__ = ["Bump", "Chessboard", "JointSpace", "StepDiagonal"]

N_ACTIONS: Final = 10

PUBLISHED_FIRST_ACTION: Final = 2
"""Row that the authors' agents try first: what RandomState(123).choice(10) draws."""


class BumpParameters(NamedTuple):
    """What the bump is made of."""

    action: float
    context: Vector
    slope: Vector


class PublishedRound(NamedTuple):
    """A round of the authors' stream: one noise for whichever action is taken, another for the best reward."""

    context: Vector
    noise: float
    best_noise: float


@dataclass(frozen=True, kw_only=True)
class JointSpace(ABC):
    """What the three worlds share: ten fixed actions a, contexts x uniform in [0, 1]^p, rewards f(x, a) + noise.

    A row of a round is (x, a), the context's columns and then the action. Expected rewards are those of the ten
    actions, so pseudo-regret is measured against the best that can be attained.

    Parameters
    ----------
    noise_scale
        Standard deviation of the Gaussian noise. Drawn for every action on its own, unless the stream is published.
    published
        False: contexts and noise come from the run's generator. True: from the stream that the authors' code draws for
        the run's seed (theirs are 0, 1 and 2), in which one noise a round serves all actions. Their very first round,
        played at random and counted nowhere, is then what every policy starts from.
    """

    n_columns: ClassVar[int]
    """Columns of a context, the action's not counted."""

    noise_scale: float = 0.1
    published: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "noise_scale", not_negative(self.noise_scale, "The noise scale"))
        object.__setattr__(self, "published", a_flag(self.published, "`published`"))

    @abstractmethod
    def value(self, context: Vector, actions: Vector) -> Vector:
        """Expected reward of each action in a context."""

    def claimed_best(self, context: Vector) -> float:
        """The reward that the authors measure regret against: 1, also where no action attains it."""
        return 1.0

    @property
    def actions(self) -> Vector:
        """The ten actions, the same in every run."""
        return _published_draws()[0].copy()

    @property
    def reward_range(self) -> None:
        """Gaussian noise knows no bounds."""
        return None

    def start(self, rng: np.random.Generator) -> DrawnRounds:
        """Begin a run; contexts and luck have a generator each, or come from the published stream."""
        return PublishedWorld(self, _seed_of(rng)) if self.published else DrawnRounds(self._fresh_rounds(*rng.spawn(2)))

    def describe(self) -> Parameters:
        """Class and parameters as plain values."""
        return {"class": type(self).__name__, **vars(self)}

    def printed_regret(self, rewards: ArrayLike, *, seed: int) -> Vector:
        """Cumulative regret as the authors print it: Σ (claimed best + a noise of its own) − Σ reward.

        It grows linearly for any policy where the claimed best cannot be attained, and it is noisy; `Trace.regret` is
        neither. The authors print it at step t after t + 1 rounds: `printed_regret(trace.reward)[t]`.

        Parameters
        ----------
        rewards
            What was paid in the first rounds of a run of the published stream: `trace.reward`.
        seed
            Of that run.
        """
        paid = an_array(rewards, "The rewards of a run")
        return self.claimed_total(len(paid), seed=seed) - np.cumsum(paid)

    def claimed_total(self, n_rounds: int, *, seed: int) -> Vector:
        """Σ (claimed best + a noise of its own) after each of the first rounds of the published stream."""
        rounds = islice(_stream(self, a_seed(seed)), 1, 1 + n_rounds)
        return np.cumsum([self.claimed_best(context) + noise for context, _, noise in rounds])

    def shown(self, context: Vector) -> tuple[Round, Vector]:
        """The round of a context, and what its actions pay on average."""
        actions = _published_draws()[0]
        contexts = np.column_stack([np.tile(context, (len(actions), 1)), actions])
        expected = self.value(context, contexts[:, -1])
        return Round(contexts, expected=expected), expected

    def _fresh_rounds(
        self, context_rng: np.random.Generator, luck_rng: np.random.Generator
    ) -> Iterator[tuple[Round, Vector]]:
        while True:
            shown, expected = self.shown(context_rng.random(self.n_columns))
            yield shown, expected + self.noise_scale * luck_rng.standard_normal(len(expected))


class PublishedWorld(DrawnRounds):
    """One run of the authors' stream."""

    def __init__(self, environment: JointSpace, seed: int) -> None:
        self._environment, self._seed = environment, seed
        super().__init__(self._same_rounds())

    def warm_up(self) -> tuple[Matrix, Vector]:
        """The authors' first round: one row, tried at random, and what it paid."""
        context, noise, _ = next(_stream(self._environment, self._seed))
        shown, expected = self._environment.shown(context)
        return shown.contexts[[PUBLISHED_FIRST_ACTION]], expected[[PUBLISHED_FIRST_ACTION]] + noise

    def _same_rounds(self) -> Iterator[tuple[Round, Vector]]:
        for context, noise, _ in islice(_stream(self._environment, self._seed), 1, None):
            shown, expected = self._environment.shown(context)
            yield shown, expected + noise


def _stream(environment: JointSpace, seed: int) -> Iterator[PublishedRound]:
    """The authors' draws in their order: context, noise, noise of the best; the first round has no such last."""
    state, scale = np.random.RandomState(seed), environment.noise_scale
    has_best = False
    while True:
        context = state.uniform(size=environment.n_columns)
        noise = state.normal(scale=scale)
        yield PublishedRound(context, noise, state.normal(scale=scale) if has_best else 0.0)
        has_best = True


def _seed_of(rng: np.random.Generator) -> int:
    """The whole number that a generator was made of."""
    entropy = getattr(rng.bit_generator.seed_seq, "entropy", None)
    if not isinstance(entropy, int | np.integer) or entropy >= 2**32:
        raise InvalidParameter(
            f"A published stream has a seed from 0 to 4,294,967,295, got a run without such a seed ({entropy!r}). The "
            "authors' seeds are 0, 1 and 2: simulate(..., seed=0)."
        )
    return int(entropy)


@dataclass(frozen=True, kw_only=True)
class Bump(JointSpace):
    """A ridge in five context columns: f(x, a) = max(0, 1 − |a − a*| − w·(x − x*)) (Zenati et al. 2022).

    a* is one of the ten actions, so the same action is the best one wherever any pays; x* is uniform in [0, 1]⁵ and w
    in [−1, 1]⁵. All are drawn once and are the same in every run. Parameters as in `JointSpace`.

    A kernel as narrow as the authors' (length scale 0.1) sees hardly any two contexts of five columns as similar: most
    scores of a round then differ by less than 1e-10, which policies here take for ties, and the tie rule decides.

    Examples
    --------
    >>> world = Bump(published=True).start(np.random.default_rng(0))
    >>> shown = world.show()
    >>> shown.contexts.shape, int(shown.expected.argmax())
    ((10, 6), 8)
    """

    n_columns: ClassVar[int] = 5

    def value(self, context: Vector, actions: Vector) -> Vector:
        """Expected reward of each action in a context."""
        return np.maximum(0.0, 1.0 - np.abs(actions - _published_draws()[1].action) - self._tilt(context))

    def claimed_best(self, context: Vector) -> float:
        """The reward of a*: what the best action attains."""
        return max(0.0, 1.0 - self._tilt(context))

    def _tilt(self, context: Vector) -> float:
        bump = _published_draws()[1]
        return float((context - bump.context) @ bump.slope)


@dataclass(frozen=True, kw_only=True)
class Chessboard(JointSpace):
    """Squares of side ¼ over (x, a) that pay 1, ½ or nothing (Zenati et al. 2022). Parameters as in `JointSpace`.

    For x in the first quarter nothing pays 1, nor in the third: 0.75 a round can be attained on average.

    Examples
    --------
    >>> Chessboard().value(np.array([0.3]), np.array([0.1, 0.3, 0.6]))
    array([1., 0., 1.])
    """

    n_columns: ClassVar[int] = 1

    BOARD: ClassVar[Matrix] = np.array(  # a row a quarter of x, a column a quarter of a
        [[0.0, 0.5, 0.0, 0.0], [1.0, 0.0, 1.0, 0.0], [0.0, 0.5, 0.0, 0.5], [0.0, 0.0, 1.0, 0.0]]
    )

    def value(self, context: Vector, actions: Vector) -> Vector:
        """Expected reward of each action in a context."""
        return self.BOARD[_quarter(context), _quarter(actions)]


@dataclass(frozen=True, kw_only=True)
class StepDiagonal(JointSpace):
    """Two stripes along x = a: 1 where |x − (a + 0.15)| < 0.1, else ½ where |x − (a − 0.15)| < 0.1, else nothing.

    Some contexts have no action that pays 1: 0.965 a round can be attained on average (Zenati et al. 2022).
    Parameters as in `JointSpace`.

    Examples
    --------
    >>> StepDiagonal().value(np.array([0.3]), np.array([0.1, 0.3, 0.5]))
    array([1. , 0. , 0.5])
    """

    n_columns: ClassVar[int] = 1

    def value(self, context: Vector, actions: Vector) -> Vector:
        """Expected reward of each action in a context."""
        above, below = np.abs(context - (actions + 0.15)) < 0.1, np.abs(context - (actions - 0.15)) < 0.1
        return np.where(above, 1.0, np.where(below, 0.5, 0.0))


def _quarter(values: Vector) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    return np.minimum(values // 0.25, 3).astype(np.intp)


@cache
def _published_draws() -> tuple[Vector, BumpParameters]:
    """What the authors draw once and for all, in their order: ten actions, then the parts of the bump."""
    state = np.random.RandomState(123)
    actions = state.choice(np.arange(0, 1, 0.01), size=N_ACTIONS, replace=False)
    actions.setflags(write=False)
    action = actions[state.choice(N_ACTIONS)]
    return actions, BumpParameters(float(action), state.uniform(0, 1, size=5), state.uniform(-1, 1, size=5))
