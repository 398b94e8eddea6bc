"""Policies for one fixed set of actions keep every promise."""

import numpy as np
import pytest

import kernelbandits as kb
from kernelbandits.kernels import Gaussian, Linear, Spectrum
from kernelbandits.testing import PolicyContract

ACTIONS = np.random.default_rng(0).uniform(size=(8, 2))
WORDS = ["red", "green", "blue", "greenish", "reddish", "bluish"]


class _OverRows(PolicyContract):
    n_fixed = 8

    @pytest.fixture
    def make_round(self):
        return lambda rng, n: ACTIONS


class _OverWords(PolicyContract):
    n_fixed = 6

    @pytest.fixture
    def make_round(self):
        return lambda rng, n: WORDS


class TestGridGP(_OverRows):
    @pytest.fixture(params=[{"n_points": 3}, {"n_points": 100}, {"horizon": 200, "smoothness": 1.5}], ids=str)
    def make_policy(self, request):
        return lambda: kb.GridGP(Linear(), ACTIONS, **request.param)


class TestGridGPOverWords(_OverWords):
    @pytest.fixture
    def make_policy(self):
        return lambda: kb.GridGP(Spectrum(n=2), WORDS, horizon=200, dimension=1, reward_range=(0.0, 1.0))


class TestPhasedElimination(_OverRows):
    @pytest.fixture(
        params=[
            {"horizon": 60, "norm_bound": 1.0, "exploration": "theory"},
            {"horizon": 60, "exploration": 0.2, "posterior": "exact"},
            {"exploration": 0.3},
        ],
        ids=str,
    )
    def make_policy(self, request):
        return lambda: kb.PhasedElimination(Gaussian(length_scale=0.4), ACTIONS, regularization=0.3, **request.param)


class TestPhasedEliminationPrimal(_OverRows):
    @pytest.fixture
    def make_policy(self):
        return lambda: kb.PhasedElimination(Linear(), ACTIONS, horizon=60, exploration=0.2, posterior="primal")


class TestPhasedEliminationOverWords(_OverWords):
    @pytest.fixture
    def make_policy(self):
        return lambda: kb.PhasedElimination(
            Spectrum(n=2), WORDS, horizon=100, exploration="theory", norm_bound=0.5, reward_range=None, noise_scale=0.1
        )
