from math import log, pi, sqrt

import numpy as np
import pytest
from numpy.testing import assert_allclose

from kernelbandits.errors import InvalidParameter
from kernelbandits.theory import (
    GPUCBAgnostic,
    RoundState,
    compare_bounds,
    confidence_ball_bound,
    exp4_bound,
    exp4p_bound,
    format_bounds,
    gp_ucb_agnostic_bound,
    gp_ucb_bound,
    kernel_ucb_bound,
    oful_bound,
    policy_elimination_bound,
    sup_kernel_ucb_bound,
    sup_lin_rel_bound,
    theorem_1_bound,
    ucb1_bound,
)

PROBLEM = {"horizon": 3000, "n_actions": 25, "n_features": 6}
SYSTEMS = [
    "Theorem 1 as printed",
    "SupKernelUCB",
    "KernelUCB",
    "UCB1",
    "SupLinUCB",
    "SupLinRel",
    "OFUL",
    "ConfidenceBall_2",
    "GP-UCB",
    "GP-UCB, agnostic",
    "IGP-UCB",
    "contextual zooming",
    "EXP4",
    "EXP4.P",
    "PolicyElimination",
    "Epoch-Greedy",
]
RATES = {"SupLinUCB", "IGP-UCB", "contextual zooming", "Epoch-Greedy"}


class TestFormulas:
    def test_ucb1(self):
        expected = 8 * log(3000) * (1 / 0.2 + 1 / 0.5) + (1 + pi**2 / 3) * 0.7

        assert_allclose(ucb1_bound([0.0, 0.2, 0.5], horizon=3000), expected, rtol=1e-12)
        assert ucb1_bound([0.0, 0.0], horizon=3000) == 0.0

    def test_sup_lin_rel(self):
        expected = 44 * (1 + log(2 * 25 * 3000 * log(3000))) ** 1.5 * sqrt(3000 * 6) + 2 * sqrt(3000)

        assert_allclose(sup_lin_rel_bound(**PROBLEM), expected, rtol=1e-12)

    def test_sup_lin_rel_has_its_power_outside_the_root(self):
        """Erratum E24: squared, the leading term carries the logarithm's cube, not its power 3/2."""
        few, many = (
            sup_lin_rel_bound(horizon=3000, n_actions=n_actions, n_features=6) - 2 * sqrt(3000)
            for n_actions in (10, 10**9)
        )
        logarithms = [1 + log(2 * n_actions * 3000 * log(3000)) for n_actions in (10, 10**9)]

        assert_allclose((many / few) ** 2, (logarithms[1] / logarithms[0]) ** 3, rtol=1e-9)
        assert (many / few) ** 2 > 1.3 * (logarithms[1] / logarithms[0]) ** 1.5  # as printed, inside the root

    def test_oful(self):
        found = oful_bound(
            horizon=3000, n_features=6, regularization=0.4, norm_bound=2.5, failure_probability=0.02, noise_scale=0.7
        )

        interval = sqrt(0.4) * 2.5 + 0.7 * sqrt(2 * log(50) + 6 * log(1 + 3000 / (0.4 * 6)))
        assert_allclose(found, 4 * sqrt(3000 * 6 * log(0.4 + 500)) * interval, rtol=1e-12)

    @pytest.mark.parametrize(("n_features", "horizon", "delta"), [(6, 3000, 0.02), (1, 2, 0.02), (1, 2, 1e-9)])
    def test_confidence_ball(self, n_features, horizon, delta):
        logarithm = log(horizon**2 / delta)
        beta = max(128 * n_features * log(horizon) * logarithm, (8 / 3 * logarithm) ** 2)

        found = confidence_ball_bound(horizon=horizon, n_features=n_features, failure_probability=delta)

        assert_allclose(found, sqrt(8 * n_features * horizon * beta * log(horizon)), rtol=1e-12)

    def test_gp_ucb(self):
        found = gp_ucb_bound(
            horizon=3000, n_actions=25, information_gain=12.5, noise_variance=0.3, failure_probability=0.02
        )

        beta = 2 * log(25 * 3000**2 * pi**2 / 0.12)
        assert_allclose(found, sqrt(8 / log(1 + 1 / 0.3) * 3000 * beta * 12.5), rtol=1e-12)

    def test_agnostic_gp_ucb(self):
        found = gp_ucb_agnostic_bound(
            horizon=3000, information_gain=12.5, noise_variance=0.3, norm_bound=2.5, failure_probability=0.02
        )

        beta = 2 * 2.5**2 + 300 * 12.5 * log(3000 / 0.02) ** 3
        assert_allclose(found, sqrt(8 / log(1 + 1 / 0.3) * 3000 * beta * 12.5), rtol=1e-12)

    def test_agnostic_gp_ucb_is_linear_in_the_norm_and_in_the_gain(self):
        """Erratum E23: (12) is printed quadratic in the norm. Control: with a prior the bound grows like sqrt(γ_T)."""

        def bound(norm, gain):
            return gp_ucb_agnostic_bound(
                horizon=3000, information_gain=gain, noise_variance=0.3, norm_bound=norm, failure_probability=0.02
            )

        with_a_prior = [
            gp_ucb_bound(
                horizon=3000, n_actions=25, information_gain=gain, noise_variance=0.3, failure_probability=0.02
            )
            for gain in (5.0, 20.0)
        ]
        assert_allclose(bound(4e9, 5.0) / bound(1e9, 5.0), 4.0, rtol=1e-6)
        assert_allclose(bound(0.0, 20.0) / bound(0.0, 5.0), 4.0, rtol=1e-12)
        assert_allclose(with_a_prior[1] / with_a_prior[0], 2.0, rtol=1e-12)

    def test_agnostic_gp_ucb_is_the_schedule_of_the_same_name(self):
        """β_T of the bound is β of the exploration schedule in round T, with the gain of the data in place of γ_T."""
        state = RoundState(round_index=3000, n_actions=25, log_det_gain=25.0, regularization=0.3)
        beta = GPUCBAgnostic(norm_bound=2.5, failure_probability=0.02)(state) ** 2 / 0.3

        found = gp_ucb_agnostic_bound(
            horizon=3000, information_gain=12.5, noise_variance=0.3, norm_bound=2.5, failure_probability=0.02
        )

        assert_allclose(found**2, 8 / log(1 + 1 / 0.3) * 3000 * beta * 12.5, rtol=1e-12)

    def test_experts(self):
        size = {"horizon": 3000, "n_actions": 25}

        assert_allclose(exp4_bound(**size, n_experts=40), 2.63 * sqrt(3000 * 25 * log(40)), rtol=1e-12)
        assert_allclose(
            exp4p_bound(**size, n_experts=40, failure_probability=0.02), 6 * sqrt(3000 * 25 * log(2000)), rtol=1e-12
        )
        assert_allclose(
            policy_elimination_bound(**size, n_policies=40, failure_probability=0.02),
            16 * sqrt(2 * 3000 * 25 * log(4 * 3000**2 * 40 / 0.02)),
            rtol=1e-12,
        )


class TestTable:
    def test_has_a_row_for_every_system(self):
        rows = compare_bounds(
            **PROBLEM, n_experts=9, gaps=[0.0, 0.1], information_gain=4.0, log_det_gain=8.0, exploration=2.0
        )

        assert [row["system"] for row in rows] == SYSTEMS
        assert {row["system"] for row in rows if row["value"] is None} == RATES
        assert all(row["needs"] is None for row in rows)
        assert all(row["bound"].startswith("O(") == (row["system"] in RATES) for row in rows)
        assert {row["system"] for row in rows if row["standing"] == "verified"} == {"SupKernelUCB", "KernelUCB"}

    def test_values_are_those_of_the_functions(self):
        rows = compare_bounds(
            **PROBLEM,
            regularization=0.4,
            norm_bound=2.5,
            noise_scale=0.7,
            failure_probability=0.02,
            effective_dimension=3,
            log_det_gain=8.0,
            exploration=2.0,
            information_gain=4.0,
            n_experts=9,
            gaps=[0.3],
        )
        found = {row["system"]: row["value"] for row in rows}
        size = {"horizon": 3000, "n_actions": 25}
        kernel = {**size, "regularization": 0.4, "effective_dimension": 3, "failure_probability": 0.02}

        expected = {
            "Theorem 1 as printed": theorem_1_bound(**kernel, norm=2.5),
            "SupKernelUCB": sup_kernel_ucb_bound(**kernel, norm_bound=2.5, noise_scale=0.7),
            "KernelUCB": kernel_ucb_bound(horizon=3000, regularization=0.4, log_det_gain=8.0, exploration=2.0),
            "UCB1": ucb1_bound([0.3], horizon=3000),
            "SupLinRel": sup_lin_rel_bound(**PROBLEM),
            "OFUL": oful_bound(
                horizon=3000,
                n_features=6,
                regularization=0.4,
                norm_bound=2.5,
                noise_scale=0.7,
                failure_probability=0.02,
            ),
            "ConfidenceBall_2": confidence_ball_bound(horizon=3000, n_features=6, failure_probability=0.02),
            "GP-UCB": gp_ucb_bound(**size, information_gain=4.0, noise_variance=0.49, failure_probability=0.02),
            "GP-UCB, agnostic": gp_ucb_agnostic_bound(
                horizon=3000, information_gain=4.0, noise_variance=0.49, norm_bound=2.5, failure_probability=0.02
            ),
            "EXP4": exp4_bound(**size, n_experts=9),
            "EXP4.P": exp4p_bound(**size, n_experts=9, failure_probability=0.02),
            "PolicyElimination": policy_elimination_bound(**size, n_policies=9, failure_probability=0.02),
        }
        assert {system: found[system] for system in expected} == pytest.approx(expected, rel=1e-12)

    def test_missing_inputs_are_named(self):
        needs = {row["system"]: row["needs"] for row in compare_bounds(**PROBLEM) if row["needs"]}

        assert needs == {
            "KernelUCB": "log_det_gain",
            "UCB1": "gaps",
            "GP-UCB": "information_gain",
            "GP-UCB, agnostic": "information_gain",
            "EXP4": "n_experts",
            "EXP4.P": "n_experts",
            "PolicyElimination": "n_experts",
        }

    def test_the_linear_kernel_lends_its_dimension(self):
        given, default = (compare_bounds(**PROBLEM, **extra)[1]["value"] for extra in ({"effective_dimension": 6}, {}))

        assert given == default

    def test_flags_bounds_that_say_nothing(self):
        rows = compare_bounds(**PROBLEM, n_experts=2)

        for row in rows:
            assert row["exceeds_horizon"] == (row["value"] is not None and row["value"] > 3000)
        assert any(row["exceeds_horizon"] for row in rows)
        assert not all(row["exceeds_horizon"] for row in rows)

    def test_says_how_each_bound_holds(self):
        holds = {row["system"]: row["holds"] for row in compare_bounds(**PROBLEM, failure_probability=0.02)}

        assert holds["SupKernelUCB"] == "with probability 0.98"
        assert holds["EXP4"] == holds["UCB1"] == "in expectation"

    def test_a_run_at_the_limit_of_oful_is_too_short(self):
        """γ + T/d = 1, where the logarithm of the bound is zero."""
        rows = compare_bounds(horizon=2, n_actions=2, n_features=4, regularization=0.5)

        assert {row["system"]: row["needs"] for row in rows}["OFUL"] == "more rounds"

    def test_a_run_too_short_for_oful_is_reported_and_not_an_error(self):
        rows = compare_bounds(horizon=2, n_actions=2, n_features=50, regularization=0.1)

        (oful,) = (row for row in rows if row["system"] == "OFUL")
        assert (oful["value"], oful["needs"]) == (None, "more rounds")


class TestText:
    def test_columns_are_aligned(self):
        text = format_bounds(compare_bounds(**PROBLEM, n_experts=9))
        lines = text.splitlines()
        column = lines[0].index("standing")

        assert len(lines) == 1 + len(SYSTEMS)
        assert all(line[column:].startswith(("standing", "verified", "quoted")) for line in lines)
        assert all(line.startswith(system) for line, system in zip(lines[1:], SYSTEMS, strict=True))

    def test_shows_flags_needs_and_rates(self):
        lines = dict(zip(SYSTEMS, format_bounds(compare_bounds(**PROBLEM, n_experts=9)).splitlines()[1:], strict=True))

        assert "> T" in lines["SupKernelUCB"]
        assert "> T" not in lines["EXP4"]
        assert "needs gaps" in lines["UCB1"]
        assert "–" in lines["Epoch-Greedy"]

    def test_an_empty_table_is_its_heading(self):
        assert format_bounds([]).split() == ["system", "bound", "on", "regret", "holds", "standing", "formula"]


class TestRefusals:
    @pytest.mark.parametrize(
        ("call", "message"),
        [
            (lambda: ucb1_bound([-0.1], horizon=5), "not be negative"),
            (lambda: ucb1_bound([[0.1]], horizon=5), "one row of finite numbers"),
            (lambda: ucb1_bound([0.1], horizon=0), "The horizon must be"),
            (lambda: sup_lin_rel_bound(horizon=1, n_actions=2, n_features=3), "at least 2"),
            (lambda: sup_lin_rel_bound(horizon=9, n_actions=2, n_features=0), "The number of features"),
            (lambda: oful_bound(**OFUL, regularization=0.0, norm_bound=1.0), "The regularization must be"),
            (lambda: oful_bound(**{**OFUL, "n_features": 900}, regularization=0.5, norm_bound=1.0), "wants .* above 1"),
            (lambda: oful_bound(**OFUL, regularization=1.0, norm_bound=-1.0), "The norm bound must be"),
            (lambda: confidence_ball_bound(horizon=9, n_features=3, failure_probability=0.0), "strictly between"),
            (lambda: gp_ucb_bound(**GP, information_gain=-1.0, noise_variance=1.0), "The information gain must be"),
            (lambda: gp_ucb_bound(**GP, information_gain=1.0, noise_variance=0.0), "The noise variance must be"),
            (lambda: exp4_bound(horizon=9, n_actions=2, n_experts=0), "The number of experts must be"),
            (lambda: exp4p_bound(horizon=9, n_actions=0, n_experts=2, failure_probability=0.1), "number of actions"),
            (
                lambda: policy_elimination_bound(horizon=9, n_actions=2, n_policies=np.nan, failure_probability=0.1),
                "The number of policies must be",
            ),
            (lambda: compare_bounds(**{**PROBLEM, "horizon": 1}), "The horizon must be"),
            (lambda: compare_bounds(**PROBLEM, regularization=-1.0), "The regularization must be"),
            (lambda: compare_bounds(**PROBLEM, failure_probability=1.0), "strictly between 0 and 1"),
        ],
    )
    def test_messages(self, call, message):
        with pytest.raises(InvalidParameter, match=message):
            call()


OFUL = {"horizon": 9, "n_features": 3, "failure_probability": 0.1}
GP = {"horizon": 9, "n_actions": 3, "failure_probability": 0.1}
