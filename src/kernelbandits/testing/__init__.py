"""Contract tests for implementations of the library's interfaces.

A contract is a class of pytest tests. Derive a test class from it and supply the fixtures that its docstring names;
pytest then runs all tests of the contract on your class. Start with `KernelContract`.
The contracts need pytest, which the extra `testing` installs.
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
