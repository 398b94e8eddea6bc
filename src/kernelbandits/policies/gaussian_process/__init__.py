"""Policies in the words of Gaussian processes."""

from kernelbandits.policies.gaussian_process.gp_ucb import CGPUCB, GPUCB
from kernelbandits.policies.gaussian_process.kernel_thompson import KernelThompson

__all__ = ["CGPUCB", "GPUCB", "KernelThompson"]
