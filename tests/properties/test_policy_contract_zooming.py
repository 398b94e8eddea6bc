"""Contextual zooming keeps every promise."""

import pytest

import kernelbandits as kb
from kernelbandits.kernels import Delta, Gaussian, Linear, Spectrum
from kernelbandits.testing import PolicyContract


class TestContextualZooming(PolicyContract):
    has_amendments = False

    @pytest.fixture(params=[1.0, 0.05])
    def make_policy(self, request):
        return lambda: kb.ContextualZooming(
            Linear(), horizon=60, norm_bound=0.4, exploration=request.param, reward_range=(-1.0, 2.0)
        )

    @pytest.fixture
    def make_round(self):
        return lambda rng, n: rng.normal(size=(n, 2))


class TestContextualZoomingOverStrings(PolicyContract):
    has_amendments = False

    @pytest.fixture
    def make_policy(self):
        return lambda: kb.ContextualZooming(Spectrum(n=(1, 2)), horizon=60, exploration=0.1)

    @pytest.fixture
    def make_round(self):
        return lambda rng, n: ["".join(rng.choice(list("abcd"), size=rng.integers(2, 9))) for _ in range(n)]


class TestContextualZoomingOverPairs(PolicyContract):
    has_amendments = False

    @pytest.fixture
    def make_policy(self):
        kernel = kb.kernels.PairProduct(Gaussian(length_scale=1.0), Delta())
        return lambda: kb.ContextualZooming(kernel, horizon=60, exploration=0.1)

    @pytest.fixture
    def make_round(self):
        return lambda rng, n: kb.Pairs(rng.normal(size=2), [f"action {row}" for row in range(n)])
