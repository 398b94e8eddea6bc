import numpy as np
import pytest
from scipy.sparse import csr_array

import kernelbandits as kb
from kernelbandits.errors import CannotSave, ForeignFile, InvalidContexts, InvalidParameter
from kernelbandits.kernels import FromCallable, Gaussian, Linear, Spectrum
from kernelbandits.policies.experts import (
    ConstantExpert,
    GreedyRidge,
    LinearScorer,
    Stump,
    UniformExpert,
    constant_experts,
    linear_experts,
    ridge_experts,
    stump_experts,
)
from kernelbandits.policies.experts.base import Panel, shared_row
from kernelbandits.policies.experts.serialization import (
    packed_class,
    packed_experts,
    unpacked_class,
    unpacked_experts,
)


class Hesitant:
    """An expert of a user's own: more on the first row."""

    def advise(self, contexts):
        n_actions = len(contexts)
        return np.append(1.0 - 0.1 * (n_actions - 1), np.full(n_actions - 1, 0.1))

    def describe(self):
        return {"class": "Hesitant"}


class Shouting(Hesitant):
    def advise(self, contexts):
        return np.ones(len(contexts))


def history(seed=0, n=25):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 3)), rng.uniform(size=n)


def every_expert():
    contexts, rewards = history()
    experts = [
        *constant_experts(3),
        *linear_experts(3, n_experts=7, seed=2),
        *stump_experts(contexts, n_actions=3, per_feature=3),
        *ridge_experts([Linear(), Gaussian(length_scale=0.7)], contexts, rewards, regularization=[0.2, 3.0]),
        UniformExpert(),
        Hesitant(),
        UniformExpert(),
    ]
    np.random.default_rng(1).shuffle(experts)
    return experts


@pytest.mark.parametrize("n_actions", [1, 2, 6])
def test_a_panel_says_what_each_expert_says(n_actions):
    experts, rng = every_expert(), np.random.default_rng(3)
    contexts = np.vstack([rng.normal(size=(n_actions, 3))])

    together = Panel(experts).advice_on(contexts, n_actions)

    np.testing.assert_array_equal(together, [expert.advise(contexts) for expert in experts])


def test_many_experts_of_one_class_are_one_call(monkeypatch):
    calls = []
    monkeypatch.setattr(LinearScorer, "advise", lambda *_: calls.append("one"))

    Panel(linear_experts(3, n_experts=300, seed=0)).advice_on(np.eye(3), 3)

    assert calls == []


def test_advice_on_actions_that_are_not_eligible_is_spread():
    policy = kb.EXP4([ConstantExpert(0), Hesitant()], horizon=10, uniform_factor=1e-12, seed=0)
    contexts, eligible = np.eye(4), np.array([False, True, True, False])

    probabilities = policy.probabilities(contexts, eligible=eligible)

    np.testing.assert_allclose(probabilities, [0.0, 0.5, 0.5, 0.0])  # row 0 is not there; Hesitant has 0.1 each


def test_items_of_a_catalog_are_advised_on_as_a_whole():
    contexts, seen = np.arange(12.0).reshape(6, 2), []

    class Watching(Hesitant):
        def advise(self, contexts):
            seen.append(contexts.shape)
            return super().advise(contexts)

    policy = kb.EXP4([Watching(), ConstantExpert(3)], horizon=20, seed=0)

    decision = policy.choose(kb.Catalog(contexts).only([3, 5]))
    policy.learn(decision, 1.0)

    assert seen == [(6, 2)]
    assert decision.action in (3, 5)
    assert policy.probabilities(kb.Catalog(contexts))[3] > policy.probabilities(kb.Catalog(contexts))[5]


def test_advice_that_is_not_a_distribution_is_rejected():
    policy = kb.EXP4([ConstantExpert(0), Shouting()], horizon=10)

    with pytest.raises(InvalidParameter, match="1 in sum"):
        policy.choose(np.eye(3))


@pytest.mark.parametrize(("experts", "words"), [([], "at least one expert"), ([3], "advise"), (3, "A sequence")])
def test_anything_but_an_expert_is_rejected(experts, words):
    with pytest.raises(InvalidParameter, match=words):
        kb.EXP4(experts, horizon=10)


def test_a_stump_plays_one_row_below_and_another_above():
    stump = Stump(column=1, threshold=0.5, below=2, above=0)

    advised = [stump.advise(np.tile([9.0, value], (3, 1))).argmax() for value in (-1.0, 0.5, 0.500001, 4.0)]

    assert advised == [2, 2, 0, 0]


def test_a_stump_reads_the_first_row_or_the_shared_context():
    stump = Stump(column=0, threshold=0.5, below=1, above=0)
    rows = np.array([[0.0, 1.0], [9.0, 1.0]])

    rounds = [rows, csr_array(rows), rows.tolist(), kb.Pairs(np.array([0.0, 1.0]), ["a", "b"])]

    assert [stump.advise(contexts).tolist() for contexts in rounds] == [[0.0, 1.0]] * 4


def test_columns_are_not_read_from_strings_nor_beyond_the_last():
    with pytest.raises(InvalidContexts, match="rows of numbers"):
        shared_row(["a", "b"])
    with pytest.raises(InvalidContexts, match="column 7"):
        Stump(column=7, threshold=0.0, below=0, above=1).advise(np.eye(2))


def test_thresholds_divide_the_contexts_they_are_made_from():
    rng = np.random.default_rng(4)
    contexts = np.column_stack([rng.integers(0, 4, size=60), rng.normal(size=60), np.full(60, 3.0)])

    experts = stump_experts(contexts, n_actions=3, per_feature=5)

    by_column = [[stump for stump in experts if stump.column == column] for column in range(3)]
    assert [len(stumps) for stumps in by_column] == [3 * 6, 5 * 6, 0]  # 4 values have 3 gaps; pairs of 3 rows: 6
    for stump in experts:
        share = (contexts[:, stump.column] <= stump.threshold).mean()
        assert 0.0 < share < 1.0
        assert stump.below != stump.above
    assert len(set(experts)) == len(experts)


def test_thresholds_exist_between_neighbors_and_at_any_scale():
    low = 1.0
    for column in ([low, np.nextafter(low, 2.0)], [-1.7e308, 1.7e308], [0.0, 5e-324]):
        (first, _) = stump_experts(np.array(column)[:, None], n_actions=2)
        assert column[0] <= first.threshold < column[1]


def test_a_linear_scorer_plays_the_best_row_and_the_lowest_of_tied_ones():
    rng = np.random.default_rng(5)
    contexts = rng.normal(size=(6, 4))

    for expert in linear_experts(4, n_experts=20, seed=6):
        assert expert.advise(contexts).argmax() == np.argmax(contexts @ np.array(expert.weights))
        assert expert.advise(np.tile(contexts[0], (3, 1))).tolist() == [1.0, 0.0, 0.0]
        assert expert.advise(csr_array(contexts)).tolist() == expert.advise(contexts).tolist()
        assert np.linalg.norm(expert.weights) == pytest.approx(1.0)


def test_linear_scorers_reject_other_columns_and_no_columns():
    with pytest.raises(InvalidContexts, match="4 columns"):
        kb.EXP4(linear_experts(4, seed=0), horizon=10).choose(np.eye(3))
    with pytest.raises(InvalidContexts, match="4 columns"):
        kb.EXP4(linear_experts(4, seed=0), horizon=10).choose(["a", "b"])
    with pytest.raises(InvalidParameter, match="equally many"):
        kb.EXP4([LinearScorer((1.0,)), LinearScorer((1.0, 2.0))], horizon=10)
    with pytest.raises(InvalidParameter, match="got none"):
        LinearScorer(())


@pytest.mark.parametrize("regularization", [0.05, 4.0])
def test_a_ridge_expert_is_kernel_ridge_regression(regularization):
    contexts, rewards = history(8)
    contexts[5] = contexts[2]  # a repeated action
    kernel, new = Gaussian(length_scale=0.9), np.random.default_rng(9).normal(size=(7, 3))

    (expert,) = ridge_experts(kernel, contexts, rewards, regularization=regularization)

    slow = kernel.gram(new, contexts) @ np.linalg.solve(
        kernel.gram(contexts) + regularization * np.eye(len(contexts)), rewards
    )
    np.testing.assert_allclose(expert.estimate(new), slow, rtol=1e-8, atol=1e-10)
    assert expert.advise(new).argmax() == slow.argmax()


def test_ridge_experts_come_one_per_kernel_and_regularization():
    texts, rewards = ["cheap flights", "slow cooking", "cheap fights"], [1.0, 0.0, 0.5]

    experts = ridge_experts([Spectrum(n=2), Spectrum(n=3)], texts, rewards, regularization=[0.1, 1.0, 10.0])

    assert [(expert.kernel.n, expert.regularization) for expert in experts] == [
        (n, gamma) for n in (2, 3) for gamma in (0.1, 1.0, 10.0)
    ]
    assert experts[0].advise(["slow cook", "cheap flight"]).tolist() == [0.0, 1.0]


def test_a_taught_expert_does_not_follow_the_callers_array():
    contexts, rewards = history(8)
    expert = GreedyRidge.taught(Linear(), contexts, rewards, regularization=1.0)
    before = expert.estimate(np.eye(3))

    contexts[:] = 0.0

    np.testing.assert_array_equal(expert.estimate(np.eye(3)), before)


def test_experts_of_the_library_are_saved_and_others_are_not(tmp_path):
    ours = [expert for expert in every_expert() if not isinstance(expert, Hesitant)]
    policy, contexts = kb.EXP4(ours, horizon=50, seed=0), history(10)[0]
    policy.learn(policy.choose(contexts), 0.5)

    policy.save(tmp_path / "policy")
    opened = kb.load(tmp_path / "policy")

    assert [expert.describe() for expert in opened.experts] == [expert.describe() for expert in ours]
    np.testing.assert_array_equal(opened.probabilities(contexts), policy.probabilities(contexts))
    with pytest.raises(CannotSave, match="Hesitant"):
        kb.EXP4([Hesitant()], horizon=50).save(tmp_path / "other")
    own_kernel = GreedyRidge.taught(FromCallable(lambda x, z: x @ z.T), *history(8), regularization=1.0)
    with pytest.raises(CannotSave):
        packed_experts([own_kernel])


def test_a_file_with_unknown_experts_is_foreign():
    with pytest.raises(ForeignFile, match="Oracle"):
        unpacked_experts([{"class": "Oracle"}])
    with pytest.raises(ForeignFile, match="Everything"):
        unpacked_class({"class": "Everything"})
    with pytest.raises(CannotSave, match="object"):
        packed_class(object())


def test_experts_of_a_copied_policy_are_shared():
    policy = kb.EXP4(linear_experts(3, n_experts=5, seed=0), horizon=50)

    assert policy.copy().experts is policy.experts


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: constant_experts(0), "number of actions"),
        (lambda: stump_experts(np.eye(2), n_actions=1), "nothing to choose"),
        (lambda: stump_experts(np.eye(2), n_actions=2, columns=[2]), "no column 2"),
        (lambda: linear_experts(0), "number of features"),
        (lambda: Stump(column=0, threshold=np.inf, below=0, above=1), "finite"),
        (lambda: Stump(column=-1, threshold=0.0, below=0, above=1), "column"),
        (lambda: ConstantExpert(-1), "action"),
        (lambda: kb.EXP4(constant_experts(2), horizon=10, reward_range=None), "reward_range"),
    ],
)
def test_wrong_numbers_are_rejected(make, words):
    with pytest.raises(InvalidParameter, match=words):
        make()
