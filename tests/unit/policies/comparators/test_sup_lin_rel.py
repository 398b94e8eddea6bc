import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.sparse import csr_array

import kernelbandits as kb
from kernelbandits.errors import GuaranteeVoid, InvalidContexts, InvalidParameter, NotSupported
from kernelbandits.policies.comparators.sup_lin_rel import BaseLinRel

HORIZON, N_ACTIONS, DELTA = 150, 6, 0.1


def lin_rel(past, rewards, contexts):
    """Auer's estimate step by step: means, ‖a‖ and ‖v‖, with a one number for each past round."""
    values, vectors = np.linalg.eigh(past.T @ past)
    rotation = vectors.T
    means, lengths, rests = [], [], []
    for context in contexts:
        rotated = rotation @ context
        kept = np.where(values >= 1.0 - 1e-10, rotated, 0.0)
        rest = np.where(values >= 1.0 - 1e-10, 0.0, rotated)
        inverse = np.where(values >= 1.0 - 1e-10, 1.0 / np.maximum(values, 1e-300), 0.0)
        a = past @ rotation.T @ np.diag(inverse) @ kept
        means.append(a @ rewards)
        lengths.append(np.linalg.norm(a))
        rests.append(np.linalg.norm(rest))
    return np.array(means), np.array(lengths), np.array(rests)


class Definition:
    """SupLinRel as printed, on lists: rounds, rewards and levels."""

    def __init__(self, scale, norm_bound):
        self.scale, self.norm_bound = scale, norm_bound
        self.levels = {}

    def choose(self, contexts):
        active, stage = np.arange(len(contexts)), 1
        while True:
            past = self.levels.get(stage, [])
            rows = np.array([context for context, _ in past]).reshape(-1, contexts.shape[1])
            means, lengths, rests = lin_rel(rows, np.array([reward for _, reward in past]), contexts[active])
            wide = self.scale * lengths + self.norm_bound * rests
            if (wide > 2.0**-stage).any():
                return active[np.argmax(wide)], stage
            if (wide <= 1 / np.sqrt(HORIZON)).all():
                return active[np.argmax(means + wide)], None
            active = active[means + wide >= (means + wide).max() - 2 * 2.0**-stage]
            stage += 1

    def learn(self, stage, context, reward):
        if stage is not None:
            self.levels.setdefault(stage, []).append((context, reward))


def in_the_ball(rng, n_actions, n_features=3):
    rows = rng.normal(size=(n_actions, n_features))
    return rows / np.linalg.norm(rows, axis=1)[:, None] * rng.uniform(0.02, 1.0, size=(n_actions, 1))


@pytest.mark.parametrize("n_rounds", [0, 1, 2, 40])
@pytest.mark.parametrize("bias", [0.3, 2.0])
def test_a_level_estimates_along_well_known_directions(n_rounds, bias):
    rng = np.random.default_rng(n_rounds)
    past, rewards, contexts = in_the_ball(rng, n_rounds, 4), rng.uniform(size=n_rounds), in_the_ball(rng, 7, 4)
    level = BaseLinRel(bias=bias)
    for context, reward in zip(past, rewards, strict=True):
        level.observe(context[None], float(reward))

    prediction = level.estimate(contexts)

    means, lengths, rests = lin_rel(past, rewards, contexts)
    assert_allclose(prediction.mean, means, atol=1e-9)
    assert_allclose(prediction.width, lengths + bias * rests, rtol=1e-9)
    ridge = level.posterior.predict(contexts)
    if n_rounds:  # negative control: the ridge estimate of the same rounds is another
        assert np.abs(ridge.width - lengths - bias * rests).max() > 1e-3


def test_a_unit_vector_played_once_is_well_known():
    """Its eigenvalue is exactly 1; rounding may not decide."""
    for angle in np.linspace(0.0, 3.0, 40):
        context = np.array([[np.cos(angle), np.sin(angle)]])
        level = BaseLinRel(bias=1.0)
        level.observe(context, 0.25)
        prediction = level.estimate(context)
        assert_allclose([prediction.mean[0], prediction.width[0]], [0.25, 1.0], rtol=1e-9)


@pytest.mark.parametrize(("scale", "norm_bound"), [("theory", 1.0), (0.02, 0.2), (0.3, 0.05), (0.005, 0.01)])
def test_rounds_go_through_the_levels_as_printed(scale, norm_bound):
    rng, weights = np.random.default_rng(1), np.array([0.5, 0.2, -0.3])
    printed = np.sqrt(np.log(2 * HORIZON * N_ACTIONS / DELTA))
    policy = kb.SupLinRel(
        horizon=HORIZON, n_actions=N_ACTIONS, failure_probability=DELTA, norm_bound=norm_bound, exploration=scale
    )
    definition = Definition(printed if scale == "theory" else scale, norm_bound)
    for _ in range(HORIZON):
        contexts = in_the_ball(rng, int(rng.integers(1, N_ACTIONS + 1)))
        decision = policy.choose(contexts)
        assert (decision.action, decision.stage) == definition.choose(contexts)
        reward = float(np.clip(0.5 + contexts[decision.action] @ weights + 0.1 * rng.normal(), 0, 1))
        policy.learn(decision, reward)
        definition.learn(decision.stage, decision.context, reward)

    assert {s: len(p) for s, p in definition.levels.items()} == {
        s: level.stage_observations for s, level in enumerate(policy.stages, 1) if level.stage_observations
    }


def test_wide_actions_are_looked_for_first():
    """Where 2^(−s) < 1/sqrt(T) the order matters: a width between the two is explored, not exploited."""
    policy = kb.SupLinRel(horizon=1, n_actions=1)
    contexts = np.array([[0.8]])

    assert policy.walk(contexts)[-1].outcome == "explore"
    assert kb.SupLinUCB(horizon=1, n_actions=1, exploration=1.0).walk(contexts)[-1].outcome == "exploit"


def test_the_explored_action_does_not_depend_on_rewards_of_its_level():
    """What makes the rewards of a level independent given the contexts."""
    rng = np.random.default_rng(2)
    first, second = (kb.SupLinRel(horizon=500, n_actions=4, exploration=0.1) for _ in range(2))
    n_rounds = 0
    while n_rounds < 60:
        contexts = in_the_ball(rng, 4)
        left, right = first.choose(contexts), second.choose(contexts)
        if left.stage != 1:
            break
        assert (left.action, left.stage) == (right.action, right.stage)
        first.learn(left, float(rng.uniform()))
        second.learn(right, float(rng.uniform()))
        n_rounds += 1

    assert n_rounds >= 5


def test_the_unit_of_the_reward_does_not_matter():
    rng = np.random.default_rng(3)
    plain = kb.SupLinRel(horizon=200, n_actions=5, norm_bound=0.1)
    large = kb.SupLinRel(horizon=200, n_actions=5, norm_bound=4.0, reward_range=(0.0, 40.0))
    for _ in range(100):
        contexts, reward = in_the_ball(rng, 5), float(rng.uniform())
        left, right = plain.choose(contexts), large.choose(contexts)
        assert (left.action, left.stage) == (right.action, right.stage)
        plain.learn(left, reward)
        large.learn(right, 40.0 * reward)


def test_corrections_reach_the_level_and_its_decomposition():
    policy = kb.SupLinRel(horizon=100, n_actions=1, exploration="theory")
    contexts = np.array([[1.0, 0.0]])
    first, second = policy.choose(contexts), policy.choose(contexts)
    policy.learn_many([first, second], [0.2, 0.4])
    assert policy.choose(contexts).mean == pytest.approx(0.3)

    policy.amend(first, was=0.2, now=1.0)
    assert policy.choose(contexts).mean == pytest.approx(0.7)
    policy.unlearn(second, 0.4)

    assert policy.choose(contexts).mean == pytest.approx(1.0)


def test_sparse_rows_are_chosen_like_dense_ones():
    rng = np.random.default_rng(4)
    dense, sparse = (kb.SupLinRel(horizon=80, n_actions=5, exploration=0.1, norm_bound=0.3) for _ in range(2))
    for _ in range(50):
        contexts, reward = in_the_ball(rng, 5), float(rng.uniform())
        left, right = dense.choose(contexts), sparse.choose(csr_array(contexts))
        assert (left.action, left.stage) == (right.action, right.stage)
        dense.learn(left, reward)
        sparse.learn(right, reward)


def test_contexts_longer_than_one_are_rejected():
    policy = kb.SupLinRel(horizon=10, n_actions=2)

    policy.choose([[1.0, 0.0], [np.cos(0.3), np.sin(0.3)]])
    with pytest.raises(InvalidContexts, match=r"length at most 1, got one of length 1\.5"):
        policy.choose([[0.5, 0.0], [0.0, 1.5]])
    with pytest.raises(InvalidContexts, match="length at most 1"):
        policy.choose(kb.Catalog([[0.5, 0.0], [0.0, 1.5]]))
    with pytest.raises(InvalidContexts, match="length at most 1"):
        policy.learn(kb.Decision(action=0, context=np.array([1e17, 0.0]), stage=1, n_actions=2), 0.5)


def test_columns_that_change_are_rejected_once_something_was_learned():
    policy = kb.SupLinRel(horizon=10, n_actions=2)
    policy.choose([[0.1, 0.2, 0.3]])
    policy.learn(policy.choose([[1.0, 0.0]]), 0.5)

    with pytest.raises(InvalidContexts, match="3 features; those learned before have 2"):
        policy.choose([[0.1, 0.2, 0.3]])


def test_what_the_guarantee_does_not_cover_is_reported():
    policy = kb.SupLinRel(horizon=1, n_actions=1)
    decision = policy.choose([[1.0]])
    policy.learn(decision, 0.5)

    with pytest.warns(GuaranteeVoid, match="beyond the horizon"):
        policy.choose([[1.0]])
    with pytest.raises(InvalidContexts, match="at most n_actions = 1"):
        policy.choose([[1.0], [0.5]])
    with pytest.raises(NotSupported, match="SupLinUCB explains"):
        policy.explain(decision)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"horizon": 0}, "horizon"),
        ({"n_actions": 1.5}, "number of actions"),
        ({"failure_probability": 2.0}, "strictly between"),
        ({"norm_bound": -1.0}, "norm"),
        ({"exploration": 0.0}, "exploration"),
        ({"explore": "best"}, "'widest' or 'lowest'"),
        ({"reward_range": None}, "reward range must be declared"),
    ],
)
def test_bad_parameters_are_rejected(arguments, message):
    with pytest.raises(InvalidParameter, match=message):
        kb.SupLinRel(**{"horizon": 10, "n_actions": 2, **arguments})
