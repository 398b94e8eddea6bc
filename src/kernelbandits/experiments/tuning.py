"""Tuning: ranks settings of policies by simulation, or on a log."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from math import isnan
from os import PathLike
from tempfile import TemporaryDirectory
from typing import Any, Final, Literal

from kernelbandits._text import encodable, html_table
from kernelbandits.environments.base import Environment
from kernelbandits.environments.logged import Log
from kernelbandits.errors import InvalidParameter
from kernelbandits.evaluation.off_policy import Estimator
from kernelbandits.experiments.policy_spec import MakePolicy, PolicySpec, PolicyVariant, all_variants
from kernelbandits.experiments.results import EndValue, Result
from kernelbandits.experiments.runner import run
from kernelbandits.experiments.study import Study, check_seeds
from kernelbandits.policies.base import Policy
from kernelbandits.validation import (
    check_float,
    check_has_methods,
    check_instance,
    check_mapping,
    check_seed,
    pluralize,
    short_repr,
)

__all__ = ["Ranking", "tune"]

ENVIRONMENT: Final = "environment"
"""Name of the one environment of a tuning study."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Ranking:
    """Settings, best first."""

    measure: str
    """Number that they are ranked by: "regret", "total_reward", or "value" on a log."""

    results: tuple[Result, ...]
    """One per setting, best first."""

    variants: Mapping[str, PolicyVariant]
    """Specification of the policy of each, by label."""

    def __repr__(self) -> str:
        settings, best = pluralize(len(self.results), "setting"), self.results[0]
        return encodable(f"Ranking({settings} by {self.measure}, best {best.policy!r}: {_interval(best)})")

    def _repr_html_(self) -> str:
        rows = ([result.rank, result.policy, _interval(result)] for result in self.results)
        return html_table(f"{pluralize(len(self.results), 'setting')}, best first", rows, ["", "policy", self.measure])

    def best(self, seed: int = 0, *, log: Log | None = None) -> Policy:
        """Build a new policy with the best setting. It has learned nothing, unless a log is passed.

        Parameters
        ----------
        seed
            Seed of the policy.
        log
            Log to learn from by `warm_start`, such as the whole log that the settings were ranked on.
        """
        policy = self.variants[self.results[0].policy].build(check_seed(seed))
        if log is not None:
            policy.warm_start(check_instance(log, Log, "The log"))
        return policy

    def to_dict(self) -> dict[str, Any]:
        """Plain values; unknown ones are None."""
        return {"measure": self.measure, "results": [result.to_dict() for result in self.results]}


def _interval(result: Result) -> str:
    final = result.final
    return f"{final.mean:.4g} ({final.low:.4g} to {final.high:.4g})"


def tune(
    candidates: PolicySpec | Mapping[str, PolicySpec | MakePolicy],
    *,
    on: Environment | Log,
    horizon: int | None = None,
    seeds: int | Sequence[int] = 10,
    by: Literal["regret", "reward"] | None = None,
    into: str | PathLike[str] | None = None,
    workers: int | None = 1,
    estimator: Estimator | None = None,
    learn_share: float = 0.5,
    progress: Callable[[int, int], None] | bool | None = None,
) -> Ranking:
    """Rank settings: in a simulated environment by regret or reward, or on a log by an estimate of their value.

    In an environment every setting runs with all seeds; under one seed all settings have the same contexts and noise.
    On a log every setting learns from the first part by `warm_start`, and the estimator evaluates it on the rest. The
    best of many settings looks better than it is: evaluate the winner on seeds, or on a log, that did not select it.
    `ranking.best()` is a new policy with the best setting, which has learned nothing; `ranking.best(log=log)` has
    learned the log.

    Parameters
    ----------
    candidates
        A policy specification with grids, or several by name.
    on
        An environment, or a log.
    horizon, seeds
        Rounds and seeds of the runs in an environment; a log needs no horizon, and its first seed is for policies that
        draw.
    by
        "regret" (lowest first) or "reward" (highest first) in an environment; None: regret if it is known.
    into
        Result folder of an environment, so that tuning can be interrupted too; None stores nothing.
    workers
        Number of processes; None: one per processor.
    estimator
        For a log: any object with `estimate(log, policy)` whose result has `value`, `low` and `high`.
    learn_share
        For a log: the share of its rounds, from the first on, to learn from.
    progress
        As in `run`.

    Examples
    --------
    >>> import kernelbandits as kb
    >>> from kernelbandits.experiments import Grid, PolicySpec, tune
    >>> kernel = kb.kernels.Gaussian(length_scale=0.3)
    >>> world = kb.environments.SyntheticRKHS(kernel, n_actions=5, n_features=1)
    >>> ranking = tune(PolicySpec(kb.KernelUCB, kernel, exploration=Grid(0.05, 50.0)), on=world, horizon=60, seeds=3)
    >>> [result.parameters["exploration"] for result in ranking.results]
    [0.05, 50.0]
    """
    if isinstance(candidates, Policy):
        raise InvalidParameter(
            f"Tuning builds new policies from a specification, got a policy, {short_repr(candidates)}. Name its class: "
            f"PolicySpec({type(candidates).__name__}, …, regularization=Grid(0.1, 1.0))."
        )
    if isinstance(candidates, PolicySpec):
        candidates = {getattr(candidates.make, "__name__", "policy"): candidates}
    if isinstance(on, Log):
        if by is not None or into is not None or horizon is not None:
            raise InvalidParameter(
                "On a log settings are ranked by their value over all its rounds, and no file is written. Leave out "
                "`by`, `into` and `horizon`; a part of a log is log[:500]."
            )
        return _tune_on_log(candidates, on, estimator, learn_share, seeds)
    if estimator is not None:
        raise InvalidParameter(
            "An estimator evaluates policies on a log; an environment gives their reward itself. Leave it out."
        )
    if horizon is None:
        raise InvalidParameter("Tuning in an environment needs the number of rounds: horizon=500.")
    if not isinstance(by, str | None) or by not in (None, "regret", "reward"):
        raise InvalidParameter(f"Settings are ranked by 'regret' or by 'reward', got {by!r}.")
    study = Study(
        name="tuning",
        environments={ENVIRONMENT: on},
        policies=candidates,
        horizon=horizon,
        seeds=seeds,  # type: ignore[arg-type]  # a number of seeds
        every=horizon,
    )
    with TemporaryDirectory() if into is None else nullcontext(into) as folder:
        results = run(study, folder, workers=workers, progress=progress).summary()
    is_known = not any(isnan(result.regret.mean) for result in results)
    if by == "regret" and not is_known:
        raise InvalidParameter(
            "This environment does not know its expected rewards, so there is no regret. Take by='reward'."
        )
    measure = "regret" if by == "regret" or (by is None and is_known) else "total_reward"
    return _ranking(study.variants, [replace(result, measure=measure) for result in results])


def _ranking(variants: Sequence[PolicyVariant], results: Sequence[Result]) -> Ranking:
    measure = results[0].measure
    sign = 1.0 if measure == "regret" else -1.0
    order = sorted(results, key=lambda result: (isnan(result.final.mean), sign * result.final.mean))
    ranked = tuple(replace(result, rank=rank) for rank, result in enumerate(order, start=1))
    return Ranking(measure=measure, results=ranked, variants={variant.label: variant for variant in variants})


def _tune_on_log(
    candidates: Mapping[str, PolicySpec | MakePolicy],
    log: Log,
    estimator: Estimator | None,
    learn_share: float,
    seeds: int | Sequence[int],
) -> Ranking:
    if estimator is None:
        raise InvalidParameter("Tuning on a log needs an estimator: an object with estimate(log, policy).")
    check_has_methods(estimator, "The estimator", "estimate", hint="SelfNormalizedIPS() is one.")
    check_mapping(candidates, "Candidates", "Or give one: PolicySpec(KernelUCB, kernel, exploration=Grid(0.1, 1.0)).")
    share = check_float(learn_share, "The share to learn from")
    if not 0.0 < share < 1.0:
        raise InvalidParameter(f"The share to learn from lies strictly between 0 and 1, got {learn_share!r}.")
    n_learned = int(share * len(log))
    if not 0 < n_learned < len(log):
        raise InvalidParameter(
            f"A log is split into a part to learn from and a part to evaluate on, got {pluralize(len(log), 'round')} "
            f"and learn_share={learn_share!r}."
        )
    variants, seed = all_variants(candidates), check_seeds(seeds)[0]
    results = []
    for variant in variants:
        policy = variant.build(seed)
        policy.warm_start(log[:n_learned])
        estimate = estimator.estimate(log[n_learned:], policy)
        value = EndValue(mean=float(estimate.value), low=float(estimate.low), high=float(estimate.high))
        results.append(
            Result(
                policy=variant.label,
                parameters=variant.parameters,
                n_rounds=len(log) - n_learned,
                measure="value",
                value=value,
            )
        )
    return _ranking(variants, results)
