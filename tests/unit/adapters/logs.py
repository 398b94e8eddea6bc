"""Logs to take to other libraries and back."""

import numpy as np
from numpy.testing import assert_array_equal

from kernelbandits import Pairs


def dense(points):
    return points.toarray() if hasattr(points, "toarray") else np.asarray(points)


def assert_same_round(first, second):
    assert isinstance(first, Pairs) == isinstance(second, Pairs)
    if isinstance(first, Pairs):
        assert_array_equal(np.ravel(dense(first.context)), np.ravel(dense(second.context)))
        first, second = first.actions, second.actions
    assert_array_equal(dense(first), dense(second))


def assert_same_log(first, second):
    """Bit for bit, but for the form of rows."""
    assert len(first) == len(second)
    assert_array_equal(first.actions, second.actions)
    assert_array_equal(first.propensities, second.propensities)
    assert_array_equal(first.rewards, second.rewards)
    assert first.ids == second.ids
    for ours, theirs in zip(first.rounds, second.rounds, strict=True):
        assert_same_round(ours, theirs)
