import json
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from kernelbandits.experiments import EndValue, Result, mean_band, summarize


def test_the_interval_is_students():
    values = np.random.default_rng(1).normal(size=(7, 3))

    band = mean_band(values)

    low, high = stats.t.interval(0.95, df=6, loc=values.mean(axis=0), scale=stats.sem(values, axis=0))
    assert_allclose(band.mean - band.half_width, low)
    assert_allclose(band.mean + band.half_width, high)


def test_one_repeat_has_a_mean_and_no_interval():
    band = mean_band([[1.0, 2.0]])

    assert band.mean.tolist() == [1.0, 2.0]
    assert np.isnan(band.half_width).all()


def make_run(regret, seconds=0.5):
    return SimpleNamespace(
        regret=np.array([0.0, regret]), reward=np.array([1.0, 0.0]), seconds=np.array([seconds, seconds])
    )


def test_rows_are_sorted_and_share_is_of_the_reference():
    rows = summarize(
        {"chance": [make_run(8.0), make_run(12.0)], "good": [make_run(1.0), make_run(3.0)]}, reference="chance"
    )

    assert [row.policy for row in rows] == ["good", "chance"]
    assert [row.regret.mean for row in rows] == [2.0, 10.0]
    assert [row.relative_regret for row in rows] == [0.2, 1.0]
    assert rows[0].seconds_per_round == 0.5
    assert [row.rank for row in rows] == [1, 2]
    assert rows[0].mean_reward.mean == 0.5
    assert rows[0].regret.half_width == pytest.approx(12.706, abs=1e-3)


def test_an_unknown_interval_is_null_in_json():
    row = Result(policy="x", regret=EndValue.of([1.0]))

    assert json.loads(json.dumps(row.to_dict(), allow_nan=False))["regret_low"] is None


def test_a_share_of_no_regret_is_unknown():
    rows = summarize({"chance": [make_run(0.0)]}, reference="chance")

    assert np.isnan(rows[0].relative_regret)
