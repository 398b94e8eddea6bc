"""A model of the logging policy, compared with the definition, and with what is known where it is known."""

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression

import kernelbandits as kb
from kernelbandits.adapters import log_from_frame, log_to_frame, to_obp, write_adf_text, write_dsjson
from kernelbandits.environments import Log
from kernelbandits.errors import InvalidParameter, KernelBanditWarning, NotSupported
from kernelbandits.evaluation import (
    IPS,
    DirectMethod,
    DoublyRobust,
    EstimatedLog,
    PropensityModel,
    Replay,
    SelfNormalizedIPS,
    Switch,
    compare_on_log,
)
from kernelbandits.kernels import Delta, Gaussian, Linear, PairProduct, Polynomial, Precomputed, Spectrum
from kernelbandits.kernels.kinds import kind_of


def scores_of(rows):
    return 1.5 * np.sin(2.0 * rows[:, 0]) + rows[:, 1]


def means_of(rows):
    return np.cos(2.0 * rows[:, 0]) + 0.5 * rows[:, 1]


def shares_of(rows, scores=scores_of):
    powers = np.exp(scores(rows))
    return powers / powers.sum()


def logged(seed, n_rounds=400, *, confounding=0.0):
    """Sets of three to six actions, chosen by a softmax; a hidden cause may also drive the rewards."""
    rng = np.random.default_rng(seed)
    rounds, actions, shares, rewards = [], [], [], []
    for _ in range(n_rounds):
        rows, hidden = rng.uniform(-1.0, 1.0, size=(rng.integers(3, 7), 2)), confounding * rng.normal()
        given = shares_of(rows, lambda rows, hidden=hidden: scores_of(rows) + 4.0 * hidden * rows[:, 0])
        action = int(rng.choice(len(rows), p=given))
        rounds.append(rows)
        actions.append(action)
        shares.append(given[action])
        rewards.append(means_of(rows)[action] + hidden * rows[action, 0] + 0.3 * rng.normal())
    return rounds, np.array(actions), np.array(shares), np.array(rewards)


@pytest.fixture(scope="module")
def target():
    rng = np.random.default_rng(99)
    greedy = kb.KernelUCB(Polynomial(degree=2), exploration=0.0)
    rows = rng.uniform(-1.0, 1.0, size=(200, 2))
    greedy.posterior.observe(rows, means_of(rows))
    return kb.Softmax(greedy, temperature=0.3)


@pytest.fixture(scope="module")
def truth(target):
    rng = np.random.default_rng(5)
    rounds = [rng.uniform(-1.0, 1.0, size=(rng.integers(3, 7), 2)) for _ in range(20_000)]
    return np.mean([own @ means_of(rows) for own, rows in zip(target.probabilities_many(rounds), rounds, strict=True)])


MODEL = PropensityModel(Gaussian(length_scale=1.0), 0.1)


@pytest.mark.parametrize("regularization", [0.05, 3.0])
@pytest.mark.parametrize("folds", [1, 3])
def test_propensities_are_those_of_the_definition(regularization, folds):
    """Softmax of linear scores that maximize the penalized likelihood of the other folds."""
    rounds, actions, _, rewards = logged(0, 60)

    log = PropensityModel(Linear(), regularization, folds=folds).estimate(rounds, actions, rewards)

    for fold in range(folds):
        learned = [t for t in range(60) if folds == 1 or t % folds != fold]

        def loss(weights, learned=learned):
            values = [rounds[t] @ weights for t in learned]
            chosen = sum(own[actions[t]] - np.log(np.exp(own).sum()) for t, own in zip(learned, values, strict=True))
            return 0.5 * regularization * weights @ weights - chosen

        weights = minimize(loss, np.zeros(2), tol=1e-12).x
        for t in range(fold, 60, folds):
            expected = shares_of(rounds[t], lambda rows, weights=weights: rows @ weights)[actions[t]]
            assert log.propensities[t] == pytest.approx(expected, rel=1e-5)
            assert log.log_losses[t] == pytest.approx(-np.log(expected), rel=1e-4)


def test_two_actions_are_logistic_regression_on_their_difference():
    rng = np.random.default_rng(1)
    rounds = [rng.normal(size=(2, 3)) for _ in range(150)]
    differences = np.array([rows[1] - rows[0] for rows in rounds])
    actions = (rng.random(150) < 1.0 / (1.0 + np.exp(-differences @ [1.0, -2.0, 0.5]))).astype(int)

    log = PropensityModel(Linear(), 0.7, folds=1).estimate(rounds, actions, np.zeros(150))

    fitted = LogisticRegression(C=1.0 / 0.7, fit_intercept=False, tol=1e-10).fit(differences, actions)
    shares = fitted.predict_proba(differences)[np.arange(150), actions]
    np.testing.assert_allclose(log.propensities, shares, rtol=1e-5)


@pytest.mark.parametrize("kernel", [Delta(), Precomputed(np.eye(3) + 0.2), Spectrum(n=1)], ids=repr)
def test_frequencies_are_found_for_any_kind_of_action(kernel):
    items = [0, 1, 2] if not isinstance(kernel, Spectrum) else ["aa", "bb", "cc"]
    actions = [0, 0, 0, 0, 0, 1, 1, 1, 2, 2] * 40

    log = PropensityModel(kernel, 1e-3, folds=1).estimate([items] * 400, actions, np.zeros(400))

    np.testing.assert_allclose(log.propensities[[0, 5, 8]], [0.5, 0.3, 0.2], atol=0.005)
    assert kind_of(items) is not None


def test_contexts_shared_by_actions_change_their_probabilities():
    rng = np.random.default_rng(2)
    items = np.eye(3)
    contexts = rng.choice([-1.0, 1.0], size=(300, 1))
    rounds = [kb.Pairs(context, items) for context in contexts]
    actions = np.where(contexts[:, 0] > 0, 0, 2)
    actions[rng.random(300) < 0.1] = 1

    log = PropensityModel(PairProduct(Linear(), Linear()), 0.5, folds=2).estimate(rounds, actions, np.zeros(300))

    assert log.propensities[(contexts[:, 0] > 0) & (actions == 0)].min() > 0.8
    assert log.log_losses.mean() < 0.5 < np.log(3)


def test_the_reported_errors_are_those_of_the_log_probabilities():
    found, errors = [], []
    for seed in range(30):
        rounds, actions, shares, rewards = logged(seed, 300)
        log = MODEL.estimate(rounds, actions, rewards)
        found.append(np.mean((np.log(log.propensities) - np.log(shares)) ** 2))
        errors.append(np.mean(log.relative_errors**2))

    assert 0.6 < np.mean(found) / np.mean(errors) < 1.4


def test_the_error_of_a_value_is_its_derivative_by_the_models():
    rounds, actions, _, rewards = logged(3, 100)
    log = PropensityModel(Linear(), 0.4, folds=2).estimate(rounds, actions, rewards)
    sensitivity = np.random.default_rng(0).normal(size=100)

    expected = 0.0
    for fold in range(2):
        own = np.arange(100) % 2 == fold
        precision = 0.4 * np.eye(2)
        weights = None
        for t in np.flatnonzero(~own):
            # The probabilities of the fold's model follow from those of two logged actions and the scores.
            weights = fitted_weights(rounds, actions, np.flatnonzero(~own)) if weights is None else weights
            shares = shares_of(rounds[t], lambda rows, weights=weights: rows @ weights)
            centered = rounds[t] - shares @ rounds[t]
            precision += centered.T @ (shares[:, None] * centered)
        gradient = np.zeros(2)
        for t in np.flatnonzero(own):
            shares = shares_of(rounds[t], lambda rows, weights=weights: rows @ weights)
            gradient += sensitivity[t] * (rounds[t][actions[t]] - shares @ rounds[t])
        expected += np.sqrt(gradient @ np.linalg.solve(precision, gradient))
    assert log.error_of_sum(sensitivity) == pytest.approx(expected, rel=1e-4)


def fitted_weights(rounds, actions, learned):
    def loss(weights):
        values = [rounds[t] @ weights for t in learned]
        chosen = sum(own[actions[t]] - np.log(np.exp(own).sum()) for t, own in zip(learned, values, strict=True))
        return 0.2 * weights @ weights - chosen

    return minimize(loss, np.zeros(2), tol=1e-12).x


ESTIMATORS = {
    "IPS": IPS(),
    "clipped": IPS(3.0),
    "SNIPS": SelfNormalizedIPS(),
    "DR": DoublyRobust(DirectMethod(Gaussian(length_scale=0.7), 0.1)),
    "Switch": Switch(DirectMethod(Gaussian(length_scale=0.7), 0.1), threshold=3.0),
}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_the_value_is_that_of_the_estimated_propensities_and_the_interval_is_wider(name, target):
    rounds, actions, _, rewards = logged(4)
    log = MODEL.estimate(rounds, actions, rewards)
    plain = Log(rounds, actions, log.propensities, rewards)

    for judge in ("estimate", "lift"):
        with_error, without = (getattr(ESTIMATORS[name], judge)(one, target) for one in (log, plain))
        assert with_error.value == pytest.approx(without.value)
        assert without.standard_error < with_error.standard_error < 3.0 * without.standard_error
        assert "estimated from the logged actions" in with_error.warnings[0]
        assert not any("estimated from the logged" in warning for warning in without.warnings)


@pytest.mark.parametrize("name", ["IPS", "SNIPS", "DR"])
def test_the_error_is_the_change_of_the_value_with_the_models(name, target):
    """Finite differences: multiply every propensity by a common factor of its score, and compare the value."""
    rounds, actions, _, rewards = logged(5, 200)
    log = PropensityModel(Linear(), 0.4, folds=1).estimate(rounds, actions, rewards)
    estimator, step = ESTIMATORS[name], 1e-5
    change = np.array([
        (value_of(estimator, log, target, step * own) - value_of(estimator, log, target, -step * own)) / (2.0 * step)
        for own in log.scores.T
    ])  # fmt: skip
    plain = estimator.estimate(Log(rounds, actions, log.propensities, rewards), target).standard_error

    found = np.sqrt(estimator.estimate(log, target).standard_error ** 2 - plain**2)

    precision = log.factors[0] @ log.factors[0].T
    assert found == pytest.approx(np.sqrt(change @ np.linalg.solve(precision, change)), rel=1e-4)


def value_of(estimator, log, target, exponents):
    moved = Log(log.rounds, log.actions, np.minimum(log.propensities * np.exp(exponents), 1.0), log.rewards)
    return estimator.estimate(moved, target).value


def test_intervals_hold_the_truth_and_the_bias_is_gone(target, truth):
    uniform, modeled = [], {name: [] for name in ("IPS", "SNIPS", "DR")}
    for seed in range(40):
        rounds, actions, _, rewards = logged(100 + seed)
        sizes = np.array([len(rows) for rows in rounds])
        uniform.append(IPS().estimate(Log(rounds, actions, 1.0 / sizes, rewards), target))
        log = MODEL.estimate(rounds, actions, rewards)
        for name, found in modeled.items():
            found.append(ESTIMATORS[name].estimate(log, target))

    for found in modeled.values():
        assert sum(one.low <= truth <= one.high for one in found) >= 36
    # A negative control: propensities that are wrong.
    bias = [abs(np.mean([one.value for one in found]) - truth) for found in (uniform, modeled["IPS"])]
    assert bias[0] > 3.0 * bias[1]
    assert sum(one.low <= truth <= one.high for one in uniform) < 32


def test_a_hidden_cause_is_not_found_as_the_warning_says(target, truth):
    found = []
    for seed in range(10):
        rounds, actions, _, rewards = logged(seed, confounding=1.0)
        found.append(SelfNormalizedIPS().estimate(MODEL.estimate(rounds, actions, rewards), target))

    assert sum(one.low <= truth <= one.high for one in found) <= 5
    assert all("anything that the contexts do not hold" in one.warnings[0] for one in found)


def test_many_features_are_those_of_some_points():
    rounds, actions, _, rewards = logged(6)

    few, more = (
        PropensityModel(Gaussian(length_scale=0.3), 0.1, max_features=size).estimate(rounds, actions, rewards)
        for size in (5, 80)
    )

    assert (few.scores.shape[1], more.scores.shape[1]) == (5, 80)
    assert more.log_losses.mean() < few.log_losses.mean() < np.log([len(rows) for rows in rounds]).mean()


def test_parts_of_an_estimated_log_keep_their_models(target):
    rounds, actions, _, rewards = logged(7, 100)
    log = MODEL.estimate(rounds, actions, rewards, ids=[list(range(len(rows))) for rows in rounds])

    part = log[20:60]

    assert isinstance(part, EstimatedLog)
    np.testing.assert_array_equal(part.relative_errors, log.relative_errors[20:60])
    assert part.ids == log.ids[20:60]
    assert "estimated" in IPS().estimate(part, target).warnings[0]


@pytest.mark.parametrize("writer", [log_to_frame, to_obp, write_adf_text, write_dsjson], ids=lambda one: one.__name__)
def test_formats_for_known_propensities_say_that_these_are_not(writer, tmp_path):
    rng = np.random.default_rng(0)
    items = rng.normal(size=(3, 2))
    log = PropensityModel(Linear()).estimate([items] * 20, rng.integers(3, size=20), np.zeros(20))
    known = Log(log.rounds, log.actions, log.propensities, log.rewards)
    path = [tmp_path / "log"] if writer in (write_adf_text, write_dsjson) else []

    with pytest.warns(KernelBanditWarning, match="as if they were known"):
        writer(log, *path)

    writer(known, *path)  # without a warning, which would be an error


def test_replay_warns_and_anytime_intervals_reject(target):
    rounds, actions, _, rewards = logged(8, 100)
    log = MODEL.estimate(rounds, actions, rewards)

    assert "estimated" in Replay().estimate(log, kb.KernelUCB(Gaussian(length_scale=1.0))).warnings[0]
    with pytest.raises(NotSupported, match="needs known propensities"):
        compare_on_log(log, target, target, smallest_propensity=1e-6, reward_range=(-10.0, 10.0))


def test_a_table_without_propensities_is_completed():
    table = {"t": [7, 7, 8, 8, 9, 9], "paid": [None, 1.0, 0.5, None, None, 0.0], "x": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]}

    log = log_from_frame(
        table, round="t", action=None, reward="paid", propensity=PropensityModel(Linear(), folds=1), features=["x"]
    )

    assert isinstance(log, EstimatedLog)
    expected = PropensityModel(Linear(), folds=1).estimate(log.rounds, log.actions, log.rewards).propensities
    np.testing.assert_array_equal(log.propensities, expected)
    impressions = {"item": ["b", "a", "b"], "clicked": [1, 0, 0]}
    model = PropensityModel(Delta(), folds=1)
    log = log_from_frame(
        impressions, action="item", reward="clicked", propensity=model, candidates={"item": ["a", "b", "c"]}
    )
    assert log.propensities[0] > log.propensities[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"regularization": 0.0}, "regularization must be positive"),
        ({"max_features": 0}, "number of features"),
        ({"folds": 0}, "number of folds"),
        ({"kernel": 3}, "kernel"),
    ],
)
def test_bad_parameters_are_rejected(arguments, message):
    with pytest.raises((InvalidParameter, NotSupported), match=message):
        PropensityModel(**{"kernel": Linear(), **arguments})


def test_bad_logs_are_rejected():
    model = PropensityModel(Linear())
    with pytest.raises(InvalidParameter, match="5 folds and 2 rounds"):
        model.estimate([np.eye(2)] * 2, [0, 1], [0.0, 1.0])
    with pytest.raises(InvalidParameter, match="at least one round"):
        model.estimate([], [], [])
    with pytest.raises(InvalidParameter, match="one action, which every policy"):
        model.estimate([np.eye(1)] * 9, [0] * 9, [0.0] * 9)
    with pytest.raises(NotSupported, match="slates of 2"):
        model.estimate([np.eye(3)] * 9, [[0, 1]] * 9, [[0.0, 1.0]] * 9)
    with pytest.raises(InvalidParameter, match="actions"):
        model.estimate([np.eye(3)] * 2, [[0, 1], [0]], [0.0, 1.0])
    with pytest.raises(InvalidParameter, match="Round 0 has actions 0 to 2, got 3"):
        model.estimate([np.eye(3)] * 9, [3] * 9, [0.0] * 9)


def test_a_deterministic_rule_converges_to_large_but_finite_scores():
    rounds, actions, _, rewards = logged(9, 100)
    actions = np.array([int(np.argmax(rows[:, 0])) for rows in rounds])

    log = PropensityModel(Linear(), 1e-4).estimate(rounds, actions, rewards)

    assert np.all((log.propensities > 0.0) & (log.propensities <= 1.0))
    assert log.propensities.mean() > 0.95
