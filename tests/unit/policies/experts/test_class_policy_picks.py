import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from kernelbandits.errors import DamagedFile
from kernelbandits.policies.experts.class_policy import SPREAD, PickTable, mixed_probabilities, shares_of
from policy_classes import random_rounds, slow_variances, table_of, takes


@pytest.fixture
def rounds():
    return random_rounds(np.random.default_rng(0), 60, n_policies=7, n_actions=4)


def test_probabilities_mix_the_picks_of_the_policies_with_every_action_alike():
    picks, weights, rows = np.array([5, 2, 5, SPREAD, 9]), np.array([0.1, 0.2, 0.3, 0.25, 0.15]), np.array([2, 5, 9])

    probabilities = mixed_probabilities(shares_of(picks, weights, rows), 0.07)

    shares = np.array([0.2, 0.4, 0.15]) + 0.25 / 3
    assert_allclose(probabilities, (1 - 3 * 0.07) * shares + 0.07, rtol=1e-14)
    assert probabilities.sum() == pytest.approx(1.0)


def test_a_single_action_is_certain():
    shares = shares_of(np.array([4, SPREAD]), np.array([0.3, 0.7 - 1e-16]), np.array([4]))

    assert mixed_probabilities(shares, 0.1)[0] == 1.0


@pytest.mark.parametrize("mixing", [1e-6, 0.03, 0.125])
def test_variances_are_the_mean_of_inverse_probabilities(rounds, mixing):
    weights = np.random.default_rng(1).dirichlet(np.ones(7))
    table = table_of(rounds, 7, 4)

    variances = table.variances(table.probabilities(weights, mixing))

    assert_allclose(variances, slow_variances(rounds, weights, mixing), rtol=1e-12)


def test_the_order_of_actions_would_matter_if_rounds_were_mixed_up(rounds):
    """The comparison above can fail: one wrong round is noticed."""
    weights = np.random.default_rng(1).dirichlet(np.ones(7))
    table = table_of(rounds, 7, 4)
    wrong = [(np.roll(picks, 1), size) for picks, size in rounds[:1]] + rounds[1:]

    variances = table.variances(table.probabilities(weights, 0.03))

    assert not np.allclose(variances, slow_variances(wrong, weights, 0.03), rtol=1e-12)


def test_weights_of_nothing_leave_the_mixing(rounds):
    table = table_of(rounds, 7, 4)

    assert_allclose(table.variances(table.probabilities(np.zeros(7), 0.1)), 10.0)


def test_means_at_picks_take_powers_of_the_probabilities_and_some_policies(rounds):
    weights, mixing = np.random.default_rng(2).dirichlet(np.ones(7)), 0.05
    table = table_of(rounds, 7, 4)
    expected = np.zeros(7)
    for picks, size in rounds:
        probabilities = (1 - size * mixing) * (weights @ takes(picks, size)) + mixing
        expected += (1 - size * mixing) * (takes(picks, size) ** 2 @ probabilities**-2.0) / len(rounds)

    found = table.mean_at_picks(
        table.remaining(mixing)[:, None] / table.probabilities(weights, mixing) ** 2, power=2, policies=np.array([4, 1])
    )

    assert_allclose(found, expected[[4, 1]], rtol=1e-12)


def test_many_blocks_say_what_one_says(rounds):
    tables = table_of(rounds, 7, 4), table_of(rounds, 7, 4, block=20)
    weights = np.random.default_rng(3).dirichlet(np.ones(7))

    whole, blocks = (table.variances(table.probabilities(weights, 0.02)) for table in tables)

    assert_allclose(blocks, whole, rtol=1e-13)


def test_rounds_alike_in_who_agrees_with_whom_are_kept_once():
    table = PickTable(4, 5)

    table.add(np.array([0, 1, 0, SPREAD]), 3)
    table.add(np.array([2, 0, 2, SPREAD]), 3)  # the same two agree
    table.add(np.array([9, 4, 9, SPREAD]), 3)
    table.add(np.array([0, 1, 0, SPREAD]), 4)  # of more actions: not alike
    table.add(np.array([0, 1, 1, SPREAD]), 3)

    assert (table.n_rounds, table.n_distinct) == (5, 3)
    assert_array_equal(table.counts, [3, 1, 1])
    assert_array_equal(table.labels, [[0, 1, 0, 5], [0, 1, 0, 5], [0, 1, 1, 5]])


def test_a_restored_table_goes_on(rounds):
    table, opened = table_of(rounds[:50], 7, 4), PickTable(7, 4)

    opened.restore(table.state())

    for picks, size in rounds[50:]:
        table.add(picks, size)
        opened.add(picks, size)
    assert (opened.n_rounds, opened.n_distinct) == (table.n_rounds, table.n_distinct)
    assert opened.n_rounds == len(rounds)
    assert_array_equal(opened.labels, table.labels)
    assert_array_equal(opened.counts, table.counts)


def test_an_empty_table_is_restored_empty():
    table = PickTable(3, 2)

    table.restore(PickTable(3, 2).state())

    table.add(np.array([0, 1, 1]), 2)
    assert table.n_rounds == table.n_distinct == 1


def test_rounds_that_add_up_to_more_than_an_integer_holds_are_rejected():
    table = PickTable(2, 3)
    counts = np.full(1024, 2**53)  # 2^63 in all
    labels = np.zeros((1024, 2), dtype=np.int64)

    with pytest.raises(DamagedFile, match="add up to 9223372036854775808, which is more than can be counted"):
        table.restore({"labels": labels, "sizes": np.ones(1024, dtype=np.int64), "counts": counts})
