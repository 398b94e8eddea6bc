"""The promises every implementation keeps, to be inherited by the tests of those who write their own.

A contract is a class of tests for pytest. Inherit it, supply the fixtures that its docstring names, and pytest holds
your class to every promise. `KernelContract` is the one to try first. The contracts need pytest, which the extra
`testing` brings.
"""

from kernelbandits.errors import MissingExtra

try:
    from kernelbandits.testing.environments import EnvironmentContract
    from kernelbandits.testing.kernels import KernelContract
    from kernelbandits.testing.policies import PolicyContract
    from kernelbandits.testing.posteriors import PosteriorContract
except ModuleNotFoundError as missing:
    if missing.name != "pytest":
        raise
    raise MissingExtra(
        'The contracts need pytest, which is not installed. Add it with: pip install "kernelbandits[testing]"'
    ) from missing

__all__ = ["EnvironmentContract", "KernelContract", "PolicyContract", "PosteriorContract"]
