"""Effective dimension of the points that a run chose.

It is computed from the chosen contexts of a trace (`simulate(..., keep_contexts=True)`); no environment is run again.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from math import sqrt
from typing import Any, Final

import numpy as np
from scipy.linalg.lapack import dpstrf

from kernelbandits.errors import InvalidParameter, KernelBanditError
from kernelbandits.evaluation import Trace
from kernelbandits.evaluation._inputs import points_of
from kernelbandits.kernels import Kernel
from kernelbandits.policies.base import Policy
from kernelbandits.theory import effective_dimension
from kernelbandits.theory.spectra import PIVOT_TOLERANCE, certified_dimension
from kernelbandits.types import Indices, Matrix, Points, Vector

__all__ = ["checkpoints", "effective_dimensions", "has_kernel"]

MOST_CHECKPOINTS: Final = 12

MOST_POINTS: Final = 2_000
"""Distinct points up to which the whole spectrum is computed, at a cost that grows with their cube."""


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
    trace: Trace, policy: Policy, *, rounds: Indices, horizon: int, most_points: int = MOST_POINTS
) -> dict[int, int]:
    """Effective dimension d̃ of the points chosen up to each of these rounds, by round.

    All chosen points count, learned or not. d̃ is that of `theory.effective_dimension` with the policy's
    regularization and ln of the whole horizon, so that values of different rounds compare. Beyond `most_points`
    distinct points it is computed from the leading directions if these determine it at the same cost, and ends where
    they do not. A policy without a kernel has none, nor have contexts that its kernel does not accept.
    """
    if not has_kernel(policy) or not len(rounds):
        return {}
    kernel, regularization = _kernel_and_regularization(policy)
    found: dict[int, int] = {}
    try:
        for t, points, counts in _distinct_points(chosen_contexts(trace), kernel, set(rounds.tolist())):
            dimension = _dimension(
                kernel, points, counts, regularization=regularization, horizon=max(2, horizon), most_points=most_points
            )
            if dimension is None:
                return found
            found[t] = dimension
    except KernelBanditError:  # points that the kernel does not accept, or an undefined similarity
        return found
    return found


def has_kernel(policy: Policy) -> bool:
    """Whether a policy has one kernel and one regularization, its own or that of its posterior."""
    kernel, regularization = _kernel_and_regularization(policy)
    return isinstance(kernel, Kernel) and regularization is not None


def _kernel_and_regularization(policy: Policy) -> tuple[Any, Any]:
    model = getattr(policy, "posterior", policy)
    return getattr(model, "kernel", None), getattr(model, "regularization", None)


def chosen_contexts(trace: Trace) -> tuple[Points, ...]:
    """Chosen context of every round, each as a set of one action."""
    if trace.contexts is None:
        raise InvalidParameter("The trace has no contexts. Simulate with keep_contexts=True.")
    return trace.contexts


def _dimension(
    kernel: Kernel, points: Points, counts: Vector, *, regularization: float, horizon: int, most_points: int
) -> int | None:
    if len(counts) > most_points:
        most = int(sqrt(most_points**3 / len(counts)))  # the cost is points × directions²
        return certified_dimension(kernel, points, counts, regularization=regularization, horizon=horizon, most=most)
    spectrum = _spectrum(kernel.gram(points), counts)
    return effective_dimension(spectrum=spectrum, regularization=regularization, horizon=horizon)


def _distinct_points(
    contexts: Sequence[Points], kernel: Kernel, wanted: set[int]
) -> Iterator[tuple[int, Points, Vector]]:
    """Distinct points chosen so far and how often each was chosen, after every wanted round."""
    kind = kernel.kind
    slots: dict[Hashable, int] = {}
    counts: list[float] = []
    store: Any = None
    for t, context in enumerate(contexts[: max(wanted)], start=1):
        point = points_of(kind, context)
        slot = slots.setdefault(kind.keys(point)[0], len(slots))
        if slot == len(counts):
            store = kind.grow(store, slot, point)
            counts.append(0.0)
        counts[slot] += 1.0
        if t in wanted:
            yield t, kind.view(store, len(counts)), np.array(counts)


def _spectrum(gram: Matrix, counts: Vector) -> Vector:
    """Eigenvalues of D^½ K D^½ above rounding.

    A pivoted factorization stops at the numerical rank r; for n points this costs O(n r²), and the eigenvalues of the
    r × r products of its columns are those of the matrix.
    """
    roots = np.sqrt(counts)
    weighted = roots[:, None] * gram * roots
    largest = float(weighted.diagonal().max())
    if not largest > 0.0:
        return np.zeros(1)
    factor, _, rank, _ = dpstrf(weighted, lower=1, tol=PIVOT_TOLERANCE * largest)
    columns = np.tril(factor)[:, :rank]
    return np.maximum(np.linalg.eigvalsh(columns.T @ columns), 0.0)
