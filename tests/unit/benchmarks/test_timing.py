from __future__ import annotations

import numpy as np
import pytest
from benchmarks.timing import PowerLaw, end_of, middle, piecewise_total, thinned
from numpy.testing import assert_allclose


@pytest.mark.parametrize("exponent", [0.0, 0.7, 2.0, 3.0])
def test_a_power_law_is_found_and_integrated(exponent):
    rounds = [100, 300, 1000, 2000]
    law = PowerLaw.fit(rounds, [3e-7 * t**exponent for t in rounds])

    assert_allclose(law.exponent, exponent, atol=1e-9)
    assert_allclose(law.total(3000), 3e-7 * 3000 ** (exponent + 1) / (exponent + 1))
    assert law.worst < 1e-9


def test_the_integral_is_close_to_the_sum_over_rounds():
    law = PowerLaw.fit([100, 1000], [0.01, 0.7])

    assert_allclose(law.total(2000), sum(law.at(t) for t in range(1, 2001)), rtol=2e-3)


def test_parts_of_the_integral_add_up():
    law = PowerLaw.fit([100, 1000], [0.01, 0.7])

    assert_allclose(law.total(500) + law.total(2000, after=500), law.total(2000))


def test_pieces_follow_a_curve_that_bends():
    """A fixed cost and a quadratic one: no single power law, and yet the total is right."""
    rounds = [100, 300, 1000, 2000, 3000]
    seconds = [0.005 + 1e-7 * t**2 for t in rounds]

    assert_allclose(piecewise_total(rounds, seconds, 3000), 0.005 * 3000 + 1e-7 * 3000**3 / 3, rtol=0.03)


def test_pieces_of_a_power_law_are_the_law():
    rounds = [100, 300, 1000]

    assert_allclose(piecewise_total(rounds, [t**1.5 for t in rounds], 2000), 2000**2.5 / 2.5)


def test_a_bad_fit_says_so():
    law = PowerLaw.fit([1, 10, 100], [1.0, 2.0, 1.0])  # flat at the geometric mean, 2^(1/3)

    assert_allclose(law.worst, 1 - 2 ** (-2 / 3))


def test_one_checkpoint_is_taken_as_constant():
    assert PowerLaw.fit([100], [0.5]).total(10) == 5.0


def test_falling_times_have_a_finite_total():
    law = PowerLaw.fit([1, 10], [1.0, 0.01])

    assert law.total(10) == pytest.approx(0.1)


def test_the_end_is_the_median_of_the_last_tenth():
    seconds = np.concatenate([np.full(90, 5.0), np.full(10, 1.0)])

    assert end_of(seconds) == 1.0
    assert end_of(np.array([2.0])) == 2.0


def test_one_disturbed_repeat_does_not_count():
    assert middle([1.0, 50.0, 1.2]) == 1.2


def test_a_thinned_curve_covers_the_run():
    rounds, seconds = thinned(np.arange(1.0, 1001.0))

    assert rounds[0] == 1
    assert rounds == sorted(set(rounds))
    assert_allclose(seconds, rounds, rtol=0.05, atol=0.5)
    assert thinned(np.array([3.0])) == ([1], [3.0])
