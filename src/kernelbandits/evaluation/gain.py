"""The information gained so far, without asking the posterior for it in every round."""

from __future__ import annotations

from math import log1p, nan
from typing import Final

from kernelbandits.policies import CGPUCB, GPUCB, KernelUCB, LinUCB
from kernelbandits.policies.base import Policy
from kernelbandits.posterior import (
    AutoPosterior,
    CompressedPosterior,
    ExactPosterior,
    PartitionedPosterior,
    PerActionPosterior,
    PrimalPosterior,
)

__all__ = ["InformationGain"]

PLAIN_POLICIES: Final = (CGPUCB, GPUCB, KernelUCB, LinUCB)
"""Policies whose decisions carry the width of the posterior that then learns them, each once."""

EXACT_POSTERIORS: Final = (
    AutoPosterior,
    CompressedPosterior,
    ExactPosterior,
    PartitionedPosterior,
    PerActionPosterior,
    PrimalPosterior,
)


class InformationGain:
    """Ln det(I + K/γ) of what a policy has learnt; nan where it has no posterior.

    An observation multiplies det(I + K/γ) by 1 + width², so the sum of ln(1 + width²) over what was learnt is the
    gain. Where decisions carry that width it is added up. A posterior would have to bring its factor up to date to
    answer, which a policy over a catalogue can do without; where nothing can be added up it is asked all the same.
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._adds_up = isinstance(policy, PLAIN_POLICIES) and isinstance(policy.posterior, EXACT_POSTERIORS)
        self.now = self._asked()

    def add(self, width: float) -> None:
        """A decision of this width was learnt in the round it was chosen in."""
        if self._adds_up and not self._policy.pending:  # what is pending narrows widths without being learnt
            self.add_played(width)
        else:
            self.renew()

    def add_played(self, width: float) -> None:
        """A round of this width was chosen and learnt by the policy's own loop, which knows no other case."""
        self.now += log1p(width * width)

    def renew(self) -> None:
        """Something was learnt whose width is no longer, or never was, that of its decision."""
        self.now = self._asked()

    def _asked(self) -> float:
        posterior = getattr(self._policy, "posterior", None)  # not every policy has one
        return nan if posterior is None else float(posterior.log_det_gain)
