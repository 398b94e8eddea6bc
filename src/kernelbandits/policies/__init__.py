"""Choose among the actions of a round, learn from the reward.

`KernelUCB` is the one to try first. `SupKernelUCB` is its sibling with the regret proof; `LinUCB` and `SupLinUCB` are
the two for rewards linear in the features; `GPUCB` and `CGPUCB` say the same in the words of Gaussian processes.
`KernelThompson` and `KernelSquareCB` draw their actions, with exact propensities; `Mixed`, `Softmax` and `Guarded` wrap
another policy. `UniformRandom` is what all have to beat. `Policy` is the class to inherit for one of your own.
"""

from kernelbandits.policies.base import Choice, Policy
from kernelbandits.policies.explanation import Contribution, Explanation
from kernelbandits.policies.gaussian_process import CGPUCB, GPUCB, KernelThompson
from kernelbandits.policies.kernel_ucb import KernelUCB
from kernelbandits.policies.levels import BaseKernelUCB
from kernelbandits.policies.linear import LinUCB, SupLinUCB
from kernelbandits.policies.randomised import GrowingGapWeight, Guarded, KernelSquareCB, Mixed, Softmax
from kernelbandits.policies.saving import load
from kernelbandits.policies.sup_kernel_ucb import SupKernelUCB
from kernelbandits.policies.uniform import UniformRandom

__all__ = [
    "CGPUCB",
    "GPUCB",
    "BaseKernelUCB",
    "Choice",
    "Contribution",
    "Explanation",
    "GrowingGapWeight",
    "Guarded",
    "KernelSquareCB",
    "KernelThompson",
    "KernelUCB",
    "LinUCB",
    "Mixed",
    "Policy",
    "Softmax",
    "SupKernelUCB",
    "SupLinUCB",
    "UniformRandom",
    "load",
]
