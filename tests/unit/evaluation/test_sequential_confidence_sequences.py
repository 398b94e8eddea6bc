from math import log, log1p, sqrt

import numpy as np
import pytest
from numpy.testing import assert_allclose

from kernelbandits.errors import InvalidParameter, InvalidReward
from kernelbandits.evaluation import ConfidenceSequence

FAILURE, N_RUNS, N_PEEKS = 0.1, 300, 1500


def make_sequence(failure_probability=FAILURE, reward_range=(0.0, 1.0)):
    return ConfidenceSequence(failure_probability=failure_probability, reward_range=reward_range)


def slow_interval(values, failure_probability):
    """The running intersection over [0, 1], one value after the other."""
    low, high, evidence = 0.0, 1.0, log(2.0 / failure_probability)
    bets = gains = costs = total = distances = 0.0
    for t, x in enumerate(values, start=1):
        mean, variance = (0.5 + total) / t, (0.25 + distances) / t
        bet = min(0.5, sqrt(2 * evidence / (variance * t * log1p(t))))
        bets, gains = bets + bet, gains + bet * x
        costs += 4 * (x - mean) ** 2 * (-log(1 - bet) - bet) / 4
        total += x
        distances += (x - (0.5 + total) / (t + 1)) ** 2
        low = max(low, gains / bets - (evidence + costs) / bets)
        high = min(high, gains / bets + (evidence + costs) / bets)
    return low, high


def test_it_is_its_definition():
    values = np.random.default_rng(0).beta(2, 5, size=300)

    result = make_sequence(0.03, (-2.0, 3.0)).add(5.0 * values - 2.0)

    low, high = slow_interval(values, 0.03)
    assert_allclose([result.low, result.high], [5.0 * low - 2.0, 5.0 * high - 2.0])
    assert_allclose(result.value, 5.0 * values.mean() - 2.0)
    assert_allclose(result.standard_error, 5.0 * values.std(ddof=1) / np.sqrt(300))
    assert result.confidence == 0.97


@pytest.mark.parametrize("cut", [0, 1, 17, 200])
def test_values_may_come_one_by_one_or_together(cut):
    values = np.random.default_rng(1).random(200)
    whole, parts = make_sequence(), make_sequence()

    lows, highs = whole.follow(values)
    pieces = [parts.follow(values[:cut]), parts.follow(values[cut:])]

    assert_allclose(np.concatenate([low for low, _ in pieces]), lows)
    assert_allclose(np.concatenate([high for _, high in pieces]), highs)
    assert_allclose(parts.interval, whole.interval)
    assert parts.n_values == 200


def test_before_any_value_it_is_the_range():
    result = make_sequence(reward_range=(-1.0, 4.0)).estimate()

    assert (result.low, result.high, result.n_rounds) == (-1.0, 4.0, 0)
    assert np.isnan(result.value)


def ever_missed(intervals, mean):
    return np.mean([bool(((low > mean) | (high < mean)).any()) for low, high in intervals])


def draws(kind, run):
    rng = np.random.default_rng(run)
    if kind == "rare":
        return (rng.random(N_PEEKS) < 0.05).astype(float)
    return rng.beta(0.5, 0.5, size=N_PEEKS) if kind == "spread" else rng.integers(0, 2, size=N_PEEKS) * 0.2 + 0.4


@pytest.mark.parametrize(("kind", "mean"), [("rare", 0.05), ("spread", 0.5), ("narrow", 0.5)])
def test_it_holds_at_every_peek(kind, mean):
    share = ever_missed([make_sequence().follow(draws(kind, run)) for run in range(N_RUNS)], mean)

    assert share <= FAILURE + 3 * np.sqrt(FAILURE * (1 - FAILURE) / N_RUNS)


def peeked_interval(values):
    """An interval of a mean that is right when looked at once."""
    n = np.arange(1, len(values) + 1)
    mean = np.cumsum(values) / n
    spread = np.sqrt(np.maximum(np.cumsum(values**2) / n - mean**2, 0.0) / n)
    return (mean - 1.645 * spread)[9:], (mean + 1.645 * spread)[9:]


def test_an_ordinary_interval_does_not():
    """Negative control: the 90 % interval of a mean, looked at after every value from the tenth on."""
    share = ever_missed([peeked_interval(draws("spread", run)) for run in range(N_RUNS)], 0.5)

    assert share > 4 * FAILURE


def test_it_narrows_with_the_spread_of_the_values_and_not_with_their_range():
    wide = make_sequence(reward_range=(-10.0, 10.0)).add(draws("narrow", 0))

    assert wide.high - wide.low < 0.25


def test_a_mean_that_moves_contradicts_itself():
    sequence = make_sequence()

    result = sequence.add(np.concatenate([np.zeros(500), np.ones(5000)]))

    assert sequence.is_contradicted
    assert result.low < result.high
    assert "have nothing in common" in result.warnings[0]


def test_a_value_outside_the_range_is_rejected_and_changes_nothing():
    sequence = make_sequence()
    sequence.add([0.5, 0.25])
    before = sequence.interval

    with pytest.raises(InvalidReward, match=r"between 0\.0 and 1\.0, got .*1\.5"):
        sequence.add([0.5, 1.5])

    assert (sequence.interval, sequence.n_values) == (before, 2)


@pytest.mark.parametrize("reward_range", [(1.0, 0.0), (0.0, 0.0), (0.0, np.inf)])
def test_a_range_that_is_none_is_rejected(reward_range):
    with pytest.raises(InvalidParameter, match="reward range"):
        make_sequence(reward_range=reward_range)


@pytest.mark.parametrize("reward_range", [(0.0, 1.0, 2.0), (1.0,), (1.0, 0.0)])
def test_a_range_that_is_not_two_ascending_numbers_is_rejected(reward_range):
    with pytest.raises(InvalidParameter, match="two finite numbers a finite length apart, the lower one first"):
        ConfidenceSequence(failure_probability=0.1, reward_range=reward_range)


def test_the_standard_error_is_that_of_all_values_however_they_came_and_however_small():
    values = 5e5 + 1e-3 * np.random.default_rng(0).normal(size=400)
    whole, parts = (ConfidenceSequence(failure_probability=0.1, reward_range=(0.0, 1e6)) for _ in range(2))

    whole.add(values)
    for part in np.split(values, [1, 2, 50, 50, 300]):
        parts.add(part)

    truth = values.std(ddof=1) / 20.0
    assert_allclose([whole.estimate().standard_error, parts.estimate().standard_error], truth, rtol=1e-4)
