"""Kernelized contextual bandits: choose among new actions by their similarity to actions tried before.

>>> import kernelbandits as kb
>>> policy = kb.KernelUCB(kb.kernels.Spectrum(n=3), regularization=0.1, exploration=0.3)
>>> decision = policy.choose(["cheap flights", "cheap fights", "slow cooking"])
>>> policy.learn(decision, reward=1.0)

`kernels` contains similarities, `posterior` estimates, `theory` what is proved about them, `policies` the rules that
choose, `environments` and `evaluation` environments to evaluate them in, `adapters` conversions to and from other
libraries. `experiments` needs the extra of the same name. Each package is imported on first use, so that importing
`kernelbandits` costs little more than importing NumPy.

Background events (compilation, changes of the posterior's form, removal of partial files) are logged by the logger
"kernelbandits" of the standard `logging` module; nothing is printed unless that is configured.
"""

from __future__ import annotations

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any

from kernelbandits import errors
from kernelbandits.types import Decision, Pairs, Plays, Prediction, Slate, WithCosts

if TYPE_CHECKING:
    from kernelbandits import (
        adapters,
        environments,
        evaluation,
        experiments,
        kernels,
        policies,
        posterior,
        selection,
        testing,
        theory,
    )
    from kernelbandits.evaluation import simulate
    from kernelbandits.policies import (
        BBKB,
        BKB,
        CBBKB,
        CGPUCB,
        EKUCB,
        EXP4,
        EXP4P,
        GPUCB,
        ILOVETOCONBANDITS,
        KLUCB,
        OFUL,
        PEGE,
        UCB1,
        VE,
        BaseKernelUCB,
        ConfidenceBall,
        ContextualZooming,
        EpochGreedy,
        GridGP,
        Guarded,
        KernelEpochGreedy,
        KernelSquareCB,
        KernelThompson,
        KernelUCB,
        LinUCB,
        MiniBatchGPUCB,
        Mixed,
        PACBayes,
        Paced,
        PhasedElimination,
        Policy,
        PolicyElimination,
        RandomizedUCB,
        Softmax,
        SupKernelUCB,
        SupLinRel,
        SupLinUCB,
        UncertaintyEllipsoid,
        UniformRandom,
        load,
    )
    from kernelbandits.selection import Box, Catalog, Product, compile_ahead, set_threads

logging.getLogger("kernelbandits").addHandler(logging.NullHandler())  # silent unless the application configures logging

__version__ = "0.1.0.dev0"

__all__ = [
    "BBKB",
    "BKB",
    "CBBKB",
    "CGPUCB",
    "EKUCB",
    "EXP4",
    "EXP4P",
    "GPUCB",
    "ILOVETOCONBANDITS",
    "KLUCB",
    "OFUL",
    "PEGE",
    "UCB1",
    "VE",
    "BaseKernelUCB",
    "Box",
    "Catalog",
    "ConfidenceBall",
    "ContextualZooming",
    "Decision",
    "EpochGreedy",
    "GridGP",
    "Guarded",
    "KernelEpochGreedy",
    "KernelSquareCB",
    "KernelThompson",
    "KernelUCB",
    "LinUCB",
    "MiniBatchGPUCB",
    "Mixed",
    "PACBayes",
    "Paced",
    "Pairs",
    "PhasedElimination",
    "Plays",
    "Policy",
    "PolicyElimination",
    "Prediction",
    "Product",
    "RandomizedUCB",
    "Slate",
    "Softmax",
    "SupKernelUCB",
    "SupLinRel",
    "SupLinUCB",
    "UncertaintyEllipsoid",
    "UniformRandom",
    "WithCosts",
    "adapters",
    "compile_ahead",
    "environments",
    "errors",
    "evaluation",
    "experiments",
    "kernels",
    "load",
    "policies",
    "posterior",
    "selection",
    "set_threads",
    "simulate",
    "testing",
    "theory",
]

_PACKAGES = {
    "adapters", "environments", "evaluation", "experiments", "kernels", "policies", "posterior", "selection", "testing",
    "theory",
}  # fmt: skip
_ELSEWHERE = {
    "Box": "selection", "Catalog": "selection", "Product": "selection", "compile_ahead": "selection",
    "set_threads": "selection", "simulate": "evaluation",
}  # all others: policies  # fmt: skip


def __getattr__(name: str) -> Any:
    """Import a package, or the package that defines the name, on first access."""
    if name in _PACKAGES:
        return import_module(f"kernelbandits.{name}")
    if name in __all__:
        value = getattr(import_module(f"kernelbandits.{_ELSEWHERE.get(name, 'policies')}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'kernelbandits' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
