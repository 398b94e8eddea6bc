from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from kernelbandits.environments import Clustered
from kernelbandits.environments.base import single_action
from kernelbandits.errors import InvalidParameter
from kernelbandits.evaluation import Trace, simulate, start_world
from kernelbandits.evaluation._inputs import points_of
from kernelbandits.kernels import Gaussian, PairPoints, Rows, Strings
from kernelbandits.policies import KernelUCB
from kernelbandits.selection import Catalog
from kernelbandits.types import Pairs


def make_trace(**columns):
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
        "inflation": np.full(3, np.nan),
        "seconds": np.array([0.1, 0.2, 0.3]),
        "spec": {"horizon": 3},
    }
    return Trace(**(usual | columns))


def test_regret_adds_up_what_the_best_action_would_have_brought_more():
    assert_allclose(make_trace().regret, [0.5, 0.5, 1.0])


def test_regret_is_unknown_from_the_first_unknown_expectation_on():
    regret = make_trace(best=np.array([0.75, np.nan, 1.0])).regret

    assert_allclose(regret, [0.5, np.nan, np.nan])


def test_columns_are_everything_but_the_spec():
    columns = make_trace().to_columns()

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
        "inflation",
        "seconds",
    ]
    assert len(make_trace()) == 3


def test_columns_of_different_length_are_rejected():
    with pytest.raises(InvalidParameter, match=r"equally long, got .*'reward': 2"):
        make_trace(reward=np.array([0.0, 1.0]))


def test_equal_runs_are_equal_whatever_the_time_they_took():
    assert make_trace().equals(make_trace(seconds=np.zeros(3)))


@pytest.mark.parametrize("column", ["action", "reward", "mean", "stage"])
def test_a_difference_in_any_other_column_shows(column):
    trace = make_trace()

    assert not trace.equals(replace(trace, **{column: np.array([9, 9, 9])}))


@pytest.mark.parametrize(
    ("contexts", "kind"),
    [
        (np.arange(6.0).reshape(3, 2), Rows()),
        (["a", "b", "c"], Strings()),
        (Catalog(["a", "b", "c"], ids=["x", "y", "z"]), Strings()),
        (Catalog(["o", "a", "b", "c"]).only([1, 2, 3]), Strings()),
        (Pairs([0.5], ["a", "b", "c"]), PairPoints(Rows(), Strings())),
    ],
)
def test_a_single_action_is_the_chosen_point(contexts, kind):
    rows = getattr(contexts, "rows", np.arange(3))

    chosen = points_of(kind, single_action(contexts, int(rows[2])))

    assert kind.keys(chosen) == [kind.keys(points_of(kind, contexts))[2]]


def test_contexts_are_kept_on_request_and_are_no_column():
    world, kernel = Clustered(n_actions=4), Gaussian(length_scale=0.3)
    bare = simulate(world, KernelUCB(kernel), horizon=9, seed=2)
    trace = simulate(world, KernelUCB(kernel), horizon=9, seed=2, keep_contexts=True)

    again = start_world(world, 2)
    chosen = [again.observe().contexts[action] for action in trace.action]
    np.testing.assert_array_equal(np.concatenate(trace.contexts), chosen)
    assert bare.contexts is None
    assert trace.equals(bare)
    assert trace.to_columns().keys() == bare.to_columns().keys()
