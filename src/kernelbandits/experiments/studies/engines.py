"""Who plays the jobs: this process, several of them, or Ray."""

from __future__ import annotations

import logging
import pickle
import traceback
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import FIRST_COMPLETED, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, suppress
from multiprocessing import get_context
from time import monotonic
from typing import Any, Final, NamedTuple, TypeAlias

from kernelbandits._optional import import_optional
from kernelbandits.errors import InvalidParameter
from kernelbandits.experiments.studies.jobs import Job
from kernelbandits.experiments.studies.playing import Played, play_job
from kernelbandits.experiments.studies.ray_address import TOKENS, refuse_silence
from kernelbandits.experiments.studies.study import Study
from kernelbandits.experiments.workers import THREAD_VARIABLES, worker_pool
from kernelbandits.selection import compile_ahead

__all__ = ["Failure", "Outcomes", "Told", "in_processes", "in_ray", "in_this_process"]

GLANCE: Final = 0.2
"""Seconds between two looks at how far jobs have come."""

NOT_BEGUN: Final = -1
"""Stands in the notes of workers for a job that none of them has touched."""

MOST_STARTS: Final = 3
"""Times that processes are started without one of them beginning a job: one that is killed by chance is not."""

NEVER_STARTED: Final = (
    "no process came as far as playing. A script that calls run() needs "
    '`if __name__ == "__main__":` around it; memory may be short'
)
GONE: Final = "its process ended without a word, when it was played alone too. It may be out of memory, or was killed"

Told: TypeAlias = Callable[[Sequence[int]], None]
"""Takes the rounds that each job has finished so far; below zero where it was not begun."""


class Failure(NamedTuple):
    """What went wrong in a job."""

    short: str
    full: str

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        """In a line, and as a traceback."""
        return cls(f"{type(error).__name__}: {error}", "".join(traceback.format_exception(error)))


Outcomes: TypeAlias = Generator[tuple[Job, Played | Failure], None, None]
"""Jobs as they are finished, in any order."""


def in_this_process(study: Study, jobs: Sequence[Job], told: Told) -> Outcomes:
    """One after the other."""
    due, rounds = monotonic(), [NOT_BEGUN] * len(jobs)
    for place, job in enumerate(jobs):

        def note(finished: int, place: int = place) -> None:
            nonlocal due
            if monotonic() >= due:
                due = monotonic() + GLANCE
                rounds[place] = finished
                told(rounds)

        yield job, _tried(study, job, note)
        rounds[place] = study.horizon
        told(rounds)


def in_processes(study: Study, jobs: Sequence[Job], told: Told, *, n_workers: int) -> Outcomes:
    """In processes of their own; the study is sent to each of them once.

    When a process dies, its pool is lost. Jobs that were not begun go on in a new one; those that were being played are
    played again one at a time, so that only the one that kills its process fails. Processes that die before they begin
    a job are started again, up to `MOST_STARTS` times in a row.
    """
    refuse_unpicklable(study)
    compile_ahead()  # here first, so that the others find compiled loops on disk
    kept = _Kept(study, tuple(jobs), get_context("spawn").Array("q", [NOT_BEGUN] * len(jobs), lock=False))
    left, n_starts = list(range(len(jobs))), 0
    while left:
        finished, n_starts = set(), n_starts + 1
        with closing(_pooled(kept, left, told, n_workers=n_workers)) as outcomes:
            for place, outcome in outcomes:
                finished.add(place)
                yield jobs[place], outcome
        left = [place for place in left if place not in finished]
        suspects = [place for place in left if kept.notes[place] != NOT_BEGUN]
        for place in suspects:
            yield jobs[place], _played_alone(kept, place, told)
            kept.notes[place] = study.horizon
        left = [place for place in left if place not in suspects]
        if finished or suspects:
            n_starts = 0
        elif n_starts == MOST_STARTS:
            yield from ((jobs[place], Failure(NEVER_STARTED, NEVER_STARTED)) for place in left)
            return


def _played_alone(kept: _Kept, place: int, told: Told) -> Played | Failure:
    """Outcome of a job that was being played when a process died: it fails where it is begun and its own one dies."""
    for _ in range(MOST_STARTS):
        kept.notes[place] = NOT_BEGUN
        outcome = dict(_pooled(kept, [place], told, n_workers=1)).get(place)
        if outcome is not None:
            return outcome
        if kept.notes[place] != NOT_BEGUN:
            return Failure(GONE, GONE)
    return Failure(NEVER_STARTED, NEVER_STARTED)


def _pooled(
    kept: _Kept, places: Sequence[int], told: Told, *, n_workers: int
) -> Generator[tuple[int, Played | Failure], None, None]:
    """Outcomes by the job's place; ends early, with some left out, where a process died."""
    horizon = kept.study.horizon
    with suppress(BrokenProcessPool), worker_pool(min(n_workers, len(places)), prepare=_keep, arguments=kept) as pool:
        futures = {pool.submit(_play_numbered, place): place for place in places}
        waiting = set(futures)
        while waiting:
            done, waiting = wait(waiting, timeout=GLANCE, return_when=FIRST_COMPLETED)
            for future in done:
                if not isinstance(future.exception(), BrokenProcessPool):
                    yield futures[future], future.result()
                    kept.notes[futures[future]] = horizon
            told(list(kept.notes))


def in_ray(study: Study, jobs: Sequence[Job], told: Told, *, address: str | None) -> Outcomes:
    """As tasks of Ray, one processor each: on this machine, or on the cluster at `address`."""
    ray = import_optional("ray", 'engine="ray"', extra="experiments,ray")
    refuse_unpicklable(study)
    was_running = ray.is_initialized()
    if not was_running:
        _connect(ray, address)
    try:
        task = ray.remote(num_cpus=1, max_retries=1)(_tried)  # one that kills its process does so again and fails
        shared = ray.put(study)
        tasks: dict[Any, int] = {task.remote(shared, job): place for place, job in enumerate(jobs)}
        waiting, rounds = list(tasks), [NOT_BEGUN] * len(jobs)
        while waiting:
            (done, *_), waiting = ray.wait(waiting)
            try:
                yield jobs[tasks[done]], ray.get(done)
            except ray.exceptions.RayError as error:
                yield jobs[tasks[done]], Failure.of(error)
            rounds[tasks[done]] = study.horizon
            told(rounds)
    finally:
        if not was_running:
            ray.shutdown()


def _connect(ray: Any, address: str | None) -> None:
    refuse_silence(address)
    limits = {"env_vars": dict.fromkeys(THREAD_VARIABLES, "1")}
    try:
        ray.init(address=address or "local", runtime_env=limits, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, ray.exceptions.AuthenticationError) as error:
        raise InvalidParameter(f"There is no Ray cluster to be had at {address!r}: {error} {TOKENS}") from error


def refuse_unpicklable(study: Study) -> None:
    """InvalidParameter that names what cannot be sent to another process."""
    named: dict[str, Any] = {f"environments.{name}": world for name, world in study.environments.items()}
    named |= {f"policies.{name}": policy for name, policy in study.policies.items()}
    for place, value in named.items():
        try:
            pickle.dumps(value)
        except Exception as error:  # pickling runs whatever code an object brings
            raise InvalidParameter(
                f"{place} cannot be sent to other processes: {error}. Use Contender(KernelUCB, ...) or a function of a "
                "module instead of a lambda, or play in this process with workers=1."
            ) from error


def _tried(study: Study, job: Job, note: Callable[[int], None] | None = None) -> Played | Failure:
    try:
        return play_job(study, job, note)
    except (Exception, SystemExit) as error:  # whatever a policy of the user's raises: the other jobs go on
        return Failure.of(error)


class _Kept(NamedTuple):
    study: Study
    jobs: tuple[Job, ...]
    notes: Any  # a shared array of ctypes, which has no public class


_kept: list[_Kept] = []
"""In a worker: what it was sent when it began."""


def _keep(study: Study, jobs: tuple[Job, ...], notes: Any) -> None:
    _kept.append(_Kept(study, jobs, notes))


def _play_numbered(place: int) -> Played | Failure:
    study, jobs, notes = _kept[-1]
    notes[place] = 0

    def note(finished: int) -> None:
        notes[place] = finished

    return _tried(study, jobs[place], note)
