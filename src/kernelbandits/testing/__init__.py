"""Contract tests for implementations of the library's interfaces.

A contract is a class of pytest tests. Derive a test class from it and supply the fixtures that its docstring names;
pytest then runs all tests of the contract on your class. Start with `KernelContract`.
"""

from kernelbandits.testing.environments import EnvironmentContract
from kernelbandits.testing.kernels import KernelContract
from kernelbandits.testing.policies import PolicyContract
from kernelbandits.testing.posteriors import PosteriorContract

__all__ = ["EnvironmentContract", "KernelContract", "PolicyContract", "PosteriorContract"]
