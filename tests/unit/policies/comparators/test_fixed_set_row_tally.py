import numpy as np
import pytest

from kernelbandits.errors import InvalidReward, NotLearnt
from kernelbandits.policies.comparators.fixed_set import RowTally


def test_counts_and_sums_are_those_of_the_rewards_that_stand():
    rng, tally = np.random.default_rng(0), RowTally(4)
    rewards = [[], [], [], []]
    for _ in range(300):
        row, reward = int(rng.integers(3)), float(rng.normal())
        if rewards[row] and reward > 0.5:
            tally.remove(row, rewards[row].pop())
        elif rewards[row] and reward < -0.5:
            tally.amend(row, rewards[row][-1], reward)
            rewards[row][-1] = reward
        else:
            tally.add(row, reward)
            rewards[row].append(reward)

    assert tally.counts.tolist() == [len(kept) for kept in rewards]
    np.testing.assert_allclose(tally.sums, [sum(kept) for kept in rewards], atol=1e-12)


def test_nothing_is_left_of_the_only_reward():
    tally = RowTally(1)
    for reward in (0.1, 0.2):
        tally.add(0, reward)
    for reward in (0.1, 0.2):
        tally.remove(0, reward)

    assert 0.1 + 0.2 - 0.1 - 0.2 != 0.0
    assert (tally.counts.tolist(), tally.sums.tolist()) == ([0], [0.0])


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda tally: tally.add(0, 1.7e308), InvalidReward),
        (lambda tally: tally.amend(0, 0.0, 1.7e308), InvalidReward),
        (lambda tally: tally.remove(0, -1.7e308), InvalidReward),
        (lambda tally: tally.amend(1, 0.0, 0.5), NotLearnt),
        (lambda tally: tally.remove(1, 0.5), NotLearnt),
    ],
)
def test_what_is_rejected_changes_nothing(change, error):
    tally = RowTally(2)
    tally.add(0, 1.7e308)

    with pytest.raises(error):
        change(tally)

    assert (tally.counts.tolist(), tally.sums.tolist()) == ([1, 0], [1.7e308, 0.0])


def test_a_restored_tally_is_the_same_and_stands_alone():
    tally, other = RowTally(2), RowTally(2)
    tally.add(1, 0.25)
    state = tally.state()
    other.restore(state)

    tally.add(1, 0.5)
    other.add(0, 0.75)

    assert (other.counts.tolist(), other.sums.tolist()) == ([1, 1], [0.75, 0.25])
    assert state["counts"].tolist() == [0, 1]
