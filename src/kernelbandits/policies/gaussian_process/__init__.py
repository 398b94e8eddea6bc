"""Policies in the words of Gaussian processes.

`GPUCB` takes the highest upper confidence bound and `CGPUCB` does so over pairs of a context and an action;
`KernelThompson` draws from the posterior; `GridGP` tries a grid once, where there is no noise.
"""

from kernelbandits.policies.gaussian_process.gp_ucb import CGPUCB, GPUCB
from kernelbandits.policies.gaussian_process.grid_gp import GridGP
from kernelbandits.policies.gaussian_process.kernel_thompson import KernelThompson

__all__ = ["CGPUCB", "GPUCB", "GridGP", "KernelThompson"]
