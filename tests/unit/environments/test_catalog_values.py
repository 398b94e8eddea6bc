import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import rankdata

from kernelbandits.environments import scaled_values
from kernelbandits.errors import InvalidParameter

VALUES = np.random.default_rng(4).integers(0, 8, size=40) ** 5.0 - 3.0


def test_the_unit_scale_runs_from_0_to_1():
    assert_allclose(scaled_values(VALUES, "unit"), (VALUES - VALUES.min()) / np.ptp(VALUES))


def test_ranks_share_their_places_where_values_are_equal():
    assert_allclose(scaled_values(VALUES, "rank"), (rankdata(VALUES) - 1) / 39)


def test_none_leaves_values_alone():
    assert_array_equal(scaled_values(VALUES, "none"), VALUES)


@pytest.mark.parametrize("scale", ["unit", "rank"])
def test_a_single_value_has_no_scale(scale):
    assert_array_equal(scaled_values(np.array([7.0]), scale), [0.0])


def test_another_scale_is_rejected():
    with pytest.raises(InvalidParameter, match=r"scale of values must be one of .*'log'"):
        scaled_values(VALUES, "log")
