"""Diagnostics of runs: effective dimension and regret bounds."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from math import sqrt
from typing import Any, Final

import numpy as np

from kernelbandits.environments.base import Environment, place_of
from kernelbandits.errors import KernelBanditError
from kernelbandits.evaluation import Trace, start_world
from kernelbandits.evaluation._inputs import points_of
from kernelbandits.kernels import Kernel, PointKind
from kernelbandits.policies.base import Policy
from kernelbandits.selection import Catalog, CatalogView
from kernelbandits.theory import effective_dimension, kernel_ucb_bound, sup_kernel_ucb_bound
from kernelbandits.theory.spectra import NEGLIGIBLE, certified_dimension
from kernelbandits.types import Indices, Matrix, Points, Vector

__all__ = [
    "MOST_POINTS",
    "checkpoints",
    "chosen_contexts",
    "effective_dimensions",
    "kernel_ucb_curve",
    "sup_kernel_ucb_values",
]

MOST_CHECKPOINTS: Final = 12
MOST_POINTS: Final = 2_000
"""Distinct points up to which the whole spectrum is found: its cost grows with their cube."""

MOST_WORK: Final = MOST_POINTS**3
"""Points times directions squared: with more points, the part of a spectrum that costs as much."""


def checkpoints(rounds: Indices) -> Indices:
    """At most twelve of these rounds, roughly log-spaced, from the second on; the last is among them.

    >>> checkpoints(np.arange(1, 1_001)).tolist()
    [2, 4, 6, 11, 19, 34, 59, 104, 184, 323, 568, 1000]
    """
    usable = rounds[rounds >= 2]
    if not len(usable):
        return usable
    wanted = np.geomspace(usable[0], usable[-1], MOST_CHECKPOINTS)
    return np.unique(usable[np.searchsorted(usable, np.round(wanted))])


def effective_dimensions(
    environment: Environment, seed: int, policy: Policy, actions: Indices, *, rounds: Indices, horizon: int
) -> dict[int, int]:
    """d̃ of the points chosen up to each of these rounds, by round, where the policy has one kernel posterior.

    The points are had by watching the same run of the world again: worlds cost little beside policies, and the policy
    need not be looked into. All are counted, learnt or not. d̃ is that of `theory.effective_dimension` with the
    posterior's regularization and ln of the whole horizon, so that values of different rounds compare. Beyond 2,000
    distinct points it is found from the leading directions, where these settle it at the same cost; it stops where they
    do not. There is none for points that the kernel does not take as they are shown.
    """
    posterior = getattr(policy, "posterior", None)
    if posterior is None or not len(rounds):
        return {}
    kernel, regularization = posterior.kernel, posterior.regularization
    found: dict[int, int] = {}
    wanted = set(rounds.tolist())
    try:
        for t, points, counts in _chosen(environment, seed, kernel, actions[: rounds[-1]], wanted):
            dimension = _dimension(kernel, points, counts, regularization=regularization, horizon=max(2, horizon))
            if dimension is None:
                return found
            found[t] = dimension
    except KernelBanditError:  # points the kernel cannot take without the policy's help, or a similarity that is none
        return found
    return found


def _dimension(kernel: Kernel, points: Points, counts: Vector, *, regularization: float, horizon: int) -> int | None:
    if len(counts) > MOST_POINTS:
        most = int(sqrt(MOST_WORK / len(counts)))
        return certified_dimension(kernel, points, counts, regularization=regularization, horizon=horizon, most=most)
    spectrum = _spectrum(kernel.gram(points), counts)
    return effective_dimension(spectrum=spectrum, regularization=regularization, horizon=horizon)


def _chosen(
    environment: Environment, seed: int, kernel: Kernel, actions: Indices, wanted: set[int]
) -> Iterator[tuple[int, Points, Vector]]:
    """Distinct points chosen so far, and how often each, after every wanted round."""
    kind, world = kernel.kind, start_world(environment, seed)
    slots: dict[Hashable, int] = {}
    counts: list[float] = []
    store: Any = None
    chosen = _Chosen(kind)
    for t, action in enumerate(actions.tolist(), start=1):
        shown = world.observe().contexts
        world.reward(action)
        point = chosen.point(shown, action)
        slot = slots.setdefault(kind.keys(point)[0], len(slots))
        if slot == len(counts):
            store = kind.grow(store, slot, point)
            counts.append(0.0)
        counts[slot] += 1.0
        if t in wanted:
            yield t, kind.view(store, len(counts)), np.array(counts)


class _Chosen:
    """Takes the chosen point out of what a round shows; fixed actions are looked at once."""

    def __init__(self, kind: PointKind) -> None:
        self._kind = kind
        self._latest: tuple[Points, Points] | None = None

    def point(self, shown: Points, action: int) -> Points:
        """The point that a decision names by its row, as a collection of one."""
        place = np.array([place_of(shown, action)])
        if isinstance(shown, CatalogView):
            return shown.at(place).points(self._kind)
        if isinstance(shown, Catalog):  # keeps its points itself, and may have grown
            return self._kind.take(points_of(self._kind, shown), place)
        if self._latest is None or self._latest[0] is not shown:
            self._latest = shown, points_of(self._kind, shown)
        return self._kind.take(self._latest[1], place)


def _spectrum(gram: Matrix, counts: Vector) -> Vector:
    """Eigenvalues of D^½ K D^½ that are more than rounding.

    A pivoted factorization stops when nothing is left; with n points of numerical rank r this costs O(n r²), and the
    eigenvalues of the r × r products of its columns are those asked for.
    """
    from scipy.linalg.lapack import dpstrf

    roots = np.sqrt(counts)
    weighted = roots[:, None] * gram * roots
    largest = float(weighted.diagonal().max())
    if not largest > 0.0:
        return np.zeros(1)
    factor, _, rank, _ = dpstrf(weighted, lower=1, tol=NEGLIGIBLE * largest)
    columns = np.tril(factor)[:, :rank]
    return np.maximum(np.linalg.eigvalsh(columns.T @ columns), 0.0)


N_PLACES: Final = 60
"""Rounds at which a bound is computed for its curve."""


def kernel_ucb_curve(traces: Sequence[Trace], *, regularization: float) -> tuple[Indices, Vector]:
    """Rounds, and KernelUCB's bound 2 η_t sqrt(κ t L_t) after each, mean over the runs.

    Valid for runs whose exploration was a proved schedule, k(x, x) ≤ 1, every reward learnt at once: each run has its
    own bound, made of its own L_t, which holds in all rounds together with probability 1 − δ.
    """
    rounds = np.unique(np.round(np.geomspace(1, len(traces[0]), N_PLACES)).astype(np.intp))
    values = [
        [
            kernel_ucb_bound(
                horizon=int(t),
                regularization=regularization,
                log_det_gain=float(trace.log_det_gain[t - 1]),
                exploration=float(trace.exploration[t - 1]),
            )
            for t in rounds
        ]
        for trace in traces
    ]
    return rounds, np.mean(values, axis=0)


def sup_kernel_ucb_values(
    traces: Sequence[Trace],
    *,
    environment: Environment,
    kernel: Kernel,
    regularization: float,
    norm_bound: float,
    noise_scale: float,
    failure_probability: float,
) -> Vector:
    """SupKernelUCB's bound on the regret of each run, in the form with the effective dimension of what it chose."""
    values = []
    for trace in traces:
        gram = kernel.gram(chosen_contexts(environment, trace))
        values.append(
            sup_kernel_ucb_bound(
                horizon=len(trace),
                n_actions=int(trace.n_actions.max()),
                regularization=regularization,
                effective_dimension=effective_dimension(gram, regularization=regularization, horizon=len(trace)),
                norm_bound=norm_bound,
                failure_probability=failure_probability,
                noise_scale=noise_scale,
            )
        )
    return np.array(values)


def chosen_contexts(environment: Environment, trace: Trace) -> Matrix:
    """Contexts of the actions taken in a run, found by showing its rounds again; traces do not hold them."""
    world = start_world(environment, trace.spec["seed"])
    return np.array([world.observe().contexts[action] for action in trace.action])
