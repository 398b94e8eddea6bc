import numpy as np
import pytest

from kernelbandits.errors import InvalidParameter
from kernelbandits.experiments.policy_spec import Grid, PolicySpec, expand_grids, plain_value, short_text
from kernelbandits.kernels import Gaussian
from kernelbandits.policies import KernelUCB


def test_every_combination_is_there_once_in_order():
    found = list(expand_grids({"a": Grid(1, 2), "b": {"class": "X", "c": Grid("x", "y")}, "d": 5}))

    assert [chosen for chosen, _ in found] == [
        {"a": 1, "b.c": "x"},
        {"a": 1, "b.c": "y"},
        {"a": 2, "b.c": "x"},
        {"a": 2, "b.c": "y"},
    ]
    assert found[1][1] == {"a": 1, "b": {"class": "X", "c": "y"}, "d": 5}


def test_grids_are_found_in_lists_and_in_recipes():
    arguments = {"parts": [1, Grid(2, 3)], "policy": PolicySpec(KernelUCB, "k", regularization=Grid(4))}

    ((first, made), (second, _)) = expand_grids(arguments)

    assert first == {"parts.1": 2, "policy.regularization": 4}
    assert second["parts.1"] == 3
    assert made["parts"] == [1, 2]
    assert made["policy"].arguments == {"kernel": "k", "regularization": 4}


def test_without_grids_there_is_one_setting():
    assert list(expand_grids({"a": 1})) == [({}, {"a": 1})]


def test_an_empty_grid_is_rejected():
    with pytest.raises(InvalidParameter, match="at least one value"):
        Grid()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.1, "0.1"),
        ("random", "random"),
        (Gaussian(length_scale=0.5), "Gaussian(length_scale=0.5)"),
        ({"name": "windowed", "length": 20}, "windowed(length=20)"),
        (None, "None"),
    ],
)
def test_labels_read_well(value, text):
    assert short_text(value) == text


def test_plain_values_are_what_files_can_keep():
    plain = plain_value({"kernel": Gaussian(length_scale=0.5), "n": np.int64(3), "range": (0.0, 1.0), "none": None})

    assert plain == {
        "kernel": {"class": "Gaussian", "length_scale": 0.5},
        "n": 3,
        "range": [0.0, 1.0],
        "none": None,
    }
    assert type(plain["n"]) is int
