"""Coverage of intervals: of the lift over the logging policy, and of the value of slates."""

import itertools
import re
from pathlib import Path

import numpy as np
import pytest

import kernelbandits as kb
from kernelbandits.environments import Log
from kernelbandits.evaluation import (
    IPS,
    DirectMethod,
    DoublyRobust,
    SelfNormalizedIPS,
    Switch,
    collect_log,
    mean_reward,
    true_value,
)
from kernelbandits.kernels import Gaussian


@pytest.mark.long
def test_intervals_cover_the_lift():
    """Of 300 logs, 95 % intervals; bounds at three standard errors. An error without pairing covers too often."""
    rng = np.random.default_rng(0)
    actions = rng.uniform(size=(6, 2))
    means = np.array([0.2, 0.35, 0.5, 0.4, 0.3, 0.6])
    logging = np.array([0.1, 0.15, 0.3, 0.2, 0.15, 0.1])
    policy = kb.KernelUCB(Gaussian(length_scale=0.5), regularization=0.3, exploration=0.1)
    policy.warm_start(actions, means, times=5)
    policy = kb.Softmax(policy, temperature=0.3, seed=0)
    chosen = policy.probabilities(actions)
    truth, n_rounds, n_logs = float(chosen @ means - logging @ means), 400, 300
    estimators = {
        "IPS": IPS(),
        "SNIPS": SelfNormalizedIPS(),
        "DR": DoublyRobust(DirectMethod(Gaussian(length_scale=0.1), 0.5)),
        "DM": DirectMethod(Gaussian(length_scale=0.1), 0.01),
        "Switch": Switch(DirectMethod(Gaussian(length_scale=0.1), 0.01), threshold=2.0),
    }
    covered, unpaired = dict.fromkeys(estimators, 0), dict.fromkeys(estimators, 0)

    for _ in range(n_logs):
        shown = rng.choice(6, size=n_rounds, p=logging)
        rewards = (rng.random(n_rounds) < means[shown]).astype(float)
        log = Log([actions] * n_rounds, shown, logging[shown], rewards)
        for name, estimator in estimators.items():
            found = estimator.lift(log, policy)
            covered[name] += found.low <= truth <= found.high
            wide = np.hypot(estimator.estimate(log, policy).standard_error, mean_reward(log).standard_error)
            unpaired[name] += abs(found.value - truth) <= 1.96 * wide

    margin = 3.0 * np.sqrt(0.95 * 0.05 / n_logs)
    for n_covered in covered.values():
        assert abs(n_covered / n_logs - 0.95) <= margin, (covered, unpaired)
    assert unpaired["SNIPS"] / n_logs > 0.95 + margin, unpaired


@pytest.mark.long
def test_intervals_cover_the_value_of_slates_under_a_cascade():
    """Of 200 logs of clicks, 95 % intervals. A user reads from the top and clicks once: places are not independent."""
    rng = np.random.default_rng(1)
    actions, attraction, k = rng.uniform(size=(5, 2)), np.array([0.15, 0.3, 0.5, 0.4, 0.25]), 3
    upper = kb.KernelUCB(Gaussian(length_scale=0.5), regularization=0.3, exploration=0.1)
    upper.warm_start(actions, attraction, times=5)
    target, logging = kb.Softmax(upper, temperature=0.15, seed=0), kb.UniformRandom()
    slates = list(itertools.permutations(range(5), k))
    shares = [target.slate_probabilities(actions, slate).prod() for slate in slates]
    truth = sum(
        share * (1.0 - np.prod(1.0 - attraction[list(slate)])) for share, slate in zip(shares, slates, strict=True)
    )
    estimators = {
        "IPS": IPS(),
        "whole slates": IPS(behavior="standard"),
        "SNIPS": SelfNormalizedIPS(),
        "DR": DoublyRobust(DirectMethod(Gaussian(length_scale=0.3), 0.5)),
        "independent": IPS(behavior="independent"),
    }
    covered, errors, n_logs = dict.fromkeys(estimators, 0), dict.fromkeys(estimators, 0.0), 200

    for _ in range(n_logs):
        shown = np.array([rng.permutation(5)[:k] for _ in range(1_000)])
        clicks = rng.random(shown.shape) < attraction[shown]
        rewards = clicks & (np.cumsum(clicks, axis=1) == 1)
        propensities = np.tile([1 / 5, 1 / 4, 1 / 3], (1_000, 1))
        log = Log([actions] * 1_000, shown, propensities, rewards, place_propensities=np.full(shown.shape, 1 / 5))
        for name, estimator in estimators.items():
            found = estimator.estimate(log, target)
            covered[name] += found.low <= truth <= found.high
            errors[name] += found.standard_error / n_logs

    assert logging.place_probabilities(actions, k)[0, 0] == pytest.approx(1 / 5)
    margin = 3.0 * np.sqrt(0.95 * 0.05 / n_logs)
    for name in ("IPS", "whole slates", "SNIPS", "DR"):
        assert covered[name] / n_logs >= 0.95 - margin, covered
    assert covered["independent"] / n_logs < 0.8, covered  # negative control: its assumption is wrong here
    assert errors["DR"] < errors["IPS"] < errors["whole slates"]


PAGE = " ".join((Path(__file__).parents[2] / "docs/guides/evaluating-a-log.md").read_text(encoding="utf-8").split())


@pytest.mark.long
def test_the_guide_counts_intervals_that_missed():
    """The problem of the page: its candidate, and 40 logs of 300 rounds, a fifth of them random."""
    kernel = Gaussian(length_scale=0.3)
    world = kb.environments.SyntheticRKHS(kernel, n_features=2, n_actions=10, noise="bernoulli", seed=0)
    candidate = kb.KernelUCB(kernel, regularization=0.25, exploration=0.1)
    candidate.warm_start(collect_log(world, kb.UniformRandom(seed=1), horizon=200, seed=1))
    truth = true_value(world, candidate, horizon=5_000, seed=0).value
    model = DirectMethod(kernel, 0.25)
    estimators = [SelfNormalizedIPS(), IPS(), DoublyRobust(model), Switch(model, threshold=5.0), model]
    missed = np.zeros(len(estimators), dtype=int)

    for seed in range(40):
        rule = kb.KernelUCB(kernel, regularization=0.25, exploration=0.5)
        log = collect_log(world, kb.Mixed(rule, epsilon=0.2, seed=seed), horizon=300, seed=seed)
        found = [estimator.estimate(log, candidate) for estimator in estimators]
        missed += [not one.low <= truth <= one.high for one in found]

    counts = re.search(
        r"(\d+) intervals of `SelfNormalizedIPS` missed, (\d+) of `IPS`, (\d+) of `DoublyRobust`, (\d+) of `Switch` "
        r"and (\d+) of the model",
        PAGE,
    )
    assert counts is not None
    assert missed.tolist() == [int(count) for count in counts.groups()]
