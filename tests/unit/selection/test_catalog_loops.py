import numpy as np
import pytest
from numpy.testing import assert_allclose

from kernelbandits._compile import WORK_BEFORE_COMPILE, Loops
from kernelbandits.selection import _catalog_loops
from kernelbandits.selection._catalog_loops import BLOCK, PER_FLAG, make_loops
from kernelbandits.selection.ties import worst_tied
from kernelbandits.types import TIE_TOLERANCE


@pytest.fixture(scope="module")
def compiled():
    loops = make_loops()
    loops.compile()
    return loops


def pull_in_numpy(pull, rows, weights, items, start, stop, squared, bar, flags):
    """The definition."""
    base, factor, first, last, target, gain, shrink = pull
    column = factor * rows[base, start:stop]
    if last > first:
        column -= weights[first:last] @ rows[first:last, start:stop]
    if target >= 0:
        rows[target, start:stop] = column
    items[0, start:stop] += gain * column
    column *= column
    column *= shrink
    items[1, start:stop] -= column
    screen_in_numpy(items, start, stop, squared, bar, flags)


def screen_in_numpy(items, start, stop, squared, bar, flags):
    """The definition."""
    gap = np.maximum(bar - items[0, start:stop], 0.0)
    hit = gap * gap <= squared * np.maximum(items[1, start:stop], 0.0)
    first, last = start // PER_FLAG, -(-stop // PER_FLAG)
    flags[first:last] = np.logical_or.reduceat(hit, np.arange(0, stop - start, PER_FLAG))


def best_in_numpy(
    items,
    exploration,
    stop,
    flags,
    tied,
):
    """The definition; actions without a flag are scored too, and cannot win."""
    scores = items[0, :stop] + exploration * np.sqrt(np.maximum(items[1, :stop], 0.0))
    best = float(scores.max())
    found = np.flatnonzero(scores >= worst_tied(best))
    tied[: len(found)] = found[: len(tied)]
    return best, len(found)


def changes_in_numpy(counts, sums, taken, found):
    """The definition."""
    n_slots = len(counts)
    changed = np.flatnonzero((counts != taken[0, :n_slots]) | (sums != taken[1, :n_slots]))
    found[: len(changed)] = changed
    return len(changed)


def rest_in_numpy(mean, roots, factors, highest):
    """The definition."""
    for place, factor in enumerate(factors):
        highest[place] = (mean + roots * factor).max()


IN_NUMPY = {
    "pull": pull_in_numpy,
    "screen": screen_in_numpy,
    "best": best_in_numpy,
    "changes": changes_in_numpy,
    "rest": rest_in_numpy,
}


def forms(name, compiled):
    """The compiled loop, the same in Python, and the definition in NumPy."""
    return getattr(compiled, name), getattr(_catalog_loops, f"{name}_loop"), IN_NUMPY[name]


def make_state(n, rng):
    """Columns, means and variances, weights."""
    return rng.normal(size=(9, n)), np.vstack([rng.normal(size=n), rng.uniform(size=n)]), rng.normal(size=9)


@pytest.mark.parametrize(("base", "first", "last", "target"), [(8, 0, 7, 8), (2, 3, 8, 8), (7, 8, 8, -1), (1, 2, 3, 8)])
@pytest.mark.parametrize("n", [1, 700, BLOCK, 2 * BLOCK + 5])
def test_all_forms_of_a_pull_agree(compiled, n, base, first, last, target):
    outcomes = []
    for form in forms("pull", compiled):
        rows, items, weights = make_state(n, np.random.default_rng(n))
        flags = np.zeros(-(-n // PER_FLAG), dtype=np.uint8)
        form((base, 0.7, first, last, target, 0.3, 0.05), rows, weights, items, 0, n, 0.8, 1.9, flags)
        outcomes.append((rows, items, flags))

    for outcome in outcomes[1:]:
        for ours, theirs in zip(outcome, outcomes[0], strict=True):
            assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12)


def test_parts_make_the_whole(compiled):
    n = 3 * BLOCK + 17
    outcomes = []
    for parts in ([(0, n)], [(0, BLOCK), (BLOCK, 2 * BLOCK), (2 * BLOCK, n)]):
        rows, items, weights = make_state(n, np.random.default_rng(1))
        flags = np.zeros(-(-n // PER_FLAG), dtype=np.uint8)
        for start, stop in parts:
            compiled.pull((2, 0.7, 3, 8, 8, 0.3, 0.05), rows, weights, items, start, stop, 0.8, 2.5, flags)
        outcomes.append((rows, items, flags))

    for whole, joined in zip(*outcomes, strict=True):
        assert np.array_equal(whole, joined)


@pytest.mark.parametrize("bar", [-np.inf, 1.5, 2.5, np.inf])
def test_a_screen_marks_the_blocks_that_reach_the_threshold(compiled, bar):
    n = 3 * BLOCK + 17
    _, items, _ = make_state(n, np.random.default_rng(2))
    scores = items[0] + np.sqrt(0.8 * items[1])
    expected = [bool((scores[start : start + PER_FLAG] >= bar).any()) for start in range(0, n, PER_FLAG)]

    for form in forms("screen", compiled):
        flags = np.zeros(-(-n // PER_FLAG), dtype=np.uint8)
        form(items, 0, n, 0.8, bar, flags)
        assert flags.astype(bool).tolist() == expected


def test_all_forms_find_the_best_and_its_ties(compiled):
    _, items, _ = make_state(2500, np.random.default_rng(3))
    mean, variance = items
    variance[7] = -1e-18  # rounding
    mean[[40, 2400]] = 9.0
    variance[[40, 2400]] = 0.25
    mean[2401], variance[2401] = 9.0 - 0.5 * 10 * TIE_TOLERANCE, 0.25

    for form in forms("best", compiled):
        tied = np.zeros(64, dtype=np.int64)
        best, n_tied = form(items, 2.0, 2500, np.ones(-(-2500 // PER_FLAG), dtype=np.uint8), tied)
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
    _, items, _ = make_state(2500, np.random.default_rng(5))
    items[1, ::7] = 0.0
    scores = items[0] + exploration * np.sqrt(items[1])

    for form in forms("best", compiled):
        tied = np.zeros(64, dtype=np.int64)
        best, n_tied = form(items, exploration, 2500, np.ones(-(-2500 // PER_FLAG), dtype=np.uint8), tied)
        assert best == scores.max()
        assert tied[:n_tied].tolist() == [int(scores.argmax())]


def test_compiling_begins_once_there_was_enough_work(monkeypatch):
    loops = make_loops()
    begun = []
    monkeypatch.setattr(Loops, "compile", lambda self: begun.append(self))

    loops.record_work(10)
    assert not begun
    for _ in range(3):
        loops.record_work(WORK_BEFORE_COMPILE)
    loops._thread.join()

    assert begun == [loops]
