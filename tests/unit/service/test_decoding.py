"""Decoding of requests: whatever the bytes are, the answer is a value of the schema or a problem."""

import json
import random
import tracemalloc

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelbandits.service.problems import CODES, Problem, problem_of
from kernelbandits.service.schemas import (
    DEEPEST,
    Action,
    Batch,
    Block,
    DecisionRequest,
    EvaluationRequest,
    Experiment,
    ExperimentChange,
    Items,
    PolicyRequest,
    RewardBatch,
    RewardRequest,
    decode,
    encode,
)

KINDS = [DecisionRequest, RewardRequest, RewardBatch, Batch, Experiment, ExperimentChange, Items, Block, PolicyRequest]
KINDS.append(EvaluationRequest)
GOOD = json.dumps(
    {
        "actions": [{"id": "a", "x": [0.5, -1, 1e-300]}, {"id": "b", "x": [1, 2, 3.25]}],
        "k": 2, "eligible": ["a"], "exclude": [], "baseline": "a", "defer": False, "subject": "ä 𝄞 \\ \" \u0001",
    }
).encode()  # fmt: skip


def outcome(data, kind):
    """The value, or the code of the problem; nothing else may be raised."""
    try:
        return decode(data, kind)
    except Problem as problem:
        if problem.code not in ("malformed", "invalid"):
            raise
        return problem.code


@given(st.binary(max_size=200), st.sampled_from(KINDS))
def test_any_bytes(data, kind):
    outcome(data, kind)


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(),
        lambda part: st.lists(part) | st.dictionaries(st.text(), part),
    )
)
def test_any_json(value):
    for kind in KINDS:
        outcome(json.dumps(value).encode(), kind)


def damaged(draw):
    """A good request with a few bytes changed, removed, repeated or moved."""
    data = bytearray(GOOD)
    for _ in range(draw.randrange(1, 4)):
        place = draw.randrange(len(data))
        match draw.randrange(4):
            case 0:
                data[place] = draw.randrange(256)
            case 1:
                del data[place : place + draw.randrange(1, 8)]
            case 2:
                data[place:place] = data[place : place + draw.randrange(1, 30)]
            case 3:
                data[place:place] = draw.choice(
                    [b"[", b"{", b'"', b"\\u", b"1e999", b"NaN", b"\xff", b"\\ud800", b"null"]
                )
    return bytes(data)


def fuzz(n):
    draw = random.Random(0)
    return sum(isinstance(outcome(damaged(draw), DecisionRequest), DecisionRequest) for _ in range(n)), n


def test_damaged_requests():
    n_valid, n = fuzz(5_000)

    assert 0 < n_valid < n  # both kinds of outcome were seen


@pytest.mark.long
def test_a_million_damaged_requests():
    fuzz(1_000_000)


def test_what_is_decoded_can_be_encoded_again():
    found = decode(GOOD, DecisionRequest)

    assert decode(encode(found), DecisionRequest) == found
    assert found.actions[0] == Action("a", [0.5, -1.0, 1e-300])


def test_strings_that_look_like_fields_are_no_fields():
    assert (
        decode(b'{"actions":[{"id":"a","x":"\\"k\\": 1, \\"k\\": 2, {[:::"}]}', DecisionRequest)
        .actions[0]
        .x.startswith('"k')
    )


@pytest.mark.parametrize(
    "data",
    [
        b'{"k":1,"k":1}',
        b'{"actions":[{"id":"a","x":"t","x":"t"}]}',
        b'{"k" : 1, "\\u006b": 2}',
        b'{"k":1,"k":2,"subject":"\\u003a"}',
        b'{"k":2,"k":1}',
        b'{"defer":true,"defer":false,"subject":"::"}',
        b'{"actions":[{"id":"a","x":":"},{"id":"b","id":"c"}]}',
    ],
)
def test_fields_that_occur_twice(data):
    assert outcome(data, DecisionRequest) == "malformed"


def test_nesting_is_limited_also_where_anything_may_stand():
    def policy(depth):
        inner = b"[" * depth + b"]" * depth
        return b'{"policy":{"class":' + inner + b"}}"

    assert isinstance(outcome(policy(DEEPEST - 3), PolicyRequest), PolicyRequest)
    assert outcome(policy(DEEPEST), PolicyRequest) == "malformed"
    assert outcome(policy(100_000), PolicyRequest) == "malformed"


def test_memory_stays_flat():
    bodies = [b"[" * 100_000, b'{"actions":' * 10_000, b'{"policy":{"class":' + b"[" * 50_000, GOOD, b"\xff" * 10_000]
    for _ in range(3):
        for body in bodies:
            outcome(body, PolicyRequest)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for _ in range(50):
        for body in bodies:
            outcome(body, PolicyRequest)
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert grown < 100_000


def test_problems_have_a_status_and_a_body():
    for code, (status, title) in CODES.items():
        problem = Problem(code, "why", pointer="/x", report={"n": 1})
        body = problem.body()
        assert (body["status"], body["title"], body["pointer"], body["report"]) == (status, title, "/x", {"n": 1})
        assert (problem.retry_after is not None) == (status == 503)
        assert problem_of(problem) is problem
        msgspec.json.encode(body)
