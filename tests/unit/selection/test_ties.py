import numpy as np

from kernelbandits.selection import tied_for_best
from kernelbandits.selection._catalog_loops import best_loop
from kernelbandits.selection.ties import best_of_each, worst_tied, worst_tied_of_each
from kernelbandits.types import TIE_TOLERANCE


def test_scores_within_the_tolerance_are_tied():
    assert tied_for_best(np.array([0.0, 3.0, 3.0 - 2e-10, 3.0 - 4e-10])).tolist() == [1, 2]


def test_the_tolerance_is_absolute_below_one():
    assert tied_for_best(np.array([-1e-3, -1e-3 - 0.9e-10, -1e-3 - 1.1e-10])).tolist() == [0, 1]


def test_many_rows_of_scores_have_the_same_bar_each():
    scores = np.array([[0.0, 3.0], [-1e-3, -2.0], [-5e4, -np.inf]])

    assert worst_tied_of_each(scores).tolist() == [worst_tied(3.0), worst_tied(-1e-3), worst_tied(-5e4)]


def test_the_compiled_loop_has_the_same_tolerance():
    below = TIE_TOLERANCE * np.array([0.0, 0.9, 1.1])
    tied = np.zeros(3, dtype=np.int64)

    assert best_loop(np.vstack([1.0 - below, np.zeros(3)]), 1.0, 3, np.ones(1, dtype=np.uint8), tied) == (1.0, 2)


def test_the_best_of_many_rows_are_those_of_each_alone():
    scores = np.round(np.random.default_rng(0).normal(size=(50, 6)), 1) + np.array([0.0, 9e-11, 0.0, 0.0, 2e-10, 0.0])

    found = best_of_each(scores)

    assert found.tolist() == [tied_for_best(row)[0] for row in scores]
    assert found.tolist() != np.argmax(scores, axis=1).tolist()
