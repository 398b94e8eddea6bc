"""Lift over the logging policy: a paired difference, whose error knows that both values share their rewards."""

import numpy as np
import pytest

import kernelbandits as kb
from kernelbandits.environments import Log
from kernelbandits.errors import InvalidParameter
from kernelbandits.evaluation import (
    IPS,
    DirectMethod,
    DoublyRobust,
    Replay,
    SelfNormalizedIPS,
    Switch,
    collect_log,
    compare_on_log,
    mean_reward,
)
from kernelbandits.kernels import Delta, Gaussian
from logs import WORDS, slow_weights, string_log


def target():
    policy = kb.KernelUCB(kb.kernels.Spectrum(n=2), regularization=0.5, exploration=0.3)
    policy.warm_start(WORDS, np.linspace(0.0, 1.0, len(WORDS)))
    return kb.Softmax(policy, temperature=0.4, seed=0)


def model(**options):
    return DirectMethod(kb.kernels.Spectrum(n=2), 0.5, **options)


@pytest.mark.parametrize("clip", [None, 1.3])
def test_terms_are_paired_round_by_round(clip):
    log = string_log(200)
    weights = slow_weights(log, target())
    weights = weights if clip is None else np.minimum(weights, clip)
    value = weights @ log.rewards / weights.sum()
    expected = {
        IPS(clip): weights * log.rewards,
        SelfNormalizedIPS(clip): value + weights * (log.rewards - value) / weights.mean(),
    }

    for estimator, terms in expected.items():
        found, difference = estimator.lift(log, target()), terms - log.rewards
        assert found.value == pytest.approx(difference.mean())
        assert found.value == pytest.approx(estimator.estimate(log, target()).value - mean_reward(log).value)
        assert found.standard_error == pytest.approx(difference.std(ddof=1) / np.sqrt(200))
        assert (found.low + found.high) / 2 == pytest.approx(found.value)
        assert found.warnings == estimator.estimate(log, target()).warnings
        assert found.n_rounds == 200


def test_a_doubly_robust_lift_is_paired_too():
    log = string_log(120)
    estimator = DoublyRobust(model(), folds=3)
    terms = estimator._judge(log, target()).terms

    found = estimator.lift(log, target())

    assert found.value == pytest.approx(np.mean(terms - log.rewards))
    assert found.standard_error == pytest.approx(np.std(terms - log.rewards, ddof=1) / np.sqrt(120))


@pytest.mark.parametrize("threshold", [None, 0.0, 1.2])
def test_the_error_of_a_model_is_that_of_its_coefficients(threshold):
    """The slow way: the value and the mean reward are linear in the rewards, so perturb each reward in turn."""
    log = string_log(40)
    estimator = model(noise_variance=0.8) if threshold is None else Switch(
        model(noise_variance=0.8), threshold=threshold, folds=2
    )  # fmt: skip

    def value(rewards):
        return estimator.estimate(Log(log.rounds, log.actions, log.propensities, rewards), target()).value

    base = value(np.zeros(40))
    coefficients = np.array([value(row) - base for row in np.eye(40)])
    judged = estimator._judge(log, target())
    terms = judged.terms - log.rewards
    between = terms.var(ddof=1) / 40
    covariance = 0.8 * coefficients.sum() / 40

    found = estimator.lift(log, target())

    assert judged.model_covariance == pytest.approx(covariance)
    assert found.value == pytest.approx(value(log.rewards) - log.rewards.mean())
    assert found.standard_error**2 == pytest.approx(between + judged.model_variance - 2.0 * covariance)
    assert found.standard_error**2 < between + judged.model_variance  # negative control: the covariance is not 0


def test_a_policy_near_the_logging_policy_has_a_lift_that_is_nearly_known():
    """The unpaired error would be five times as long and more."""
    world = kb.environments.Clustered(n_actions=5)
    log = collect_log(world, kb.UniformRandom(seed=0), horizon=400, seed=0)
    near = kb.Mixed(kb.KernelUCB(Gaussian(length_scale=0.4)), epsilon=0.95, seed=0)

    for estimator in (IPS(), SelfNormalizedIPS()):
        found, unpaired = estimator.lift(log, near), estimator.estimate(log, near).standard_error
        assert found.standard_error < 0.2 * np.hypot(unpaired, mean_reward(log).standard_error)
        assert estimator.lift(log, kb.UniformRandom()).value == pytest.approx(0.0, abs=1e-12)
        assert estimator.lift(log, kb.UniformRandom()).standard_error == pytest.approx(0.0, abs=1e-12)


def test_what_nothing_is_known_about_has_no_lift():
    log = Log([["a", "b"]] * 4, [0, 0, 0, 1], [0.5] * 4, [1.0, 0.0, 1.0, 0.5])
    only_a = kb.KernelUCB(Delta())
    only_a.warm_start(["b"], [-5.0], times=50)
    other = log[:3]
    only_b = kb.KernelUCB(Delta())
    only_b.warm_start(["a"], [-5.0], times=50)

    assert np.isnan(SelfNormalizedIPS().lift(other, only_b).value)
    assert np.isnan(SelfNormalizedIPS().lift(other, only_b).standard_error)
    assert SelfNormalizedIPS().lift(log, only_a).value == pytest.approx(2 / 3 - 0.625)


class TestOneActionPerRound:
    """One row per impression: every policy agrees with it, and every estimate would be the mean reward."""

    LOG = Log([[word] for word in WORDS], [0] * len(WORDS), [0.5] * len(WORDS), np.ones(len(WORDS)))

    @pytest.mark.parametrize(
        "estimator", [IPS(), SelfNormalizedIPS(), model(), DoublyRobust(model()), Switch(model(), 2.0), Replay()]
    )
    def test_estimators_reject_the_log(self, estimator):
        policy = kb.KernelUCB(kb.kernels.Spectrum(n=2))

        with pytest.raises(InvalidParameter, match=r"has one action.*log_from_frame\(…, candidates=…\)"):
            estimator.estimate(self.LOG, policy)
        if not isinstance(estimator, Replay):
            with pytest.raises(InvalidParameter, match="has one action"):
                estimator.lift(self.LOG, policy)

    def test_so_does_a_comparison(self):
        with pytest.raises(InvalidParameter, match="has one action"):
            compare_on_log(
                self.LOG, kb.UniformRandom(), kb.UniformRandom(), smallest_propensity=0.5, reward_range=(0, 1)
            )

    def test_its_mean_reward_and_what_it_teaches_are_known(self):
        policy = kb.KernelUCB(kb.kernels.Spectrum(n=2))
        policy.warm_start(self.LOG)

        assert mean_reward(self.LOG).value == 1.0
        assert policy.posterior.n_observations == len(WORDS)
        trace = kb.simulate(kb.environments.Logged(self.LOG), policy, horizon=3)
        assert trace.reward.tolist() == [1.0, 1.0, 1.0]

    def test_a_round_of_one_action_is_allowed_among_others(self):
        mixed = Log([*self.LOG.rounds, ["a", "b"]], [0] * 8, [0.5] * 8, np.ones(8))

        assert IPS().estimate(mixed, kb.UniformRandom()).n_rounds == 8
