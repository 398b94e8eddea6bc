import numpy as np
import pytest
from numpy.testing import assert_allclose

import kernelbandits as kb
from kernelbandits.evaluation import IPS, Log, SelfNormalizedIPS, collect_log, mean_reward
from kernelbandits.kernels import Delta, Spectrum
from kernelbandits.policies import KernelUCB, Softmax, UniformRandom
from logs import slow_weights, string_log

LOG = string_log(80)


def make_target():
    policy = KernelUCB(Spectrum(n=2), exploration=0.5)
    policy.warm_start(["cheap flights", "quick soup"], [1.0, -0.5])
    return Softmax(policy, temperature=0.3, seed=0)


@pytest.mark.parametrize("clip", [None, 1.3])
def test_ips_is_its_definition(clip):
    weights = np.minimum(slow_weights(LOG, make_target()), clip or np.inf)

    result = IPS(clip).estimate(LOG, make_target())

    terms = [w * r for w, r in zip(weights, LOG.rewards, strict=True)]
    value = sum(terms) / len(terms)
    error = np.sqrt(sum((term - value) ** 2 for term in terms) / (len(terms) - 1) / len(terms))
    assert_allclose([result.value, result.standard_error], [value, error])
    assert_allclose([result.low, result.high], [value - 1.959964 * error, value + 1.959964 * error], rtol=1e-6)
    assert_allclose(result.effective_sample_size, sum(weights) ** 2 / sum(weights**2))
    assert result.n_rounds == result.n_matched == len(LOG)


@pytest.mark.parametrize("clip", [None, 1.3])
def test_self_normalized_ips_is_its_definition(clip):
    weights = np.minimum(slow_weights(LOG, make_target()), clip or np.inf)

    result = SelfNormalizedIPS(clip).estimate(LOG, make_target())

    value = sum(w * r for w, r in zip(weights, LOG.rewards, strict=True)) / sum(weights)
    squares = sum(w**2 * (r - value) ** 2 for w, r in zip(weights, LOG.rewards, strict=True))
    assert_allclose([result.value, result.standard_error], [value, np.sqrt(squares) / sum(weights)])


def test_ips_of_the_logging_policy_is_the_mean_reward():
    world = kb.environments.Clustered(n_actions=5)
    log = collect_log(world, UniformRandom(seed=1), horizon=200, seed=2)

    for estimator in (IPS(), SelfNormalizedIPS()):
        result = estimator.estimate(log, UniformRandom())
        assert_allclose(result.value, mean_reward(log).value)
        assert_allclose(result.effective_sample_size, 200)
        assert result.warnings == ()


def test_a_shift_of_all_rewards_shifts_the_self_normalized_value_alone():
    shifted = Log(LOG.rounds, LOG.actions, LOG.propensities, LOG.rewards + 5.0)
    estimators = (SelfNormalizedIPS(), IPS())

    gains = [one.estimate(shifted, make_target()).value - one.estimate(LOG, make_target()).value for one in estimators]

    assert_allclose(gains[0], 5.0)
    assert abs(gains[1] - 5.0) > 0.01


def test_a_policy_is_left_as_it_was():
    policy = make_target()
    before = policy.probabilities(LOG.rounds[0])

    IPS().estimate(LOG, policy)

    assert policy.round_index == 1
    assert_allclose(policy.probabilities(LOG.rounds[0]), before)


def test_a_policy_that_the_log_never_shows_has_no_self_normalized_value():
    policy = KernelUCB(Delta())
    policy.warm_start(["b"], [5.0])
    log = Log([["a", "b"]] * 10, [0] * 10, [0.5] * 10, [1.0] * 10)

    result = SelfNormalizedIPS().estimate(log, policy)

    assert np.isnan([result.value, result.standard_error, result.low, result.high]).all()
    assert result.n_matched == 0
    assert "Only 0 of 10 rounds" in result.warnings[0]
