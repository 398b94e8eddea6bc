from decimal import Decimal
from fractions import Fraction
from math import inf, nan
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

from kernelbandits.errors import InvalidParameter
from kernelbandits.validation import (
    as_generator,
    as_iterable,
    check_array,
    check_bool,
    check_callable,
    check_confidence,
    check_float,
    check_has_methods,
    check_instance,
    check_int,
    check_list,
    check_mapping,
    check_nonnegative,
    check_path,
    check_positive,
    check_probability,
    check_range,
    check_seed,
    check_size,
    check_vector,
    pluralize,
)


@pytest.mark.parametrize("value", ["1", b"1", None, True, np.True_, [1.0], np.ones(2), 1j, object()])
def test_only_numbers_are_numbers(value):
    with pytest.raises(InvalidParameter, match="The thing must be one number"):
        check_float(value, "The thing")


@pytest.mark.parametrize("value", [2, 2.0, np.float32(2.0), np.int16(2), np.array(2.0)])
def test_numbers_of_every_kind_become_plain_ones(value):
    assert type(check_positive(value, "The thing")) is float
    assert type(check_int(value, "The thing")) is int
    assert check_positive(value, "The thing") == check_int(value, "The thing") == 2


@pytest.mark.parametrize("value", [0.0, -1.0, nan, inf, -inf])
def test_positive_rejects(value):
    with pytest.raises(InvalidParameter, match=r"The thing must be a finite number above zero, got .*\. Try 1\.$"):
        check_positive(value, "The thing", "Try 1.")


@pytest.mark.parametrize("value", [-1e-9, nan, inf])
def test_not_negative_rejects(value):
    with pytest.raises(InvalidParameter, match="The thing must be a finite number, zero or above"):
        check_nonnegative(value, "The thing")


def test_not_negative_takes_zero():
    assert check_nonnegative(0, "The thing") == 0.0


@pytest.mark.parametrize("value", [0.0, 1.0, 95, nan])
def test_a_confidence_error_says_what_it_is(value):
    with pytest.raises(InvalidParameter, match=r"The confidence has to lie .* share of intervals .* 0.95 is a common"):
        check_confidence(value)


def test_a_range_is_two_plain_numbers():
    assert check_range(np.array([0, 2])) == (0.0, 2.0)
    assert [type(end) for end in check_range((np.float32(-1.0), 3))] == [float, float]


@pytest.mark.parametrize("ends", [(1.0, 0.0), (1.0, 1.0), (0.0, inf), (nan, 1.0), (0.0,), (0, 1, 2), "ab", None, 1.0])
def test_anything_but_a_range_is_rejected(ends):
    with pytest.raises(InvalidParameter, match=r"The thing is two finite numbers a finite length apart, .*, got "):
        check_range(ends, "The thing")


@pytest.mark.parametrize("ends", [(-1e308, 1.0), (0.0, 1e151), (1e200, 2e200), (0.0, 1e-200), (0.0, 5e-324)])
def test_a_range_has_an_ordinary_size(ends):
    with pytest.raises(InvalidParameter, match=r"within ±1e\+150 and be at least 1e-150 long, got .* Rescale"):
        check_range(ends, "The thing")


@pytest.mark.parametrize("value", [0.0, 1.0, -0.1, nan])
def test_probabilities_lie_between(value):
    with pytest.raises(InvalidParameter, match="strictly between 0 and 1"):
        check_probability(value)


@pytest.mark.parametrize("value", [1, 2.5, nan, inf, -3])
def test_counts_are_whole_and_large_enough(value):
    with pytest.raises(InvalidParameter, match="whole number of at least 2"):
        check_int(value, "The thing", least=2)


def test_large_counts_stay_exact():
    assert check_int(4**40 + 1, "The thing") == 4**40 + 1


@pytest.mark.parametrize("values", [1.0, [[1.0]], [nan], [inf]])
def test_vectors_are_one_row_of_finite_numbers(values):
    with pytest.raises(InvalidParameter, match="The things must be one row of finite numbers"):
        check_vector(values, "The things")


@pytest.mark.parametrize("values", ["text", [[1.0], [1.0, 2.0]], [1j], [None], {"a": 1}])
def test_what_is_no_array_of_real_numbers_is_rejected(values):
    with pytest.raises(InvalidParameter, match="The weights must be"):
        check_array(values, "The weights")


@pytest.mark.parametrize(("n", "text"), [(0, "0 rounds"), (1, "1 round"), (2, "2 rounds"), (1_000, "1,000 rounds")])
def test_a_noun_stands_in_the_singular_after_one_only(n, text):
    assert pluralize(n, "round") == text


@pytest.mark.parametrize("value", [1e151, 1e-151, 5e-324])
def test_numbers_whose_squares_are_lost_are_rejected(value):
    with pytest.raises(InvalidParameter, match=r"The thing must be at (most 1e\+150|least 1e-150)"):
        check_positive(value, "The thing")
    assert check_positive(1e150, "The thing") == 1e150
    assert check_positive(1e-150, "The thing") == 1e-150
    assert check_positive(1e-300, "The thing", may_be_tiny=True) == 1e-300


def test_a_number_that_no_float_holds_is_rejected():
    with pytest.raises(InvalidParameter, match="The thing must be a number that a float can hold"):
        check_float(10**400, "The thing")


def test_a_count_is_one_that_can_be_counted_and_a_seed_need_not_be():
    with pytest.raises(InvalidParameter, match=r"The thing must be a whole number of at most 10{27}"):
        check_int(10**27 + 1, "The thing")
    with pytest.raises(InvalidParameter, match="The seed must be a whole number of at least 0, got -1"):
        check_seed(-1)
    assert check_int(10**27, "The thing") == 10**27
    assert check_seed(2**128 + 1) == 2**128 + 1


@pytest.mark.parametrize("value", [1e-301, 5e-324])
def test_a_probability_too_small_to_divide_by_is_rejected(value):
    with pytest.raises(InvalidParameter, match="The failure probability must be at least 1e-300"):
        check_probability(value)


def test_objects_functions_and_mappings_are_given_back():
    assert check_has_methods("text", "The thing", "upper") == "text"
    assert check_instance("text", str, "The thing") == "text"
    assert check_callable(len, "The thing") is len
    assert check_mapping({"a": 1}, "The things") == {"a": 1}


@pytest.mark.parametrize(
    ("check", "message"),
    [
        (
            lambda: check_has_methods("text", "The thing", "start", "upper", "stop", hint="Wind it up."),
            r"The thing needs the methods start, stop, got str\. Wind it up\.",
        ),
        (lambda: check_has_methods(str, "The thing", "upper"), "The thing must be made already, got the class str"),
        (lambda: check_instance(3, str, "The thing", "Try 'a'."), r"The thing must be a str, got int\. Try 'a'\."),
        (lambda: check_callable(3, "The thing"), "The thing must be a function, got 3"),
        (lambda: check_mapping(3, "The things"), "The things must be given by name, got 3"),
    ],
)
def test_other_things_are_rejected(check, message):
    with pytest.raises(InvalidParameter, match=message):
        check()


@pytest.mark.parametrize(
    "value",
    [0.5 + 0j, np.complex64(0.5), np.datetime64("2020-01-01"), np.timedelta64(3, "D"), np.ma.masked, [[1.0], 2.0]],
)
def test_what_only_looks_like_a_number_is_rejected(value):
    with pytest.raises(InvalidParameter, match="The width must be one number, got"):
        check_float(value, "The width")


@pytest.mark.parametrize("value", [np.float16(0.5), np.longdouble(0.5), np.array(0.5), Fraction(1, 2), Decimal("0.5")])
def test_numbers_of_other_kinds_become_floats(value):
    assert check_float(value, "The width") == 0.5
    assert type(check_float(value, "The width")) is float


def test_a_value_without_a_text_is_named_by_its_type():
    with pytest.raises(InvalidParameter, match="got a value of type int"):
        check_bool(10**5000, "`sparse`")


def test_masked_values_are_rejected_and_a_mask_of_nothing_is_not():
    values = np.arange(3.0)

    with pytest.raises(InvalidParameter, match="Rewards may not be masked"):
        check_array(np.ma.masked_greater(values, 1.0), "Rewards")
    assert check_array(np.ma.array(values), "Rewards").tolist() == [0.0, 1.0, 2.0]


@pytest.mark.parametrize("value", ["no", 1, None, np.ones(2)])
def test_a_flag_is_true_or_false(value):
    with pytest.raises(InvalidParameter, match="`sparse` must be True or False, got"):
        check_bool(value, "`sparse`")


def test_a_flag_of_numpy_becomes_a_plain_one():
    assert check_bool(np.True_, "`sparse`") is True


def itself():
    items = []
    items.append(items)
    return items


@pytest.mark.parametrize("seed", ["a", -1, 1.5, True, [1, 0.5], np.random.RandomState(0), itself()])
def test_what_seeds_no_generator_is_rejected(seed):
    with pytest.raises(InvalidParameter, match="A seed is a whole number from 0"):
        as_generator(seed)


@pytest.mark.parametrize("seed", [7, np.uint8(7), [7], np.array([7]), np.random.SeedSequence(7)])
def test_whole_numbers_and_sequences_seed_a_generator(seed):
    assert isinstance(as_generator(seed), np.random.Generator)


class OnlyLooksIterable:
    def __iter__(self):
        raise NotImplementedError("not yet")


@pytest.mark.parametrize(
    "values",
    ["ab", 3, None, {"a": 1}, np.array(1.0), memoryview(np.array(1.0)), csr_array(np.eye(2)), OnlyLooksIterable()],
    ids=lambda values: type(values).__name__,
)
def test_what_is_one_value_is_no_list(values):
    with pytest.raises(InvalidParameter, match="Columns must be a list, got"):
        check_list(values, "Columns")


@pytest.mark.parametrize("shape", [(3,), (3, 2), (3, 2, 2)])
def test_a_view_of_memory_is_the_array_that_it_shows(shape):
    array = np.arange(float(np.prod(shape))).reshape(shape)

    listed = check_list(memoryview(array), "Columns")

    np.testing.assert_array_equal(listed, array)
    assert as_iterable(array) is array


def test_a_view_of_memory_that_holds_no_numbers_is_rejected():
    with pytest.raises(InvalidParameter, match=r"A memoryview has to show numbers: .* Make an array of them"):
        as_iterable(memoryview(bytes(16)).cast("P"))


@pytest.mark.parametrize("path", ["", "a\0b", "\ud800", 3, None, b"a", ["a"]])
def test_what_can_name_no_file_is_rejected(path):
    with pytest.raises(InvalidParameter, match=r"The path (must be the name of a file|has a character)"):
        check_path(path)


def test_a_path_becomes_text():
    assert check_path(Path("a") / "b") == "a/b"


def test_an_array_that_fits_into_no_memory_is_rejected():
    with pytest.raises(InvalidParameter, match="Weights must be at most 500,000,000 numbers, got 1,000,000,000 × 3"):
        check_size("Weights", 10**9, 3)
