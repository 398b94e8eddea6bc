"""Choosing by the advice of experts, or from a class of policies.

An `Expert` gives one probability per action of a round; the factories make whole families of them.
"""

from kernelbandits.policies.experts.advice import Constant, Expert, Uniform

__all__ = ["Constant", "Expert", "Uniform"]
