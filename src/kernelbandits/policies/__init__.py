"""Choose among the actions of a round, learn from the reward.

`KernelUCB` is the one to try first. `SupKernelUCB` is its sibling with the regret proof and `PhasedElimination` a
modern one for fixed sets; `GPUCB`, `CGPUCB` and `GridGP` speak the language of Gaussian processes. `LinUCB` and its
relatives are for rewards linear in the features, `UCB1` and `KLUCB` know no similarities at all, and
`ContextualZooming` knows only distances. `EpochGreedy`, `EXP4` and their family in `experts` follow the advice of
others. `KernelThompson`, `KernelSquareCB`, `Softmax` and `Mixed` draw their actions with known probabilities, so that
their logs can evaluate other policies; `Guarded` leaves a baseline only for what is better with confidence.
`UniformRandom` is what all have to beat. `Policy` is the class to inherit for one of your own; which to use when is
told, with figures, in docs/policies.md.
"""

from kernelbandits.policies.base import Policy
from kernelbandits.policies.comparators import (
    KLUCB,
    PEGE,
    UCB1,
    ConfidenceBall,
    ContextualZooming,
    GridGP,
    SupLinRel,
    UncertaintyEllipsoid,
)
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
from kernelbandits.policies.gp_ucb import CGPUCB, GPUCB
from kernelbandits.policies.linear import OFUL, LinUCB
from kernelbandits.policies.phased_elimination import PhasedElimination
from kernelbandits.policies.randomized import UniformRandom
from kernelbandits.policies.serialization import load
from kernelbandits.policies.square_cb import ConstantGapWeight, GapWeight, GrowingGapWeight, KernelSquareCB
from kernelbandits.policies.sup_kernel_ucb import BaseKernelUCB, SupKernelUCB, SupLinUCB
from kernelbandits.policies.thompson import KernelThompson
from kernelbandits.policies.upper_confidence import KernelUCB
from kernelbandits.policies.wrappers import Guarded, Mixed, Softmax
from kernelbandits.types import Selection

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
    "ConfidenceBall",
    "ConstantGapWeight",
    "ContextualZooming",
    "Contribution",
    "EpochGreedy",
    "Explanation",
    "GapWeight",
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
    "Selection",
    "Softmax",
    "SupKernelUCB",
    "SupLinRel",
    "SupLinUCB",
    "UncertaintyEllipsoid",
    "UniformRandom",
    "load",
]
