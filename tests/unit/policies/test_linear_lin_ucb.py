import numpy as np
import pytest

import kernelbandits as kb
from kernelbandits.errors import InvalidContexts, InvalidParameter

ROUND = np.array([[1.0, 0.5], [0.2, 2.0], [0.3, 0.3]])


def test_disjoint_models_learn_from_their_own_action_only():
    policy = kb.LinUCB(model="disjoint", regularization=0.5, exploration=0.0)
    policy.warm_start(ROUND, [1.0, 0.0, 0.0], ids=["a", "b", "c"])

    same, other = policy.choose([[1.0, 0.5]], ids=["a"]), policy.choose([[1.0, 0.5]], ids=["z"])

    assert same.mean > 0.5
    assert other.mean == 0.0


def test_shared_columns_carry_over_to_actions_never_seen():
    policy = kb.LinUCB(model="hybrid", shared_columns=[1], regularization=0.5, exploration=0.0)
    policy.warm_start(ROUND, [0.5, 2.0, 0.3], ids=["a", "b", "c"])

    assert policy.choose([[0.0, 1.0]], ids=["z"]).mean > 0.4


def test_rows_are_the_labels_where_there_are_no_ids():
    policy = kb.LinUCB(model="disjoint", exploration=0.0)
    policy.learn(policy.choose(ROUND, eligible=np.array([False, True, False])), 1.0)

    assert policy.choose(ROUND[[1, 1, 1]]).action == 1


def test_the_decision_holds_the_row_and_the_label():
    decision = kb.LinUCB(model="disjoint").choose(ROUND, ids=["a", "b", "c"])

    assert decision.item == "b"
    assert decision.context.tolist() == [0.2, 2.0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"model": "joint"}, "'shared', 'disjoint' or 'hybrid'"),
        ({"model": "hybrid"}, "names the columns that a hybrid model shares"),
        ({"model": "disjoint", "shared_columns": [0]}, "and only there"),
        ({"model": "hybrid", "shared_columns": [0, 0]}, "different numbers from 0"),
        ({"model": "hybrid", "shared_columns": [-1]}, "whole number of at least 0"),
        ({"model": "hybrid", "shared_columns": [1.7]}, "whole number of at least 0"),
        ({"regularization": 0.0}, "regularization must be positive"),
    ],
)
def test_bad_parameters_are_rejected(arguments, message):
    with pytest.raises(InvalidParameter, match=message):
        kb.LinUCB(**arguments)


def test_contexts_that_do_not_fit_are_rejected():
    policy = kb.LinUCB(model="hybrid", shared_columns=[2])

    with pytest.raises(InvalidContexts, match="Column 2 is shared, but the contexts have only 2"):
        policy.learn(policy.choose(ROUND), 1.0)
    disjoint = kb.LinUCB(model="disjoint")
    disjoint.learn(disjoint.choose(ROUND), 1.0)
    with pytest.raises(InvalidContexts, match="3 columns; those learned before have 2"):
        disjoint.choose(np.ones((2, 3)))
