"""Choose among the actions of a round, learn from the reward.

`KernelUCB` is the one to try first. `SupKernelUCB` is its sibling with the regret proof and `PhasedElimination` a
modern one for fixed sets; `GPUCB`, `CGPUCB` and `GridGP` speak the language of Gaussian processes. `LinUCB` and its
relatives in `linear` are for rewards linear in the features, `UCB1` and `KLUCB` know no similarities at all, and
`ContextualZooming` knows only distances. `EpochGreedy`, `EXP4` and their family in `experts` follow the advice of
others. `KernelThompson`, `KernelSquareCB`, `Softmax` and `Mixed` draw their actions with known probabilities, so that
their logs can evaluate other policies; `Guarded` leaves a baseline only for what is better with confidence.
`UniformRandom` is what all have to beat. `Policy` is the class to inherit for one of your own; which to use when is
told, with figures, in docs/policies.md.
"""

from kernelbandits.policies.base import Choice, Policy
from kernelbandits.policies.experts import (
    EXP4,
    EXP4P,
    ILOVETOCONBANDITS,
    VE,
    EpochGreedy,
    KernelEpochGreedy,
    PACBayes,
    PolicyElimination,
    RandomizedUCB,
)
from kernelbandits.policies.explanation import Contribution, Explanation
from kernelbandits.policies.gaussian_process import CGPUCB, GPUCB, GridGP, KernelThompson
from kernelbandits.policies.index import KLUCB, UCB1
from kernelbandits.policies.kernel_ucb import KernelUCB
from kernelbandits.policies.levels import BaseKernelUCB
from kernelbandits.policies.linear import OFUL, PEGE, ConfidenceBall, LinUCB, SupLinRel, SupLinUCB, UncertaintyEllipsoid
from kernelbandits.policies.metric import ContextualZooming
from kernelbandits.policies.phased_elimination import PhasedElimination
from kernelbandits.policies.randomised import GrowingGapWeight, Guarded, KernelSquareCB, Mixed, Softmax
from kernelbandits.policies.saving import load
from kernelbandits.policies.sup_kernel_ucb import SupKernelUCB
from kernelbandits.policies.uniform import UniformRandom

__all__ = [
    "CGPUCB",
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
    "Choice",
    "ConfidenceBall",
    "ContextualZooming",
    "Contribution",
    "EpochGreedy",
    "Explanation",
    "GridGP",
    "GrowingGapWeight",
    "Guarded",
    "KernelEpochGreedy",
    "KernelSquareCB",
    "KernelThompson",
    "KernelUCB",
    "LinUCB",
    "Mixed",
    "PACBayes",
    "PhasedElimination",
    "Policy",
    "PolicyElimination",
    "RandomizedUCB",
    "Softmax",
    "SupKernelUCB",
    "SupLinRel",
    "SupLinUCB",
    "UncertaintyEllipsoid",
    "UniformRandom",
    "load",
]
