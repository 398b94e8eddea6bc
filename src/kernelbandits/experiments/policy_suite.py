"""The policy suite: every policy of the library on three problems with fixed actions, as a study."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import sqrt
from os import PathLike
from pathlib import Path
from typing import Final

import numpy as np

from kernelbandits import policies as p
from kernelbandits._files import writable_folder
from kernelbandits._optional import import_optional
from kernelbandits.environments import Clustered, DrawnRounds, Environment, Round, SyntheticRKHS
from kernelbandits.errors import InvalidParameter
from kernelbandits.experiments.policy_spec import RunInfo
from kernelbandits.experiments.reports.report import Report, ReportContent, write_report
from kernelbandits.experiments.runner import run
from kernelbandits.experiments.study import Study
from kernelbandits.kernels import Gaussian, Linear, median_length_scale
from kernelbandits.policies.experts import Expert, constant_experts, linear_experts
from kernelbandits.posterior import posterior_factory
from kernelbandits.theory import Mixture
from kernelbandits.types import Parameters, Vector
from kernelbandits.validation import MOST_ROUNDS, MOST_RUNS, check_int

__all__ = [
    "HORIZON",
    "N_SEEDS",
    "PROBLEMS",
    "SUITE",
    "InUnitBall",
    "SuitePolicy",
    "insert_table",
    "run_policy_suite",
    "suite_study",
    "table_place",
]

HORIZON: Final = 1_000
"""Rounds of a run, by default."""

N_SEEDS: Final = 20
"""Runs of each policy on each problem, by default."""
N_ACTIONS: Final = 100

TITLE: Final = "Every policy on three problems"
INTRODUCTION: Final = (
    f"Three problems with {N_ACTIONS} fixed actions in the unit ball and rewards of 0 and 1. Linear: the probability "
    "of a reward is linear in five features. Smooth: a function with a few maxima over a square. Clustered: five tight "
    'groups of actions with equal rewards. "Theory" in a name means the constants of the proof; other parameters were '
    "the best of a small grid on other seeds."
)


@dataclass(frozen=True)
class InUnitBall:
    """An environment with contexts in the unit cube, scaled into the unit ball, which many proofs assume."""

    environment: Environment
    n_features: int

    @property
    def reward_range(self) -> tuple[float, float] | None:
        """That of the inner environment."""
        return self.environment.reward_range

    def start(self, rng: np.random.Generator) -> DrawnRounds:
        """Start a run."""
        return DrawnRounds(self._rounds(rng))

    def _rounds(self, rng: np.random.Generator) -> Iterator[tuple[Round, Vector]]:
        world = self.environment.start(rng)
        while True:
            shown = world.observe()
            contexts = np.clip(shown.contexts, 0.0, 1.0) / sqrt(self.n_features)
            yield (
                Round(contexts, expected=shown.expected),
                np.array([world.reward(row) for row in range(len(contexts))]),
            )

    def describe(self) -> Parameters:
        """Class and parameters."""
        return {"class": type(self).__name__, "environment": self.environment.describe()}


_RKHS: Final = partial(SyntheticRKHS, n_actions=N_ACTIONS, fixed_actions=True, noise="bernoulli")

PROBLEMS: Final[Mapping[str, Environment]] = {
    "linear": InUnitBall(_RKHS(Linear(), n_features=5), 5),
    "smooth": InUnitBall(_RKHS(Gaussian(length_scale=0.2), n_features=2, n_centers=5), 2),
    "clustered": InUnitBall(Clustered(n_actions=N_ACTIONS, n_features=2, n_clusters=5, fixed_actions=True), 2),
}
"""Environments with fixed actions, so that policies of every family can run in them."""

NOISE_VARIANCE: Final = 0.25
"""Largest variance of rewards of 0 and 1; the regularization of kernel policies."""


@dataclass(frozen=True, eq=False)
class SuitePolicy:
    """A policy of the suite: its name in tables, its family, and a function that builds it for a run."""

    name: str
    family: str
    make: Callable[[RunInfo], p.Policy]

    def __call__(self, run: RunInfo) -> p.Policy:
        return self.make(run)

    def __reduce__(self) -> tuple[Callable[[str], SuitePolicy], tuple[str]]:
        return _by_name, (self.name,)  # worker processes look it up, since lambdas cannot be pickled


def _by_name(name: str) -> SuitePolicy:
    return next(policy for policy in SUITE if policy.name == name)


def _kernel(run: RunInfo) -> Gaussian:
    """A Gaussian kernel whose length scale is half the median distance between two actions, on every problem."""
    return Gaussian(length_scale=0.5 * median_length_scale(run.contexts, seed=0))


def _experts(run: RunInfo) -> Sequence[Expert]:
    """Every action as a constant expert, and random linear rules, some of which are good on the linear problem."""
    n_actions, n_features = run.contexts.shape
    return [*constant_experts(n_actions), *linear_experts(n_features, n_experts=20, seed=run.seed)]


def _kernel_ucb(run: RunInfo, exploration: float = 0.7) -> p.KernelUCB:
    return p.KernelUCB(_kernel(run), regularization=NOISE_VARIANCE, exploration=exploration)


# "Theory" in a name: the constants of the proof. The factors of the others were the best of a small grid, by the mean
# fraction of random regret over the three problems, on seeds 100 to 103, which the study does not use (unless asked for
# more than 100 seeds).
SUITE: Final = (
    SuitePolicy("KernelUCB", "kernel", _kernel_ucb),
    SuitePolicy(
        "KernelUCB, theory",
        "kernel",
        lambda run: p.KernelUCB(
            _kernel(run),
            regularization=NOISE_VARIANCE,
            exploration=Mixture(noise_scale=0.5, norm_bound=1.0, failure_probability=0.1),
        ),
    ),
    SuitePolicy(
        "KernelUCB, window of 300",
        "kernel",
        lambda run: p.KernelUCB(
            _kernel(run),
            regularization=NOISE_VARIANCE,
            exploration=0.7,
            posterior=posterior_factory("windowed", length=300),
        ),
    ),
    SuitePolicy(
        "SupKernelUCB",
        "kernel",
        lambda run: p.SupKernelUCB(
            _kernel(run),
            regularization=NOISE_VARIANCE,
            horizon=run.horizon,
            n_actions=len(run.contexts),
            exploration=0.2,
        ),
    ),
    SuitePolicy(
        "SupKernelUCB, theory",
        "kernel",
        lambda run: p.SupKernelUCB(
            _kernel(run),
            regularization=NOISE_VARIANCE,
            horizon=run.horizon,
            n_actions=len(run.contexts),
            norm_bound=1.0,
        ),
    ),
    SuitePolicy(
        "PhasedElimination",
        "kernel",
        lambda run: p.PhasedElimination(
            _kernel(run), run.contexts, regularization=NOISE_VARIANCE, horizon=run.horizon, exploration=0.2
        ),
    ),
    SuitePolicy(
        "GPUCB, theory",
        "Gaussian process",
        lambda run: p.GPUCB(_kernel(run), noise_variance=NOISE_VARIANCE, failure_probability=0.1),
    ),
    SuitePolicy(
        "KernelThompson",
        "Gaussian process",
        lambda run: p.KernelThompson(_kernel(run), regularization=NOISE_VARIANCE, exploration=0.25, seed=run.seed),
    ),
    SuitePolicy("GridGP", "Gaussian process", lambda run: p.GridGP(Linear(), run.contexts, horizon=run.horizon)),
    SuitePolicy(
        "KernelSquareCB",
        "randomized",
        lambda run: p.KernelSquareCB(
            _kernel(run), regularization=NOISE_VARIANCE, gap_weight=p.GrowingGapWeight(scale=16.0), seed=run.seed
        ),
    ),
    SuitePolicy(
        "Softmax of KernelUCB",
        "randomized",
        lambda run: p.Softmax(_kernel_ucb(run, 0.3), temperature=0.02, seed=run.seed),
    ),
    SuitePolicy(
        "Mixed KernelUCB, 5 %", "randomized", lambda run: p.Mixed(_kernel_ucb(run), epsilon=0.05, seed=run.seed)
    ),
    SuitePolicy("Guarded KernelUCB", "randomized", lambda run: p.Guarded(_kernel_ucb(run), baseline=0)),
    SuitePolicy("LinUCB", "linear", lambda _: p.LinUCB(exploration=0.4)),
    SuitePolicy("OFUL, theory", "linear", lambda _: p.OFUL(noise_scale=0.5, norm_bound=1.0)),
    SuitePolicy(
        "SupLinUCB",
        "linear",
        lambda run: p.SupLinUCB(horizon=run.horizon, n_actions=len(run.contexts), exploration=0.1),
    ),
    SuitePolicy(
        "SupLinRel",
        "linear",
        lambda run: p.SupLinRel(horizon=run.horizon, n_actions=len(run.contexts), exploration=0.2),
    ),
    SuitePolicy("ConfidenceBall", "linear", lambda run: p.ConfidenceBall(run.contexts, exploration=0.01)),
    SuitePolicy("UncertaintyEllipsoid", "linear", lambda run: p.UncertaintyEllipsoid(run.contexts, exploration=0.05)),
    SuitePolicy("PEGE", "linear", lambda run: p.PEGE(run.contexts)),
    SuitePolicy("UCB1", "index", lambda _: p.UCB1(exploration=0.05)),
    SuitePolicy("UCB1, theory", "index", lambda _: p.UCB1()),
    SuitePolicy("KLUCB", "index", lambda _: p.KLUCB(log_log_factor=0.0)),
    SuitePolicy(
        "ContextualZooming",
        "metric",
        lambda run: p.ContextualZooming(_kernel(run), horizon=run.horizon, norm_bound=1.0, exploration=0.02),
    ),
    SuitePolicy(
        "EXP4",
        "experts",
        lambda run: p.EXP4(_experts(run), horizon=run.horizon, uniform_factor=0.3, learning_factor=30.0, seed=run.seed),
    ),
    SuitePolicy(
        "EXP4P",
        "experts",
        lambda run: p.EXP4P(
            _experts(run), horizon=run.horizon, uniform_factor=0.3, learning_factor=100.0, seed=run.seed
        ),
    ),
    SuitePolicy(
        "VE",
        "experts",
        lambda run: p.VE(
            _experts(run),
            horizon=run.horizon,
            vc_dimension=2,
            uniform_rounds=max(1, run.horizon // 20),
            uniform_factor=0.3,
            learning_factor=100.0,
            seed=run.seed,
        ),
    ),
    SuitePolicy(
        "EpochGreedy",
        "experts",
        lambda run: p.EpochGreedy(
            _experts(run), n_actions=len(run.contexts), horizon=run.horizon, uniform_factor=0.1, seed=run.seed
        ),
    ),
    SuitePolicy(
        "KernelEpochGreedy",
        "experts",
        lambda run: p.KernelEpochGreedy(
            _kernel(run),
            n_actions=len(run.contexts),
            regularization=NOISE_VARIANCE,
            horizon=run.horizon,
            uniform_factor=0.1,
            seed=run.seed,
        ),
    ),
    SuitePolicy(
        "PACBayes",
        "experts",
        lambda run: p.PACBayes(
            run.contexts[:1], n_actions=len(run.contexts), uniform_factor=0.3, learning_factor=30.0, seed=run.seed
        ),
    ),
    SuitePolicy(
        "PolicyElimination",
        "experts",
        lambda run: p.PolicyElimination(_experts(run), n_actions=len(run.contexts), exploration=0.05, seed=run.seed),
    ),
    SuitePolicy(
        "RandomizedUCB, theory",
        "experts",
        lambda run: p.RandomizedUCB(_experts(run), n_actions=len(run.contexts), seed=run.seed),
    ),
    SuitePolicy(
        "ILOVETOCONBANDITS",
        "experts",
        lambda run: p.ILOVETOCONBANDITS(_experts(run), n_actions=len(run.contexts), regret_factor=0.1, seed=run.seed),
    ),
    SuitePolicy("Random", "baseline", lambda run: p.UniformRandom(seed=run.seed)),
)
"""Policies of the suite, by family."""


def suite_study(*, horizon: int = HORIZON, n_seeds: int = N_SEEDS, only: Sequence[str] = ()) -> Study:
    """Every policy of the suite, or those named, on the three problems."""
    horizon = check_int(horizon, "The number of rounds", least=2, most=MOST_ROUNDS)
    n_seeds = check_int(n_seeds, "The number of seeds", most=MOST_RUNS)
    known = {policy.name: policy for policy in SUITE}
    unknown = [name for name in only if name not in known]
    if unknown:
        names = ", ".join(map(repr, known))
        raise InvalidParameter(f"No policy of the suite is named {unknown[0]!r}. There are: {names}.")
    return Study(
        name="policies",
        environments=PROBLEMS,
        policies={name: known[name] for name in dict.fromkeys(only or known)},
        horizon=horizon,
        seeds=range(n_seeds),
        every=max(1, horizon // 50),
    )


def run_policy_suite(
    into: str | PathLike[str],
    *,
    horizon: int = HORIZON,
    n_seeds: int = N_SEEDS,
    only: Sequence[str] = (),
    workers: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Report:
    """Run the suite and write its report and the result folder `results/` into a folder.

    Parameters
    ----------
    into
        The folder; it is created if necessary.
    horizon, n_seeds
        Rounds per run, and runs per policy and problem.
    only
        Names of policies; by default all of them.
    workers
        Processes; None means one per processor.
    progress
        Called with the number of finished rounds and the number of all rounds.
    """
    import_optional("matplotlib", "This part of experiments")
    study = suite_study(horizon=horizon, n_seeds=n_seeds, only=only)
    folder = writable_folder(into)  # fails before the study is run
    run(study, folder / "results", workers=workers, progress=progress)
    groups = {name: _by_name(name).family for name in study.policies}
    content = ReportContent(title=TITLE, introduction=INTRODUCTION, groups=groups, sections=("Regret", "Time"))
    return write_report(folder / "results", folder, formats=("png",), content=content)


def insert_table(page: Path, table: str) -> None:
    """Replace what is between the two marks of a page, `<!-- table … -->` and `<!-- end of table -->`."""
    before, after = table_place(page)
    page.write_text(f"{before}\n{table}\n{after}", encoding="utf-8")


def table_place(page: Path) -> tuple[str, str]:
    """Text of a page before and after the place of its table, including the marks."""
    try:
        text = page.read_text(encoding="utf-8")
    except OSError as error:
        raise InvalidParameter(f"The page {str(page)!r} cannot be read: {error.strerror}. Name another.") from error
    place = re.search(r"(?s)(<!-- table.*?-->\n).*?(<!-- end of table -->)", text)
    if place is None:
        raise InvalidParameter(
            f"The page {str(page)!r} has no place for a table. Add <!-- table --> and <!-- end of table -->."
        )
    return text[: place.end(1)], text[place.start(2) :]
