"""Policies that judge every action by its own rewards keep every promise."""

import numpy as np
import pytest

import kernelbandits as kb
from kernelbandits.testing import PolicyContract


class TestUCB1(PolicyContract):
    @pytest.fixture
    def make_policy(self):
        return lambda: kb.UCB1(exploration=0.7)

    @pytest.fixture
    def make_round(self):
        return lambda rng, n: rng.normal(size=(n, 3))


class TestUCB1OverStrings(PolicyContract):
    @pytest.fixture
    def make_policy(self):
        return lambda: kb.UCB1(reward_range=(-3.0, 5.0))

    @pytest.fixture
    def make_round(self):
        return lambda rng, n: [f"text {row}" for row in rng.integers(0, 9, size=n)]


class TestUCB1WithRandomTies(PolicyContract):
    is_random = True

    @pytest.fixture
    def make_policy(self):
        return lambda: kb.UCB1(ties="random", seed=5)

    @pytest.fixture
    def make_round(self):
        return lambda rng, n: rng.permutation(n).tolist()


class TestUCB1OverPairs(PolicyContract):
    @pytest.fixture
    def make_policy(self):
        return lambda: kb.UCB1()

    @pytest.fixture
    def make_round(self):
        return lambda rng, n: kb.Pairs(rng.normal(size=2), [f"action {row}" for row in range(n)])


class TestKLUCB(PolicyContract):
    @pytest.fixture(params=[3.0, 0.0])
    def make_policy(self, request):
        return lambda: kb.KLUCB(log_log_factor=request.param)

    @pytest.fixture
    def make_round(self):
        return lambda rng, n: rng.normal(size=(n, 3))


class TestKLUCBWithRandomTies(PolicyContract):
    is_random = True

    @pytest.fixture
    def make_policy(self):
        return lambda: kb.KLUCB(ties="random", seed=np.random.default_rng(8), reward_range=(0.0, 2.0))

    @pytest.fixture
    def make_round(self):
        return lambda rng, n: rng.normal(size=(n, 2))
