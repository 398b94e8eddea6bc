from dataclasses import FrozenInstanceError
from math import log, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from kernelbandits.errors import InvalidParameter
from kernelbandits.theory import (
    Check,
    effective_dimension,
    elliptical_potential,
    gain_and_dimension,
    interlacing,
    kappa,
    lemma_1,
    lemma_2,
    lemma_3,
    lemma_4,
    lemma_5,
    lemma_6,
    lemma_7,
    log_det_gain,
    n_stages,
    shrinking_widths,
    sup_kernel_ucb_scale,
)
from kernelbandits.types import Prediction, StageStep
from reference import SlowSupKernelUCB

HORIZON = 160
N_ACTIONS = 6


def gaussian(first, second):
    return np.exp(-np.sum((first[:, None] - second) ** 2, axis=2) / (2 * 0.3**2))


def learned_widths(gram, regularization):
    """Width of each point just before it is learned, by its definition."""
    widths = []
    for t in range(len(gram)):
        regularized = gram[:t, :t] + regularization * np.eye(t)
        unexplained = gram[t, t] - gram[t, :t] @ np.linalg.solve(regularized, gram[:t, t])
        widths.append(sqrt(max(unexplained, 0.0) / regularization))
    return np.array(widths)


grams = st.builds(
    lambda seed, size, length: gaussian(*2 * (np.random.default_rng(seed).uniform(size=(size, 2)) / length,)),
    st.integers(0, 10_000),
    st.integers(1, 25),
    st.floats(0.1, 5.0),
)
regularizations = st.floats(-3.0, 2.0).map(lambda exponent: 10.0**exponent)


class TestOnAnyGramMatrix:
    @given(grams, regularizations)
    @settings(max_examples=60)
    def test_squared_widths_add_up_to_little(self, gram, regularization):
        widths = learned_widths(gram, regularization)
        gain = log_det_gain(gram, regularization=regularization)

        check = elliptical_potential(widths, log_det_gain=gain, regularization=regularization)

        assert check.holds
        assert_allclose(check.left, np.sum(widths**2))
        assert_allclose(check.right, kappa(regularization=regularization) * gain)

    @given(grams, regularizations)
    @settings(max_examples=60)
    def test_a_wide_point_moves_the_spectrum(self, gram, regularization):
        before = np.linalg.eigvalsh(gram[:-1, :-1]) if len(gram) > 1 else []
        after = np.linalg.eigvalsh(gram)
        width = learned_widths(gram, regularization)[-1]

        check = lemma_3(before, after, width=width, regularization=regularization)

        assert check.holds
        assert check.name == "Lemma 3"
        assert interlacing(before, after).holds
        # The printed constant follows: κ ≤ 1 + 1/γ ≤ 4 + 6/γ.
        assert kappa(regularization=regularization) <= 4 + 6 / regularization

    @given(grams, regularizations)
    @settings(max_examples=60)
    def test_the_widths_of_a_level_add_up_slowly(self, gram, regularization):
        horizon = max(2, len(gram))
        dimension = effective_dimension(gram, regularization=regularization, horizon=horizon)
        widths = learned_widths(gram, regularization)
        known = {"effective_dimension": dimension, "regularization": regularization, "horizon": horizon}

        assert lemma_4(widths, **known).holds
        assert lemma_4(learned_widths(gram[::2, ::2], regularization), **known).holds  # a level is part of the data

    @given(grams, regularizations)
    @settings(max_examples=30)
    def test_learning_widens_no_interval(self, gram, regularization):
        def widths(n_seen):
            similarity = gram[:n_seen]
            regularized = gram[:n_seen, :n_seen] + regularization * np.eye(n_seen)
            unexplained = 1.0 - np.sum(similarity * np.linalg.solve(regularized, similarity), axis=0)
            return np.sqrt(np.maximum(unexplained, 0.0) / regularization)

        assert shrinking_widths(widths(len(gram) // 2), widths(len(gram))).holds

    @pytest.mark.parametrize("n_features", [2, 40])
    def test_both_spectra_are_one(self, n_features):
        phi = np.random.default_rng(0).normal(size=(15, n_features))

        check = lemma_2(phi, phi @ phi.T)

        assert check.holds
        assert check.left < 1e-12

    def test_both_spectra_of_nothing(self):
        assert lemma_2(np.zeros((3, 2)), np.zeros((3, 3))).holds

    def test_a_skew_basis_changes_the_eigenvalues(self):
        """Erratum E16: coordinates in a basis that is not orthonormal are no features."""
        phi = np.random.default_rng(0).normal(size=(15, 3))
        skew = np.array([[1.0, 0.5, 0.0], [0.0, 1.0, 0.8], [0.0, 0.0, 2.0]])

        assert not lemma_2(phi @ skew, phi @ phi.T).holds


class TestFormulas:
    def test_interval_looks_at_the_point_with_least_room(self):
        prediction = Prediction(np.array([0.0, 1.0, 2.0]), np.array([0.5, 0.1, 0.4]))

        check = lemma_1(prediction, [0.4, 0.7, 2.0], scale=3.5)

        assert check == Check(
            name="Lemma 1", left=pytest.approx(0.3), right=pytest.approx(0.35), holds=True, assumes=check.assumes
        )
        assert not lemma_1(prediction, [0.4, 0.7, 2.0], scale=2.9).holds

    def test_width_against_growth(self):
        check = lemma_3([2.0, 0.5], [2.6, 0.7, 0.1], width=0.4, regularization=0.5, largest_similarity=2.0)

        growth = 0.6 / 2.5 + 0.2 / 1.0 + 0.1 / 0.5
        assert_allclose(check.right, kappa(regularization=0.5, largest_similarity=2.0) * growth, rtol=1e-12)
        assert_allclose(check.left, 0.16, rtol=1e-12)

    def test_a_width_that_moves_nothing_is_a_failure(self):
        assert not lemma_3([2.0], [2.0], width=0.1, regularization=0.5).holds

    def test_a_falling_eigenvalue_is_reported_as_such(self):
        check = lemma_3([2.0, 1.0], [3.0, 0.5, 0.5], width=0.1, regularization=0.5)

        assert not check.holds
        assert (check.name, check.left, check.right) == ("Lemma 3, eigenvalues", 1.0, 0.5)

    def test_sum_of_widths(self):
        widths = np.full(9, 0.3)

        check = lemma_4(widths, effective_dimension=2, regularization=0.5, horizon=50)

        room = 2 * kappa(regularization=0.5) * 2 * max(log(1 + 50 / 1.0), log(50))
        assert_allclose([check.left, check.right], [2.7, sqrt(room * 9)], rtol=1e-12)
        assert not lemma_4(np.full(9, 9.0), effective_dimension=2, regularization=0.5, horizon=50).holds

    def test_size_of_a_level(self):
        check = lemma_5(40, 3, scale=1.7, effective_dimension=2, regularization=0.5, horizon=50)

        room = 2 * kappa(regularization=0.5) * 2 * log(51)
        assert_allclose([check.left, check.right], [40, 4**3 * 1.7**2 * room], rtol=1e-12)
        assert not lemma_5(40, 1, scale=0.3, effective_dimension=2, regularization=0.5, horizon=50).holds

    def test_an_empty_level_is_small(self):
        assert lemma_5(0, 1, scale=0.0, effective_dimension=1, regularization=0.5, horizon=50).holds
        assert lemma_4([], effective_dimension=1, regularization=0.5, horizon=50).holds

    def test_growing_widths_are_a_failure(self):
        check = shrinking_widths([0.5, 0.2], [0.4, 0.3])

        assert (check.left, check.right, check.holds) == (0.3, 0.2, False)

    def test_rounding_is_forgiven_and_nothing_more(self):
        assert shrinking_widths([0.5], [0.5 + 1e-10]).holds
        assert not shrinking_widths([0.5], [0.5 + 1e-8]).holds
        assert elliptical_potential([1e3], log_det_gain=0.0, regularization=1.0).holds is False

    def test_a_check_is_as_true_as_its_claim(self):
        assert shrinking_widths([0.5], [0.4])
        assert not shrinking_widths([0.4], [0.5])
        with pytest.raises(FrozenInstanceError):
            shrinking_widths([0.5], [0.4]).holds = False


class Run:
    """A SupKernelUCB run on a smooth function with Bernoulli rewards; level rewards may be replaced."""

    def __init__(self, *, replace_stage=None, explore="widest", scale=None, seed=0, horizon=HORIZON):
        generator = np.random.default_rng(seed)
        self.contexts = generator.uniform(size=(horizon, N_ACTIONS, 1))
        draws = generator.random(horizon)
        replacement = np.random.default_rng(99)
        centers, weights = np.array([[0.2], [0.7]]), np.array([0.3, 0.6])
        self.regularization = 0.5
        self.norm = sqrt(weights @ gaussian(centers, centers) @ weights)
        self.scale = scale or sup_kernel_ucb_scale(
            horizon=horizon,
            n_actions=N_ACTIONS,
            failure_probability=0.1,
            regularization=self.regularization,
            norm_bound=self.norm,
        )
        policy = SlowSupKernelUCB(
            gaussian,
            self.regularization,
            horizon=horizon,
            scale=self.scale,
            n_stages=n_stages(horizon),
            explore=explore,
        )
        self.truth = [gaussian(contexts, centers) @ weights for contexts in self.contexts]
        self.walks = []
        for t, contexts in enumerate(self.contexts):
            self.walks.append(policy.walk(contexts))
            action, stage = policy.choose(contexts)
            reward = float(draws[t] < self.truth[t][action])
            if stage is not None and stage == replace_stage:
                reward = 5.0 * replacement.normal()
            policy.learn(contexts[action], stage, reward)
        self.policy = policy


@pytest.fixture(scope="module")
def run():
    return Run(scale=0.6)


class TestLevels:
    def test_the_run_is_worth_looking_at(self, run):
        assert {step.outcome for walk in run.walks for step in walk} >= {"explore", "narrow"}
        assert max(step.stage for walk in run.walks for step in walk) >= 3

    @pytest.mark.parametrize("stage", [1, 2, 3])
    def test_membership_ignores_the_rewards_of_its_own_level(self, run, stage):
        replaced = Run(scale=0.6, replace_stage=stage)

        check = lemma_6(run.walks, replaced.walks, stage=stage)

        assert check.holds
        assert (check.left, check.right) == (0.0, 0.0)

    def test_higher_levels_do_feel_the_change(self, run):
        replaced = Run(scale=0.6, replace_stage=1)

        assert not lemma_6(run.walks, replaced.walks, stage=3).holds

    def test_exploring_by_score_loses_independence(self):
        """The explored action may not look at means of its own level."""
        original, replaced = (Run(scale=0.6, explore="best score", replace_stage=stage) for stage in (None, 1))

        check = lemma_6(original.walks, replaced.walks, stage=1)

        assert not check.holds
        assert check.left > 10

    def test_differences_of_every_kind_are_seen(self):
        def step(**changes):
            values = {
                "stage": 1,
                "active": np.array([0, 1]),
                "prediction": Prediction(np.zeros(2), np.ones(2)),
                "scaled_width": np.ones(2),
                "outcome": "explore",
            }
            return StageStep(**{**values, **changes})

        same = [[step()]]
        for changes in (
            {"active": np.array([0, 2])},
            {"outcome": "narrow"},
            {"scaled_width": np.array([1.0, 1.1])},
            {"stage": 2},
        ):
            assert not lemma_6(same, [[step(**changes)]], stage=2).holds
        assert not lemma_6(same, [[step(), step(stage=2)]], stage=2).holds
        assert lemma_6(same, [[step(), step(stage=2)]], stage=1).holds
        assert lemma_6(same, [[step(prediction=Prediction(np.ones(2), np.ones(2)))]], stage=1).holds

    def test_the_valid_scale_keeps_all_three_promises(self):
        run = Run(horizon=300)
        for walk, truth in zip(run.walks, run.truth, strict=True):
            assert all(lemma_7(walk, truth, scale=run.scale))
            for step in walk:
                assert lemma_1(step.prediction, truth[step.active], scale=run.scale)

    def test_levels_stay_small(self, run):
        known = {
            "effective_dimension": effective_dimension(
                gaussian(*2 * (np.vstack([row for level in run.policy.contexts for row in level]),)),
                regularization=run.regularization,
                horizon=HORIZON,
            ),
            "regularization": run.regularization,
            "horizon": HORIZON,
        }
        for stage, rows in enumerate(run.policy.contexts):
            if rows:
                widths = learned_widths(gaussian(*2 * (np.array(rows),)), run.regularization)
                assert lemma_4(widths, **known)
                assert lemma_5(len(rows), stage, scale=run.scale, **known)

    def test_a_narrow_scale_breaks_the_interval(self):
        run = Run(scale=0.05)

        assert not all(
            lemma_7(walk, truth, scale=run.scale)[0] for walk, truth in zip(run.walks, run.truth, strict=True)
        )


class TestLemma7:
    walk = (
        StageStep(1, np.arange(3), Prediction(np.array([0.5, 0.2, 0.9]), np.full(3, 0.1)), np.full(3, 0.4), "narrow"),
        StageStep(2, np.array([0, 2]), Prediction(np.array([0.4, 0.8]), np.full(2, 0.05)), np.full(2, 0.2), "explore"),
    )

    def test_every_promise_kept(self):
        interval, survival, gap = lemma_7(self.walk, [0.5, 0.3, 0.85], scale=4.0)

        assert interval.holds
        assert (survival.left, survival.right, survival.holds) == (0.0, 0.0, True)
        assert (gap.left, gap.right, gap.holds) == (pytest.approx(0.35), 2.0, True)

    def test_the_best_action_is_gone(self):
        _, survival, _ = lemma_7(self.walk, [0.5, 1.0, 0.85], scale=4.0)

        assert (survival.left, survival.holds) == (pytest.approx(0.15), False)

    def test_one_of_several_best_actions_is_enough(self):
        assert lemma_7(self.walk, [0.5, 0.85, 0.85], scale=4.0)[1].holds

    def test_a_bad_action_is_still_there(self):
        _, _, gap = lemma_7(self.walk, [-2.0, 0.3, 0.85], scale=4.0)

        assert (gap.left, gap.right, gap.holds) == (pytest.approx(2.85), 2.0, False)
        assert lemma_7(self.walk, [-2.0, 0.3, 0.85], scale=4.0, threshold_unit=1.5)[2].holds

    def test_the_interval_fails_at_a_deep_level(self):
        interval, _, _ = lemma_7(self.walk, [0.7, 0.3, 0.85], scale=4.0)

        assert (interval.left, interval.right, interval.holds) == (pytest.approx(0.3), pytest.approx(0.2), False)


PREDICTION = Prediction(np.zeros(2), np.ones(2))
KNOWN = {"effective_dimension": 1, "regularization": 1.0, "horizon": 10}


class TestRefusals:
    @pytest.mark.parametrize(
        ("call", "message"),
        [
            (lambda: lemma_1(PREDICTION, [1.0], scale=1.0), "equally many predictions and true rewards.*2 and 1"),
            (lambda: lemma_1(PREDICTION, [1.0, np.nan], scale=1.0), "The true rewards must be"),
            (lambda: lemma_1(PREDICTION, [1.0, 1.0], scale=-1.0), "The scale must be"),
            (lambda: lemma_2(np.ones((2, 3)), np.eye(3)), r"got shapes \(2, 3\) and \(3, 3\)"),
            (lambda: lemma_3([], [], width=1.0, regularization=1.0), "Both spectra are empty"),
            (lambda: lemma_3([1.0], [1.0], width=-1.0, regularization=1.0), "The width must be"),
            (lambda: lemma_3([1.0], [1.0], width=1.0, regularization=0.0), "The regularization must be"),
            (lambda: lemma_4([[1.0]], **KNOWN), "The widths must be one row"),
            (lambda: lemma_5(-1, 1, scale=1.0, **KNOWN), "The size of a stage must be"),
            (lambda: lemma_5(1, 0, scale=1.0, **KNOWN), "The stage must be"),
            (lambda: lemma_6([], [[]], stage=1), "same rounds, got 0 and 1"),
            (lambda: lemma_6([], [], stage=0), "The stage must be"),
            (lambda: lemma_7((), [1.0], scale=1.0), "at least one level"),
            (lambda: lemma_7(TestLemma7.walk, [1.0, 2.0], scale=1.0), "beyond the 2 whose true rewards"),
            (lambda: lemma_7(TestLemma7.walk, [1.0, 2.0, 0.0], scale=1.0, threshold_unit=0.0), "The threshold unit"),
            (lambda: shrinking_widths([1.0], []), "equally many widths before and after"),
            (
                lambda: elliptical_potential([1.0], log_det_gain=-1.0, regularization=1.0),
                "The log-determinant gain must be",
            ),
        ],
    )
    def test_messages(self, call, message):
        with pytest.raises(InvalidParameter, match=message):
            call()


class TestGainAndDimension:
    """Section 4.1, corrected: ½ (d̃ − 1) ln(1 + (γ/σ²) ln T) ≤ I."""

    @given(grams, regularizations, regularizations, st.integers(2, 10**6))
    @settings(max_examples=60)
    def test_holds_for_any_points(self, gram, regularization, noise_variance, horizon):
        parameters = {"regularization": regularization, "noise_variance": noise_variance, "horizon": horizon}

        check = gain_and_dimension(gram, **parameters)

        spectrum = np.linalg.eigvalsh(gram)[::-1].clip(0.0)
        dimension = next(j for j in range(1, len(gram) + 1) if j * regularization * log(horizon) >= sum(spectrum[j:]))
        growth = np.log1p(regularization / noise_variance * log(horizon))
        assert check
        assert_allclose(check.left, (dimension - 1) / 2 * growth, rtol=1e-9, atol=1e-12)
        assert_allclose(check.right, np.sum(np.log1p(spectrum / noise_variance)) / 2, rtol=1e-6, atol=1e-9)

    def test_counts_and_spectra_serve_as_well(self):
        gram, counts = gaussian(*2 * (np.random.default_rng(0).uniform(size=(4, 2)),)), np.array([3, 1, 2, 5])
        repeated = np.repeat(np.repeat(gram, counts, axis=0), counts, axis=1)
        parameters = {"regularization": 0.03, "noise_variance": 0.4, "horizon": 11}

        whole = gain_and_dimension(repeated, **parameters)

        for other in (
            gain_and_dimension(gram, counts=counts, **parameters),
            gain_and_dimension(spectrum=np.linalg.eigvalsh(repeated).clip(0.0), **parameters),
        ):
            assert_allclose([other.left, other.right], [whole.left, whole.right], rtol=1e-7)
        assert whole.left > 0.2

    def test_a_gain_of_fewer_points_breaks_it(self):
        """Control: d̃ of all points and I of one."""
        gram = np.eye(30)
        parameters = {"regularization": 0.05, "noise_variance": 0.4, "horizon": 30}

        whole, one = gain_and_dimension(gram, **parameters), gain_and_dimension(gram[:1, :1], **parameters)

        assert whole
        assert whole.left > one.right

    def test_rejections(self):
        with pytest.raises(InvalidParameter, match="noise variance"):
            gain_and_dimension(np.eye(2), regularization=1.0, noise_variance=0.0, horizon=2)
        with pytest.raises(InvalidParameter, match="horizon"):
            gain_and_dimension(np.eye(2), regularization=1.0, noise_variance=1.0, horizon=1)
