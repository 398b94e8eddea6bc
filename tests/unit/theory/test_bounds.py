from functools import partial
from itertools import product
from math import ceil, exp, inf, log, log2, nan, pi, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from kernelbandits.errors import InvalidParameter
from kernelbandits.theory import (
    balanced_regularization,
    horizon_logarithm,
    kappa,
    kernel_ucb_bound,
    kernel_ucb_trace_bound,
    n_stages,
    pseudo_to_realized,
    simple_regularization,
    sup_kernel_ucb_anytime_scale,
    sup_kernel_ucb_bound,
    sup_kernel_ucb_data_bound,
    sup_kernel_ucb_scale,
    theorem_1_bound,
)

PROBLEM = {
    "horizon": 700,
    "n_actions": 13,
    "regularization": 0.3,
    "effective_dimension": 4,
    "failure_probability": 0.07,
}


class TestKappa:
    @pytest.mark.parametrize("regularization", [0.01, 0.3, 2.0, 50.0])
    @pytest.mark.parametrize("largest", [0.2, 1.0, 8.0])
    def test_is_the_least_factor_that_works(self, regularization, largest):
        factor = kappa(regularization=regularization, largest_similarity=largest)
        squared_widths = np.linspace(1e-9, largest / regularization, 1000)

        assert np.all(squared_widths <= factor * np.log1p(squared_widths) * (1 + 1e-12))
        assert_allclose(factor * np.log1p(largest / regularization), largest / regularization, rtol=1e-12)
        assert 1.0 < factor <= 1.0 + largest / regularization

    def test_falls_to_one(self):
        values = [kappa(regularization=regularization) for regularization in (0.01, 1.0, 100.0, 1e6)]

        assert values == sorted(values, reverse=True)
        assert_allclose(values[-1], 1.0, atol=1e-6)


class TestStages:
    @pytest.mark.parametrize("horizon", [*range(2, 300), 1023, 1024, 1025, 4**9, 4**9 + 1])
    def test_is_half_a_binary_logarithm_rounded_up(self, horizon):
        assert n_stages(horizon) == max(1, ceil(0.5 * log2(horizon)))

    def test_stays_exact_where_floats_round(self):
        assert n_stages(4**40) == 40
        assert n_stages(4**40 + 1) == 41
        assert n_stages(1) == 1

    def test_the_last_level_cannot_narrow(self):
        """At level S a width of at most 2^(−S) is at most 1/sqrt(T), which is the exploit test."""
        for horizon in range(2, 5000):
            assert 2.0 ** -n_stages(horizon) <= 1 / sqrt(horizon) * (1 + 1e-15)

    def test_the_paper_has_too_few_levels_for_these_horizons(self):
        too_few = [horizon for horizon in range(2, 5000) if n_stages(horizon) > log(horizon)]

        assert too_few == [2, 5, 6, 7, 17, 18, 19, 20]


class TestScale:
    def test_valid_scale(self):
        found = sup_kernel_ucb_scale(
            horizon=700,
            n_actions=13,
            failure_probability=0.07,
            regularization=0.3,
            norm_bound=2.5,
            noise_scale=0.8,
        )

        assert_allclose(found, 0.8 * sqrt(2 * log(2 * 13 * 700 * 5 / 0.07)) + sqrt(0.3) * 2.5, rtol=1e-12)

    def test_paper_scale_knows_no_norm(self):
        found = sup_kernel_ucb_scale(horizon=700, n_actions=13, failure_probability=0.07, mode="paper")

        assert_allclose(found, sqrt(2 * log(2 * 700 * 13 / 0.07)), rtol=1e-12)

    def test_anytime_scale(self):
        arguments = {"n_actions": 13, "failure_probability": 0.07, "regularization": 0.3, "norm_bound": 2.5}

        found = sup_kernel_ucb_anytime_scale(round_index=90, **arguments)

        expected = 0.5 * sqrt(2 * log(2 * 13 * 4 * pi**2 * 90**2 / (6 * 0.07))) + sqrt(0.3) * 2.5
        assert_allclose(found, expected, rtol=1e-12)
        grown = [sup_kernel_ucb_anytime_scale(round_index=t, **arguments) for t in range(1, 200)]
        assert grown == sorted(grown)

    def test_the_anytime_shares_add_up_to_the_whole(self):
        """2 N S_t exp(−η_t²/2) summed over all rounds is δ."""
        rounds = np.arange(1, 200_001)
        stages = np.maximum(1, np.ceil(0.5 * np.log2(rounds)))
        eta = np.array(
            [
                sup_kernel_ucb_anytime_scale(
                    round_index=int(t), n_actions=3, failure_probability=0.07, norm_bound=0.0, noise_scale=1.0
                )
                for t in rounds[:500]
            ]
        )
        shares = 2 * 3 * stages[:500] * np.exp(-(eta**2) / 2)

        assert_allclose(shares, 6 * 0.07 / (pi**2 * rounds[:500] ** 2), rtol=1e-9)
        assert_allclose(np.sum(6 / (pi**2 * rounds**2.0)), 1.0, atol=1e-5)

    def test_union_over_levels_and_rounds_is_paid_for(self):
        """Erratum E12: S levels, T rounds and N actions share δ; the printed η leaves out the levels."""
        horizon, n_actions, delta = 10_000, 20, 0.05
        printed = sup_kernel_ucb_scale(horizon=horizon, n_actions=n_actions, failure_probability=delta, mode="paper")
        valid = sup_kernel_ucb_scale(
            horizon=horizon, n_actions=n_actions, failure_probability=delta, norm_bound=0.0, noise_scale=1.0
        )
        intervals = horizon * n_actions * n_stages(horizon)

        assert_allclose(2 * intervals * exp(-(valid**2) / 2), delta, rtol=1e-9)
        assert_allclose(2 * intervals * exp(-(printed**2) / 2), n_stages(horizon) * delta, rtol=1e-9)


class TestTheorem1:
    def test_is_the_printed_formula(self):
        q = 2 * log(2 * 700 * 13 * (1 + log(700)) / 0.07)
        l_T = max(log(700 / (4 * 0.3) + 1), log(700))
        bracket = 2 + 2 * (1 + sqrt(0.3 / q)) * 2.5 + 8 * sqrt((12 + 15 / 0.3) * l_T**3) * sqrt(q)

        assert_allclose(theorem_1_bound(**PROBLEM, norm=2.5), bracket * sqrt(4 * 700), rtol=1e-12)

    def test_is_beaten_by_the_counter_example(self):
        """Erratum E1: at T = 10^10 the printed rule loses 0.4 a round, more than the printed bound allows."""
        bound = theorem_1_bound(
            horizon=10**10,
            n_actions=2,
            regularization=1.0,
            effective_dimension=1,
            norm=sqrt(0.6**2 + 100.0**2),
            failure_probability=0.1,
        )

        assert_allclose(bound, 3.6e9, rtol=0.01)
        assert bound < 0.4 * 10**10

    @pytest.mark.parametrize(("horizon", "printed", "corrected"), [(10**4, 1.6e6, 1.0e5), (10**8, 5.7e8, 2.4e7)])
    def test_figures_quoted_beside_the_corrected_one(self, horizon, printed, corrected):
        problem = {
            "horizon": horizon,
            "n_actions": 100,
            "regularization": 1.0,
            "effective_dimension": 5,
            "failure_probability": 0.05,
        }

        assert_allclose(theorem_1_bound(**problem, norm=1.0), printed, rtol=0.03)
        assert_allclose(sup_kernel_ucb_bound(**problem, norm_bound=1.0), corrected, rtol=0.03)

    @pytest.mark.parametrize("regularization", [1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1.0, 1e3])
    def test_twelve_absorbs_the_last_term_but_for_tiny_regularization(self, regularization):
        """Erratum E13: 10 + 15/γ and sqrt(2T ln(2/δ)) fit into 12 + 15/γ for γ ≥ 10^-3."""
        worst = 0.0
        for horizon, n_actions, delta, dimension in product(
            (3, 10, 1000, 10**6), (1, 10, 1000), (0.5, 0.01, 1e-6), (1, 2, 10)
        ):
            q = 2 * log(2 * horizon * n_actions * (1 + log(horizon)) / delta)
            l_T = horizon_logarithm(horizon=horizon, effective_dimension=dimension, regularization=regularization)
            common = 8 * sqrt(l_T**3 * q * dimension * horizon)
            proved = common * sqrt(10 + 15 / regularization) + pseudo_to_realized(
                horizon=horizon, failure_probability=delta / (1 + log(horizon))
            )
            stated = common * sqrt(12 + 15 / regularization)
            worst = max(worst, proved / stated)
            if proved > stated:
                assert stated > horizon

        assert (worst <= 1.0) == (regularization >= 1e-3)

    def test_follows_from_the_corrected_one_where_its_scale_is_valid(self):
        """With η = sqrt(q), rewards in [0, 1] and sqrt(γ)‖θ*‖ ≤ η/2 the printed bound is true."""
        for horizon, n_actions, regularization, delta, dimension in product(
            (3, 17, 1000, 10**6), (1, 50), (1e-4, 0.1, 1.0, 100.0), (0.5, 1e-3), (1, 3)
        ):
            q = 2 * log(2 * horizon * n_actions * (1 + log(horizon)) / delta)
            norm = sqrt(q) / 2 / sqrt(regularization)
            # δ is spent on S levels at rate δ/(1 + ln T); the rest pays for realized rewards.
            left = delta * (1 - n_stages(horizon) / (1 + log(horizon)))
            l_T = horizon_logarithm(horizon=horizon, effective_dimension=dimension, regularization=regularization)
            gain = 2 * dimension * l_T
            corrected = (
                2 * sqrt(horizon)
                + 8 * sqrt(q) * sqrt(kappa(regularization=regularization) * n_stages(horizon) * gain * horizon)
                + pseudo_to_realized(horizon=horizon, failure_probability=left)
            )

            assert corrected <= theorem_1_bound(
                horizon=horizon,
                n_actions=n_actions,
                regularization=regularization,
                effective_dimension=dimension,
                norm=norm,
                failure_probability=delta,
            )

    def test_no_regularization_removes_the_norm(self):
        """Erratum E20: 2‖θ*‖ sqrt(d̃T) stays whatever γ is, so γ ~ 1/L cannot bring sqrt(L d̃ T)."""
        best = [
            min(
                theorem_1_bound(**{**PROBLEM, "regularization": gamma}, norm=norm)
                for gamma in np.geomspace(1e-9, 1e3, 60)
            )
            for norm in (1e6, 1e8)
        ]

        assert best[0] >= 2 * 1e6 * sqrt(4 * 700)
        assert best[1] >= 2 * 1e8 * sqrt(4 * 700)
        assert best[1] > 50 * best[0]  # a bound of order sqrt(L) would grow tenfold


class TestSupKernelUCB:
    def arguments(self, **changes):
        return {**PROBLEM, "norm_bound": 2.5, "noise_scale": 0.8, **changes}

    def scale(self, failure_probability=0.07):
        return 0.8 * sqrt(2 * log(2 * 13 * 700 * 5 / failure_probability)) + sqrt(0.3) * 2.5

    def spread(self):
        factor = (1 / 0.3) / log(1 + 1 / 0.3)
        l_T = max(log(1 + 700 / (4 * 0.3)), log(700))
        return sqrt(2 * factor * 5 * 4 * l_T * 700)

    def test_is_its_formula(self):
        expected = 2 * sqrt(700) + 8 * self.scale() * self.spread()

        assert_allclose(sup_kernel_ucb_bound(**self.arguments()), expected, rtol=1e-12)

    def test_realized_regret_splits_the_failure_probability(self):
        expected = 2 * sqrt(700) + 8 * self.scale(0.035) * self.spread() + 3.0 * sqrt(2 * 700 * log(4 / 0.07))

        assert_allclose(sup_kernel_ucb_bound(**self.arguments(realized_span=3.0)), expected, rtol=1e-12)

    @pytest.mark.parametrize(("gap", "factor"), [(0.5, 1.0), (4.0, 1.0), (10.0, 2.5)])
    def test_large_gaps_cost_at_level_one(self, gap, factor):
        expected = 2 * sqrt(700) + 8 * factor * self.scale() * self.spread()

        assert_allclose(sup_kernel_ucb_bound(**self.arguments(largest_gap=gap)), expected, rtol=1e-12)

    def test_rewards_in_another_unit_give_the_bound_in_that_unit(self):
        """Noise, norm, gaps and thresholds multiplied by 50: so is the bound."""
        unit = 50.0
        scaled = self.arguments(
            noise_scale=0.8 * unit, norm_bound=2.5 * unit, largest_gap=unit, threshold_unit=unit, realized_span=unit
        )

        assert_allclose(
            sup_kernel_ucb_bound(**scaled), unit * sup_kernel_ucb_bound(**self.arguments(realized_span=1.0)), rtol=1e-12
        )

    def test_data_form_is_its_formula(self):
        factor = kappa(regularization=0.3, largest_similarity=0.9)

        found = sup_kernel_ucb_data_bound(
            scale=3.3,
            horizon=700,
            regularization=0.3,
            stage_sizes=[100, 0, 250],
            stage_log_det_gains=[4.0, 0.0, 7.5],
            largest_similarity=0.9,
        )

        assert_allclose(
            found, 2 * sqrt(700) + 8 * 3.3 * (sqrt(factor * 100 * 4.0) + sqrt(factor * 250 * 7.5)), rtol=1e-12
        )

    def test_data_form_for_large_gaps_and_unknown_horizon(self):
        arguments = {"scale": 3.3, "horizon": 700, "regularization": 0.3}
        levels = {"stage_sizes": [100], "stage_log_det_gains": [4.0]}
        explored = 8 * 3.3 * sqrt(kappa(regularization=0.3) * 400)

        wide = sup_kernel_ucb_data_bound(**arguments, **levels, largest_gap=6.0)
        anytime = sup_kernel_ucb_data_bound(**arguments, **levels, is_anytime=True, threshold_unit=2.0)

        assert_allclose(wide, 2 * sqrt(700) + 1.5 * explored, rtol=1e-12)
        assert_allclose(anytime, 8 * sqrt(700) + explored, rtol=1e-12)

    @given(st.lists(st.tuples(st.integers(0, 100), st.floats(0.0, 30.0)), min_size=1, max_size=5))
    def test_data_form_never_exceeds_the_other(self, levels):
        """ψ_s add up to at most T and L_s ≤ 2 d̃ l_T, so Cauchy–Schwarz over S = 5 levels leads to the d̃ form."""
        l_T = horizon_logarithm(horizon=700, effective_dimension=4, regularization=0.3)
        sizes = [size for size, _ in levels]
        gains = [min(gain, 2 * 4 * l_T) for _, gain in levels]

        data = sup_kernel_ucb_data_bound(
            scale=self.scale(), horizon=700, regularization=0.3, stage_sizes=sizes, stage_log_det_gains=gains
        )

        assert data <= sup_kernel_ucb_bound(**self.arguments()) * (1 + 1e-12)

    @pytest.mark.parametrize(
        ("name", "values"),
        [
            ("horizon", [2, 100, 10**4]),
            ("n_actions", [1, 5, 500]),
            ("effective_dimension", [1, 2, 7.5]),
            ("norm_bound", [0.0, 1.0, 9.0]),
            ("noise_scale", [0.0, 0.5, 2.0]),
        ],
    )
    def test_harder_problems_have_larger_bounds(self, name, values):
        bounds = [sup_kernel_ucb_bound(**self.arguments(**{name: value})) for value in values]

        assert bounds == sorted(bounds)
        assert bounds[0] < bounds[-1]

    def test_two_rounds_are_enough(self):
        assert sup_kernel_ucb_bound(**self.arguments(horizon=2)) > 0
        assert theorem_1_bound(**{**PROBLEM, "horizon": 2}, norm=1.0) > 0


class TestKernelUCB:
    def test_closed_form(self):
        factor = kappa(regularization=0.3, largest_similarity=2.0)

        found = kernel_ucb_bound(
            horizon=700, regularization=0.3, log_det_gain=9.5, exploration=2.2, largest_similarity=2.0
        )

        assert_allclose(found, 2 * 2.2 * sqrt(factor * 700 * 9.5), rtol=1e-12)

    def test_the_trace_is_tighter(self):
        """Widths of any sequence of learned points, and an exploration that never falls."""
        generator = np.random.default_rng(0)
        points = generator.uniform(size=60)
        gram = np.exp(-((points[:, None] - points) ** 2) / 0.02)
        widths = [
            sqrt((1 - gram[t, :t] @ np.linalg.solve(gram[:t, :t] + 0.3 * np.eye(t), gram[:t, t])) / 0.3)
            for t in range(60)
        ]
        explorations = np.linspace(1.0, 2.0, 60)
        gain = np.linalg.slogdet(np.eye(60) + gram / 0.3)[1]

        trace = kernel_ucb_trace_bound(explorations, widths)

        assert_allclose(
            trace, 2 * sum(eta * width for eta, width in zip(explorations, widths, strict=True)), rtol=1e-12
        )
        assert trace <= kernel_ucb_bound(horizon=60, regularization=0.3, log_det_gain=gain, exploration=2.0)

    def test_an_empty_run_has_no_regret(self):
        assert kernel_ucb_trace_bound([], []) == 0.0


class TestRealizedRegret:
    def test_formula(self):
        found = pseudo_to_realized(horizon=700, failure_probability=0.07, reward_span=3.0)

        assert_allclose(found, 3.0 * sqrt(2 * 700 * log(2 / 0.07)), rtol=1e-12)

    def test_covers_the_noise_of_bernoulli_rewards(self):
        """Erratum E25: both arms pay independently; the two regrets differ by noise alone."""
        generator = np.random.default_rng(1)
        horizon, runs = 200, 2000
        best = generator.random((runs, horizon)) < 0.6
        played = generator.random((runs, horizon)) < 0.5
        difference = np.abs(np.sum(best.astype(float) - played - 0.1, axis=1))

        assert np.mean(difference > pseudo_to_realized(horizon=horizon, failure_probability=0.1)) <= 0.1
        assert np.mean(difference > 0) > 0.9  # taken for one another, as printed, they differ in nearly every run


class TestRegularization:
    @pytest.mark.parametrize("norm_bound", [0.2, 1.0, 30.0])
    def test_balanced_means_noise_equals_bias(self, norm_bound):
        problem = {"n_actions": 13, "horizon": 700, "failure_probability": 0.07}

        balanced = balanced_regularization(noise_scale=0.8, norm_bound=norm_bound, **problem)

        eta = sqrt(2 * log(2 * 13 * 700 * 5 / 0.07))
        assert_allclose(sqrt(balanced) * norm_bound, 0.8 * eta, rtol=1e-12)
        scale = sup_kernel_ucb_scale(regularization=balanced, noise_scale=0.8, norm_bound=norm_bound, **problem)
        assert_allclose(scale, 2 * 0.8 * eta, rtol=1e-12)

    def test_simple(self):
        assert_allclose(simple_regularization(noise_scale=0.8, norm_bound=4.0), 0.04, rtol=1e-12)

    def test_the_factor_of_the_corrected_theorem_never_falls_below_the_norm(self):
        """Erratum E20: (R η + sqrt(γ) B) sqrt(κ(γ)) ≥ B up to logarithms, for every γ."""
        for norm_bound, gamma in product((1.0, 100.0, 1e4), np.geomspace(1e-9, 1e6, 40)):
            factor = sqrt(gamma) * norm_bound * sqrt(kappa(regularization=gamma))

            assert_allclose(factor, norm_bound / sqrt(np.log1p(1 / gamma)), rtol=1e-9)
            assert gamma < 0.58 or factor >= norm_bound


class TestRefusals:
    @pytest.mark.parametrize(
        "bound", [partial(theorem_1_bound, norm=1.0), partial(sup_kernel_ucb_bound, norm_bound=1.0)]
    )
    @pytest.mark.parametrize(
        ("name", "value", "message"),
        [
            ("horizon", 1, "The horizon must be a whole number of at least 2, got 1. With a single round"),
            ("n_actions", 0, "The number of actions must be"),
            ("n_actions", 2.5, "The number of actions must be"),
            ("regularization", 0.0, "The regularization must be"),
            ("effective_dimension", 0, "The effective dimension must be"),
            ("failure_probability", 1.5, "strictly between 0 and 1"),
        ],
    )
    def test_problem(self, bound, name, value, message):
        problem = {**PROBLEM, name: value}

        with pytest.raises(InvalidParameter, match=message):
            bound(**problem)

    @pytest.mark.parametrize(
        ("call", "message"),
        [
            (lambda: theorem_1_bound(**PROBLEM, norm=-1.0), "The norm must be"),
            (lambda: sup_kernel_ucb_bound(**PROBLEM, norm_bound=nan), "The norm bound must be"),
            (lambda: sup_kernel_ucb_bound(**PROBLEM, norm_bound=1.0, noise_scale=-1.0), "The noise scale must be"),
            (lambda: sup_kernel_ucb_bound(**PROBLEM, norm_bound=1.0, largest_gap=0.0), "The largest gap must be"),
            (lambda: sup_kernel_ucb_bound(**PROBLEM, norm_bound=1.0, threshold_unit=0), "The threshold unit must be"),
            (lambda: sup_kernel_ucb_bound(**PROBLEM, norm_bound=1.0, realized_span=0.0), "length of the reward range"),
            (
                lambda: sup_kernel_ucb_scale(horizon=10, n_actions=2, failure_probability=0.1),
                "The valid scale needs norm_bound.*mode='paper'",
            ),
            (
                lambda: sup_kernel_ucb_scale(horizon=10, n_actions=2, failure_probability=0.1, mode="loose"),
                "'valid' or 'paper', got 'loose'",
            ),
            (
                lambda: sup_kernel_ucb_anytime_scale(
                    round_index=0, n_actions=2, failure_probability=0.1, norm_bound=1.0
                ),
                "The round must be",
            ),
            (lambda: n_stages(0), "The horizon must be a whole number of at least 1"),
            (lambda: kappa(regularization=-1.0), "The regularization must be"),
            (lambda: kappa(regularization=1.0, largest_similarity=inf), "The largest similarity must be"),
            (
                lambda: kernel_ucb_bound(horizon=10, regularization=1.0, log_det_gain=-1.0, exploration=1.0),
                "The log-determinant gain must be",
            ),
            (
                lambda: kernel_ucb_bound(horizon=10, regularization=1.0, log_det_gain=1.0, exploration=nan),
                "The exploration must be",
            ),
            (lambda: kernel_ucb_trace_bound([1.0], [1.0, 2.0]), "got 1 and 2 numbers"),
            (lambda: kernel_ucb_trace_bound([1.0], [-1.0]), "zero or above"),
            (lambda: kernel_ucb_trace_bound([[1.0]], [[1.0]]), "one row of finite numbers"),
            (
                lambda: sup_kernel_ucb_data_bound(
                    scale=1.0, horizon=10, regularization=1.0, stage_sizes=[1], stage_log_det_gains=[1.0, 2.0]
                ),
                "Every stage has one size",
            ),
            (lambda: balanced_regularization(noise_scale=0.0, norm_bound=1.0, **SMALL), "The noise scale must be"),
            (lambda: balanced_regularization(noise_scale=1.0, norm_bound=0.0, **SMALL), "The norm bound must be"),
            (lambda: simple_regularization(noise_scale=1.0, norm_bound=0.0), "The norm bound must be"),
            (lambda: simple_regularization(noise_scale=0.0, norm_bound=1.0), "Without noise any small"),
            (lambda: pseudo_to_realized(horizon=0, failure_probability=0.1), "The horizon must be"),
        ],
    )
    def test_everything_else(self, call, message):
        with pytest.raises(InvalidParameter, match=message):
            call()


SMALL = {"n_actions": 2, "horizon": 10, "failure_probability": 0.1}
