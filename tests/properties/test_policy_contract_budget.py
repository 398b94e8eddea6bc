"""Policies with a budget or an accuracy keep every promise, before and after the dictionary takes over."""

import numpy as np
import pytest

import kernelbandits as kb
from kernelbandits.kernels import Gaussian, Spectrum
from kernelbandits.testing import PolicyContract
from kernelbandits.theory import exploration as schedules

MIXTURE = schedules.Mixture(noise_scale=0.5, norm_bound=2.0, failure_probability=0.1)


class _BeyondBudget(PolicyContract):
    def test_amended_and_unlearned_rewards_are_as_if_they_had_come_right(self, make_policy, make_round):
        """Compared with a policy of the same dictionary, which stays when an observation is removed."""
        policy, straight, rng = make_policy(), make_policy(), np.random.default_rng(11)
        decisions = [policy.choose(make_round(rng, 4)) for _ in range(15)]
        policy.learn_many(decisions, np.linspace(0.1, 0.9, 15))

        policy.amend(decisions[0], now=0.9)
        policy.amend(decisions[13], now=0.3)
        policy.unlearn(decisions[1])
        policy.unlearn(decisions[14])
        policy.learn(decisions[14], 0.6)
        policy.learn(decisions[1], 0.2)

        rewards = np.linspace(0.1, 0.9, 15)
        rewards[[0, 13, 14, 1]] = 0.9, 0.3, 0.6, 0.2
        straight.learn_many(decisions, rewards)
        assert policy.round_index == straight.round_index == 16
        points = policy._actions(make_round(rng, 6), None).points
        found, expected = policy.posterior.predict(points), straight.posterior.predict(points)
        np.testing.assert_allclose(found.mean, expected.mean, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(found.width, expected.width, rtol=1e-7, atol=1e-9)


class _OverRows(_BeyondBudget):
    @pytest.fixture
    def make_round(self):
        return lambda rng, n_actions: rng.normal(size=(n_actions, 3))


class TestKernelUCBBeyondItsBudget(_OverRows):
    @pytest.fixture(params=[4, 12])
    def make_policy(self, request):
        return lambda: kb.KernelUCB(Gaussian(length_scale=0.7), regularization=0.3, budget=request.param)


class TestKernelUCBBeyondItsBudgetWithSchedule(_OverRows):
    @pytest.fixture
    def make_policy(self):
        return lambda: kb.KernelUCB(
            Gaussian(length_scale=0.7), regularization=0.3, exploration=MIXTURE, budget=4, reward_range=(0, 1)
        )


class TestKernelUCBWithFewFeatures(_OverRows):
    """Exact within its features; older points are merged into sums."""

    @pytest.fixture
    def make_policy(self):
        return lambda: kb.KernelUCB(kb.kernels.Linear() + 0.5, regularization=0.3, budget=200)


class TestKernelUCBOverStringsBeyondItsBudget(_BeyondBudget):
    @pytest.fixture
    def make_policy(self):
        return lambda: kb.KernelUCB(Spectrum(n=(1, 2)), regularization=0.3, exploration=0.5, budget=4)

    @pytest.fixture
    def make_round(self):
        return lambda rng, n: ["".join(rng.choice(list("abcd"), size=rng.integers(2, 9))) for _ in range(n)]


class TestGPUCBBeyondItsBudget(_OverRows):
    @pytest.fixture
    def make_policy(self):
        return lambda: kb.GPUCB(Gaussian(length_scale=0.7), noise_variance=0.3, budget=4)


class TestThompsonBeyondItsBudget(_OverRows):
    is_random = True

    @pytest.fixture
    def make_policy(self):
        return lambda: kb.KernelThompson(Gaussian(length_scale=0.7), regularization=0.3, budget=4, seed=1)


class TestSquareCBBeyondItsBudget(_OverRows):
    is_random = True

    @pytest.fixture
    def make_policy(self):
        return lambda: kb.KernelSquareCB(Gaussian(length_scale=0.7), regularization=0.3, budget=4, seed=1)
