"""GridGP (Grünewälder et al. 2010): a grid strategy for noise-free Gaussian-process bandits."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from kernelbandits._parameters import Parameter, parameter
from kernelbandits.errors import InvalidParameter
from kernelbandits.kernels import Kernel, KernelLike, PointKind
from kernelbandits.kernels.stationary import feature_distances
from kernelbandits.policies.base import HORIZON, KERNEL, REWARD_RANGE
from kernelbandits.policies.comparators.fixed_set import ACTIONS, TallyPolicy
from kernelbandits.posterior.base import check_no_overflow
from kernelbandits.selection import tied_for_best
from kernelbandits.selection.actions import Actions
from kernelbandits.types import Indices, Points, Selection
from kernelbandits.validation import check_int, check_positive

__all__ = ["GridGP", "spread_rows"]


def spread_rows(kernel: Kernel, points: Points, n_points: int) -> Indices:
    """Return rows of `n_points` points by farthest-point sampling, starting with row 0; ties go to the lowest row.

    Distances are those of the kernel's feature space; `Linear` gives Euclidean distances. The covering radius is at
    most twice the smallest possible with `n_points` points (Gonzalez 1985). Fewer rows are returned if fewer points are
    distinct. It costs n_points · N similarities.

    >>> from kernelbandits.kernels import Linear
    >>> spread_rows(Linear(), np.linspace(0, 1, 9)[:, None], 5)
    array([0, 8, 4, 2, 6])
    """
    kind = kernel.kind
    n_rows = min(n_points, len(set(kind.keys(points))))
    rows = np.zeros(n_rows, dtype=np.intp)
    nearest = np.full(kind.count(points), np.inf)
    for place in range(n_rows):
        if place:
            rows[place] = np.argmax(nearest)
        with np.errstate(over="ignore", invalid="ignore"):  # overflow is rejected below with a clear error message
            column = feature_distances(kernel, points, kind.take(points, rows[place : place + 1]))[:, 0]
        check_no_overflow(column)
        np.minimum(nearest, column, out=nearest)
        nearest[rows[place]] = -1.0  # not selected twice, even with rounding errors
    return rows


def _at_most_two(smoothness: float) -> float:
    number = check_positive(smoothness, "The smoothness", "It is 2 for a Gaussian kernel.")
    if number > 2.0:  # if k(x, x) − k(x, y) vanishes faster, the kernel is constant
        raise InvalidParameter(f"The smoothness is the exponent a of k(x, x) − k(x, y) and at most 2, got {number!r}.")
    return number


class GridGP(TallyPolicy):
    """Evaluate n actions spread over the set, then select the best of them (Grünewälder et al. 2010).

    Designed for noise-free rewards: f is drawn from a Gaussian process with k(x, x) − k(x, y) ≤ c ‖x − y‖^a on [0,
    1]^D. After n evaluations the best one is O(n^(−a/2D) sqrt(ln n)) below the optimum. Over T rounds,
    n = T^(2D/(2D + a)) balances the cost of exploration with the loss of exploiting a suboptimal point. Exploration
    does not depend on rewards: the policy is a baseline for the gain of adaptive policies (`GPUCB` with a tiny noise
    variance).

    The fixed set represents the continuous domain. The paper's regular grid is replaced by the first n points of
    farthest-point sampling: the distance of any action to an evaluated one is at most twice the optimum for n points,
    which equals that of a regular grid up to a factor, for any shape of the set. Distances are those of the rows, or of
    a kernel's feature space. With noise, an action is scored by the mean of its rewards.

    Construction costs n · N similarities, a round O(N). While first rewards are pending, exploration continues; after
    all n evaluations, the best action with a known reward is selected. Ineligible actions are evaluated later. If all
    are evaluated and no reward of an eligible action is known, the lowest row is selected.

    Parameters
    ----------
    kernel
        Defines distances for any point type: ‖x − y‖² = k(x, x) + k(y, y) − 2 k(x, y). `Linear` gives Euclidean ones.
    actions
        The fixed set; every round must pass the same set.
    n_points
        n: number of actions to evaluate, at most the number of distinct ones. For best-action identification with a
        budget, pass the budget.
    horizon
        T, instead of `n_points`: n = T^(2D/(2D + a)), rounded up.
    smoothness
        a, with `horizon`: 2 for a Gaussian or a smooth Matérn kernel, 1 for the Laplacian one.
    dimension
        D, with `horizon`; None: the number of columns.
    reward_range
        Range of valid rewards; others are rejected. None accepts any finite number.

    Examples
    --------
    >>> from kernelbandits.kernels import Linear
    >>> actions = np.linspace(0, 1, 101)[:, None]
    >>> policy = GridGP(Linear(), actions, n_points=9)
    >>> for _ in range(12):
    ...     decision = policy.choose(actions)
    ...     policy.learn(decision, reward=-abs(actions[decision.action, 0] - 0.6))
    >>> float(decision.context[0])
    0.62
    """

    learns_from_any_action = True
    _without_horizon = "n_points=… in place of horizon=…"

    kernel: Parameter[KernelLike, Kernel] = parameter(KERNEL, kw_only=False)
    actions: Points = parameter(ACTIONS, kw_only=False, attribute="_fixed_actions")
    n_points: int | None = parameter(partial(check_int, name="The number of points"), default=None)
    horizon: int | None = parameter(HORIZON, default=None)
    smoothness: float = parameter(_at_most_two, default=2.0)
    dimension: int | None = parameter(partial(check_int, name="The dimension"), default=None)
    reward_range: tuple[float, float] | None = parameter(REWARD_RANGE, default=None)

    def _setup(self) -> None:
        super()._setup()
        if (self.n_points is None) == (self.horizon is None):
            raise InvalidParameter(
                f"The number of actions to try is n_points=…, or follows from horizon=…; one of them is needed, got "
                f"n_points={self.n_points}, horizon={self.horizon}."
            )
        self.grid: Indices = spread_rows(self.kernel, self.actions, self.n_points or self._balanced())
        """Rows of the actions to evaluate, in order."""

    def _fixed_kind(self) -> PointKind:
        return self.kernel.kind

    def _balanced(self) -> int:
        """Return T^(2D/(2D + a))."""
        assert self.horizon is not None
        dimension = self.dimension
        if dimension is None:
            if not hasattr(self.actions, "shape"):
                raise InvalidParameter("Actions that are no rows have no columns to count: give dimension=….")
            dimension = int(self.actions.shape[1])
        return math.ceil(math.pow(self.horizon, 2.0 * dimension / (2.0 * dimension + self.smoothness)))

    # -- choosing --------------------------------------------------------------------------------------------------

    def _pick(self, actions: Actions) -> Selection:
        rows = self._eligible(actions)
        counts, sums = self._tally.counts, self._tally.sums
        is_free = (counts == 0) & (self._pending_rows() == 0)
        is_free[np.setdiff1d(self.grid, rows, assume_unique=True)] = False
        untried = self.grid[is_free[self.grid]]
        if untried.size:
            return Selection(int(np.searchsorted(rows, untried[0])))
        known = np.flatnonzero(counts[rows])
        if not known.size:
            return Selection(0)
        means = sums[rows[known]] / counts[rows[known]]
        best = int(tied_for_best(means)[0])
        return Selection(int(known[best]), mean=float(means[best]), score=float(means[best]))

    def _probe(self) -> Points | None:
        return self.actions
