"""The logistic posterior, compared with its definition: the mode and the curvature of the posterior density."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize

import kernelbandits as kb
from kernelbandits.errors import DamagedFile, GuaranteeVoid, InvalidParameter, InvalidReward, NotSupported
from kernelbandits.evaluation import DirectMethod
from kernelbandits.kernels import Delta, Gaussian, Linear, Precomputed, Spectrum
from kernelbandits.policies import BaseKernelUCB
from kernelbandits.posterior import LogisticPosterior, PrimalPosterior, posterior_factory
from kernelbandits.posterior.pending import Pending
from kernelbandits.theory import exploration as schedules

KERNEL = Gaussian(length_scale=0.6) + 0.5
ROWS = np.random.default_rng(0).normal(size=(9, 2))


def sigmoid(values):
    return 1.0 / (1.0 + np.exp(-values))


def history(seed=1, n_rewards=60):
    rng = np.random.default_rng(seed)
    places = rng.integers(len(ROWS), size=n_rewards)
    return places, (rng.random(n_rewards) < sigmoid(2.0 * ROWS[places, 0])).astype(float)


def by_definition(kernel, regularization, rows, places, rewards, queries):
    """Mean, width² and log-determinant from the density of the log-odds at the distinct points."""
    known = sorted(set(places))
    counts = np.array([np.sum(places == place) for place in known], dtype=float)
    sums = np.array([rewards[places == place].sum() for place in known])
    points = np.asarray(rows)[known]
    prior = kernel.gram(points) / regularization
    inverse = np.linalg.inv(prior + 1e-12 * np.eye(len(known)))

    def loss(values):
        gradient = counts * sigmoid(values) - sums + inverse @ values
        return counts @ np.logaddexp(0.0, values) - sums @ values + 0.5 * values @ inverse @ values, gradient

    values = minimize(loss, np.zeros(len(known)), jac=True, tol=1e-14, options={"maxiter": 10_000}).x
    weights = counts * sigmoid(values) * sigmoid(-values)
    cross = kernel.gram(points, queries) / regularization
    mean = cross.T @ inverse @ values
    explained = cross.T @ np.linalg.solve(prior + np.diag(1.0 / weights), cross)
    covariance = kernel.gram(queries) / regularization - explained
    return mean, covariance, np.linalg.slogdet(np.eye(len(known)) + prior * weights)[1]


@pytest.mark.parametrize("regularization", [0.05, 0.7, 9.0])
def test_mean_width_covariance_and_gain_are_those_of_the_definition(regularization):
    places, rewards = history()
    posterior = LogisticPosterior(KERNEL, regularization=regularization)
    for place, reward in zip(places, rewards, strict=True):
        posterior.observe(ROWS[[place]], [reward])
    queries = np.vstack([ROWS[:3], [[0.3, -0.4], [9.0, 9.0]]])

    found = posterior.predict(queries)

    mean, covariance, gain = by_definition(KERNEL, regularization, ROWS, places, rewards, queries)
    assert_allclose(found.mean, mean, atol=1e-5)
    assert_allclose(found.width**2, np.diagonal(covariance), rtol=1e-5)
    assert_allclose(posterior.covariance(queries), covariance, atol=1e-5)
    assert posterior.log_det_gain == pytest.approx(gain, rel=1e-5)
    points, weights, counts, sums = posterior.support()
    assert_allclose(KERNEL.gram(queries, points) @ weights, found.mean, atol=1e-8)
    assert (counts.sum(), sums.sum()) == (60, rewards.sum())
    assert posterior.norm**2 == pytest.approx(weights @ KERNEL.gram(points) @ weights, rel=1e-6)


def test_a_linear_kernel_is_logistic_regression():
    from sklearn.linear_model import LogisticRegression

    places, rewards = history()
    posterior = LogisticPosterior(Linear(), regularization=0.7)
    posterior.observe(ROWS[places], rewards)

    fitted = LogisticRegression(C=1.0 / 0.7, fit_intercept=False, tol=1e-10).fit(ROWS[places], rewards)

    assert_allclose(posterior.predict(ROWS).mean, fitted.decision_function(ROWS), atol=1e-5)


def model():
    places, rewards = history()
    posterior = LogisticPosterior(KERNEL, regularization=0.7)
    posterior.observe(ROWS[places], rewards)
    return posterior, places, rewards


def same(first, second):
    one, other = first.predict(ROWS), second.predict(ROWS)
    assert_allclose(one.mean, other.mean, atol=1e-8)
    assert_allclose(one.width, other.width, rtol=1e-8)


def test_rewards_can_come_in_any_order_and_be_amended_and_removed():
    posterior, places, rewards = model()
    other = LogisticPosterior(KERNEL, regularization=0.7)
    other.observe(ROWS[places[::-1]], rewards[::-1])
    same(posterior, other)

    extra = np.array([[0.1, 0.2]])
    other.observe(extra, [1.0])
    other.observe(ROWS[:1], [1.0 - rewards[0]])
    other.amend(ROWS[:1], was=[1.0 - rewards[0]], now=[0.0])
    other.remove(ROWS[:1], [0.0])
    other.remove(extra, [1.0])

    same(posterior, other)
    other.remove(ROWS[places], rewards)
    assert other.log_det_gain == other.norm == 0.0
    assert_allclose(other.predict(ROWS).width ** 2, KERNEL.diagonal(ROWS) / 0.7)


def test_the_width_depends_on_the_rewards():
    sure, unsure = (LogisticPosterior(KERNEL, regularization=0.7) for _ in range(2))
    sure.observe(ROWS[:1], [0.0], times=40)
    unsure.observe(ROWS[:1], [0.5], times=40)

    assert sure.predict(ROWS[:1]).width > 1.5 * unsure.predict(ROWS[:1]).width


@pytest.mark.parametrize("share", [0.0, 1.0])
@pytest.mark.parametrize("regularization", [1e-6, 1.0, 1e6])
def test_rewards_that_are_all_equal_have_finite_log_odds(share, regularization):
    posterior = LogisticPosterior(KERNEL, regularization=regularization)

    posterior.observe(ROWS, np.full(9, share), times=[1, 10**6, 3, 1, 1, 10**9, 1, 1, 1])

    found = posterior.predict(ROWS)
    assert np.isfinite(found.mean).all()
    assert (found.width > 0.0).all()
    assert (np.sign(found.mean) == (1.0 if share else -1.0)).all()


@pytest.mark.parametrize("kernel", [Delta(), Spectrum(n=1), Precomputed(np.eye(3) + 0.3)], ids=repr)
def test_any_kind_of_point(kernel):
    points = ["aa", "ab", "cc"] if isinstance(kernel, Spectrum) else [0, 1, 2]
    posterior = LogisticPosterior(kernel, regularization=0.3)

    posterior.observe(points, [1.0, 1.0, 0.0], times=[3, 1, 4])

    assert posterior.predict(points).mean.argmin() == 2


# -- probabilities -----------------------------------------------------------------------------------------------------


def test_probabilities_are_those_of_the_normal_distribution_of_log_odds():
    posterior, *_ = model()
    prediction, normal = posterior.predict(ROWS), np.random.default_rng(0).standard_normal(200_000)

    found = posterior.probabilities(ROWS, confidence=0.8)

    for place in range(len(ROWS)):
        drawn = sigmoid(prediction.mean[place] + prediction.width[place] * normal)
        assert found.mean[place] == pytest.approx(drawn.mean(), abs=0.015)
        assert_allclose([found.low[place], found.high[place]], np.quantile(drawn, [0.1, 0.9]), atol=0.01)


@pytest.mark.parametrize("offset", [0.0, -3.5])
def test_intervals_cover_the_probability(offset):
    """Log-odds from the prior, about the rate of a coin or of rare clicks; 95 % intervals after 300 rewards."""
    held, ridge_held, below = [], [], 0
    kernel = Gaussian(length_scale=0.6) + max(offset**2, 0.25)
    items = np.random.default_rng(0).uniform(size=(40, 2))
    root = np.linalg.cholesky(Gaussian(length_scale=0.6).gram(items) + 1e-9 * np.eye(40))
    for seed in range(60):
        rng = np.random.default_rng(seed)
        truth = sigmoid(root @ rng.normal(size=40) + offset)
        places = rng.integers(40, size=300)
        rewards = (rng.random(300) < truth[places]).astype(float)
        logistic = LogisticPosterior(kernel, regularization=1.0)
        logistic.observe(items[places], rewards)
        found = logistic.probabilities(items)
        held.append(np.mean((found.low <= truth) & (truth <= found.high)))
        ridge = PrimalPosterior(Linear(), regularization=1.0)  # a negative control: a model without similarity
        ridge.observe(items[places], rewards)
        prediction = ridge.predict(items)
        deviation = 1.96 * rewards.std() * prediction.width
        ridge_held.append(np.mean(np.abs(prediction.mean - truth) <= deviation))
        below += int((prediction.mean - deviation < 0.0).sum())

    assert 0.92 < np.mean(held) < 0.985
    assert np.mean(ridge_held) < 0.85


# -- policies ----------------------------------------------------------------------------------------------------------


def play(policy, seed=0, n_rounds=150):
    rng = np.random.default_rng(seed)
    items = rng.uniform(size=(12, 2))
    share = sigmoid(4.0 * items[:, 0] - 4.0)
    clicks = 0.0
    for _ in range(n_rounds):
        decision = policy.choose(items)
        reward = float(rng.random() < share[decision.action])
        policy.learn(decision, reward)
        clicks += share[decision.action]
    return items, clicks / n_rounds, share


@pytest.mark.parametrize(
    "make",
    [
        lambda: kb.KernelUCB(KERNEL, posterior="logistic", exploration=0.5),
        lambda: kb.KernelThompson(KERNEL, posterior="logistic", exploration=1.0, draws="joint", seed=0),
        lambda: kb.Mixed(kb.KernelUCB(KERNEL, posterior="logistic", exploration=0.5), epsilon=0.1, seed=0),
        lambda: kb.Softmax(kb.KernelUCB(KERNEL, posterior="logistic", exploration=0.5), temperature=0.5, seed=0),
    ],
    ids=["KernelUCB", "KernelThompson", "Mixed", "Softmax"],
)
def test_policies_learn_with_it_and_are_saved_and_loaded(make, tmp_path):
    policy = make()
    items, earned, share = play(policy)
    policy.save(tmp_path / "policy.kb")

    loaded = kb.load(tmp_path / "policy.kb")
    copied = pickle.loads(pickle.dumps(policy))

    assert earned > share.mean() + 0.02
    for other in (loaded, copied, policy.copy()):
        assert_allclose(other.probabilities(items), policy.probabilities(items), atol=1e-9)
        assert other.describe() == policy.describe()


def test_pending_decisions_count_with_the_information_of_a_binary_reward():
    posterior, *_ = model()
    queries = ROWS[[2]]
    width = posterior.predict(queries).width
    information = sigmoid(posterior.predict(queries).mean) * sigmoid(-posterior.predict(queries).mean)

    narrowed = posterior.predict(queries, pending=ROWS[[2, 2]]).width

    assert_allclose(posterior.information(queries), information)
    assert_allclose(narrowed**2, width**2 / (1.0 + 2.0 * information * width**2))
    assert Pending(posterior, queries).inflation == pytest.approx(float(np.sqrt(1.0 + information * width**2)[0]))


def test_a_diverse_slate_is_what_choosing_after_expecting_gives():
    policy = kb.KernelUCB(KERNEL, posterior="logistic", exploration=2.0)
    play(policy, n_rounds=40)
    items = np.random.default_rng(3).uniform(size=(8, 2))

    slate = policy.choose(items, k=3, diverse=True)

    eligible = np.ones(8, dtype=bool)
    for place in range(3):
        decision = policy.choose(items, eligible=eligible)
        assert decision.action == slate[place].action
        assert decision.width == pytest.approx(slate[place].width, rel=1e-6)
        policy.expect(decision)
        eligible[decision.action] = False


def test_decisions_can_be_amended_unlearned_and_explained():
    policy, other = (kb.KernelUCB(KERNEL, posterior="logistic", exploration=0.5) for _ in range(2))
    first, second = policy.choose(ROWS), policy.choose(ROWS)
    policy.learn(first, 1.0)
    policy.learn(second, 1.0)
    policy.unlearn(first)
    policy.amend(second, now=0.0)
    decision = other.choose(ROWS)
    other.learn(decision, 0.0)

    assert_allclose(policy.posterior.predict(ROWS).mean, other.posterior.predict(ROWS).mean, atol=1e-9)
    assert policy.explain(second).mean == pytest.approx(policy.posterior.predict(second.context[None]).mean[0])


# -- bad input ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reward", [-0.01, 1.5, 7.0])
def test_other_rewards_are_rejected_and_change_nothing(reward):
    posterior, *_ = model()
    policy = kb.KernelUCB(KERNEL, posterior="logistic")
    decision = policy.choose(ROWS)
    before = posterior.predict(ROWS)

    for call in (
        lambda: posterior.observe(ROWS[:2], [reward, 0.0]),
        lambda: posterior.amend(ROWS[:1], was=[0.0], now=[reward]),
        lambda: policy.learn(decision, reward),
        lambda: policy.warm_start(ROWS[:2], [0.0, reward]),
    ):
        with pytest.raises(InvalidReward, match="between 0 and 1, got"):
            call()

    assert_allclose(posterior.predict(ROWS).mean, before.mean)
    assert policy.posterior.n_observations == 0
    policy.learn(decision, 1.0)


def test_what_needs_rewards_rejects_log_odds():
    log = kb.evaluation.Log([ROWS] * 5, [0, 1, 2, 3, 4], [0.2] * 5, [0.0, 1.0, 1.0, 0.0, 1.0])
    with pytest.raises(InvalidParameter, match="predicts their log-odds"):
        DirectMethod(KERNEL, posterior="logistic").estimate(log, kb.UniformRandom())
    with pytest.raises(InvalidParameter, match="predicts their log-odds"):
        kb.PhasedElimination(KERNEL, ROWS, horizon=100, posterior="logistic")
    with pytest.raises(InvalidParameter, match="predicts their log-odds"):
        BaseKernelUCB(KERNEL, regularization=1.0, posterior="logistic")
    with pytest.raises(NotSupported, match="draws='joint'"):
        model()[0].weights_for(np.zeros((9, 1)))


def test_a_schedule_says_that_nothing_is_proved():
    schedule = schedules.Mixture(noise_scale=0.5, norm_bound=1.0, failure_probability=0.1)
    policy = kb.KernelUCB(KERNEL, posterior="logistic", exploration=schedule)

    with pytest.warns(GuaranteeVoid, match="predicts log-odds"):
        policy.choose(ROWS)


def test_a_file_with_other_sums_is_rejected():
    posterior, *_ = model()
    state = {name: array.copy() for name, array in posterior.state().items()}
    state["sums"][0] = state["counts"][0] + 1.0

    with pytest.raises(DamagedFile, match="not those of binary rewards"):
        LogisticPosterior(KERNEL, regularization=0.7).restore(state)

    restored = LogisticPosterior(KERNEL, regularization=0.7)
    restored.restore(posterior.state())
    same(posterior, restored)


def test_it_has_a_name():
    assert isinstance(posterior_factory("logistic")(KERNEL, 0.5), LogisticPosterior)
    assert kb.KernelUCB(KERNEL, posterior="logistic").describe()["posterior"] == "logistic"


def test_a_similarity_that_is_not_a_kernel_is_rejected_at_once():
    from kernelbandits.errors import NumericalError
    from kernelbandits.kernels import FromCallable

    posterior = LogisticPosterior(FromCallable(lambda x, z: -50.0 * (x @ z.T)), regularization=0.01)

    with pytest.raises((NumericalError, InvalidParameter)):
        posterior.observe(ROWS, np.tile([0.0, 1.0, 1.0], 3))
    assert posterior.n_observations == 0
