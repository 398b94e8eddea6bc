from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from kernelbandits.errors import InvalidParameter
from kernelbandits.evaluation import Trace


def a_trace(**columns):
    usual = {
        "action": np.array([1, 0, 2], dtype=np.intp),
        "reward": np.array([0.0, 1.0, 1.0]),
        "expected": np.array([0.25, 0.5, 0.5]),
        "best": np.array([0.75, 0.5, 1.0]),
        "propensity": np.ones(3),
        "mean": np.full(3, np.nan),
        "width": np.full(3, np.nan),
        "exploration": np.full(3, np.nan),
        "stage": np.full(3, -1),
        "n_actions": np.full(3, 4),
        "log_det_gain": np.full(3, np.nan),
        "seconds": np.array([0.1, 0.2, 0.3]),
        "spec": {"horizon": 3},
    }
    return Trace(**(usual | columns))


def test_regret_adds_up_what_the_best_action_would_have_brought_more():
    assert_allclose(a_trace().regret, [0.5, 0.5, 1.0])


def test_regret_is_unknown_from_the_first_unknown_expectation_on():
    regret = a_trace(best=np.array([0.75, np.nan, 1.0])).regret

    assert_allclose(regret, [0.5, np.nan, np.nan])


def test_columns_are_everything_but_the_spec():
    columns = a_trace().to_columns()

    assert list(columns) == [
        "action",
        "reward",
        "expected",
        "best",
        "propensity",
        "mean",
        "width",
        "exploration",
        "stage",
        "n_actions",
        "log_det_gain",
        "seconds",
    ]
    assert len(a_trace()) == 3


def test_columns_of_different_length_are_refused():
    with pytest.raises(InvalidParameter, match=r"equally long, got .*'reward': 2"):
        a_trace(reward=np.array([0.0, 1.0]))


def test_equal_runs_are_equal_whatever_the_time_they_took():
    assert a_trace().equals(a_trace(seconds=np.zeros(3)))


@pytest.mark.parametrize("column", ["action", "reward", "mean", "stage"])
def test_a_difference_in_any_other_column_shows(column):
    trace = a_trace()

    assert not trace.equals(replace(trace, **{column: np.array([9, 9, 9])}))
