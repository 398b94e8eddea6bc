"""The slips of Valko et al. (2013) in small: the printed step, the corrected one, and the definition between them.

Numbered as in docs/errata.md. Slips in bounds and spectra are shown in unit/theory; the counter-example to Theorem 1
in statistical/test_errata_e1.py.
"""

import re
from math import log, sqrt
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from reference import InverseKernelUCB

REGULARIZATION = 0.37


def gaussian(first, second):
    return np.exp(-np.sum((first[:, None] - second) ** 2, axis=2) / (2 * 0.4**2))


def linear(first, second):
    return first @ second.T


def ridge(kernel, seen, rewards, points, regularization=REGULARIZATION):
    """Mean and width by their definition, from all data at once."""
    regularized = kernel(seen, seen) + regularization * np.eye(len(seen))
    similarity = kernel(seen, points)
    own = np.diagonal(kernel(points, points))
    mean = similarity.T @ np.linalg.solve(regularized, rewards)
    unexplained = own - np.sum(similarity * np.linalg.solve(regularized, similarity), axis=0)
    return mean, np.sqrt(np.maximum(unexplained, 0.0) / regularization)


@pytest.fixture
def generator():
    return np.random.default_rng(7)


def test_every_test_that_the_errata_name_exists():
    root = Path(__file__).parents[2]
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", (root / "docs" / "errata.md").read_text(encoding="utf-8"))

    assert len(named) > 25
    for path, name in named:
        assert f"def {name}(" in (root / path).read_text(encoding="utf-8"), f"{path} has no {name}"


def test_every_erratum_has_its_section():
    text = (Path(__file__).parents[2] / "docs" / "errata.md").read_text(encoding="utf-8")

    sections = re.split(r"\n## ", text)[1:]
    assert [section.split("\n")[0] for section in sections[:25]] == [f"E{number}" for number in range(1, 26)]
    assert all("*Test.*" in section and "Weight" in section for section in sections[:25])


class TestReference:
    """Algorithm 1 once corrected is ridge regression: the oracle that other tests may lean on."""

    @pytest.mark.parametrize("regularization", [0.05, 0.37, 4.0])
    @pytest.mark.parametrize("kernel", [gaussian, linear])
    def test_agrees_with_the_definition_after_every_observation(self, generator, kernel, regularization):
        seen, rewards = generator.uniform(size=(25, 2)), generator.normal(size=25)
        points = generator.uniform(size=(8, 2))
        model = InverseKernelUCB(kernel, regularization)

        for t in range(25):
            model.observe(seen[t], rewards[t])

            mean, width = model.predict(points)
            expected_mean, expected_width = ridge(kernel, seen[: t + 1], rewards[: t + 1], points, regularization)
            assert_allclose(mean, expected_mean, atol=1e-9)
            assert_allclose(width, expected_width, rtol=1e-7, atol=1e-9)

    def test_knows_nothing_at_first(self, generator):
        points = generator.uniform(size=(3, 2))

        mean, width = InverseKernelUCB(linear, 0.37).predict(points)

        assert_allclose(mean, 0.0)
        assert_allclose(width, np.linalg.norm(points, axis=1) / sqrt(0.37))


class TestE2StaleContexts:
    """Algorithm 1 scores the contexts of round t at its end and plays the winner in round t + 1."""

    def play(self, rounds, truth, *, is_printed):
        model, actions, best_now = InverseKernelUCB(gaussian, REGULARIZATION), [], []
        scores = np.eye(rounds.shape[1])[0]  # u_0 of the paper
        for contexts in rounds:
            mean, width = model.predict(contexts)
            current = mean + 0.5 * width
            action = int(np.argmax(scores if is_printed else current))
            model.observe(contexts[action], truth(contexts[action]))
            mean, width = model.predict(contexts)
            scores = mean + 0.5 * width
            actions.append(action)
            best_now.append(int(np.argmax(current)))
        return actions, best_now

    def truth(self, context):
        return float(np.sin(5 * context[0]))

    def test_fixed_contexts_hide_it(self, generator):
        rounds = np.tile(generator.uniform(size=(1, 6, 1)), (30, 1, 1))

        printed, best = self.play(rounds, self.truth, is_printed=True)

        assert printed[1:] == best[1:]

    def test_changing_contexts_show_it(self, generator):
        rounds = generator.uniform(size=(60, 6, 1))

        printed, best = self.play(rounds, self.truth, is_printed=True)
        corrected, corrected_best = self.play(rounds, self.truth, is_printed=False)

        assert np.mean(np.array(printed) == best) < 0.5  # little better than one in six
        assert corrected == corrected_best
        earned = [
            sum(self.truth(contexts[action]) for contexts, action in zip(rounds, actions, strict=True))
            for actions in (printed, corrected)
        ]
        assert earned[0] < 0.7 * earned[1]


class TestE3FirstInverse:
    """ "1/k + γ" must be 1/(k + γ)."""

    def test_figures(self):
        assert_allclose(1 / 1.0 + 0.37, 1.37)
        assert_allclose(1 / (1.0 + 0.37), 0.73, atol=1e-3)

    def test_the_recursion_never_recovers(self, generator):
        seen = generator.uniform(size=(6, 2))
        own = 1.0
        corrected, printed = InverseKernelUCB(gaussian, REGULARIZATION), InverseKernelUCB(gaussian, REGULARIZATION)
        corrected.observe(seen[0], 0.0)
        printed.observe(seen[0], 0.0)
        printed.inverse = np.array([[1 / own + REGULARIZATION]])

        for row in seen[1:]:
            corrected.observe(row, 0.0)
            printed.observe(row, 0.0)

        regularized = gaussian(seen, seen) + REGULARIZATION * np.eye(6)
        assert_allclose(np.linalg.inv(corrected.inverse), regularized, atol=1e-9)
        regularized[0, 0] = 1 / (1 / own + REGULARIZATION)  # what the printed start stands for
        assert_allclose(np.linalg.inv(printed.inverse), regularized, atol=1e-9)


class TestE4WithAndWithoutRegularization:
    """One letter for the Gram matrix, with γ in Algorithms 1 and 3, without in the text."""

    def test_algorithm_1_has_the_width_without_its_factor(self, generator):
        seen, points = generator.uniform(size=(10, 2)), generator.uniform(size=(4, 2))
        inverse = np.linalg.inv(gaussian(seen, seen) + REGULARIZATION * np.eye(10))
        similarity = gaussian(seen, points)
        sigma = np.sqrt(1.0 - np.sum(similarity * (inverse @ similarity), axis=0))

        _, width = ridge(gaussian, seen, np.zeros(10), points)

        assert_allclose(sigma, sqrt(REGULARIZATION) * width, rtol=1e-9)
        assert_allclose(2.5 / sqrt(REGULARIZATION) * sigma, 2.5 * width, rtol=1e-9)  # its score restores it

    def test_the_plain_inverse_gives_another_estimate(self, generator):
        seen, rewards = generator.uniform(size=(5, 2)), generator.normal(size=5)
        similarity = gaussian(seen, seen)
        interpolated = similarity.T @ np.linalg.solve(similarity, rewards)

        mean, width = ridge(gaussian, seen, rewards, seen)

        assert_allclose(interpolated, rewards, atol=1e-8)  # without γ the noise is believed
        assert np.max(np.abs(mean - rewards)) > 0.1
        assert np.all(width > 0.1)

    def test_a_repeated_context_has_no_plain_inverse(self):
        seen = np.array([[0.3], [0.3]])

        assert np.linalg.matrix_rank(gaussian(seen, seen)) == 1
        assert_allclose(ridge(linear, seen, np.array([1.0, 2.0]), seen)[0], 0.09 * 3.0 / (0.37 + 0.18))


class TestE5WidthOfAlgorithm3:
    """xᵀK⁻¹x must be kᵀK⁻¹k, with the similarities of x to the level's contexts."""

    def test_the_printed_form_has_the_wrong_shape(self, generator):
        seen, point = generator.uniform(size=(5, 2)), generator.uniform(size=2)
        inverse = np.linalg.inv(gaussian(seen, seen) + REGULARIZATION * np.eye(5))

        with pytest.raises(ValueError, match="mismatch"):
            point @ inverse @ point

    def test_and_the_wrong_value_where_the_shape_happens_to_fit(self, generator):
        seen = 0.4 * generator.uniform(size=(3, 3))
        points = seen[:1]  # a context that the level knows
        inverse = np.linalg.inv(gaussian(seen, seen) + REGULARIZATION * np.eye(3))
        printed = sqrt((1.0 - points[0] @ inverse @ points[0]) / REGULARIZATION)
        similarity = gaussian(seen, points)[:, 0]
        corrected = sqrt((1.0 - similarity @ inverse @ similarity) / REGULARIZATION)

        _, width = ridge(gaussian, seen, np.zeros(3), points)

        assert_allclose(corrected, width[0], rtol=1e-9)
        assert abs(printed - width[0]) > 0.1 * width[0]

    def test_rewards_are_those_of_the_level(self, generator):
        contexts, rewards = generator.uniform(size=(9, 2)), generator.normal(size=9)
        level = np.array([0, 3, 4, 8])
        similarity = gaussian(contexts[level], contexts)
        inverse = np.linalg.inv(gaussian(contexts[level], contexts[level]) + REGULARIZATION * np.eye(4))

        with pytest.raises(ValueError, match="mismatch"):
            similarity.T @ inverse @ rewards
        mean, _ = ridge(gaussian, contexts[level], rewards[level], contexts)
        assert_allclose(similarity.T @ inverse @ rewards[level], mean, rtol=1e-9)


class TestE6UpdateOfLevels:
    """ "if s = s" is always true; it must compare the level s' that is updated with the level s that explored."""

    def grow(self, *, is_printed):
        levels = {stage: set() for stage in (1, 2, 3)}
        for t, explored in enumerate([1, 1, 2, 1, 3, 2]):
            for updated in levels:
                if (explored == explored) if is_printed else (updated == explored):
                    levels[updated].add(t)
        return levels

    def test_the_printed_condition_fills_every_level(self):
        assert all(len(rounds) == 6 for rounds in self.grow(is_printed=True).values())

    def test_the_corrected_one_splits_the_rounds(self):
        levels = self.grow(is_printed=False)

        assert sorted(t for rounds in levels.values() for t in rounds) == list(range(6))


class TestE7IndexOfTheEstimator:
    """In round t everything uses rounds before t, and θ is the minimizer, not the minimum."""

    def test_the_minimizer_of_the_loss_uses_one_row_less_than_there_are_rounds(self, generator):
        t = 12
        rows, rewards = generator.normal(size=(t - 1, 3)), generator.normal(size=t - 1)

        def loss(theta):
            return REGULARIZATION * theta @ theta + np.sum((rewards - rows @ theta) ** 2)

        theta = np.linalg.solve(rows.T @ rows + REGULARIZATION * np.eye(3), rows.T @ rewards)

        for _ in range(50):
            assert loss(theta) < loss(theta + 0.01 * generator.normal(size=3))
        point = generator.normal(size=(1, 3))
        assert_allclose(ridge(linear, rows, rewards, point)[0], point @ theta, rtol=1e-9)

    def test_running_to_t_would_need_the_reward_that_is_still_to_come(self, generator):
        contexts, rewards = generator.uniform(size=(6, 2)), generator.normal(size=6)

        before, _ = ridge(gaussian, contexts[:5], rewards[:5], contexts[5:])
        with_its_own, _ = ridge(gaussian, contexts, rewards, contexts[5:])

        assert abs(with_its_own[0] - rewards[5]) < abs(before[0] - rewards[5])  # it has seen the answer


class TestE8FirstChoice:
    """u_0 = [1, 0, …, 0] plays action 1, which is the rule's own choice only when all k(x, x) are equal."""

    def test_the_rule_takes_the_largest_similarity_to_itself(self):
        contexts = np.array([[0.2, 0.1], [0.6, 0.0], [0.3, 0.3]])
        printed = int(np.argmax([1, 0, 0]))

        assert InverseKernelUCB(linear, REGULARIZATION).choose(contexts, exploration=0.5) == 1
        assert printed == 0

    def test_both_agree_on_a_normalized_kernel(self, generator):
        contexts = generator.uniform(size=(4, 2))

        assert InverseKernelUCB(gaussian, REGULARIZATION).choose(contexts, exploration=0.5) == 0


class TestE9ExactlyTheVariance:
    """Under unit noise the estimate's variance is width² − γ‖C⁻¹φ‖², a little less than width²."""

    def test_ratio(self, generator):
        rows = generator.normal(size=(60, 4))
        rows /= np.linalg.norm(rows, axis=1)[:, None]
        points = generator.normal(size=(40, 4))
        inverse = np.linalg.inv(rows.T @ rows + REGULARIZATION * np.eye(4))
        squared_width = np.sum(points @ inverse * points, axis=1)

        influence = points @ inverse @ rows.T  # mean = influence @ y, so Var(mean) = Σ influence²
        variance = np.sum(influence**2, axis=1)

        assert_allclose(variance, squared_width - REGULARIZATION * np.sum((points @ inverse) ** 2, axis=1), rtol=1e-9)
        ratio = variance / squared_width
        assert np.min(ratio) > 0.955
        assert np.max(ratio) < 0.99

    def test_it_is_the_posterior_deviation_under_a_prior(self, generator):
        """θ ~ N(0, I/γ) and unit noise: the posterior covariance of θ is C⁻¹."""
        rows = generator.normal(size=(20, 3))
        prior = np.eye(3) / REGULARIZATION
        gain = prior @ rows.T @ np.linalg.inv(rows @ prior @ rows.T + np.eye(20))

        posterior = prior - gain @ rows @ prior

        assert_allclose(posterior, np.linalg.inv(rows.T @ rows + REGULARIZATION * np.eye(3)), atol=1e-9)

    def test_nothing_is_centered(self, generator):
        rows = generator.normal(size=(200, 2))
        center = np.array([5.0, 0.0])
        inverse = np.linalg.inv((rows + center).T @ (rows + center) + REGULARIZATION * np.eye(2))

        width_where_all_data_lie, width_where_none_lie = (
            sqrt(point @ inverse @ point) for point in (center, np.zeros(2))
        )

        assert width_where_all_data_lie > width_where_none_lie == 0.0


class TestE10GaussianProcesses:
    """GP-UCB is KernelUCB with γ = noise *variance* and η = sqrt(γ β)."""

    noise_level, beta = 0.3, 5.2

    def gp_scores(self, seen, rewards, points):
        """Conditioning of a joint Gaussian vector."""
        joint = gaussian(np.vstack([seen, points]), np.vstack([seen, points]))
        n = len(seen)
        noisy = joint[:n, :n] + self.noise_level**2 * np.eye(n)
        mean = joint[n:, :n] @ np.linalg.solve(noisy, rewards)
        covariance = joint[n:, n:] - joint[n:, :n] @ np.linalg.solve(noisy, joint[:n, n:])
        return mean + sqrt(self.beta) * np.sqrt(np.diagonal(covariance))

    def kernel_scores(self, seen, rewards, points, *, regularization, exploration):
        mean, width = ridge(gaussian, seen, rewards, points, regularization)
        return mean + exploration * width

    def test_scores_agree(self, generator):
        data = generator.uniform(size=(15, 2)), generator.normal(size=15), generator.uniform(size=(6, 2))
        variance = self.noise_level**2

        found = self.kernel_scores(*data, regularization=variance, exploration=sqrt(variance * self.beta))

        assert_allclose(found, self.gp_scores(*data), rtol=1e-9)

    def test_the_noise_level_alone_does_not_do(self, generator):
        data = generator.uniform(size=(15, 2)), generator.normal(size=15), generator.uniform(size=(6, 2))
        expected = self.gp_scores(*data)
        variance = self.noise_level**2

        for regularization, exploration in [
            (self.noise_level, sqrt(self.noise_level * self.beta)),  # "set to the model noise"
            (variance, sqrt(self.beta)),
        ]:
            found = self.kernel_scores(*data, regularization=regularization, exploration=exploration)
            assert np.max(np.abs(found - expected)) > 0.1


class TestE14FactorsOfTheProof:
    """(9) loses the 8 = 2³ that its own middle part has; (10) has a 2 too many inside."""

    def test_the_levels_add_up_to_eight_times_the_printed_right_side(self):
        eta, room = 4.0, 900.0  # room = (10 + 15/γ) d̃ l_T
        stages = np.arange(1, 8)
        sizes = 4.0**stages * eta**2 * room  # the largest that Lemma 5 allows

        middle = np.sum(2.0 ** (3 - stages) * sizes)
        printed = np.sum(eta * np.sqrt(room * sizes))

        assert_allclose(middle, 8 * printed, rtol=1e-12)

    def test_exploit_rounds_cost_two_widths(self):
        """Width η σ ≤ 1/sqrt(T), interval c η σ with c = 1 + ‖θ‖ + sqrt(γ)‖θ‖/η, and 2c/sqrt(T) lost a round."""
        horizon, eta, norm, regularization = 400, 3.0, 1.7, 0.37
        c = 1 + norm + sqrt(regularization) * norm / eta

        total = horizon * 2 * c / sqrt(horizon)

        derived = 2 * (1 + norm + sqrt(regularization) * norm / eta) * sqrt(horizon)
        printed = 2 * (2 + norm + sqrt(regularization) * norm / eta) * sqrt(horizon)
        assert_allclose(total, derived, rtol=1e-12)
        assert_allclose(printed - total, 2 * sqrt(horizon), rtol=1e-9)


class TestE15ProofOfLemma4:
    def test_the_two_terms_add_up_to_sixteen_and_not_ten(self):
        regularization, dimension, size, logarithm = 0.37, 3.0, 50.0, 4.0
        term = sqrt(dimension * size * logarithm)  # (A) and (B) are each at most this

        total = sqrt(4 + 6 / regularization) * (term + term)

        assert_allclose(total, sqrt((16 + 24 / regularization) * dimension * size * logarithm), rtol=1e-12)
        assert total > sqrt((10 + 15 / regularization) * dimension * size * logarithm)

    def test_the_denominator_before_is_smaller_than_the_one_after(self, generator):
        """Lemma 3 divides by λ before the step, term (A) by λ after it: the printed sum is too small."""
        points = generator.uniform(size=(8, 2))
        gram = gaussian(points, points)
        before = np.append(np.linalg.eigvalsh(gram[:-1, :-1])[::-1], 0.0) + REGULARIZATION
        after = np.linalg.eigvalsh(gram)[::-1] + REGULARIZATION

        assert np.sum((after - before) / after) < np.sum((after - before) / before)


class TestE16ChangeOfBasis:
    """ΦᵀΦ in a basis that is not orthonormal is congruent to the right matrix, with other eigenvalues."""

    def test_eigenvalues_move(self):
        rows = np.random.default_rng(0).normal(size=(15, 3))
        basis = np.array([[1.0, 0.5, 0.0], [0.0, 1.0, 0.8], [0.0, 0.0, 2.0]])

        original = np.linalg.eigvalsh(rows.T @ rows)
        congruent = np.linalg.eigvalsh(basis.T @ rows.T @ rows @ basis)

        assert_allclose(original, [2.14, 8.87, 20.28], atol=0.01)
        assert_allclose(congruent, [3.11, 13.64, 36.40], atol=0.01)

    def test_what_the_proof_needs_is_true(self, generator):
        rows = generator.normal(size=(4, 9))

        primal = np.linalg.eigvalsh(rows.T @ rows)[::-1]
        dual = np.linalg.eigvalsh(rows @ rows.T)[::-1]

        assert_allclose(primal[:4], dual, rtol=1e-9)
        assert_allclose(primal[4:], 0.0, atol=1e-9)


class TestE17EquationEight:
    """(8) is right: the factor γ of (6) turns γ^(-1/2) into γ^(1/2)."""

    @pytest.mark.parametrize("regularization", [0.02, 0.37, 5.0])
    def test_bias_is_bounded_with_the_printed_power(self, generator, regularization):
        rows, theta = generator.normal(size=(15, 4)), generator.normal(size=4)
        inverse = np.linalg.inv(rows.T @ rows + regularization * np.eye(4))

        for point in generator.normal(size=(50, 4)):
            width = sqrt(point @ inverse @ point)
            bias = abs(point @ inverse @ theta)
            assert bias <= np.linalg.norm(theta) * width / sqrt(regularization)
            assert regularization * bias <= sqrt(regularization) * np.linalg.norm(theta) * width

    def test_its_last_step_is_an_equality(self, generator):
        rows, point = generator.normal(size=(15, 4)), generator.normal(size=4)
        precision = rows.T @ rows + REGULARIZATION * np.eye(4)
        inverse = np.linalg.inv(precision)

        assert_allclose(point @ inverse @ precision @ inverse @ point, point @ inverse @ point, rtol=1e-9)


class TestE18TightInterval:
    """Rewards in [0, 1] need η/2 times the width for the noise, not (1 + ‖θ*‖) η."""

    def test_coverage(self):
        generator = np.random.default_rng(18)
        n_draws, delta = 4000, 0.05
        seen, points = generator.uniform(size=(40, 1)), np.linspace(0, 1, 7)[:, None]
        centers, weights = np.array([[0.2], [0.7]]), np.array([0.4, 0.5])
        norm = sqrt(weights @ gaussian(centers, centers) @ weights)
        f_seen, f = gaussian(seen, centers) @ weights, gaussian(points, centers) @ weights
        rewards = (generator.random((40, n_draws)) < f_seen[:, None]).astype(float)
        mean, width = ridge(gaussian, seen, rewards, points)
        eta = sqrt(2 * log(2 * len(points) / delta))

        tight = (eta / 2 + sqrt(REGULARIZATION) * norm) * width
        printed = ((1 + norm) * eta + sqrt(REGULARIZATION) * norm) * width

        failures = np.any(np.abs(mean - f[:, None]) > tight[:, None], axis=0)
        assert np.sum(failures) == 0  # at level 0.05: even the tight one has room to spare
        assert np.all(tight < 0.5 * printed)
