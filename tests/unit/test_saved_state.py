import numpy as np
import pytest

from kernelbandits._saved_state import (
    below,
    saved_array,
    saved_count,
    saved_number,
    saved_part,
    saved_shares,
    saved_sums,
    saved_value,
)
from kernelbandits.errors import DamagedFile

STATE = {
    "numbers": np.array([[0.5, 2.0], [3.0, -1.0]]),
    "whole": np.array([1, 2, 3]),
    "bytes": np.zeros(4, np.uint8),
    "hole": np.array([0.0, np.nan]),
    "empty": np.zeros((0, 3)),
    "single": np.zeros(3, np.float32),
    "swapped": np.zeros(3, ">f8"),
    "short": np.zeros(3, np.int32),
    "count": 3,
    "number": 0.25,
    "truth": True,
    "part": {"a": 1},
}


@pytest.mark.parametrize(
    ("name", "kind", "shape", "bounds"),
    [
        ("numbers", "f", (2, 2), {"least": -1.0, "most": 3.0}),
        ("numbers", "f", (None, 2), {}),
        ("whole", "i", (3,), {"least": 1}),
        ("bytes", "u", (None,), {"most": 0}),
        ("empty", "f", (None, 3), {"least": 1.0}),
    ],
)
def test_an_array_that_keeps_its_rules_is_given_back(name, kind, shape, bounds):
    assert saved_array(STATE, name, kind, shape, **bounds) is STATE[name]


@pytest.mark.parametrize(
    ("name", "kind", "shape", "bounds", "message"),
    [
        ("other", "f", (None,), {}, "does not hold 'other'"),
        ("count", "f", (None,), {}, "must be an array of float64, got 3"),
        ("whole", "f", (None,), {}, "must be an array of float64"),
        ("numbers", "f", (None,), {}, "must have the shape"),
        ("numbers", "f", (2, 3), {}, "must have the shape"),
        ("single", "f", (3,), {}, "must be an array of float64"),
        ("swapped", "f", (3,), {}, "must be an array of float64"),
        ("short", "i", (3,), {}, "must be an array of int64"),
        ("hole", "f", (2,), {}, "finite"),
        ("whole", "i", (3,), {"least": 2}, "from 2 to inf, got 1 to 3"),
        ("whole", "i", (3,), {"most": 2}, "from -inf to 2, got 1 to 3"),
    ],
)
def test_an_array_that_breaks_a_rule_is_damaged(name, kind, shape, bounds, message):
    with pytest.raises(DamagedFile, match=message):
        saved_array(STATE, name, kind, shape, **bounds)


def test_values_are_what_they_have_to_be():
    assert saved_count(STATE, "count", least=3) == 3
    assert saved_number(STATE, "number", most=0.25) == 0.25
    assert saved_part(STATE, "part") == {"a": 1}
    assert saved_value(STATE, "truth") is True
    assert below("num", STATE) == {"bers": STATE["numbers"], "ber": 0.25}


@pytest.mark.parametrize(
    "read",
    [
        lambda: saved_count(STATE, "count", least=4),
        lambda: saved_count(STATE, "truth"),
        lambda: saved_count(STATE, "number"),
        lambda: saved_number(STATE, "truth"),
        lambda: saved_number({"x": float("nan")}, "x"),
        lambda: saved_number(STATE, "number", least=1.0),
        lambda: saved_part(STATE, "count"),
        lambda: saved_value([], "count"),
    ],
)
def test_values_that_break_a_rule_are_damaged(read):
    with pytest.raises(DamagedFile, match="file"):
        read()


@pytest.mark.parametrize(
    ("shares", "options"),
    [([0.25, 0.75], {}), ([0.25, 0.5], {"is_whole": False}), ([0.0, 0.995], {"rounding": 0.01}), ([1.0, 1e-12], {})],
)
def test_probabilities_that_keep_their_rules_are_given_back(shares, options):
    assert saved_shares({"shares": np.array(shares)}, "shares", 2, **options).tolist() == shares


@pytest.mark.parametrize(
    ("shares", "options", "message"),
    [
        ([0.25, 0.5], {}, "whose sum is 1, got 0.75"),
        ([0.75, 0.5], {"is_whole": False}, "whose sum is at most 1, got 1.25"),
        ([1e308, 1e308], {}, "from 0.0 to 1.0"),
        ([-0.5, 1.5], {}, "from 0.0 to 1.0"),
        ([0.5, 0.25, 0.25], {}, "must have the shape"),
        ([np.nan, 1.0], {}, "finite"),
    ],
)
def test_probabilities_that_break_a_rule_are_damaged(shares, options, message):
    with pytest.raises(DamagedFile, match=message):
        saved_shares({"shares": np.array(shares)}, "shares", 2, **options)


def test_sums_are_those_of_so_many_rewards():
    state = {"sums": np.array([0.0, -3.0, 1e308]), "errors": np.array([0.0, 1e-17, 0.0])}
    sums, errors = saved_sums(state, np.array([0.0, 2.0, 1.0]))

    assert sums.tolist() == [0.0, -3.0, 1e308]
    assert errors.tolist() == [0.0, 1e-17, 0.0]
    with pytest.raises(DamagedFile, match="A sum of rewards in the file is larger"):
        saved_sums(state, np.array([0, 0, 1]))
    with pytest.raises(DamagedFile, match="A sum of rewards in the file is larger"):
        saved_sums(state, np.array([0.0, 2.0, 5e-324]))
    with pytest.raises(DamagedFile, match="A rounding error in the file is larger"):
        saved_sums({**state, "errors": np.array([0.0, 0.5, 0.0])}, np.array([0.0, 2.0, 1.0]))
