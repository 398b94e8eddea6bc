import json

import numpy as np
import pytest
from numpy.testing import assert_allclose

from kernelbandits.errors import InvalidParameter
from kernelbandits.evaluation import Estimate, Log, mean_reward


def make_estimate(**changes):
    usual = {"value": 0.5, "standard_error": 0.1, "low": 0.3, "high": 0.7, "n_rounds": 1200, "n_matched": 30}
    return Estimate(**{**usual, "effective_sample_size": 12.34, **changes})


def test_plain_values_can_be_written_as_json():
    plain = make_estimate(value=np.nan, low=-np.inf, warnings=("Beware.",)).to_dict()

    assert json.loads(json.dumps(plain)) == plain
    assert plain["value"] is None
    assert plain["low"] is None
    assert plain["warnings"] == ["Beware."]


def test_it_reads_as_a_sentence_with_its_warnings_below():
    result = str(make_estimate(confidence=0.9, warnings=("Beware.",)))

    assert result == "0.5 ± 0.1 (90 %: 0.3 to 0.7) from 1,200 rounds, 30 matched, effective 12.3\n  ! Beware."


def test_the_mean_reward_has_the_interval_of_a_mean():
    rewards = np.array([0.5, -2.0, 7.0, 1.0])

    result = mean_reward(Log([["a"]] * 4, [0] * 4, [1.0] * 4, rewards), confidence=0.9)

    error = rewards.std(ddof=1) / 2
    assert_allclose([result.value, result.standard_error], [rewards.mean(), error])
    assert_allclose([result.low, result.high], rewards.mean() + error * np.array([-1.6448536, 1.6448536]), rtol=1e-6)


def test_one_round_has_no_standard_error():
    result = mean_reward(Log([["a"]], [0], [1.0], [3.0]))

    assert result.value == 3.0
    assert np.isnan(result.standard_error)


def test_a_confidence_is_a_probability():
    with pytest.raises(InvalidParameter, match="The confidence has to lie strictly between 0 and 1"):
        mean_reward(Log([["a"]], [0], [1.0], [3.0]), confidence=95)


def test_an_estimate_is_shown_briefly_with_the_number_of_its_warnings():
    found = Estimate(
        value=0.123456, standard_error=0.05, low=0.0, high=0.25, n_rounds=100, n_matched=40,
        effective_sample_size=31.25, warnings=("Few rounds < 50.",),
    )  # fmt: skip

    summary = "0.1235 ± 0.05 (95 %: 0 to 0.25) from 100 rounds, 40 matched, effective 31.2"
    assert repr(found) == f"Estimate({summary}, 1 warning)"
    assert summary in found._repr_html_()
    assert "Few rounds &lt; 50." in found._repr_html_()
