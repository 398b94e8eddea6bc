"""Policies that learn from expert advice, or from a class of policies.

An `Expert` returns one probability per action of a round; the factories create whole families of experts. Start with
`EpochGreedy` if rounds are i.i.d. `EXP4` makes no assumption about rounds; the bound of `EXP4P` holds with high
probability, that of `EXP4` in expectation. `VE` accepts infinite classes, `PACBayes` a finite number of states, and
`KernelEpochGreedy` a kernel in place of experts. `PolicyElimination`, `RandomizedUCB` and `ILOVETOCONBANDITS` compete
with the best of a class of deterministic policies, and choose action probabilities that keep the variance of every
estimate low.
"""

from kernelbandits.policies.experts.base import Expert
from kernelbandits.policies.experts.epoch_greedy import EpochGreedy, KernelEpochGreedy
from kernelbandits.policies.experts.exp4 import EXP4, EXP4P
from kernelbandits.policies.experts.ilovetoconbandits import ILOVETOCONBANDITS
from kernelbandits.policies.experts.library import (
    ConstantExpert,
    GreedyRidge,
    LinearScorer,
    PolicyClass,
    Stump,
    StumpClass,
    UniformExpert,
    constant_experts,
    linear_experts,
    ridge_experts,
    stump_experts,
)
from kernelbandits.policies.experts.pac_bayes import PACBayes, k_means_centers
from kernelbandits.policies.experts.policy_elimination import PolicyElimination
from kernelbandits.policies.experts.randomized_ucb import RandomizedUCB
from kernelbandits.policies.experts.ve import VE

__all__ = [
    "EXP4",
    "EXP4P",
    "ILOVETOCONBANDITS",
    "VE",
    "ConstantExpert",
    "EpochGreedy",
    "Expert",
    "GreedyRidge",
    "KernelEpochGreedy",
    "LinearScorer",
    "PACBayes",
    "PolicyClass",
    "PolicyElimination",
    "RandomizedUCB",
    "Stump",
    "StumpClass",
    "UniformExpert",
    "constant_experts",
    "k_means_centers",
    "linear_experts",
    "ridge_experts",
    "stump_experts",
]
