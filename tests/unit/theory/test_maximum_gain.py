from itertools import combinations_with_replacement
from math import comb, exp, log

import numpy as np
import pytest
from numpy.testing import assert_allclose

from kernelbandits.errors import InvalidParameter, NotPositiveSemidefinite
from kernelbandits.kernels import Gaussian, Laplacian, Linear, Matern, Polynomial, Scaled
from kernelbandits.theory import (
    effective_dimension,
    finite_dimension_gain,
    information_gain,
    information_gain_rate,
    maximum_information_gain,
)

SIZE, HORIZON = 5, 4
VARIANCES = [0.03, 0.6, 7.0]


def gram_of(seed, size=SIZE):
    """Similarities of points with different k(x, x), two of them equal."""
    generator = np.random.default_rng(seed)
    points = generator.uniform(size=(size, 2))
    points[-1] = points[0]
    lengths = generator.uniform(0.2, 1.0, size=size)
    lengths[-1] = lengths[0]
    return lengths[:, None] * Gaussian(length_scale=0.3).gram(points) * lengths


def gain_of(gram, rows, variance):
    """The definition: ½ ln det(I + K_A/σ²)."""
    rows = list(rows)
    return np.linalg.slogdet(np.eye(len(rows)) + gram[np.ix_(rows, rows)] / variance)[1] / 2


def largest_gain(gram, horizon, variance):
    """γ_T, by trying every choice."""
    return max(gain_of(gram, rows, variance) for rows in combinations_with_replacement(range(len(gram)), horizon))


def slow_greedy(gram, horizon, variance):
    chosen = []
    for _ in range(horizon):
        chosen.append(int(np.argmax([gain_of(gram, [*chosen, row], variance) for row in range(len(gram))])))
    return chosen


class TestFiniteSet:
    @pytest.mark.parametrize("variance", VARIANCES)
    @pytest.mark.parametrize("seed", range(12))
    def test_bounds_hold_the_largest_gain_of_any_choice(self, seed, variance):
        gram = gram_of(seed)
        largest = largest_gain(gram, HORIZON, variance)

        found = maximum_information_gain(gram, horizon=HORIZON, noise_variance=variance)

        assert (1 - exp(-1)) * largest <= found.lower <= largest * (1 + 1e-12)
        assert largest <= found.upper * (1 + 1e-12)
        assert found.upper <= found.lower / (1 - exp(-1)) * (1 + 1e-12)

    @pytest.mark.parametrize("variance", VARIANCES)
    def test_chooses_by_the_definition_and_reports_the_gain_of_what_it_chose(self, variance):
        gram = gram_of(3, size=8)

        found = maximum_information_gain(gram, horizon=20, noise_variance=variance)

        assert_allclose(found.lower, gain_of(gram, found.chosen, variance), rtol=1e-10)
        # Equal points tie; rounding may decide between them, and nothing else.
        slow = slow_greedy(gram, 20, variance)
        assert_allclose(found.lower, gain_of(gram, slow, variance), rtol=1e-10)
        assert [row % 7 for row in found.chosen] == [row % 7 for row in slow]

    def test_the_bounds_can_be_missed(self):
        """Control: a long point between two others misleads greedy selection; a poor choice misses (1 − 1/e) γ_T."""
        points = np.array([[1.0, 0.0], [0.0, 1.0], [0.72, 0.72], [0.1, 0.1]])
        gram = points @ points.T
        largest = gain_of(gram, [0, 1], 0.03)

        found = maximum_information_gain(gram, horizon=2, noise_variance=0.03)

        assert found.chosen[0] == 2
        assert_allclose(largest, largest_gain(gram, 2, 0.03), rtol=1e-12)
        assert (1 - exp(-1)) * largest < found.lower < 0.99 * largest < largest < found.upper
        assert gain_of(gram, [3, 3], 0.03) < (1 - exp(-1)) * largest

    def test_the_upper_bound_is_close_for_many_rounds(self):
        gram = gram_of(1, size=30)

        found = maximum_information_gain(gram, horizon=500, noise_variance=0.1)

        assert found.lower < found.upper < 1.3 * found.lower < found.lower / (1 - exp(-1))

    def test_no_sequence_of_the_points_has_a_larger_gain(self):
        gram, generator = gram_of(2, size=30), np.random.default_rng(0)
        upper = maximum_information_gain(gram, horizon=60, noise_variance=0.1).upper

        gains = [
            information_gain(gram[np.ix_(rows, rows)], noise_variance=0.1)
            for rows in generator.integers(30, size=(20, 60))
        ]

        assert max(gains) < upper

    def test_one_point_and_no_similarity(self):
        """T observations of one point with k(x, x) = k have the gain ½ ln(1 + T k/σ²)."""
        one = maximum_information_gain([[2.0]], horizon=7, noise_variance=0.3)
        none = maximum_information_gain(np.zeros((3, 3)), horizon=7, noise_variance=0.3)

        assert_allclose([one.lower, one.upper >= one.lower], [log(1 + 14 / 0.3) / 2, True], rtol=1e-12)
        assert none.lower == none.upper == 0.0
        assert none.chosen.tolist() == [0] * 7

    def test_independent_points_share_the_rounds(self):
        found = maximum_information_gain(np.eye(4), horizon=8, noise_variance=0.5)

        assert sorted(found.chosen) == [0, 0, 1, 1, 2, 2, 3, 3]
        assert_allclose(found.lower, 4 * log(1 + 2 / 0.5) / 2, rtol=1e-12)

    def test_the_matrix_given_is_left_alone(self):
        gram = gram_of(0)
        before = gram.copy()

        maximum_information_gain(gram, horizon=3, noise_variance=1.0)

        assert np.array_equal(gram, before)

    def test_rejections(self):
        with pytest.raises(InvalidParameter, match="horizon"):
            maximum_information_gain(np.eye(2), horizon=0, noise_variance=1.0)
        with pytest.raises(InvalidParameter, match="noise variance"):
            maximum_information_gain(np.eye(2), horizon=1, noise_variance=0.0)
        with pytest.raises(InvalidParameter, match="square"):
            maximum_information_gain(np.ones((2, 3)), horizon=1, noise_variance=1.0)
        with pytest.raises(NotPositiveSemidefinite):
            maximum_information_gain([[1.0, 2.0], [2.0, 1.0]], horizon=1, noise_variance=1.0)


class TestFiniteDimension:
    def test_is_the_formula(self):
        found = finite_dimension_gain(horizon=300, n_dimensions=4, noise_variance=0.3, largest_similarity=2.5)

        assert_allclose(found, 0.5 * 4 * log(1 + 300 * 2.5 / (4 * 0.3)), rtol=1e-12)

    @pytest.mark.parametrize("kernel", [Linear(), Polynomial(degree=2, offset=0.5)], ids=["linear", "polynomial"])
    def test_holds_and_is_attained_by_equal_eigenvalues(self, kernel):
        points = np.random.default_rng(0).normal(size=(40, 3))
        gram = kernel.gram(points)
        limits = {"noise_variance": 0.2, "largest_similarity": float(np.max(np.diagonal(gram)))}
        n_dimensions = kernel.n_features(points)

        found = maximum_information_gain(gram, horizon=100, noise_variance=0.2)
        bound = finite_dimension_gain(horizon=100, n_dimensions=n_dimensions, **limits)
        too_few = finite_dimension_gain(horizon=100, n_dimensions=1, **limits)

        assert too_few < found.lower < bound
        equal = maximum_information_gain(np.eye(4), horizon=12, noise_variance=0.2).lower
        assert_allclose(equal, finite_dimension_gain(horizon=12, n_dimensions=4, noise_variance=0.2), rtol=1e-12)


class TestRates:
    def test_are_the_formulas(self):
        T, d = 700, 3
        expected = {
            Linear(): d * log(T),
            Polynomial(degree=2, offset=0.0): comb(4, 2) * log(T),
            Polynomial(degree=2, offset=0.7): comb(5, 2) * log(T),
            Gaussian(length_scale=0.3): log(T) ** (d + 1),
            Matern(length_scale=0.3, smoothness=1.5): T ** (3 / 6) * log(T) ** (3 / 6),
            Matern(length_scale=0.3, smoothness=2.5): T ** (3 / 8) * log(T) ** (5 / 8),
            Scaled(Scaled(Linear(), 0.5), 3.0): d * log(T),
        }

        for kernel, value in expected.items():
            assert_allclose(information_gain_rate(kernel, horizon=T, n_features=d), value, rtol=1e-12)

    def test_the_matern_rate_is_below_the_older_one(self):
        """Control: d/(2ν+d) is not the exponent d(d+1)/(2ν+d(d+1)) of Srinivas et al. (2010), which is larger."""
        few, many = (
            information_gain_rate(Matern(length_scale=1.0, smoothness=2.5), horizon=T, n_features=2)
            for T in (10**6, 10**12)
        )

        older = [T ** (6 / 11) * log(T) for T in (10**6, 10**12)]
        assert many / few < 0.2 * older[1] / older[0]

    @pytest.mark.parametrize("kernel", [Linear(), Gaussian(length_scale=0.3)], ids=["linear", "gaussian"])
    def test_the_gain_of_points_grows_no_faster(self, kernel):
        """The measured maximum on a grid, in units of the rate, does not increase; in units of the constant it does."""
        points = np.linspace(-1.0, 1.0, 60)[:, None]
        gram = kernel.gram(points)
        horizons = [30, 300, 3000]
        found = [maximum_information_gain(gram, horizon=T, noise_variance=0.1).lower for T in horizons]
        rates = [information_gain_rate(kernel, horizon=T, n_features=1) for T in horizons]

        per_rate = np.divide(found, rates)
        assert np.all(np.diff(per_rate) <= 0.0)
        assert np.all(np.diff(found) > 0.5)

    @pytest.mark.parametrize("kernel", [Matern(length_scale=1.0, smoothness=0.5), Laplacian(length_scale=1.0)])
    def test_other_kernels_have_none(self, kernel):
        with pytest.raises(InvalidParameter, match=f"Rates are known .* got {type(kernel).__name__}"):
            information_gain_rate(kernel, horizon=10, n_features=2)

    def test_rejections(self):
        with pytest.raises(InvalidParameter, match="horizon"):
            information_gain_rate(Linear(), horizon=1, n_features=2)
        with pytest.raises(InvalidParameter, match="kernel is needed"):
            information_gain_rate("linear", horizon=10, n_features=2)
        assert information_gain_rate(Gaussian(length_scale=1.0), horizon=10, n_features=10**6) == np.inf


def test_the_gain_of_points_bounds_their_effective_dimension():
    """Section 4.1: (d̃ − 1) ln(1 + (γ/σ²) ln T) / 2 ≤ γ_T, for any points of the set."""
    gram, regularization, variance, horizon = gram_of(4, size=25), 0.2, 0.05, 25

    dimension = effective_dimension(gram, regularization=regularization, horizon=horizon)
    upper = maximum_information_gain(gram, horizon=horizon, noise_variance=variance).upper

    assert dimension > 2
    assert (dimension - 1) / 2 * log(1 + regularization / variance * log(horizon)) <= upper
