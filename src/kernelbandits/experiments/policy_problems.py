"""The six problems of the policy study: environments with rewards of 0 and 1, and the kernel of a policy in each.

No trivial rule does well on them: rows have equal length where rewards are linear, the actions of every run stand in a
random order, and nothing is known without exploration (`tests/unit/experiments/test_policy_problems.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import sqrt
from typing import Final, Literal, cast

import numpy as np

from kernelbandits.environments import Clustered, DrawnRounds, Environment, Round, SyntheticRKHS
from kernelbandits.environments.base import BatchWorld
from kernelbandits.evaluation import start_world
from kernelbandits.experiments.policy_spec import RunInfo
from kernelbandits.kernels import Gaussian, Kernel, Laplacian, PairProduct, Precomputed, median_length_scale
from kernelbandits.types import Matrix, Pairs, Parameters, Vector

__all__ = [
    "PROBLEMS",
    "CenteredLinear",
    "ContextAction",
    "InUnitBall",
    "Problem",
    "SimilarityTableOnly",
]

N_FIXED: Final = 100
"""Actions of a problem in which they stay the same."""

N_SHOWN: Final = 20
"""Actions of a round in which the set or the context is new."""

HIGHEST: Final = 0.95
"""Largest probability of a reward: the best action is good but not certain."""


def _with_rewards(rounds: Iterator[Round], rng: np.random.Generator) -> Iterator[tuple[Round, Vector]]:
    """Rounds with rewards of 0 and 1, drawn for every action."""
    for shown in rounds:
        assert shown.expected is not None
        yield shown, (rng.random(len(shown.expected)) < shown.expected).astype(np.float64)


@dataclass(frozen=True)
class CenteredLinear:
    """Fixed actions on a sphere, with probabilities of reward that are linear in their features.

    A row is (1, z)/√2 with z uniform on the unit sphere, and the probability of a reward 0.5 + 0.45 θ·z with θ uniform
    on it too. All rows have length 1 and every direction is equally likely, so neither length nor order tells which
    action is best. The constant column lets linear models without an intercept represent the function.
    """

    n_actions: int = N_FIXED
    n_features: int = 5
    """Columns of z."""

    reward_range: tuple[float, float] = (0.0, 1.0)

    def start(self, rng: np.random.Generator) -> DrawnRounds:
        """Draw actions and θ, and start a run."""
        drawn, noise = rng.spawn(2)
        directions = drawn.standard_normal((self.n_actions + 1, self.n_features))
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        rows = np.column_stack([np.ones(self.n_actions), directions[1:]]) / sqrt(2.0)
        shown = _fixed(rows, 0.5 + (HIGHEST - 0.5) * directions[1:] @ directions[0])
        return DrawnRounds(_with_rewards(shown, noise))

    def describe(self) -> Parameters:
        """Class and parameters."""
        return {"class": type(self).__name__, "n_actions": self.n_actions, "n_features": self.n_features}


def _fixed(rows: Matrix, expected: Vector) -> Iterator[Round]:
    rows.setflags(write=False)  # shared by all rounds
    shown = Round(rows, expected=expected)
    while True:
        yield shown


@dataclass(frozen=True)
class InUnitBall:
    """An environment with contexts in the unit cube, in a random order and scaled into the unit ball.

    Many proofs assume the ball. The order is drawn once per run, since `SyntheticRKHS` makes its first actions the
    centers of its function.
    """

    environment: Environment
    n_features: int

    @property
    def reward_range(self) -> tuple[float, float] | None:
        """That of the inner environment."""
        return self.environment.reward_range

    def start(self, rng: np.random.Generator) -> DrawnRounds:
        """Start a run."""
        return DrawnRounds(self._rounds(rng))

    def _rounds(self, rng: np.random.Generator) -> Iterator[tuple[Round, Vector]]:
        world = cast(BatchWorld, self.environment.start(rng))
        (order_rng,) = rng.spawn(1)
        order = None
        while True:
            ((shown, rewards),) = world.peek_rounds(1)
            assert shown.expected is not None
            if order is None:
                order = order_rng.permutation(len(rewards))
            contexts = np.clip(shown.contexts[order], 0.0, 1.0) / sqrt(self.n_features)
            yield Round(contexts, expected=shown.expected[order]), rewards[order]

    def describe(self) -> Parameters:
        """Class and parameters."""
        return {"class": type(self).__name__, "environment": self.environment.describe()}


@dataclass(frozen=True)
class ContextAction:
    """Fixed actions and a new context in every round, with a smooth function of both.

    Contexts and actions are uniform in the unit square. The probability of a reward is a sum of bumps
    Σᵢ cᵢ k(x, xᵢ) k'(a, aᵢ), with Gaussian kernels of length scale 0.2 over contexts and 0.15 over actions, scaled to a
    largest value of 0.95. Each action is good in a part of the contexts. Actions have ids.
    """

    encoding: Literal["pairs", "rows"] = "pairs"
    """"pairs": `Pairs(context, actions)`. "rows": one row per action, the products of the columns of (1, x) and (1, a)
    divided by 3, which a linear model can use; the run is the same."""

    n_actions: int = N_SHOWN
    n_centers: int = 10
    reward_range: tuple[float, float] = (0.0, 1.0)

    def start(self, rng: np.random.Generator) -> DrawnRounds:
        """Draw actions and bumps, and start a run."""
        drawn, contexts, noise = rng.spawn(3)
        return DrawnRounds(_with_rewards(self._rounds(drawn, contexts), noise))

    def _rounds(self, drawn: np.random.Generator, rng: np.random.Generator) -> Iterator[Round]:
        kernel, over_actions = Gaussian(length_scale=0.2), Gaussian(length_scale=0.15)
        actions, centers = drawn.random((self.n_actions, 2)), drawn.random((self.n_centers, 2))
        actions.setflags(write=False)  # shared by all rounds
        heights = drawn.uniform(0.5, 1.0, size=self.n_centers)
        bumps = heights * over_actions.gram(actions, actions[drawn.integers(self.n_actions, size=self.n_centers)])
        lattice = np.stack(np.meshgrid(*[np.linspace(0.0, 1.0, 41)] * 2), axis=-1).reshape(-1, 2)
        bumps *= HIGHEST / np.max(bumps @ kernel.gram(centers, lattice))
        ids = tuple(f"action {number}" for number in range(self.n_actions))
        while True:
            context = rng.random(2)
            expected = np.minimum(bumps @ kernel.gram(centers, context[None])[:, 0], 1.0)
            yield Round(self._encoded(context, actions), ids=ids, expected=expected)

    def _encoded(self, context: Vector, actions: Matrix) -> Pairs | Matrix:
        if self.encoding == "pairs":
            return Pairs(context, actions)
        sides = np.append(1.0, context), np.column_stack([np.ones(len(actions)), actions])
        return np.asarray((sides[1][:, :, None] * sides[0]).reshape(len(actions), -1) / 3.0)

    def describe(self) -> Parameters:
        """Class and parameters."""
        return {
            "class": type(self).__name__,
            "encoding": self.encoding,
            "n_actions": self.n_actions,
            "n_centers": self.n_centers,
        }


@dataclass(frozen=True)
class SimilarityTableOnly:
    """Fixed items of which only a table of similarities is known, with a function of a few bumps over it.

    The table is the same in every run: a Laplacian kernel of length scale 0.3 over hidden points, uniform in the unit
    cube. Each run draws the items that are centers of its function.
    """

    n_actions: int = N_FIXED
    n_centers: int = 5
    reward_range: tuple[float, float] = (0.0, 1.0)

    @property
    def kernel(self) -> Precomputed:
        """Similarities by id."""
        hidden = np.random.default_rng(0).random((self.n_actions, 3))
        return Precomputed(Laplacian(length_scale=0.3).gram(hidden), ids=self._ids)

    @property
    def _ids(self) -> tuple[str, ...]:
        return tuple(f"item {number}" for number in range(self.n_actions))

    def start(self, rng: np.random.Generator) -> DrawnRounds:
        """Draw the function and start a run."""
        drawn, noise = rng.spawn(2)
        centers = drawn.choice(self.n_actions, size=self.n_centers, replace=False)
        bumps = self.kernel.table.values[:, centers] @ drawn.exponential(size=self.n_centers)
        expected = bumps * (HIGHEST / bumps.max())
        return DrawnRounds(_with_rewards(self._rounds(expected), noise))

    def _rounds(self, expected: Vector) -> Iterator[Round]:
        shown = Round(self._ids, ids=self._ids, expected=expected)
        while True:
            yield shown

    def describe(self) -> Parameters:
        """Class and parameters."""
        return {"class": type(self).__name__, "n_actions": self.n_actions, "n_centers": self.n_centers}


@dataclass(frozen=True, eq=False)
class Problem:
    """An environment with what decides which policies are defined in it."""

    environment: Environment
    kernel: Callable[[RunInfo], Kernel]
    """Kernel of a policy, from what may be known before the first reward: Gaussian with half the median distance as
    length scale wherever there are features."""

    rows: Environment | None
    """The same runs with one row of features per action; None: there are no features."""

    has_fixed_contexts: bool
    """The same actions with the same contexts in every round."""

    has_fixed_actions: bool
    """The same actions in every round, maybe with a new context."""


def _half_median(run: RunInfo) -> Gaussian:
    return Gaussian(length_scale=0.5 * median_length_scale(run.contexts, seed=0))


N_SAMPLED: Final = 100
"""Rounds from which the median distance of two contexts is taken."""


def _half_medians(run: RunInfo) -> PairProduct:
    world = start_world(run.environment, run.seed)
    contexts = np.array([world.observe().contexts.context for _ in range(N_SAMPLED)])
    sides = contexts, run.contexts.actions
    return PairProduct(*(Gaussian(length_scale=0.5 * median_length_scale(rows, seed=0)) for rows in sides))


def _table(run: RunInfo) -> Precomputed:
    return cast(SimilarityTableOnly, run.environment).kernel


def _fixed_rows(environment: Environment) -> Problem:
    return Problem(environment, _half_median, environment, has_fixed_contexts=True, has_fixed_actions=True)


_SMOOTH: Final = SyntheticRKHS(
    Gaussian(length_scale=0.2), n_actions=N_FIXED, n_features=2, n_centers=5, fixed_actions=True, noise="bernoulli"
)
_CHANGING: Final = InUnitBall(
    SyntheticRKHS(Gaussian(length_scale=0.1), n_actions=N_SHOWN, n_features=2, n_centers=8, noise="bernoulli"), 2
)

PROBLEMS: Final[Mapping[str, Problem]] = {
    "linear": _fixed_rows(CenteredLinear()),
    "smooth": _fixed_rows(InUnitBall(_SMOOTH, 2)),
    "clustered": _fixed_rows(
        InUnitBall(Clustered(n_actions=N_FIXED, n_features=2, n_clusters=5, fixed_actions=True), 2)
    ),
    "changing": Problem(_CHANGING, _half_median, _CHANGING, has_fixed_contexts=False, has_fixed_actions=False),
    "context × action": Problem(
        ContextAction(), _half_medians, ContextAction("rows"), has_fixed_contexts=False, has_fixed_actions=True
    ),
    "table": Problem(SimilarityTableOnly(), _table, None, has_fixed_contexts=True, has_fixed_actions=True),
}
"""Problems of the policy study by name."""
