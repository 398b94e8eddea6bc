import numpy as np
import pytest
from numpy.testing import assert_allclose

from kernelbandits.environments import SyntheticRKHS
from kernelbandits.errors import InvalidParameter
from kernelbandits.evaluation import DirectMethod, DoublyRobust, Log, Switch, collect_log, true_value
from kernelbandits.evaluation.reward_models import model_error, model_values, residual_variance
from kernelbandits.evaluation.targets import Target
from kernelbandits.kernels import Delta, Gaussian, Linear, Spectrum
from kernelbandits.policies import KernelUCB, Softmax, UniformRandom
from kernelbandits.posterior import ExactPosterior, posterior_factory
from logs import slow_weights, string_log

LOG, KERNEL, GAMMA = string_log(41), Spectrum(n=2), 0.7
SHOWN = [LOG.rounds[t][LOG.actions[t]] for t in range(len(LOG))]


def make_target():
    return Softmax(KernelUCB(KERNEL), temperature=0.3, seed=0)


def slow_error(log, policy, folds, weights, noise_variance):
    """Standard error from the definition: the value is made a matrix times rewards, and everything is written out."""
    n_rounds = len(log)
    logged = [log.rounds[t][log.actions[t]] for t in range(n_rounds)]
    among = KERNEL.gram(logged)
    points, measure, coefficients, means = [], [], np.array(weights) / n_rounds, []
    for t in range(n_rounds):
        known = [s for s in range(n_rounds) if folds == 1 or s % folds != t % folds]
        solved = np.linalg.inv(among[np.ix_(known, known)] + GAMMA * np.eye(len(known)))
        probabilities, similarity = policy.probabilities(log.rounds[t]), KERNEL.gram(log.rounds[t], logged)
        hats = similarity[:, known] @ solved
        coefficients[known] += (probabilities @ hats - weights[t] * hats[log.actions[t]]) / n_rounds
        means.append(probabilities @ hats @ log.rewards[known])
        points += log.rounds[t]
        measure += list(probabilities / n_rounds)
    signed = np.array([*measure, *-coefficients])
    everything = KERNEL.gram(points + logged)
    of_model = coefficients @ coefficients + signed @ everything @ signed / GAMMA
    return np.sqrt(np.var(means, ddof=1) / n_rounds + noise_variance * of_model)


@pytest.mark.parametrize("posterior", ["auto", "exact"])
def test_the_error_of_the_direct_method_is_its_definition(posterior):
    model = DirectMethod(KERNEL, GAMMA, posterior=posterior, noise_variance=1.7)

    result = model.estimate(LOG, make_target())

    assert_allclose(result.standard_error, slow_error(LOG, make_target(), 1, np.zeros(41), 1.7), rtol=1e-7)
    assert "assumes that the kernel is right" in result.warnings[0]


def test_without_folds_it_is_the_posterior_variance_of_the_mean():
    posterior = ExactPosterior(KERNEL, regularization=GAMMA)
    posterior.observe(SHOWN, LOG.rewards)
    points = [word for words in LOG.rounds for word in words]
    weights = np.concatenate([make_target().probabilities(words) for words in LOG.rounds]) / 41

    result = DirectMethod(KERNEL, GAMMA, noise_variance=1.7).estimate(LOG, make_target())

    variance = 1.7 * weights @ posterior.covariance(points) @ weights
    without = DirectMethod(KERNEL, GAMMA, noise_variance=1e-12).estimate(LOG, make_target()).standard_error
    assert_allclose(result.standard_error**2 - without**2, variance, rtol=1e-6)


@pytest.mark.parametrize("folds", [1, 2, 3])
@pytest.mark.parametrize("threshold", [0.0, 0.4, 1.1])
def test_the_error_of_switch_is_its_definition(folds, threshold):
    weights = slow_weights(LOG, make_target())
    trusted = np.where(weights <= threshold, weights, 0.0)

    result = Switch(DirectMethod(KERNEL, GAMMA, noise_variance=1.7), threshold, folds=folds).estimate(
        LOG, make_target()
    )

    assert_allclose(result.standard_error, slow_error(LOG, make_target(), folds, trusted, 1.7), rtol=1e-7)
    assert "assumes that the kernel is right" in result.warnings[-1]


def test_switch_that_trusts_every_weight_says_what_doubly_robust_says():
    model = DirectMethod(KERNEL, GAMMA)

    result = Switch(model, np.inf).estimate(LOG, make_target())

    assert result == DoublyRobust(model).estimate(LOG, make_target())


@pytest.mark.parametrize("kernel", [Gaussian(length_scale=0.6), Linear()])
def test_every_form_of_the_posterior_states_the_same_error(kernel):
    rng = np.random.default_rng(2)
    rounds = [rng.normal(size=(rng.integers(1, 6), 3)) for _ in range(60)]
    log = Log(rounds, [int(rng.integers(len(rows))) for rows in rounds], [0.5] * 60, rng.normal(size=60))
    forms = ["auto", "exact", "primal"] if kernel == Linear() else ["auto", "exact"]

    errors = [DirectMethod(kernel, 0.3, posterior=form).estimate(log, UniformRandom()).standard_error for form in forms]

    assert_allclose(errors, errors[0], rtol=1e-6)


def error_of(model, log, **options):
    """Standard error of the model alone, under the uniform policy."""
    target = Target.of(log, UniformRandom())
    variance, _ = model_error(model_values(model, log, target, folds=1), log, target, np.zeros(len(log)), **options)
    return np.sqrt(variance)


def test_of_very_many_actions_some_stand_for_all():
    log = string_log(300, seed=3)
    model = DirectMethod(KERNEL, GAMMA, noise_variance=1.7)

    exactly, thinned = error_of(model, log), error_of(model, log, most_actions=200)

    assert exactly < thinned < 1.1 * exactly


def test_actions_that_stand_for_all_are_of_every_row():
    """Of three actions only the middle one was shown often; the others are most of the error."""
    rng = np.random.default_rng(0)
    actions = np.where(rng.random(300) < 0.98, 1, 2 * rng.integers(2, size=300))
    log = Log([["a", "b", "c"] for _ in range(300)], actions, np.where(actions == 1, 0.98, 0.01), rng.normal(size=300))
    model = DirectMethod(Delta(), 1.0, noise_variance=1.0)

    exactly, thinned = error_of(model, log), error_of(model, log, most_actions=300)

    assert_allclose(thinned, exactly, rtol=0.15)


def test_a_set_shown_again_and_again_is_counted_as_often():
    items, rng = ["aa", "ab", "bb"], np.random.default_rng(1)
    actions, rewards = rng.integers(3, size=20), rng.normal(size=20)
    shared = Log([items] * 20, actions, [1 / 3] * 20, rewards)
    apart = Log([list(items) for _ in range(20)], actions, [1 / 3] * 20, rewards)

    errors = [Switch(DirectMethod(KERNEL), 0.5).estimate(log, make_target()).standard_error for log in (shared, apart)]

    assert_allclose(*errors, rtol=1e-9)


@pytest.mark.parametrize("estimator", [lambda model: model, lambda model: Switch(model, 0.4)])
def test_a_posterior_that_forgets_leaves_its_error_out_and_says_so(estimator):
    model = DirectMethod(KERNEL, GAMMA, posterior=posterior_factory("windowed", length=1_000))

    result = estimator(model).estimate(LOG, make_target())

    assert any("ignores the error of the reward model" in warning for warning in result.warnings)
    assert result.standard_error < estimator(DirectMethod(KERNEL, GAMMA)).estimate(LOG, make_target()).standard_error


def test_the_noise_is_that_of_the_residuals():
    posterior = ExactPosterior(KERNEL, regularization=GAMMA)
    posterior.observe(SHOWN, LOG.rewards)

    result = residual_variance(posterior, SHOWN, LOG.rewards)

    gram = KERNEL.gram(SHOWN)
    hat = gram @ np.linalg.inv(gram + GAMMA * np.eye(41))
    assert_allclose(result, np.sum((LOG.rewards - hat @ LOG.rewards) ** 2) / (41 - np.trace(hat)))


def test_the_noise_is_estimated_right_on_average_under_the_process():
    """Functions of the process with covariance (σ²/γ) k, and noise of variance σ² = 0.09."""
    rng, points, gamma = np.random.default_rng(0), np.linspace(0, 1, 60)[:, None], 0.5
    kernel, result = Gaussian(length_scale=0.2), []
    root = np.linalg.cholesky(0.09 / gamma * kernel.gram(points) + 0.09 * np.eye(60))
    for _ in range(100):
        rewards = root @ rng.normal(size=60)
        posterior = ExactPosterior(kernel, regularization=gamma)
        posterior.observe(points, rewards)
        result.append(residual_variance(posterior, points, rewards))

    error = np.std(result, ddof=1) / 10
    assert abs(np.mean(result) - 0.09) < 4 * error


@pytest.mark.parametrize(("n_points", "gamma"), [(1, 1.0), (1, 1e-4), (9, 1e-2), (9, 1e-6)])
def test_the_noise_is_right_on_average_where_the_fit_meets_every_reward(n_points, gamma):
    """Points so far apart that every reward has a parameter of its own, and residuals are next to nothing."""
    rng, points, result = np.random.default_rng(1), np.arange(n_points)[:, None], []
    kernel = Gaussian(length_scale=0.2)
    root = np.linalg.cholesky(0.09 / gamma * kernel.gram(points) + 0.09 * np.eye(n_points))
    for _ in range(400):
        rewards = root @ rng.normal(size=n_points)
        posterior = ExactPosterior(kernel, regularization=gamma)
        posterior.observe(points, rewards)
        result.append(residual_variance(posterior, points, rewards))

    assert abs(np.mean(result) - 0.09) < 4 * np.std(result, ddof=1) / 20


def test_rewards_without_noise_leave_hardly_any():
    points = np.linspace(0, 1, 200)[:, None]
    posterior = ExactPosterior(Linear() + 1.0, regularization=1e-3)
    rewards = 2.0 - 0.5 * points[:, 0]
    posterior.observe(points, rewards)

    assert residual_variance(posterior, points, rewards) < 1e-9


@pytest.mark.long
def test_intervals_hold_far_more_often_than_without_the_model():
    """Without the error of the model one interval in five holds."""
    kernel = Gaussian(length_scale=0.3)
    world = SyntheticRKHS(kernel, n_actions=8, n_features=2, noise="bernoulli", seed=4)
    target = KernelUCB(kernel, regularization=0.5, exploration=0.0)
    target.warm_start(np.random.default_rng(0).random((30, 2)), np.random.default_rng(1).random(30))
    judges, held = [DirectMethod(kernel, 0.5), Switch(DirectMethod(kernel, 0.5), 5.0)], np.zeros(2)

    for seed in range(20):
        log = collect_log(world, UniformRandom(seed=seed), horizon=200, seed=seed)
        truth = true_value(world, target, horizon=500, seed=seed).value
        result = [judge.estimate(log, target) for judge in judges]
        held += [one.low <= truth <= one.high for one in result]

    assert (held >= 15).all()  # 0.95 · 20 = 19, with a standard deviation of 1


@pytest.mark.parametrize("noise_variance", [0.0, -1.0, np.nan])
def test_a_noise_variance_that_is_none_is_rejected(noise_variance):
    with pytest.raises(InvalidParameter, match=r"noise variance .* None estimates it"):
        DirectMethod(Delta(), noise_variance=noise_variance)
