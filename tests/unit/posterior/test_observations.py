from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelbandits.errors import InvalidReward, NotLearnt
from kernelbandits.kernels import Strings
from kernelbandits.posterior.observations import Observations, two_sum


def added(observations, points, rewards, times=None):
    times = np.ones(len(points)) if times is None else np.asarray(times, dtype=float)
    batch = observations.sort(points, np.asarray(rewards, dtype=float), times)
    observations.add(batch)
    return batch


@given(st.lists(st.tuples(st.sampled_from("abcde"), st.integers(-5, 5)), max_size=30), st.integers(1, 7))
def test_totals_are_those_of_a_dictionary(history, step):
    observations, model = Observations(Strings()), {}
    for start in range(0, len(history), step):
        part = history[start : start + step]
        added(observations, [point for point, _ in part], [reward for _, reward in part])
    for point, reward in history:
        model.setdefault(point, []).append(reward)

    assert observations.size == len(model)
    assert observations.n_observations == len(history)
    if model:
        points, counts, sums = observations.stored()
        assert dict(zip(points, counts, strict=True)) == {point: len(rewards) for point, rewards in model.items()}
        assert dict(zip(points, sums, strict=True)) == {point: sum(rewards) for point, rewards in model.items()}


def test_a_batch_is_sorted_into_new_and_known_points():
    observations = Observations(Strings())
    added(observations, ["a", "b"], [1.0, 2.0])

    batch = observations.sort(["b", "c", "b", "c"], np.array([1.0, 2.0, 3.0, 4.0]), np.array([1.0, 2.0, 1.0, 1.0]))

    assert (batch.points, batch.counts.tolist(), batch.sums.tolist()) == (["c"], [3.0], [8.0])
    assert (batch.slots.tolist(), batch.slot_counts.tolist(), batch.slot_sums.tolist()) == ([1], [2.0], [4.0])
    assert observations.n_observations == 2


def test_an_emptied_slot_forgets_its_point_and_compacting_drops_it():
    observations = Observations(Strings())
    added(observations, ["a", "b", "a"], [1.0, 2.0, 3.0])

    observations.subtract(observations.find(["b"]), np.array([2.0]))

    assert (observations.size, observations.n_slots) == (1, 2)
    with pytest.raises(NotLearnt, match="'b'"):
        observations.find(["b"])
    fresh = observations.compacted()
    assert (fresh.size, fresh.n_slots, fresh.n_observations) == (1, 1, 2)
    added(observations, ["b"], [5.0])
    assert observations.stored()[2].tolist() == [4.0, 5.0]


def test_other_totals_can_be_undone_and_a_count_of_zero_forgets_the_point():
    observations = Observations(Strings())
    added(observations, ["a", "b", "a"], [1.0, 2.0, 3.0])
    before = [part.tolist() if isinstance(part, np.ndarray) else part for part in observations.stored()]

    observations._journal.commit()
    observations.set_totals(["a", "b"], np.array([0.5, 0.0]), np.array([0.25, 0.0]))

    assert observations.stored()[0] == ["a"]
    assert (observations.counts.tolist(), observations.sums.tolist()) == ([0.5, 0.0], [0.25, 0.0])
    observations._journal.roll_back()
    assert [part.tolist() if isinstance(part, np.ndarray) else part for part in observations.stored()] == before
    assert (observations.size, observations.n_observations) == (2, 3)


def test_fading_scales_everything_and_can_be_undone():
    observations = Observations(Strings())
    added(observations, ["a", "b", "a"], [1.0, 2.0, 3.0])

    observations._journal.commit()
    observations.discount(0.5, ["b"])

    assert (observations.counts.tolist(), observations.sums.tolist()) == ([1.0, 0.0], [2.0, 0.0])
    assert (observations.size, observations.n_observations) == (1, 1)
    observations._journal.roll_back()
    assert (observations.counts.tolist(), observations.sums.tolist()) == ([2.0, 1.0], [4.0, 2.0])
    assert (observations.size, observations.n_observations) == (2, 3)


def test_totals_that_are_no_numbers_are_rejected():
    observations = Observations(Strings())
    added(observations, ["a"], [1.0])

    with pytest.raises(InvalidReward, match="more than a double can hold"):
        observations.set_totals(["a"], np.ones(1), np.array([np.inf]))

    assert observations.sums.tolist() == [1.0]


def test_a_sum_of_two_and_its_error_are_exact():
    rng = np.random.default_rng(0)
    sums, amounts = (rng.normal(size=500) * 10.0 ** rng.integers(-9, 9, size=500) for _ in range(2))

    rounded, rest = two_sum(sums, np.zeros(500), amounts)

    for total, error, one, other in zip(rounded, rest, sums, amounts, strict=True):
        assert Fraction(float(total)) + Fraction(float(error)) == Fraction(float(one)) + Fraction(float(other))
    assert np.count_nonzero(rest) > 250  # control: rounding happens
    again, left = two_sum(rounded, rest, -amounts)
    assert np.array_equal(again + left, sums)
