"""The promises every implementation keeps, to be inherited by the tests of those who write their own."""

from kernelbandits.testing.policies import PolicyContract
from kernelbandits.testing.posteriors import PosteriorContract

__all__ = ["PolicyContract", "PosteriorContract"]
