"""Policies that randomise on purpose, with exact propensities: their logs can evaluate other policies.

`KernelSquareCB` needs nothing but means. The others wrap a policy: `Mixed` adds random actions to any, `Softmax`
smooths the choice of one that takes the highest upper confidence bound, and `Guarded`, which does not randomise but
belongs with them, leaves a baseline only for what is better with confidence.
"""

from kernelbandits.policies.randomised.gap_weights import ConstantGapWeight, GapWeight, GrowingGapWeight
from kernelbandits.policies.randomised.guarded import Guarded
from kernelbandits.policies.randomised.kernel_square_cb import KernelSquareCB
from kernelbandits.policies.randomised.mixed import Mixed
from kernelbandits.policies.randomised.softmax import Softmax

__all__ = [
    "ConstantGapWeight",
    "GapWeight",
    "GrowingGapWeight",
    "Guarded",
    "KernelSquareCB",
    "Mixed",
    "Softmax",
]
