"""Defaults of the policies: a grid search on seeds apart from those of the policy study.

    python -m studies.defaults                  run what is missing, and write docs/results/defaults.json and the page
    python -m studies.defaults --only VE UCB1   the same, of these classes; others keep their numbers
    python -m studies.defaults --only-write     write docs/defaults.md from docs/results/defaults.json

Finished runs are kept in a folder and never repeated.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, Final

import numpy as np

from kernelbandits import policies as p
from kernelbandits.environments import Environment
from kernelbandits.environments.base import n_points
from kernelbandits.experiments import Results, Study, run
from kernelbandits.experiments.policy_problems import PROBLEMS, Problem
from kernelbandits.experiments.policy_spec import RunInfo
from kernelbandits.experiments.progress import rounds_bar
from kernelbandits.experiments.reports.tables import markdown_rows
from kernelbandits.policies.experts import Expert, constant_experts, linear_experts
from kernelbandits.theory import GPUCBFinite

HORIZON: Final = 1_000
SEEDS: Final = range(900, 903)
"""The policy study reports seeds 0 to 19 and tunes on 1000 to 1005."""

PAGE: Final = Path(__file__).parent.parent / "docs" / "defaults.md"
NUMBERS: Final = PAGE.parent / "results" / "defaults.json"

FIXED: Final = ("linear", "smooth", "clustered")
ALL: Final = tuple(PROBLEMS)
SAME_ACTIONS: Final = (*FIXED, "context × action", "table")
WITH_EXPERTS: Final = (*FIXED, "context × action")

N_EXPERTS: Final = 120


@dataclass(frozen=True, eq=False)
class Case:
    """What a policy may know of a run on a problem."""

    problem: Problem
    info: RunInfo

    @property
    def contexts(self) -> Any:
        """Contexts of the first round."""
        return self.info.contexts

    @property
    def options(self) -> dict[str, Any]:
        """Arguments of policies that are made for a number of rounds and actions."""
        return {"horizon": self.info.horizon, "n_actions": n_points(self.contexts)}

    @property
    def experts(self) -> list[Expert]:
        """Every action as a constant, and random linear rules."""
        constant = constant_experts(n_points(self.contexts))
        n_linear = N_EXPERTS - len(constant)
        return [*constant, *linear_experts(self.contexts.shape[1], n_experts=n_linear, seed=self.info.seed)]

    @property
    def states(self) -> Any:
        """One state if the context stays the same, else nine cells of the unit square."""
        thirds = np.array([1.0, 3.0, 5.0]) / 6.0
        lattice = np.stack(np.meshgrid(thirds, thirds), axis=-1).reshape(-1, 2)
        return self.contexts[:1] if self.problem.has_fixed_contexts else lattice


@dataclass(frozen=True, eq=False)
class Tried:
    """A class of policies, the values that were tried, and the problems that its assumptions allow."""

    make: Callable[..., p.Policy]
    grid: Mapping[str, Sequence[float]] = field(default_factory=dict)
    problems: Sequence[str] = ALL
    theory: Mapping[str, Any] | None = None
    uses_rows: bool = False

    def environment(self, problem: str) -> Environment:
        """The problem in the form that the policy reads."""
        rows = PROBLEMS[problem].rows
        return rows if self.uses_rows and rows is not None else PROBLEMS[problem].environment


def _kernel(case: Case) -> Any:
    return case.problem.kernel(case.info)


def _class_policy(policy: Any) -> Callable[..., p.Policy]:
    return lambda case, **values: policy(case.experts, n_actions=n_points(case.contexts), seed=case.info.seed, **values)


def _exp4(policy: Any, **more: Any) -> Callable[..., p.Policy]:
    return lambda case, **values: policy(case.experts, horizon=case.info.horizon, seed=case.info.seed, **more, **values)


def _gp_ucb(case: Case, *, divide_by: float | None = None) -> p.Policy:
    schedule = None if divide_by is None else GPUCBFinite(divide_by=divide_by)
    return p.GPUCB(_kernel(case), noise_variance=0.25, exploration=schedule)


_BY_THEOREM: Final = {"exploration": "theory"}
_BY_THEOREM_AND_NORM: Final = {"exploration": "theory", "norm_bound": 1.0}
_QUARTERS: Final = {"exploration": (0.5, 0.25, 0.125)}
_FIFTHS: Final = {"exploration": (0.4, 0.2, 0.1)}
_RATES: Final = {"uniform_factor": (1.0, 0.3, 0.1), "learning_factor": (10.0, 30.0, 100.0)}
_CONFIDENT_RATES: Final = {
    "exploration": (0.3, 0.1, 0.03), "uniform_factor": (0.3, 0.1), "learning_factor": (10.0, 30.0, 100.0),
}  # fmt: skip
_RATES_BY_THEOREM: Final = {"uniform_factor": "theory", "learning_factor": "theory"}
_REGRET: Final = {"regret_factor": (1.0, 0.1), "uniform_factor": (0.1, 0.03)}
_REGRET_BY_THEOREM: Final = {"regret_factor": "theory", "uniform_factor": "theory"}

TRIED: Final[Mapping[str, Tried]] = {
    "KernelThompson": Tried(
        lambda case, **values: p.KernelThompson(_kernel(case), seed=case.info.seed, **values), _QUARTERS
    ),
    "SupKernelUCB": Tried(
        lambda case, **values: p.SupKernelUCB(_kernel(case), **case.options, **values),
        _FIFTHS,
        theory=_BY_THEOREM_AND_NORM,
    ),
    "PhasedElimination": Tried(
        lambda case, **values: p.PhasedElimination(_kernel(case), case.contexts, horizon=case.info.horizon, **values),
        _QUARTERS,
        FIXED,
        theory=_BY_THEOREM_AND_NORM,
    ),
    "GPUCB": Tried(_gp_ucb, {"divide_by": (5.0, 20.0, 80.0)}, theory={"divide_by": 1.0}),
    "ContextualZooming": Tried(
        lambda case, **values: p.ContextualZooming(_kernel(case), horizon=case.info.horizon, **values),
        {"exploration": (0.2, 0.1, 0.05, 0.01), "norm_bound": (1.0, 0.2, 0.1, 0.05)},
        theory=_BY_THEOREM_AND_NORM,
    ),
    "KernelEpochGreedy": Tried(
        lambda case, **values: p.KernelEpochGreedy(_kernel(case), **case.options, seed=case.info.seed, **values),
        {"uniform_factor": (0.3, 0.2, 0.1, 0.05)},
        theory={"uniform_factor": "theory"},
    ),
    "SupLinUCB": Tried(
        lambda case, **values: p.SupLinUCB(**case.options, **values),
        _FIFTHS,
        ("linear",),
        theory=_BY_THEOREM_AND_NORM,
    ),
    "SupLinRel": Tried(
        lambda case, **values: p.SupLinRel(**case.options, **values), _FIFTHS, ("linear",), theory=_BY_THEOREM
    ),
    "ConfidenceBall": Tried(
        lambda case, **values: p.ConfidenceBall(case.contexts, **values),
        {"exploration": (0.03, 0.01, 0.003)},
        ("linear",),
        theory=_BY_THEOREM,
    ),
    "UncertaintyEllipsoid": Tried(
        lambda case, **values: p.UncertaintyEllipsoid(case.contexts, **values),
        {"exploration": (0.3, 0.1, 0.03)},
        ("linear",),
    ),
    "UCB1": Tried(
        lambda _, **values: p.UCB1(**values), {"exploration": (0.4, 0.2, 0.1)}, (*FIXED, "table"), theory=_BY_THEOREM
    ),
    "KLUCB": Tried(
        lambda _, **values: p.KLUCB(**values),
        {"log_log_factor": (0.0, 1.0)},
        (*FIXED, "table"),
        theory={"log_log_factor": "theory"},
    ),
    "EXP4": Tried(_exp4(p.EXP4), _RATES, WITH_EXPERTS, _RATES_BY_THEOREM, uses_rows=True),
    "EXP4P": Tried(_exp4(p.EXP4P), _CONFIDENT_RATES, WITH_EXPERTS, _BY_THEOREM | _RATES_BY_THEOREM, uses_rows=True),
    "VE": Tried(
        _exp4(p.VE, vc_dimension=3, uniform_rounds=50),
        _CONFIDENT_RATES,
        WITH_EXPERTS,
        _BY_THEOREM | _RATES_BY_THEOREM,
        uses_rows=True,
    ),
    "PACBayes": Tried(
        lambda case, **values: p.PACBayes(
            case.states, n_actions=n_points(case.contexts), seed=case.info.seed, **values
        ),
        {"uniform_factor": (0.3, 0.1, 0.03), "learning_factor": (3.0, 10.0, 30.0)},
        WITH_EXPERTS,
        _RATES_BY_THEOREM,
    ),
    "EpochGreedy": Tried(
        lambda case, **values: p.EpochGreedy(case.experts, **case.options, seed=case.info.seed, **values),
        {"uniform_factor": (0.3, 0.2, 0.1, 0.05)},
        WITH_EXPERTS,
        {"uniform_factor": "theory"},
        uses_rows=True,
    ),
    "PolicyElimination": Tried(
        _class_policy(p.PolicyElimination),
        {"exploration": (0.1, 0.05, 0.03), "uniform_factor": (0.1, 0.03)},
        WITH_EXPERTS,
        {"exploration": "theory", "uniform_factor": "theory"},
        uses_rows=True,
    ),
    "ILOVETOCONBANDITS": Tried(
        _class_policy(p.ILOVETOCONBANDITS), _REGRET, WITH_EXPERTS, _REGRET_BY_THEOREM, uses_rows=True
    ),
    "RandomizedUCB": Tried(
        _class_policy(p.RandomizedUCB),
        {"uniform_factor": (0.3, 0.1, 0.03)},
        WITH_EXPERTS,
        _REGRET_BY_THEOREM,
        uses_rows=True,
    ),
    "KernelUCB": Tried(lambda case, **values: p.KernelUCB(_kernel(case), **values)),
    "KernelSquareCB": Tried(lambda case, **values: p.KernelSquareCB(_kernel(case), seed=case.info.seed, **values)),
    "LinUCB": Tried(lambda _, **values: p.LinUCB(**values), problems=("linear",)),
    "OFUL": Tried(lambda _: p.OFUL(noise_scale=0.5, norm_bound=1.0), problems=("linear",)),
    "PEGE": Tried(lambda case: p.PEGE(case.contexts), problems=("linear",)),
    "GridGP": Tried(lambda case: p.GridGP(_kernel(case), case.contexts, horizon=case.info.horizon), problems=FIXED),
}
"""Every class whose constants a default could get wrong, by name."""

UNIFORM: Final = "UniformRandom"
DEFAULT, THEORY = "default", "theory"


@dataclass(frozen=True)
class Setting:
    """A policy of a study; a process looks its class up by name."""

    name: str
    problem: str
    values: tuple[tuple[str, Any], ...] = ()

    def __call__(self, run: RunInfo) -> p.Policy:
        """Build the policy for a run."""
        if self.name == UNIFORM:
            return p.UniformRandom(seed=run.seed)
        return TRIED[self.name].make(Case(PROBLEMS[self.problem], run), **dict(self.values))


def label(name: str, setting: str) -> str:
    """Name of a policy in a study."""
    return f"{name}: {setting}"


def settings_of(name: str) -> dict[str, tuple[tuple[str, Any], ...]]:
    """Arguments by the name of a setting: the default, that of the theorem, and the grid."""
    tried = TRIED[name]
    found: dict[str, tuple[tuple[str, Any], ...]] = {DEFAULT: ()}
    if tried.theory is not None:
        found[THEORY] = tuple(tried.theory.items())
    for values in product(*tried.grid.values()):
        if tried.grid:
            found[", ".join(map(str, values))] = tuple(zip(tried.grid, values, strict=True))
    return found


def setting_of_default(name: str) -> str:
    """The setting of the grid that is the default of a class; an empty text if there is none."""
    problem = TRIED[name].problems[0]
    info = RunInfo(TRIED[name].environment(problem), HORIZON, SEEDS[0])
    default, *others = (
        (setting, Setting(name, problem, values)(info).describe()) for setting, values in settings_of(name).items()
    )
    return next((setting for setting, described in others if described == default[1]), "")


def studies(*, horizon: int = HORIZON, seeds: Sequence[int] = SEEDS, only: Sequence[str] = ()) -> list[Study]:
    """One study per environment, since a policy may read a problem in another form."""
    policies: dict[tuple[str, bool], dict[str, Setting]] = {}
    for name in only or TRIED:
        tried = TRIED[name]
        for problem in tried.problems:
            rows = PROBLEMS[problem].rows
            is_other = tried.uses_rows and rows is not None and rows is not PROBLEMS[problem].environment
            of_problem = policies.setdefault((problem, is_other), {UNIFORM: Setting(UNIFORM, problem)})
            info = RunInfo(_environment(problem, is_other), horizon, seeds[0])
            described = []
            for setting, values in settings_of(name).items():
                policy = Setting(name, problem, values)
                if (description := policy(info).describe()) not in described:  # the default is one of the grid
                    of_problem[label(name, setting)] = policy
                    described.append(description)
    return [
        Study(
            name=f"defaults, {problem}{', rows' if is_other else ''}",
            environments={problem: _environment(problem, is_other)},
            policies=dict(of_problem),
            horizon=horizon,
            seeds=tuple(seeds),
            every=horizon,
        )
        for (problem, is_other), of_problem in policies.items()
    ]


def _environment(problem: str, is_other: bool) -> Environment:
    rows = PROBLEMS[problem].rows
    return rows if is_other and rows is not None else PROBLEMS[problem].environment


def collect(into: Path, *, workers: int | None = None, **options: Any) -> dict[str, Any]:
    """Mean fraction of the regret of uniform choices, by class, setting and problem."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for number, study in enumerate(studies(**options)):
        with rounds_bar(study.name) as bar:
            results = run(study, into / str(number), workers=workers, progress=bar.move, time_left=bar.expect)
        for name, setting, problem, fraction in _fractions(results):
            found.setdefault(name, {}).setdefault(setting, {})[problem] = fraction
    horizon, seeds = options.get("horizon", HORIZON), list(options.get("seeds", SEEDS))
    return {"horizon": horizon, "seeds": seeds, "fractions": found}


def _fractions(results: Results) -> list[tuple[str, str, str, float]]:
    ends: dict[str, dict[int, float]] = {}
    problem = ""
    for row in results.frame().to_dict("records"):
        problem = str(row["environment"])
        if row["round"] == results.study["horizon"]:
            ends.setdefault(str(row["policy"]), {})[int(row["seed"])] = float(row["regret"])
    uniform = ends.pop(UNIFORM)
    found = []
    for policy, by_seed in ends.items():
        name, setting = policy.split(": ", 1)
        fraction = float(np.mean([regret / uniform[seed] for seed, regret in by_seed.items()]))
        found.append((name, setting, problem, round(fraction, 4)))
    return found


def render(found: Mapping[str, Any]) -> str:
    """The page, from the numbers alone."""
    head = ["policy", "tried", "default", *PROBLEMS, "mean", "theory", "best of the grid"]
    rows = [head]
    for name, by_setting in found["fractions"].items():
        default = by_setting[DEFAULT]
        means = {key: float(np.mean(list(values.values()))) for key, values in by_setting.items() if key != THEORY}
        best = min(means, key=means.__getitem__) if len(means) > 1 else ""
        is_default = best == DEFAULT
        theory = by_setting.get(THEORY)
        rows.append(
            [
                f"`{name}`",
                "; ".join(
                    f"`{parameter}` {', '.join(map(str, values))}" for parameter, values in TRIED[name].grid.items()
                ),
                setting_of_default(name),
                *(f"{default[problem]:.2f}" if problem in default else "" for problem in PROBLEMS),
                f"{np.mean(list(default.values())):.2f}",
                "" if theory is None else f"{np.mean(list(theory.values())):.2f}",
                "" if not best else "the default" if is_default else f"{means[best]:.2f} with {best}",
            ]
        )
    return f"""\
# Defaults

A class of policies taken with its defaults learns: the defaults are practical constants, and not those of proofs, which
explore for thousands of rounds. Where a theorem has a constant, the value `"theory"` of the parameter stands for it:

```python
>>> import kernelbandits as kb
>>> kb.UCB1(exploration="theory").exploration
1.0
>>> kb.SupKernelUCB(kb.kernels.Linear(), exploration="theory", norm_bound=1.0).exploration
'theory'

```

No default has a guarantee. Policies whose `exploration` is a schedule (`KernelUCB`, `LinUCB`, `GPUCB`, `CGPUCB`,
`KernelThompson`) take the schedule of the theorem instead, such as `Mixture` or `GPUCBFinite`. `OFUL` is its theorem:
its noise scale and norm bound have no default.

The constants come from a grid on the problems of the [policy study](policies.md), {found["horizon"]:,} rounds, seeds
{found["seeds"][0]} to {found["seeds"][-1]}, which that study does not use. Numbers are regret as a fraction of the
regret of uniform choices, means over the seeds: 1 is what learning nothing gives. A policy has numbers for the problems
that its assumptions allow: a linear policy where rewards are linear, experts where there are features and the actions
stay the same. "Mean", "theory" and "best of the grid" are means over these: of the default, of the constants of the
theorem, and of the best setting of the grid, the default included. Of settings whose difference is within the noise of
a few seeds, the default is the rounder or the more cautious one. Policies of experts explore more by default than is
best here, with 100 actions: with four actions and many experts (`tests/statistical/test_expert_regret.py`), the best
settings of this table follow a wrong expert in some runs.

{markdown_rows(rows, n_text_columns=3)}

```sh
python -m studies.defaults
```
"""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run, collect, write."""
    parser = argparse.ArgumentParser(
        prog="python -m studies.defaults", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--into", default="results/defaults", metavar="FOLDER", help="where results are kept")
    parser.add_argument("--workers", type=int, metavar="N", help="processes (default: one per processor)")
    parser.add_argument("--only", nargs="+", default=(), choices=TRIED, metavar="CLASS", help="run these classes")
    parser.add_argument("--only-write", action="store_true", help="run nothing")
    options = parser.parse_args(arguments)
    if not options.only_write:
        numbers = collect(Path(options.into), workers=options.workers, only=options.only)
        if options.only:
            known = json.loads(NUMBERS.read_text(encoding="utf-8"))
            numbers["fractions"] = known["fractions"] | numbers["fractions"]
        NUMBERS.write_text(json.dumps(numbers, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    PAGE.write_text(render(json.loads(NUMBERS.read_text(encoding="utf-8"))), encoding="utf-8")
    print(f"Written  {PAGE}")


if __name__ == "__main__":
    main()
