"""The loops over features against their definitions in NumPy, compiled and not."""

import numpy as np
import pytest

from kernelbandits.posterior._primal_loops import (
    MODEL_ROWS,
    best_loop,
    feature_loops,
    model_rows,
    observe_loop,
    play_loop,
)
from kernelbandits.posterior.primal import minorant_of
from kernelbandits.types import TIE_TOLERANCE

GAMMA = 0.3


def observe_in_numpy(row, reward, most, model):
    """The update by a fresh factor."""
    precision, upper, moments, weights, *_ = model_rows(model)
    if not np.vdot(row, row) <= most:
        return False
    precision += row[:, None] * row
    moments += reward * row
    lower = np.linalg.cholesky(precision)
    upper[:] = lower.T
    weights[:] = np.linalg.solve(upper, np.linalg.solve(lower, moments))
    return True


@np.errstate(over="ignore", invalid="ignore")
def best_in_numpy(features, model, flat, peak, most, exploration, bounds, tied):
    """The best by the widths of all rows."""
    _, upper, _, weights, *_ = model_rows(model)
    means = features @ weights
    widths = np.sqrt(np.square(np.linalg.solve(upper.T, features.T)).sum(axis=0))
    scores = means + exploration * widths
    best = float(scores.max())
    if not (np.isfinite(best) and np.square(features).sum(axis=1).max() <= most):
        return 0, 0.0, 0.0, 0
    found = np.flatnonzero(scores >= best - TIE_TOLERANCE * max(1.0, abs(best)))
    tied[: len(found)] = found[: len(tied)]
    return len(found), float(means[found[0]]), float(widths[found[0]]), len(scores)


def play_in_numpy(rounds, rewards, model, search, played):
    """Rounds in turn."""
    for t, features in enumerate(rounds):
        n_tied, mean, width, _ = best_in_numpy(features, model, *search)
        tied = search[-1]
        if not n_tied:
            return t
        for column, value in zip(played, (tied[0], mean, width), strict=True):
            column[t] = value
        observe_in_numpy(features[tied[0]], rewards[t, tied[0]], np.inf, model)
    return len(rounds)


@pytest.fixture(scope="module", autouse=True)
def compiled():
    feature_loops.compile()


def model_of(precision, moments):
    size = len(moments)
    made = np.zeros((2 * size + MODEL_ROWS, size))
    its_precision, upper, its_moments, weights, direction, _ = model_rows(made)
    its_precision[:], its_moments[:] = precision, moments
    upper[:] = np.linalg.cholesky(precision).T
    weights[:] = np.linalg.solve(precision, moments)
    direction[:] = minorant_of(precision, GAMMA).direction
    return made


def model(rng, size, n_seen=30):
    rows = rng.normal(size=(n_seen, size)) + 1.0
    return model_of(GAMMA * np.eye(size) + rows.T @ rows, rows.T @ rng.normal(size=n_seen))


def search(given, n_rows):
    bound = minorant_of(model_rows(given)[0].copy(), GAMMA)
    return (bound.flat, bound.peak, 1e100), (np.empty((3, n_rows)), np.zeros(8, dtype=np.int64))


@pytest.mark.parametrize("loop", [observe_loop, lambda *given: feature_loops.observe(*given)])
@pytest.mark.parametrize("size", [1, 3, 8])
def test_an_observation_is_taken_in(loop, size):
    rng = np.random.default_rng(size)
    ours, theirs = model(rng, size), model(np.random.default_rng(size), size)
    for _ in range(5):
        row, reward = rng.normal(size=size), float(rng.normal())
        assert loop(row, reward, np.inf, ours)
        assert observe_in_numpy(row, reward, np.inf, theirs)
    precision, upper, moments, weights, *_ = model_rows(ours)
    for left, right in zip(model_rows(ours)[:4], model_rows(theirs)[:4], strict=True):
        assert np.abs(np.triu(left) - np.triu(right)).max() < 1e-12
    assert np.abs(upper.T @ upper - precision).max() < 1e-11
    assert np.abs(precision @ weights - moments).max() < 1e-11


@pytest.mark.parametrize("loop", [observe_loop, observe_in_numpy, lambda *given: feature_loops.observe(*given)])
@pytest.mark.parametrize("row", [[3.0, 4.0], [np.nan, 0.0], [np.inf, 0.0]])
def test_a_row_that_is_too_long_changes_nothing(loop, row):
    ours, before = model(np.random.default_rng(0), 2), model(np.random.default_rng(0), 2)

    is_taken = loop(np.array(row), 1.0, 24.9, ours)

    assert not is_taken
    np.testing.assert_array_equal(ours, before)


@pytest.mark.parametrize("loop", [best_loop, lambda *given: feature_loops.best(*given)])
@pytest.mark.parametrize("exploration", [0.0, 0.7, 30.0])
def test_the_best_row_is_that_of_all_widths(loop, exploration):
    for seed in range(20):
        rng = np.random.default_rng(seed)
        size, n_rows = int(rng.integers(1, 8)), int(rng.integers(1, 40))
        given = model(rng, size)
        features = rng.normal(size=(n_rows, size)) + rng.integers(2)
        features = np.vstack([features, features[: n_rows // 2]])  # ties
        simple, room = search(given, len(features))
        ours = room[-1]
        n_tied, mean, width, n_widths = loop(features, given, *simple, exploration, *room)
        theirs = np.zeros(8, dtype=np.int64)
        expected = best_in_numpy(features, given, *simple, exploration, room[0], theirs)
        assert n_tied == expected[0]
        assert mean == pytest.approx(expected[1], abs=1e-12)
        assert width == pytest.approx(expected[2], abs=1e-12)
        assert np.array_equal(ours[: min(n_tied, 8)], theirs[: min(n_tied, 8)])
        assert n_widths <= len(features)


def test_few_widths_are_computed():
    rng = np.random.default_rng(1)
    given = model(rng, 6, n_seen=500)
    features = rng.normal(size=(1000, 6))
    simple, room = search(given, 1000)
    assert feature_loops.best(features, given, *simple, 0.5, *room)[3] < 50


def test_a_bound_that_is_none_finds_another_row():
    """Negative control: what is compared above depends on the bound being one."""
    rng = np.random.default_rng(2)
    wrong = 0
    for _ in range(50):
        given = model(rng, 4)
        features = rng.normal(size=(30, 4)) * rng.uniform(0.1, 3.0, size=(30, 1))
        _, room = search(given, 30)
        feature_loops.best(features, given, 0.0, 0.0, 1e100, 5.0, *room)
        loosened = int(room[-1][0])
        best_in_numpy(features, given, 0.0, 0.0, 1e100, 5.0, *room)
        wrong += loosened != int(room[-1][0])
    assert wrong > 5


@pytest.mark.parametrize("loop", [best_loop, lambda *given: feature_loops.best(*given)])
def test_an_overflow_is_noticed(loop):
    rng = np.random.default_rng(3)
    given = model(rng, 2)
    simple, room = search(given, 3)
    with np.errstate(over="ignore", invalid="ignore"):
        features = np.array([[1.0, 1.0], [1e200, 1.0], [0.0, 1.0]])
        assert loop(features, given, *simple, 1.0, *room)[0] == 0


@pytest.mark.parametrize("scale", [1.0, 1000.0])
def test_ties_are_those_of_the_library(scale):
    """Compiled, the constant is that of the library: of a score, or of 1 if that is more."""
    gap = TIE_TOLERANCE * max(1.0, 0.5 * scale) / scale
    given = model_of(np.eye(1) * 1e12, np.full(1, 1e12))
    features = scale * np.array([[0.5], [0.5 + 0.9 * gap], [0.5 - 1.1 * gap]])
    simple, room = search(given, 3)
    assert feature_loops.best(features, given, *simple, 0.0, *room)[0] == 2


@pytest.mark.parametrize("loop", [play_loop, lambda *given: feature_loops.play(*given)])
def test_rounds_are_played_in_turn(loop):
    rng = np.random.default_rng(4)
    rounds, rewards = rng.normal(size=(40, 6, 3)), rng.normal(size=(40, 6))
    answers = []
    for play in (loop, play_in_numpy):
        state = model(np.random.default_rng(5), 3)
        simple, room = search(state, 6)
        rows, means, widths = np.zeros(40, dtype=np.int64), np.zeros(40), np.zeros(40)
        assert play(rounds, rewards, state, (*simple, 0.8, *room), (rows, means, widths)) == 40
        answers.append((rows, means, widths, model_rows(state)[3]))
    assert np.array_equal(answers[0][0], answers[1][0])
    for left, right in zip(answers[0][1:], answers[1][1:], strict=True):
        assert np.abs(left - right).max() < 1e-11


def test_play_stops_where_a_number_overflows():
    state = model(np.random.default_rng(5), 2)
    simple, room = search(state, 2)
    rounds = np.ones((5, 2, 2))
    rounds[3, 0] = 1e200
    outcome = np.zeros(5, dtype=np.int64), np.zeros(5), np.zeros(5)
    assert feature_loops.play(rounds, np.ones((5, 2)), state, (*simple, 0.8, *room), outcome) == 3
