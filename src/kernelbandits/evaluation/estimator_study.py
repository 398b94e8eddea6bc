"""Comparison of off-policy estimators where the true value is known."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from kernelbandits.environments.base import Environment
from kernelbandits.errors import InvalidParameter
from kernelbandits.evaluation import Estimate, Estimator, collect_log, share_interval, true_value
from kernelbandits.evaluation._inputs import check_environment, check_policy
from kernelbandits.policies.base import Policy
from kernelbandits.types import Vector
from kernelbandits.validation import check_callable, check_has_methods, check_int, check_mapping, check_seed

__all__ = ["estimator_study"]


def estimator_study(
    environment: Environment,
    estimators: Mapping[str, Estimator],
    *,
    log_with: Callable[[int], Policy],
    target: Policy,
    horizon: int,
    n_logs: int,
    truth_horizon: int | None = None,
    seed: int = 0,
) -> list[dict[str, Any]]:
    """Return bias, error and coverage of each estimator over many simulated logs.

    For every log, a new run of the environment is simulated with a new logging policy. Each estimator evaluates the
    target; the truth is the target's value in the same run over more rounds.

    Parameters
    ----------
    environment
        An environment that knows its expected rewards; its reward function may differ between runs.
    estimators
        Estimators by name.
    log_with
        Function that creates the logging policy of a log from its seed.
    target
        The policy to evaluate; it does not learn.
    horizon
        Number of rounds of a log.
    n_logs
        Number of logs; their seeds are seed, seed + 1, ….
    truth_horizon
        Number of rounds over which the truth is averaged; None: ten times the horizon.
    seed
        Seed of the first log.

    Returns
    -------
    list of dict
        One row per estimator: `estimator`, `n_logs`, `bias` (mean of value − truth) with its standard error
        `bias_error`, `rmse` (root mean squared error), `standard_error` (mean of the reported ones), `coverage`
        (fraction of intervals that contain the truth) with its exact 95 % interval `coverage_low` and `coverage_high`,
        and `n_unknown` (logs that gave no value or no interval; all other columns exclude them).

    Examples
    --------
    >>> import kernelbandits as kb
    >>> from kernelbandits.evaluation import IPS
    >>> world = kb.environments.Clustered(n_actions=3)
    >>> rows = estimator_study(world, {"IPS": IPS()}, log_with=lambda seed: kb.UniformRandom(seed=seed),
    ...                        target=kb.UniformRandom(), horizon=50, n_logs=3)
    >>> rows[0]["estimator"], rows[0]["n_logs"]
    ('IPS', 3)
    """
    n_logs, horizon = check_int(n_logs, "The number of logs"), check_int(horizon, "The horizon")
    check_environment(environment)
    check_policy(target, "probabilities_many", name="The target")
    check_callable(log_with, "What makes a logging policy", "lambda seed: UniformRandom(seed=seed) is one.")
    for name, estimator in check_mapping(estimators, "The estimators").items():
        check_has_methods(estimator, f"The estimator {name!r}", "estimate", hint="IPS() is one.")
    if not estimators:
        raise InvalidParameter("A study of estimators needs at least one of them.")
    rounds = 10 * horizon if truth_horizon is None else check_int(truth_horizon, "The rounds of the truth")
    first = check_seed(seed)
    estimates: dict[str, list[Estimate]] = {name: [] for name in estimators}
    truths = []
    for run in range(first, first + n_logs):
        log = collect_log(environment, log_with(run), horizon=horizon, seed=run)
        truths.append(true_value(environment, target, horizon=rounds, seed=run).value)
        for name, estimator in estimators.items():
            estimates[name].append(estimator.estimate(log, target))
    return [_row(name, found, truths) for name, found in estimates.items()]


def _row(name: str, estimates: list[Estimate], truths: list[float]) -> dict[str, Any]:
    columns = [
        (one.value, one.standard_error, one.low, one.high, truth) for one, truth in zip(estimates, truths, strict=True)
    ]
    table = np.array(columns)
    known = table[np.isfinite(table).all(axis=1)]
    value, standard_error, low, high, truth = known.T
    errors, n_held = value - truth, int(np.count_nonzero((low <= truth) & (truth <= high)))
    n_known = len(known)
    held_low, held_high = share_interval(n_held, n_known) if n_known else (0.0, 1.0)
    return {
        "estimator": name,
        "n_logs": len(estimates),
        "n_unknown": len(estimates) - n_known,
        "bias": _mean(errors),
        "bias_error": float(errors.std(ddof=1) / np.sqrt(n_known)) if n_known > 1 else np.nan,
        "rmse": float(np.sqrt(_mean(errors**2))),
        "standard_error": _mean(standard_error),
        "coverage": n_held / n_known if n_known else np.nan,
        "coverage_low": held_low,
        "coverage_high": held_high,
    }


def _mean(values: Vector) -> float:
    return float(values.mean()) if len(values) else np.nan
