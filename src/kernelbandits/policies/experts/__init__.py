"""Choosing by the advice of experts, or from a class of policies.

An `Expert` gives one probability per action of a round; the factories make whole families of them.
`ILOVETOCONBANDITS`, `PolicyElimination` and `RandomizedUCB` compete with the best of a class of deterministic ones.
"""

from kernelbandits.policies.experts.advice import Constant, Expert, Uniform
from kernelbandits.policies.experts.ilovetoconbandits import ILOVETOCONBANDITS
from kernelbandits.policies.experts.policy_elimination import PolicyElimination
from kernelbandits.policies.experts.randomized_ucb import RandomizedUCB

__all__ = ["ILOVETOCONBANDITS", "Constant", "Expert", "PolicyElimination", "RandomizedUCB", "Uniform"]
