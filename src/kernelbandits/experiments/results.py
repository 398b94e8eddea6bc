"""Results: summaries over seeds, runs of a policy, warnings of a report."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, reduce
from math import isnan, nan
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtrit

from kernelbandits._optional import import_optional
from kernelbandits.errors import DamagedFile, ForeignFile, InvalidParameter
from kernelbandits.evaluation import Trace
from kernelbandits.experiments.letters import FONT, unknown_letters
from kernelbandits.experiments.store import ResultFolder, Run, read_job, said_of, sound_table
from kernelbandits.types import Indices, Matrix, Vector
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
    "Entry",
    "Measure",
    "Played",
    "Recorded",
    "Results",
    "Row",
    "Standing",
    "entries_of",
    "gaps",
    "mean_band",
    "measure_of",
    "read_results",
    "summarize",
]

CONFIDENCE: Final = 0.95
"""Of every interval in tables and figures."""


@dataclass(frozen=True, eq=False)
class Band:
    """Mean over repeats and half the length of its confidence interval, at one place or along a curve."""

    mean: Vector
    half_width: Vector
    """nan where there is a single repeat."""


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
class Row:
    """One policy in the table."""

    name: str
    regret: float
    """Mean cumulative regret over seeds at the end."""

    half_width: float
    """Half the length of its confidence interval; nan with one seed."""

    share: float
    """Regret as a share of the reference policy's; nan where that has none."""

    seconds_per_round: float
    """To choose and to learn, on average over all rounds and seeds."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values; unknown ones are None."""
        return {
            name: None if isinstance(value, float) and isnan(value) else value for name, value in vars(self).items()
        }


def summarize(traces: Mapping[str, Sequence[Trace]], *, reference: str) -> tuple[Row, ...]:
    """The table, lowest regret first; shares are of the policy called `reference`."""
    for name, runs in check_mapping(traces, "The traces", "Comparison.run gives them.").items():
        if not runs or not all(len(getattr(run, "regret", ())) for run in runs):
            raise InvalidParameter(f"The policy {name!r} needs at least one trace, and none without rounds.")
    if reference not in traces:
        raise InvalidParameter(f"There is no policy {reference!r} to compare with, only {', '.join(map(str, traces))}.")
    final = {name: mean_band([run.regret[-1] for run in runs]) for name, runs in traces.items()}
    whole = float(final[reference].mean)
    rows = [
        Row(
            name=name,
            regret=float(final[name].mean),
            half_width=float(final[name].half_width),
            share=float(final[name].mean) / whole if whole > 0 else nan,
            seconds_per_round=float(np.mean([run.seconds.mean() for run in runs])),
        )
        for name, runs in traces.items()
    ]
    return tuple(sorted(rows, key=lambda row: row.regret))


@dataclass(frozen=True, kw_only=True)
class EndValue:
    """One number at the end of the runs, over seeds."""

    mean: float
    deviation: float
    """Standard deviation over seeds; nan with one seed."""

    half_width: float
    """Half of Student's 95 % interval of the mean; nan with one seed."""

    @classmethod
    def of(cls, values: NDArray[np.float64]) -> EndValue:
        """Of one value a seed."""
        band = mean_band(values)
        deviation = float(np.std(values, ddof=1)) if len(values) > 1 else np.nan
        return cls(mean=float(band.mean), deviation=deviation, half_width=float(band.half_width))


@dataclass(frozen=True, kw_only=True)
class Standing:
    """One policy in one environment, at the end of its runs."""

    environment: str
    policy: str
    n_seeds: int
    regret: EndValue
    """Cumulative pseudo-regret; nan where the world does not know expected rewards."""

    total_reward: EndValue

    def to_dict(self) -> dict[str, Any]:
        """Plain values; unknown ones are None."""
        finals = {"regret": vars(self.regret), "total_reward": vars(self.total_reward)}
        known = {
            kind: {name: None if isnan(value) else value for name, value in final.items()}
            for kind, final in finals.items()
        }
        return {"environment": self.environment, "policy": self.policy, "n_seeds": self.n_seeds, **known}


class Results:
    """The folder that `run` wrote: read as a table, or by anything that reads Parquet.

    `pandas.read_parquet(folder / "jobs")`, `polars.read_parquet("folder/jobs/*.parquet")` and DuckDB's
    `select * from 'folder/jobs/*.parquet'` see the same rows, and those of jobs that a later study left out.

    Parameters
    ----------
    folder
        Where the results are.
    """

    def __init__(self, folder: str | PathLike[str]) -> None:
        import_optional("pyarrow", "This part of experiments")
        self.folder = Path(check_path(folder))
        self._files = ResultFolder(self.folder)
        said = self._files.read_study()
        if not said:
            raise InvalidParameter(
                f"There are no results in {str(self.folder)!r}: it has no study.json. `run` writes one."
            )
        self.study: Mapping[str, Any] = said
        """What study.json says."""

    @property
    def missing(self) -> tuple[str, ...]:
        """Ids of the jobs that are not finished, or whose files are damaged."""
        return tuple(name for name in self.study["jobs"] if not self._files.is_sound(name))

    @property
    def is_complete(self) -> bool:
        """Whether every job is finished."""
        return not self.missing

    @property
    def jobs(self) -> tuple[dict[str, Any], ...]:
        """What every finished job says of itself, in the order of the study."""
        return tuple(said_of(table) for table in self._tables())

    def table(self) -> pa.Table:
        """All rows of the finished jobs, in the order of the study."""
        import pyarrow as pa

        tables = [table.replace_schema_metadata() for table in self._tables()]
        if not tables:
            raise InvalidParameter(f"No job in {str(self.folder)!r} is finished yet.")
        return pa.concat_tables(tables).unify_dictionaries()

    def frame(self) -> pd.DataFrame:
        """All rows as a pandas frame."""
        import_optional("pandas", "This part of experiments")
        frame: pd.DataFrame = self.table().to_pandas()
        return frame

    def summary(self) -> tuple[Standing, ...]:
        """Every policy in every environment at the end of its finished runs, in the order of the study."""
        ends: dict[tuple[str, str], list[tuple[float, float]]] = {}
        for table in self._tables():
            said = said_of(table)
            if len(table):
                end = tuple(float(table[name][-1].as_py()) for name in ("regret", "total_reward"))
                ends.setdefault((said["environment"], said["policy"]), []).append((end[0], end[1]))
        standings = []
        for (environment, policy), values in ends.items():
            regret, reward = np.array(values).T
            standings.append(
                Standing(
                    environment=environment,
                    policy=policy,
                    n_seeds=len(values),
                    regret=EndValue.of(regret),
                    total_reward=EndValue.of(reward),
                )
            )
        return tuple(standings)

    def _tables(self) -> list[pa.Table]:
        found = (sound_table(self._files.job_file(name), name) for name in self.study["jobs"])
        return [table for table in found if table is not None]

    def __repr__(self) -> str:
        n_jobs = len(self.study["jobs"])
        return f"Results({str(self.folder)!r}: {n_jobs - len(self.missing)} of {pluralize(n_jobs, 'job')})"


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


HOW_TO_MAKE_ONE: Final = "A study writes one: kernelbandits run study.toml --into results"


@dataclass(frozen=True, kw_only=True, eq=False)
class Recorded:
    """What a study has left so far."""

    folder: Path
    head: Mapping[str, Any]
    """study.json."""

    environments: Mapping[str, Mapping[str, Played]]
    """Runs by environment and by policy, in the order of the study."""

    n_missing: int
    """Jobs of the study that are not finished."""

    n_foreign: int
    """Files of jobs that are not, or no longer, part of the study; they are not read."""

    n_empty: int = 0
    """Finished jobs whose world showed no round at all."""

    @property
    def name(self) -> str:
        """Of the study."""
        return str(self.head.get("name") or self.folder.resolve().name)

    @property
    def seeds(self) -> tuple[int, ...]:
        """Seeds of the study; where it does not list them, those that were played."""
        listed = self.head.get("seeds")
        if isinstance(listed, list):
            return tuple(listed)
        if isinstance(listed, int):
            return tuple(range(listed))
        return tuple(sorted({run.seed for played in self.all_played for run in played.runs}))

    @property
    def all_played(self) -> list[Played]:
        """Every policy in every environment."""
        return [played for policies in self.environments.values() for played in policies.values()]


def read_results(folder: str | PathLike[str]) -> Recorded:
    """Read a result folder; what is missing is counted, what is damaged is named.

    Raises
    ------
    InvalidParameter
        There is no such folder, or no job of its study is finished yet.
    ForeignFile, NewerFile, DamagedFile
        The folder holds no study, one of a later version, or a file that cannot be read.
    """
    place = Path(check_path(folder))
    head = _head(place)
    written = {path.stem: path for path in sorted((place / "jobs").glob("*.parquet"))}
    planned = list(dict.fromkeys(head["jobs"]))
    runs = [read_job(written[job], place / "timings" / f"{job}.parquet") for job in planned if job in written]
    environments = _arranged(runs, place)
    if not environments:
        raise InvalidParameter(
            f"Nothing of the study in {str(place)!r} is finished yet: it has {pluralize(len(planned), 'job')} and no "
            "result. Let it run, and come back."
        )
    return Recorded(
        folder=place,
        head=head,
        environments=environments,
        n_missing=sum(job not in written for job in planned),
        n_foreign=sum(job not in set(planned) for job in written),
        n_empty=sum(run.n_rounds == 0 for run in runs),
    )


def _head(folder: Path) -> dict[str, Any]:
    if not folder.is_dir():
        raise InvalidParameter(f"There is no folder {str(folder)!r}. {HOW_TO_MAKE_ONE}")
    head = ResultFolder(folder).read_study()
    if not head:
        raise ForeignFile(f"{str(folder)!r} is no result folder: it has no study.json. {HOW_TO_MAKE_ONE}")
    return head


def _arranged(runs: Sequence[Run], folder: Path) -> dict[str, dict[str, Played]]:
    found: dict[str, dict[str, dict[int, Run]]] = defaultdict(lambda: defaultdict(dict))
    for run in runs:
        seeds = found[run.environment][run.policy]
        if run.seed in seeds:
            raise DamagedFile(
                f"The folder {str(folder)!r} holds two results of {run.policy!r} in {run.environment!r} under seed "
                f"{run.seed}. Give policies labels of their own, and run the study again."
            )
        if run.n_rounds > 0:
            seeds[run.seed] = run
    return {
        environment: {
            label: Played([seeds[seed] for seed in sorted(seeds)]) for label, seeds in policies.items() if seeds
        }
        for environment, policies in found.items()
        if any(policies.values())
    }


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


MOST_NAMED = 8
"""Gaps that are named one by one; the others are counted."""


def gaps(recorded: Recorded) -> tuple[str, ...]:
    """Sentences, the gravest first; none where the study is complete and every run has its full length."""
    parts = (_unfinished, _empty, _short, _alone, _no_regret, _unknown_rewards, _boxes)
    return tuple(sentence for part in parts for sentence in part(recorded))


def _unfinished(recorded: Recorded) -> Iterator[str]:
    if recorded.n_missing:
        n_jobs = len(recorded.head["jobs"])
        yield (
            f"The study is not complete: {n_jobs - recorded.n_missing:,} of {n_jobs:,} jobs are finished. Policies "
            f"with fewer seeds met other luck, so compare with care. {_named(list(_missing(recorded)))}"
        ).strip()
    if recorded.n_foreign:
        n = recorded.n_foreign
        results = "One result in the folder is" if n == 1 else f"{n} results in the folder are"
        yield f"{results} not part of the study as it is now, and left out."


def _missing(recorded: Recorded) -> Iterator[str]:
    """Policies that lack seeds, in words; those of which nothing is finished are known by no name."""
    seeds = set(recorded.seeds)
    labels = dict.fromkeys(played.label for played in recorded.all_played)
    for environment, policies in recorded.environments.items():
        for label in labels:
            done = {run.seed for run in policies[label].runs} if label in policies else set()
            if lacking := sorted(seeds - done):
                yield (
                    f"{label} in {environment} (seed {', '.join(map(str, lacking))})"
                    if done
                    else (f"{label} in {environment} (all seeds)")
                )


def _empty(recorded: Recorded) -> Iterator[str]:
    if recorded.n_empty:
        results = "One result is" if recorded.n_empty == 1 else f"{recorded.n_empty} results are"
        yield f"{results} left out because the world showed no round."


def _short(recorded: Recorded) -> Iterator[str]:
    horizon = recorded.head.get("horizon")
    short = [
        f"{played.label} in {environment} ({_span(played)})"
        for environment, policies in recorded.environments.items()
        for played in policies.values()
        if isinstance(horizon, int) and played.n_rounds.min() < horizon
    ]
    if short:
        yield (
            f"Some runs ended before round {horizon}: their worlds had no more to show. Curves go as far as all runs "
            f"of a policy do; tables take each run at its own end. {_named(short)}"
        )


def _alone(recorded: Recorded) -> Iterator[str]:
    if all(played.n_runs == 1 for played in recorded.all_played):
        yield "There is one run of each policy, so there are no intervals: differences may be luck."
    elif any(played.n_runs == 1 for played in recorded.all_played):
        yield "Some policies have one run only, and no interval."


def _no_regret(recorded: Recorded) -> Iterator[str]:
    unknown = [name for name, policies in recorded.environments.items() if not measure_of(policies).is_regret]
    if unknown:
        yield f"Expected rewards, and so regret, are not known in {', '.join(unknown)}: rewards are shown instead."


def _unknown_rewards(recorded: Recorded) -> Iterator[str]:
    unknown = [
        name
        for name, policies in recorded.environments.items()
        if not all(played.knows_rewards for played in policies.values())
    ]
    if unknown:
        yield (
            f"Some rewards are not known in {', '.join(unknown)}, as where a log shows another action: totals grow in "
            "the other rounds only, so a policy that agrees with the log more often has more of them. Mean rewards are "
            "over these rounds, which takes a study that keeps every round."
        )


def _boxes(recorded: Recorded) -> Iterator[str]:
    lacking = unknown_letters([*recorded.environments, *(played.label for played in recorded.all_played)])
    if lacking:
        yield f"Figures show boxes for letters that their font, {FONT}, does not have: {lacking}"


def _named(sentences: list[str]) -> str:
    if not sentences:
        return ""
    more = len(sentences) - MOST_NAMED
    return "; ".join(sentences[:MOST_NAMED]) + (f"; and {more} more." if more > 0 else ".")


def _span(played: Played) -> str:
    low, high = int(played.n_rounds.min()), int(played.n_rounds.max())
    return pluralize(low, "round") if low == high else f"{low:,} to {high:,} rounds"
