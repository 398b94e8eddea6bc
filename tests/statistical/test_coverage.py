"""Oracle 20: confidence intervals hold for all actions and rounds at once, with the probability they claim."""

import numpy as np
import pytest
from scipy.stats import binom

import kernelbandits as kb
from kernelbandits.environments import SyntheticRKHS
from kernelbandits.kernels import Gaussian
from kernelbandits.theory import exploration as schedules

KERNEL, FAILURE = Gaussian(length_scale=0.3), 0.1


def share_of_failures(exploration, *, n_runs, horizon, gamma, noise_scale, norm, shrink=1.0, delay=0):
    """In how many runs an interval fails anywhere; contexts are chosen by the policy itself, hence adaptively."""
    environment = SyntheticRKHS(
        KERNEL, n_actions=12, n_features=1, norm=norm, fixed_actions=True, noise="gaussian", noise_scale=noise_scale
    )
    failures = 0
    for run in range(n_runs):
        world = environment.start(np.random.default_rng(run))
        policy = kb.KernelUCB(KERNEL, regularization=gamma, exploration=exploration)
        awaited, failed = [], False
        for _ in range(horizon):
            shown = world.observe()
            decision = policy.choose(shown.contexts)
            eta = (decision.score - decision.mean) / decision.width
            prediction = policy.posterior.predict(
                shown.contexts, pending=np.array([waiting.context for waiting, _ in awaited]) if awaited else None
            )
            failed |= bool((np.abs(prediction.mean - shown.expected) > shrink * eta * prediction.width).any())
            awaited.append((decision, world.reward(decision.action)))
            if delay:
                policy.expect(decision)
            if len(awaited) > delay:
                policy.learn(*awaited.pop(0))
        failures += failed
    return failures


def at_most(n_runs, failure_probability):
    """More failures than this happen once in ten thousand if the claim is true."""
    return binom.ppf(1 - 1e-4, n_runs, failure_probability)


@pytest.mark.parametrize("schedule", [schedules.Mixture, schedules.SelfNormalized])
@pytest.mark.parametrize(("gamma", "noise_scale", "norm"), [(0.05, 0.3, 1.0), (1.0, 1.0, 2.0), (20.0, 0.5, 0.3)])
def test_intervals_of_kernel_ucb_hold(schedule, gamma, noise_scale, norm):
    exploration = schedule(noise_scale=noise_scale, norm_bound=norm, failure_probability=FAILURE)

    failures = share_of_failures(exploration, n_runs=40, horizon=60, gamma=gamma, noise_scale=noise_scale, norm=norm)

    assert failures <= at_most(40, FAILURE)


def test_a_much_narrower_interval_is_caught():
    """Negative control: a fifth of the width fails in most runs."""
    exploration = schedules.Mixture(noise_scale=0.3, norm_bound=1.0, failure_probability=FAILURE)

    failures = share_of_failures(exploration, n_runs=40, horizon=60, gamma=0.05, noise_scale=0.3, norm=1.0, shrink=0.2)

    assert failures > at_most(40, FAILURE)


def test_intervals_hold_while_rewards_are_awaited():
    exploration = schedules.Mixture(noise_scale=0.3, norm_bound=1.0, failure_probability=FAILURE)

    failures = share_of_failures(exploration, n_runs=40, horizon=60, gamma=0.05, noise_scale=0.3, norm=1.0, delay=15)

    assert failures <= at_most(40, FAILURE)


@pytest.mark.long
@pytest.mark.parametrize("schedule", [schedules.Mixture, schedules.SelfNormalized])
@pytest.mark.parametrize("gamma", [1e-3, 0.1, 10.0])
@pytest.mark.parametrize(("noise_scale", "norm"), [(0.1, 3.0), (1.0, 1.0)])
def test_intervals_of_kernel_ucb_hold_in_many_runs(schedule, gamma, noise_scale, norm):
    exploration = schedule(noise_scale=noise_scale, norm_bound=norm, failure_probability=FAILURE)

    failures = share_of_failures(exploration, n_runs=200, horizon=150, gamma=gamma, noise_scale=noise_scale, norm=norm)

    assert failures <= at_most(200, FAILURE)
