"""What policies are judged by: regret where it is known, reward otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from kernelbandits.experiments.reporting.played import Played

__all__ = ["REGRET", "REWARD", "Measure", "measure_of"]


@dataclass(frozen=True, kw_only=True)
class Measure:
    """A number at the end of a run."""

    column: str
    title: str
    is_regret: bool

    def best_first(self, policies: Mapping[str, Played]) -> list[str]:
        """Labels by the mean over seeds, best first; unknown ones last, ties as they come."""
        sign = 1.0 if self.is_regret else -1.0
        value = {label: sign * float(played.final_band(self.column).mean) for label, played in policies.items()}
        return sorted(policies, key=lambda label: (bool(np.isnan(value[label])), value[label]))


REGRET: Final = Measure(column="regret", title="Cumulative regret", is_regret=True)
REWARD: Final = Measure(column="total_reward", title="Total reward", is_regret=False)


def measure_of(policies: Mapping[str, Played]) -> Measure:
    """Regret where every run of an environment knows it."""
    known = all(np.isfinite(played.final("regret")).all() for played in policies.values())
    return REGRET if known else REWARD
