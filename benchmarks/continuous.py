"""Continuous actions: regret and time of KernelUCB in a box, beside BoTorch's optimize_acqf, on three functions.

    python -m benchmarks.continuous                     KernelUCB in a box, on listed points, and random search
    PYTHON benchmarks/continuous.py --system BoTorch    the same rounds with BoTorch, in a Python that has it
    python -m benchmarks.continuous --page              writes the page again from the stored numbers

BoTorch needs packages of its own (`pip install torch botorch`), so its part runs in any Python with these and NumPy;
it also maximizes the scores of KernelUCB's models, for a comparison of the searches alone. Results are kept in a JSON
file beside the page and merged. Seconds are processor seconds of one thread, of choosing and learning.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import process_time
from typing import Any, Final

if __name__ == "__main__":  # one thread; NumPy reads this when it is imported
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(variable, "1")

import numpy as np
from numpy.typing import NDArray

__all__ = ["FUNCTIONS", "main"]

PAGE: Final = Path(__file__).parents[1] / "docs" / "benchmarks" / "continuous-actions.md"

NOISE: Final = 1e-4
"""Variance of the rewards' noise in both models; the rewards themselves have none."""

DEVIATIONS: Final = 2.0
"""Posterior standard deviations that are added to the mean."""

N_FIRST: Final = 10
"""Random rows before the first choice, the same for every system."""

N_LISTED: Final = 1_000
"""Points of a round of the system that lists them: new random ones in every round."""

EXAMINED: Final = (10, 25, 50)
"""Numbers of rewards after which the searches are compared on the same model."""

Rows = NDArray[np.float64]
Values = NDArray[np.float64]


@dataclass(frozen=True)
class Function:
    """A function to maximize over the unit cube, with its maximum, its spread and the length scale of the models."""

    evaluate: Callable[[Rows], Values]
    n_columns: int
    maximum: float
    center: float
    spread: float
    """Mean and standard deviation over random points: the models learn standardized rewards."""

    length_scale: float

    def standardized(self, values: Any) -> Any:
        """Rewards as the models learn them."""
        return (values - self.center) / self.spread


def branin(rows: Rows) -> Values:
    """Minus Branin's function, with three maxima."""
    x, y = 15.0 * rows[:, 0] - 5.0, 15.0 * rows[:, 1]
    bowl = (y - 5.1 / (4.0 * np.pi**2) * x**2 + 5.0 / np.pi * x - 6.0) ** 2
    return -(bowl + 10.0 * (1.0 - 1.0 / (8.0 * np.pi)) * np.cos(x) + 10.0)


WEIGHTS: Final = np.array([1.0, 1.2, 3.0, 3.2])
SHARPNESS: Final = np.array(
    [[10, 3, 17, 3.5, 1.7, 8], [0.05, 10, 17, 0.1, 8, 14], [3, 3.5, 1.7, 10, 17, 8], [17, 8, 0.05, 10, 0.1, 14]]
)
CENTERS: Final = 1e-4 * np.array(
    [
        [1312, 1696, 5569, 124, 8283, 5886],
        [2329, 4135, 8307, 3736, 1004, 9991],
        [2348, 1451, 3522, 2883, 3047, 6650],
        [4047, 8828, 8732, 5743, 1091, 381],
    ]
)


def hartmann(rows: Rows) -> Values:
    """Hartmann's function of six columns: four hills."""
    return np.exp(-((rows[:, None, :] - CENTERS) ** 2 * SHARPNESS).sum(axis=2)) @ WEIGHTS


def ackley(rows: Rows) -> Values:
    """Minus Ackley's function of three columns from −4 to 6, with a peak among ripples."""
    x = 10.0 * rows - 4.0
    return (
        20.0 * np.exp(-0.2 * np.sqrt((x**2).mean(axis=1))) + np.exp(np.cos(2.0 * np.pi * x).mean(axis=1)) - 20.0 - np.e
    )


FUNCTIONS: Final = {
    "Branin, 2 columns": Function(branin, 2, -0.397887, -54.3, 51.3, 0.25),
    "Ackley, 3 columns": Function(ackley, 3, 0.0, -10.3, 2.2, 0.25),
    "Hartmann, 6 columns": Function(hartmann, 6, 3.322368, 0.26, 0.38, 0.5),
}

System = Callable[[Function, int], tuple[Callable[[], Rows], Callable[[Rows, float], None]]]


def in_a_box(function: Function, _seed: int) -> tuple[Callable[[], Rows], Callable[[Rows, float], None]]:
    """KernelUCB over a box."""
    import kernelbandits as kb

    policy, box = _policy(function), kb.Box(np.zeros(function.n_columns), np.ones(function.n_columns))
    return lambda: policy.choose(box).context, lambda row, reward: policy.warm_start(row[None], [reward])


def of_listed_points(function: Function, seed: int) -> tuple[Callable[[], Rows], Callable[[Rows, float], None]]:
    """KernelUCB over random points."""
    policy, rng = _policy(function), np.random.default_rng(seed)
    return (
        lambda: policy.choose(rng.random((N_LISTED, function.n_columns))).context,
        lambda row, reward: policy.warm_start(row[None], [reward]),
    )


def _policy(function: Function) -> Any:
    import kernelbandits as kb

    kernel = kb.kernels.Matern(smoothness=2.5, length_scale=function.length_scale)
    return kb.KernelUCB(kernel, regularization=NOISE, exploration=DEVIATIONS * NOISE**0.5)


def at_random(function: Function, seed: int) -> tuple[Callable[[], Rows], Callable[[Rows, float], None]]:
    """Random search."""
    rng = np.random.default_rng(seed)
    return lambda: rng.random(function.n_columns), lambda _row, _reward: None


def by_botorch(function: Function, seed: int) -> tuple[Callable[[], Rows], Callable[[Rows, float], None]]:
    """BoTorch: an exact Gaussian process with the same kernel, and optimize_acqf with as many starts."""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(seed)
    rows: list[Rows] = []
    rewards: list[float] = []

    def learn(row: Rows, reward: float) -> None:
        rows.append(row)
        rewards.append(reward)

    return lambda: botorch_choice(function, np.array(rows), np.array(rewards)), learn


def botorch_choice(function: Function, rows: Rows, rewards: Values) -> Rows:
    """The best row by the upper confidence bound after these rewards, as BoTorch finds it."""
    import torch
    from botorch.acquisition import UpperConfidenceBound
    from botorch.models import SingleTaskGP
    from botorch.optim import optimize_acqf
    from gpytorch.kernels import MaternKernel
    from gpytorch.means import ZeroMean

    kernel = MaternKernel(nu=2.5)
    kernel.lengthscale = function.length_scale
    x, y = torch.tensor(rows), torch.tensor(rewards)[:, None]
    model = SingleTaskGP(
        x, y, torch.full_like(y, NOISE), covar_module=kernel.double(), mean_module=ZeroMean(), outcome_transform=None
    )
    score = UpperConfidenceBound(model, beta=DEVIATIONS**2)
    bounds = torch.stack([torch.zeros(function.n_columns), torch.ones(function.n_columns)]).double()
    found, _ = optimize_acqf(score, bounds=bounds, q=1, num_restarts=8, raw_samples=512)
    row: Rows = found[0].numpy()
    return row


SYSTEMS: Final[dict[str, System]] = {
    "KernelUCB in a box": in_a_box,
    "KernelUCB, 1,000 listed points": of_listed_points,
    "BoTorch": by_botorch,
    "random search": at_random,
}
PEER: Final = "BoTorch"


def run(name: str, system: str, seed: int, n_rounds: int) -> dict[str, Any]:
    """Run one system on one function: regret so far per round, rows, rewards and processor seconds."""
    function = FUNCTIONS[name]
    rows = [*np.random.default_rng([seed, 0]).random((N_FIRST, function.n_columns))]
    choose, learn = SYSTEMS[system](function, seed)
    rewards: list[float] = []
    seconds = 0.0
    for turn in range(N_FIRST + n_rounds):
        started = process_time()
        row = rows[turn] if turn < N_FIRST else choose()
        seconds += (process_time() - started) * (turn >= N_FIRST)
        reward = float(function.evaluate(row[None])[0])
        started = process_time()
        learn(row, function.standardized(reward))
        seconds += process_time() - started
        rows[turn:] = [*rows[turn:turn], row, *rows[turn + 1 :]]
        rewards.append(reward)
    regret = function.maximum - np.maximum.accumulate(rewards)
    return {
        "function": name, "system": system, "seed": seed, "rounds": n_rounds, "regret": regret.round(4).tolist(),
        "mean regret": round(float(function.maximum - np.mean(rewards[N_FIRST:])), 6),
        "milliseconds per round": round(1e3 * seconds / n_rounds, 2), "rows": np.array(rows).tolist(),
    }  # fmt: skip


def found_by_botorch(results: Sequence[dict[str, Any]]) -> None:
    """Add to each run of KernelUCB in a box the rows that BoTorch finds on the same models."""
    import torch

    torch.set_num_threads(1)
    for result in results:
        if result["system"] != "KernelUCB in a box" or "found by BoTorch" in result:
            continue
        function, rows = FUNCTIONS[result["function"]], np.array(result["rows"])
        rewards = function.standardized(function.evaluate(rows))
        torch.manual_seed(result["seed"])
        result["found by BoTorch"] = {
            str(n): botorch_choice(function, rows[:n], rewards[:n]).tolist() for n in EXAMINED if n <= len(rows)
        }


def leads(result: dict[str, Any]) -> list[float]:
    """Score found by KernelUCB minus the score at BoTorch's row, on the same models, in standard deviations of f."""
    import kernelbandits as kb

    if "found by BoTorch" not in result:
        return []
    function, rows = FUNCTIONS[result["function"]], np.array(result["rows"])
    box = kb.Box(np.zeros(function.n_columns), np.ones(function.n_columns))
    differences = []
    for n, theirs in result["found by BoTorch"].items():
        policy = _policy(function)
        policy.warm_start(rows[: int(n)], function.standardized(function.evaluate(rows[: int(n)])))
        score = policy.posterior.predict([theirs]).upper(DEVIATIONS * NOISE**0.5)[0]
        differences.append(policy.choose(box).score - float(score))
    return differences


def page(results: Sequence[dict[str, Any]]) -> str:
    """The page with these results."""
    names = list(dict.fromkeys(result["function"] for result in results))
    lines = [
        "# Continuous actions, measured",
        "",
        "Written by `python -m benchmarks.continuous --page` from `continuous-actions.json`.",
        "",
        f"Three functions to maximize over a unit cube without noise. All systems begin with the same {N_FIRST} random "
        "rows and then choose. KernelUCB and BoTorch have the same model, a Gaussian process with a Matérn kernel of "
        f"smoothness 5/2, a fixed length scale and noise variance {NOISE:g}; they learn the same standardized rewards, "
        f"and have the same score, mean + {DEVIATIONS:g} standard deviations. Both score 512 quasi-random starts and "
        "improve 8 of them by L-BFGS-B, BoTorch by `optimize_acqf(num_restarts=8, raw_samples=512)`. No length scale "
        "is fitted, so what is compared is the search. Regret is that of the best row so far, and the mean over "
        "rounds, in the unit of the function; milliseconds are processor time of one thread per round, choosing and "
        "learning. Means over seeds, ± standard error.",
        "",
        "| function | system | seeds | rounds | regret, half-way | regret, end | mean regret | ms per round |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name in names:
        for system in SYSTEMS:
            runs = [one for one in results if (one["function"], one["system"]) == (name, system)]
            if not runs:
                lines.append(f"| {name} | {system} | not run | | | | | |")
                continue
            half = N_FIRST + runs[0]["rounds"] // 2 - 1
            cells = [
                _mean([one["regret"][half] for one in runs]),
                _mean([one["regret"][-1] for one in runs]),
                _mean([one["mean regret"] for one in runs]),
                f"{np.mean([one['milliseconds per round'] for one in runs]):.1f}",
            ]
            lines.append(f"| {name} | {system} | {len(runs)} | {runs[0]['rounds']} | {' | '.join(cells)} |")
    lines += ["", *_search_alone(results, names)]
    return "\n".join(lines) + "\n"


def _search_alone(results: Sequence[dict[str, Any]], names: Sequence[str]) -> list[str]:
    lines = [
        "## The search alone",
        "",
        f"The same models, those of KernelUCB after {', '.join(map(str, EXAMINED))} rewards, searched by both: the "
        "score that KernelUCB finds minus the score at BoTorch's row, both computed by KernelUCB. Rewards have "
        "standard deviation 1.",
        "",
        "| function | models | smallest difference | median | largest |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for name in names:
        found = [lead for one in results if one["function"] == name for lead in leads(one)]
        if found:
            low, middle, high = np.min(found), np.median(found), np.max(found)
            lines.append(f"| {name} | {len(found)} | {low:.1e} | {middle:.1e} | {high:.1e} |")
    return lines


def _mean(values: Sequence[float]) -> str:
    error = np.std(values, ddof=1) / len(values) ** 0.5 if len(values) > 1 else float("nan")
    return f"{np.mean(values):.3g} ± {error:.1g}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is requested, store it, and write the page."""
    parser = argparse.ArgumentParser(prog="benchmarks.continuous", description=__doc__.splitlines()[0])
    parser.add_argument("--system", action="append", choices=SYSTEMS, help="all but BoTorch by default")
    parser.add_argument("--only", action="append", choices=FUNCTIONS, help="a function; all by default")
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--page", action="store_true", help="write the page from the stored numbers, and run nothing")
    parser.add_argument("--into", type=Path, default=PAGE, help="the page; numbers are stored beside it")
    given = parser.parse_args(arguments)
    stored = given.into.with_suffix(".json")
    results: list[dict[str, Any]] = json.loads(stored.read_text(encoding="utf-8")) if stored.exists() else []
    systems = [] if given.page else given.system or [name for name in SYSTEMS if name != PEER]
    for seed in range(given.seeds):
        for name in given.only or FUNCTIONS:
            for system in systems:
                key = (name, system, seed)
                results = [one for one in results if (one["function"], one["system"], one["seed"]) != key]
                results.append(run(*key, given.rounds))
                if SYSTEMS[system] is not in_a_box:
                    del results[-1]["rows"]  # only its models are searched again
                print(*key, results[-1]["regret"][-1], results[-1]["milliseconds per round"], flush=True)
                stored.write_text(json.dumps(results) + "\n", encoding="utf-8")
    if PEER in systems:
        found_by_botorch(results)
    stored.write_text(json.dumps(results) + "\n", encoding="utf-8")
    if PEER not in systems:
        given.into.write_text(page(results), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
