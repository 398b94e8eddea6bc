"""What the theorems say about runs that were played."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from kernelbandits.environments.base import Environment
from kernelbandits.evaluation import Trace, start_world
from kernelbandits.kernels import Kernel
from kernelbandits.theory import effective_dimension, kernel_ucb_bound, sup_kernel_ucb_bound
from kernelbandits.types import Indices, Matrix, Vector

__all__ = ["chosen_contexts", "kernel_ucb_curve", "sup_kernel_ucb_values"]

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
