import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import binomtest

import kernelbandits as kb
from kernelbandits.environments import Delayed, DrawnRounds, Round, SyntheticRKHS
from kernelbandits.errors import InvalidParameter, NotSupported
from kernelbandits.evaluation import calibration, coverage, share_interval, simulate, start_world
from kernelbandits.kernels import Gaussian
from kernelbandits.policies import KernelUCB, Mixed, UniformRandom
from kernelbandits.theory.exploration import Mixture

KERNEL = Gaussian(length_scale=0.3)
WORLD = SyntheticRKHS(KERNEL, n_actions=8, n_features=1, norm=1.0, fixed_actions=True, noise_scale=0.3)
SCHEDULE = Mixture(noise_scale=0.3, norm_bound=1.0, failure_probability=0.1)


class Blind:
    """A world that does not know what to expect."""

    reward_range = None

    def start(self, rng):
        return DrawnRounds(iter([(Round(np.eye(2)), np.zeros(2))]))

    def describe(self):
        return {"class": "Blind"}


def with_exploration(exploration):
    return lambda _: KernelUCB(KERNEL, regularization=0.05, exploration=exploration)


def test_a_proved_schedule_keeps_its_claim():
    result = coverage(WORLD, with_exploration(SCHEDULE), horizon=40, repeats=20)

    assert result.failure_probability == 0.1
    assert result.is_kept
    assert result.share <= 0.1


def test_far_too_little_exploration_is_caught():
    """Negative control: the schedule of a world without noise, in one that has some."""
    brave = Mixture(noise_scale=0.0, norm_bound=0.1, failure_probability=0.1)

    result = coverage(WORLD, with_exploration(brave), horizon=40, repeats=20)

    assert result.is_kept is False
    assert result.n_failed == len(result.first_failures) > 15
    assert "runs failed" in str(result)


def test_the_first_failure_is_where_a_loop_finds_it():
    result = coverage(WORLD, with_exploration(0.6), horizon=30, repeats=6, seed=3)

    expected = []
    for seed in range(3, 9):
        policy, world = with_exploration(0.6)(seed), kb.evaluation.start_world(WORLD, seed)
        for t in range(1, 31):
            observed = world.observe()
            prediction = policy.posterior.predict(observed.contexts)
            if (np.abs(prediction.mean - observed.expected) > 0.6 * prediction.width).any():
                expected.append(t)
                break
            decision = policy.choose(observed.contexts)
            policy.learn(decision, world.reward(decision.action))
    assert result.first_failures == tuple(expected)
    assert result.failure_probability is None
    assert result.is_kept is None


def test_late_rewards_are_learned_when_they_come():
    horizon, late = 30, Delayed(WORLD, delay=7)

    result = coverage(late, with_exploration(0.8), horizon=horizon, repeats=6)

    firsts = []
    for seed in range(6):
        world, policy, waiting = start_world(late, seed), with_exploration(0.8)(seed), []
        for t in range(1, horizon + 1):
            observed = world.observe()
            if t > 7:
                policy.learn(*waiting[t - 8])
            prediction = policy.posterior.predict(observed.contexts)
            if (np.abs(prediction.mean - observed.expected) > 0.8 * prediction.width + 1e-9).any():
                firsts.append(t)
                break
            decision = policy.choose(observed.contexts)
            policy.expect(decision)
            waiting.append((decision, world.reward(decision.action)))
    at_once = coverage(WORLD, with_exploration(0.8), horizon=horizon, repeats=6)
    assert result.first_failures == tuple(firsts) != at_once.first_failures


@pytest.mark.parametrize(("hits", "trials", "message"), [(3, 2, "more hits than trials"), (-1, 2, "The hits")])
def test_a_share_of_impossible_counts_is_rejected(hits, trials, message):
    with pytest.raises(InvalidParameter, match=message):
        share_interval(hits, trials)


def test_a_wrapper_is_judged_by_the_policy_inside():
    def make(seed):
        return Mixed(with_exploration(SCHEDULE)(seed), epsilon=0.3, seed=seed)

    assert coverage(WORLD, make, horizon=20, repeats=5).failure_probability == 0.1


def test_a_policy_without_intervals_is_rejected():
    with pytest.raises(NotSupported, match="UniformRandom has no intervals"):
        coverage(WORLD, lambda seed: UniformRandom(seed=seed), horizon=5, repeats=2)


def test_a_world_without_expectations_is_rejected():
    with pytest.raises(InvalidParameter, match="does not know its expected rewards"):
        coverage(Blind(), with_exploration(1.0), horizon=5, repeats=2)


def test_calibration_counts_rounds_within_so_many_widths():
    trace = simulate(WORLD, with_exploration(SCHEDULE)(0), horizon=60, seed=1)

    rows = calibration(trace, levels=[0.1, 0.7])

    for row in rows[:2]:
        inside = [
            abs(m - e) <= row["level"] * w for m, e, w in zip(trace.mean, trace.expected, trace.width, strict=True)
        ]
        assert row["share"] == pytest.approx(sum(inside) / 60)
    assert rows[2] == {"level": "exploration", "share": 1.0, "n_rounds": 60}


def test_a_trace_without_estimates_cannot_be_calibrated():
    with pytest.raises(InvalidParameter, match="No round has a mean"):
        calibration(simulate(WORLD, UniformRandom(seed=0), horizon=5, seed=1))


@pytest.mark.parametrize(("hits", "trials"), [(0, 10), (3, 17), (20, 20)])
def test_the_interval_of_a_share_is_exact(hits, trials):
    expected = binomtest(hits, trials).proportion_ci(0.95, method="exact")

    assert_allclose(share_interval(hits, trials), expected)
