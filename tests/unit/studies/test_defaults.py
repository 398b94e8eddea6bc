"""The page of defaults says what the grid search found, for the defaults that the classes have."""

import json

import numpy as np
import pytest
from studies.defaults import (
    DEFAULT,
    NUMBERS,
    PAGE,
    THEORY,
    TRIED,
    collect,
    render,
    setting_of_default,
    settings_of,
)

NAMES = list(TRIED)


@pytest.fixture(scope="module")
def found():
    return json.loads(NUMBERS.read_text(encoding="utf-8"))


def mean(fractions):
    return float(np.mean(list(fractions.values())))


def test_the_page_is_made_of_the_numbers_alone(found):
    assert PAGE.read_text(encoding="utf-8") == render(found)

    found["fractions"]["UCB1"][DEFAULT]["linear"] += 0.01

    assert PAGE.read_text(encoding="utf-8") != render(found)


@pytest.mark.parametrize("name", NAMES)
def test_the_numbers_are_those_of_the_defaults_that_a_class_has(name, found):
    """A setting that is the default was run once, so another default would be missing here."""
    expected = set(settings_of(name)) - {setting_of_default(name)}

    assert set(found["fractions"][name]) == expected
    assert setting_of_default(name) or not TRIED[name].grid


@pytest.mark.parametrize("name", NAMES)
def test_a_default_beats_uniform_choices_on_every_problem_and_the_constants_of_the_theorem(name, found):
    by_setting = found["fractions"][name]

    assert set(by_setting[DEFAULT]) == set(TRIED[name].problems)
    assert max(by_setting[DEFAULT].values()) < 0.9
    if THEORY in by_setting:
        assert mean(by_setting[DEFAULT]) < 0.9 * mean(by_setting[THEORY])


def test_constants_of_proofs_do_not(found):
    """Negative control: their fractions are about 1 for the policies that eliminate."""
    for name in ("SupKernelUCB", "PhasedElimination", "PolicyElimination", "ConfidenceBall", "SupLinUCB"):
        assert mean(found["fractions"][name][THEORY]) > 0.9


def test_a_run_that_was_stopped_is_continued(tmp_path):
    options = {"horizon": 40, "seeds": (3,), "only": ("UCB1", "ConfidenceBall")}

    first, again = (collect(tmp_path, workers=1, **options) for _ in range(2))

    assert first == again
    assert set(first["fractions"]["UCB1"][DEFAULT]) == set(TRIED["UCB1"].problems)
    assert 0.0 < first["fractions"]["ConfidenceBall"][THEORY]["linear"] < 3.0
