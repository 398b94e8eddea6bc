import numpy as np
import pytest

from kernelbandits.environments import SyntheticRKHS
from kernelbandits.errors import InvalidParameter
from kernelbandits.evaluation import IPS, DirectMethod, DoublyRobust, SelfNormalizedIPS, Switch, collect_log, true_value
from kernelbandits.evaluation.estimator_study import estimator_study
from kernelbandits.kernels import Gaussian
from kernelbandits.policies import KernelUCB, Mixed, Softmax, UniformRandom

KERNEL = Gaussian(length_scale=0.3)
WORLD = SyntheticRKHS(KERNEL, n_actions=5, n_features=2, noise="bernoulli", seed=1, fixed_actions=True)
MODEL = DirectMethod(KERNEL, 0.5)
ESTIMATORS = {
    "IPS": IPS(),
    "self-normalized": SelfNormalizedIPS(),
    "direct": MODEL,
    "doubly robust": DoublyRobust(MODEL),
    "switch": Switch(MODEL, 5.0),
}


class Wrong(IPS):
    """Makes every weight too small."""

    def _value(self, weights, rewards):
        return super()._value([0.7 * own for own in weights], rewards)


def make_target():
    policy = KernelUCB(KERNEL, exploration=0.0)
    log = collect_log(WORLD, UniformRandom(seed=99), horizon=60, seed=99)
    policy.warm_start(np.array([rows[a] for rows, a in zip(log.rounds, log.actions, strict=True)]), log.rewards)
    return Softmax(policy, temperature=0.2, seed=0)


def make_study(estimators, *, horizon, n_logs):
    def log_with(seed):
        return Mixed(KernelUCB(KERNEL, exploration=0.2), epsilon=0.6, seed=seed)

    rows = estimator_study(
        WORLD,
        estimators,
        log_with=log_with,
        target=make_target(),
        horizon=horizon,
        n_logs=n_logs,
        truth_horizon=horizon,
    )
    return {row["estimator"]: row for row in rows}


def assert_fair(row):
    assert row["n_unknown"] == 0
    assert abs(row["bias"]) <= 4 * row["bias_error"]
    assert row["coverage_low"] <= 0.95 <= row["coverage_high"] + 0.03


def test_fair_estimators_are_fair_and_a_wrong_one_is_caught():
    rows = make_study({**ESTIMATORS, "wrong": Wrong()}, horizon=60, n_logs=16)

    for name in ("IPS", "self-normalized", "doubly robust"):
        assert_fair(rows[name])
    assert rows["doubly robust"]["rmse"] < rows["IPS"]["rmse"]
    with pytest.raises(AssertionError):
        assert_fair(rows["wrong"])


@pytest.mark.long
def test_fair_estimators_are_fair_over_many_logs():
    rows = make_study(ESTIMATORS, horizon=300, n_logs=200)

    for name in ("IPS", "self-normalized", "doubly robust"):
        assert_fair(rows[name])
    assert rows["doubly robust"]["rmse"] < rows["self-normalized"]["rmse"] < rows["IPS"]["rmse"]


def test_a_row_is_what_its_name_says():
    target, (row,) = (
        make_target(),
        estimator_study(
            WORLD,
            {"IPS": IPS()},
            log_with=lambda seed: UniformRandom(seed=seed),
            target=make_target(),
            horizon=30,
            n_logs=4,
        ),
    )

    logs = [collect_log(WORLD, UniformRandom(seed=seed), horizon=30, seed=seed) for seed in range(4)]
    truths = np.array([true_value(WORLD, target, horizon=300, seed=seed).value for seed in range(4)])
    result = [IPS().estimate(log, target) for log in logs]
    errors = np.array([one.value for one in result]) - truths
    assert row["bias"] == pytest.approx(errors.mean())
    assert row["rmse"] == pytest.approx(np.sqrt((errors**2).mean()))
    assert row["coverage"] == np.mean([one.low <= t <= one.high for one, t in zip(result, truths, strict=True)])


def test_a_study_of_nothing_is_rejected():
    with pytest.raises(InvalidParameter, match="at least one"):
        estimator_study(WORLD, {}, log_with=lambda _: UniformRandom(), target=UniformRandom(), horizon=5, n_logs=2)
