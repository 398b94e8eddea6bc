"""Runs of one policy side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any

import numpy as np

from kernelbandits.experiments.reporting.job_file import Run
from kernelbandits.experiments.summary import Band, mean_band
from kernelbandits.types import Indices, Matrix, Vector

__all__ = ["Played"]


@dataclass(frozen=True, eq=False)
class Played:
    """Runs of one policy in one environment, a row a seed.

    Runs need not be equally long, as worlds may end early: curves go as far as all of them do, and what stands at the
    end is each run's own.
    """

    runs: Sequence[Run]
    """At least one, each with at least one round."""

    @property
    def label(self) -> str:
        """Name of the policy."""
        return self.runs[0].policy

    @property
    def contender(self) -> str:
        """Its name without the values of its grid."""
        return self.runs[0].contender

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Values of its grid."""
        return self.runs[0].parameters

    @property
    def failure_probability(self) -> float | None:
        """Chance with which its confidence intervals may fail, where they claim to hold."""
        claims = self.runs[0].claims
        return None if claims is None else float(claims["failure_probability"])

    @property
    def is_random(self) -> bool:
        """Whether it chooses uniformly at random."""
        return (self.runs[0].described.get("policy") or {}).get("class") == "UniformRandom"

    @property
    def n_runs(self) -> int:
        """Number of seeds."""
        return len(self.runs)

    @cached_property
    def rounds(self) -> Indices:
        """Rounds that every run has recorded; may be empty."""
        return reduce(np.intersect1d, [run.columns["round"] for run in self.runs])

    def curves(self, column: str) -> Matrix:
        """A column at these rounds, shape (n_runs, n_rounds)."""
        rows = [np.searchsorted(run.columns["round"], self.rounds) for run in self.runs]
        return np.array([run.columns[column][row] for run, row in zip(self.runs, rows, strict=True)], dtype=np.float64)

    def final(self, column: str) -> Vector:
        """A column after the last round of each run."""
        return np.array([run.columns[column][-1] for run in self.runs], dtype=np.float64)

    @property
    def n_rounds(self) -> Vector:
        """Length of each run."""
        return self.final("round")

    @property
    def mean_rewards(self) -> Vector:
        """Reward a round of each run, over rounds whose reward is known; nan where nobody can tell how many are."""
        return np.array([_mean_reward(run) for run in self.runs])

    @property
    def knows_rewards(self) -> bool:
        """Whether every reward that was kept is known, as it is not where a log is played."""
        return not any(np.isnan(run.columns["reward"]).any() for run in self.runs)

    def final_band(self, column: str) -> Band:
        """Mean and interval over the runs at their ends."""
        return mean_band(self.final(column))

    @cached_property
    def seconds_per_round(self) -> Vector:
        """Mean time a round of each run; nan where none was kept."""
        return np.array([_mean_seconds(run) for run in self.runs])


def _mean_reward(run: Run) -> float:
    """The sum over all rounds, over their number; where some rewards are unknown, the rows have to be all rounds."""
    rewards, n_rounds = run.columns["reward"], run.n_rounds
    n_unknown = np.count_nonzero(np.isnan(rewards))
    if n_unknown and (len(rewards) < n_rounds or n_unknown == n_rounds):
        return float("nan")
    return float(run.columns["total_reward"][-1] / (n_rounds - n_unknown))


def _mean_seconds(run: Run) -> float:
    """Each row is a mean since the row before, so rows count as many rounds as they stand for."""
    if run.seconds is None or not len(run.seconds["round"]):
        return float("nan")
    n_rounds = np.diff(run.seconds["round"], prepend=0)
    return float(np.sum(n_rounds * run.seconds["seconds"]) / n_rounds.sum())
