"""KernelUCB over posteriors that forget keeps every promise of a policy."""

import pytest

import kernelbandits as kb
from kernelbandits.kernels import Gaussian, Linear, Spectrum
from kernelbandits.posterior import posterior_factory
from kernelbandits.testing import PolicyContract


class _OverRows(PolicyContract):
    @pytest.fixture
    def make_round(self):
        return lambda rng, n_actions: rng.normal(size=(n_actions, 3))


class TestWindowed(_OverRows):
    @pytest.fixture(params=["gaussian", "linear"])
    def make_policy(self, request):
        kernel = Gaussian(length_scale=0.7) if request.param == "gaussian" else Linear() + 0.3
        return lambda: kb.KernelUCB(kernel, regularization=0.3, posterior=posterior_factory("windowed", length=40))


class TestWindowedOverStrings(PolicyContract):
    @pytest.fixture
    def make_policy(self):
        return lambda: kb.KernelUCB(
            Spectrum(n=(1, 2)), regularization=0.3, posterior=posterior_factory("windowed", length=40)
        )

    @pytest.fixture
    def make_round(self):
        return lambda rng, n: ["".join(rng.choice(list("abcd"), size=rng.integers(2, 9))) for _ in range(n)]


class TestForgettingNothing(_OverRows):
    @pytest.fixture
    def make_policy(self):
        return lambda: kb.KernelUCB(
            Gaussian(length_scale=0.7), regularization=0.3, posterior=posterior_factory("forgetting", rate=1.0)
        )


class TestForgetting(_OverRows):
    @pytest.fixture(params=["gaussian", "linear"])
    def make_policy(self, request):
        kernel = Gaussian(length_scale=0.7) if request.param == "gaussian" else Linear() + 0.3
        return lambda: kb.KernelUCB(kernel, regularization=0.3, posterior=posterior_factory("forgetting", rate=0.95))
