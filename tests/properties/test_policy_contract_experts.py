"""Every policy that follows experts keeps every promise."""

import numpy as np
import pytest

import kernelbandits as kb
from kernelbandits.kernels import Gaussian, Linear
from kernelbandits.policies.experts import (
    StumpClass,
    UniformExpert,
    constant_experts,
    linear_experts,
    ridge_experts,
    stump_experts,
)
from kernelbandits.testing import PolicyContract


def history():
    rng = np.random.default_rng(7)
    return rng.normal(size=(30, 3)), rng.uniform(size=30)


def many_experts():
    contexts, rewards = history()
    return [
        *linear_experts(3, n_experts=6, seed=1),
        *constant_experts(4),
        *stump_experts(contexts, n_actions=3, per_feature=2),
        *ridge_experts([Linear(), Gaussian(length_scale=0.8)], contexts, rewards, regularization=[0.1, 2.0]),
        UniformExpert(),
    ]


def few_experts():
    return [*linear_experts(3, n_experts=6, seed=1), *constant_experts(4), UniformExpert()]


class _OverRows(PolicyContract):
    is_random = True

    @pytest.fixture
    def make_round(self):
        return lambda rng, n_actions: rng.normal(size=(n_actions, 3))


class TestEXP4(_OverRows):
    @pytest.fixture
    def make_policy(self):
        return lambda: kb.EXP4(many_experts(), horizon=90, uniform_factor=0.4, learning_factor=3.0, seed=3)


class TestEXP4WithOneExpert(_OverRows):
    @pytest.fixture
    def make_policy(self):
        return lambda: kb.EXP4(constant_experts(1), horizon=90, seed=3)


class TestEXP4OverStrings(PolicyContract):
    is_random = True

    @pytest.fixture
    def make_policy(self):
        return lambda: kb.EXP4(constant_experts(5), horizon=90, reward_range=(-1.0, 2.0), seed=3)

    @pytest.fixture
    def make_round(self):
        return lambda rng, n: [f"text {row}" for row in rng.integers(0, 99, size=n)]


class TestEXP4P(_OverRows):
    @pytest.fixture
    def make_policy(self):
        return lambda: kb.EXP4P(few_experts()[:-1], horizon=90, failure_probability=0.1, seed=3)


class TestEXP4POverPairs(PolicyContract):
    is_random = True

    @pytest.fixture
    def make_policy(self):
        experts = stump_experts(np.random.default_rng(0).normal(size=(20, 2)), n_actions=3, per_feature=3)
        return lambda: kb.EXP4P(experts, horizon=90, failure_probability=0.1, seed=3)

    @pytest.fixture
    def make_round(self):
        return lambda rng, n: kb.Pairs(rng.normal(size=2), [f"action {row}" for row in range(n)])


class TestVE(_OverRows):
    has_amendments = False

    @pytest.fixture(params=[5, 40])
    def make_policy(self, request):
        return lambda: kb.VE(
            StumpClass([0, 2], n_actions=3), horizon=90, vc_dimension=2, uniform_rounds=request.param, seed=3
        )


class TestVEOfAList(_OverRows):
    has_amendments = False

    @pytest.fixture
    def make_policy(self):
        return lambda: kb.VE(many_experts()[:-1], horizon=90, vc_dimension=3, uniform_rounds=8, seed=3)


class TestEpochGreedy(_OverRows):
    @pytest.fixture(params=[{}, {"uniform_factor": 0.05}, {"horizon": 400, "uniform_factor": 0.05}], ids=str)
    def make_policy(self, request):
        return lambda: kb.EpochGreedy(few_experts(), n_actions=7, seed=3, **request.param)


class TestKernelEpochGreedy(_OverRows):
    @pytest.fixture(params=[{}, {"uniform_factor": 0.05}, {"horizon": 400, "uniform_factor": 0.02}], ids=str)
    def make_policy(self, request):
        kernel = Gaussian(length_scale=0.8)
        return lambda: kb.KernelEpochGreedy(kernel, n_actions=7, regularization=0.3, seed=3, **request.param)


class TestPACBayes(_OverRows):
    has_amendments = False

    @pytest.fixture
    def make_policy(self):
        centers = np.random.default_rng(0).normal(size=(4, 3))
        return lambda: kb.PACBayes(centers, n_actions=7, uniform_factor=0.5, learning_factor=2.0, seed=3)


class TestPACBayesWithOneState(_OverRows):
    has_amendments = False

    @pytest.fixture
    def make_policy(self):
        return lambda: kb.PACBayes([[0.0, 0.0, 0.0]], n_actions=7, seed=3)
