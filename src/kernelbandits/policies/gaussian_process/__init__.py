"""Policies in the words of Gaussian processes."""

from kernelbandits.policies.gaussian_process.gp_ucb import CGPUCB, GPUCB
from kernelbandits.policies.gaussian_process.grid_gp import GridGP

__all__ = ["CGPUCB", "GPUCB", "GridGP"]
