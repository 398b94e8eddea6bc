"""`play` gives what a loop over `choose` and `learn` gives, and a simulation that uses it the same trace."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import kernelbandits as kb
from kernelbandits.kernels import Columns, Constant, Cosine, Linear, Polynomial
from kernelbandits.posterior._primal_loops import feature_loops

POLICIES = {
    "linear": lambda gamma, eta: kb.KernelUCB(Linear(), regularization=gamma, exploration=eta),
    "offset": lambda gamma, eta: kb.KernelUCB(Linear() + Constant(0.4), regularization=gamma, exploration=eta),
    "polynomial": lambda gamma, eta: kb.KernelUCB(0.1 * Polynomial(degree=2), regularization=gamma, exploration=eta),
    "cosine": lambda gamma, eta: kb.KernelUCB(Cosine(), regularization=gamma, exploration=eta),
    "columns": lambda gamma, eta: kb.KernelUCB(Columns(Linear(), (2, 0)), regularization=gamma, exploration=eta),
    "LinUCB": lambda gamma, eta: kb.LinUCB(regularization=gamma, exploration=eta),
    "gaussian": lambda gamma, eta: kb.KernelUCB(
        kb.kernels.Gaussian(length_scale=1.0), regularization=gamma, exploration=eta
    ),
}


COLUMNS = ("action", "mean", "width", "score", "propensity", "reward")


@pytest.fixture(scope="module", autouse=True)
def compiled():
    feature_loops.compile()


@pytest.mark.parametrize("name", POLICIES)
@settings(max_examples=12)
@given(
    seed=st.integers(0, 10**6),
    gamma=st.sampled_from([1e-6, 0.05, 1.0, 30.0]),
    eta=st.sampled_from([0.0, 0.3, 2.0]),
    form=st.sampled_from(["array", "list", "mixed"]),
    has_ties=st.booleans(),
)
def test_every_round_is_that_of_the_loop(name, seed, gamma, eta, form, has_ties):
    rng = np.random.default_rng(seed)
    n_rounds, n_actions = int(rng.integers(1, 60)), int(rng.integers(1, 9))
    rounds = rng.normal(size=(n_rounds, n_actions, 3)) * 10.0 ** rng.integers(-2, 1)
    if has_ties:
        rounds = np.round(rounds)
    rewards = rng.normal(size=(n_rounds, n_actions))
    given_rounds, given_rewards = (rounds, rewards) if form == "array" else (list(rounds), list(rewards))
    if form == "mixed":  # a round of another size in between
        given_rounds.append(rng.normal(size=(2, 3)))
        given_rewards.append(rng.normal(size=2))
        given_rounds += list(rounds)
        given_rewards += list(rewards)
    played, looped = POLICIES[name](gamma, eta), POLICIES[name](gamma, eta)

    plays = played.play(given_rounds, given_rewards)

    for t, contexts in enumerate(given_rounds):
        decision = looped.choose(contexts)
        looped.learn(decision, given_rewards[t][decision.action])
        assert plays.action[t] == decision.action
        scale = max(1.0, abs(decision.mean))
        assert_allclose(plays.mean[t], decision.mean, atol=1e-7 * scale)
        assert_allclose(plays.width[t], decision.width, rtol=1e-5, atol=1e-9)
        assert_allclose(plays.score[t], decision.score, atol=1e-6 * scale)
    assert played.round_index == looped.round_index
    assert_allclose(played.posterior.norm, looped.posterior.norm, rtol=1e-6)
    assert (played.posterior.size, played.posterior.n_observations) == (
        looped.posterior.size,
        looped.posterior.n_observations,
    )


@pytest.mark.parametrize("name", ["linear", "LinUCB", "gaussian"])
@pytest.mark.parametrize("epsilon", [0.0, 0.05, 0.5, 1.0])
@pytest.mark.parametrize("n_actions", [1, 6])
def test_a_mixed_policy_plays_its_rounds_as_the_loop_does(name, epsilon, n_actions):
    rng = np.random.default_rng(3)
    rounds, rewards = rng.normal(size=(80, n_actions, 3)), rng.normal(size=(80, n_actions))
    played, looped = (kb.Mixed(POLICIES[name](0.5, 0.3), epsilon=epsilon, seed=4) for _ in range(2))

    plays = played.play(list(rounds[:30]), list(rewards[:30]))
    more = played.play(rounds[30:], rewards[30:])

    found = {name: np.concatenate([getattr(plays, name), getattr(more, name)]) for name in COLUMNS}
    for t, contexts in enumerate(rounds):
        decision = looped.choose(contexts)
        looped.learn(decision, rewards[t][decision.action])
        for column in COLUMNS[:-1]:
            assert_allclose(found[column][t], getattr(decision, column), rtol=1e-6, atol=1e-8)
        assert found["reward"][t] == rewards[t][decision.action]
    assert played.round_index == looped.round_index == 81
    assert played.choose(rounds[0], id="next").action == looped.choose(rounds[0], id="next").action
    assert played.choose(rounds[0]).propensity == looped.choose(rounds[0]).propensity  # the same random state


def test_a_mixed_policy_uses_the_compiled_loop_between_random_rounds(monkeypatch):
    policy = kb.Mixed(kb.LinUCB(), epsilon=0.1, seed=0)
    rounds, rewards = np.random.default_rng(0).normal(size=(200, 4, 3)), np.ones((200, 4))
    steps, step = [], kb.Mixed._play_round

    def counted(self, known, plays, t, pick):
        steps.append(t)
        step(self, known, plays, t, pick)

    monkeypatch.setattr(kb.Mixed, "_play_round", counted)
    policy.play(rounds, rewards)

    assert policy.has_compiled_loop
    assert 5 < len(steps) < 60
    assert policy.round_index == 201


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("form", [np.array, list])
@pytest.mark.parametrize("column", [0, 1])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_number_that_is_not_finite_is_rejected_wherever_it_stands(name, form, column, bad):
    rng = np.random.default_rng(5)
    rounds, rewards = rng.normal(size=(40, 4, 3)), rng.normal(size=(40, 4))
    policy, queries = POLICIES[name](0.5, 0.3), rng.normal(size=(6, 3))
    policy.play(rounds, rewards)
    before = policy.posterior.predict(queries)
    rounds[29, 3, column] = bad

    with pytest.raises(kb.errors.InvalidContexts, match="finite"):
        policy.play(form(rounds), rewards)

    assert policy.round_index == 41
    assert_allclose(policy.posterior.predict(queries).mean, before.mean, rtol=1e-12)
    assert_allclose(policy.posterior.predict(queries).width, before.width, rtol=1e-12)


@pytest.mark.parametrize("n_rounds", [10, 400])
def test_a_simulation_is_that_of_single_steps(n_rounds, monkeypatch):
    world = kb.environments.SyntheticRKHS(Linear(), n_actions=6, n_features=3)
    policies = [kb.KernelUCB(Linear(), regularization=0.7, exploration=0.6) for _ in range(2)]
    finished = []

    fast = kb.simulate(world, policies[0], horizon=n_rounds, seed=3, progress=finished.append)

    assert finished == list(range(1, n_rounds + 1))
    monkeypatch.setattr(kb.KernelUCB, "has_compiled_loop", False)
    slow = kb.simulate(world, policies[1], horizon=n_rounds, seed=3)
    for name, column in fast.to_columns().items():
        if name != "seconds":
            assert_allclose(column, slow.to_columns()[name], rtol=1e-9, atol=1e-9, err_msg=name)
    assert fast.spec == slow.spec


def test_a_long_run_stays_close_to_the_definition():
    rng = np.random.default_rng(1)
    rounds, rewards = rng.normal(size=(20_000, 3, 4)) + 1.0, rng.normal(size=(20_000, 3))
    policy = kb.KernelUCB(Linear(), regularization=1e-3, exploration=0.5)

    plays = policy.play(rounds, rewards)

    chosen = rounds[np.arange(20_000), plays.action]
    precision = 1e-3 * np.eye(4) + chosen.T @ chosen
    queries = rng.normal(size=(50, 4))
    prediction = policy.posterior.predict(queries)
    assert_allclose(prediction.mean, queries @ np.linalg.solve(precision, chosen.T @ plays.reward), atol=1e-9)
    squared = np.einsum("nd,nd->n", queries @ np.linalg.inv(precision), queries)
    assert_allclose(prediction.width**2 * 1e-3, squared * 1e-3, atol=1e-9)


@pytest.mark.parametrize("make", [lambda: kb.UCB1(), lambda: kb.KernelThompson(kb.kernels.Linear(), seed=0)])
def test_policies_without_a_loop_of_their_own_count_their_rounds(make):
    rng = np.random.default_rng(3)
    rounds, rewards = np.tile(rng.normal(size=(4, 2)), (12, 1, 1)), rng.uniform(size=(12, 4))
    played, looped = make(), make()

    plays = played.play(rounds, rewards)

    actions = []
    for contexts, values in zip(rounds, rewards, strict=True):
        decision = looped.choose(contexts)
        looped.learn(decision, values[decision.action])
        actions.append(decision.action)
    assert plays.action.tolist() == actions
    assert played.round_index == looped.round_index == 13


BY_ID = {
    "UCB1": lambda: kb.UCB1(reward_range=(0, 1)),
    "LinUCB disjoint": lambda: kb.LinUCB(model="disjoint", exploration=0.4),
    "Mixed(LinUCB disjoint)": lambda: kb.Mixed(kb.LinUCB(model="disjoint", exploration=0.4), epsilon=0.3, seed=1),
}


@pytest.mark.parametrize("name", BY_ID)
def test_policies_that_know_actions_by_id_learn_about_the_ids(name):
    """The ids move between the rows. Without them the choices differ: the negative control."""
    rng = np.random.default_rng(7)
    rounds = list(rng.normal(size=(60, 4, 2)))
    ids = [[f"item {row}" for row in rng.permutation(6)[:4]] for _ in rounds]
    rewards = [np.array([float(name[-1]) / 5 for name in names]) for names in ids]
    played, looped, by_row = (BY_ID[name]() for _ in range(3))

    plays = played.play(rounds, rewards, ids=ids)

    for t, contexts in enumerate(rounds):
        decision = looped.choose(contexts, ids=ids[t])
        looped.learn(decision, rewards[t][decision.action])
        assert (plays.action[t], plays.reward[t]) == (decision.action, rewards[t][decision.action])
    again = [decision.item for decision in played.choose_many(rounds, ids=ids)]
    if not name.startswith("Mixed"):
        assert again == [looped.choose(contexts, ids=own).item for contexts, own in zip(rounds, ids, strict=True)]
    assert not np.array_equal(by_row.play(rounds, rewards).action, plays.action)


@pytest.mark.parametrize("epsilon", [None, 0.0, 0.3])
@pytest.mark.parametrize("name", ["linear", "LinUCB", "gaussian"])
def test_a_compiled_loop_keeps_to_eligible_actions(name, epsilon):
    rng = np.random.default_rng(8)
    rounds, rewards = rng.normal(size=(60, 5, 3)), rng.normal(size=(60, 5))
    masks = rng.random((60, 5)) < 0.5
    masks[:, 2] |= ~masks.any(axis=1)
    eligible = [None if t % 7 == 0 else mask for t, mask in enumerate(masks)]
    make = POLICIES[name]
    wrap = (lambda policy: policy) if epsilon is None else (lambda policy: kb.Mixed(policy, epsilon=epsilon, seed=2))
    played, looped = wrap(make(0.5, 0.3)), wrap(make(0.5, 0.3))

    plays = played.play(rounds, rewards, eligible=eligible)

    for t, contexts in enumerate(rounds):
        decision = looped.choose(contexts, eligible=eligible[t])
        looped.learn(decision, rewards[t][decision.action])
        assert plays.action[t] == decision.action
        assert_allclose(plays.propensity[t], decision.propensity, rtol=1e-9)
        assert_allclose(plays.mean[t], decision.mean, rtol=1e-6, atol=1e-8)
    assert played.round_index == looped.round_index == 61


def test_ids_do_not_keep_a_policy_of_rows_from_its_compiled_loop(monkeypatch):
    policy, steps = kb.LinUCB(), []
    rounds, rewards = np.random.default_rng(9).normal(size=(50, 2, 3)), np.ones((50, 2))
    policy.play(rounds, rewards)
    monkeypatch.setattr(kb.LinUCB, "_play_round", lambda self, known, plays, t, pick: steps.append(t))

    policy.play(rounds, rewards, ids=[["a", "b"]] * 50)

    assert not steps
    assert policy.round_index == 101
