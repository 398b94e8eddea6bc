"""Plays every policy on every problem, and writes down what came out."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Final

import numpy as np

from kernelbandits._files import writable_folder
from kernelbandits._optional import import_optional, versions
from kernelbandits._threads import one_blas_thread
from kernelbandits.errors import InvalidParameter
from kernelbandits.evaluation import simulate, start_world
from kernelbandits.experiments.backends import n_workers_for, worker_pool
from kernelbandits.experiments.figures import png
from kernelbandits.experiments.policy_study.field import FIELD, Contender
from kernelbandits.experiments.policy_study.figure import standings_figure
from kernelbandits.experiments.policy_study.problems import PROBLEMS, Setting
from kernelbandits.experiments.policy_study.table import Standing, markdown_table
from kernelbandits.experiments.results import CONFIDENCE, mean_band
from kernelbandits.validation import MOST_ROUNDS, MOST_RUNS, check_int, pluralize

__all__ = ["HORIZON", "N_SEEDS", "PolicyStudy", "play_seed", "run_policy_study"]

HORIZON: Final = 1_000
N_SEEDS: Final = 20


@dataclass(frozen=True, kw_only=True, eq=False)
class PolicyStudy:
    """What the study found, and where it wrote it."""

    horizon: int
    n_seeds: int
    standings: tuple[Standing, ...]
    """A row a policy, in the order of the field."""

    files: Mapping[str, Path]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {
            "horizon": self.horizon,
            "n_seeds": self.n_seeds,
            "confidence": CONFIDENCE,
            "problems": {name: problem.environment.describe() for name, problem in PROBLEMS.items()},
            "policies": [standing.to_dict() for standing in self.standings],
            "versions": versions(),
        }


def run_policy_study(
    into: str | PathLike[str],
    *,
    horizon: int = HORIZON,
    n_seeds: int = N_SEEDS,
    only: Sequence[str] = (),
    workers: int | None = None,
    progress: Callable[[], None] | None = None,
) -> PolicyStudy:
    """Play the field, and write `policies.md` (the table), `policies.png` and `policies.json` into a folder.

    Parameters
    ----------
    into
        The folder; it is made when it is not there.
    horizon, n_seeds
        Rounds of each run, and runs of each policy on each problem.
    only
        Names of contenders; none: all of them.
    workers
        Processes; None: one a processor.
    progress
        Called when a seed of a problem is finished.
    """
    import_optional("matplotlib", "This part of experiments")
    horizon = check_int(horizon, "The number of rounds", least=2, most=MOST_ROUNDS)
    n_seeds = check_int(n_seeds, "The number of seeds", most=MOST_RUNS)
    names = tuple(contender.name for contender in chosen(only))
    folder = writable_folder(into)  # before the long part, so that a bad name costs no time
    jobs = [(problem, seed, horizon, names) for seed in range(n_seeds) for problem in PROBLEMS]
    played: dict[str, dict[str, list[tuple[float, float]]]] = {
        name: {problem: [] for problem in PROBLEMS} for name in names
    }
    for (problem, *_), outcome in zip(jobs, _outcomes(jobs, workers), strict=True):
        for name, found in outcome.items():
            played[name][problem].append(found)
        if progress is not None:
            progress()
    standings = tuple(_standing(contender, played[contender.name]) for contender in chosen(only))
    files = {
        kind: folder / f"policies.{ending}"
        for kind, ending in (("table", "md"), ("figure", "png"), ("results", "json"))
    }
    study = PolicyStudy(horizon=horizon, n_seeds=n_seeds, standings=standings, files=files)
    runs = f"{pluralize(n_seeds, 'run')} of {pluralize(horizon, 'round')}"
    caption = f"Mean over {runs}, with 95 % intervals (Student's t)"
    files["table"].write_text(markdown_table(standings, caption), encoding="utf-8")
    files["figure"].write_bytes(png(standings_figure(standings, caption)))
    files["results"].write_text(json.dumps(study.to_dict(), indent=2) + "\n", encoding="utf-8")
    return study


def chosen(only: Sequence[str]) -> tuple[Contender, ...]:
    """The contenders of these names, or all."""
    known = {contender.name: contender for contender in FIELD}
    unknown = [name for name in only if name not in known]
    if unknown:
        there_are = ", ".join(map(repr, known))
        raise InvalidParameter(f"No policy of the study is called {unknown[0]!r}. There are: {there_are}.")
    return tuple(known[name] for name in dict.fromkeys(only)) or tuple(FIELD)


def play_seed(problem: str, seed: int, horizon: int, names: Sequence[str]) -> dict[str, tuple[float, float]]:
    """Final regret and seconds a round of these contenders in one run of a problem, by name."""
    environment = PROBLEMS[problem].environment
    setting = Setting(np.array(start_world(environment, seed).observe().contexts), horizon, seed)
    outcome = {}
    with one_blas_thread():
        for contender in chosen(names):
            trace = simulate(environment, contender.make(setting), horizon=horizon, seed=seed)
            outcome[contender.name] = float(trace.regret[-1]), float(trace.seconds.mean())
    return outcome


def _outcomes(jobs: Sequence[tuple[Any, ...]], workers: int | None) -> Iterator[dict[str, tuple[float, float]]]:
    """`play_seed` of every job, in order."""
    n_workers = n_workers_for(len(jobs), workers)
    if n_workers == 1:
        yield from (play_seed(*job) for job in jobs)
        return
    with worker_pool(n_workers) as pool:
        yield from pool.map(play_seed, *zip(*jobs, strict=True))


def _standing(contender: Contender, played: Mapping[str, Sequence[tuple[float, float]]]) -> Standing:
    bands = {problem: mean_band([regret for regret, _ in runs]) for problem, runs in played.items()}
    return Standing(
        name=contender.name,
        family=contender.family,
        regret={problem: float(band.mean) for problem, band in bands.items()},
        half_width={problem: float(band.half_width) for problem, band in bands.items()},
        seconds_per_round=float(np.mean([seconds for runs in played.values() for _, seconds in runs])),
    )
