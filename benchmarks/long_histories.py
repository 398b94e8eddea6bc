"""Long histories: regret and time of the exact posterior and of budgets, beside the published approximations.

    python -m benchmarks.long_histories                    everything; hours on one core, because of the exact runs
    python -m benchmarks.long_histories --only real --methods "budget 500" --rounds 10000
    python -m benchmarks.long_histories --missing          what is not stored yet, so that a run can be interrupted
    python -m benchmarks.long_histories --page             writes the page and the figure again from the stored numbers

Data sets are read from the folder KERNELBANDITS_DATA. Results are kept in a JSON file beside the page and merged, so
parts can be run one after the other. Times are those of the process on one thread, for `choose` and `learn` alone.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import pickle
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING, Any, Final

import numpy as np

import kernelbandits as kb
from benchmarks.machine import load, machine, resident, versions
from kernelbandits._threads import set_threads
from kernelbandits.environments import Bump, Chessboard, Classification, StepDiagonal, datasets
from kernelbandits.environments.base import WorldWithHistory
from kernelbandits.evaluation.simulation import start_world
from kernelbandits.experiments.plotting.curves import ROW_HEIGHT, Panel, panel_grid
from kernelbandits.experiments.plotting.style import VARIANTS, LegendEntry, Theme, set_log_ticks, svg
from kernelbandits.kernels import Blocks, Gaussian, Kernel, Matern, TfIdf
from kernelbandits.types import Points

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["main", "telescope_world"]

PAGE: Final = Path(__file__).parents[1] / "docs" / "benchmarks" / "long-histories.md"

BUDGETS: Final = (250, 500, 1_000, 2_000)
CHECKPOINTS: Final = (500, 1_000, 2_000, 4_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000)
BONUS: Final = 0.31622776601683794
"""Exploration of KernelUCB in the study of NeuralTS: sqrt(0.1)."""

COLORS: Final = {
    "exact": "black",
    "budget": "blue",
    "BKB": "orange",
    "BBKB": "green",
    "EKUCB": "red",
    "CBBKB": "purple",
}

REAL: Final = ("shuttle", "adult", "mnist", "agnews", "telescope")
"""Real data sets of the figure."""

AUTHORS: Final = ("Bump", "Chessboard", "StepDiagonal", "abalone")
"""Problems of the authors of EK-UCB and BBKB."""

PUBLISHED: Final = ("exact", "budget 500", "EKUCB 0.1", "EKUCB 2", "CBBKB 3", "BKB 2", "BBKB 3")
"""Methods that are played there."""

Rounds = Iterator[tuple[Points, Any, np.ndarray[Any, Any]]]
"""Contexts, world or rewards, and expected rewards of every round; None for those of an initial history."""


@dataclass(frozen=True)
class Problem:
    """A stream of rounds with the parameters that every method has in it."""

    part: str
    name: str
    horizon: int
    methods: tuple[str, ...]
    rounds: Callable[[int], Rounds]
    kernel: Callable[[], Kernel]
    regularization: float
    exploration: float
    ties: str = "lowest"

    def policy(self, method: str, seed: int) -> kb.Policy:
        """A policy by the name of its method."""
        options: dict[str, Any] = {
            "regularization": self.regularization, "exploration": self.exploration, "ties": self.ties, "seed": seed,
        }  # fmt: skip
        name, _, value = method.partition(" ")
        if name == "exact":
            return kb.KernelUCB(self.kernel(), **options)
        if name == "budget":
            return kb.KernelUCB(self.kernel(), budget=int(value), **options)
        if value:
            options["threshold" if name in ("BBKB", "CBBKB") else "oversampling"] = float(value)
        return getattr(kb, name)(self.kernel(), **options)  # type: ignore[no-any-return]


def simulated(environment: Any, seed: int) -> Rounds:
    """Rounds of an environment."""
    world = start_world(environment, seed)
    if isinstance(world, WorldWithHistory):  # learned by every policy before the first round
        yield *world.initial_history(), None
    while True:
        try:
            observed = world.observe()
        except StopIteration:
            return
        yield observed.contexts, world, observed.expected


def drawn(n_actions: int, n_columns: int, seed: int) -> Rounds:
    """Fresh uniform contexts, and a smooth function of two of their columns with noise 0.1."""
    rng = np.random.default_rng(seed)
    while True:
        contexts = rng.uniform(size=(n_actions, n_columns))
        expected = 0.5 + 0.5 * np.sin(3.0 * contexts[:, 0]) * contexts[:, 1]
        yield contexts, _Paid(expected + 0.1 * rng.normal(size=n_actions)), expected


class _Paid:
    """Rewards that are known in advance."""

    def __init__(self, rewards: np.ndarray[Any, Any]) -> None:
        self._rewards = rewards

    def reward(self, action: int) -> float:
        """Reward of an action."""
        return float(self._rewards[action])


def problems(data: Path, telescope: Path | None) -> list[Problem]:
    """All of them; those whose data are missing are left out."""
    all_budgets = ("exact", *(f"budget {budget}" for budget in BUDGETS))
    found = []
    blocks = partial(Blocks, Matern(smoothness=0.5, length_scale=1.0))
    for name, options in (("shuttle", {}), ("adult", {}), ("mnist", {"pixels": "raw"})):
        path = next((data / name).glob(f"{name}*.*z"), None) if (data / name).is_dir() else None
        if path is not None:
            world = getattr(datasets, name)(path, encoding="pairs", normalize_rows=True, **options)
            rounds = partial(simulated, world)
            found.append(Problem("real", name, 10_000, all_budgets, rounds, blocks, 1.0, BONUS))
    titles = data / "agnews" / "agnews_test.csv.gz"
    if titles.exists():
        world = datasets.agnews(titles, wanted="Sports", n_actions=10)
        kernel = partial(TfIdf, world.items, n=(2, 5))
        found.append(Problem("real", "agnews", 10_000, all_budgets, partial(simulated, world), kernel, 0.1, 0.1))
    if telescope is not None:
        world = telescope_world(telescope)
        kernel = partial(Matern, smoothness=0.5, length_scale=1.0)
        found.append(Problem("real", "telescope", 10_000, all_budgets, partial(simulated, world), kernel, 1.0, BONUS))
    smooth = partial(Gaussian, length_scale=0.5)
    found.append(
        Problem("scaling", "two actions, 20 columns", 100_000, ("budget 500",), partial(drawn, 2, 20),
                partial(Matern, smoothness=0.5, length_scale=1.0), 1.0, 0.5)
    )  # fmt: skip
    found.append(
        Problem("million", "20 actions, 5 columns", 1_000_000, ("budget 500",), partial(drawn, 20, 5), smooth, 1.0, 0.5)
    )
    narrow = partial(Gaussian, length_scale=0.1)
    for world in (Bump(published=True), Chessboard(published=True), StepDiagonal(published=True)):
        rounds, name = partial(simulated, world), type(world).__name__
        found.append(Problem("published", name, 2_001, PUBLISHED, rounds, narrow, 1.0, 0.1, ties="exact"))
    shells = data / "abalone" / "abalone.csv.gz"
    if shells.exists():
        world = datasets.abalone(shells, noise_scale=0.1)
        rounds, wide = partial(simulated, world), partial(Gaussian, length_scale=5.0)
        found.append(Problem("published", "abalone", 2_000, PUBLISHED, rounds, wide, 0.01, 0.1))
    return found


def telescope_world(path: Path) -> Classification:
    """The telescope as rounds of two actions with 20 columns."""
    rows, labels = _telescope(path)
    return Classification(rows, labels, encoding="disjoint", normalize_rows=True)


def _telescope(path: Path) -> tuple[np.ndarray[Any, Any], list[str]]:
    """The MAGIC gamma telescope of the UCI repository (Bock et al. 2004): 19,020 rows, 10 numbers and a class."""
    with path.open(encoding="utf-8") as lines:
        rows = [row for row in csv.reader(lines) if len(row) == 11]
    return np.array([[float(value) for value in row[:10]] for row in rows]), [row[10] for row in rows]


def measure(problem: Problem, method: str, seed: int, horizon: int) -> dict[str, Any]:
    """Play one method; regret, seconds and memory at the checkpoints, and the largest inflation of any round."""
    policy, regret, seconds, inflation = problem.policy(method, seed), 0.0, 0.0, 1.0
    rows: list[dict[str, float]] = []
    t = 0
    for contexts, world, expected in problem.rounds(seed):
        if expected is None:
            policy.warm_start(contexts, world)
            continue
        t += 1
        start = process_time()
        decision = policy.choose(contexts)
        middle = process_time()
        reward = world.reward(decision.action)
        again = process_time()
        policy.learn(decision, reward)
        seconds += process_time() - again + middle - start
        regret += float(np.max(expected) - expected[decision.action])
        certificate = getattr(policy.posterior, "certificate", None)
        if certificate is not None:
            inflation = max(inflation, certificate.inflation)
        if t in CHECKPOINTS or t == horizon:
            row = {"round": t, "regret": regret, "seconds": seconds, "resident": resident(), "bytes": _bytes_of(policy)}
            rows.append(row)
        if t == horizon:
            break
    atoms = policy.posterior.size if certificate is None else certificate.n_atoms
    return {
        "part": problem.part, "problem": problem.name, "method": method, "seed": seed, "rows": rows, "atoms": atoms,
        "inflation": inflation, "load": load(),
    }  # fmt: skip


def _bytes_of(policy: Any) -> int:
    """Size of a copy of the posterior; that of the exact one would take as much memory again."""
    posterior = policy.posterior
    form = posterior._current_form()
    is_small = posterior.size <= max(BUDGETS) and getattr(form, "n_merged", 0)
    return len(pickle.dumps(posterior)) if is_small else 0


# -- the page --------------------------------------------------------------------------------------------------------


def page(results: Sequence[dict[str, Any]], about: dict[str, Any]) -> str:
    """Tables of what was measured; what was not is absent."""
    lines = ["# Long histories, measured", "", INTRODUCTION, "", *_figure(results)]
    lines += ["| problem | method | seeds | rounds | regret | of exact | inflation | seconds | rounds/s | atoms |"]
    lines += ["| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"]
    for (name, method), runs in _grouped(results).items():
        at = min(runs[0]["rows"][-1]["round"], *(run["rows"][-1]["round"] for run in runs))
        ends = [next(row for row in run["rows"] if row["round"] == at) for run in runs]
        regret, seconds = np.mean([row["regret"] for row in ends]), np.mean([row["seconds"] for row in ends])
        ratio = _ratio(results, name, runs, at) + _spread(results, name, runs, at)
        atoms = np.mean([run["atoms"] for run in runs])
        factors = [run["inflation"] for run in runs if "inflation" in run]
        inflation = f"{max(factors):.3g}" if len(factors) == len(runs) else ""
        lines.append(
            f"| {name} | {method} | {len(runs)} | {at:,} | {regret:,.1f} | {ratio} | {inflation} | {seconds:.3g} | "
            f"{at / seconds:,.0f} | {atoms:,.0f} |"
        )
    lines += [
        "",
        *_growth(results),
        *_certified(results),
        "",
        _not_measured(results),
        "",
        f"Measured with {about['versions']}, on {about['machine']}.",
        "",
    ]
    return "\n".join(lines)


def _not_measured(results: Sequence[dict[str, Any]]) -> str:
    """What the command would measure, and what is not stored yet."""
    done = {(run["problem"], run["method"]) for run in results}
    wanted = {name: ("exact", *map("budget {}".format, BUDGETS)) for name in REAL} | dict.fromkeys(AUTHORS, PUBLISHED)
    missing = [
        f"{name} ({', '.join(left)})"
        for name, methods in wanted.items()
        if (left := [method for method in methods if (name, method) not in done])
    ]
    last = max((run["rows"][-1]["round"] for run in results if run["part"] in ("scaling", "million")), default=0)
    long = f"rounds beyond {last:,} of the synthetic streams" if last < 1_000_000 else ""
    listed = [*missing, *([long] if long else [])]
    return f"Not measured so far: {'; '.join(listed)}." if listed else "All of it was measured."


def _figure(results: Sequence[dict[str, Any]]) -> list[str]:
    """The figure, where there are real data sets in it."""
    if not any(run["part"] == "real" for run in results):
        return []
    text = "Final regret against processor seconds, one panel per data set and one point per run: exact, and budgets."
    return [
        "<figure>",
        "<picture>",
        '<source media="(max-width: 700px) and (prefers-color-scheme: dark)" srcset="long-histories-narrow-dark.svg">',
        '<source media="(max-width: 700px)" srcset="long-histories-narrow-light.svg">',
        '<source media="(prefers-color-scheme: dark)" srcset="long-histories-dark.svg">',
        f'<img src="long-histories-light.svg" alt="{text}">',
        "</picture>",
        f"<figcaption>{text}</figcaption>",
        "</figure>",
        "",
    ]


INTRODUCTION: Final = """Written by `python -m benchmarks.long_histories` from `long-histories.json`.
KernelUCB, exact and with budgets, and the published approximations (the number is the oversampling of EKUCB and BKB and
the threshold of BBKB and CBBKB). Nothing is frozen: every reward is learned. Seconds are processor seconds of `choose`
and `learn` on one thread. "Of exact" is the regret divided by that of the exact policy over the same rounds and seeds,
where that was measured, and the smallest and largest ratio of one seed; a row of one seed is a single draw. The
problems: the streams of [Results](../results.md) (shuttle, adult, MNIST as pairs with the disjoint kernel, exploration
sqrt(0.1); the titles of agnews), the MAGIC gamma telescope (two actions, 20 columns, Matérn ½; UCI), synthetic streams,
and the settings of EK-UCB and BBKB, whose exact rows [Results](../results.md) has beside a reference. "Inflation" is
the largest 1 + sqrt(residual/γ) of any round and seed: how far the certificate allows the posterior to be from the
exact one. At 1.00 the choices should be those of the exact policy; far above it the certificate claims nothing about
regret. One run at a time on one of two cores, while the other one ran tests, so seconds are upper bounds; compiled
kernels were loaded before."""


def _grouped(results: Sequence[dict[str, Any]]) -> dict[tuple[str, str], list[dict[str, Any]]]:
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for run in results:
        groups.setdefault((run["problem"], run["method"]), []).append(run)
    return groups


def _ratio(results: Sequence[dict[str, Any]], name: str, runs: Sequence[dict[str, Any]], at: int) -> str:
    """Regret over that of the exact policy, for the same seeds and rounds."""
    exact = {
        run["seed"]: row["regret"]
        for run in results
        if run["problem"] == name and run["method"] == "exact"
        for row in run["rows"]
        if row["round"] == at
    }
    own = {run["seed"]: row["regret"] for run in runs for row in run["rows"] if row["round"] == at}
    shared = [seed for seed in own if exact.get(seed)]
    return f"{sum(own[seed] for seed in shared) / sum(exact[seed] for seed in shared):.3f}" if shared else ""


def _spread(results: Sequence[dict[str, Any]], name: str, runs: Sequence[dict[str, Any]], at: int) -> str:
    """Smallest and largest ratio of one seed."""
    single = [ratio for run in runs if (ratio := _ratio(results, name, [run], at))]
    return f" ({min(single)} to {max(single)})" if len(single) > 1 and runs[0]["method"] != "exact" else ""


CERTIFIED: Final = 1.05
"""Largest inflation at which the certificate says that the regret should be that of the exact policy."""


def _certified(results: Sequence[dict[str, Any]]) -> list[str]:
    """Regret of the runs whose certificate says that they are nearly exact."""
    ratios = {
        f"{name}, {method}": ratio
        for (name, method), runs in _grouped(results).items()
        if method != "exact" and all(run.get("inflation", np.inf) <= CERTIFIED for run in runs)
        and (ratio := _ratio(results, name, runs, runs[0]["rows"][-1]["round"]))
    }  # fmt: skip
    if not ratios:
        return []
    values = sorted(map(float, ratios.values()))
    return [
        f"- Inflation at most {CERTIFIED:g} in all rounds and seeds: {len(ratios)} rows ({'; '.join(ratios)}), with "
        f"{values[0]:.3f} to {values[-1]:.3f} times the exact regret."
    ]


def _growth(results: Sequence[dict[str, Any]]) -> list[str]:
    """How time and memory grow with the rounds."""
    lines = []
    for run in results:
        rows = [row for row in run["rows"] if row["round"] >= 2_000]
        if run["part"] not in ("scaling", "million") or len(rows) < 2:
            continue
        rounds, seconds = (np.log([row[key] for row in rows]) for key in ("round", "seconds"))
        regret = np.log([row["regret"] for row in rows])
        exponents = [float(np.polyfit(rounds, values, 1)[0]) for values in (seconds, regret)]
        sizes = [row["bytes"] / 1e6 for row in rows if row["bytes"]]
        held = [row["resident"] / 1e6 for row in rows if row.get("resident")]
        process = f", the process {min(held):.0f} to {max(held):.0f} MB" if held else ""
        lines.append(
            f"- {run['problem']}, {run['method']}, rounds {rows[0]['round']:,} to {rows[-1]['round']:,}: time grows as "
            f"T^{exponents[0]:.2f}, regret as T^{exponents[1]:.2f}; a copy of the model takes "
            f"{min(sizes, default=0):.1f} to {max(sizes, default=0):.1f} MB{process}."
        )
    return lines


def draw(results: Sequence[dict[str, Any]], into: Path) -> None:
    """Regret against seconds, a panel for each real data set."""
    names = list(dict.fromkeys(run["problem"] for run in results if run["part"] == "real"))
    if not names or find_spec("matplotlib") is None:
        return
    panels = [
        Panel(title=name, x_label="Processor seconds", y_label="Regret", draw=partial(_draw_problem, results, name))
        for name in names
    ]
    legend = [LegendEntry("exact", COLORS["exact"], "o", "none"), LegendEntry("budget", COLORS["budget"], "o", "none")]
    for variant, theme in VARIANTS.items():
        figure = panel_grid(panels, n_columns=2, height=ROW_HEIGHT, caption="", theme=theme, legend=legend)
        into.with_name(f"{into.stem}-{variant}.svg").write_text(svg(figure), encoding="utf-8")


def _draw_problem(results: Sequence[dict[str, Any]], name: str, axes: Axes, theme: Theme) -> None:
    labelled = set()
    for run in results:
        if run["problem"] == name:
            end, method = run["rows"][-1], run["method"]
            color = theme.colors.get(COLORS[method.partition(" ")[0]], theme.foreground)
            place = (end["seconds"], end["regret"])
            axes.plot(*[[value] for value in place], "o", color=color, markerfacecolor=theme.background)
            if method not in labelled:  # of several seeds the first
                axes.annotate(
                    method.removeprefix("budget "), place, (0, 6), textcoords="offset points", ha="center",
                    fontsize=theme.layout.tick, color=theme.foreground,
                )  # fmt: skip
            labelled.add(method)
    axes.set_xscale("log")
    axes.margins(0.15)
    set_log_ticks(axes.xaxis)


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status."""
    given = _parser().parse_args(arguments)
    store = given.into.with_suffix(".json")
    stored = json.loads(store.read_text(encoding="utf-8")) if store.exists() else {"runs": []}
    set_threads(1)
    if not given.page:
        kb.compile_ahead()
    chosen = [] if given.page else problems(given.data, given.telescope)
    for problem in chosen:
        if given.only and not problem.part.startswith(given.only) and not problem.name.startswith(given.only):
            continue
        for method in problem.methods:
            if given.methods and method not in given.methods:
                continue
            for seed in range(given.seeds):
                key, horizon = (problem.name, method, seed), min(given.rounds or problem.horizon, problem.horizon)
                if given.missing and _is_stored(stored["runs"], key, horizon):
                    continue
                run = measure(problem, method, seed, horizon)
                others = [one for one in stored["runs"] if (one["problem"], one["method"], one["seed"]) != key]
                stored = {"runs": [*others, run], "machine": machine(), "versions": versions()}
                store.write_text(json.dumps(stored, indent=1), encoding="utf-8")
                print(problem.name, method, seed, run["rows"][-1], flush=True)
    runs = sorted(stored["runs"], key=lambda run: (run["part"] != "real", run["problem"], run["method"], run["seed"]))
    about = {name: ", ".join(f"{key} {value}" for key, value in stored.get(name, {}).items()) for name in ABOUT}
    given.into.write_text(page(runs, about), encoding="utf-8")
    draw(runs, given.into)
    return 0


ABOUT: Final = ("machine", "versions")


def _is_stored(runs: Sequence[dict[str, Any]], key: tuple[str, str, int], horizon: int) -> bool:
    """Whether a run of at least this many rounds is stored."""
    return any(
        (run["problem"], run["method"], run["seed"]) == key and run["rows"][-1]["round"] >= horizon for run in runs
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.long_histories")
    parser.add_argument("--only", default="", metavar="NAME", help="real, scaling, million, published or a problem")
    parser.add_argument("--methods", nargs="*", default=(), metavar="METHOD", help='such as "budget 500" or exact')
    parser.add_argument("--rounds", type=int, help="at most this many rounds")
    parser.add_argument("--seeds", type=int, default=1, help="number of seeds, from 0")
    parser.add_argument("--missing", action="store_true", help="measure only what is not stored yet")
    parser.add_argument("--telescope", type=Path, help="the file magic04.data of the UCI repository")
    parser.add_argument("--page", action="store_true", help="measure nothing; write the page again")
    default = Path(os.environ.get("KERNELBANDITS_DATA", "data"))
    parser.add_argument("--data", type=Path, default=default, help="folder of the data sets")
    parser.add_argument("--into", type=Path, default=PAGE, help="where the page goes; numbers and figures go beside it")
    return parser


if __name__ == "__main__":
    sys.exit(main())
