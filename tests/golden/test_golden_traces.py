"""Numbers are a contract: every policy chooses what it chose before, with the same propensities and estimates."""

import inspect
import warnings

import numpy as np
import pytest

import kernelbandits as kb
from golden.policies import CASES
from golden.traces import FILE, SEEDS, trace
from golden.worlds import World
from kernelbandits.errors import KernelBanditWarning


@pytest.fixture(scope="module")
def golden():
    kb.compile_ahead()  # before that, other loops compute the last bits
    with np.load(FILE) as file:
        return dict(file)


def assert_same(found, expected):
    np.testing.assert_array_equal(found[:, 0], expected[:, 0])
    np.testing.assert_allclose(found[:, 1:], expected[:, 1:], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("case", CASES)
def test_a_policy_chooses_what_it_chose_before(case, seed, golden):
    assert_same(trace(case, seed), golden[f"{case}, seed {seed}"])


def test_another_choice_would_be_noticed(golden):
    expected = golden["KernelUCB, fixed, seed 0"]
    other = expected.copy()
    other[-1, 0] += 1
    with pytest.raises(AssertionError):
        assert_same(other, expected)

    other = expected.copy()
    other[-1, 1] += 1e-8
    with pytest.raises(AssertionError):
        assert_same(other, expected)


def test_every_policy_has_a_trace():
    concrete = {
        made
        for name in kb.policies.__all__
        if isinstance(made := getattr(kb.policies, name), type)
        and issubclass(made, kb.Policy)
        and not inspect.isabstract(made)
    }

    assert {type(make(World(world), 0)) for world, make in CASES.values()} == concrete


def test_every_parameter_is_set(monkeypatch):
    """So that a changed default changes no trace."""
    given, initialize = {}, kb.Policy.__init__

    def noting(self, *arguments, **named):
        given[type(self)] = inspect.signature(type(self)).bind(*arguments, **named).arguments
        initialize(self, *arguments, **named)

    monkeypatch.setattr(kb.Policy, "__init__", noting)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KernelBanditWarning)
        for world, make in CASES.values():
            given.clear()
            policy = make(World(world), 0)
            missing = set(inspect.signature(type(policy)).parameters) - set(given[type(policy)])
            assert not missing, f"{type(policy).__name__}: {missing}"


def test_no_trace_is_left_of_a_case_that_is_gone(golden):
    assert set(golden) == {f"{case}, seed {seed}" for case in CASES for seed in SEEDS}
