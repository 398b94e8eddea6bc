import numpy as np
import pytest

import kernelbandits as kb
from kernelbandits.policies.rounds import NUMBERS_AT_ONCE, KnownRounds


def known(rounds, rewards):
    def checked(row, n_actions):
        return np.asarray(row, dtype=float)

    return KnownRounds(
        rounds,
        rewards,
        points_of=lambda points, ids: points,
        count=len,
        checked_rewards=checked,
        table_of=lambda table: np.asarray(table, dtype=float),
    )


def lengths(rounds):
    n = len(rounds)
    return [len(contexts) for _, contexts, _ in known(rounds, np.zeros((n, 2))).blocks(0, n)]


def test_a_block_holds_as_many_rounds_as_fit_and_at_least_one():
    half, more = (np.zeros((2, size)) for size in (NUMBERS_AT_ONCE // 4, NUMBERS_AT_ONCE))

    assert lengths([half] * 5) == [2, 2, 1]
    assert lengths([more] * 3) == [1, 1, 1]


@pytest.mark.parametrize("dtype", [np.int32, np.uint8, np.bool_, np.float32])
def test_one_array_of_numbers_is_run_as_float64(dtype):
    rounds = np.random.default_rng(0).integers(0, 2, size=(6, 2, 3)).astype(dtype)

    ((start, contexts, rewards),) = known(rounds, np.ones((6, 2))).blocks(0, 6)

    assert (start, contexts.dtype, rewards.shape) == (0, np.float64, (6, 2))
    assert np.array_equal(contexts, rounds)


def test_an_array_of_other_things_stays_what_it_is():
    rounds = np.full((2, 2, 3), "a", dtype=object)

    assert known(rounds, np.ones((2, 2))).round(0).dtype == object


@pytest.mark.parametrize("dtype", [np.int64, np.bool_])
def test_whole_numbers_play_like_the_same_decimal_numbers(dtype):
    rng = np.random.default_rng(1)
    rounds, rewards = rng.integers(0, 2, size=(20, 4, 3)).astype(dtype), rng.uniform(size=(20, 4))
    plays = [kb.LinUCB(regularization=0.7).play(one, rewards) for one in (rounds, rounds.astype(float))]

    assert np.array_equal(plays[0].action, plays[1].action)
