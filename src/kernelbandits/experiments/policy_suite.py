"""The policy study: every policy of the library on six problems, with default, tuned and theory settings.

A policy runs on every problem for which it is defined. Tuned settings are the best of a small grid per problem, on
seeds apart from those reported; the chosen ones are in `policy_constants.json`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import product
from math import sqrt
from os import PathLike
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, get_args

import numpy as np

from kernelbandits import policies as p
from kernelbandits._files import writable_folder
from kernelbandits._optional import versions
from kernelbandits.environments import Environment
from kernelbandits.environments.base import n_points
from kernelbandits.errors import InvalidParameter
from kernelbandits.evaluation import start_world
from kernelbandits.experiments.policy_problems import PROBLEMS, Problem
from kernelbandits.experiments.policy_spec import RunInfo, plain_value, short_text
from kernelbandits.experiments.results import CONFIDENCE, Results
from kernelbandits.experiments.runner import run
from kernelbandits.experiments.study import Study, canonical
from kernelbandits.kernels import Kernel, Linear
from kernelbandits.policies.experts import Expert, constant_experts, linear_experts
from kernelbandits.posterior import posterior_factory
from kernelbandits.theory import IGPUCB, Mixture
from kernelbandits.validation import MOST_ROUNDS, MOST_RUNS, check_int

__all__ = [
    "CONSTANTS",
    "HORIZON",
    "N_SEEDS",
    "SUITE",
    "TUNING_SEEDS",
    "Setting",
    "SuitePolicy",
    "SuiteRun",
    "read_constants",
    "run_policy_suite",
    "suite_studies",
    "tune_policy_suite",
    "write_numbers",
]

HORIZON: Final = 1_000
"""Rounds of a run, by default."""

N_SEEDS: Final = 20
"""Runs of each policy on each problem, by default: seeds 0 to 19."""

TUNING_SEEDS: Final = range(1_000, 1_006)
"""Seeds that choose the tuned settings."""

CONSTANTS: Final = Path(__file__).with_name("policy_constants.json")
"""Tuned settings, as `kernelbandits compare --tune` wrote them."""

NOISE_VARIANCE: Final = 0.25
"""Largest variance of rewards of 0 and 1, for policies that need one."""

N_EXPERTS: Final = 120

Setting: TypeAlias = Literal["default", "tuned", "theory"]
"""Origin of the parameters of a row: the defaults of the class, a grid search on other seeds, or a proof."""
Values: TypeAlias = Mapping[str, Any]
"""Arguments of a policy by name."""

Need: TypeAlias = Literal["fixed contexts", "fixed actions", "features", "a context"]


@dataclass(frozen=True, eq=False)
class SuiteRun:
    """What a policy of the study may know before the first round."""

    problem: Problem
    info: RunInfo

    @property
    def horizon(self) -> int:
        """Number of rounds."""
        return self.info.horizon

    @property
    def seed(self) -> int:
        """Seed of the run."""
        return self.info.seed

    @property
    def contexts(self) -> Any:
        """Contexts of the first round."""
        return self.info.contexts

    @property
    def n_actions(self) -> int:
        """Number of actions per round."""
        return n_points(self.contexts)

    @cached_property
    def kernel(self) -> Kernel:
        """Kernel over the points of the problem."""
        return self.problem.kernel(self.info)

    @property
    def experts(self) -> list[Expert]:
        """120 experts: every action as a constant, if actions stay the same, and random linear rules over features."""
        constant = constant_experts(self.n_actions) if self.problem.has_fixed_actions else []
        if self.problem.rows is None:
            return [*constant]
        n_linear = N_EXPERTS - len(constant)
        return [*constant, *linear_experts(self.contexts.shape[1], n_experts=n_linear, seed=self.seed)]


@dataclass(frozen=True, eq=False, kw_only=True)
class SuitePolicy:
    """A policy of the study: how it is built, where it is defined, and which settings are tried."""

    name: str
    family: str
    make: Callable[..., p.Policy]
    """Builds it from a `SuiteRun` and settings by name; without settings, with the defaults of its class."""

    grid: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """Values to try, by parameter; every combination is a setting."""

    theory: Values | None = None
    """Settings of its proof; None: the default has them, or there is no proof."""

    needs: tuple[Need, ...] = ()
    """What a problem must have for the policy to be defined there."""

    uses_rows: bool = False
    """Whether it sees one row of features per action where the problem also has another form."""

    def is_defined(self, problem: Problem) -> bool:
        """Whether it can run on a problem, and means something there."""
        has: dict[Need, bool] = {
            "fixed contexts": problem.has_fixed_contexts,
            "fixed actions": problem.has_fixed_actions,
            "features": problem.rows is not None,
            "a context": problem.has_fixed_actions and not problem.has_fixed_contexts,
        }
        return all(has[need] for need in self.needs)

    def environment(self, problem: Problem) -> Environment:
        """The problem in the form that the policy sees."""
        return problem.rows if self.uses_rows and problem.rows is not None else problem.environment

    def settings(self) -> list[dict[str, float]]:
        """Every combination of the grid."""
        return [dict(zip(self.grid, values, strict=True)) for values in product(*self.grid.values())]


@dataclass(frozen=True, eq=False)
class _Row:
    """A policy with fixed settings on a problem, as a function of a run."""

    policy: SuitePolicy
    problem: str
    values: Values

    def __call__(self, run: RunInfo) -> p.Policy:
        return self.policy.make(SuiteRun(PROBLEMS[self.problem], run), **self.values)

    def __reduce__(self) -> tuple[Callable[[str, str, Values], _Row], tuple[str, str, Values]]:
        return _row, (self.policy.name, self.problem, self.values)  # lambdas cannot be pickled


def _row(policy: str, problem: str, values: Values) -> _Row:
    return _Row(_policies()[policy], problem, values)


@cache
def _policies() -> Mapping[str, SuitePolicy]:
    return {policy.name: policy for policy in SUITE}


def _kernel_ucb(run: SuiteRun, **values: Any) -> p.KernelUCB:
    return p.KernelUCB(run.kernel, **values)


def _sup_kernel_ucb(run: SuiteRun, **values: Any) -> p.SupKernelUCB:
    return p.SupKernelUCB(run.kernel, horizon=run.horizon, n_actions=run.n_actions, **_learning(run, values))


def _sup_lin_ucb(run: SuiteRun, **values: Any) -> p.SupLinUCB:
    return p.SupLinUCB(horizon=run.horizon, n_actions=run.n_actions, **_learning(run, values))


def _learning(run: SuiteRun, values: Values) -> Values:
    """The same settings, with an exploration of at least 2/√T: a smaller one may learn nothing in a short run."""
    if isinstance(values.get("exploration"), float):
        return {**values, "exploration": max(values["exploration"], 2.0 / sqrt(run.horizon))}
    return values


def _kernel_thompson(run: SuiteRun, **values: Any) -> p.KernelThompson:
    if values.get("exploration") == "theory":
        scale = IGPUCB(noise_scale=0.5, norm_bound=1.0, failure_probability=0.025, horizon=run.horizon)
        values = {"exploration": scale, "regularization": 1.0 + 2.0 / run.horizon}
    return p.KernelThompson(run.kernel, seed=run.seed, **values)


def _pac_bayes(run: SuiteRun, **values: Any) -> p.PACBayes:
    """PACBayes with one state if the context is constant, else with 3 × 3 cells of the unit square."""
    thirds = np.array([1.0, 3.0, 5.0]) / 6.0
    lattice = np.stack(np.meshgrid(thirds, thirds), axis=-1).reshape(-1, 2)
    states = run.contexts[:1] if run.problem.has_fixed_contexts else lattice
    return p.PACBayes(states, n_actions=run.n_actions, seed=run.seed, **values)


def _oful(_: SuiteRun, *, scale: float = 1.0) -> p.OFUL:
    return p.OFUL(noise_scale=0.5 * scale, norm_bound=scale)


_EXPLORATION: Final = {"exploration": (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)}
_SMALL_EXPLORATION: Final = {"exploration": (0.005, 0.01, 0.02, 0.05, 0.1, 0.2)}
_THEORY: Final = {"exploration": "theory"}
_RATES: Final = {"uniform_factor": (0.03, 0.1, 0.3), "learning_factor": (3.0, 10.0, 30.0, 100.0)}
_RATES_THEORY: Final = {"uniform_factor": "theory", "learning_factor": "theory"}
_CLASS: Final = {"regret_factor": (0.03, 0.3, 3.0), "uniform_factor": (0.03, 0.1, 0.3)}
_CLASS_THEORY: Final = {"regret_factor": "theory", "uniform_factor": "theory"}

SUITE: Final = (
    SuitePolicy(
        name="KernelUCB",
        family="kernel",
        make=_kernel_ucb,
        grid=_EXPLORATION,
        theory={"exploration": Mixture(noise_scale=0.5, norm_bound=1.0, failure_probability=0.05)},
    ),
    SuitePolicy(
        name="KernelUCB, window of 300",
        family="kernel",
        make=lambda run, **values: _kernel_ucb(run, posterior=posterior_factory("windowed", length=300), **values),
        grid=_EXPLORATION,
    ),
    SuitePolicy(
        name="SupKernelUCB",
        family="kernel",
        make=_sup_kernel_ucb,
        grid={"exploration": (0.1, 0.2, 0.5, 1.0, 2.0)},
        theory={"exploration": "theory", "norm_bound": 1.0},
    ),
    SuitePolicy(
        name="PhasedElimination",
        family="kernel",
        make=lambda run, **values: p.PhasedElimination(run.kernel, run.contexts, horizon=run.horizon, **values),
        grid=_EXPLORATION,
        theory={"exploration": "theory", "norm_bound": 1.0},
        needs=("fixed contexts",),
    ),
    SuitePolicy(
        name="GPUCB",
        family="Gaussian process",
        make=lambda run, **values: p.GPUCB(run.kernel, noise_variance=NOISE_VARIANCE, **values),
        grid=_EXPLORATION,
    ),
    SuitePolicy(
        name="CGPUCB",
        family="Gaussian process",
        make=lambda run, **values: p.CGPUCB(
            context_kernel=run.kernel.context, action_kernel=run.kernel.action, noise_variance=NOISE_VARIANCE, **values
        ),
        grid=_EXPLORATION,
        needs=("a context",),
    ),
    SuitePolicy(
        name="KernelThompson",
        family="Gaussian process",
        make=_kernel_thompson,
        grid=_EXPLORATION,
        theory=_THEORY,
    ),
    SuitePolicy(
        name="GridGP",
        family="Gaussian process",
        make=lambda run, **values: p.GridGP(Linear(), run.contexts, **(values or {"horizon": run.horizon})),
        grid={"n_points": (5, 10, 20, 50, 100)},
        needs=("fixed contexts", "features"),
    ),
    SuitePolicy(
        name="KernelSquareCB",
        family="randomized",
        make=lambda run, scale=None: p.KernelSquareCB(
            run.kernel, gap_weight=None if scale is None else p.GrowingGapWeight(scale=scale), seed=run.seed
        ),
        grid={"scale": (1.0, 4.0, 16.0, 64.0)},
    ),
    SuitePolicy(
        name="Softmax of KernelUCB",
        family="randomized",
        make=lambda run, temperature=0.05, **values: p.Softmax(
            _kernel_ucb(run, **values), temperature=temperature, seed=run.seed
        ),
        grid={"temperature": (0.01, 0.02, 0.05), "exploration": (0.05, 0.2, 0.5)},
    ),
    SuitePolicy(
        name="Mixed KernelUCB, 5 %",
        family="randomized",
        make=lambda run, **values: p.Mixed(_kernel_ucb(run, **values), epsilon=0.05, seed=run.seed),
        grid=_EXPLORATION,
    ),
    SuitePolicy(
        name="Guarded KernelUCB",
        family="randomized",
        make=lambda run, **values: p.Guarded(_kernel_ucb(run, **values), baseline=_first_id(run)),
        grid=_EXPLORATION,
        needs=("fixed actions",),
    ),
    SuitePolicy(
        name="LinUCB",
        family="linear",
        make=lambda _, **values: p.LinUCB(**values),
        grid=_EXPLORATION,
        needs=("features",),
        uses_rows=True,
    ),
    SuitePolicy(
        name="LinUCB, disjoint",
        family="linear",
        make=lambda _, **values: p.LinUCB(model="disjoint", **values),
        grid=_EXPLORATION,
        needs=("a context",),
        uses_rows=True,
    ),
    SuitePolicy(
        name="LinUCB, hybrid",
        family="linear",
        make=lambda _, **values: p.LinUCB(model="hybrid", shared_columns=range(3, 9), **values),
        grid=_EXPLORATION,
        needs=("a context",),
        uses_rows=True,
    ),
    SuitePolicy(
        name="OFUL",
        family="linear",
        make=_oful,
        grid={"scale": (0.02, 0.05, 0.1, 0.2, 0.5)},
        needs=("features",),
        uses_rows=True,
    ),
    SuitePolicy(
        name="SupLinUCB",
        family="linear",
        make=_sup_lin_ucb,
        grid={"exploration": (0.1, 0.2, 0.5, 1.0, 2.0)},
        theory={"exploration": "theory", "norm_bound": 1.0},
        needs=("features",),
        uses_rows=True,
    ),
    SuitePolicy(
        name="SupLinRel",
        family="linear",
        make=lambda run, **values: p.SupLinRel(horizon=run.horizon, n_actions=run.n_actions, **values),
        grid=_EXPLORATION,
        theory=_THEORY,
        needs=("features",),
        uses_rows=True,
    ),
    SuitePolicy(
        name="ConfidenceBall",
        family="linear",
        make=lambda run, **values: p.ConfidenceBall(run.contexts, **values),
        grid=_SMALL_EXPLORATION,
        theory=_THEORY,
        needs=("fixed contexts", "features"),
    ),
    SuitePolicy(
        name="UncertaintyEllipsoid",
        family="linear",
        make=lambda run, **values: p.UncertaintyEllipsoid(run.contexts, **values),
        grid=_SMALL_EXPLORATION,
        needs=("fixed contexts", "features"),
    ),
    SuitePolicy(
        name="PEGE",
        family="linear",
        make=lambda run: p.PEGE(run.contexts),
        needs=("fixed contexts", "features"),
    ),
    SuitePolicy(
        name="UCB1",
        family="index",
        make=lambda _, **values: p.UCB1(**values),
        grid=_SMALL_EXPLORATION,
        needs=("fixed actions",),
    ),
    SuitePolicy(
        name="KLUCB",
        family="index",
        make=lambda _, **values: p.KLUCB(**values),
        theory={"log_log_factor": "theory"},
        needs=("fixed actions",),
    ),
    SuitePolicy(
        name="ContextualZooming",
        family="metric",
        make=lambda run, **values: p.ContextualZooming(run.kernel, horizon=run.horizon, **values),
        grid=_SMALL_EXPLORATION,
        theory=_THEORY | {"norm_bound": 1.0},
    ),
    SuitePolicy(
        name="EXP4",
        family="experts",
        make=lambda run, **values: p.EXP4(run.experts, horizon=run.horizon, seed=run.seed, **values),
        grid=_RATES,
        theory=_RATES_THEORY,
        uses_rows=True,
    ),
    SuitePolicy(
        name="EXP4P",
        family="experts",
        make=lambda run, **values: p.EXP4P(run.experts, horizon=run.horizon, seed=run.seed, **values),
        grid=_RATES,
        theory=_THEORY | _RATES_THEORY,
        uses_rows=True,
    ),
    SuitePolicy(
        name="VE",
        family="experts",
        make=lambda run, **values: p.VE(run.experts, horizon=run.horizon, vc_dimension=2, seed=run.seed, **values),
        grid=_RATES,
        theory=_THEORY | _RATES_THEORY,
        uses_rows=True,
    ),
    SuitePolicy(
        name="EpochGreedy",
        family="experts",
        make=lambda run, **values: p.EpochGreedy(
            run.experts, n_actions=run.n_actions, horizon=run.horizon, seed=run.seed, **values
        ),
        grid={"uniform_factor": (0.03, 0.1, 0.3, 1.0)},
        theory={"uniform_factor": "theory"},
        uses_rows=True,
    ),
    SuitePolicy(
        name="KernelEpochGreedy",
        family="kernel",
        make=lambda run, **values: p.KernelEpochGreedy(
            run.kernel, n_actions=run.n_actions, horizon=run.horizon, seed=run.seed, **values
        ),
        grid={"uniform_factor": (0.03, 0.1, 0.3, 1.0)},
        theory={"uniform_factor": "theory"},
    ),
    SuitePolicy(
        name="PACBayes",
        family="experts",
        make=_pac_bayes,
        grid=_RATES,
        theory=_RATES_THEORY,
        needs=("fixed actions", "features"),
    ),
    SuitePolicy(
        name="PolicyElimination",
        family="experts",
        make=lambda run, **values: p.PolicyElimination(run.experts, n_actions=run.n_actions, seed=run.seed, **values),
        grid={"exploration": (0.01, 0.05, 0.2), "uniform_factor": (0.03, 0.1, 0.3)},
        theory={"exploration": "theory", "uniform_factor": "theory"},
        uses_rows=True,
    ),
    SuitePolicy(
        name="RandomizedUCB",
        family="experts",
        make=lambda run, **values: p.RandomizedUCB(run.experts, n_actions=run.n_actions, seed=run.seed, **values),
        grid=_CLASS,
        theory=_CLASS_THEORY,
        uses_rows=True,
    ),
    SuitePolicy(
        name="ILOVETOCONBANDITS",
        family="experts",
        make=lambda run, **values: p.ILOVETOCONBANDITS(run.experts, n_actions=run.n_actions, seed=run.seed, **values),
        grid=_CLASS,
        theory=_CLASS_THEORY,
        uses_rows=True,
    ),
    SuitePolicy(name="Random", family="baseline", make=lambda run: p.UniformRandom(seed=run.seed)),
)
"""Policies of the study, by family."""


def _first_id(run: SuiteRun) -> Any:
    """Id of the first action: an arbitrary baseline."""
    ids = start_world(run.info.environment, run.seed).observe().ids
    return 0 if ids is None else ids[0]


# Studies

Rows: TypeAlias = Mapping[str, tuple[SuitePolicy, Values]]
"""Policies with settings, by label."""


@dataclass(frozen=True, eq=False)
class _Part:
    """A problem in one form, and the policies that run on it."""

    problem: str
    study: Study
    run_as: Mapping[str, str]
    """Label of the job of every row: rows with equal settings share one."""


def _parts(rows_on: Callable[[str], Rows], *, horizon: int, seeds: Sequence[int]) -> Iterator[_Part]:
    for name, problem in PROBLEMS.items():
        forms: dict[Any, dict[str, tuple[SuitePolicy, Values]]] = {}
        for label, (policy, values) in rows_on(name).items():
            if policy.is_defined(problem):
                forms.setdefault(policy.environment(problem), {})[label] = policy, values
        for number, (environment, rows) in enumerate(forms.items()):
            info = RunInfo(environment, horizon, seeds[0])
            first: dict[str, str] = {}
            run_as: dict[str, str] = {}
            for label, (policy, values) in rows.items():
                described = canonical(_Row(policy, name, values)(info).describe())
                run_as[label] = first.setdefault(described, label)
            study = Study(
                name=f"{name}, form {number + 1}" if len(forms) > 1 else name,
                environments={name: environment},
                policies={
                    label: _Row(rows[label][0], name, rows[label][1]) for label in dict.fromkeys(run_as.values())
                },
                horizon=horizon,
                seeds=seeds,
                every=horizon,
            )
            yield _Part(name, study, run_as)


def _finished(
    parts: Sequence[_Part], into: Path, *, workers: int | None, progress: Callable[[int, int], None] | None
) -> dict[tuple[str, str], tuple[list[float], float]]:
    """Regret of every seed at the end, and seconds per round, by problem and label; runs what is missing."""
    n_rounds = [len(part.study.jobs) * part.study.horizon for part in parts]
    found = {}
    for number, part in enumerate(parts):
        done = sum(n_rounds[:number])

        def move(rounds: int, of: int, done: int = done, all_of_part: int = n_rounds[number]) -> None:
            if progress is not None:
                progress(done + all_of_part - of + rounds, sum(n_rounds))

        results: Results = run(part.study, into / _folder(part.study.name), workers=workers, progress=move)
        runs = results.environments[part.problem]
        for label, same in part.run_as.items():
            regret = [round(value, 2) for value in runs[same].final("regret").tolist()]
            found[part.problem, label] = regret, float(np.mean(runs[same].seconds_per_round))
    return found


def _folder(name: str) -> str:
    return "".join(char if char.isalnum() else "-" for char in name)


def _chosen(only: Sequence[str]) -> list[SuitePolicy]:
    known = {policy.name: policy for policy in SUITE}
    for name in only:
        if name not in known:
            names = ", ".join(map(repr, known))
            raise InvalidParameter(f"No policy of the study is named {name!r}. There are: {names}.")
    return [known[name] for name in dict.fromkeys(only or known)]


def read_constants(path: str | PathLike[str] = CONSTANTS) -> dict[str, dict[str, dict[str, float]]]:
    """Return the tuned settings of a file that `tune_policy_suite` wrote: by policy and problem."""
    try:
        constants: dict[str, dict[str, dict[str, float]]] = json.loads(Path(path).read_text("utf-8"))["constants"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InvalidParameter(f"{str(path)!r} holds no tuned settings. Write it: compare --tune.") from error
    return constants


def suite_studies(
    *,
    horizon: int = HORIZON,
    n_seeds: int = N_SEEDS,
    only: Sequence[str] = (),
    constants: Mapping[str, Mapping[str, Values]] | None = None,
) -> tuple[_Part, ...]:
    """The studies that the policy study consists of: one per problem and form.

    Parameters
    ----------
    horizon, n_seeds, only, constants
        As in `run_policy_suite`.
    """
    horizon = check_int(horizon, "The number of rounds", least=2, most=MOST_ROUNDS)
    seeds = range(check_int(n_seeds, "The number of seeds", most=MOST_RUNS))
    tuned, policies = read_constants() if constants is None else constants, _chosen(only)

    def rows_on(problem: str) -> Rows:
        rows: dict[str, tuple[SuitePolicy, Values]] = {}
        for policy in policies:
            for setting, values in _settings(policy, problem, tuned).items():
                rows[label_of(policy.name, setting)] = policy, values
        return rows

    return tuple(_parts(rows_on, horizon=horizon, seeds=seeds))


def _settings(policy: SuitePolicy, problem: str, tuned: Mapping[str, Mapping[str, Values]]) -> dict[Setting, Values]:
    found: dict[Setting, Values] = {"default": {}}
    if problem in tuned.get(policy.name, {}):
        found["tuned"] = tuned[policy.name][problem]
    if policy.theory is not None:
        found["theory"] = policy.theory
    return found


def label_of(policy: str, setting: str) -> str:
    """Label of a policy with a setting in a study.

    >>> label_of("UCB1", "tuned")
    'UCB1, tuned'
    """
    return f"{policy}, {setting}"


def run_policy_suite(
    into: str | PathLike[str],
    *,
    horizon: int = HORIZON,
    n_seeds: int = N_SEEDS,
    only: Sequence[str] = (),
    constants: Mapping[str, Mapping[str, Values]] | None = None,
    workers: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """Run the policy study, and return its numbers as plain values.

    An interrupted run continues with the same call: finished jobs are in the folder.

    Parameters
    ----------
    into
        Folder of the result folders, one per problem and form; it is created if necessary.
    horizon, n_seeds
        Rounds per run, and runs per policy, setting and problem.
    only
        Names of policies; by default all of them.
    constants
        Tuned settings by policy and problem; None: those of `read_constants()`.
    workers
        Processes; None means one per processor.
    progress
        Called with the number of finished rounds and the number of all rounds.
    """
    tuned = read_constants() if constants is None else constants
    parts = suite_studies(horizon=horizon, n_seeds=n_seeds, only=only, constants=tuned)
    found = _finished(parts, writable_folder(into), workers=workers, progress=progress)
    rows = []
    for policy in _chosen(only):
        for setting in get_args(Setting):
            label = label_of(policy.name, setting)
            places = [problem for problem in PROBLEMS if (problem, label) in found]
            if places:
                rows.append(
                    {
                        "name": policy.name,
                        "family": policy.family,
                        "setting": setting,
                        "values": {
                            problem: {name: short_text(plain_value(value)) for name, value in values.items()}
                            for problem in places
                            if (values := _settings(policy, problem, tuned)[setting])
                        },
                        "regret": {problem: found[problem, label][0] for problem in places},
                        "seconds_per_round": {problem: found[problem, label][1] for problem in places},
                    }
                )
    return {
        "horizon": parts[0].study.horizon,
        "n_seeds": len(parts[0].study.seeds),
        "confidence": CONFIDENCE,
        "versions": versions(),
        "problems": {name: problem.environment.describe() for name, problem in PROBLEMS.items()},
        "rows": rows,
    }


def tune_policy_suite(
    into: str | PathLike[str],
    *,
    horizon: int = HORIZON,
    seeds: Sequence[int] = TUNING_SEEDS,
    only: Sequence[str] = (),
    workers: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """Run every setting of every grid, and return the best of each policy on each problem: lowest mean regret.

    An interrupted run continues with the same call. The result is what `policy_constants.json` holds.

    Parameters
    ----------
    seeds
        Seeds of the runs, apart from those that the study reports.
    into, horizon, only, workers, progress
        As in `run_policy_suite`.
    """
    grids = {
        policy.name: {label_of(policy.name, canonical(values)): values for values in policy.settings()}
        for policy in _chosen(only)
        if policy.grid
    }
    rows = {label: (_policies()[name], values) for name, grid in grids.items() for label, values in grid.items()}
    parts = tuple(_parts(lambda _: rows, horizon=horizon, seeds=seeds))
    found = _finished(parts, writable_folder(into), workers=workers, progress=progress)
    constants: dict[str, dict[str, Values]] = {}
    regret: dict[str, dict[str, dict[str, float]]] = {}
    for name, grid in grids.items():
        for problem in PROBLEMS:
            means = {
                label: round(float(np.mean(found[problem, label][0])), 2) for label in grid if (problem, label) in found
            }
            if means:
                constants.setdefault(name, {})[problem] = grid[min(means, key=lambda label: means[label])]
                regret.setdefault(name, {})[problem] = {
                    ", ".join(f"{key}={value:g}" for key, value in grid[label].items()): mean
                    for label, mean in means.items()
                }
    return {"horizon": horizon, "seeds": list(seeds), "versions": versions(), "constants": constants, "regret": regret}


def write_numbers(path: Path, numbers: Mapping[str, Any]) -> None:
    """Write JSON with a list of numbers per line."""
    text = json.dumps(numbers, indent=1, ensure_ascii=False)
    text = re.sub(r"\[[\s\d.,e+-]+\]", lambda values: f"[{' '.join(values[0][1:-1].split())}]", text)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n", encoding="utf-8")
