"""Who plays, and with which parameters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from kernelbandits import policies as p
from kernelbandits.experiments.policy_study.problems import Setting

__all__ = ["FIELD", "Contender"]


@dataclass(frozen=True)
class Contender:
    """A policy under the name it has in the table."""

    name: str
    family: str
    make: Callable[[Setting], p.Policy]
    """A fresh policy for one run."""


FIELD: Final = (
    Contender("KernelUCB", "kernel", lambda s: p.KernelUCB(s.kernel, regularisation=0.25, exploration=0.2)),
    Contender("GPUCB", "kernel", lambda s: p.GPUCB(s.kernel, noise_variance=0.25)),
    Contender(
        "SupKernelUCB",
        "kernel",
        lambda s: p.SupKernelUCB(s.kernel, regularisation=0.25, horizon=s.horizon, n_actions=s.n_actions, scale=0.05),
    ),
    Contender("LinUCB", "linear", lambda _: p.LinUCB(exploration=0.2)),
    Contender("SupLinUCB", "linear", lambda s: p.SupLinUCB(horizon=s.horizon, n_actions=s.n_actions, scale=0.05)),
    Contender("Random", "baseline", lambda s: p.UniformRandom(seed=s.seed)),
)
"""All contenders, by family."""
