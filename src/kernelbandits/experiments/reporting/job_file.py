"""One finished job of a study, read from its files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kernelbandits.errors import DamagedFile, ForeignFile
from kernelbandits.experiments.studies.result_folder import check_format
from kernelbandits.experiments.studies.tables import KEY, read_parquet
from kernelbandits.types import Vector

__all__ = ["COLUMNS", "Run", "read_job", "read_timings"]

WHOLE_NUMBERS: Final = ("round", "n_covered")

COLUMNS: Final = (
    "round",
    "reward",
    "total_reward",
    "regret",
    "potential",
    "n_covered",
    "log_det_gain",
    "effective_dimension",
)
"""What a report reads of a job; the other columns are for those who look closer."""

HINT: Final = "Delete it and run the study again: what is finished is not repeated."


@dataclass(frozen=True, kw_only=True, eq=False)
class Run:
    """One policy in one environment under one seed."""

    environment: str
    policy: str
    contender: str
    """The policy's name without the values of its grid."""

    parameters: Mapping[str, Any]
    """Values of its grid."""

    seed: int
    claims: Mapping[str, Any] | None
    """What its exploration promises: `assumes`, `failure_probability`."""

    described: Mapping[str, Any]
    columns: Mapping[str, NDArray[Any]]
    """Recorded rounds and what stood after each, by name (COLUMNS)."""

    seconds: Mapping[str, Vector] | None = None
    """`round` and mean `seconds` a round since the row before; None where no time was kept."""

    @property
    def n_rounds(self) -> int:
        """Rounds that were played."""
        return int(self.columns["round"][-1]) if len(self.columns["round"]) else 0


def read_job(path: Path, timings: Path) -> Run:
    """A job and, where they are there, its times."""
    table = _table(path)
    head = _head(path, table)
    columns = {name: _column(path, table, name) for name in COLUMNS}
    if len(columns["round"]) > 1 and np.any(np.diff(columns["round"]) <= 0):
        raise DamagedFile(f"The rounds of {str(path)!r} do not grow from row to row. {HINT}")
    try:
        return Run(
            environment=str(head["environment"]),
            policy=str(head["policy"]),
            contender=str(head.get("contender") or head["policy"]),
            parameters=dict(head.get("parameters") or {}),
            seed=int(head["seed"]),
            claims=head.get("claims"),
            described=dict(head.get("described") or {}),
            columns=columns,
            seconds=read_timings(timings) if timings.exists() else None,
        )
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, DamagedFile):
            raise
        raise DamagedFile(f"The head of {str(path)!r} does not say what was played: {error!r}. {HINT}") from error


def read_timings(path: Path) -> dict[str, Vector]:
    """Rounds and seconds a round."""
    table = _table(path)
    return {name: _column(path, table, name) for name in ("round", "seconds")}


def _table(path: Path) -> Any:
    try:
        return read_parquet(path)
    except DamagedFile as error:
        raise DamagedFile(f"{error} {HINT}") from error
    except OSError as error:
        raise DamagedFile(f"The file {str(path)!r} cannot be read: {error.strerror}. {HINT}") from error


def _head(path: Path, table: Any) -> dict[str, Any]:
    metadata = (table.schema.metadata or {}).get(KEY)
    if metadata is None:
        raise ForeignFile(f"The file {str(path)!r} was not written by a study. Move it out of the folder.")
    try:
        head = json.loads(metadata)
    except ValueError as error:
        raise DamagedFile(f"The head of {str(path)!r} is no JSON: {error}. {HINT}") from error
    if not isinstance(head, dict):
        raise DamagedFile(f"The head of {str(path)!r} has to be a JSON object, got {head!r}. {HINT}")
    check_format(head.get("format"), path)
    return head


def _column(path: Path, table: Any, name: str) -> NDArray[Any]:
    if name not in table.column_names:
        raise DamagedFile(f"The file {str(path)!r} lacks the column {name!r}. {HINT}")
    try:
        return np.asarray(table.column(name).to_numpy(), np.int64 if name in WHOLE_NUMBERS else np.float64)
    except (TypeError, ValueError) as error:
        raise DamagedFile(f"The column {name!r} of {str(path)!r} holds no numbers: {error}. {HINT}") from error
