import numpy as np
import pytest

import kernelbandits as kb
from kernelbandits.errors import DecisionError, InvalidContexts, InvalidParameter, NotSupported

RNG = np.random.default_rng(0)
ACTIONS = RNG.normal(size=(12, 4)) * np.array([1.0, 3.0, 0.2, 1.0])
SIGNED = (-1.0, 1.0)


class Definition:
    """The algorithm on full matrices, in the features' own coordinates."""

    def __init__(self, actions, spanner, norm, failure_probability, exploration):
        self.actions, self.norm = actions, norm
        self.delta, self.factor = failure_probability, exploration**2
        self.precision = actions[spanner].T @ actions[spanner]
        self.moments, self.round_index = np.zeros(actions.shape[1]), 1

    @property
    def beta(self):
        t, share = self.round_index, np.log(self.round_index**2 / self.delta)
        return self.factor * max(128 * self.actions.shape[1] * np.log(t) * share, (8 / 3 * share) ** 2)

    def scores(self):
        """The largest x·θ over the confidence set: for norm 1, over its 2d vertices."""
        theta = np.linalg.solve(self.precision, self.moments)
        if self.norm == 2:
            squared = np.einsum("nd,dn->n", self.actions, np.linalg.solve(self.precision, self.actions.T))
            return self.actions @ theta + np.sqrt(self.beta * squared)
        values, vectors = np.linalg.eigh(self.precision)
        inverse_root = vectors @ np.diag(values**-0.5) @ vectors.T
        radius = np.sqrt(len(theta) * self.beta)
        vertices = [theta + sign * radius * inverse_root[:, i] for i in range(len(theta)) for sign in (-1, 1)]
        return np.max(self.actions @ np.array(vertices).T, axis=1)

    def learn(self, row, reward):
        self.precision = self.precision + np.outer(self.actions[row], self.actions[row])
        self.moments = self.moments + reward * self.actions[row]
        self.round_index += 1


def largest_difference(policy, definition, n_rounds=120):
    """How far scores of chosen actions are from the definition, and from its best score, over a run."""
    rng, weights = np.random.default_rng(1), np.array([0.1, -0.05, 0.3, 0.2])
    worst = 0.0
    for _ in range(n_rounds):
        decision, scores = policy.choose(ACTIONS), definition.scores()
        wanted = np.array([scores[decision.action], scores.max()])
        worst = max(worst, float(np.abs(decision.score - wanted).max() / scores.max()))
        reward = float(np.clip(ACTIONS[decision.action] @ weights + 0.1 * rng.normal(), -1, 1))
        policy.learn(decision, reward)
        definition.learn(decision.action, reward)
    return worst


@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize("exploration", [1.0, 0.03])
def test_scores_are_the_largest_reward_in_the_confidence_set(norm, exploration):
    policy = kb.ConfidenceBall(
        ACTIONS, norm=norm, failure_probability=0.2, exploration=exploration, reward_range=SIGNED
    )
    definition = Definition(ACTIONS, policy.spanner, norm, 0.2, exploration)

    assert largest_difference(policy, definition) < 1e-9


@pytest.mark.parametrize("wrong", [{"norm": 1}, {"failure_probability": 0.1}, {"exploration": 0.045}])
def test_the_comparison_sees_another_ball(wrong):
    """Negative control."""
    policy = kb.ConfidenceBall(ACTIONS, failure_probability=0.2, exploration=0.03, reward_range=SIGNED)
    right = {"norm": 2, "failure_probability": 0.2, "exploration": 0.03}
    definition = Definition(ACTIONS, policy.spanner, **{**right, **wrong})

    assert largest_difference(policy, definition) > 1e-3


@pytest.mark.parametrize("norm", [1, 2])
def test_redundant_columns_change_nothing_that_could_be_seen(norm):
    """An orthogonal map into a larger space: the span is the same, up to the axes that norm 1 depends on."""
    frame = np.linalg.qr(np.random.default_rng(2).normal(size=(7, 4)))[0]
    small = kb.ConfidenceBall(ACTIONS, norm=norm, exploration=0.03, reward_range=SIGNED)
    large = kb.ConfidenceBall(ACTIONS @ frame.T, norm=norm, exploration=0.03, reward_range=SIGNED)

    first, second = small.choose(ACTIONS), large.choose(ACTIONS @ frame.T)

    assert len(large.spanner) == 4
    if norm == 2:
        assert (first.action, first.score) == (second.action, pytest.approx(second.score))
    else:  # within the bounds that any axes give: ‖·‖₂ ≤ sqrt(d)‖·‖∞ ≤ sqrt(d)‖·‖₂
        ellipse = kb.ConfidenceBall(ACTIONS, norm=2, exploration=0.03, reward_range=SIGNED).choose(ACTIONS)
        assert ellipse.score <= second.score * (1 + 1e-9) <= 2 * ellipse.score * (1 + 1e-9)


@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize("scale", [1e-150, 1e150])
def test_the_unit_of_the_features_does_not_matter(norm, scale):
    plain, scaled = (
        kb.ConfidenceBall(c * ACTIONS, norm=norm, exploration=0.03, reward_range=SIGNED) for c in (1.0, scale)
    )
    for _ in range(30):
        first, second = plain.choose(ACTIONS), scaled.choose(scale * ACTIONS)
        assert first.action == second.action
        plain.learn(first, 0.1 * first.action % 1.0)
        scaled.learn(second, 0.1 * first.action % 1.0)


@pytest.mark.parametrize("norm", [1, 2])
def test_the_unit_of_the_reward_does_not_matter(norm):
    plain = kb.ConfidenceBall(ACTIONS, norm=norm, exploration=0.03, reward_range=SIGNED)
    large = kb.ConfidenceBall(ACTIONS, norm=norm, exploration=0.03, reward_range=(-50.0, 20.0))
    rng = np.random.default_rng(3)
    for _ in range(40):
        first, second = plain.choose(ACTIONS), large.choose(ACTIONS)
        assert first.action == second.action
        assert second.score == pytest.approx(50.0 * first.score)
        reward = float(rng.uniform(-1.0, 0.4))
        plain.learn(first, reward)
        large.learn(second, 50.0 * reward)


@pytest.mark.parametrize("norm", [1, 2])
def test_an_pending_decision_counts_in_the_width_and_not_in_the_mean(norm):
    policy = kb.ConfidenceBall(ACTIONS, norm=norm, exploration=0.03, reward_range=SIGNED)
    for _ in range(5):
        policy.learn(policy.choose(ACTIONS), 0.3)
    decision = policy.choose(ACTIONS)
    only = np.arange(12) == decision.action

    policy.expect(decision)

    now = policy.choose(ACTIONS, eligible=only)
    assert now.mean == pytest.approx(decision.mean)
    assert now.width < decision.width
    if norm == 2:
        inflation = np.sqrt(1 + decision.width**2)
        assert now.width == pytest.approx(decision.width / inflation)
        assert now.score == pytest.approx(now.mean + np.sqrt(policy.beta) * inflation * now.width)


def test_one_action_and_one_column_are_enough():
    policy = kb.ConfidenceBall([[0.5]])

    for _ in range(3):
        decision = policy.choose([[0.5]])
        policy.learn(decision, 0.5)

    assert decision.mean == pytest.approx(0.5 * 2 / 3)


def test_bad_parameters_actions_and_decisions_are_rejected():
    with pytest.raises(InvalidParameter, match="norm 2 or of norm 1"):
        kb.ConfidenceBall(ACTIONS, norm=3)
    with pytest.raises(InvalidParameter, match="The exploration must be"):
        kb.ConfidenceBall(ACTIONS, exploration=0.0)
    with pytest.raises(InvalidParameter, match="strictly between"):
        kb.ConfidenceBall(ACTIONS, failure_probability=1.0)
    with pytest.raises(InvalidParameter, match="reward range must be declared"):
        kb.ConfidenceBall(ACTIONS, reward_range=None)
    with pytest.raises(InvalidContexts, match="are zero"):
        kb.ConfidenceBall(np.zeros((2, 3)))
    policy = kb.ConfidenceBall(ACTIONS)
    with pytest.raises(NotSupported, match="one fixed set"):
        policy.choose(ACTIONS + 1.0)
    with pytest.raises(DecisionError, match="row of the 12"):
        policy.learn(kb.Decision(action=12, context=ACTIONS[0]), 0.5)
