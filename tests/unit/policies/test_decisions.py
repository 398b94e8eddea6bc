from dataclasses import fields, replace

import numpy as np
import pytest

import kernelbandits as kb
from kernelbandits.errors import DecisionError
from kernelbandits.kernels import Gaussian

ROWS = np.array([[0.1, 0.2], [0.5, 0.4], [0.9, 0.3]])

WRONG = {
    "action": "a",
    "mean": None,
    "width": np.ones(2),
    "score": "0.5",
    "propensity": 1j,
    "stage": 1.5,
    "item": [1],
    "n_actions": np.ones(2),
    "round_index": None,
    "id": 7,
    "policy": np.zeros(0),
    "memo": [1],
}


@pytest.fixture
def policy():
    policy = kb.KernelUCB(Gaussian(length_scale=1.0))
    policy.learn(policy.choose(ROWS), 0.5)
    return policy


def test_every_field_but_the_context_is_checked():
    assert set(WRONG) == {part.name for part in fields(kb.Decision)} - {"context", "cost"}


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("method", ["learn", "expect", "explain"])
def test_a_field_of_another_type_is_rejected_by_name(policy, name, method):
    decision = replace(policy.choose(ROWS), **{name: WRONG[name]})
    rewards = (0.5,) if method == "learn" else ()

    with pytest.raises(DecisionError, match=f"`{name}` of a decision must be"):
        getattr(policy, method)(decision, *rewards)

    assert policy.round_index == 2


@pytest.mark.parametrize("value", [None, "d-1", 0, object])
def test_anything_but_a_decision_is_rejected(policy, value):
    with pytest.raises(DecisionError, match="A decision as `choose` gives it is needed, got"):
        policy.learn(value, 0.5)


def test_numbers_of_numpy_are_fields_like_others(policy):
    decision = policy.choose(ROWS)

    policy.learn(replace(decision, action=np.int8(decision.action), mean=np.float32(0.5), n_actions=np.int64(3)), 0.5)

    assert policy.round_index == 3
