"""The errata of Valko et al. (2013): the library does what is right, and what is printed gives something else.

Numbered as in docs/errata.md. Errata of bounds and spectra are tested in unit/theory; the counter-example to Theorem 1
in statistical/test_errata_e1.py. Every class has a test of the library and a negative control of the printed formula.
"""

import re
from math import log, sqrt
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

import kernelbandits as kb
from definitions import ridge
from kernelbandits.kernels import Gaussian, Linear
from kernelbandits.policies import BaseKernelUCB
from kernelbandits.posterior import AutoPosterior, ExactPosterior, PrimalPosterior
from kernelbandits.theory import (
    Mixture,
    RoundState,
    effective_dimension,
    exploration,
    horizon_logarithm,
    kappa,
    kernel_ucb_bound,
    kernel_ucb_trace_bound,
    lemma_1,
    lemma_2,
    lemma_3,
    lemma_4,
    sup_kernel_ucb_bound,
    sup_kernel_ucb_data_bound,
    sup_kernel_ucb_scale,
    theorem_1_bound,
)
from reference import InverseKernelUCB, SlowSupKernelUCB

REGULARIZATION = 0.37
GAUSSIAN, LINEAR = Gaussian(length_scale=0.4), Linear()
POSTERIORS = [
    (ExactPosterior, GAUSSIAN),
    (AutoPosterior, GAUSSIAN),
    (ExactPosterior, LINEAR),
    (PrimalPosterior, LINEAR),
]
in_every_form = pytest.mark.parametrize(("form", "kernel"), POSTERIORS)


def fitted(form, kernel, points, rewards, regularization=REGULARIZATION):
    """A posterior of the library that has observed the points one by one."""
    posterior = form(kernel, regularization=regularization)
    for point, reward in zip(points, rewards, strict=True):
        posterior.observe(point[None], [reward])
    return posterior


def influence(form, kernel, points, queries, regularization=REGULARIZATION):
    """The matrix M with mean = M y, from the means that the library gives to unit rewards."""
    units = np.eye(len(points))
    return np.column_stack([fitted(form, kernel, points, unit, regularization).predict(queries).mean for unit in units])


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
    assert [section.split("\n")[0] for section in sections[:28]] == [f"E{number}" for number in range(1, 29)]
    assert all("*Test.*" in section and "Weight" in section for section in sections[:28])


class TestReference:
    """Algorithm 1 once corrected is the library's posterior: the oracle that other tests may lean on."""

    @pytest.mark.parametrize("regularization", [0.05, 0.37, 4.0])
    @in_every_form
    def test_agrees_with_the_library_after_every_observation(self, generator, form, kernel, regularization):
        seen, rewards = generator.uniform(size=(25, 2)), generator.normal(size=25)
        points = generator.uniform(size=(8, 2))
        model, posterior = InverseKernelUCB(kernel.gram, regularization), form(kernel, regularization=regularization)

        for t in range(25):
            model.observe(seen[t], rewards[t])
            posterior.observe(seen[t : t + 1], rewards[t : t + 1])

            mean, width = model.predict(points)
            prediction = posterior.predict(points)
            assert_allclose(prediction.mean, mean, atol=1e-9)
            assert_allclose(prediction.width, width, rtol=1e-7, atol=1e-9)

    def test_knows_nothing_at_first(self, generator):
        points = generator.uniform(size=(3, 2))

        prediction = ExactPosterior(LINEAR, regularization=0.37).predict(points)

        assert_allclose(prediction.mean, 0.0)
        assert_allclose(prediction.width, np.linalg.norm(points, axis=1) / sqrt(0.37))
        assert_allclose(InverseKernelUCB(LINEAR.gram, 0.37).predict(points)[1], prediction.width)


class TestE2StaleContexts:
    """Algorithm 1 scores the contexts of round t at its end and plays the winner in round t + 1."""

    def truth(self, contexts):
        return np.sin(5 * contexts[..., 0])

    def printed(self, rounds):
        """Actions of Algorithm 1 as printed, and those of highest score among the contexts of the same round."""
        model, actions, best_now = InverseKernelUCB(GAUSSIAN.gram, REGULARIZATION), [], []
        scores = np.eye(rounds.shape[1])[0]  # u_0 of the paper
        for contexts in rounds:
            best_now.append(model.choose(contexts, exploration=0.5))
            actions.append(int(np.argmax(scores)))
            model.observe(contexts[actions[-1]], self.truth(contexts[actions[-1]]))
            mean, width = model.predict(contexts)
            scores = mean + 0.5 * width
        return actions, best_now

    def of_the_library(self, rounds):
        """Actions of KernelUCB, and those of highest score among the contexts of the same round by definition."""
        policy = kb.KernelUCB(GAUSSIAN, regularization=REGULARIZATION, exploration=0.5)
        actions, best_now = [], []
        for t, contexts in enumerate(rounds):
            seen = rounds[np.arange(t), actions] if t else None
            mean, width = ridge(GAUSSIAN, seen, self.truth(seen) if t else [], contexts, REGULARIZATION)
            score = mean + 0.5 * width
            best_now.append(int(np.flatnonzero(score >= score.max() - 1e-10)[0]))
            decision = policy.choose(contexts)
            policy.learn(decision, float(self.truth(contexts[decision.action])))
            actions.append(decision.action)
        return actions, best_now

    def test_fixed_contexts_hide_it(self, generator):
        rounds = np.tile(generator.uniform(size=(1, 6, 1)), (30, 1, 1))

        printed, best = self.printed(rounds)
        ours, our_best = self.of_the_library(rounds)

        assert printed[1:] == best[1:]
        assert ours == our_best

    def test_changing_contexts_show_it(self, generator):
        rounds = generator.uniform(size=(60, 6, 1))

        printed, best = self.printed(rounds)
        ours, our_best = self.of_the_library(rounds)

        assert ours == our_best
        assert np.mean(np.array(printed) == best) < 0.5  # little better than one in six
        earned, earned_by_us = (self.truth(rounds[np.arange(60), actions]).sum() for actions in (printed, ours))
        assert earned < 0.7 * earned_by_us


class TestE3FirstInverse:
    """ "1/k + γ" must be 1/(k + γ)."""

    @in_every_form
    def test_the_first_mean_divides_by_the_sum(self, form, kernel):
        point = np.array([[0.6, 0.8]])  # k(x, x) = 1 for both kernels
        mean = fitted(form, kernel, point, [2.0]).predict(point).mean[0]

        assert mean == pytest.approx(2.0 * 1.0 / (1.0 + REGULARIZATION), rel=1e-12)
        assert mean != pytest.approx(2.0 * (1.0 / 1.0 + REGULARIZATION), rel=0.1)

    def test_the_recursion_never_recovers(self, generator):
        """The matrix that is inverted, from the means at the points: K A⁻¹ = I − γA⁻¹."""
        seen = generator.uniform(size=(6, 2))
        printed = InverseKernelUCB(GAUSSIAN.gram, REGULARIZATION)
        printed.observe(seen[0], 0.0)
        printed.inverse = np.array([[1.0 / 1.0 + REGULARIZATION]])
        for row in seen[1:]:
            printed.observe(row, 0.0)

        inverse = (np.eye(6) - influence(ExactPosterior, GAUSSIAN, seen, seen)) / REGULARIZATION

        regularized = GAUSSIAN.gram(seen) + REGULARIZATION * np.eye(6)
        assert_allclose(np.linalg.inv(inverse), regularized, atol=1e-9)
        regularized[0, 0] = 1 / (1 / 1.0 + REGULARIZATION)  # what the printed start stands for
        assert_allclose(np.linalg.inv(printed.inverse), regularized, atol=1e-9)


class TestE4WithAndWithoutRegularization:
    """One letter for the Gram matrix, with γ in Algorithms 1 and 3, without in the text."""

    def test_scores_are_those_of_algorithm_1_and_widths_carry_its_factor(self, generator):
        seen, rewards, points = (
            generator.uniform(size=(10, 2)),
            generator.normal(size=10),
            generator.uniform(size=(4, 2)),
        )
        policy = kb.KernelUCB(GAUSSIAN, regularization=REGULARIZATION, exploration=2.5)
        policy.warm_start(seen, rewards)
        inverse = np.linalg.inv(GAUSSIAN.gram(seen) + REGULARIZATION * np.eye(10))
        similarity = GAUSSIAN.gram(seen, points)
        sigma = np.sqrt(1.0 - np.sum(similarity * (inverse @ similarity), axis=0))

        prediction, decision = policy.posterior.predict(points), policy.choose(points)

        assert_allclose(sigma, sqrt(REGULARIZATION) * prediction.width, rtol=1e-9)
        scores = similarity.T @ inverse @ rewards + 2.5 / sqrt(REGULARIZATION) * sigma
        assert decision.action == np.argmax(scores)
        assert decision.score == pytest.approx(scores.max(), rel=1e-9)
        without_factor = similarity.T @ inverse @ rewards + 2.5 * sigma
        assert abs(decision.score - without_factor[decision.action]) > 0.1

    @in_every_form
    def test_the_plain_inverse_gives_another_estimate(self, generator, form, kernel):
        seen, rewards = generator.uniform(size=(2, 2)), generator.normal(size=2)
        gram = kernel.gram(seen)
        interpolated = gram @ np.linalg.solve(gram, rewards)

        prediction = fitted(form, kernel, seen, rewards).predict(seen)

        assert_allclose(interpolated, rewards, atol=1e-8)  # without γ the noise is believed
        assert np.max(np.abs(prediction.mean - rewards)) > 0.1
        assert np.all(prediction.width > 0.1)

    @in_every_form
    def test_a_repeated_context_has_no_plain_inverse(self, form, kernel):
        seen = np.array([[0.3, 0.0], [0.3, 0.0]])
        gram = kernel.gram(seen)
        own = gram[0, 0]

        mean = fitted(form, kernel, seen, [1.0, 2.0]).predict(seen).mean

        assert np.linalg.matrix_rank(gram) == 1
        assert_allclose(mean, own * 3.0 / (REGULARIZATION + 2.0 * own))


class TestE5WidthOfAlgorithm3:
    """xᵀK⁻¹x must be kᵀK⁻¹k, with the similarities of x to the level's contexts."""

    def test_a_level_uses_similarities(self, generator):
        seen, points = generator.uniform(size=(5, 2)), generator.uniform(size=(3, 2))
        level = BaseKernelUCB(GAUSSIAN, regularization=REGULARIZATION)
        for row in seen:
            level.observe(row[None], 0.5)

        width = level.estimate(points).width

        assert_allclose(width, ridge(GAUSSIAN, seen, np.zeros(5), points, REGULARIZATION)[1], rtol=1e-9)
        inverse = np.linalg.inv(GAUSSIAN.gram(seen) + REGULARIZATION * np.eye(5))
        with pytest.raises(ValueError, match="mismatch"):
            points[0] @ inverse @ points[0]

    def test_and_the_wrong_value_where_the_shape_happens_to_fit(self, generator):
        seen = 0.4 * generator.uniform(size=(3, 3))
        level = BaseKernelUCB(GAUSSIAN, regularization=REGULARIZATION)
        for row in seen:
            level.observe(row[None], 0.5)
        inverse = np.linalg.inv(GAUSSIAN.gram(seen) + REGULARIZATION * np.eye(3))
        printed = sqrt((1.0 - seen[0] @ inverse @ seen[0]) / REGULARIZATION)

        width = level.estimate(seen[:1]).width[0]  # of a context that the level knows

        similarity = GAUSSIAN.gram(seen, seen[:1])[:, 0]
        assert width == pytest.approx(sqrt((1.0 - similarity @ inverse @ similarity) / REGULARIZATION), rel=1e-9)
        assert abs(printed - width) > 0.1 * width

    def test_rewards_are_those_of_the_level(self, generator):
        policy = kb.SupKernelUCB(GAUSSIAN, regularization=0.1, horizon=400, n_actions=4, exploration=0.1)
        learned = {}
        contexts_of_all, rewards_of_all = [], []
        for _ in range(150):
            contexts = generator.uniform(size=(4, 1))
            decision, reward = policy.choose(contexts), float(generator.uniform())
            policy.learn(decision, reward)
            contexts_of_all.append(contexts[decision.action])
            rewards_of_all.append(reward)
            if decision.stage is not None:
                learned.setdefault(decision.stage, []).append((contexts[decision.action], reward))
        queries = np.linspace(0.0, 1.0, 7)[:, None]
        whole = ridge(GAUSSIAN, np.array(contexts_of_all), rewards_of_all, queries, 0.1)[0]

        assert len(learned) >= 3
        for stage, rounds in learned.items():
            points, rewards = np.array([point for point, _ in rounds]), [reward for _, reward in rounds]
            mean = policy.stages[stage - 1].estimate(queries).mean
            assert_allclose(mean, ridge(GAUSSIAN, points, rewards, queries, 0.1)[0], rtol=1e-7)
            assert np.max(np.abs(mean - whole)) > 0.01  # the whole y_t gives another estimate


class TestE6UpdateOfLevels:
    """ "if s = s" is always true; it must compare the level s' that is updated with the level s that explored."""

    def policy(self):
        return kb.SupKernelUCB(GAUSSIAN, regularization=0.5, horizon=300, n_actions=5, exploration=0.3)

    def rounds(self):
        generator = np.random.default_rng(3)
        for _ in range(200):
            contexts = generator.uniform(size=(5, 2))
            yield contexts, generator.uniform(size=5) * np.exp(-contexts[:, 0])

    def test_a_round_joins_the_one_level_that_explored_it(self):
        policy = self.policy()
        explored = {}
        for contexts, rewards in self.rounds():
            decision = policy.choose(contexts)
            policy.learn(decision, rewards[decision.action])
            if decision.stage is not None:
                explored.setdefault(decision.stage, []).append(contexts[decision.action])

        assert len(explored) >= 3
        for stage, level in enumerate(policy.stages, start=1):
            assert level.stage_observations == len(explored.get(stage, []))
            if stage in explored:
                points, _, counts, _ = level.posterior.support()
                assert counts.sum() == len(explored[stage])
                assert {tuple(row) for row in points} == {tuple(row) for row in explored[stage]}

    def test_the_printed_condition_fills_every_level_and_chooses_otherwise(self):
        ours, stages, printed = [], 5, []
        policy = self.policy()
        slow = SlowSupKernelUCB(GAUSSIAN.gram, 0.5, horizon=300, scale=0.3, n_stages=stages)
        for contexts, rewards in self.rounds():
            decision = policy.choose(contexts)
            policy.learn(decision, rewards[decision.action])
            ours.append((decision.action, decision.stage))
            action, stage = slow.choose(contexts)
            printed.append((action, stage))
            for updated in range(1, stages + 1):  # "if s = s"
                slow.learn(contexts[action], updated if stage is not None else None, rewards[action])

        assert len({len(level) for level in slow.contexts[1:]}) == 1  # all levels hold the same rounds
        assert np.mean([left != right for left, right in zip(ours, printed, strict=True)]) > 0.3


class TestE7IndexOfTheEstimator:
    """In round t everything uses rounds before t, and θ is the minimizer, not the minimum."""

    @pytest.mark.parametrize("form", [ExactPosterior, PrimalPosterior])
    def test_the_minimizer_of_the_loss_uses_one_row_less_than_there_are_rounds(self, generator, form):
        t = 12
        rows, rewards = generator.normal(size=(t - 1, 3)), generator.normal(size=t - 1)

        def loss(theta):
            return REGULARIZATION * theta @ theta + np.sum((rewards - rows @ theta) ** 2)

        theta = fitted(form, LINEAR, rows, rewards).predict(np.eye(3)).mean

        for _ in range(50):
            assert loss(theta) < loss(theta + 0.01 * generator.normal(size=3))
        assert loss(theta) != pytest.approx(theta @ theta, rel=0.1)  # the minimum is a number, not θ

    def test_running_to_t_would_need_the_reward_that_is_still_to_come(self, generator):
        policy = kb.KernelUCB(GAUSSIAN, regularization=REGULARIZATION, exploration=0.5)
        contexts, rewards = [], []
        for _ in range(20):
            observed = generator.uniform(size=(4, 2))
            decision, reward = policy.choose(observed), float(generator.normal())
            before, _ = ridge(GAUSSIAN, np.array(contexts) if contexts else None, rewards, observed, REGULARIZATION)
            contexts.append(observed[decision.action])
            rewards.append(reward)
            with_its_own, _ = ridge(GAUSSIAN, np.array(contexts), rewards, observed, REGULARIZATION)
            policy.learn(decision, reward)

            assert decision.mean == pytest.approx(before[decision.action], rel=1e-9, abs=1e-12)
            gap, printed_gap = abs(decision.mean - reward), abs(with_its_own[decision.action] - reward)
            assert printed_gap < 0.9 * gap  # it has seen the answer


class TestE8FirstChoice:
    """u_0 = [1, 0, …, 0] plays action 1, which is the rule's own choice only when all k(x, x) are equal."""

    contexts = np.array([[0.2, 0.1], [0.6, 0.0], [0.3, 0.3]])

    def test_the_rule_takes_the_largest_similarity_to_itself(self):
        printed = int(np.argmax([1, 0, 0]))

        for policy in (
            kb.KernelUCB(LINEAR, regularization=REGULARIZATION, exploration=0.5),
            kb.LinUCB(regularization=REGULARIZATION, exploration=0.5),
            kb.SupKernelUCB(LINEAR, horizon=100, n_actions=3, norm_bound=1.0, exploration="theory"),
        ):
            assert policy.choose(self.contexts).action == 1 != printed

    def test_both_agree_on_a_normalized_kernel(self):
        assert kb.KernelUCB(GAUSSIAN, regularization=REGULARIZATION).choose(self.contexts).action == 0


class TestE9ExactlyTheVariance:
    """Under unit noise the estimate's variance is width² − γ‖C⁻¹φ‖², a little less than width²."""

    @pytest.mark.parametrize("form", [ExactPosterior, PrimalPosterior])
    def test_the_variance_of_the_mean_is_a_little_less_than_the_squared_width(self, generator, form):
        rows = generator.normal(size=(60, 4))
        rows /= np.linalg.norm(rows, axis=1)[:, None]
        points = generator.normal(size=(10, 4))

        squared_width = fitted(form, LINEAR, rows, np.zeros(60)).predict(points).width ** 2
        variance = np.sum(influence(form, LINEAR, rows, points) ** 2, axis=1)  # of M y under unit noise

        inverse = np.linalg.inv(rows.T @ rows + REGULARIZATION * np.eye(4))
        assert_allclose(variance, squared_width - REGULARIZATION * np.sum((points @ inverse) ** 2, axis=1), rtol=1e-9)
        ratio = variance / squared_width
        assert 0.955 < np.min(ratio) < np.max(ratio) < 0.99  # and not 1, as printed

    @pytest.mark.parametrize("form", [ExactPosterior, PrimalPosterior])
    def test_it_is_the_posterior_deviation_under_a_prior(self, generator, form):
        """θ ~ N(0, I/γ) and unit noise, by conditioning: covariance and widths of the library are those of θ."""
        rows = generator.normal(size=(20, 3))
        prior = np.eye(3) / REGULARIZATION
        gain = prior @ rows.T @ np.linalg.inv(rows @ prior @ rows.T + np.eye(20))
        expected = prior - gain @ rows @ prior

        posterior = fitted(form, LINEAR, rows, np.zeros(20))

        assert_allclose(posterior.covariance(np.eye(3)), expected, atol=1e-9)
        assert_allclose(posterior.predict(np.eye(3)).width, np.sqrt(np.diagonal(expected)), rtol=1e-9)

    @pytest.mark.parametrize("form", [ExactPosterior, PrimalPosterior])
    def test_nothing_is_centered(self, generator, form):
        center = np.array([5.0, 0.0])

        posterior = fitted(form, LINEAR, generator.normal(size=(200, 2)) + center, np.zeros(200))
        width_where_all_data_lie, width_where_none_lie = posterior.predict(np.vstack([center, np.zeros(2)])).width

        assert width_where_all_data_lie > width_where_none_lie == 0.0


class TestE10GaussianProcesses:
    """GP-UCB is KernelUCB with γ = noise *variance* and η = sqrt(γ β)."""

    noise_level, beta = 0.3, 5.2

    def gp_scores(self, seen, rewards, points, beta):
        """Conditioning of a joint Gaussian vector."""
        joint = GAUSSIAN.gram(np.vstack([seen, points]))
        n = len(seen)
        noisy = joint[:n, :n] + self.noise_level**2 * np.eye(n)
        mean = joint[n:, :n] @ np.linalg.solve(noisy, rewards)
        covariance = joint[n:, n:] - joint[n:, :n] @ np.linalg.solve(noisy, joint[:n, n:])
        return mean + sqrt(beta) * np.sqrt(np.diagonal(covariance))

    def data(self, generator):
        return generator.uniform(size=(15, 2)), generator.normal(size=15), generator.uniform(size=(6, 2))

    def test_scores_agree(self, generator):
        seen, rewards, points = self.data(generator)
        policy = kb.GPUCB(
            GAUSSIAN, noise_variance=self.noise_level**2, exploration=kb.theory.GPUCBFinite(failure_probability=0.1)
        )
        policy.warm_start(seen, rewards)

        decision = policy.choose(points)

        beta = 2 * log(6 * np.pi**2 / (6 * 0.1))  # 2 ln(N t² π² / 6δ) in round 1
        expected = self.gp_scores(seen, rewards, points, beta)
        assert decision.action == np.argmax(expected)
        assert decision.score == pytest.approx(expected.max(), rel=1e-9)

    def scores(self, data, **parameters):
        seen, rewards, points = data
        policy = kb.KernelUCB(GAUSSIAN, **parameters)
        policy.warm_start(seen, rewards)
        return policy.posterior.predict(points).upper(parameters["exploration"])

    def test_the_noise_level_alone_does_not_do(self, generator):
        data, variance = self.data(generator), self.noise_level**2
        expected = self.gp_scores(*data, self.beta)

        right = self.scores(data, regularization=variance, exploration=sqrt(variance * self.beta))
        assert_allclose(right, expected, rtol=1e-9)
        for regularization, eta in [
            (self.noise_level, sqrt(self.noise_level * self.beta)),  # "set to the model noise"
            (variance, sqrt(self.beta)),
        ]:
            printed = self.scores(data, regularization=regularization, exploration=eta)
            assert np.max(np.abs(printed - expected)) > 0.1


class TestE14FactorsOfTheProof:
    """(9) loses the 8 = 2³ that its own middle part has; (10) has a 2 too many inside."""

    def test_the_levels_add_up_to_eight_times_the_printed_right_side(self):
        """Levels as large as Lemma 4 allows, each action as bad as its level allows: 2^(3−s) lost per round."""
        scale, regularization, horizon = 0.6, 0.5, 10_000
        stages, gain = np.arange(1, 6), 25.0
        sizes = 4.0**stages * scale**2 * kappa(regularization=regularization) * gain
        lost = np.sum(2.0 ** (3 - stages) * sizes)

        bound = sup_kernel_ucb_data_bound(
            scale=scale,
            horizon=horizon,
            regularization=regularization,
            stage_sizes=sizes,
            stage_log_det_gains=np.full(5, gain),
        )

        printed = np.sum(scale * np.sqrt(kappa(regularization=regularization) * gain * sizes))
        assert bound == pytest.approx(lost + 2 * sqrt(horizon), rel=1e-12)
        assert lost == pytest.approx(8 * printed, rel=1e-12)  # so the printed sum is exceeded

    def test_exploit_rounds_cost_two_widths(self):
        """Every interval is at most 1/sqrt(T) wide on either side, so at most 2/sqrt(T) is lost in a round."""
        horizon, norm, eta = 400, 1.7, 3.0

        bound = sup_kernel_ucb_data_bound(
            scale=1.0, horizon=horizon, regularization=REGULARIZATION, stage_sizes=[0], stage_log_det_gains=[0.0]
        )

        assert bound == pytest.approx(horizon * 2 / sqrt(horizon), rel=1e-12)
        c = 1 + norm + sqrt(REGULARIZATION) * norm / eta  # of the printed interval, c times wider
        printed = 2 * (2 + norm + sqrt(REGULARIZATION) * norm / eta) * sqrt(horizon)
        assert printed - c * bound == pytest.approx(2 * sqrt(horizon))


class TestE15ProofOfLemma4:
    def spectra(self, generator):
        points = generator.uniform(size=(8, 2))
        gram = GAUSSIAN.gram(points)
        width = fitted(ExactPosterior, GAUSSIAN, points[:-1], np.zeros(7)).predict(points[-1:]).width[0]
        return np.linalg.eigvalsh(gram[:-1, :-1]), np.linalg.eigvalsh(gram), width

    def test_the_two_terms_add_up_to_sixteen_and_not_ten(self):
        regularization, dimension, size, horizon = 0.37, 3.0, 50, 1000

        right = lemma_4(
            np.zeros(size), effective_dimension=dimension, regularization=regularization, horizon=horizon
        ).right

        term = (
            size
            * dimension
            * horizon_logarithm(horizon=horizon, effective_dimension=dimension, regularization=regularization)
        )  # (A) and (B) are each at most its root
        proved = sqrt(4 + 6 / regularization) * 2 * sqrt(term)
        assert proved == pytest.approx(sqrt((16 + 24 / regularization) * term), rel=1e-12)
        assert right < sqrt((10 + 15 / regularization) * term) < proved  # ours implies what is claimed, theirs does not

    def test_the_denominator_before_is_smaller_than_the_one_after(self):
        """Lemma 3 divides by λ before the step, term (A) by λ after it: the printed sum is too small."""
        regularization = 0.01
        before, after, width = np.array([0.0]), np.array([1.0]), 1.0 / sqrt(regularization)  # the first point

        check = lemma_3(before, after, width=width, regularization=regularization)

        printed = kappa(regularization=regularization) * np.sum((after - before) / (after + regularization))
        assert check.holds
        assert check.left > printed

    def test_lemma_3_holds_on_the_widths_of_the_library(self, generator):
        before, after, width = self.spectra(generator)

        check = lemma_3(before, after, width=width, regularization=REGULARIZATION)

        assert check.holds
        assert check.left > 0.1 * check.right
        assert not lemma_3(before, after, width=5.0 * width, regularization=REGULARIZATION).holds


class TestE16ChangeOfBasis:
    """ΦᵀΦ in a basis that is not orthonormal is congruent to the right matrix, with other eigenvalues."""

    rows = np.random.default_rng(0).normal(size=(15, 3))
    skew = np.array([[1.0, 0.5, 0.0], [0.0, 1.0, 0.8], [0.0, 0.0, 2.0]])

    def test_eigenvalues_move(self):
        original = np.linalg.eigvalsh(self.rows.T @ self.rows)
        congruent = np.linalg.eigvalsh(self.skew.T @ self.rows.T @ self.rows @ self.skew)

        assert_allclose(original, [2.14, 8.87, 20.28], atol=0.01)
        assert_allclose(congruent, [3.11, 13.64, 36.40], atol=0.01)
        assert lemma_2(self.rows, LINEAR.gram(self.rows)).holds
        assert not lemma_2(self.rows @ self.skew, LINEAR.gram(self.rows)).holds

    def test_dimensions_are_those_of_the_gram_matrix(self):
        problem = {"regularization": 4.5, "horizon": 15}
        ours = effective_dimension(LINEAR.gram(self.rows), **problem)

        assert ours == effective_dimension(spectrum=np.linalg.eigvalsh(self.rows.T @ self.rows), **problem) == 1
        skewed = self.rows @ self.skew
        assert effective_dimension(spectrum=np.linalg.eigvalsh(skewed.T @ skewed), **problem) == 2


class TestE17EquationEight:
    """(8) is right: the factor γ of (6) turns γ^(-1/2) into γ^(1/2)."""

    @pytest.mark.parametrize("regularization", [0.02, 0.37, 5.0])
    @pytest.mark.parametrize("form", [ExactPosterior, PrimalPosterior])
    def test_bias_is_bounded_with_the_printed_power(self, generator, form, regularization):
        rows, theta = generator.normal(size=(9, 4)), np.array([0.2, -0.1, 0.3, 3.0])
        rows[:, 3] = 0.0  # nothing is known along the last coordinate, where the bound is nearly met
        points = np.vstack([generator.normal(size=(50, 4)), np.eye(4)])

        prediction = fitted(form, LINEAR, rows, rows @ theta, regularization).predict(points)  # without noise

        norm = np.linalg.norm(theta)
        assert lemma_1(prediction, points @ theta, scale=sqrt(regularization) * norm).holds
        assert not lemma_1(prediction, points @ theta, scale=0.8 * sqrt(regularization) * norm).holds  # and is tight
        if regularization > 1:  # γ^(-1/2) by itself, without the γ of (6)
            assert not lemma_1(prediction, points @ theta, scale=norm / sqrt(regularization)).holds

    @pytest.mark.parametrize("form", [ExactPosterior, PrimalPosterior])
    def test_its_last_step_is_an_equality(self, generator, form):
        """‖φᵀC⁻¹‖ in the norm of C is the width, for every φ."""
        rows, points = generator.normal(size=(15, 4)), generator.normal(size=(6, 4))
        precision = rows.T @ rows + REGULARIZATION * np.eye(4)

        posterior = fitted(form, LINEAR, rows, np.zeros(15))

        solved = posterior.covariance(points, np.eye(4))  # φᵀC⁻¹
        squared = np.einsum("nd,de,ne->n", solved, precision, solved)
        assert_allclose(squared, posterior.predict(points).width ** 2, rtol=1e-9)


class TestE18TightInterval:
    """Rewards in [0, 1] need η/2 times the width for the noise, not (1 + ‖θ*‖) η."""

    def test_coverage(self):
        generator = np.random.default_rng(18)
        n_draws, delta = 4000, 0.05
        seen, points = generator.uniform(size=(40, 1)), np.linspace(0, 1, 7)[:, None]
        centers, weights = np.array([[0.2], [0.7]]), np.array([0.4, 0.5])
        norm = sqrt(weights @ GAUSSIAN.gram(centers) @ weights)
        f_seen, f = GAUSSIAN.gram(seen, centers) @ weights, GAUSSIAN.gram(points, centers) @ weights
        rewards = (generator.random((40, n_draws)) < f_seen[:, None]).astype(float)
        errors = np.abs(influence(ExactPosterior, GAUSSIAN, seen, points) @ rewards - f[:, None])
        width = fitted(ExactPosterior, GAUSSIAN, seen, np.zeros(40)).predict(points).width
        schedule = exploration.FixedDesign(
            noise_scale=0.5, norm_bound=norm, failure_probability=delta, n_actions=7, horizon=1
        )
        situation = exploration.RoundState(round_index=1, n_actions=7, log_det_gain=0.0, regularization=REGULARIZATION)

        tight = schedule(situation)

        eta = sqrt(2 * log(2 * 7 / delta))
        printed = (1 + norm) * eta + sqrt(REGULARIZATION) * norm
        assert tight == pytest.approx(eta / 2 + sqrt(REGULARIZATION) * norm, rel=1e-12)
        assert np.sum(np.any(errors > tight * width[:, None], axis=0)) == 0  # at level 0.05: it has room to spare
        assert tight < 0.5 * printed
        assert np.mean(np.any(errors > 0.4 * tight * width[:, None], axis=0)) > delta  # much less would not do


class TestE26RateOfRemark2:
    """Theorem 1 has four logarithms under its root where Chu et al. have three."""

    def problem(self):
        return {"n_actions": 10, "regularization": 1.0, "effective_dimension": 5, "failure_probability": 0.1}

    def per_rate(self, bound, power, horizon):
        """A bound in units of sqrt(T d ln^power(NT ln T/δ))."""
        rate = sqrt(horizon * 5 * log(10 * horizon * log(horizon) / 0.1) ** power)
        return bound(horizon=horizon, **self.problem()) / rate

    def printed(self, **problem):
        return theorem_1_bound(**problem, norm=1.0)

    def corrected(self, **problem):
        return sup_kernel_ucb_bound(**problem, norm_bound=1.0)

    def test_the_corrected_theorem_has_three_logarithms_and_the_printed_one_four(self):
        """When ln T doubles, the right quotient hardly grows, and the printed one by sqrt(2) and more."""
        corrected, printed = (
            [self.per_rate(bound, 3, horizon) for horizon in (10**13, 10**26)]
            for bound in (self.corrected, self.printed)
        )

        assert 1.0 <= corrected[1] / corrected[0] < 1.1
        assert printed[1] / printed[0] > sqrt(2)
        assert self.per_rate(self.printed, 4, 10**26) < 8 * sqrt(2 * 27)  # the limit of four logarithms

    def test_figures_quoted_for_remark_2(self):
        horizons = [10**4, 10**8, 10**16]

        assert [round(self.per_rate(self.printed, 3, horizon)) for horizon in horizons] == [105, 182, 294]
        assert [round(self.per_rate(self.corrected, 3, horizon), 1) for horizon in horizons] == [6.6, 7.7, 8.2]


class TestE27WhichLinUCB:
    """KernelUCB with the linear kernel is LinUCB's shared model, and not the disjoint one of Li et al."""

    def decisions(self, policy, generator, **arguments):
        weights = generator.normal(size=(4, 3))  # per action, so that the models disagree
        decisions = []
        for contexts in generator.normal(size=(60, 4, 3)):
            decision = policy.choose(contexts, **arguments)
            policy.learn(decision, float(contexts[decision.action] @ weights[decision.action]))
            decisions.append((decision.action, decision.mean, decision.width))
        return np.array(decisions)

    def lin_ucb(self, model):
        policy = kb.LinUCB(model=model, regularization=REGULARIZATION, exploration=0.7)
        return self.decisions(policy, np.random.default_rng(7))

    def test_the_linear_kernel_is_the_shared_model(self):
        policy = kb.KernelUCB(LINEAR, regularization=REGULARIZATION, exploration=0.7)

        found = self.decisions(policy, np.random.default_rng(7))

        assert_allclose(found, self.lin_ucb("shared"), rtol=1e-8, atol=1e-10)
        assert np.mean(found[:, 0] != self.lin_ucb("disjoint")[:, 0]) > 0.2

    def test_the_disjoint_model_needs_the_action_in_the_kernel(self):
        """k((a, x), (a', x')) = 1[a = a'] x·x', the linear kernel on rows with one block of columns per action."""
        policy = kb.KernelUCB(LINEAR, regularization=REGULARIZATION, exploration=0.7)
        disjoint = self.lin_ucb("disjoint")
        generator = np.random.default_rng(7)
        weights = generator.normal(size=(4, 3))

        for contexts, expected in zip(generator.normal(size=(60, 4, 3)), disjoint, strict=True):
            blocks = np.zeros((4, 4, 3))
            blocks[np.arange(4), np.arange(4)] = contexts
            decision = policy.choose(blocks.reshape(4, 12))
            assert_allclose([decision.action, decision.mean, decision.width], expected, rtol=1e-8, atol=1e-10)
            policy.learn(decision, float(contexts[decision.action] @ weights[decision.action]))


class TestE28WhichAlgorithmIsBounded:
    """Theorem 1 is about SupKernelUCB; KernelUCB has a bound of its own, with other schedules."""

    horizon, n_actions, delta = 400, 8, 0.1

    def test_the_bound_of_kernel_ucb_is_linear_in_the_dimension(self):
        """Both in terms of d̃, with L_T = 2 d̃ l_T: four times d̃ costs KernelUCB a factor 4, SupKernelUCB a factor 2."""
        T, regularization = 10**12, 0.3
        problem = {"horizon": T, "regularization": regularization}
        found = []
        for dimension in (10**3, 4 * 10**3):
            gain = 2 * dimension * horizon_logarithm(**problem, effective_dimension=dimension)
            state = RoundState(round_index=T, n_actions=10, log_det_gain=gain, regularization=regularization)
            eta = Mixture(norm_bound=1.0, noise_scale=0.5, failure_probability=0.1)(state)
            plain = kernel_ucb_bound(**problem, log_det_gain=gain, exploration=eta)
            levels = sup_kernel_ucb_bound(
                **problem, n_actions=10, effective_dimension=dimension, norm_bound=1.0, failure_probability=0.1
            )
            found.append((plain, levels))

        assert_allclose(np.divide(found[1], found[0]), [4.0, 2.0], rtol=0.01)

    def run(self, exploration, *, norm=2.0, noise=0.1):
        kernel = Gaussian(length_scale=0.3)
        world = kb.environments.SyntheticRKHS(
            kernel, n_actions=self.n_actions, n_features=2, norm=norm, noise_scale=noise
        )
        policy = kb.KernelUCB(kernel, regularization=REGULARIZATION, exploration=exploration)
        return kb.simulate(world, policy, horizon=self.horizon, seed=3)

    def test_kernel_ucb_keeps_its_own_bound(self):
        trace = self.run(Mixture(norm_bound=2.0, noise_scale=0.1, failure_probability=self.delta))

        along = kernel_ucb_trace_bound(trace.exploration, trace.width)
        closed = kernel_ucb_bound(
            horizon=self.horizon,
            regularization=REGULARIZATION,
            log_det_gain=float(trace.log_det_gain[-1]),
            exploration=float(trace.exploration[-1]),
        )

        assert 0.0 < trace.regret[-1] <= along <= closed
        greedy = self.run(1e-3)  # control: a constant that is not valid
        assert greedy.regret[-1] > kernel_ucb_trace_bound(greedy.exploration, greedy.width)

    def test_the_constant_of_theorem_1_promises_nothing_for_kernel_ucb(self):
        """The second example of E1: the index 0.01 η of the better action never reaches the mean of the other one."""
        actions, theta, horizon = np.array([[1.0, 0.0], [0.0, 0.01]]), np.array([0.6, 100.0]), 10**10
        eta = sup_kernel_ucb_scale(horizon=horizon, n_actions=2, failure_probability=0.1, mode="paper")
        policy = kb.KernelUCB(LINEAR, regularization=1.0, exploration=eta)

        for _ in range(300):
            decision = policy.choose(actions)
            assert decision.action == 0
            policy.learn(decision, float(actions[decision.action] @ theta))

        # From here on the mean of the first action only rises, towards 0.6.
        mean, width = policy.posterior.predict(actions).mean, policy.posterior.predict(actions).width
        assert mean[0] > 0.59 > eta * width[1]
        claimed = theorem_1_bound(
            horizon=horizon, n_actions=2, regularization=1.0, effective_dimension=1, norm=100.0, failure_probability=0.1
        )
        assert 0.4 * horizon > claimed
        valid = Mixture(norm_bound=100.0, noise_scale=0.0, failure_probability=0.1)
        cautious = kb.KernelUCB(LINEAR, regularization=1.0, exploration=valid)  # control
        cautious.warm_start(actions[[0] * 300], [0.6] * 300)
        prediction = cautious.posterior.predict(actions)
        state = RoundState(round_index=301, n_actions=2, log_det_gain=log(301), regularization=1.0)
        assert prediction.upper(valid(state))[1] >= 1.0 - 1e-9
