import numpy as np
import pytest
from numpy.testing import assert_allclose

from definitions import ridge
from kernelbandits.errors import InvalidParameter
from kernelbandits.evaluation import IPS, DirectMethod, DoublyRobust, Log, Switch
from kernelbandits.kernels import Spectrum
from kernelbandits.policies import KernelUCB, Softmax, UniformRandom
from logs import slow_weights, string_log

LOG, KERNEL = string_log(61), Spectrum(n=2)
MODEL = DirectMethod(KERNEL, 0.7)


def make_target():
    return Softmax(KernelUCB(KERNEL), temperature=0.3, seed=0)


class Zero:
    """A model that expects nothing."""

    def fit(self, log):
        return self

    def predict(self, rounds):
        return [np.zeros(len(contexts)) for contexts in rounds]


def slow_terms(log, policy, folds, weights):
    """Σ_a π(a) r̂(a) + w (r − r̂(shown)), with r̂ learned from the other folds, round by round."""
    terms = []
    for t in range(len(log)):
        others = [s for s in range(len(log)) if folds == 1 or s % folds != t % folds]
        logged = [log.rounds[s][log.actions[s]] for s in others]
        means = ridge(KERNEL, logged, log.rewards[others], log.rounds[t], 0.7)[0]
        probabilities = policy.probabilities(log.rounds[t])
        terms.append(probabilities @ means + weights[t] * (log.rewards[t] - means[log.actions[t]]))
    return np.array(terms)


@pytest.mark.parametrize("folds", [1, 2, 3])
@pytest.mark.parametrize("clip", [None, 1.3])
def test_doubly_robust_is_its_definition(folds, clip):
    weights = np.minimum(slow_weights(LOG, make_target()), clip or np.inf)

    result = DoublyRobust(MODEL, folds=folds, clip=clip).estimate(LOG, make_target())

    terms = slow_terms(LOG, make_target(), folds, weights)
    assert_allclose(result.value, terms.mean(), rtol=1e-9)
    assert_allclose(result.standard_error, terms.std(ddof=1) / np.sqrt(len(LOG)), rtol=1e-9)


class WholeSets:
    """The same model, which predicts whole sets only."""

    def fit(self, log):
        self.fitted = MODEL.fit(log)
        return self

    def predict(self, rounds):
        return self.fitted.predict(rounds)


class Counting(DirectMethod):
    """Records how many actions were predicted."""

    def fit(self, log):
        fitted = super().fit(log)
        answer = fitted.predict_at

        def counted(actions):
            self.__dict__.setdefault("evaluated", []).append(len(actions))
            return answer(actions)

        fitted.predict_at = counted
        return fitted


@pytest.mark.parametrize("policy", [make_target(), KernelUCB(KERNEL)], ids=["spread", "sure"])
def test_asking_about_whole_sets_gives_the_same(policy):
    some, whole = (DoublyRobust(model, folds=3).estimate(LOG, policy) for model in (MODEL, WholeSets()))

    assert_allclose((some.value, some.standard_error), (whole.value, whole.standard_error), rtol=1e-12)


def test_a_model_is_evaluated_for_actions_that_matter_only():
    model = Counting(KERNEL, 0.7)

    DoublyRobust(model, folds=1).estimate(LOG, KernelUCB(KERNEL))  # which is sure of one action a round

    assert model.evaluated == [2 * len(LOG)]


@pytest.mark.parametrize("threshold", [0.4, 1.1])
def test_switch_is_its_definition(threshold):
    weights = slow_weights(LOG, make_target())

    result = Switch(MODEL, threshold, folds=2).estimate(LOG, make_target())

    trusted = np.array([w if w <= threshold else 0.0 for w in weights])
    assert_allclose(result.value, slow_terms(LOG, make_target(), 2, trusted).mean(), rtol=1e-9)
    assert f"exceed {threshold}" in result.warnings[-2]


def test_a_model_that_expects_nothing_leaves_ips():
    result = DoublyRobust(Zero()).estimate(LOG, make_target())

    expected = IPS().estimate(LOG, make_target())
    assert_allclose([result.value, result.standard_error], [expected.value, expected.standard_error])


def test_switch_has_the_model_at_one_end_and_doubly_robust_at_the_other():
    values = [Switch(MODEL, threshold, folds=1).estimate(LOG, make_target()).value for threshold in (0.0, np.inf)]

    robust = DoublyRobust(MODEL, folds=1).estimate(LOG, make_target()).value
    assert_allclose(values, [MODEL.estimate(LOG, make_target()).value, robust])


def test_rounds_that_share_a_set_are_each_judged_by_the_other_folds():
    """Deduplicated rounds belong to several folds at once."""
    items, rng = ["aa", "ab", "bb"], np.random.default_rng(1)
    actions, rewards = rng.integers(3, size=20), rng.normal(size=20)
    shared = Log([items] * 20, actions, [1 / 3] * 20, rewards)
    apart = Log([list(items) for _ in range(20)], actions, [1 / 3] * 20, rewards)

    estimates = [DoublyRobust(MODEL, folds=3).estimate(log, make_target()) for log in (shared, apart)]

    assert_allclose(estimates[0].value, estimates[1].value)
    assert_allclose(estimates[0].value, slow_terms(apart, make_target(), 3, slow_weights(apart, make_target())).mean())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DoublyRobust(KERNEL), r"learns rewards from a log with fit\(log\), got Spectrum"),
        (lambda: DoublyRobust(MODEL, folds=0), "number of folds"),
        (lambda: DoublyRobust(MODEL, clip=-1.0), "largest weight"),
        (lambda: Switch(MODEL, -0.5), "zero or above, got -0.5"),
        (lambda: Switch(MODEL, np.nan), "zero or above"),
        (lambda: DoublyRobust(MODEL, folds=99).estimate(LOG, UniformRandom()), "99 folds and 61 rounds"),
    ],
)
def test_what_cannot_be_used_is_rejected(make, message):
    with pytest.raises(InvalidParameter, match=message):
        make()


class Says:
    """A model that returns a given answer for every query."""

    def __init__(self, answer):
        self._answer = answer

    def fit(self, log):
        return self

    def predict(self, rounds):
        return self._answer(rounds)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda _: [], "every round, got 0 predictions for 1 round"),
        (lambda rounds: [np.zeros(3) for _ in rounds], "one finite reward for each of the 2 actions"),
        (lambda rounds: [np.array([0.0, np.nan]) for _ in rounds], "one finite reward for each of the 2 actions"),
        (lambda rounds: [["a", "b"] for _ in rounds], "Rewards that a model predicts must be real numbers"),
    ],
)
def test_a_model_that_answers_something_else_is_rejected(answer, message):
    items = ["a", "b"]
    log = Log([items] * 4, [0, 1, 0, 1], [0.5] * 4, [1.0, 0.0, 1.0, 0.0])

    with pytest.raises(InvalidParameter, match=message):
        DoublyRobust(Says(answer)).estimate(log, UniformRandom())
