"""Choose among the actions of a round, learn from the reward.

`KernelUCB` is the one to try first. `SupKernelUCB` is its sibling with the regret proof; `LinUCB` and `SupLinUCB` are
the two for rewards linear in the features; `GPUCB` and `CGPUCB` say the same in the words of Gaussian processes;
`EpochGreedy`, `EXP4` and their family in `experts` follow the advice of others; `UniformRandom` is what all have to
beat. `Policy` is the class to inherit for one of your own.
the two for rewards linear in the features, with relatives in `linear`; `GPUCB` and `CGPUCB` say the same in the words
of Gaussian processes; `UniformRandom` is what all have to beat. `Policy` is the class to inherit for one of your own.
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
`UCB1` and `KLUCB` know no similarities at all; `UniformRandom` is what all have to beat. `Policy` is the class to
inherit for one of your own.
"""

from kernelbandits.policies.base import Choice, Policy
from kernelbandits.policies.contextual_zooming import ContextualZooming
from kernelbandits.policies.explanation import Contribution, Explanation
from kernelbandits.policies.gaussian_process import CGPUCB, GPUCB, GridGP
from kernelbandits.policies.index import KLUCB, UCB1
from kernelbandits.policies.kernel_ucb import KernelUCB
from kernelbandits.policies.levels import BaseKernelUCB
from kernelbandits.policies.linear import LinUCB, SupLinUCB
from kernelbandits.policies.phased_elimination import PhasedElimination
from kernelbandits.policies.linear import (
    OFUL,
    PEGE,
    ConfidenceBall,
    LinUCB,
    SupLinRel,
    SupLinUCB,
    UncertaintyEllipsoid,
)
from kernelbandits.policies.saving import load
from kernelbandits.policies.sup_kernel_ucb import SupKernelUCB
from kernelbandits.policies.uniform import UniformRandom

__all__ = [
    "CGPUCB",
    "EXP4",
    "EXP4P",
    "GPUCB",
    "ILOVETOCONBANDITS",
    "VE",
    "KLUCB",
    "UCB1",
    "BaseKernelUCB",
    "Choice",
    "ContextualZooming",
    "OFUL",
    "PEGE",
    "BaseKernelUCB",
    "Choice",
    "ConfidenceBall",
    "Contribution",
    "EpochGreedy",
    "Explanation",
    "KernelEpochGreedy",
    "KernelUCB",
    "LinUCB",
    "PACBayes",
    "GridGP",
    "KernelUCB",
    "LinUCB",
    "PhasedElimination",
    "Policy",
    "PolicyElimination",
    "RandomizedUCB",
    "SupKernelUCB",
    "SupLinRel",
    "SupLinUCB",
    "UncertaintyEllipsoid",
    "UniformRandom",
    "load",
]
