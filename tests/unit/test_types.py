import json
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.sparse import csr_array

import kernelbandits as kb
from kernelbandits.errors import CannotSave, DecisionError
from kernelbandits.types import Decision, Pairs, Prediction, Slate


@pytest.mark.parametrize(
    "context",
    [
        np.array([0.1, -2.0, 1e300]),
        "text with ü",
        17,
        frozenset({"a", 3}),
        frozenset(),
        Pairs(np.array([0.5]), "red"),
        Pairs("user", Pairs(1, 2)),
    ],
    ids=["row", "text", "number", "set", "empty set", "pair", "nested pair"],
)
def test_a_decision_survives_json(context):
    decision = Decision(
        action=3, context=context, mean=0.1, score=1 / 3, propensity=0.25, stage=2, item="x", n_actions=9,
        round_index=4, id="a-1", policy="f", memo={"epoch": np.array([2]), "advice": np.eye(2)},
    )  # fmt: skip

    opened = Decision.from_dict(json.loads(json.dumps(decision.to_dict(), allow_nan=False)))

    assert opened.context == context if isinstance(context, frozenset) else repr(opened.context) == repr(context)
    assert (opened.action, opened.mean, opened.score, opened.stage, opened.item) == (3, 0.1, 1 / 3, 2, "x")
    assert np.isnan(opened.width)
    assert opened.memo["epoch"].tolist() == [2]
    assert opened.memo["advice"].tolist() == [[1.0, 0.0], [0.0, 1.0]]


def test_a_sparse_context_survives_json():
    decision = Decision(action=0, context=csr_array([[0.0, 2.5, 0.0, -1.0]]))

    opened = Decision.from_dict(json.loads(json.dumps(decision.to_dict())))

    assert_allclose(opened.context.toarray(), [[0.0, 2.5, 0.0, -1.0]])


def test_an_object_has_no_plain_form():
    with pytest.raises(CannotSave, match="type complex has no plain form"):
        Decision(action=0, context=1j).to_dict()


def test_a_slate_is_a_sequence_of_decisions():
    slate = Slate(tuple(Decision(action=row, context="x", propensity=0.5) for row in (4, 2, 7)))

    assert slate.actions.tolist() == [4, 2, 7]
    assert slate.propensity == 0.125
    assert (len(slate), slate[1].action, [decision.action for decision in slate[:2]]) == (3, 2, [4, 2])
    assert slate[0] in slate


def test_a_prediction_has_an_upper_and_a_lower_end():
    prediction = Prediction(np.array([1.0, 2.0]), np.array([0.5, 0.1]))

    assert_allclose(prediction.upper(2.0), [2.0, 2.2])
    assert_allclose(prediction.lower(2.0), [0.0, 1.8])


@pytest.mark.parametrize(
    "context",
    [
        {"sparse_row": [[0, 2**40], [1.0, 1.0], 30]},
        {"sparse_row": [[-1], [1.0], 30]},
        {"sparse_row": [[0.5], [1.0], 30]},
        {"sparse_row": [[0, 1], [1.0], 30]},
        {"sparse_row": [[0], [1.0], 2**63]},
        {"sparse_row": [[0], [None], 30]},
        {"sparse_row": [[0], ["1"], 30]},
        {"sparse_row": [[0], [1.0]]},
        {"sparse_row": "abc"},
        {"row": [None]},
        {"row": ["1"]},
        {"row": [[1.0], [1.0, 2.0]]},
        {"row": "1"},
        {"row": 1.0},
        {"row": {"row": [1.0]}},
        {"row": None},
        {"pair": []},
        {"pair": [1]},
        {"pair": [1, 2, 3]},
        {"pair": "ab"},
        {"pair": {"a": 1, "b": 2}},
        {"pair": [1, {"pair": [1]}]},
        {"pair": [None, "a"]},
        {"pair": None},
        {"set": "ab"},
        {"set": {"a": 1}},
        {"set": [["a"]]},
        {"set": [{"row": [1.0]}]},
        {"set": 1},
        {"other": [1.0]},
        {1: [1.0]},
        {"row": [1.0], "set": []},
        {},
        None,
        True,
        1.5,
        b"a",
        [1.0],
    ],
    ids=str,
)
def test_a_context_that_no_decision_gives_is_rejected(context):
    with pytest.raises(DecisionError, match="not a decision"):
        Decision.from_dict({"action": 0, "context": context})


@pytest.mark.parametrize(
    "values",
    [
        {"action": "0"},
        {"action": True},
        {"n_actions": 2.5},
        {"stage": "x"},
        {"item": [1]},
        {"id": None},
        {"propensity": float("nan"), "n_actions": 3},
        {"propensity": float("nan"), "n_actions": None},
        {"mean": 10**400},
        {"memo": {"advice": [1.0, float("inf")]}},
        {"memo": {"advice": [{}]}},
        {"memo": {"advice": [2**70]}},
    ],
    ids=str,
)
def test_values_of_other_types_are_not_a_decision(values):
    with pytest.raises(DecisionError, match="not a decision"):
        Decision.from_dict({"action": 0, "context": "a", **values})


@pytest.mark.parametrize("n_actions", [None, "text", float("nan"), 0.5])
def test_a_point_of_a_box_is_learned_from_a_whole_decision_only(n_actions):
    policy = kb.KernelUCB(kb.kernels.Gaussian(length_scale=1.0))
    decision = policy.choose(kb.Box([0.0], [1.0]))

    with pytest.raises(DecisionError, match="`n_actions` of a decision must be a whole number"):
        policy.learn(replace(decision, n_actions=n_actions), 0.5)

    policy.learn(decision, 0.5)


def test_a_row_of_numbers_that_another_language_has_written_is_read():
    values = json.loads('{"action": 0, "context": {"row": [1, 100000000000000000000, 0.5]}}')

    assert Decision.from_dict(values).context.tolist() == [1.0, 1e20, 0.5]


def test_a_context_without_end_is_rejected():
    context = "a"
    for _ in range(5000):
        context = {"pair": [context, "b"]}

    with pytest.raises(DecisionError, match="not a decision"):
        Decision.from_dict({"action": 0, "context": context})
