from math import inf, nan

import numpy as np
import pytest

from kernelbandits.checks import (
    a_confidence,
    a_count,
    a_number,
    a_probability,
    a_range,
    a_vector,
    an_array,
    counted,
    not_negative,
    positive,
)
from kernelbandits.errors import InvalidParameter


@pytest.mark.parametrize("value", ["1", b"1", None, True, np.True_, [1.0], np.ones(2), 1j, object()])
def test_only_numbers_are_numbers(value):
    with pytest.raises(InvalidParameter, match="The thing has to be one number"):
        a_number(value, "The thing")


@pytest.mark.parametrize("value", [2, 2.0, np.float32(2.0), np.int16(2), np.array(2.0)])
def test_numbers_of_every_kind_become_plain_ones(value):
    assert type(positive(value, "The thing")) is float
    assert type(a_count(value, "The thing")) is int
    assert positive(value, "The thing") == a_count(value, "The thing") == 2


@pytest.mark.parametrize("value", [0.0, -1.0, nan, inf, -inf])
def test_positive_refuses(value):
    with pytest.raises(InvalidParameter, match=r"The thing has to be a finite number above zero, got .*\. Try 1\.$"):
        positive(value, "The thing", "Try 1.")


@pytest.mark.parametrize("value", [-1e-9, nan, inf])
def test_not_negative_refuses(value):
    with pytest.raises(InvalidParameter, match="The thing has to be a finite number, zero or above"):
        not_negative(value, "The thing")


def test_not_negative_takes_zero():
    assert not_negative(0, "The thing") == 0.0


@pytest.mark.parametrize("value", [0.0, 1.0, 95, nan])
def test_a_confidence_is_told_what_it_is(value):
    with pytest.raises(InvalidParameter, match=r"The confidence has to lie .* share of intervals .* 0.95 is a common"):
        a_confidence(value)


def test_a_range_is_two_plain_numbers():
    assert a_range(np.array([0, 2])) == (0.0, 2.0)
    assert [type(end) for end in a_range((np.float32(-1.0), 3))] == [float, float]


@pytest.mark.parametrize("ends", [(1.0, 0.0), (1.0, 1.0), (0.0, inf), (nan, 1.0), (0.0,), (0, 1, 2), "ab", None, 1.0])
def test_what_is_no_range_is_refused(ends):
    with pytest.raises(InvalidParameter, match=r"The thing is two finite numbers a finite length apart, .*, got "):
        a_range(ends, "The thing")


@pytest.mark.parametrize("value", [0.0, 1.0, -0.1, nan])
def test_probabilities_lie_between(value):
    with pytest.raises(InvalidParameter, match="strictly between 0 and 1"):
        a_probability(value)


@pytest.mark.parametrize("value", [1, 2.5, nan, inf, -3])
def test_counts_are_whole_and_large_enough(value):
    with pytest.raises(InvalidParameter, match="whole number of at least 2"):
        a_count(value, "The thing", least=2)


def test_large_counts_stay_exact():
    assert a_count(4**40 + 1, "The thing") == 4**40 + 1


@pytest.mark.parametrize("values", [1.0, [[1.0]], [nan], [inf]])
def test_vectors_are_one_row_of_finite_numbers(values):
    with pytest.raises(InvalidParameter, match="The things have to be one row of finite numbers"):
        a_vector(values, "The things")


@pytest.mark.parametrize("values", ["text", [[1.0], [1.0, 2.0]], [1j], [None], {"a": 1}])
def test_what_is_no_array_of_real_numbers_is_refused(values):
    with pytest.raises(InvalidParameter, match="The weights have to be"):
        an_array(values, "The weights")


@pytest.mark.parametrize(("n", "text"), [(0, "0 rounds"), (1, "1 round"), (2, "2 rounds"), (1_000, "1,000 rounds")])
def test_a_noun_stands_in_the_singular_after_one_only(n, text):
    assert counted(n, "round") == text
