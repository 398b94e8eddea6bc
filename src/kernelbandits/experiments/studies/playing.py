"""Plays one job: from a study and a job to the bytes of its files."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import NamedTuple

from kernelbandits._threads import one_blas_thread
from kernelbandits.evaluation import simulate
from kernelbandits.experiments.studies.dimensions import checkpoints, effective_dimensions
from kernelbandits.experiments.studies.jobs import Job
from kernelbandits.experiments.studies.study import Study
from kernelbandits.experiments.studies.tables import job_table, kept_rounds, parquet, timing_table
from kernelbandits.selection import compile_ahead

__all__ = ["Played", "play_job"]


class Played(NamedTuple):
    """Contents of the two files of a finished job, and how long it took."""

    job: bytes
    timing: bytes
    seconds: float


def play_job(study: Study, job: Job, progress: Callable[[int], None] | None = None) -> Played:
    """Play the job, whatever was played in this process before; `progress` is told finished rounds.

    Compiled loops add numbers in another order than NumPy does, so the last digits depend on which of them answers.
    All are compiled beforehand: the bytes of a job may not depend on when a compiler in the background gets ready.
    """
    compile_ahead()
    began = perf_counter()
    environment = study.environments[job.environment]
    (entrant,) = (entrant for entrant in study.entrants if entrant.label == job.policy)
    policy = entrant.fresh(job.seed)
    with one_blas_thread():
        trace = simulate(
            environment,
            policy,
            horizon=job.horizon,
            seed=job.seed,
            progress=progress,
            learn_rounds=job.learn_rounds,
        )
        dimensions = effective_dimensions(
            environment,
            job.seed,
            policy,
            trace.action,
            rounds=checkpoints(kept_rounds(len(trace), job.every)),
            horizon=job.horizon,
        )
    files = parquet(job_table(job, trace, dimensions)), parquet(timing_table(job, trace))
    return Played(*files, seconds=perf_counter() - began)
