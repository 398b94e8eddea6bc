import numpy as np
import pytest
from scipy.sparse import csr_array

import kernelbandits as kb
from kernelbandits.policies.experts import constant_experts

ROUNDS = [
    np.zeros((4, 2)),
    csr_array(np.eye(4)),
    ["a", "b", "c", "d"],
    [1, 2, "three", 4],
    [{"a"}, {"b"}, {"c"}, set()],
    kb.Pairs(np.zeros(2), ["a", "b", "c", "d"]),
    kb.Pairs("user", np.eye(4)),
    np.array(["a", "b", "c", "d"]),
    [[0.5], [1.0], [2.0], [3]],
]


@pytest.mark.parametrize("contexts", ROUNDS, ids=lambda contexts: type(contexts).__name__)
def test_any_kind_of_point_will_do(contexts):
    policy = kb.UniformRandom(seed=0)

    decision = policy.choose(contexts)
    policy.learn(decision, 0.5)

    assert decision.propensity == 0.25


def test_draws_are_even():
    policy = kb.UniformRandom(seed=1)

    counts = np.bincount([policy.choose(ROUNDS[0]).action for _ in range(4000)])

    assert ((counts - 1000) ** 2 / 1000).sum() < 16.3  # chi-square, 3 degrees of freedom, 0.1 %


def test_a_slate_is_drawn_without_replacement():
    policy = kb.UniformRandom(seed=2)

    slate = policy.choose(ROUNDS[0], k=3)

    assert len(set(slate.actions.tolist())) == 3
    assert [decision.propensity for decision in slate] == [1 / 4, 1 / 3, 1 / 2]


@pytest.mark.parametrize(
    "make",
    [
        lambda: kb.UniformRandom(seed=0),
        lambda: kb.UCB1(),
        lambda: kb.EXP4(constant_experts(4), horizon=50, seed=0),
        lambda: kb.PACBayes([[0.0, 1.0]], n_actions=4, seed=0),
    ],
)
def test_policies_without_a_kernel_take_items_joined_with_a_context(make):
    items = np.arange(8.0).reshape(4, 2)
    policy, catalog = make(), kb.Catalog(items)

    decision = policy.choose(catalog.given([0.0, 1.0]))
    policy.learn(decision, 1.0)

    np.testing.assert_array_equal(decision.context.actions, items[decision.action])
    assert policy.choose(kb.Pairs([0.0, 1.0], items)).n_actions == 4
