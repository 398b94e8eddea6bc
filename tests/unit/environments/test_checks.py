import numpy as np
import pytest

from kernelbandits.environments.checks import not_negative, whole
from kernelbandits.errors import InvalidParameter


def test_whole_numbers_become_ints():
    assert type(whole(np.int32(4), "n_actions")) is int


@pytest.mark.parametrize("value", [0, -1, 2.0, True, np.True_, "3", None, float("nan")])
def test_anything_else_is_refused_by_name(value):
    with pytest.raises(InvalidParameter, match="n_actions has to be a whole number from 1 on, got"):
        whole(value, "n_actions")


@pytest.mark.parametrize("value", [-0.1, float("nan"), float("inf")])
def test_a_scale_is_finite_and_not_negative(value):
    with pytest.raises(InvalidParameter, match="The noise scale has to be a finite number, zero or above"):
        not_negative(value, "The noise scale")
