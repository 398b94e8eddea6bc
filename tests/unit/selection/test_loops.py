import numpy as np
import pytest
from numpy.testing import assert_allclose

from kernelbandits._compile import PATIENCE, Loops
from kernelbandits.selection import passes, twins
from kernelbandits.selection.loops import make_loops
from kernelbandits.selection.passes import BLOCK
from kernelbandits.types import TIE_TOLERANCE


@pytest.fixture(scope="module")
def compiled():
    loops = make_loops()
    loops.compile()
    return loops


def forms(name, compiled):
    """The compiled loop, the same in Python, and the twin."""
    return getattr(compiled, name), getattr(passes, f"{name}_loop"), getattr(twins, f"{name}_twin")


def a_state(n, rng):
    """Columns, means and variances, weights."""
    return rng.normal(size=(9, n)), np.vstack([rng.normal(size=n), rng.uniform(size=n)]), rng.normal(size=9)


@pytest.mark.parametrize(("base", "first", "last", "target"), [(8, 0, 7, 8), (2, 3, 8, 8), (7, 8, 8, -1), (1, 2, 3, 8)])
@pytest.mark.parametrize("n", [1, 700, BLOCK, 2 * BLOCK + 5])
def test_all_forms_of_a_pull_agree(compiled, n, base, first, last, target):
    outcomes = []
    for form in forms("pull", compiled):
        rows, items, weights = a_state(n, np.random.default_rng(n))
        hits = np.zeros(-(-n // BLOCK), dtype=np.uint8)
        form(rows, base, 0.7, first, last, weights, target, 0.3, 0.05, items, 0, n, 0.8, 1.9, hits)
        outcomes.append((rows, items, hits))

    for outcome in outcomes[1:]:
        for ours, theirs in zip(outcome, outcomes[0], strict=True):
            assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12)


def test_parts_make_the_whole(compiled):
    n = 3 * BLOCK + 17
    outcomes = []
    for parts in ([(0, n)], [(0, BLOCK), (BLOCK, 2 * BLOCK), (2 * BLOCK, n)]):
        rows, items, weights = a_state(n, np.random.default_rng(1))
        hits = np.zeros(4, dtype=np.uint8)
        for start, stop in parts:
            compiled.pull(rows, 2, 0.7, 3, 8, weights, 8, 0.3, 0.05, items, start, stop, 0.8, 2.5, hits)
        outcomes.append((rows, items, hits))

    for whole, joined in zip(*outcomes, strict=True):
        assert np.array_equal(whole, joined)


@pytest.mark.parametrize("bar", [-np.inf, 1.5, 2.5, np.inf])
def test_a_screen_marks_the_blocks_that_reach_the_bar(compiled, bar):
    n = 3 * BLOCK + 17
    _, items, _ = a_state(n, np.random.default_rng(2))
    scores = items[0] + np.sqrt(0.8 * items[1])
    expected = [bool((scores[start : start + BLOCK] >= bar).any()) for start in range(0, n, BLOCK)]

    for form in forms("screen", compiled):
        hits = np.zeros(4, dtype=np.uint8)
        form(items, 0, n, 0.8, bar, hits)
        assert hits.astype(bool).tolist() == expected


def test_all_forms_find_the_best_and_its_ties(compiled):
    _, items, _ = a_state(2500, np.random.default_rng(3))
    mean, variance = items
    variance[7] = -1e-18  # rounding
    mean[[40, 2400]] = 9.0
    variance[[40, 2400]] = 0.25
    mean[2401], variance[2401] = 9.0 - 0.5 * 10 * TIE_TOLERANCE, 0.25

    for form in forms("best", compiled):
        tied = np.zeros(64, dtype=np.int64)
        best, n_tied = form(items, 2.0, 2500, np.ones(3, dtype=np.uint8), tied)
        assert best == 10.0
        assert tied[:n_tied].tolist() == [40, 2400, 2401]


def test_more_ties_than_there_is_room_for_are_counted(compiled):
    for form in forms("best", compiled):
        tied = np.zeros(4, dtype=np.int64)
        assert form(np.vstack([np.zeros(9), np.ones(9)]), 1.0, 9, np.ones(1, dtype=np.uint8), tied) == (1.0, 9)


def test_all_forms_find_what_has_changed(compiled):
    counts, sums = np.array([1.0, 2.0, 3.0]), np.array([0.5, 0.6, 0.7])

    for form in forms("changes", compiled):
        found = np.zeros(3, dtype=np.int64)
        assert form(counts, sums, np.vstack([counts, sums]), found) == 0
        assert form(counts, sums, np.array([[1.0, 1.0, 3.0, 9.0], [0.5, 0.6, 0.8, 9.0]]), found) == 2
        assert found[:2].tolist() == [1, 2]


def test_all_forms_find_the_highest_of_the_rest(compiled):
    rng = np.random.default_rng(4)
    mean, roots, factors = rng.normal(size=2500), rng.uniform(size=2500), np.array([0.5, 1.0, 2.0])
    mean[:100] = -np.inf

    for form in forms("rest", compiled):
        highest = np.empty(3)
        form(mean, roots, factors, highest)
        assert_allclose(highest, [(mean + factor * roots).max() for factor in factors], rtol=1e-14)


@pytest.mark.parametrize("exploration", [-0.5, 0.0, 0.7])
def test_the_best_is_found_for_any_exploration(compiled, exploration):
    _, items, _ = a_state(2500, np.random.default_rng(5))
    items[1, ::7] = 0.0
    scores = items[0] + exploration * np.sqrt(items[1])

    for form in forms("best", compiled):
        tied = np.zeros(64, dtype=np.int64)
        best, n_tied = form(items, exploration, 2500, np.ones(3, dtype=np.uint8), tied)
        assert best == scores.max()
        assert tied[:n_tied].tolist() == [int(scores.argmax())]


def test_compiling_begins_once_there_was_enough_work(monkeypatch):
    loops = make_loops()
    begun = []
    monkeypatch.setattr(Loops, "compile", lambda self: begun.append(self))

    loops.note(10)
    assert not begun
    for _ in range(3):
        loops.note(PATIENCE)
    loops._thread.join()

    assert begun == [loops]
