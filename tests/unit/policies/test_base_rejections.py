"""Rejected calls leave a policy as it was: the cases that once did not."""

import copy
import pickle
import warnings
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.sparse import csr_array

import kernelbandits as kb
from kernelbandits.errors import (
    DecisionError,
    ForeignFile,
    IllConditioned,
    InvalidContexts,
    InvalidParameter,
    InvalidReward,
    KernelBanditError,
    NotLearnt,
    NotPositiveSemidefinite,
    NumericalError,
)
from kernelbandits.kernels import Gaussian, Linear, Matern, Precomputed
from kernelbandits.posterior import ExactPosterior
from kernelbandits.theory import Constant

ROWS = np.random.default_rng(0).uniform(size=(6, 3))


@pytest.mark.parametrize(
    "make_policy",
    [lambda: kb.KernelUCB(Gaussian(length_scale=1.0)), kb.LinUCB, lambda: kb.KernelUCB(Linear(), posterior="primal")],
)
def test_dense_and_sparse_rounds_do_not_mix(make_policy):
    policy = make_policy()
    sparse = policy.choose(csr_array(ROWS))
    policy.learn(policy.choose(ROWS), 1.0)
    before = policy.choose(ROWS)

    with pytest.raises(InvalidContexts, match="Dense and sparse"):
        policy.learn(sparse, 5.0)
    with pytest.raises(InvalidContexts, match="Dense and sparse"):
        policy.choose(csr_array(ROWS))
    with pytest.raises(InvalidContexts, match="Dense and sparse"):
        policy.expect(sparse)

    after = policy.choose(ROWS)
    assert (after.action, after.mean, after.width) == (before.action, before.mean, before.width)
    assert policy.round_index == 2


@pytest.mark.parametrize("make_policy", [kb.LinUCB, lambda: kb.KernelUCB(Gaussian(length_scale=1.0)), kb.UCB1])
def test_views_of_memory_are_the_arrays_that_they_show(make_policy):
    rounds, rewards = np.stack([ROWS, ROWS[::-1]]), np.linspace(0.0, 1.0, 12).reshape(2, 6)
    expected, policy = make_policy(), make_policy()

    for first, second in (
        (expected.choose(ROWS), policy.choose(memoryview(ROWS))),
        (expected.choose(kb.Catalog(ROWS)), policy.choose(kb.Catalog(memoryview(ROWS)))),
        *zip(expected.choose_many(rounds), policy.choose_many(memoryview(rounds)), strict=True),
    ):
        assert (first.action, first.n_actions) == (second.action, second.n_actions)
    assert_allclose(policy.probabilities_many(memoryview(rounds)), expected.probabilities_many(rounds))
    played = policy.play(memoryview(rounds), memoryview(rewards))
    assert_allclose(played.reward, expected.play(rounds, rewards).reward)


def test_views_of_memory_are_no_decisions():
    policy = kb.LinUCB()

    for decisions in (ROWS, np.array(1.0)):
        with pytest.raises(DecisionError, match="decision"):
            policy.learn_many(memoryview(decisions), [0.5])
    with pytest.raises(InvalidContexts, match="Rounds are a sequence"):
        policy.play(memoryview(np.array(1.0)), [0.5])


def test_pending_decisions_have_to_be_comparable():
    policy = kb.KernelUCB(Gaussian(length_scale=1.0))
    narrow, wide = policy.choose(ROWS[:, :2]), policy.choose(ROWS)
    policy.expect(narrow)

    with pytest.raises(InvalidContexts, match="columns"):
        policy.expect(wide)

    assert policy.choose(ROWS[:, :2]).round_index == 2


@pytest.mark.parametrize("seed", range(40))
def test_an_indefinite_table_never_leaves_a_broken_model(seed):
    """Batches of new and known items, additions and removals, some rejected: what is accepted stays exact."""
    rng = np.random.default_rng(seed)
    size = 8
    table = rng.uniform(-1, 1, size=(size, size))
    table = (table + table.T) / 2
    np.fill_diagonal(table, rng.uniform(1.0, 2.5))
    kernel, gamma = Precomputed(table), float(10 ** rng.uniform(-3, 0))
    posterior, items, rewards = ExactPosterior(kernel, regularization=gamma), [], []
    for _ in range(12):
        batch = rng.integers(0, size, size=rng.integers(1, 5)).tolist()
        values = rng.normal(size=len(batch))
        try:
            posterior.observe(batch, values)
        except KernelBanditError:
            continue
        items += batch
        rewards += values.tolist()
    assert posterior.n_observations == len(items)
    if items:
        gram = kernel.gram(items) + gamma * np.eye(len(items))
        mean = kernel.gram(items, items).T @ np.linalg.solve(gram, rewards)
        try:
            assert_allclose(posterior.predict(items).mean, mean, rtol=1e-5, atol=1e-6)
        except NotPositiveSemidefinite:  # said in words, and no worse
            assert posterior.n_observations == len(items)


def test_a_warning_that_is_an_error_comes_before_anything_moves():
    policy = kb.KernelUCB(Linear(), regularization=1e-3)
    decision = policy.choose(1e4 * ROWS)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(IllConditioned):
            policy.learn(decision, 1.0)

    assert policy.posterior.n_observations == 0
    assert policy.round_index == 1


def test_a_warning_names_the_line_that_led_to_it():
    policy = kb.KernelUCB(Linear(), regularization=1e-3)
    decision = policy.choose(1e4 * ROWS)

    with pytest.warns(IllConditioned) as caught:
        policy.learn(decision, 1.0)

    assert caught[0].filename == __file__


@pytest.mark.parametrize("policy", [kb.LinUCB(regularization=1e-14), kb.LinUCB(model="disjoint", regularization=1e-14)])
def test_a_hopeless_regularization_is_rejected_in_words_or_survived(policy):
    contexts = 1e4 * np.vstack([ROWS, ROWS[:1] * (1 + 1e-12)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(6):
            decision = policy.choose(contexts)
            try:
                policy.learn(decision, 1.0)
            except NumericalError:
                assert policy.choose(contexts).round_index == decision.round_index
                return

    assert np.isfinite(policy.choose(contexts).score)


def test_rewards_that_add_up_to_infinity_are_rejected():
    policy = kb.KernelUCB(Gaussian(length_scale=1.0))
    for _ in range(2):
        decision = policy.choose(ROWS[:1])
        if policy.round_index == 1:
            policy.learn(decision, 1.5e308)

    with pytest.raises(InvalidReward, match="more than a double can hold"):
        policy.learn(decision, 1.5e308)

    assert policy.round_index == 2
    assert np.isfinite(policy.choose(ROWS).score)


def test_a_masked_value_is_no_reward():
    policy = kb.KernelUCB(Gaussian(length_scale=1.0))

    with pytest.raises(InvalidReward, match="masked"):
        policy.learn(policy.choose(ROWS), np.ma.masked)


def test_a_decision_cannot_be_written_on():
    policy = kb.KernelUCB(Gaussian(length_scale=1.0))
    decision = policy.choose(ROWS)

    with pytest.raises(ValueError, match="read-only"):
        decision.context[:] = 9.0


def test_what_is_pending_is_a_copy():
    policy = kb.KernelUCB(Gaussian(length_scale=1.0))
    context = ROWS[0].copy()
    policy.expect(kb.Decision(action=0, context=context, id="mine"))
    before = policy.choose(ROWS).width

    context[:] = 99.0

    assert policy.choose(ROWS).width == before


def test_decisions_can_be_copied_and_sent_to_another_process():
    decision = kb.KernelUCB(Gaussian(length_scale=1.0)).choose(ROWS)

    assert copy.deepcopy(decision).id == decision.id
    assert pickle.loads(pickle.dumps(decision)).id == decision.id


def test_nothing_learned_cannot_be_unlearned_by_hand():
    policy = kb.KernelUCB(Gaussian(length_scale=1.0))
    policy.warm_start(ROWS[:1], [1.0])

    with pytest.raises(NotLearnt, match="No decision has been learned"):
        policy.unlearn(kb.Decision(action=0, context=ROWS[0]), 1.0)

    assert policy.round_index == 1


def test_another_kernel_is_rejected_even_where_its_similarities_agree(tmp_path):
    policy = kb.KernelUCB(Gaussian(length_scale=0.5))
    policy.learn(policy.choose(ROWS), 1.0)
    policy.save(tmp_path / "policy.kb")

    with pytest.raises(ForeignFile, match="not the one this policy learned with"):
        kb.load(tmp_path / "policy.kb", kernel=Matern(smoothness=0.5, length_scale=9.0))


@pytest.mark.parametrize("model", ["disjoint", "hybrid"])
def test_linucb_takes_sparse_rows_and_arrays_of_columns(model):
    columns = np.array([0]) if model == "hybrid" else None
    dense, sparse = (kb.LinUCB(model=model, shared_columns=columns) for _ in range(2))
    for row in range(5):
        left, right = dense.choose(ROWS), sparse.choose(csr_array(ROWS))
        assert left.action == right.action
        assert right.mean == pytest.approx(left.mean, abs=1e-12)
        dense.learn(left, float(row))
        sparse.learn(right, float(row))


def test_a_label_that_is_not_an_id_is_rejected():
    policy = kb.LinUCB(model="disjoint")

    with pytest.raises(InvalidContexts, match="An id is an integer or a string"):
        policy.learn(kb.Decision(action=0, context=ROWS[0]), 1.0)


@pytest.mark.parametrize("stage", [0, -1, 10**6, 1.5, "a", True])
def test_levels_that_no_walk_visits_are_rejected(stage):
    policy = kb.SupKernelUCB(Gaussian(length_scale=1.0), norm_bound=1.0, exploration="theory")
    decision = replace(policy.choose(ROWS), stage=stage)

    with pytest.raises(DecisionError, match=r"evel is a whole number from 1|`stage` of a decision must be"):
        policy.learn(decision, 0.5)

    assert policy.stages == ()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0])
def test_a_schedule_has_to_give_a_number(value):
    class Own:
        def __call__(self, situation):
            return value

        def describe(self):
            return {"class": "Own"}

    with pytest.raises(InvalidParameter, match="finite number, zero or above"):
        kb.KernelUCB(Gaussian(length_scale=1.0), exploration=Own()).choose(ROWS)


@pytest.mark.parametrize("seed", ["a", -1, 1.5])
def test_a_seed_that_is_none_is_rejected(seed):
    with pytest.raises(InvalidParameter, match="A seed is"):
        kb.UniformRandom(seed=seed)


@pytest.mark.parametrize("values", [{}, {"action": 1}, {"action": 1, "context": {"unknown": 2}}, [1, 2], None])
def test_values_that_are_no_decision_are_rejected(values):
    with pytest.raises(DecisionError, match="not a decision"):
        kb.Decision.from_dict(values)


def test_repeats_at_tiny_regularization_stay_accurate():
    rng = np.random.default_rng(1)
    points = rng.uniform(size=(20, 2))
    single, batch = (ExactPosterior(Gaussian(length_scale=0.3), regularization=1e-6) for _ in range(2))
    pulls = rng.integers(0, 20, size=1500)
    for pull in pulls:
        single.observe(points[[pull]], [0.0])
        single.predict(points[:1])

    batch.observe(points[pulls], np.zeros(1500))

    assert_allclose(single.predict(ROWS[:, :2]).width, batch.predict(ROWS[:, :2]).width, rtol=1e-7)


@pytest.mark.parametrize("rewards", [3.0, None, np.array(3.0)])
def test_rewards_of_rounds_are_rows(rewards):
    with pytest.raises(InvalidReward, match="a row for each round"):
        kb.LinUCB().play([np.eye(2)], rewards)


@pytest.mark.parametrize("rounds", [3, None, np.array(5.0)])
def test_rounds_are_a_sequence(rounds):
    with pytest.raises(InvalidContexts, match="one set of actions each"):
        kb.LinUCB().play(rounds, [[1.0]])
    with pytest.raises(InvalidContexts):
        kb.LinUCB().choose_many(rounds)


def test_a_catalog_is_one_round():
    with pytest.raises(InvalidContexts, match="For one: choose"):
        kb.LinUCB().choose_many(kb.Catalog(np.eye(2)))


@pytest.mark.parametrize("value", [0.05, np.float32(0.05), 1, Constant(0.05)])
def test_an_exploration_that_is_assigned_becomes_a_schedule(value):
    policy = kb.KernelUCB(Gaussian(length_scale=1.0), exploration=2.0)
    policy.learn(policy.choose(ROWS), 0.5)

    policy.exploration = value

    given = kb.KernelUCB(Gaussian(length_scale=1.0), exploration=value)
    given.learn(given.choose(ROWS), 0.5)
    assert policy.exploration == given.exploration
    assert policy.choose(ROWS).score == given.choose(ROWS).score


@pytest.mark.parametrize("value", [None, "much", -1.0, np.nan, np.ones(2), Constant])
def test_an_exploration_that_is_none_cannot_be_assigned(value):
    policy = kb.KernelUCB(Gaussian(length_scale=1.0), exploration=2.0)

    with pytest.raises(InvalidParameter, match="exploration"):
        policy.exploration = value

    assert policy.exploration == Constant(2.0)


def test_a_masked_truth_value_is_not_taken_for_what_lies_below_the_mask():
    policy = kb.KernelUCB(Gaussian(length_scale=1.0))
    eligible = np.ma.array([True] * len(ROWS), mask=[True] + [False] * (len(ROWS) - 1))

    with pytest.raises(InvalidContexts, match="`eligible` are masked"):
        policy.choose(ROWS, eligible=eligible)

    assert policy.choose(ROWS, eligible=eligible.filled(False)).action > 0


def test_a_rejected_id_does_not_move_the_random_state():
    policy, other = kb.UniformRandom(seed=0), kb.UniformRandom(seed=0)

    for _ in range(20):
        with pytest.raises(InvalidParameter, match="A decision's id"):
            policy.choose(ROWS, id=())

    rounds = [ROWS] * 20
    assert [policy.choose(r).action for r in rounds] == [other.choose(r).action for r in rounds]


@pytest.mark.parametrize("kind", [np.float32, np.int8, np.uint64])
def test_numbers_of_numpy_are_saved_like_others(kind, tmp_path):
    policy = kb.SupKernelUCB(Gaussian(length_scale=1.0), exploration="theory", norm_bound=kind(1), noise_scale=kind(1))

    policy.save(tmp_path / "policy.kb")

    assert kb.load(tmp_path / "policy.kb").fingerprint == policy.fingerprint
