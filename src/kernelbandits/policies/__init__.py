"""Policies: choose among the actions of a round, learn from the reward.

Start with `KernelUCB`. `SupKernelUCB` is the variant with the regret proof, and `PhasedElimination` a modern method for
fixed sets of actions. `GPUCB`, `CGPUCB` and `GridGP` are parametrized as Gaussian processes. `LinUCB` and the other
linear policies assume rewards linear in the features; `UCB1` and `KLUCB` do not use similarities; `ContextualZooming`
uses distances only. `EpochGreedy`, `EXP4` and the other policies in `experts` learn from expert advice.
`BKB`, `BBKB`, `EKUCB`, `CBBKB` and `MiniBatchGPUCB` are published policies for long histories. `KernelThompson`,
`KernelSquareCB`, `Softmax` and `Mixed` draw their actions with known probabilities, so their logs can be used to
evaluate other policies. `Guarded` deviates from a baseline only if another action is better with confidence, and
`Paced` keeps the costs of actions within an allowance.
`UniformRandom` is the uniformly random baseline. Derive your own policy from `Policy`. For a guide with figures on
which policy to use, see docs/policies.md.
"""

from kernelbandits._parameters import ValueType, parameter
from kernelbandits.policies.base import KERNEL, REWARD_RANGE, SEED, Policy
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
from kernelbandits.policies.events import Event
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
from kernelbandits.policies.mini_batch_gp_ucb import MiniBatchGPUCB
from kernelbandits.policies.paced import Paced
from kernelbandits.policies.phased_elimination import PhasedElimination
from kernelbandits.policies.randomized import UniformRandom
from kernelbandits.policies.sampled_dictionaries import BBKB, BKB, CBBKB, EKUCB
from kernelbandits.policies.serialization import load
from kernelbandits.policies.square_cb import ConstantGapWeight, GapWeight, GrowingGapWeight, KernelSquareCB
from kernelbandits.policies.sup_kernel_ucb import BaseKernelUCB, SupKernelUCB, SupLinUCB
from kernelbandits.policies.thompson import KernelThompson
from kernelbandits.policies.upper_confidence import KernelUCB
from kernelbandits.policies.wrappers import Guarded, Mixed, Softmax
from kernelbandits.types import Selection

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
    "KERNEL",
    "KLUCB",
    "OFUL",
    "PEGE",
    "REWARD_RANGE",
    "SEED",
    "UCB1",
    "VE",
    "BaseKernelUCB",
    "ConfidenceBall",
    "ConstantGapWeight",
    "ContextualZooming",
    "Contribution",
    "EpochGreedy",
    "Event",
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
    "MiniBatchGPUCB",
    "Mixed",
    "PACBayes",
    "Paced",
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
    "ValueType",
    "load",
    "parameter",
]
