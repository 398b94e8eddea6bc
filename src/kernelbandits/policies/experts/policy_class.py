"""Classes of policies that may be infinite, as long as their labellings of finitely many rounds can be listed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from kernelbandits.policies.experts.advice import Expert
from kernelbandits.types import Matrix, Parameters, Points, Vector

__all__ = ["PolicyClass"]


@runtime_checkable
class PolicyClass(Protocol):
    """A class of policies, each of which plays one action of a round."""

    def look(self, contexts: Points, n_actions: int) -> Vector:
        """All that the class needs to know of a round: always as many numbers."""

    def distinct(self, looks: Matrix) -> Sequence[Expert]:
        """One policy per distinct labelling of these rounds: per way in which a policy of the class plays them."""

    def describe(self) -> Parameters:
        """Class and parameters as plain values."""
