"""The contract finds the faults it is there for."""

import numpy as np
import pytest

from kernelbandits.kernels import Gaussian, Kernel, Linear, Rows
from kernelbandits.testing import KernelContract

ROWS = np.random.default_rng(0).normal(size=(6, 2))


class Faulty(Kernel):
    """A linear kernel, but for what a test breaks."""

    gram = Linear.gram
    diagonal = Linear.diagonal


class Lopsided(Faulty):
    def gram(self, first, second=None):
        return Linear().gram(first, second) + np.arange(len(first))[:, None]


class Indefinite(Faulty):
    def gram(self, first, second=None):
        return -Linear().gram(first, second)

    def diagonal(self, points):
        return -Linear().diagonal(points)


class WrongDiagonal(Faulty):
    def diagonal(self, points):
        return np.ones(len(points))


class WrongFeatures(Faulty):
    def n_features(self, points):
        return 1

    def features(self, points):
        return np.asarray(points)[:, :1]


class SecretFeatures(Faulty):
    def features(self, points):
        return np.asarray(points)


class DependsOnTheCompany(Faulty):
    def gram(self, first, second=None):
        second = first if second is None else second
        return Linear().gram(first, second) / len(first)


class Meddling(Faulty):
    def gram(self, first, second=None):
        result = Linear().gram(first, second)
        first *= 2.0
        return result


class Chatty(Faulty):
    def describe(self):
        return {"class": "Chatty", "origin": np.zeros(2)}


class Infinite(Faulty):
    def gram(self, first, second=None):
        return np.full((len(first), len(first)), np.inf)


class Forgetful(Rows):
    def stack(self, first, *others):
        return first


class ForgetsPoints(Faulty):
    kind = Forgetful()


@pytest.mark.parametrize(
    ("kernel", "promise"),
    [
        (Lopsided(), "gram_is_symmetric"),
        (Indefinite(), "gram_has_no_negative_eigenvalue"),
        (WrongDiagonal(), "diagonal_is_the_diagonal_of_gram"),
        (WrongFeatures(), "features_reproduce_gram_where_there_are_any"),
        (SecretFeatures(), "features_reproduce_gram_where_there_are_any"),
        (DependsOnTheCompany(), "two_collections_are_compared_like_parts_of_one"),
        (Meddling(), "comparing_points_leaves_them_as_they_were"),
        (Chatty(), "describe_gives_plain_values"),
        (Infinite(), "gram_has_a_finite_similarity_for_every_pair"),
        (ForgetsPoints(), "stacked_points_come_one_after_the_other"),
    ],
)
def test_the_contract_notices_a_broken_promise(kernel, promise):
    test = getattr(KernelContract(), f"test_{promise}")
    arguments = (kernel,) if promise == "describe_gives_plain_values" else (kernel, ROWS.copy())

    with pytest.raises((AssertionError, TypeError)):
        test(*arguments)


class TestAKernelOfOnesOwn(KernelContract):
    @pytest.fixture
    def kernel(self):
        return 0.5 * Gaussian(length_scale=0.8) * Faulty()

    @pytest.fixture
    def points(self):
        return ROWS
