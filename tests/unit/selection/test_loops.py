import numpy as np
import pytest
from numpy.testing import assert_allclose

from kernelbandits.compiling import PATIENCE
from kernelbandits.selection import loops as module
from kernelbandits.selection.loops import BLOCK, Loops
from kernelbandits.types import TIE_TOLERANCE

LOOPS = {"pull": "pull_loop", "screen": "screen_loop", "best": "best_loop", "changes": "changes_loop"}


@pytest.fixture(scope="module")
def compiled():
    loops = Loops()
    loops.compile()
    return loops


def forms(name, compiled):
    """The compiled loop, the same in Python, and the twin."""
    return getattr(compiled, name), getattr(module, LOOPS[name]), getattr(module, f"{name}_twin")


def a_state(n, rng):
    return rng.normal(size=(9, n)), rng.normal(size=n), rng.uniform(size=n), rng.normal(size=9)


@pytest.mark.parametrize(("base", "first", "last", "target"), [(8, 0, 7, 8), (2, 3, 8, 8), (7, 8, 8, -1), (1, 2, 3, 8)])
@pytest.mark.parametrize("n", [1, 700, BLOCK, 2 * BLOCK + 5])
def test_all_forms_of_a_pull_agree(compiled, n, base, first, last, target):
    outcomes = []
    for form in forms("pull", compiled):
        rows, mean, variance, weights = a_state(n, np.random.default_rng(n))
        hits = np.zeros(-(-n // BLOCK), dtype=np.uint8)
        form(rows, base, 0.7, first, last, weights, target, 0.3, 0.05, mean, variance, 0, n, 0.8, 1.9, hits)
        outcomes.append((rows, mean, variance, hits))

    for outcome in outcomes[1:]:
        for ours, theirs in zip(outcome, outcomes[0], strict=True):
            assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12)


def test_parts_make_the_whole(compiled):
    n = 3 * BLOCK + 17
    outcomes = []
    for parts in ([(0, n)], [(0, BLOCK), (BLOCK, 2 * BLOCK), (2 * BLOCK, n)]):
        rows, mean, variance, weights = a_state(n, np.random.default_rng(1))
        hits = np.zeros(4, dtype=np.uint8)
        for start, stop in parts:
            compiled.pull(rows, 2, 0.7, 3, 8, weights, 8, 0.3, 0.05, mean, variance, start, stop, 0.8, 2.5, hits)
        outcomes.append((rows, mean, variance, hits))

    for whole, joined in zip(*outcomes, strict=True):
        assert np.array_equal(whole, joined)


@pytest.mark.parametrize("bar", [-np.inf, 1.5, 2.5, np.inf])
def test_a_screen_marks_the_blocks_that_reach_the_bar(compiled, bar):
    n = 3 * BLOCK + 17
    _, mean, variance, _ = a_state(n, np.random.default_rng(2))
    scores = mean + np.sqrt(0.8 * variance)
    expected = [bool((scores[start : start + BLOCK] >= bar).any()) for start in range(0, n, BLOCK)]

    for form in forms("screen", compiled):
        hits = np.zeros(4, dtype=np.uint8)
        form(mean, variance, 0, n, 0.8, bar, hits)
        assert hits.astype(bool).tolist() == expected


def test_all_forms_find_the_best_and_its_ties(compiled):
    _, mean, variance, _ = a_state(2500, np.random.default_rng(3))
    variance[7] = -1e-18  # rounding
    mean[[40, 2400]] = 9.0
    variance[[40, 2400]] = 0.25
    mean[2401], variance[2401] = 9.0 - 0.5 * 10 * TIE_TOLERANCE, 0.25

    for form in forms("best", compiled):
        tied = np.zeros(64, dtype=np.int64)
        best, n_tied = form(mean, variance, 2.0, 2500, np.ones(3, dtype=np.uint8), tied)
        assert best == 10.0
        assert tied[:n_tied].tolist() == [40, 2400, 2401]


def test_more_ties_than_there_is_room_for_are_counted(compiled):
    for form in forms("best", compiled):
        tied = np.zeros(4, dtype=np.int64)
        assert form(np.zeros(9), np.ones(9), 1.0, 9, np.ones(1, dtype=np.uint8), tied) == (1.0, 9)


def test_all_forms_find_what_has_changed(compiled):
    counts, sums = np.array([1.0, 2.0, 3.0]), np.array([0.5, 0.6, 0.7])

    for form in forms("changes", compiled):
        found = np.zeros(3, dtype=np.int64)
        assert form(counts, sums, counts.copy(), sums.copy(), found) == 0
        assert form(counts, sums, np.array([1.0, 1.0, 3.0]), np.array([0.5, 0.6, 0.8]), found) == 2
        assert found[:2].tolist() == [1, 2]


def test_compiling_begins_once_there_was_enough_work(monkeypatch):
    loops = Loops()
    begun = []
    monkeypatch.setattr(Loops, "compile", lambda self: begun.append(self))

    loops.note(10)
    assert not begun
    for _ in range(3):
        loops.note(PATIENCE)
    loops._thread.join()

    assert begun == [loops]
