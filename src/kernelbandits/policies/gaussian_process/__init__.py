"""Policies in the words of Gaussian processes."""

from kernelbandits.policies.gaussian_process.gp_ucb import CGPUCB, GPUCB

__all__ = ["CGPUCB", "GPUCB"]
