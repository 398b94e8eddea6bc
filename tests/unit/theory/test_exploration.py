import json
from dataclasses import FrozenInstanceError, fields
from math import inf, log, nan, pi, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from kernelbandits.errors import ForeignFile, InvalidParameter
from kernelbandits.theory import (
    IGPUCB,
    Constant,
    Exploration,
    FixedDesign,
    GPUCBAgnostic,
    GPUCBFinite,
    Mixture,
    RoundState,
    SelfNormalized,
    as_exploration,
    exploration_from,
)

CLAIM = {"noise_scale": 0.7, "norm_bound": 2.5, "failure_probability": 0.03}
SCHEDULES = [
    Constant(0.4),
    FixedDesign(**CLAIM, n_actions=12, horizon=500),
    SelfNormalized(**CLAIM),
    Mixture(**CLAIM),
    IGPUCB(**CLAIM, horizon=50),
    GPUCBFinite(failure_probability=0.03, divide_by=0.5),
    GPUCBAgnostic(norm_bound=2.5, failure_probability=0.03),
]


def situation(**changes):
    return RoundState(**{"round_index": 7, "n_actions": 12, "log_det_gain": 3.2, "regularization": 0.6, **changes})


class TestFormulas:
    """Each row of the table, written out with its numbers."""

    def test_constant(self):
        assert Constant(0.4)(situation()) == 0.4

    def test_fixed_design(self):
        expected = 0.7 * sqrt(2 * log(2 * 12 * 500 / 0.03)) + sqrt(0.6) * 2.5

        assert_allclose(FixedDesign(**CLAIM, n_actions=12, horizon=500)(situation()), expected, rtol=1e-12)

    def test_self_normalized(self):
        expected = 0.7 * sqrt(3.2 + 2 * log(1 / 0.03)) + sqrt(0.6) * 2.5

        assert_allclose(SelfNormalized(**CLAIM)(situation()), expected, rtol=1e-12)

    def test_mixture(self):
        expected = sqrt(0.49 * (3.2 + 2 * log(1 / 0.03)) + 0.6 * 2.5**2)

        assert_allclose(Mixture(**CLAIM)(situation()), expected, rtol=1e-12)

    def test_igp_ucb(self):
        expected = sqrt(1.04) * (2.5 + 0.7 * sqrt(2 * (1.6 + 1 + log(1 / 0.03))))

        assert_allclose(IGPUCB(**CLAIM, horizon=50)(situation(regularization=1.04)), expected, rtol=1e-12)

    @pytest.mark.parametrize("divide_by", [1.0, 5.0])
    def test_gp_ucb_for_finitely_many_actions(self, divide_by):
        beta = 2 * log(12 * 49 * pi**2 / (6 * 0.03)) / divide_by

        schedule = GPUCBFinite(failure_probability=0.03, divide_by=divide_by)

        assert_allclose(schedule(situation()), sqrt(0.6 * beta), rtol=1e-12)

    @pytest.mark.parametrize("divide_by", [1.0, 40.0])
    def test_gp_ucb_without_a_prior(self, divide_by):
        beta = (2 * 2.5**2 + 300 * 1.6 * log(7 / 0.03) ** 3) / divide_by

        schedule = GPUCBAgnostic(norm_bound=2.5, failure_probability=0.03, divide_by=divide_by)

        assert_allclose(schedule(situation()), sqrt(0.6 * beta), rtol=1e-12)

    def test_gp_ucb_grows_linearly_with_the_norm(self):
        """Erratum E23: β holds the square of the norm, and η its root."""
        values = [
            GPUCBAgnostic(norm_bound=norm, failure_probability=0.1)(situation(log_det_gain=0.0)) for norm in (3.0, 6.0)
        ]

        assert_allclose(values[1], 2 * values[0], rtol=1e-12)
        assert values[1] < 3 * values[0]  # and not quadratically, as printed

    @pytest.mark.parametrize("schedule", SCHEDULES)
    def test_rounding_below_zero_in_the_gain_is_ignored(self, schedule):
        assert schedule(situation(log_det_gain=-1e-15)) == schedule(situation(log_det_gain=0.0))


class TestOrder:
    scales = st.just(0.0) | st.floats(1e-100, 100.0)  # whose squares do not lose their digits

    @given(scales, scales, st.floats(1e-9, 0.999), st.floats(0.0, 1e4), st.floats(1e-6, 1e3))
    def test_the_mixture_is_never_wider_than_the_self_normalized(self, noise, norm, delta, gain, regularization):
        claim = {"noise_scale": noise, "norm_bound": norm, "failure_probability": delta}
        now = situation(log_det_gain=gain, regularization=regularization)

        assert Mixture(**claim)(now) <= SelfNormalized(**claim)(now) * (1 + 1e-12)

    @pytest.mark.parametrize("schedule", SCHEDULES)
    def test_no_schedule_falls_as_rounds_and_gain_grow(self, schedule):
        values = [schedule(situation(round_index=t, log_det_gain=0.5 * t)) for t in (1, 2, 10, 400)]

        assert values == sorted(values)

    @pytest.mark.parametrize("kind", [FixedDesign, SelfNormalized, Mixture, IGPUCB, GPUCBFinite, GPUCBAgnostic])
    def test_more_confidence_is_wider(self, kind):
        names = {field.name for field in fields(kind)}
        others = {"noise_scale": 0.7, "norm_bound": 2.5, "n_actions": 12, "horizon": 50}
        others = {name: value for name, value in others.items() if name in names}

        assert kind(**others, failure_probability=0.01)(situation()) > kind(**others, failure_probability=0.2)(
            situation()
        )


class TestClaims:
    @pytest.mark.parametrize("schedule", SCHEDULES)
    def test_only_the_constant_is_tuned(self, schedule):
        assert schedule.is_tuned == isinstance(schedule, Constant)
        assert schedule.assumes.endswith(".")
        assert isinstance(schedule, Exploration)

    @pytest.mark.parametrize(
        "schedule",
        [
            GPUCBFinite(failure_probability=0.1, divide_by=5.0),
            GPUCBAgnostic(norm_bound=1.0, failure_probability=0.1, divide_by=2.0),
        ],
    )
    def test_a_divided_beta_claims_nothing(self, schedule):
        assert schedule.is_tuned

    @pytest.mark.parametrize("schedule", SCHEDULES)
    def test_nothing_is_broken_in_a_fitting_situation(self, schedule):
        regularization = 1.04 if isinstance(schedule, IGPUCB) else 0.6

        assert schedule.violated_assumption(situation(regularization=regularization)) is None

    def test_fixed_design_notices_a_long_run(self):
        schedule = FixedDesign(**CLAIM, n_actions=12, horizon=500)

        assert schedule.violated_assumption(situation(round_index=500)) is None
        assert "built for 500 rounds, and this is round 501" in schedule.violated_assumption(situation(round_index=501))

    def test_fixed_design_notices_too_many_actions(self):
        schedule = FixedDesign(**CLAIM, n_actions=12, horizon=500)

        assert "at most 12 actions per round, and round 7 has 13" in schedule.violated_assumption(
            situation(n_actions=13)
        )
        assert "not adaptive" in schedule.assumes

    def test_igp_ucb_notices_another_regularization(self):
        schedule = IGPUCB(**CLAIM, horizon=50)

        assert schedule.violated_assumption(situation(regularization=1.04 * (1 + 1e-10))) is None
        assert "1 + 2/horizon = 1.04, and it is 1" in schedule.violated_assumption(situation(regularization=1.0))

    def test_igp_ucb_notices_a_long_run(self):
        broken = IGPUCB(**CLAIM, horizon=50).violated_assumption(situation(regularization=1.04, round_index=51))

        assert "built for 50 rounds" in broken


class TestDescriptions:
    @pytest.mark.parametrize("schedule", SCHEDULES)
    def test_a_description_survives_a_file(self, schedule):
        description = json.loads(json.dumps(schedule.describe()))

        restored = exploration_from(description)

        assert restored == schedule
        assert restored.describe() == schedule.describe()
        assert description["class"] == type(schedule).__name__

    def test_numpy_numbers_become_plain_ones(self):
        schedule = FixedDesign(
            noise_scale=np.float32(0.5),
            norm_bound=np.int64(2),
            failure_probability=np.float64(0.1),
            n_actions=np.int64(3),
            horizon=100.0,
        )

        assert [type(value) for value in list(schedule.describe().values())[1:]] == [float, float, float, int, int]

    @pytest.mark.parametrize("description", [{"class": "Foo"}, {}, {"class": 3}, {"class": "RoundState"}])
    def test_an_unknown_class_is_foreign(self, description):
        with pytest.raises(ForeignFile, match=r"No exploration schedule .* is known here"):
            exploration_from(description)

    @pytest.mark.parametrize("values", [{"value": -1.0}, {"valve": 1.0}])
    def test_a_description_that_breaks_the_rules_is_foreign(self, values):
        with pytest.raises(ForeignFile, match="'Constant' cannot be made from"):
            exploration_from({"class": "Constant", **values})

    def test_schedules_are_frozen(self):
        with pytest.raises(FrozenInstanceError):
            Constant(1.0).value = 2.0


class TestAsExploration:
    @pytest.mark.parametrize("value", [2, 2.0, np.float64(2.0), np.int32(2)])
    def test_a_number_is_a_constant(self, value):
        assert as_exploration(value) == Constant(2.0)

    @pytest.mark.parametrize("schedule", SCHEDULES)
    def test_a_schedule_stays_itself(self, schedule):
        assert as_exploration(schedule) is schedule

    @pytest.mark.parametrize("value", [-0.5, nan, inf])
    def test_an_impossible_number_is_rejected(self, value):
        with pytest.raises(InvalidParameter, match=r"A constant exploration .* 1\.0 is a good start"):
            as_exploration(value)

    @pytest.mark.parametrize("value", ["1.0", None, True, [1.0], len, Mixture])
    def test_anything_else_is_rejected(self, value):
        with pytest.raises(InvalidParameter, match=r"a number or a schedule with __call__ and describe.*Mixture\("):
            as_exploration(value)

    def test_a_subclass_of_the_protocol_needs_two_methods_only(self):
        class Decaying(Exploration):
            def __call__(self, situation):
                return 1.0 / situation.round_index

            def describe(self):
                return {"class": "Decaying"}

        schedule = as_exploration(Decaying())

        assert isinstance(schedule, Decaying)
        assert schedule.is_tuned
        assert schedule.violated_assumption(situation()) is None
        assert "no claim" in schedule.assumes

    def test_a_bare_object_is_completed(self):
        class Bare:
            def __call__(self, situation):
                return np.float64(0.25) * situation.n_actions

            def describe(self):
                return {"class": "Bare"}

        schedule = as_exploration(Bare())

        assert schedule(situation()) == 3.0
        assert schedule.describe() == {"class": "Bare"}
        assert schedule.is_tuned
        assert schedule.violated_assumption(situation()) is None
        assert "no claim" in schedule.assumes

    def test_what_a_bare_object_does_say_is_kept(self):
        class Outspoken:
            assumes = "Nothing."
            is_tuned = False

            def __call__(self, situation):
                return 1.0

            def describe(self):
                return {"class": "Outspoken"}

        schedule = as_exploration(Outspoken())

        assert schedule.assumes == "Nothing."
        assert not schedule.is_tuned


class TestRefusals:
    @pytest.mark.parametrize("kind", [SelfNormalized, Mixture])
    @pytest.mark.parametrize(
        ("name", "value", "message"),
        [
            ("noise_scale", -0.1, r"The noise scale .* 0\.5 is right for rewards in \[0, 1\]"),
            ("norm_bound", -1.0, "The norm bound must be a finite number, zero or above, got -1.0"),
            ("norm_bound", inf, "The norm bound"),
            ("norm_bound", "large", "The norm bound must be one number, got 'large'"),
            ("failure_probability", 0.0, "strictly between 0 and 1, got 0.0"),
            ("failure_probability", 1.0, r"strictly between 0 and 1.*0\.05 is a common choice"),
            ("failure_probability", nan, "strictly between 0 and 1"),
        ],
    )
    def test_claims(self, kind, name, value, message):
        with pytest.raises(InvalidParameter, match=message):
            kind(**{**CLAIM, name: value})

    @pytest.mark.parametrize(
        ("make", "message"),
        [
            (lambda: FixedDesign(**CLAIM, n_actions=0, horizon=5), "The number of actions .* at least 1, got 0"),
            (lambda: FixedDesign(**CLAIM, n_actions=3, horizon=1.5), "The horizon must be a whole number"),
            (lambda: IGPUCB(**CLAIM, horizon=0), "The horizon must be a whole number of at least 1"),
            (lambda: GPUCBFinite(failure_probability=0.1, divide_by=0.0), "The divisor of β .* authors use 5.0"),
            (lambda: GPUCBAgnostic(norm_bound=1.0, failure_probability=0.1, divide_by=-1), "The divisor of β"),
            (lambda: GPUCBAgnostic(norm_bound=nan, failure_probability=0.1), "The norm bound"),
            (lambda: GPUCBFinite(failure_probability=2.0), "strictly between 0 and 1"),
            (lambda: situation(round_index=0), "counted from 1"),
            (lambda: situation(n_actions=0), "counted from 1"),
            (lambda: situation(regularization=0.0), "regularization is positive"),
            (lambda: situation(regularization=nan), "regularization is positive"),
            (lambda: situation(log_det_gain=nan), "log-determinant gain must be a number"),
        ],
    )
    def test_other_parameters(self, make, message):
        with pytest.raises(InvalidParameter, match=message):
            make()
