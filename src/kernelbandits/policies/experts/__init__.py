"""Choosing by the advice of experts, or from a class of policies.

An `Expert` gives one probability per action of a round; the factories make whole families of them.
"""

from kernelbandits.policies.experts.advice import Constant, Expert, Uniform
from kernelbandits.policies.experts.factories import constant_experts, linear_experts, ridge_experts, stump_experts
from kernelbandits.policies.experts.greedy_ridge import GreedyRidge
from kernelbandits.policies.experts.linear_scorer import LinearScorer
from kernelbandits.policies.experts.stump import Stump

__all__ = [
    "Constant",
    "Expert",
    "GreedyRidge",
    "LinearScorer",
    "Stump",
    "Uniform",
    "constant_experts",
    "linear_experts",
    "ridge_experts",
    "stump_experts",
]
