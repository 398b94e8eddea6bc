import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.sparse import csr_array

import kernelbandits as kb
from kernelbandits.errors import InvalidContexts, InvalidParameter, NotLearnt

NUMBERS = {"regularization": 0.7, "noise_scale": 0.4, "norm_bound": 1.3, "failure_probability": 0.2}


class Definition:
    """OFUL with rare switching as it is defined: everything from the whole history, inverted at every use."""

    def __init__(self, n_features, switching, *, width="frozen"):
        self.live, self.moments = NUMBERS["regularization"] * np.eye(n_features), np.zeros(n_features)
        self.switching, self.width = switching, width
        self.n_refits = 0
        self.refit()

    def refit(self):
        self.precision, self.theta = self.live.copy(), np.linalg.solve(self.live, self.moments)
        gain = np.linalg.slogdet(self.live / NUMBERS["regularization"])[1]
        confidence = 2 * np.log(1 / NUMBERS["failure_probability"])
        self.eta = NUMBERS["noise_scale"] * np.sqrt(gain + confidence)
        self.eta += np.sqrt(NUMBERS["regularization"]) * NUMBERS["norm_bound"]

    def scores(self, contexts):
        precision = self.precision if self.width == "frozen" else self.live
        squared = np.einsum("nd,dn->n", contexts, np.linalg.solve(precision, contexts.T))
        return contexts @ self.theta + self.eta * np.sqrt(squared)

    def learn(self, context, reward):
        self.live = self.live + np.outer(context, context)
        self.moments = self.moments + reward * context
        if np.linalg.det(self.live) > (1 + self.switching) * np.linalg.det(self.precision):
            self.n_refits += 1
            self.refit()


def disagreements(policy, definition, *, seed=0, n_rounds=150):
    """Rounds in which the policy and the definition choose differently; the policy's choices are learned by both."""
    rng = np.random.default_rng(seed)
    weights, count = rng.normal(size=4), 0
    for _ in range(n_rounds):
        contexts = rng.normal(size=(rng.integers(1, 9), 4)) * rng.uniform(0.01, 2.0)
        decision, scores = policy.choose(contexts), definition.scores(contexts)
        if decision.action == int(np.argmax(scores)):
            assert_allclose(decision.score, scores[decision.action], rtol=1e-8, atol=1e-8)
        else:
            count += 1
        reward = float(decision.context @ weights + 0.3 * rng.normal())
        policy.learn(decision, reward)
        definition.learn(decision.context, reward)
    return count


@pytest.mark.parametrize("switching", [0.0, 0.05, 0.5, 1.0, 8.0])
def test_choices_and_scores_are_those_of_the_definition(switching):
    policy, definition = kb.OFUL(**NUMBERS, switching=switching), Definition(4, switching)

    assert disagreements(policy, definition) == 0

    assert policy.n_refits == definition.n_refits


def test_the_comparison_sees_a_width_that_is_not_frozen_and_another_growth():
    """Negative control: two wrong readings of rare switching do not pass."""
    with pytest.raises(AssertionError):
        assert disagreements(kb.OFUL(**NUMBERS, switching=0.5), Definition(4, 0.5, width="live")) == 0
    with pytest.raises(AssertionError):
        assert disagreements(kb.OFUL(**NUMBERS, switching=0.5), Definition(4, 0.9)) == 0


def test_refits_are_few():
    """At most ln(det C / det γI) / ln(1 + c), and far fewer than rounds."""
    policy, rng = kb.OFUL(**NUMBERS, switching=0.5), np.random.default_rng(1)
    n_rounds, n_features = 2000, 3
    for _ in range(n_rounds):
        policy.learn(policy.choose(rng.normal(size=(5, n_features))), float(rng.normal()))

    most = (policy.posterior.log_det_gain + np.log(1.5)) / np.log(1.5)

    assert 10 < policy.n_refits <= most
    assert most < 100
    assert policy.posterior.n_observations + policy.n_since_refit == n_rounds


def test_choices_between_refits_do_not_depend_on_rewards():
    rng = np.random.default_rng(2)
    first, second = kb.OFUL(**NUMBERS, switching=5.0), kb.OFUL(**NUMBERS, switching=5.0)
    contexts = 0.1 * rng.normal(size=(6, 3))
    for _ in range(5):
        decision = first.choose(contexts)
        first.learn(decision, 1.0)
        second.learn(decision, -1.0)

    assert first.n_refits == second.n_refits == 0
    assert first.choose(contexts).score == second.choose(contexts).score


def test_an_exact_doubling_is_no_growth_by_more_than_two():
    """det C goes from 1 to exactly 2: whatever the rounding, that is not more than (1 + 1) times."""
    policy = kb.OFUL(regularization=1.0, noise_scale=0.5, norm_bound=1.0, switching=1.0)
    angle = 0.7
    policy.learn(policy.choose([[np.cos(angle), np.sin(angle)]]), 0.5)

    assert policy.n_refits == 0


@pytest.mark.parametrize("switching", [0.3, 4.0])
def test_rewards_waiting_for_a_refit_survive_a_file(tmp_path, switching):
    rng, policy = np.random.default_rng(3), kb.OFUL(**NUMBERS, switching=switching)
    while policy.n_since_refit < 2:
        policy.learn(policy.choose(0.3 * rng.normal(size=(4, 3))), float(rng.normal()))
    policy.save(tmp_path / "oful")

    opened = kb.load(tmp_path / "oful")

    assert (opened.n_since_refit, opened.n_refits) == (policy.n_since_refit, policy.n_refits)
    for _ in range(60):
        contexts, reward = 0.3 * rng.normal(size=(4, 3)), float(rng.normal())
        left, right = policy.choose(contexts), opened.choose(contexts)
        assert left.action == right.action
        assert left.score == pytest.approx(right.score, rel=1e-9)
        policy.learn(left, reward)
        opened.learn(right, reward)
        assert opened.n_refits == policy.n_refits


def test_a_correction_refits_at_once_and_a_wrong_one_changes_nothing():
    policy = kb.OFUL(**NUMBERS, switching=50.0)
    rows = np.eye(3)
    decisions = [policy.choose(rows[[place]]) for place in range(3)]
    policy.learn_many(decisions[:2], [1.0, 2.0])
    stranger = kb.OFUL(**NUMBERS, switching=50.0).choose([[5.0, 5.0, 5.0]])

    with pytest.raises(NotLearnt):
        policy.amend(kb.Decision(action=0, context=stranger.context), was=0.5, now=1.0)
    assert (policy.n_refits, policy.n_since_refit) == (0, 2)
    policy.amend(decisions[0], was=1.0, now=3.0)

    assert (policy.n_refits, policy.n_since_refit) == (1, 0)
    assert_allclose(policy.posterior.predict(rows).mean, [3.0 / 1.7, 2.0 / 1.7, 0.0])
    policy.unlearn(decisions[1], 2.0)
    assert_allclose(policy.posterior.predict(rows).mean, [3.0 / 1.7, 0.0, 0.0])


def test_history_is_fitted_at_once():
    policy = kb.OFUL(**NUMBERS, switching=1e6)
    policy.learn(policy.choose(np.eye(2)), 1.0)

    policy.warm_start(np.eye(2), [0.5, 0.25], times=3)

    assert policy.n_since_refit == 0
    assert_allclose(policy.posterior.predict(np.eye(2)).mean, [2.5 / 4.7, 0.75 / 3.7])


def test_a_catalog_and_sparse_rows_give_the_choices_of_dense_rows():
    rng = np.random.default_rng(4)
    rows = rng.normal(size=(200, 3)) * (rng.uniform(size=(200, 3)) < 0.6)
    catalog = kb.Catalog(rows)
    dense, listed, sparse = (kb.OFUL(**NUMBERS, switching=0.4) for _ in range(3))
    for _ in range(60):
        decisions = dense.choose(rows), listed.choose(catalog), sparse.choose(csr_array(rows))
        assert len({decision.action for decision in decisions}) == 1
        reward = float(rng.normal())
        for policy, decision in zip((dense, listed, sparse), decisions, strict=True):
            policy.learn(decision, reward)

    assert dense.n_refits == listed.n_refits == sparse.n_refits > 3


def test_what_does_not_fit_is_rejected_with_its_own_decision():
    policy = kb.OFUL(**NUMBERS, switching=3.0)
    policy.learn(policy.choose([[0.1, 0.1]]), 1.0)
    wider, huge = (kb.Decision(action=0, context=np.array(row)) for row in ([0.1, 0.1, 0.1], [1e200, 0.0]))

    with pytest.raises(InvalidContexts, match="3 columns; those learned before have 2"):
        policy.learn(wider, 1.0)
    with pytest.raises(InvalidContexts, match="overflow"):
        policy.learn(huge, 1.0)

    assert (policy.round_index, policy.n_since_refit, policy.n_refits) == (2, 1, 0)
    policy.learn(policy.choose([[3.0, 0.1]]), 1.0)
    assert policy.n_refits == 1


def test_pending_decisions_narrow_widths_between_refits_too():
    policy, contexts = kb.OFUL(**NUMBERS, switching=100.0), np.array([[1.0, 0.0], [0.0, 0.9]])
    first = policy.choose(contexts)

    policy.expect(first)

    assert first.action == 0
    assert policy.choose(contexts).action == 1


def test_a_refit_while_others_are_pending_is_as_if_they_were_pending_after_it():
    rng = np.random.default_rng(5)
    first, second = kb.OFUL(**NUMBERS, switching=0.5), kb.OFUL(**NUMBERS, switching=0.5)
    contexts = rng.normal(size=(6, 3))
    pending, learned = first.choose(contexts[:3]), first.choose(contexts[3:])

    first.expect(pending)
    first.choose(contexts)
    first.learn(learned, 0.8)
    second.learn(learned, 0.8)
    second.expect(pending)

    assert first.n_refits == second.n_refits == 1
    assert first.choose(contexts).score == pytest.approx(second.choose(contexts).score, rel=1e-12)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"switching": -0.5}, "growth of the determinant between refits"),
        ({"switching": np.nan}, "growth of the determinant between refits"),
        ({"noise_scale": -1.0}, "noise scale"),
        ({"norm_bound": np.inf}, "norm bound"),
        ({"failure_probability": 0.0}, "strictly between 0 and 1"),
        ({"regularization": 0.0}, "regularization must be positive"),
        ({"ties": "first"}, "'lowest' row or to one at 'random'"),
    ],
)
def test_bad_parameters_are_rejected(arguments, message):
    with pytest.raises(InvalidParameter, match=message):
        kb.OFUL(**{**NUMBERS, **arguments})


def test_columns_are_compared_with_rewards_that_wait_for_a_refit():
    policy = kb.OFUL(noise_scale=0.1, norm_bound=1.0, switching=100.0)
    policy.learn(policy.choose(np.eye(2)), 1.0)

    with pytest.raises(InvalidContexts, match="columns"):
        policy.choose(np.ones((2, 3)))

    assert policy.n_since_refit == 1
    policy.choose(np.eye(2))


@pytest.mark.parametrize(("rewards", "n_waiting"), [([0.5, 0.25], 2), ([0.5, 1e101], 0)])
def test_rewards_wait_for_a_refit_only_if_it_cannot_fail(rewards, n_waiting):
    policy = kb.OFUL(**NUMBERS, switching=8.0)
    decisions = [policy.choose(0.1 * np.eye(2)) for _ in range(2)]

    policy.learn_many(decisions, rewards)

    assert policy.n_since_refit == n_waiting
