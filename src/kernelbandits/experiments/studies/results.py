"""What a study found: a folder of finished jobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isnan
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kernelbandits._optional import import_optional
from kernelbandits.errors import InvalidParameter
from kernelbandits.experiments.studies.result_folder import ResultFolder, said_of, sound_table
from kernelbandits.experiments.summary import mean_band
from kernelbandits.validation import check_path, pluralize

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped, unused-ignore]
    import pyarrow as pa  # type: ignore[import-untyped, unused-ignore]

__all__ = ["EndValue", "Results", "Standing"]


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
