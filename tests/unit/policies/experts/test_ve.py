from dataclasses import replace
from itertools import product
from math import ceil, e, log, sqrt

import numpy as np
import pytest

import kernelbandits as kb
from kernelbandits.errors import CannotSave, DecisionError, InvalidContexts, InvalidParameter, NotSupported
from kernelbandits.policies.experts import PolicyClass, StumpClass, UniformExpert, constant_experts, linear_experts
from kernelbandits.policies.experts.library import FiniteClass


def brute_force(summaries, n_actions):
    """Labelings by every threshold (on a grid finer than the gaps) on every column, with every two rows."""
    found = set()
    for column in summaries.T:
        thresholds = [column.min() - 1.0, *column]
        for threshold, below, above in product(thresholds, range(n_actions), range(n_actions)):
            found.add(tuple(np.where(column <= threshold, below, above)))
    return found


def labeling(expert, summaries, n_actions):
    return tuple(int(expert.advise(np.tile(row, (n_actions, 1))).argmax()) for row in summaries)


def ugly_summaries():
    rng = np.random.default_rng(0)
    steady = rng.normal(size=(12, 1))
    return [
        rng.normal(size=(15, 2)),
        rng.integers(0, 3, size=(15, 3)).astype(float),
        np.hstack([steady, -2.0 * steady, steady]),  # columns that divide alike
        np.ones((9, 2)),
        np.array([[1.0, np.nextafter(1.0, 2.0)], [np.nextafter(1.0, 2.0), 1.0]]),
        np.array([[3.0, 3.0]]),
        rng.normal(size=(8, 1)) * 1e300,
    ]


@pytest.mark.parametrize("n_actions", [2, 3])
@pytest.mark.parametrize("summaries", ugly_summaries(), ids=lambda summaries: str(summaries.shape))
def test_there_is_one_stump_per_labeling(summaries, n_actions):
    kept = StumpClass(summaries.shape[1], n_actions=n_actions).distinct(summaries)

    labels = [labeling(expert, summaries, n_actions) for expert in kept]

    assert len(set(labels)) == len(labels)
    assert set(labels) == brute_force(summaries, n_actions)


def test_one_column_of_distinct_values_has_two_labelings_per_round():
    summaries = np.random.default_rng(1).normal(size=(20, 1))

    kept = StumpClass(1).distinct(summaries)

    assert len(kept) == 2 * 20  # 21 per sign, two of them constant and counted once


def test_a_list_keeps_the_first_policy_of_each_labeling():
    rng = np.random.default_rng(2)
    experts = [*linear_experts(2, n_experts=200, seed=3), *constant_experts(3)]
    rounds, policies = [rng.normal(size=(3, 2)) for _ in range(4)], FiniteClass(experts)

    kept = policies.distinct(np.array([policies.summarize_round(contexts, 3) for contexts in rounds]))

    slow = {}
    for expert in experts:
        slow.setdefault(tuple(expert.advise(contexts).argmax() for contexts in rounds), expert)
    assert kept == list(slow.values())
    assert 3 < len(kept) < len(experts)


def test_a_class_has_no_experts_that_randomize():
    with pytest.raises(InvalidParameter, match="all probability on one action"):
        kb.VE([UniformExpert()], horizon=90, vc_dimension=1, uniform_rounds=5).choose(np.eye(2))


@pytest.mark.parametrize(("horizon", "dimension", "delta"), [(500, 1, 0.2), (10_000, 3, 0.01)])
def test_the_uniform_rounds_are_those_of_the_formula(horizon, dimension, delta):
    policy = kb.VE(StumpClass(2), horizon=horizon, vc_dimension=dimension, failure_probability=delta)

    tau = sqrt(horizon * (2 * dimension * log(e * horizon / dimension) + log(2 / delta)))
    assert policy.uniform_rounds == ceil(tau)


def rounds(n, seed=4):
    rng = np.random.default_rng(seed)
    for _ in range(n):
        yield np.tile(rng.normal(size=2), (3, 1)), float(rng.uniform())


def test_after_the_uniform_rounds_it_is_exp4p_on_the_policies_kept():
    rates = {"uniform_factor": 1.4, "learning_factor": 2.5}
    policy = kb.VE(
        StumpClass(2, n_actions=3),
        horizon=80,
        vc_dimension=2,
        failure_probability=0.1,
        uniform_rounds=9,
        seed=5,
        **rates,
    )
    for contexts, reward in rounds(9):
        assert policy.experts == ()
        np.testing.assert_allclose(policy.probabilities(contexts), 1 / 3)
        decision = policy.choose(contexts)
        assert decision.stage == 1
        policy.learn(decision, reward)

    other = kb.EXP4P(policy.experts, horizon=71, failure_probability=0.05, **rates)
    assert isinstance(policy.experts[-1], UniformExpert)
    seen = np.array([contexts[0] for contexts, _ in rounds(9)])
    assert len(policy.experts) == 1 + len(brute_force(seen, 3))
    for contexts, reward in rounds(30, seed=6):
        np.testing.assert_allclose(policy.probabilities(contexts), other.probabilities(contexts), rtol=1e-12)
        decision = policy.choose(contexts)
        assert decision.stage == 2
        policy.learn(decision, reward)
        other.learn(replace(decision, policy="", id=""), reward)
    np.testing.assert_array_equal(policy.weights, other.weights)
    assert np.ptp(policy.weights) > 1e-6


def test_uniform_rounds_that_come_late_change_nothing_and_weighted_ones_cannot_come_first():
    policy = kb.VE(StumpClass(2), horizon=80, vc_dimension=2, uniform_rounds=4, seed=5)
    fresh = policy.copy()
    late = policy.choose(np.ones((2, 2)))
    for contexts, reward in rounds(4):
        policy.learn(policy.choose(contexts), reward)
    before = policy.weights
    weighted = policy.choose(np.ones((2, 2)))

    policy.learn(late, 0.9)

    np.testing.assert_array_equal(policy.weights, before)
    with pytest.raises(DecisionError, match="learn the 4 uniform rounds first; 0 are learned"):
        fresh.learn(weighted, 0.5)
    assert fresh.round_index == 1


def test_a_file_is_opened_in_either_phase(tmp_path):
    policy = kb.VE(StumpClass([1], n_actions=3), horizon=80, vc_dimension=2, uniform_rounds=4, seed=5)
    for t, (contexts, reward) in enumerate(rounds(10)):
        policy.save(tmp_path / "policy")
        opened = kb.load(tmp_path / "policy")
        assert opened.experts == policy.experts, t
        np.testing.assert_array_equal(opened.probabilities(contexts), policy.probabilities(contexts))
        policy.learn(policy.choose(contexts), reward)


class Halves:
    """A class of a user's own: the first row or the second, whatever the round."""

    def summarize_round(self, contexts, n_actions):
        return np.zeros(1)

    def distinct(self, summaries):
        return constant_experts(2)

    def describe(self):
        return {"class": "Halves"}


def test_a_class_of_ones_own_works_and_is_not_saved(tmp_path):
    assert isinstance(Halves(), PolicyClass)
    policy = kb.VE(Halves(), horizon=50, vc_dimension=1, uniform_rounds=2, seed=0)
    for contexts, reward in rounds(5):
        policy.learn(policy.choose(contexts), reward)

    assert len(policy.experts) == 3
    with pytest.raises(CannotSave, match="Halves"):
        policy.save(tmp_path / "policy")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"horizon": 20, "vc_dimension": 2}, "then needs at least"),
        ({"horizon": 5, "vc_dimension": 6}, "below the horizon"),
        ({"horizon": 50, "vc_dimension": 2, "uniform_rounds": 49}, "then needs at least"),
        ({"horizon": 50, "vc_dimension": 0}, "VC dimension"),
        ({"horizon": 500, "vc_dimension": 1, "failure_probability": 0.0}, "strictly between"),
    ],
)
def test_wrong_numbers_are_rejected(options, words):
    with pytest.raises(InvalidParameter, match=words):
        kb.VE(StumpClass(2), **options)


def test_wrong_columns_are_rejected():
    with pytest.raises(InvalidContexts, match="column 4"):
        kb.VE(StumpClass([4]), horizon=50, vc_dimension=2, uniform_rounds=5).choose(np.eye(2))
    with pytest.raises(InvalidParameter, match="number of columns"):
        StumpClass([])


def test_rewards_cannot_be_amended():
    policy = kb.VE(StumpClass(2), horizon=80, vc_dimension=2, uniform_rounds=4, seed=5)
    decision = policy.choose(np.eye(2))
    policy.learn(decision, 0.5)

    with pytest.raises(NotSupported):
        policy.amend(decision, was=0.5, now=0.6)
