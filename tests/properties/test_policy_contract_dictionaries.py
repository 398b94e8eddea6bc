"""Policies on sampled dictionaries keep every promise, where all points are drawn, so that the model is exact."""

import pytest

import kernelbandits as kb
from kernelbandits.kernels import Gaussian, Spectrum
from kernelbandits.testing import PolicyContract
from kernelbandits.theory import exploration as schedules

ALL, EACH = 1e9, 1.0 + 1e-9
"""An oversampling with which every point is drawn, and a threshold that ends a batch with every reward."""

SCHEDULE = schedules.SelfNormalized(noise_scale=0.5, norm_bound=2.0, failure_probability=0.1)


class _OverRows(PolicyContract):
    @pytest.fixture
    def make_round(self):
        return lambda rng, n_actions: rng.normal(size=(n_actions, 3))


class TestBKB(_OverRows):
    @pytest.fixture
    def make_policy(self):
        return lambda: kb.BKB(Gaussian(length_scale=0.7), regularization=0.3, oversampling=ALL, seed=1)


class TestBBKB(_OverRows):
    @pytest.fixture
    def make_policy(self):
        return lambda: kb.BBKB(Gaussian(length_scale=0.7), regularization=0.3, oversampling=ALL, threshold=EACH, seed=1)


class TestBBKBWithSchedule(_OverRows):
    @pytest.fixture
    def make_policy(self):
        return lambda: kb.BBKB(
            Gaussian(length_scale=0.7), regularization=0.3, exploration=SCHEDULE, oversampling=ALL, threshold=EACH,
            seed=1, reward_range=(0, 1),
        )  # fmt: skip


class TestEKUCB(_OverRows):
    @pytest.fixture
    def make_policy(self):
        return lambda: kb.EKUCB(Gaussian(length_scale=0.7), regularization=0.3, oversampling=ALL, seed=1)


class TestEKUCBOverStrings(PolicyContract):
    @pytest.fixture
    def make_policy(self):
        return lambda: kb.EKUCB(Spectrum(n=(1, 2)) + 0.1, regularization=0.3, oversampling=ALL, seed=1)

    @pytest.fixture
    def make_round(self):
        return lambda rng, n: ["".join(rng.choice(list("abcd"), size=rng.integers(2, 9))) for _ in range(n)]


class TestCBBKB(_OverRows):
    @pytest.fixture
    def make_policy(self):
        return lambda: kb.CBBKB(
            Gaussian(length_scale=0.7), regularization=0.3, oversampling=ALL, threshold=EACH, seed=1
        )


class TestMiniBatchGPUCB(_OverRows):
    @pytest.fixture(params=[1.1, 30.0])
    def make_policy(self, request):
        return lambda: kb.MiniBatchGPUCB(Gaussian(length_scale=0.7), noise_variance=0.9, threshold=request.param)
