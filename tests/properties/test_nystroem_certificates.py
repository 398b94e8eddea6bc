"""The certificate of a Nyström posterior holds: oracles 10, 16 and 17, and coverage, each with a negative control."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import kernelbandits as kb
from kernelbandits.kernels import Gaussian, Matern
from kernelbandits.posterior import (
    BatchedResampling,
    ExactPosterior,
    NystroemPosterior,
    OnlineRowSampling,
    Resampling,
    ResidualDictionary,
)
from kernelbandits.theory.exploration import Mixture, RoundState, SelfNormalized

RULES = [
    ResidualDictionary(tolerance=1.0),
    ResidualDictionary(size=10),
    OnlineRowSampling(oversampling=0.5),
    Resampling(oversampling=0.5),
    BatchedResampling(oversampling=0.5, batch="dictionary"),
]


class Problem:
    """A function of known norm, repeated points, noise, and a dictionary: by a rule, or picked by the noise."""

    def __init__(self, seed):
        rng = np.random.default_rng(seed)
        self.kernel = [Gaussian(length_scale=0.4), Matern(smoothness=1.5, length_scale=0.6)][seed % 2]
        self.gamma = float(10.0 ** rng.uniform(-2, 1))
        self.points = rng.uniform(-1, 1, size=(int(rng.integers(5, 90)), int(rng.integers(1, 4))))
        self.points[::5] = self.points[0]
        centers = rng.uniform(-1.5, 1.5, size=(8, self.points.shape[1]))
        weights = rng.normal(size=8)
        weights *= 2.0 / np.sqrt(weights @ self.kernel.gram(centers) @ weights)
        self.norm = 2.0
        self.noise = rng.normal(size=len(self.points)) * rng.uniform(0.05, 1.0)
        self.queries = rng.uniform(-2, 2, size=(60, self.points.shape[1]))
        self.true = self.kernel.gram(self.queries, centers) @ weights
        self.rewards = self.kernel.gram(self.points, centers) @ weights + self.noise
        rule = RULES[seed % len(RULES)]
        self.posterior = NystroemPosterior(self.kernel, regularization=self.gamma, dictionary=rule, seed=seed)
        if seed % 3 == 0:  # a dictionary that knows the noise
            picked = self.points[np.argsort(self.noise)[: max(1, len(self.points) // 6)]]
            rule = ResidualDictionary(tolerance=1e12)
            self.posterior = NystroemPosterior(self.kernel, regularization=self.gamma, dictionary=rule)
            self.posterior.observe(self.points, self.rewards)
            self.posterior._rebuild(picked)
        else:
            for start in range(0, len(self.points), 7):
                self.posterior.observe(self.points[start : start + 7], self.rewards[start : start + 7])

    def factor(self):
        """The right-hand side of oracle 16 without the width, from the noise itself."""
        gram = self.kernel.gram(self.points)
        effect = self.noise @ np.linalg.solve(gram + self.gamma * np.eye(len(gram)), gram @ self.noise)
        return np.sqrt(effect) + (np.sqrt(self.gamma) + np.sqrt(self.posterior.residual)) * self.norm

    def sor_width(self):
        """The width without what the dictionary leaves unexplained."""
        located = self.posterior._locate(self.queries)
        return np.sqrt(located.explained)


SEEDS = range(60)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_error_is_at_most_the_dtc_width_times_the_factor(seed):
    problem = Problem(seed)

    prediction = problem.posterior.predict(problem.queries)

    assert (np.abs(prediction.mean - problem.true) <= prediction.width * problem.factor() + 1e-9).all()


def test_the_width_without_the_residual_fails_the_same_inequality():
    """Negative control (SoR): it tends to zero where the error is the function itself."""
    worst = 0.0
    for seed in SEEDS:
        problem = Problem(seed)
        error = np.abs(problem.posterior.predict(problem.queries).mean - problem.true)
        worst = max(worst, float((error / (problem.sor_width() * problem.factor() + 1e-12)).max()))

    assert worst > 10.0


@pytest.mark.parametrize("seed", SEEDS)
def test_the_log_determinant_lies_in_its_bracket(seed):
    problem = Problem(seed)
    exact = ExactPosterior(problem.kernel, regularization=problem.gamma)
    exact.observe(problem.points, problem.rewards)

    low, high = problem.posterior.certificate.log_det_gain

    assert low - 1e-8 <= exact.log_det_gain <= high + 1e-8


def test_the_dtc_width_is_no_upper_bound_on_the_exact_width():
    """What is not claimed: projection discards correlations."""
    shares = []
    for seed in SEEDS:
        problem = Problem(seed)
        exact = ExactPosterior(problem.kernel, regularization=problem.gamma)
        exact.observe(problem.points, problem.rewards)
        ratio = problem.posterior.predict(problem.queries).width / exact.predict(problem.queries).width
        shares.append(float((ratio < 1.0 - 1e-9).mean()))

    assert 0.02 < np.mean(shares) < 0.6


@pytest.mark.parametrize(("gamma", "tolerance"), [(1.0, 1e-6), (0.01, 1e-6), (0.001, 1e-5)])
def test_with_all_points_in_the_dictionary_it_is_the_exact_posterior(gamma, tolerance):
    """Oracle 10."""
    rng = np.random.default_rng(0)
    points, rewards, queries = rng.uniform(size=(300, 2)), rng.normal(size=300), rng.uniform(size=(50, 2))
    kernel = Matern(smoothness=1.5, length_scale=0.5)
    posterior = NystroemPosterior(kernel, regularization=gamma, dictionary=ResidualDictionary(tolerance=0.0))
    exact = ExactPosterior(kernel, regularization=gamma)

    posterior.observe(points, rewards)
    exact.observe(points, rewards)

    found, true = posterior.predict(queries), exact.predict(queries)
    assert_allclose(found.mean, true.mean, atol=tolerance * np.abs(true.mean).max())
    assert_allclose(found.width, true.width, rtol=tolerance)


def test_with_an_empty_dictionary_it_is_the_prior():
    """Oracle 10."""
    posterior = NystroemPosterior(Gaussian(length_scale=1.0), regularization=0.3,
                                  dictionary=ResidualDictionary(tolerance=1e12))  # fmt: skip
    posterior.observe([[0.0], [1.0]], [1.0, 2.0])

    prediction = posterior.predict([[0.5]])

    assert prediction.mean == [0.0]
    assert prediction.width == pytest.approx(np.sqrt(1.0 / 0.3))


@pytest.mark.parametrize("seed", range(10))
def test_a_batch_shrinks_widths_by_no_more_than_its_factor(seed):
    """Oracle 17, with a fixed dictionary; equality when the batch repeats one point."""
    rng = np.random.default_rng(seed)
    rule = BatchedResampling(oversampling=1.0, threshold=1e12)
    posterior = NystroemPosterior(Gaussian(length_scale=0.5), regularization=0.2, dictionary=rule)
    points = rng.normal(size=(40, 2))
    posterior.observe(points, rng.normal(size=40))
    posterior._rebuild(points[:12])
    before = posterior.predict(points)

    posterior.observe(rng.normal(size=(8, 2)) if seed else np.repeat(points[:1], 8, axis=0), np.ones(8))

    after = posterior.predict(points)
    assert (before.width <= posterior.inflation * after.width * (1 + 1e-9)).all()
    if not seed:
        assert before.width[0] == pytest.approx(posterior.inflation * after.width[0])


@pytest.mark.parametrize("schedule", [SelfNormalized, Mixture])
def test_schedules_add_what_the_dictionary_leaves_out(schedule):
    exploration = schedule(noise_scale=0.3, norm_bound=2.0, failure_probability=0.1)
    state = {"round_index": 5, "n_actions": 3, "log_det_gain": 4.0, "regularization": 0.25}
    sums = SelfNormalized(noise_scale=0.3, norm_bound=2.0, failure_probability=0.1)(RoundState(**state))

    assert exploration(RoundState(**state, residual=0.09)) == pytest.approx(sums + 0.3 * 2.0)


def _coverage(exploration_of, *, n_runs=40, delta=0.1, budget=12):
    """Share of runs in which an interval of an adaptive policy fails in some round."""
    failures = 0
    for seed in range(n_runs):
        rng = np.random.default_rng(seed)
        kernel = Gaussian(length_scale=0.25)
        centers, weights = rng.uniform(size=(6, 1)), rng.normal(size=6)
        weights *= 1.5 / np.sqrt(weights @ kernel.gram(centers) @ weights)
        schedule = SelfNormalized(noise_scale=0.2, norm_bound=1.5, failure_probability=delta)
        policy = kb.KernelUCB(kernel, regularization=0.1, exploration=schedule, budget=budget)
        has_failed = False
        for _ in range(60):
            contexts = rng.uniform(size=(6, 1))
            true = kernel.gram(contexts, centers) @ weights
            prediction = policy.posterior.predict(contexts)
            half_width = exploration_of(policy, schedule) * prediction.width
            has_failed |= bool((np.abs(prediction.mean - true) > half_width + 1e-9).any())
            decision = policy.choose(contexts)
            policy.learn(decision, float(true[decision.action] + 0.2 * rng.normal()))
        failures += has_failed
    return failures / n_runs


def _claimed(policy, schedule):
    posterior = policy.posterior
    state = RoundState(
        round_index=1, n_actions=6, log_det_gain=posterior.log_det_gain, regularization=0.1, residual=posterior.residual
    )
    return schedule(state)


def test_intervals_beyond_the_budget_hold_with_their_probability():
    """Oracle 20, in worlds where the budget is exceeded; at most 10 % may fail, and nearly none does."""
    assert _coverage(_claimed) <= 0.1


def test_intervals_without_the_certificate_would_fail_more_often():
    """Negative control: a factor that is too small is noticed."""
    assert _coverage(lambda policy, schedule: 0.1 * np.sqrt(0.1)) > 0.5
