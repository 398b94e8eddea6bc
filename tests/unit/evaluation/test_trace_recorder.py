import numpy as np
import pytest

from kernelbandits.environments import Round
from kernelbandits.evaluation import Recorder
from kernelbandits.selection import Catalog
from kernelbandits.types import Decision

SHOWN = Round(np.eye(3), expected=np.array([0.1, 0.9, 0.4]))


def one_row(observed=SHOWN, **decision):
    recorder = Recorder()
    recorder.record(observed, Decision(action=2, context=None, n_actions=3, **decision), 1.0, log_det_gain=0.5)
    return recorder.trace({})


def test_a_row_says_what_was_chosen_and_what_would_have_been_best():
    trace = one_row(propensity=0.25)

    assert (trace.action[0], trace.reward[0], trace.expected[0], trace.best[0]) == (2, 1.0, 0.4, 0.9)
    assert (trace.propensity[0], trace.n_actions[0], trace.log_det_gain[0]) == (0.25, 3, 0.5)


def test_the_expectation_of_a_part_of_a_catalog_is_that_of_the_item_chosen():
    trace = one_row(Round(Catalog(np.eye(4)).only([1, 2, 3]), expected=np.array([0.7, 0.2, 0.5])))

    assert (trace.action[0], trace.expected[0], trace.best[0]) == (2, 0.2, 0.7)


def test_expectations_stay_unknown_where_the_world_does_not_tell():
    trace = one_row(Round(np.eye(3)))

    assert np.isnan(trace.expected[0])
    assert np.isnan(trace.best[0])


def test_exploration_is_the_multiplier_that_the_score_implies():
    assert one_row(mean=0.3, width=0.5, score=1.3).exploration[0] == pytest.approx(2.0)


@pytest.mark.parametrize("decision", [{}, {"mean": 0.3, "width": 0.0, "score": 0.3}, {"mean": 0.3, "score": 0.3}])
def test_exploration_is_nan_without_a_width(decision):
    assert np.isnan(one_row(**decision).exploration[0])


def test_a_stage_is_kept_and_none_is_minus_one():
    assert one_row(stage=3).stage[0] == 3
    assert one_row().stage[0] == -1


def test_nothing_recorded_makes_an_empty_trace_of_the_right_types():
    trace = Recorder().trace({"horizon": 0})

    assert len(trace) == 0
    assert trace.regret.shape == (0,)
    assert (trace.action.dtype, trace.stage.dtype, trace.reward.dtype) == (np.intp, np.int64, np.float64)
