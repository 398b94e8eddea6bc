import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from kernelbandits import KernelUCB, Mixed, Pairs, UniformRandom, simulate
from kernelbandits.adapters import CobaEnvironment, CobaLearner, CobaPoints, from_coba
from kernelbandits.environments import Clustered
from kernelbandits.errors import InvalidContexts, InvalidParameter, NotSupported
from kernelbandits.kernels import Delta, Gaussian, Linear, PairProduct, Strings
from kernelbandits.testing import EnvironmentContract


def joined_learner(**options):
    policy = KernelUCB(Gaussian(length_scale=1.0), regularization=0.1, exploration=0.3, **options)
    return CobaLearner(policy, CobaPoints("joined"))


# -- points ------------------------------------------------------------------------------------------------------------


class Categorical(str):
    """As coba's: a string that knows its one-hot row."""

    __slots__ = ("as_onehot",)


def make_category(value, levels):
    category = Categorical(value)
    category.as_onehot = tuple(int(level == value) for level in levels)
    return category


@pytest.mark.parametrize(
    ("actions", "rows"),
    [
        ([(1, 0), (0, 1)], [[1, 0], [0, 1]]),
        ([3, 0.5], [[3], [0.5]]),
        ([make_category("b", "ab"), make_category("a", "ab")], [[0, 1], [1, 0]]),
        ([(2.5, make_category("b", "ab"))], [[2.5, 0, 1]]),
    ],
)
def test_numbers_and_categories_are_dense_rows(actions, rows):
    assert_array_equal(CobaPoints()(None, actions), rows)


def test_strings_are_strings():
    points = CobaPoints()("monday", ["red", "blue"])

    assert points.context == "monday"
    assert points.actions == ["red", "blue"]


def test_mappings_and_mixed_sequences_are_sparse_rows_whose_columns_stay():
    points = CobaPoints(sparse_columns=6)

    first = points(None, [{"a": 2.0, "b": "red"}, {"c": 1}]).toarray()
    second = points(None, [{"c": 3.0}, ("red", 0.5), {"b": "blue"}]).toarray()

    assert_array_equal(first, [[2, 1, 0, 0, 0, 0], [0, 0, 1, 0, 0, 0]])
    assert_array_equal(second, [[0, 0, 3, 0, 0, 0], [0, 0, 0, 1, 0.5, 0], [0, 0, 0, 0, 0, 1]])
    with pytest.raises(InvalidContexts, match=r"more than 6 sparse features.*sparse_columns=12"):
        points(None, [{"new": 1.0}])


def test_layouts_join_pair_or_leave_out_the_context():
    context, actions = (0.5, 2.0), [(1, 0), (0, 1)]

    pairs = CobaPoints()(context, actions)

    assert isinstance(pairs, Pairs)
    assert_array_equal(pairs.context, context)
    assert_array_equal(CobaPoints("actions")(context, actions), np.eye(2))
    assert_array_equal(CobaPoints("joined")(context, actions), [[0.5, 2, 1, 0], [0.5, 2, 0, 1]])
    sparse = CobaPoints("joined", sparse_columns=3)({"u": 4.0}, actions)
    assert_array_equal(sparse.toarray(), [[4, 0, 0, 1, 0], [4, 0, 0, 0, 1]])


def test_points_reject_what_they_cannot_join():
    with pytest.raises(InvalidContexts, match="Strings cannot be joined"):
        CobaPoints("joined")("monday", [(1, 0)])
    with pytest.raises(InvalidParameter, match="'pairs', 'joined' or 'actions', got 'wide'"):
        CobaPoints("wide")
    with pytest.raises(InvalidContexts, match="a number or a string, got list"):
        CobaPoints()(None, [{"a": [1]}])


# -- the learner -------------------------------------------------------------------------------------------------------


def test_a_learner_does_what_its_policy_does():
    rng = np.random.default_rng(1)
    learner, policy = joined_learner(), joined_learner().policy

    for _ in range(25):
        context, actions = tuple(rng.random(2)), [tuple(row) for row in rng.random((4, 2))]
        action, probability, extra = learner.predict(context, actions)
        rows = np.array([(*context, *candidate) for candidate in actions])
        decision = policy.choose(rows)

        assert action is actions[decision.action]
        assert probability == 1.0
        reward = float(rng.random())
        learner.learn(context, action, reward, probability, **extra)
        policy.learn(decision, reward)

    assert_allclose(learner.policy.posterior.predict(rows).mean, policy.posterior.predict(rows).mean)


def test_scores_are_the_probabilities_of_the_policy():
    learner = CobaLearner(Mixed(KernelUCB(Linear()), epsilon=0.4, seed=1))
    actions = [(1, 0), (0, 1)]

    scores = [learner.score(None, actions, action) for action in actions]

    assert_allclose(sorted(scores), [0.2, 0.8])
    with pytest.raises(InvalidParameter, match="not among the 2"):
        learner.score(None, actions, (1, 1))


def test_a_logged_action_without_a_decision_is_history():
    learner = CobaLearner(KernelUCB(Delta(kind=Strings()), regularization=1.0))

    learner.learn(None, "b", 3.0, 0.5)

    assert_allclose(learner.policy.posterior.predict(["a", "b"]).mean, [0.0, 1.5])
    assert learner.predict(None, ["a", "b"])[0] == "b"


def test_says_what_it_is_and_rejects_what_it_cannot_do():
    learner = joined_learner()

    assert learner.params["family"] == "KernelUCB"
    assert learner.params["regularization"] == 0.1
    for actions in (None, []):
        with pytest.raises(NotSupported, match="continuous actions are not supported"):
            learner.predict(None, actions)
    with pytest.raises(InvalidParameter, match="built from a policy, got str"):
        CobaLearner("UCB")


# -- inside coba -------------------------------------------------------------------------------------------------------


@pytest.fixture
def coba():
    return pytest.importorskip("coba", reason="coba is not installed")


def test_a_learner_learns_in_an_experiment_of_coba(coba):
    environments = coba.Environments.from_linear_synthetic(
        120, n_actions=4, n_context_features=2, n_action_features=2, seed=3
    )
    pairs = PairProduct(Gaussian(length_scale=1.0), Gaussian(length_scale=1.0))
    learners = [
        joined_learner(),
        CobaLearner(KernelUCB(pairs, regularization=0.1, exploration=0.3)),
        CobaLearner(UniformRandom(seed=1), CobaPoints("joined")),
    ]

    result = coba.Experiment(environments, learners).run(quiet=True)

    rewards = {}
    for row in result.interactions.to_dicts():
        rewards.setdefault(row["learner_id"], []).append(row["reward"])
    assert [len(rewards[learner]) for learner in (0, 1, 2)] == [120, 120, 120]
    assert np.mean(rewards[0]) > np.mean(rewards[2]) + 0.05
    assert np.mean(rewards[1]) > np.mean(rewards[2]) + 0.05


@pytest.mark.parametrize("batch", [None, 5])
def test_sparse_contexts_categories_and_batches_run_through(coba, batch):
    rng = np.random.default_rng(0)
    interactions = [
        {"context": {"user": name, "age": age}, "actions": ["x", "y"], "rewards": [float(name == "ann"), 0.4]}
        for name, age in zip(rng.choice(["ann", "bob"], 60).tolist(), rng.random(60).tolist(), strict=True)
    ]
    kernel = PairProduct(Linear(), Delta(kind=Strings()))
    environment = Interactions(interactions)
    environments = coba.Environments(environment) if batch is None else coba.Environments(environment).batch(batch)
    learner = CobaLearner(KernelUCB(kernel, regularization=0.1, exploration=0.3))

    result = coba.Experiment(environments, learner).run(quiet=True)

    rewards = [row["reward"] for row in result.interactions.to_dicts()]
    assert len(rewards) == 60
    best = np.mean([max(interaction["rewards"]) for interaction in interactions[30:]])
    assert np.mean(rewards[30:]) > best - 0.1


class Interactions:
    """An environment of coba as simple as can be."""

    def __init__(self, interactions):
        self.interactions = interactions
        self.params = {"name": "ours"}

    def read(self):
        return iter([dict(interaction) for interaction in self.interactions])


# -- from coba ---------------------------------------------------------------------------------------------------------

LOGGED = [
    {"context": (0.5,), "actions": [(1, 0), (0, 1)], "action": (0, 1), "reward": -2.0, "probability": 0.25},
    {"context": (0.7,), "actions": [(1, 0), (0, 1), (1, 1)], "action": (1, 0), "reward": 3.0, "probability": 1.0},
]


def test_logged_interactions_are_a_log():
    for source in (LOGGED, Interactions(LOGGED)):
        log = from_coba(source, points=CobaPoints("joined"))

        assert log.actions.tolist() == [1, 0]
        assert log.rewards.tolist() == [-2.0, 3.0]
        assert log.propensities.tolist() == [0.25, 1.0]
        assert_array_equal(log.rounds[1], [[0.7, 1, 0], [0.7, 0, 1], [0.7, 1, 1]])


def test_interactions_that_lack_something_are_rejected():
    with pytest.raises(InvalidParameter, match="Interaction 1 has no reward"):
        from_coba([LOGGED[0], {**LOGGED[1], "reward": None}])
    with pytest.raises(InvalidParameter, match="not among the 2"):
        from_coba([{**LOGGED[0], "action": (1, 1)}])
    with pytest.raises(InvalidParameter, match="Interaction 0 has no rewards"):
        CobaEnvironment(LOGGED).start(np.random.default_rng(0)).observe()
    with pytest.raises(InvalidParameter, match="list of interactions, got int"):
        CobaEnvironment(3)


def test_logs_of_coba_itself_are_read(coba):
    environments = coba.Environments.from_linear_synthetic(20, n_actions=3, seed=1).logged(coba.RandomLearner())

    log = from_coba(environments[0])

    assert len(log) == 20
    assert_allclose(log.propensities, 1 / 3)
    for t, interaction in enumerate(environments[0].read()):
        assert log.rewards[t] == interaction["reward"]
        assert list(interaction["actions"][log.actions[t]]) == list(interaction["action"])


def simulated(n_rounds=200, seed=9):
    """Rounds of a world of ours as coba would show them."""
    world = Clustered(n_actions=4, n_clusters=3).start(np.random.default_rng(seed))
    rounds = world.peek_rounds(n_rounds)
    return [
        {"context": None, "actions": [tuple(row) for row in shown.contexts.tolist()], "rewards": rewards.tolist()}
        for shown, rewards in rounds
    ]


class TestCobaEnvironment(EnvironmentContract):
    @pytest.fixture
    def environment(self):
        return CobaEnvironment(Interactions(simulated()))


def test_a_simulation_of_coba_is_a_world(coba):
    environments = coba.Environments.from_linear_synthetic(
        60, n_actions=3, n_context_features=2, n_action_features=2, seed=2
    )
    world = CobaEnvironment(environments[0], points=CobaPoints("joined"))

    trace = simulate(world, joined_learner().policy, horizon=500, seed=1)

    assert len(trace) == 60
    interactions = list(environments[0].read())
    paid = [interaction["rewards"] for interaction in interactions]
    for t in (0, 30, 59):
        action = interactions[t]["actions"][trace.action[t]]
        assert trace.reward[t] == (paid[t](action) if callable(paid[t]) else paid[t][trace.action[t]])
    assert world.describe()["class"] == "CobaEnvironment"


def test_descriptions_tell_lists_of_interactions_apart():
    first, again, other = (CobaEnvironment(simulated(seed=seed)).describe() for seed in (1, 1, 2))

    assert first == again != other


def test_learners_can_go_to_another_process():
    learner = joined_learner()
    action, probability, extra = learner.predict((0.5,), [(1, 0), (0, 1)])
    learner.learn((0.5,), action, 1.0, probability, **extra)

    thawed = pickle.loads(pickle.dumps(learner))

    assert thawed.predict((0.5,), [(1, 0), (0, 1)])[0] == learner.predict((0.5,), [(1, 0), (0, 1)])[0]
