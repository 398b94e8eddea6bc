"""Rows of the table: each policy at the end of its runs."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import isnan, nan
from typing import Any

import numpy as np

from kernelbandits.experiments.reporting.measure import Measure, measure_of
from kernelbandits.experiments.reporting.played import Played
from kernelbandits.experiments.reporting.reading import Recorded
from kernelbandits.experiments.summary import mean_band

__all__ = ["Entry", "entries_of"]


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One policy in one environment."""

    environment: str
    policy: str
    n_runs: int
    n_rounds: int
    """Of the longest run."""

    measure: str
    """What `final` is: "regret", or "total_reward" where regret is not known."""

    final: float
    """Mean over runs at their ends."""

    half_width: float
    """Half the length of its confidence interval; nan with one run."""

    share_of_random: float
    """Regret as a share of that of choosing at random; nan where nobody did or regret is not known."""

    mean_reward: float
    """A round, mean over runs."""

    mean_reward_half_width: float
    seconds_per_round: float
    """Mean over runs; nan where no time was kept."""

    is_best: bool
    """Of its environment."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values; unknown ones are None."""
        return {
            name: None if isinstance(value, float) and isnan(value) else value for name, value in asdict(self).items()
        }


def entries_of(recorded: Recorded) -> dict[str, tuple[Entry, ...]]:
    """Rows by environment, best first."""
    found = {}
    for environment, policies in recorded.environments.items():
        measure = measure_of(policies)
        order = measure.best_first(policies)
        random = _random_regret(list(policies.values()), measure)
        found[environment] = tuple(
            _entry(environment, policies[label], measure, random, is_best=label == order[0]) for label in order
        )
    return found


def _entry(environment: str, played: Played, measure: Measure, random: float, *, is_best: bool) -> Entry:
    final, reward = played.final_band(measure.column), mean_band(played.mean_rewards)
    return Entry(
        environment=environment,
        policy=played.label,
        n_runs=played.n_runs,
        n_rounds=int(played.n_rounds.max()),
        measure=measure.column,
        final=float(final.mean),
        half_width=float(final.half_width),
        share_of_random=float(final.mean) / random if random > 0 else nan,
        mean_reward=float(reward.mean),
        mean_reward_half_width=float(reward.half_width),
        seconds_per_round=float(np.mean(played.seconds_per_round)),
        is_best=is_best,
    )


def _random_regret(policies: list[Played], measure: Measure) -> float:
    """Mean regret of choosing at random; nan where nobody did."""
    for played in policies:
        if played.is_random and measure.is_regret:
            return float(played.final_band("regret").mean)
    return nan
