from math import ceil, exp, inf, log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from kernelbandits.errors import InvalidParameter, NotPositiveSemidefinite
from kernelbandits.theory import (
    effective_dimension,
    effective_dimension_bound,
    horizon_logarithm,
    information_gain,
    leading_spectrum,
    log_det_gain,
    statistical_dimension,
)

HORIZONS = [2, 3, 10, 1000]
REGULARIZATIONS = [1e-3, 0.37, 1.0, 20.0]


def random_gram(seed, size):
    """Gram matrices with k(x, x) ≤ 1: smooth, rough and of low rank, some with duplicates."""
    generator = np.random.default_rng(seed)
    points = generator.uniform(size=(size, int(generator.integers(1, 4))))
    if generator.random() < 0.3:
        points[size // 2 :] = points[: size - size // 2]
    kind = generator.integers(3)
    if kind == 0:
        lengths = generator.uniform(0.05, 2.0)
        return np.exp(-np.sum((points[:, None] - points) ** 2, axis=2) / (2.0 * lengths**2))
    if kind == 1:
        return np.exp(-np.sum(np.abs(points[:, None] - points), axis=2) / generator.uniform(0.05, 2.0))
    rows = points / max(1.0, np.max(np.linalg.norm(points, axis=1)))
    return rows @ rows.T


gram_matrices = st.builds(random_gram, st.integers(0, 10_000), st.integers(1, 40))
regularizations = st.floats(-3.0, 2.0).map(lambda exponent: 10.0**exponent)


def slow_effective_dimension(spectrum, regularization, horizon):
    """The definition, one j after the other."""
    decreasing = sorted(spectrum, reverse=True)
    j = 1
    while j * regularization * log(horizon) < sum(decreasing[j:]):
        j += 1
    return j


def poured(spectrum, trace, size):
    """Largest spectrum with these lower bounds by bisection on the water level: an independent check."""
    given_values = np.append(np.sort(spectrum)[::-1], np.zeros(size - len(spectrum)))
    low, high = 0.0, trace
    for _ in range(200):
        level = (low + high) / 2
        low, high = (level, high) if np.sum(np.maximum(given_values, level)) < trace else (low, level)
    return np.maximum(given_values, high)


class TestDefinitions:
    @pytest.mark.parametrize("regularization", REGULARIZATIONS)
    @pytest.mark.parametrize("horizon", HORIZONS)
    def test_effective_dimension_is_its_definition(self, regularization, horizon):
        for seed in range(5):
            gram = random_gram(seed, 25)
            spectrum = np.maximum(np.linalg.eigvalsh(gram), 0.0)

            found = effective_dimension(gram, regularization=regularization, horizon=horizon)

            assert found == slow_effective_dimension(spectrum, regularization, horizon)

    @pytest.mark.parametrize("n_leading", [1, 2, 3])
    def test_a_tail_of_exactly_j_gamma_ln_t_is_small_enough(self, n_leading):
        """The definition has j γ ln T ≥ tail, not >."""
        step = 0.5 * log(10)
        spectrum = [30.0 + step] * n_leading + [n_leading * step]
        problem = {"regularization": 0.5, "horizon": 10}

        assert effective_dimension(spectrum=spectrum, **problem) == n_leading
        assert effective_dimension(np.diag(spectrum), **problem) == n_leading
        assert effective_dimension(spectrum=spectrum[:-1], trace=sum(spectrum), **problem) == n_leading
        above = [*spectrum[:-1], spectrum[-1] * (1 + 1e-12)]
        assert effective_dimension(spectrum=above, **problem) == n_leading + 1

    @pytest.mark.parametrize("regularization", REGULARIZATIONS)
    def test_statistical_dimension_is_a_trace(self, regularization):
        gram = random_gram(3, 20)
        inverse = np.linalg.inv(gram + regularization * np.eye(20))

        assert_allclose(statistical_dimension(gram, regularization=regularization), np.trace(gram @ inverse), rtol=1e-9)

    @pytest.mark.parametrize("regularization", REGULARIZATIONS)
    def test_log_det_gain_is_a_determinant(self, regularization):
        gram = random_gram(4, 20)
        _, determinant = np.linalg.slogdet(np.eye(20) + gram / regularization)

        assert_allclose(log_det_gain(gram, regularization=regularization), determinant, rtol=1e-9)

    @pytest.mark.parametrize("regularization", REGULARIZATIONS)
    def test_log_det_gain_is_learned_point_by_point(self, regularization):
        gram, total = random_gram(5, 15), 0.0
        for t in range(15):
            inverse = np.linalg.inv(gram[:t, :t] + regularization * np.eye(t))
            width_squared = (gram[t, t] - gram[t, :t] @ inverse @ gram[:t, t]) / regularization
            total += np.log1p(width_squared)

        assert_allclose(log_det_gain(gram, regularization=regularization), total, rtol=1e-8)

    @pytest.mark.parametrize("noise_variance", [0.04, 2.5])
    def test_information_gain_has_the_half_that_the_paper_forgot(self, noise_variance):
        """Erratum E21: I(y; f) = H(y) − H(y | f) of Gaussian vectors, from their entropies."""
        gram, size = random_gram(6, 12), 12
        entropy_of_rewards = 0.5 * np.linalg.slogdet(2 * np.pi * exp(1) * (gram + noise_variance * np.eye(size)))[1]
        entropy_of_noise = 0.5 * size * log(2 * np.pi * exp(1) * noise_variance)

        found = information_gain(gram, noise_variance=noise_variance)

        assert_allclose(found, entropy_of_rewards - entropy_of_noise, rtol=1e-9)
        printed = log_det_gain(gram, regularization=noise_variance)
        assert_allclose(found, printed / 2, rtol=1e-12)
        assert printed > 1.5 * (entropy_of_rewards - entropy_of_noise)

    @pytest.mark.parametrize("regularization", [0.2, 3.0])
    def test_counts_stand_for_repeats_written_out(self, regularization):
        gram, counts = random_gram(7, 6), np.array([1, 4, 2, 7, 1, 3])
        rows = np.repeat(np.arange(6), counts)
        written_out = gram[np.ix_(rows, rows)]

        for quantity in (statistical_dimension, log_det_gain):
            collapsed = quantity(gram, regularization=regularization, counts=counts)
            assert_allclose(collapsed, quantity(written_out, regularization=regularization), rtol=1e-9)
        assert effective_dimension(
            gram, regularization=regularization, horizon=18, counts=counts
        ) == effective_dimension(written_out, regularization=regularization, horizon=18)
        assert_allclose(leading_spectrum(gram, 3, counts=counts), np.linalg.eigvalsh(written_out)[:-4:-1], rtol=1e-9)

    def test_a_whole_spectrum_says_the_same_as_its_gram_matrix(self):
        gram = random_gram(8, 10)
        spectrum = np.linalg.eigvalsh(gram)  # increasing: any order is taken

        assert effective_dimension(spectrum=spectrum, regularization=0.3, horizon=50) == effective_dimension(
            gram, regularization=0.3, horizon=50
        )
        for quantity in (statistical_dimension, log_det_gain):
            assert_allclose(
                quantity(spectrum=spectrum, regularization=0.3), quantity(gram, regularization=0.3), rtol=1e-12
            )


class TestEdges:
    def test_a_zero_gram_matrix_has_taught_nothing(self):
        gram = np.zeros((4, 4))

        assert effective_dimension(gram, regularization=0.5, horizon=7) == 1  # the minimum runs over j ≥ 1
        assert statistical_dimension(gram, regularization=0.5) == 0.0
        assert log_det_gain(gram, regularization=0.5) == 0.0

    def test_one_point(self):
        assert effective_dimension([[0.8]], regularization=0.01, horizon=2) == 1
        assert_allclose(log_det_gain([[0.8]], regularization=0.5), log(2.6), rtol=1e-12)

    def test_duplicates_fill_one_direction(self):
        gram = np.ones((30, 30))

        assert effective_dimension(gram, regularization=1e-3, horizon=30) == 1
        assert_allclose(statistical_dimension(gram, regularization=2.0), 30 / 32, rtol=1e-12)

    def test_rounding_below_zero_is_forgiven(self):
        gram = np.ones((3, 3)) - 1e-12 * np.eye(3)

        assert effective_dimension(gram, regularization=1.0, horizon=5) == 1

    def test_only_a_trace_is_known(self):
        found = effective_dimension(spectrum=[], trace=10.0, regularization=0.5, horizon=9)

        assert found == ceil(10.0 / (0.5 * log(9)))
        assert effective_dimension(spectrum=[], trace=0.0, regularization=0.5, horizon=9) == 1
        assert_allclose(log_det_gain(spectrum=[], trace=10.0, regularization=0.5), 20.0)
        assert_allclose(log_det_gain(spectrum=[], trace=10.0, size=5, regularization=0.5), 5 * log(5.0))

    @given(gram_matrices, regularizations)
    @settings(max_examples=30)
    def test_a_larger_regularization_lowers_every_quantity(self, gram, regularization):
        larger = 1.5 * regularization

        assert effective_dimension(gram, regularization=larger, horizon=40) <= effective_dimension(
            gram, regularization=regularization, horizon=40
        )
        for quantity in (statistical_dimension, log_det_gain):
            assert quantity(gram, regularization=larger) <= quantity(gram, regularization=regularization) * (1 + 1e-9)

    @given(gram_matrices, regularizations)
    @settings(max_examples=30)
    def test_fewer_points_never_fill_more(self, gram, regularization):
        """Eigenvalues of a principal submatrix are smaller, so a level may use d̃ of all data (erratum E11)."""
        size = gram.shape[0] // 2 + 1
        part = gram[:size, :size]

        assert effective_dimension(part, regularization=regularization, horizon=40) <= effective_dimension(
            gram, regularization=regularization, horizon=40
        )
        for quantity in (statistical_dimension, log_det_gain):
            whole = quantity(gram, regularization=regularization)
            assert quantity(part, regularization=regularization) <= whole * (1 + 1e-9) + 1e-9


class TestRelations:
    @given(gram_matrices, regularizations, st.integers(0, 1000), st.floats(-2.0, 2.0))
    @settings(max_examples=150)
    def test_dimensions_and_gains_bound_each_other(self, gram, regularization, longer, variance_exponent):
        horizon = max(2, gram.shape[0] + longer)
        noise_variance = 10.0**variance_exponent
        tilde = effective_dimension(gram, regularization=regularization, horizon=horizon)
        statistical = statistical_dimension(gram, regularization=regularization)
        gain = log_det_gain(gram, regularization=regularization)
        largest = leading_spectrum(gram, 1)[0]
        information = information_gain(gram, noise_variance=noise_variance)
        l_T = horizon_logarithm(horizon=horizon, effective_dimension=tilde, regularization=regularization)
        rank = np.linalg.matrix_rank(gram)
        slack = 1 + 1e-9

        assert horizon < 3 or tilde - 1 <= statistical * slack
        assert statistical <= tilde * (1 + log(horizon)) * slack
        assert statistical <= gain * slack
        assert gain <= statistical * (1 + np.log1p(largest / regularization)) * slack
        assert (tilde - 1) * np.log1p(log(horizon)) <= gain * slack
        assert gain <= 2 * tilde * l_T * slack
        assert information * slack >= 0.5 * (tilde - 1) * np.log1p(regularization / noise_variance * log(horizon))
        assert tilde <= max(1, rank)

    @pytest.mark.parametrize("n_features", [1, 3, 6])
    def test_the_linear_kernel_has_no_more_dimensions_than_features(self, n_features):
        rows = np.random.default_rng(n_features).normal(size=(50, n_features))

        assert effective_dimension(rows @ rows.T, regularization=1e-6, horizon=50) <= n_features

    @pytest.mark.parametrize("horizon", [2, 10**2, 10**4, 10**8])
    @pytest.mark.parametrize("ratio", [0.3, 1.0, 4.0])
    def test_gain_per_dimension_and_the_exchanged_factors(self, horizon, ratio):
        """Erratum E22: the best B of the correct minimum is (γ/σ²) ln T; the printed one never exceeds 1."""
        grid = np.geomspace(1e-6, 1e9, 200_001)
        correct = np.minimum(ratio * log(horizon) * np.log1p(grid) / grid, np.log1p(grid))
        printed = np.minimum(np.log1p(grid) * ratio * log(horizon), np.log1p(grid) / grid)

        assert_allclose(np.max(correct), np.log1p(ratio * log(horizon)), rtol=1e-3)
        assert np.max(printed) <= 1.0

    @pytest.mark.parametrize(
        ("horizon", "printed_value", "correct_value"),
        [(10**2, 0.905, 1.72), (10**4, 0.949, 2.32), (10**8, 0.974, 2.97)],
    )
    def test_figures_quoted_for_the_exchanged_factors(self, horizon, printed_value, correct_value):
        grid = np.geomspace(1e-6, 1e6, 200_001)
        printed = np.max(np.minimum(np.log1p(grid) * log(horizon), np.log1p(grid) / grid))

        assert_allclose(printed, printed_value, atol=6e-4)
        assert_allclose(np.log1p(log(horizon)), correct_value, atol=6e-3)

    @pytest.mark.parametrize(("alpha", "exact", "printed", "corrected"), [(1.2, 16, 5.1, 16.7), (1.05, 87, 6.0, 87.9)])
    def test_polynomial_spectra_need_alpha_minus_one(self, alpha, exact, printed, corrected):
        """Erratum E19: the tail of C i^(−α) is C j^(1−α)/(α−1), and Remark 1 lost the divisor."""
        constant, horizon = 50.0, 10**4
        size = 20_000
        spectrum = constant * np.arange(1, size + 1.0) ** -alpha
        beyond = constant * size ** (1 - alpha) / (alpha - 1)  # the integral of what was cut off, an upper bound

        found = effective_dimension(
            spectrum=spectrum, trace=float(np.sum(spectrum) + beyond), regularization=1.0, horizon=horizon
        )

        assert found == exact
        assert_allclose(1 + (constant / log(horizon)) ** (1 / alpha), printed, atol=0.05)
        bound = effective_dimension_bound(scale=constant, decay=alpha, regularization=1.0, horizon=horizon)
        assert_allclose(bound, corrected, atol=0.06)
        assert printed < exact <= bound

    @pytest.mark.parametrize("regularization", [0.02, 0.7, 9.0])
    @pytest.mark.parametrize("decay", [1.1, 1.5, 3.0])
    @pytest.mark.parametrize("scale", [0.3, 40.0])
    def test_a_polynomial_spectrum_stays_below_its_bound(self, scale, decay, regularization):
        horizon, size = 60, 500
        spectrum = scale * np.arange(1, size + 1.0) ** -decay

        bound = effective_dimension_bound(scale=scale, decay=decay, regularization=regularization, horizon=horizon)

        assert_allclose(bound, 1 + (scale / ((decay - 1) * regularization * log(horizon))) ** (1 / decay), rtol=1e-12)
        assert slow_effective_dimension(spectrum, regularization, horizon) <= bound

    def test_the_bound_of_remark_1_at_its_limits(self):
        arguments = {"regularization": 0.7, "horizon": 60}

        assert effective_dimension_bound(scale=0.0, decay=2.0, **arguments) == 1.0
        assert effective_dimension_bound(scale=1e150, decay=1 + 1e-15, **arguments) > 1e160
        for decay in (1.0, 0.5):
            with pytest.raises(InvalidParameter, match="greater than 1"):
                effective_dimension_bound(scale=1.0, decay=decay, **arguments)

    def test_padding_with_unused_directions_changes_nothing(self):
        """Erratum E11: read without its parenthesis the tail grows by γ for every direction that no point uses."""
        spectrum, regularization, horizon = np.array([3.0, 1.0, 0.4]), 0.5, 20

        def printed_tail(n_directions, j):
            regularized = np.append(spectrum, np.zeros(n_directions - 3)) + regularization
            return np.sum(regularized[j:]) - regularization

        padded = effective_dimension(
            spectrum=np.append(spectrum, np.zeros(500)), regularization=regularization, horizon=horizon
        )
        assert padded == effective_dimension(spectrum=spectrum, regularization=regularization, horizon=horizon)
        assert printed_tail(503, 2) > 100 * printed_tail(6, 2)


class TestUpperBounds:
    @pytest.mark.parametrize("size", [None, 40])
    def test_the_first_direction_after_those_given_may_be_enough(self, size):
        """One eigenvalue is known, 1.5 γ ln T are left: j = 1 is too few, and j = 2 enough."""
        step = 0.7 * log(50)

        found = effective_dimension(spectrum=[9.0], trace=9.0 + 1.5 * step, size=size, regularization=0.7, horizon=50)

        assert found == 2

    @given(gram_matrices, regularizations, st.integers(0, 40), st.floats(0.0, 1.0), st.booleans())
    @settings(max_examples=150)
    def test_leading_eigenvalues_and_the_trace_bound_from_above(self, gram, regularization, n, share, exact):
        size = gram.shape[0]
        n = min(n, size)
        spectrum = np.maximum(np.linalg.eigvalsh(gram)[::-1], 0.0)
        generator = np.random.default_rng(n)
        shrunk = spectrum[:n] if exact else np.sort(spectrum[:n] * generator.uniform(share, 1.0, size=n))[::-1]
        known = {"spectrum": shrunk, "trace": float(np.sum(spectrum)), "regularization": regularization}

        for extra in ({}, {"size": size}):
            for quantity in (statistical_dimension, log_det_gain):
                truth = quantity(gram, regularization=regularization)
                assert quantity(**known, **extra) >= truth * (1 - 1e-9) - 1e-9
            truth = effective_dimension(gram, regularization=regularization, horizon=30)
            assert effective_dimension(**known, **extra, horizon=30) >= truth
        assert effective_dimension(**known, size=size, horizon=30) <= max(size, 1)

    @given(gram_matrices, regularizations, st.integers(0, 10))
    @settings(max_examples=60)
    def test_nystroem_eigenvalues_are_under_estimates_that_serve(self, gram, regularization, n):
        n = min(n + 1, gram.shape[0])
        # A little more on the diagonal makes the factor stable, and the approximation only smaller.
        factor = np.linalg.cholesky(gram[:n, :n] + 1e-6 * np.eye(n))
        whitened = np.linalg.solve(factor, gram[:n])
        under = np.maximum(np.linalg.eigvalsh(whitened.T @ whitened)[::-1][:n], 0.0) * (1 - 1e-9)
        known = {"spectrum": under, "trace": float(np.trace(gram)), "regularization": regularization}

        assert effective_dimension(**known, horizon=30) >= effective_dimension(
            gram, regularization=regularization, horizon=30
        )
        assert log_det_gain(**known, size=len(gram)) >= log_det_gain(gram, regularization=regularization) * (1 - 1e-7)

    def test_water_is_poured_to_one_level(self):
        spectrum, trace, size = [5.0, 0.3, 0.1], 9.0, 8
        filled = poured(spectrum, trace, size)

        found = log_det_gain(spectrum=spectrum, trace=trace, size=size, regularization=0.7)

        assert_allclose(found, np.sum(np.log1p(filled / 0.7)), rtol=1e-9)
        assert_allclose(
            statistical_dimension(spectrum=spectrum, trace=trace, size=size, regularization=0.7),
            np.sum(filled / (filled + 0.7)),
            rtol=1e-9,
        )

    def test_exact_eigenvalues_give_the_textbook_form(self):
        spectrum, rest, n_rest = np.array([6.0, 2.0]), 3.0, 4

        found = log_det_gain(spectrum=spectrum, trace=11.0, size=6, regularization=0.5)

        assert_allclose(found, np.sum(np.log1p(spectrum / 0.5)) + n_rest * np.log1p(rest / n_rest / 0.5), rtol=1e-12)

    def test_the_textbook_form_fails_for_under_estimates_and_ours_does_not(self):
        truth = log_det_gain(np.eye(3), regularization=1.0)

        textbook = 2 * np.log1p(3.0 / 2)

        assert textbook < truth
        assert_allclose(log_det_gain(spectrum=[0.0], trace=3.0, size=3, regularization=1.0), truth)

    def test_under_estimates_of_all_eigenvalues_share_the_missing_mass(self):
        found = log_det_gain(spectrum=[1.0, 0.5], trace=2.0, size=2, regularization=1.0)

        assert_allclose(found, 2 * log(2.0), rtol=1e-12)

    def test_the_bound_tightens_as_more_is_known(self):
        gram = random_gram(0, 40)
        values = [
            log_det_gain(spectrum=leading_spectrum(gram, n), trace=np.trace(gram), size=40, regularization=0.05)
            for n in (1, 3, 10, 40)
        ]

        assert np.all(np.diff(values) <= 1e-9)
        assert_allclose(values[-1], log_det_gain(gram, regularization=0.05), rtol=1e-6)


class TestLeadingSpectrum:
    @pytest.mark.parametrize("size", [5, 300])
    @pytest.mark.parametrize("n", [1, 4])
    def test_agrees_with_the_dense_solver(self, size, n):
        points = np.random.default_rng(0).uniform(size=size)
        gram = np.exp(-np.abs(points[:, None] - points))

        found = leading_spectrum(gram, n)

        assert_allclose(found, np.linalg.eigvalsh(gram)[::-1][:n], rtol=1e-9)
        assert_allclose(found, leading_spectrum(gram, n), rtol=1e-14)

    def test_a_large_zero_matrix_has_zero_eigenvalues(self):
        assert_allclose(leading_spectrum(np.zeros((250, 250)), 2), [0.0, 0.0])

    def test_repeated_eigenvalues_are_not_over_estimated(self):
        assert_allclose(leading_spectrum(2.0 * np.eye(250), 3), [2.0, 2.0, 2.0])

    def test_low_rank_leaves_zeros(self):
        row = np.random.default_rng(1).normal(size=250)
        found = leading_spectrum(np.outer(row, row), 3)

        assert_allclose(found, [row @ row, 0.0, 0.0], atol=1e-9)

    def test_asking_for_more_than_there_are_is_rejected(self):
        with pytest.raises(
            InvalidParameter, match="At most 3 eigenvalues of a matrix of 3 rows can be requested, got 4"
        ):
            leading_spectrum(np.eye(3), 4)


class TestRefusals:
    @pytest.mark.parametrize("quantity", [effective_dimension, statistical_dimension, log_det_gain])
    @pytest.mark.parametrize(
        ("gram", "error", "message"),
        [
            (np.ones((2, 3)), InvalidParameter, r"square and not empty, got shape \(2, 3\)"),
            (np.ones((0, 0)), InvalidParameter, "square and not empty"),
            ([[1.0, np.nan], [np.nan, 1.0]], InvalidParameter, "NaN or infinite"),
            ([[1.0, 0.5], [0.4, 1.0]], InvalidParameter, r"symmetric.*differ by 0\.1"),
            ([[1.0, 2.0], [2.0, 1.0]], NotPositiveSemidefinite, r"smallest eigenvalue is -1.*repair"),
        ],
    )
    def test_what_is_no_gram_matrix(self, quantity, gram, error, message):
        extra = {"horizon": 5} if quantity is effective_dimension else {}

        with pytest.raises(error, match=message):
            quantity(gram, regularization=1.0, **extra)

    @pytest.mark.parametrize("value", [0.0, -1.0, np.nan, inf, "one", None, True])
    def test_regularization(self, value):
        with pytest.raises(InvalidParameter, match="The regularization must be"):
            log_det_gain(np.eye(2), regularization=value)

    @pytest.mark.parametrize("value", [1, 0, 2.5, np.nan])
    def test_horizon(self, value):
        with pytest.raises(InvalidParameter, match="The horizon must be a whole number of at least 2"):
            effective_dimension(np.eye(2), regularization=1.0, horizon=value)

    def test_noise_variance(self):
        with pytest.raises(InvalidParameter, match="The noise variance must be a finite number above zero"):
            information_gain(np.eye(2), noise_variance=0.0)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({}, "either the Gram matrix or its spectrum"),
            ({"gram": np.eye(2), "spectrum": [1.0]}, "either the Gram matrix or its spectrum"),
            ({"gram": np.eye(2), "trace": 2.0}, "brings its own trace"),
            ({"gram": np.eye(2), "size": 2}, "brings its own trace"),
            ({"spectrum": [1.0], "counts": [1]}, "Counts weigh the rows of a Gram matrix"),
            ({"spectrum": [1.0], "size": 3}, "Pass `trace` as well"),
            ({"spectrum": []}, "spectrum is empty"),
            ({"spectrum": [2.0, 1.0], "trace": 2.5}, r"trace=2\.5 is less than the 3\.0"),
            ({"spectrum": [2.0], "trace": -1.0}, "The trace must be"),
            ({"spectrum": [2.0, 1.0], "trace": 4.0, "size": 1}, "The size must be a whole number of at least 2"),
            ({"spectrum": [[1.0]]}, "one row of finite numbers"),
            ({"spectrum": [np.inf]}, "NaN or infinite"),
            ({"gram": np.eye(2), "counts": [1.0]}, "one count, zero or above, for each of the 2 points"),
            ({"gram": np.eye(2), "counts": [1.0, -1.0]}, "one count, zero or above"),
        ],
    )
    def test_contradictory_arguments(self, arguments, message):
        with pytest.raises(InvalidParameter, match=message):
            log_det_gain(**arguments, regularization=1.0)

    def test_a_negative_eigenvalue_in_a_given_spectrum(self):
        with pytest.raises(NotPositiveSemidefinite, match=r"smallest eigenvalue is -0\.5"):
            log_det_gain(spectrum=[1.0, -0.5], regularization=1.0)
