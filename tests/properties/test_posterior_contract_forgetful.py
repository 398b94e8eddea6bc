"""Posteriors that forget keep every promise of a posterior for as long as there is nothing to forget."""

import numpy as np
import pytest

from kernelbandits.kernels import Gaussian, Linear, Spectrum
from kernelbandits.posterior import ForgettingPosterior, WindowedPosterior
from kernelbandits.testing import PosteriorContract

ROWS = np.random.default_rng(0).normal(size=(14, 3))
LONG = 20  # just what the contract observes


@pytest.fixture(params=[0.05, 0.7])
def regularization(request):
    return request.param


class _OverRows(PosteriorContract):
    @pytest.fixture
    def points(self):
        return ROWS


class _OverStrings(PosteriorContract):
    @pytest.fixture
    def points(self):
        return [f"{first} {second}" for first in ("red", "green", "blue") for second in ("boat", "coat", "goat", "ox")]


class TestWindowed(_OverRows):
    @pytest.fixture
    def posterior(self, regularization):
        return WindowedPosterior(Gaussian(length_scale=0.8), regularization=regularization, length=LONG)


class TestWindowedPrimal(_OverRows):
    @pytest.fixture
    def posterior(self, regularization):
        return WindowedPosterior(Linear() + 0.3, regularization=regularization, length=LONG)


class TestWindowedStrings(_OverStrings):
    @pytest.fixture
    def posterior(self, regularization):
        return WindowedPosterior(Spectrum(n=2), regularization=regularization, length=LONG)


class TestForgetting(_OverRows):
    @pytest.fixture
    def posterior(self, regularization):
        return ForgettingPosterior(Gaussian(length_scale=0.8), regularization=regularization, rate=1.0)


class TestForgettingThatChangesForm(_OverRows):
    @pytest.fixture
    def posterior(self, regularization):
        return ForgettingPosterior(Linear() + 0.3, regularization=regularization, rate=1.0)


class TestForgettingStrings(_OverStrings):
    @pytest.fixture
    def posterior(self, regularization):
        return ForgettingPosterior(Spectrum(n=2), regularization=regularization, rate=1.0)
