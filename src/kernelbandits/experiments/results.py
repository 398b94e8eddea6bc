"""Results of studies: runs of each policy, one record of its outcome, and the warnings of a report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property, reduce
from math import isnan, nan
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtrit
from scipy.stats import rankdata

from kernelbandits._optional import import_optional
from kernelbandits._text import repr_of_fields
from kernelbandits.errors import DamagedFile, ForeignFile, InvalidParameter
from kernelbandits.evaluation import Trace
from kernelbandits.experiments.policy_spec import suggest
from kernelbandits.experiments.store import JOBS, SOURCES, TOML_FILE, JobResult, ResultFolder, read_metadata
from kernelbandits.types import Indices, Matrix, Parameters, Vector
from kernelbandits.validation import check_array, check_mapping, check_path, pluralize

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped, unused-ignore]
    import pyarrow as pa  # type: ignore[import-untyped, unused-ignore]

__all__ = [
    "CONFIDENCE",
    "REGRET",
    "REWARD",
    "Band",
    "EndValue",
    "Measure",
    "PolicyRuns",
    "Result",
    "Results",
    "mean_band",
    "measure_of",
    "read_results",
    "report_warnings",
    "summarize",
]

CONFIDENCE: Final = 0.95
"""Confidence of every interval in tables and figures."""

FOLDER_HINT: Final = "A study writes one: kernelbandits run study.toml --into results"


# Statistics over seeds


@dataclass(frozen=True, eq=False)
class Band:
    """Mean over seeds and half the length of its confidence interval, at one place or along a curve."""

    __repr__ = repr_of_fields

    mean: Vector
    half_width: Vector
    """nan if there is a single seed."""


def mean_band(values: ArrayLike) -> Band:
    """Mean over the first axis with Student's t interval: mean ± t_{n−1} · s / sqrt(n).

    >>> band = mean_band([1.0, 2.0, 3.0])
    >>> float(band.mean), round(float(band.half_width), 3)
    (2.0, 2.484)
    """
    repeats = check_array(values, "Values of repeats")
    if not repeats.ndim or not len(repeats):
        raise InvalidParameter("A mean needs at least one repeat, got none.")
    n = len(repeats)
    if n == 1:
        return Band(repeats[0], np.full_like(repeats[0], np.nan))
    quantile = float(stdtrit(n - 1, (1.0 + CONFIDENCE) / 2.0))
    return Band(repeats.mean(axis=0), np.asarray(quantile * repeats.std(axis=0, ddof=1) / np.sqrt(n)))


@dataclass(frozen=True, kw_only=True)
class EndValue:
    """One number at the end of the runs, over seeds."""

    mean: float = nan
    low: float = nan
    high: float = nan
    """Ends of the 95 % interval of the mean; nan with one seed."""

    deviation: float = nan
    """Standard deviation over seeds; nan with one seed."""

    @property
    def half_width(self) -> float:
        """Half the length of the interval."""
        return (self.high - self.low) / 2.0

    @classmethod
    def of(cls, values: ArrayLike) -> EndValue:
        """Statistics of one value per seed, with Student's t interval."""
        numbers = np.asarray(values, dtype=np.float64)
        band = mean_band(numbers)
        mean, half = float(band.mean), float(band.half_width)
        deviation = float(np.std(numbers, ddof=1)) if len(numbers) > 1 else nan
        return cls(mean=mean, low=mean - half, high=mean + half, deviation=deviation)


@dataclass(frozen=True, kw_only=True)
class Result:
    """One policy in one environment, or on one log, at the end of its runs."""

    policy: str
    environment: str = ""
    parameters: Parameters = field(default_factory=dict)
    """Values of its grids, by dotted name."""

    n_runs: int = 1
    n_rounds: int = 0
    """Rounds of the longest run."""

    measure: str = "regret"
    """Number that policies are ranked by: "regret", "total_reward", or "value" on a log."""

    rank: int = 1
    """Rank in its environment; 1 is the best."""

    regret: EndValue = field(default_factory=EndValue)
    """Cumulative pseudo-regret; nan if the environment does not know expected rewards."""

    total_reward: EndValue = field(default_factory=EndValue)
    mean_reward: EndValue = field(default_factory=EndValue)
    """Reward per round."""

    value: EndValue = field(default_factory=EndValue)
    """Estimated value on a log."""

    reference: str = ""
    """Policy that it is compared with; empty if there is none to compare with."""

    difference: EndValue = field(default_factory=EndValue)
    """Its final number minus that of the reference under the same seed, so with the same contexts and noise."""

    n_pairs: int = 0
    """Number of seeds of both."""

    n_better: int = 0
    """Number of these seeds under which it was better."""

    mean_rank: EndValue = field(default_factory=EndValue)
    """Rank among the policies under one seed, over the seeds of all of them; ties share the mean of their ranks."""

    relative_regret: float = nan
    """Regret divided by that of the reference, usually the random policy; nan if there is none."""

    seconds_per_round: float = nan
    """Time to choose and to learn, mean over runs; nan if no times are stored."""

    @property
    def final(self) -> EndValue:
        """Number that the policy is ranked by."""
        end: EndValue = getattr(self, self.measure)
        return end

    @property
    def is_best(self) -> bool:
        """Whether it ranks first in its environment."""
        return self.rank == 1

    def to_dict(self) -> dict[str, Any]:
        """Plain values without nesting, except `parameters`; unknown numbers are None."""
        plain: dict[str, Any] = {}
        for part in fields(self):
            value = getattr(self, part.name)
            if isinstance(value, EndValue):
                plain[part.name] = value.mean
                plain |= {f"{part.name}_{name}": getattr(value, name) for name in ("low", "high", "deviation")}
            else:
                plain[part.name] = value
        return {name: None if isinstance(value, float) and isnan(value) else value for name, value in plain.items()}


# Runs of a policy


@dataclass(frozen=True, eq=False)
class PolicyRuns:
    """Runs of one policy in one environment, one per seed.

    Runs may differ in length, since environments may end early. Curves end with the shortest run; numbers at the
    end are those of each run's own end.
    """

    __repr__ = repr_of_fields

    runs: Sequence[JobResult]
    """At least one, each with at least one round."""

    @property
    def label(self) -> str:
        """Label of the policy."""
        return self.runs[0].policy

    @property
    def spec_name(self) -> str:
        """Name of the policy without the values of its grids."""
        return str(self.runs[0].metadata["spec_name"])

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Values of its grids."""
        parameters: Mapping[str, Any] = self.runs[0].metadata["parameters"]
        return parameters

    @property
    def described(self) -> Mapping[str, Any]:
        """Descriptions of environment and policy."""
        return self.runs[0].metadata.get("described") or {}

    @property
    def claims(self) -> Mapping[str, Any] | None:
        """Guarantee of the exploration schedule: `assumes`, `failure_probability`; None if there is none."""
        return self.runs[0].metadata.get("claims")

    @property
    def failure_probability(self) -> float | None:
        """Claimed failure probability of the confidence intervals; None if nothing is claimed."""
        return None if self.claims is None else float(self.claims["failure_probability"])

    @property
    def is_random(self) -> bool:
        """Whether it chooses uniformly at random."""
        return (self.described.get("policy") or {}).get("class") == "UniformRandom"

    @property
    def n_runs(self) -> int:
        """Number of seeds."""
        return len(self.runs)

    @cached_property
    def rounds(self) -> Indices:
        """Rounds that every run has stored; may be empty."""
        return reduce(np.intersect1d, [run.columns["round"] for run in self.runs])

    def curves(self, column: str) -> Matrix:
        """Return a column at these rounds, shape (n_runs, n_rounds)."""
        rows = [np.searchsorted(run.columns["round"], self.rounds) for run in self.runs]
        return np.array([run.columns[column][row] for run, row in zip(self.runs, rows, strict=True)], dtype=np.float64)

    def final_by_seed(self, column: str) -> dict[int, float]:
        """Return a column after the last round of each run, by its seed."""
        return {run.seed: float(value) for run, value in zip(self.runs, self.final(column), strict=True)}

    def final(self, column: str) -> Vector:
        """Return a column after the last round of each run."""
        return np.array([run.columns[column][-1] for run in self.runs], dtype=np.float64)

    def final_band(self, column: str) -> Band:
        """Return mean and interval over the runs at their ends."""
        return mean_band(self.final(column))

    @property
    def n_rounds(self) -> Vector:
        """Length of each run."""
        return self.final("round")

    @property
    def mean_rewards(self) -> Vector:
        """Reward per round of each run, over rounds with a known reward; nan if their number is unknown."""
        return np.array([_mean_reward(run) for run in self.runs])

    @property
    def has_all_rewards(self) -> bool:
        """Whether every stored reward is known; in a logged environment some are not."""
        return not any(np.isnan(run.columns["reward"]).any() for run in self.runs)

    @cached_property
    def seconds_per_round(self) -> Vector:
        """Mean time per round of each run; nan if no times are stored."""
        return np.array([_mean_seconds(run) for run in self.runs])


def _mean_reward(run: JobResult) -> float:
    """Total reward over the number of rounds; if some rewards are unknown, every round must be stored."""
    rewards, n_rounds = run.columns["reward"], run.n_rounds
    n_unknown = np.count_nonzero(np.isnan(rewards))
    if n_unknown and (len(rewards) < n_rounds or n_unknown == n_rounds):
        return nan
    return float(run.columns["total_reward"][-1] / (n_rounds - n_unknown))


def _mean_seconds(run: JobResult) -> float:
    """Each row is a mean since the previous row and is weighted by its number of rounds."""
    if run.seconds is None or not len(run.seconds["round"]):
        return nan
    n_rounds = np.diff(run.seconds["round"], prepend=0)
    return float(np.sum(n_rounds * run.seconds["seconds"]) / n_rounds.sum())


@dataclass(frozen=True, kw_only=True)
class Measure:
    """Number at the end of a run by which policies are ranked."""

    column: str
    title: str
    is_regret: bool

    def best_first(self, policies: Mapping[str, PolicyRuns]) -> list[str]:
        """Labels by the mean over seeds, best first; unknown ones last, ties in the given order."""
        sign = 1.0 if self.is_regret else -1.0
        value = {label: sign * float(runs.final_band(self.column).mean) for label, runs in policies.items()}
        return sorted(policies, key=lambda label: (isnan(value[label]), value[label]))


REGRET: Final = Measure(column="regret", title="Cumulative regret", is_regret=True)
"""Measure of environments that know the expected reward of every action."""

REWARD: Final = Measure(column="total_reward", title="Total reward", is_regret=False)
"""Measure of other environments, such as logs."""


def measure_of(policies: Mapping[str, PolicyRuns]) -> Measure:
    """Regret if every run of an environment knows it, else total reward."""
    known = all(np.isfinite(runs.final("regret")).all() for runs in policies.values())
    return REGRET if known else REWARD


# Result folders


class Results:
    """Result folder of a study, finished or not: a table, a summary, and the runs of each policy.

    Any Parquet reader sees the same rows: `pandas.read_parquet(folder / "jobs")`,
    `polars.read_parquet("folder/jobs/*.parquet")`, DuckDB's `select * from 'folder/jobs/*.parquet'`. It also sees the
    jobs that a later version of the study left out.

    Parameters
    ----------
    folder
        Result folder.
    """

    def __init__(self, folder: str | PathLike[str]) -> None:
        import_optional("pyarrow", "This part of experiments")
        self.folder = Path(check_path(folder))
        if not self.folder.is_dir():
            raise InvalidParameter(f"There is no folder {str(self.folder)!r}. {FOLDER_HINT}")
        self._files = ResultFolder(self.folder)
        metadata = self._files.read_study()
        if not metadata:
            raise ForeignFile(f"{str(self.folder)!r} is not a result folder: it has no study.json. {FOLDER_HINT}")
        self.study: Mapping[str, Any] = metadata
        """Contents of study.json."""

    @property
    def name(self) -> str:
        """Name of the study."""
        return str(self.study.get("name") or self.folder.resolve().name)

    @property
    def seeds(self) -> tuple[int, ...]:
        """Seeds of the study."""
        return tuple(self.study["seeds"])

    @property
    def kept_files(self) -> tuple[str, ...]:
        """Files of the study that the folder keeps as they were given: study.toml, then a user's own in sources/."""
        names = [TOML_FILE, *sorted(f"{SOURCES}/{path.name}" for path in (self.folder / SOURCES).glob("*"))]
        return tuple(
            name for name in names if name in (self.study.get("files") or {}) and (self.folder / name).is_file()
        )

    @property
    def missing(self) -> tuple[str, ...]:
        """Ids of the jobs that are not finished, or whose files are damaged."""
        return tuple(job for job in self.study["jobs"] if not self._files.is_finished(job))

    @property
    def is_complete(self) -> bool:
        """Whether every job is finished."""
        return not self.missing

    @property
    def jobs(self) -> tuple[dict[str, Any], ...]:
        """Descriptions of all finished jobs, in the order of the study."""
        return tuple(read_metadata(table, self.folder) for table in self._tables())

    def table(self) -> pa.Table:
        """All rows of the finished jobs, in the order of the study."""
        import pyarrow as pa

        tables = [table.replace_schema_metadata() for table in self._tables()]
        if not tables:
            raise InvalidParameter(f"No job in {str(self.folder)!r} is finished yet. Run the study.")
        return pa.concat_tables(tables).unify_dictionaries()

    def frame(self) -> pd.DataFrame:
        """All rows as a pandas frame."""
        import_optional("pandas", "A frame of results", extra="adapters")
        frame: pd.DataFrame = self.table().to_pandas()
        return frame

    def summary(self) -> tuple[Result, ...]:
        """Every policy in every environment at the end of its finished runs, in the order of the study."""
        runs = [self._files.read_job(job) for job in self.study["jobs"] if self._files.is_finished(job)]
        return tuple(result for policies in self._arrange(runs).values() for result in _results(policies))

    def ranking(self, reference: str | None = None) -> dict[str, tuple[Result, ...]]:
        """Results by environment, best first; raises for damaged files.

        Parameters
        ----------
        reference
            Policy to compare the others with, seed by seed; None: the best in each environment.
        """
        labels = {runs.label for runs in self.all_runs}
        if reference is not None and reference not in labels:
            raise InvalidParameter(f"There is no policy {reference!r} to compare with.{suggest(reference, labels)}")
        return {
            name: tuple(sorted(_results(policies, reference), key=lambda result: result.rank))
            for name, policies in self.environments.items()
        }

    def overall_ranks(self) -> dict[str, EndValue]:
        """Mean rank of each policy over all environments, over the seeds; empty if not all policies ran in all of them.

        Under each seed the ranks are averaged over the environments, each of which counts alike.
        """
        ranks = [_ranks(policies, measure_of(policies)) for policies in self.environments.values()]
        labels = list(dict.fromkeys(runs.label for runs in self.all_runs))
        seeds = [seed for seed in self.seeds if all(seed in by_seed for by_seed in ranks)]
        if not seeds or any(set(policies) != set(labels) for policies in self.environments.values()):
            return {}
        return {
            label: EndValue.of([np.mean([by_seed[seed][label] for by_seed in ranks]) for seed in seeds])
            for label in labels
        }

    # For reports

    @cached_property
    def _finished(self) -> tuple[JobResult, ...]:
        """All jobs with a file; raises for damaged files."""
        return tuple(
            self._files.read_job(job) for job in dict.fromkeys(self.study["jobs"]) if self._files.job_file(job).exists()
        )

    @cached_property
    def environments(self) -> Mapping[str, Mapping[str, PolicyRuns]]:
        """Runs by environment and policy, in the order of the study; raises for damaged files."""
        return self._arrange(self._finished)

    @property
    def all_runs(self) -> list[PolicyRuns]:
        """Runs of every policy in every environment."""
        return [runs for policies in self.environments.values() for runs in policies.values()]

    @property
    def n_missing(self) -> int:
        """Number of jobs of the study that are not finished."""
        return len(dict.fromkeys(self.study["jobs"])) - len(self._finished)

    @property
    def n_foreign(self) -> int:
        """Number of result files that are not, or no longer, part of the study; they are not read."""
        ids = set(self.study["jobs"])
        return sum(path.stem not in ids for path in (self.folder / JOBS).glob("*.parquet"))

    @property
    def n_empty(self) -> int:
        """Number of finished jobs without a round."""
        return sum(run.n_rounds == 0 for run in self._finished)

    def _tables(self) -> list[pa.Table]:
        return [self._files.read_table(job) for job in self.study["jobs"] if self._files.is_finished(job)]

    def _arrange(self, runs: Sequence[JobResult]) -> dict[str, dict[str, PolicyRuns]]:
        """Runs with at least one round, by environment, policy and seed."""
        found: dict[str, dict[str, dict[int, JobResult]]] = {}
        for run in runs:
            if not run.n_rounds:
                continue
            seeds = found.setdefault(run.environment, {}).setdefault(run.policy, {})
            if run.seed in seeds:
                raise DamagedFile(
                    f"The folder {str(self.folder)!r} holds two results of {run.policy!r} in {run.environment!r} under "
                    f"seed {run.seed}. Give policies labels of their own, and run the study again."
                )
            seeds[run.seed] = run
        return {
            environment: {
                label: PolicyRuns([seeds[seed] for seed in sorted(seeds)]) for label, seeds in policies.items()
            }
            for environment, policies in found.items()
        }

    def __repr__(self) -> str:
        n_jobs = len(self.study["jobs"])
        return f"Results({str(self.folder)!r}: {n_jobs - len(self.missing)} of {pluralize(n_jobs, 'job')})"


def read_results(folder: str | PathLike[str]) -> Results:
    """Read every file of a result folder, as reports do; jobs that are not finished are counted.

    Raises
    ------
    InvalidParameter
        If there is no such folder, or no job of its study is finished yet.
    ForeignFile, NewerFile, DamagedFile
        If the folder holds no study, one of a later version, or a file that cannot be read.
    """
    results = Results(folder)
    if not results.environments:
        raise InvalidParameter(
            f"No job of the study in {str(results.folder)!r} is finished yet: it has "
            f"{pluralize(len(results.study['jobs']), 'job')} and no result. Run the study first."
        )
    return results


def _ranks(policies: Mapping[str, PolicyRuns], measure: Measure) -> dict[int, dict[str, float]]:
    """Ranks of the policies of one environment under each seed that all of them have; 1 is the best."""
    values = {label: runs.final_by_seed(measure.column) for label, runs in policies.items()}
    sign = 1.0 if measure.is_regret else -1.0
    found = {}
    for seed in next(iter(values.values())):
        if all(seed in by_seed for by_seed in values.values()):
            finals = np.array([sign * by_seed[seed] for by_seed in values.values()])
            if not np.isnan(finals).any():
                found[seed] = dict(zip(values, map(float, rankdata(finals)), strict=True))
    return found


def _comparison(runs: PolicyRuns, reference: PolicyRuns | None, measure: Measure) -> dict[str, Any]:
    """Paired differences of a policy to the reference, as fields of a result."""
    if reference is None:
        return {}
    own, other = (each.final_by_seed(measure.column) for each in (runs, reference))
    differences = np.array([value - other[seed] for seed, value in own.items() if seed in other])
    differences = differences[~np.isnan(differences)]
    if not len(differences):
        return {"reference": reference.label}
    return {
        "reference": reference.label,
        "difference": EndValue.of(differences),
        "n_pairs": len(differences),
        "n_better": int(np.sum(differences < 0.0 if measure.is_regret else differences > 0.0)),
    }


def _results(policies: Mapping[str, PolicyRuns], named: str | None = None) -> list[Result]:
    """Results of the policies of one environment, in the given order, compared with a named one or with the best."""
    measure = measure_of(policies)
    order = measure.best_first(policies)
    ranks = {label: rank for rank, label in enumerate(order, start=1)}
    compared = policies.get(order[0] if named is None else named) if len(policies) > 1 else None
    seed_ranks = list(_ranks(policies, measure).values())
    reference = next((float(runs.final_band("regret").mean) for runs in policies.values() if runs.is_random), nan)
    results = []
    for label, runs in policies.items():
        regret = EndValue.of(runs.final("regret"))
        results.append(
            Result(
                environment=runs.runs[0].environment,
                policy=label,
                parameters=dict(runs.parameters),
                n_runs=runs.n_runs,
                n_rounds=int(runs.n_rounds.max()),
                measure=measure.column,
                rank=ranks[label],
                regret=regret,
                total_reward=EndValue.of(runs.final("total_reward")),
                mean_reward=EndValue.of(runs.mean_rewards),
                mean_rank=EndValue.of([found[label] for found in seed_ranks]) if seed_ranks else EndValue(),
                **_comparison(runs, compared, measure),
                relative_regret=regret.mean / reference if reference > 0 else nan,
                seconds_per_round=float(np.mean(runs.seconds_per_round)),
            )
        )
    return results


def summarize(traces: Mapping[str, Sequence[Trace]], *, reference: str) -> tuple[Result, ...]:
    """Results of simulations in one environment, lowest regret first; regret is relative to that of `reference`."""
    for name, runs in check_mapping(traces, "The traces", "A trace is what simulate returns.").items():
        if not runs or not all(len(getattr(run, "regret", ())) for run in runs):
            raise InvalidParameter(f"The policy {name!r} needs at least one trace, and none without rounds.")
    if reference not in traces:
        raise InvalidParameter(f"There is no policy {reference!r} to compare with, only {', '.join(map(str, traces))}.")
    regrets = {name: EndValue.of([run.regret[-1] for run in runs]) for name, runs in traces.items()}
    whole = regrets[reference].mean
    return tuple(
        Result(
            policy=name,
            n_runs=len(traces[name]),
            n_rounds=max(len(run.regret) for run in traces[name]),
            rank=rank,
            regret=regrets[name],
            total_reward=EndValue.of([np.nansum(run.reward) for run in traces[name]]),
            mean_reward=EndValue.of([np.mean(run.reward) for run in traces[name]]),
            relative_regret=regrets[name].mean / whole if whole > 0 else nan,
            seconds_per_round=float(np.mean([run.seconds.mean() for run in traces[name]])),
        )
        for rank, name in enumerate(sorted(regrets, key=lambda name: regrets[name].mean), start=1)
    )


# Warnings

MOST_NAMED: Final = 8
"""Policies that a warning names; the others are counted."""


def report_warnings(results: Results) -> tuple[str, ...]:
    """Warnings for readers of a report, the most serious first; none if the study is complete."""
    parts = (_unfinished, _empty, _short, _single_runs, _no_regret, _unknown_rewards)
    return tuple(sentence for part in parts for sentence in part(results))


def _unfinished(results: Results) -> Iterator[str]:
    if results.n_missing:
        n_jobs = len(results.study["jobs"])
        yield (
            f"The study is not complete: {n_jobs - results.n_missing:,} of {n_jobs:,} jobs are finished. Policies "
            f"with fewer seeds had other noise, so compare with care. {_named(list(_missing(results)))}"
        ).strip()
    if results.n_foreign:
        n = results.n_foreign
        files = "One result in the folder is" if n == 1 else f"{n} results in the folder are"
        yield f"{files} not part of the study as it is now, and left out."


def _missing(results: Results) -> Iterator[str]:
    """Policies that lack seeds; the names of those without any finished job are unknown."""
    seeds = set(results.seeds)
    labels = dict.fromkeys(runs.label for runs in results.all_runs)
    for environment, policies in results.environments.items():
        for label in labels:
            done = {run.seed for run in policies[label].runs} if label in policies else set()
            if lacking := sorted(seeds - done):
                which = f"seed {', '.join(map(str, lacking))}" if done else "all seeds"
                yield f"{label} in {environment} ({which})"


def _empty(results: Results) -> Iterator[str]:
    if n := results.n_empty:
        yield f"{'One result is' if n == 1 else f'{n} results are'} left out because the environment had no round."


def _short(results: Results) -> Iterator[str]:
    horizon = results.study.get("horizon")
    short = [
        f"{runs.label} in {environment} ({_span(runs)})"
        for environment, policies in results.environments.items()
        for runs in policies.values()
        if isinstance(horizon, int) and runs.n_rounds.min() < horizon
    ]
    if short:
        yield (
            f"Some runs ended before round {horizon}: their environments had no more rounds. Curves end with the "
            f"shortest run of a policy; tables take each run at its own end. {_named(short)}"
        )


def _single_runs(results: Results) -> Iterator[str]:
    if all(runs.n_runs == 1 for runs in results.all_runs):
        yield "There is one run of each policy, so there are no intervals: differences may be noise."
    elif any(runs.n_runs == 1 for runs in results.all_runs):
        yield "Some policies have one run only, and no interval."


def _no_regret(results: Results) -> Iterator[str]:
    unknown = [name for name, policies in results.environments.items() if not measure_of(policies).is_regret]
    if unknown:
        yield f"Expected rewards, and so regret, are not known in {', '.join(unknown)}: rewards are shown instead."


def _unknown_rewards(results: Results) -> Iterator[str]:
    unknown = [
        name
        for name, policies in results.environments.items()
        if not all(runs.has_all_rewards for runs in policies.values())
    ]
    if unknown:
        yield (
            f"Some rewards are not known in {', '.join(unknown)}, for example where a log has another action: totals "
            "grow in the other rounds only, so a policy that agrees with the log more often has more of them. Mean "
            "rewards are over these rounds, which needs a study that stores every round."
        )


def _named(sentences: list[str]) -> str:
    if not sentences:
        return ""
    more = len(sentences) - MOST_NAMED
    return "; ".join(sentences[:MOST_NAMED]) + (f"; and {more} more." if more > 0 else ".")


def _span(runs: PolicyRuns) -> str:
    low, high = int(runs.n_rounds.min()), int(runs.n_rounds.max())
    return pluralize(low, "round") if low == high else f"{low:,} to {high:,} rounds"
