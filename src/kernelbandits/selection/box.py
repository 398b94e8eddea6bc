"""Boxes as sets of actions, and the search for the best point of one by gradients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from math import nan
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from kernelbandits._text import repr_of_fields
from kernelbandits._threads import limit_blas_threads
from kernelbandits.errors import InvalidContexts, InvalidParameter
from kernelbandits.kernels import PairPoints, PointKind, Rows
from kernelbandits.kernels.pairs import PairRows
from kernelbandits.posterior import Pending, Posterior
from kernelbandits.selection.actions import Actions, ActionSet
from kernelbandits.selection.selector import Selector
from kernelbandits.selection.ties import TieBreaker, tied_for_best
from kernelbandits.types import Matrix, Point, Points, Prediction, Selection, SelectionCost, Vector
from kernelbandits.validation import check_vector, short_repr

__all__ = ["BOXES", "N_STARTS", "Box", "BoxActions", "GradientSearch", "Product", "maximize"]

N_STARTS: Final = 512
"""Quasi-random points of a box that are scored before the best of them are improved."""

N_BEST: Final = 8
"""Starts that are improved by gradients, together."""

N_LAST: Final = 3
"""Ends of this joint climb that climb on alone, since it stops when their sum has converged."""

N_TRIED: Final = 8
"""Best tried points, around which further starts lie."""

N_AROUND: Final = 8
"""Starts at and around each of the best tried points."""

RADIUS: Final = 0.1
"""Distance of these from the tried point in each column, as a fraction of the side of the box."""

APART: Final = 0.05
"""Distance between starts that are improved, in the same unit: two closer ones usually end at the same maximum."""

MOST_STEPS: Final = 200
"""Largest number of steps of a search by gradients."""

CLIMBING: Final = 1_000_000
"""Multiplications that a step of a search stands for when BLAS threads are limited: it is one of many, of a few rows.
With two threads on a busy machine a search of 30 steps took 400 ms, with one 30 ms."""

MOST_COLUMNS: Final = 1_000
"""Largest number of columns of a box."""

Climb: TypeAlias = Callable[[Matrix], tuple[Vector, Matrix]]
"""Function of rows in a box that returns a value and a gradient for each of them."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Box:
    """All rows between two corners, as the actions of a round.

    `choose` finds the best row by its gradients, and the decision holds it as its context.

    Parameters
    ----------
    low, high
        Corners, one number per column: low ≤ high. A column with low = high is fixed.

    Examples
    --------
    >>> import kernelbandits as kb
    >>> policy = kb.KernelUCB(kb.kernels.Gaussian(length_scale=0.5), regularization=0.1)
    >>> box = kb.Box(low=[0.0, 10.0], high=[1.0, 20.0])
    >>> decision = policy.choose(box)
    >>> decision.context
    array([ 0.5, 15. ])
    >>> policy.learn(decision, reward=0.3)
    """

    low: Vector
    high: Vector

    __repr__ = repr_of_fields

    def __init__(self, low: ArrayLike, high: ArrayLike) -> None:
        corners = [_corner(low, "The lower corner of a box"), _corner(high, "The upper corner of a box")]
        if corners[0].shape != corners[1].shape:
            raise InvalidParameter(
                f"The corners of a box must have one number for each of its columns, got {len(corners[0])} and "
                f"{len(corners[1])}."
            )
        with np.errstate(over="ignore"):
            sides = corners[1] - corners[0]
        for column in np.flatnonzero(~((sides >= 0.0) & np.isfinite(sides)))[:1]:
            raise InvalidParameter(
                "The lower corner of a box must not lie above the upper one, and its sides must be finite, got "
                f"{corners[0][column]} and {corners[1][column]} in column {column}."
            )
        for name, corner in zip(("low", "high"), corners, strict=True):
            corner.setflags(write=False)
            object.__setattr__(self, name, corner)

    @property
    def n_columns(self) -> int:
        """Number of columns of its rows."""
        return len(self.low)


def _corner(values: ArrayLike, name: str) -> Vector:
    corner = check_vector(values, name).astype(np.float64, copy=True)
    if not 1 <= len(corner) <= MOST_COLUMNS:
        raise InvalidParameter(f"{name} must have 1 to {MOST_COLUMNS:,} numbers, got {len(corner)}.")
    return corner


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Product:
    """One context joined with every row of a box, as the actions of a round.

    With a kernel over pairs (`kernels.PairProduct`, `kernels.PairSum`, `CGPUCB`) the actions are pairs of the context
    and a row. With a kernel over rows they are rows that begin with the columns of the context.

    Parameters
    ----------
    context
        The context, in a form that the kernel accepts; for a kernel over rows, one row of numbers.
    box
        The box.

    Examples
    --------
    >>> import kernelbandits as kb
    >>> policy = kb.KernelUCB(kb.kernels.Gaussian(length_scale=0.5), regularization=0.1)
    >>> policy.choose(kb.Product([0.2, 0.7], kb.Box(low=[0.0], high=[1.0]))).context
    array([0.2, 0.7, 0.5])
    """

    context: Point
    box: Box

    __repr__ = repr_of_fields

    def __post_init__(self) -> None:
        if not isinstance(self.box, Box):
            raise InvalidParameter(
                f"A product joins a context with a box: kb.Product(context, kb.Box(low, high)), got "
                f"{short_repr(self.box)}. For listed actions: kb.Pairs(context, actions)."
            )


BOXES: Final = (Box, Product)


class BoxActions(ActionSet):
    """Validated box of one round. Its points are those that the search has found, all of them row 0 of the round."""

    __slots__ = ("_context", "_kind", "box")

    def __init__(self, given: Box | Product, kind: PointKind) -> None:
        self.box: Box = given if isinstance(given, Box) else given.box
        self.ids = self.points = self.whole = None
        self.n_rows = self.n_actions = 0
        self._kind = kind
        self._context: Points = None  # None: the rows are the points
        rows = kind.action if isinstance(kind, PairPoints) else kind
        if type(rows) is not Rows:
            raise InvalidContexts(
                f"A box holds rows of numbers, and this kernel compares {short_repr(kind)}. List the actions instead."
            )
        if isinstance(kind, PairPoints):
            if isinstance(given, Box):
                raise InvalidContexts(
                    "This kernel compares (context, action) pairs, and a box has no context: kb.Product(context, box)."
                )
            self._context = kind.context.as_collection(given.context)
        elif isinstance(given, Product):
            context = kind.as_collection(given.context)
            if type(context) is not np.ndarray:
                raise InvalidContexts("The context beside a box must be dense. Convert it: context.toarray().")
            self._context = context

    def points_at(self, rows: Matrix) -> Points:
        """Points for these rows of the box."""
        if isinstance(self._kind, PairPoints):
            return PairRows(self._context, rows, is_shared=True)
        if self._context is None:
            return rows
        return np.hstack([np.broadcast_to(self._context, (len(rows), self._context.shape[1])), rows])

    def rows_of(self, points: Points) -> Matrix:
        """Rows in the box for learned points, moved to its border if they lie outside."""
        rows = points.actions if isinstance(points, PairRows) else points
        own: Matrix = rows[:, -self.box.n_columns :]
        return np.clip(own, self.box.low, self.box.high)

    def find(self, rows: Matrix) -> None:
        """Make these rows the points of the round."""
        self.points = self.whole = self.points_at(rows)
        self.rows = np.zeros(len(rows), dtype=np.intp)


@lru_cache(maxsize=8)
def _quasi_random(n_points: int, n_columns: int) -> Matrix:
    """Sobol points of the unit cube, shifted by a fixed random vector modulo 1; the center comes first."""
    from scipy.stats.qmc import Sobol

    points = Sobol(n_columns, scramble=False).random(n_points)
    points = (points + np.random.default_rng(0).random(n_columns)) % 1.0
    points[0] = 0.5
    points.setflags(write=False)
    return np.asarray(points)


def maximize(box: Box, values: Callable[[Matrix], Vector], climb: Climb, tried: Matrix) -> tuple[Matrix, int]:
    """Local maxima of a function over a box, and the number of values computed.

    All starts are scored at once: quasi-random points, the same for every box, and points at and around the rows
    `tried`. The best that are not close to each other climb together, in one run of L-BFGS-B on the sum of their
    values; the best of these then climb on alone. The highest start is returned, too, so that no start is better than
    the best row.

    >>> box = Box([-1.0, -1.0], [1.0, 1.0])
    >>> def values(rows):
    ...     return -(rows**2).sum(axis=1)
    >>> rows, _ = maximize(box, values, lambda rows: (values(rows), -2.0 * rows), np.zeros((0, 2)))
    >>> bool(np.abs(rows).min(axis=0).max() < 1e-6)
    True
    """
    from scipy import optimize

    minimize: Any = optimize.minimize  # its annotations know no function with a gradient and options
    sides = box.high - box.low
    free = np.flatnonzero(sides > 0.0)
    if not len(free):
        return box.low[None].copy(), 1
    sides = sides[free]

    def rows_at(places: Matrix) -> Matrix:
        """Rows for places in the unit cube of the free columns."""
        rows = np.repeat(box.low[None], len(places), axis=0)
        rows[:, free] = np.where(places == 1.0, box.high[free], box.low[free] + places * sides)
        return np.minimum(rows, box.high, out=rows)

    starts = _starts(len(free), (tried[:, free] - box.low[free]) / sides)
    heights = values(rows_at(starts))
    places = _best_apart(starts, heights, N_BEST)
    spread = float(heights.max() - heights.min())
    scale, n_values = (1.0 / spread if spread > 0.0 else 1.0), len(starts)

    def descend(flat: Vector) -> tuple[float, Vector]:
        nonlocal n_values
        some = flat.reshape(-1, len(free))
        height, slope = climb(rows_at(some))
        n_values += len(some)
        return -scale * float(height.sum()), (-scale * sides * slope[:, free]).ravel()

    def improved(start: Matrix, **options: float) -> Matrix:
        bounds = [(0.0, 1.0)] * start.size
        found = minimize(
            descend, start.ravel(), jac=True, method="L-BFGS-B", bounds=bounds,
            options={"maxiter": MOST_STEPS, "maxfun": 2 * MOST_STEPS, **options},
        )  # fmt: skip
        clipped: Matrix = np.clip(found.x.reshape(start.shape), 0.0, 1.0)
        return clipped

    with limit_blas_threads(CLIMBING):
        ends = improved(places, ftol=1e-12, gtol=1e-6)
        best = _best_apart(ends, values(rows_at(ends)), N_LAST)
        last = np.vstack([improved(end[None], ftol=1e-15, gtol=1e-9) for end in best])
    return rows_at(np.vstack([places[:1], last, ends])), n_values + len(ends)


def _starts(n_columns: int, tried: Matrix) -> Matrix:
    """Places in the unit cube from which a search starts."""
    whole = _quasi_random(N_STARTS, n_columns)
    around = (2.0 * RADIUS) * (_quasi_random(N_AROUND, n_columns) - 0.5)
    near = (tried[:, None, :] + around).reshape(-1, n_columns)
    return np.clip(np.vstack([whole, near]), 0.0, 1.0)


def _best_apart(starts: Matrix, heights: Vector, most: int) -> Matrix:
    """The highest places that are not close to a higher one."""
    chosen: list[int] = []
    order = np.argsort(-heights, kind="stable")
    is_left = np.ones(len(order), dtype=bool)
    for place in order:
        if is_left[place]:
            chosen.append(int(place))
            is_left &= np.abs(starts - starts[place]).max(axis=1) > APART
            if len(chosen) == most:
                break
    return starts[chosen]


def best_tried(posterior: Posterior, actions: BoxActions) -> Matrix:
    """Rows in the box at the learned points with the highest means."""
    if not posterior.size:
        return np.zeros((0, actions.box.n_columns))
    points, weights, counts, sums = posterior.support()
    is_known = counts > 0.0
    fit = np.full(len(counts), -np.inf)
    np.divide(sums - posterior.regularization * weights, counts, out=fit, where=is_known)  # the mean at these points
    best = np.argsort(-fit, kind="stable")[: min(N_TRIED, int(is_known.sum()))]
    return actions.rows_of(posterior.kernel.kind.take(points, best))


class GradientSearch(Selector):
    """Search of a box for the highest mean + exploration · width, by gradients from many starts.

    It computes the exact score and its exact gradient

        ∇ (mean + η width) = ∇ mean + η ∇ c(x, z) / width  at z = x,

    with c the posterior covariance, less what pending decisions explain of it. The result is a local maximum at which
    no start is better; that it is the global one is likely and not certain. The starts are the same in every round, so
    the same model and box give the same point.
    """

    def __init__(self, posterior: Posterior, waiting: Pending | None = None) -> None:
        super().__init__()
        self.posterior = posterior
        self._waiting = waiting

    def select(self, actions: Actions, exploration: float, break_tie: TieBreaker) -> Selection | None:
        if not isinstance(actions, BoxActions):
            return None
        rows, n_scored = maximize(
            actions.box,
            lambda rows: self._predict(actions.points_at(rows)).upper(exploration),
            lambda rows: self._climb(actions, rows, exploration),
            best_tried(self.posterior, actions),
        )
        actions.find(rows)
        prediction = self._predict(actions.points)
        scores = prediction.upper(exploration)
        row, _ = break_tie(tied_for_best(scores))
        mean, width = float(prediction.mean[row]), float(prediction.width[row])
        cost = SelectionCost("gradient", 0, n_scored + len(rows), n_scored + len(rows), 0)
        return Selection(row, mean, width, float(scores[row]), nan, cost=cost)  # a point of a box has no probability

    def _predict(self, points: Points) -> Prediction:
        return self.posterior._estimate(points) if self._waiting is None else self._waiting.estimate(points)

    def _climb(self, actions: BoxActions, rows: Matrix, exploration: float) -> tuple[Vector, Matrix]:
        """Scores of rows, and their gradients."""
        points = actions.points_at(rows)
        prediction = self._predict(points)
        width = prediction.width
        factors = np.divide(exploration, width, out=np.zeros_like(width), where=width > 0.0)
        others, weights = points, np.diag(factors)
        if self._waiting is not None:
            pending, explained = self._waiting.explained(points)
            others = self.posterior.kernel.kind.stack(points, pending)
            weights = np.hstack([weights, -factors[:, None] * explained])
        gradient = self.posterior.gradient(points, others, weights)
        return prediction.upper(exploration), gradient[:, -rows.shape[1] :]
