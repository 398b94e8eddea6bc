"""The section on learned kernel parameters says what its numbers say."""

import json

import numpy as np
import pytest
from studies import refit
from studies.__main__ import NUMBERS

from kernelbandits.experiments import RunInfo
from kernelbandits.experiments.policy_problems import PROBLEMS
from kernelbandits.kernels import Gaussian, PairProduct


@pytest.fixture(scope="module")
def found():
    return json.loads(NUMBERS.read_text(encoding="utf-8"))["refit"]


def test_every_case_has_all_seeds(found):
    cases = {(row["world"], row["start"], row["rule"]): len(row["regret"]) for row in found["rows"]}
    assert len(cases) == len(refit.WORLDS) * 4 * len(refit.RULES)
    assert set(cases.values()) == {len(refit.SEEDS)}


def test_a_stored_run_is_played_again_with_the_same_regret(found):
    played = refit._rows(("linear", 0.1), refit.SEEDS[:1])
    for row in played:
        stored = refit._of(found["rows"], "linear", 0.1, row["rule"])
        assert row["regret"][0] == pytest.approx(stored[0], rel=0.05)


def test_kernels_are_scaled_and_mixed():
    given = PROBLEMS["context × action"].kernel(RunInfo(PROBLEMS["context × action"].environment, 5, 0))
    tenth = refit._kernel(given, 0.1)
    assert isinstance(tenth, PairProduct)
    assert tenth.context.length_scale == pytest.approx(0.1 * given.context.length_scale)
    mean = refit._kernel(Gaussian(length_scale=1.0), refit.SEVERAL)
    assert [part.factor for part in mean.parts] == pytest.approx([1 / 3] * 3)
    assert [part.kernel.length_scale for part in mean.parts] == pytest.approx([0.1, 1.0, 10.0])


def test_the_words_follow_from_the_numbers(found):
    rows = json.loads(json.dumps(found["rows"]))
    ratio = max(
        np.mean(refit._of(rows, world, 1.0, refit.LEFT_OUT)) / np.mean(refit._of(rows, world, 1.0, refit.FIXED))
        for world in refit.WORLDS
    )
    assert f"at most {ratio:.2f} times" in refit.in_words(rows)
    for row in rows:
        if row["rule"] == refit.LEFT_OUT:
            row["regret"] = [10.0 * regret for regret in row["regret"]]
    assert f"at most {10.0 * ratio:.2f} times" in refit.in_words(rows)
