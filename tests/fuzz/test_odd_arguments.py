"""Odd values never lead to an exception that is not of this library, and a rejected call changes nothing."""

from math import isfinite

import numpy as np
import pytest

import kernelbandits as kb
from fuzz.baselines import LEFT_OUT, TARGETS, callable_of, folder, gaussian, public_names
from fuzz.odd_calls import argument_calls, change_outcomes, limits, outcome, parameters_of, raw_error
from fuzz.odd_methods import POLICIES, method_calls, method_outcome
from fuzz.odd_values import ODD
from kernelbandits._parameters import ValueType
from kernelbandits.errors import InvalidParameter
from kernelbandits.kernels import Gaussian

SEED = 12

MOST_RAW_ERRORS = 0
"""Of all calls of a run. It may only fall."""


@pytest.fixture(autouse=True)
def within_limits(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with limits():
        yield
    assert list(tmp_path.iterdir()) == [], "a call has written outside of the folder of these tests"


def raw_errors_of_arguments(n_single, n_double):
    return [
        error for name, odd in argument_calls(n_single, n_double, SEED) if (error := outcome(name, odd)) is not None
    ]


def raw_errors_of_changes(n_calls):
    calls = [(name, odd) for name, odd in argument_calls(None, 0, SEED) if name in POLICIES]
    chosen = np.random.default_rng(SEED).permutation(len(calls))[:n_calls]
    return [error for place in chosen for error in change_outcomes(*calls[place])]


def raw_errors_of_methods(n_calls):
    calls = list(method_calls())
    chosen = np.random.default_rng(SEED).permutation(len(calls))[:n_calls]
    return [error for place in chosen for error in method_outcome(*calls[place])]


def listed(errors):
    return "\n".join(map(str, errors[:20]))


def test_every_public_name_is_called_or_has_a_reason_not_to_be():
    called = {name for name in TARGETS if not name.endswith((".from_dict", ".taught"))}

    assert public_names() - called - set(LEFT_OUT) == set()
    assert called | set(LEFT_OUT) <= public_names()


def test_a_public_name_without_a_call_would_be_noticed(monkeypatch):
    monkeypatch.setattr(kb.theory, "__all__", [*kb.theory.__all__, "Lost"])
    monkeypatch.setattr(kb.theory, "Lost", lambda: None, raising=False)

    assert public_names() - set(TARGETS) - set(LEFT_OUT) == {"theory.Lost"}


@pytest.mark.parametrize("name", TARGETS)
def test_the_call_without_odd_values_is_valid(name):
    made = callable_of(name)(**TARGETS[name].arguments())

    assert raw_error(name, lambda: TARGETS[name].use(made)) is None


def test_odd_arguments_end_in_errors_of_the_library():
    errors = raw_errors_of_arguments(n_single=3_000, n_double=500)

    assert len(errors) <= MOST_RAW_ERRORS, listed(errors)


def test_odd_arguments_of_methods_end_in_errors_of_the_library_and_move_nothing():
    errors = raw_errors_of_methods(400)

    assert len(errors) <= MOST_RAW_ERRORS, listed(errors)


def test_odd_parameters_that_are_set_or_cloned_end_in_errors_of_the_library():
    errors = raw_errors_of_changes(500)

    assert len(errors) <= MOST_RAW_ERRORS, listed(errors)


@pytest.mark.long
def test_every_odd_parameter_that_is_set_or_cloned_ends_in_an_error_of_the_library():
    errors = raw_errors_of_changes(None)

    assert len(errors) <= MOST_RAW_ERRORS, listed(errors)


@pytest.mark.long
def test_every_odd_argument_ends_in_an_error_of_the_library():
    errors = raw_errors_of_arguments(n_single=None, n_double=30_000)

    assert len(errors) <= MOST_RAW_ERRORS, listed(errors)


@pytest.mark.long
def test_many_odd_arguments_of_methods_end_in_errors_of_the_library_and_move_nothing():
    errors = raw_errors_of_methods(40_000)

    assert len(errors) <= MOST_RAW_ERRORS, listed(errors)


def test_files_of_calls_lie_in_the_folder_of_these_tests():
    outcome("policies.KernelUCB", {})
    outcome("policies.load", {})
    raw_error("a relative path", lambda: callable_of("policies.KernelUCB")(gaussian()).save("relative.kb"))

    assert {"policy.kb", "saved.kb", "relative.kb"} <= {path.name for path in folder().iterdir()}


def test_a_raw_error_would_be_counted(monkeypatch):
    monkeypatch.setattr(Gaussian, "__post_init__", lambda self: float(self.length_scale))

    assert outcome("kernels.Gaussian", {"length_scale": "None"}).error.startswith("TypeError")
    assert outcome("kernels.Gaussian", {"length_scale": "0.5"}) is None


def test_a_raw_error_of_a_change_would_be_counted(monkeypatch):
    def check(value):
        raise LookupError(value)  # not an error of the library, nor one that a check such as `float` raises

    monkeypatch.setattr(
        kb.LinUCB._declared["regularization"], "type", ValueType(lambda value: value if value == 1.0 else check(value))
    )

    clone, change = change_outcomes("policies.LinUCB", {"regularization": "text"})

    assert clone.call.startswith("policies.LinUCB.clone")
    assert change.call.startswith("policies.LinUCB.set_params")


def test_a_raw_error_in_use_would_be_counted(monkeypatch):
    monkeypatch.setattr(Gaussian, "__post_init__", lambda _self: None)

    assert outcome("kernels.Gaussian", {"length_scale": "text"}).call.startswith("use of kernels.Gaussian")


def test_a_rejected_call_that_moves_the_policy_would_be_counted(monkeypatch):
    learn = kb.KernelUCB.learn

    def learn_and_refuse(self, decision, reward):
        learn(self, decision, reward if isfinite(reward) else 0.5)
        if not isfinite(reward):
            raise InvalidParameter("refused, too late")

    monkeypatch.setattr(kb.KernelUCB, "learn", learn_and_refuse)

    (error,) = method_outcome("policies.KernelUCB", "learn", "reward", "nan")

    assert "has moved the policy" in error.error


def test_every_policy_is_among_those_whose_methods_are_called():
    policies = {
        name for name in TARGETS if isinstance(callable_of(name), type) and issubclass(callable_of(name), kb.Policy)
    }

    assert policies == set(POLICIES)


def test_every_parameter_meets_every_odd_value():
    calls = list(argument_calls(None, 0, SEED))

    met = {odd["length_scale"] for name, odd in calls if name == "kernels.Gaussian"}
    parameters = {parameter for name, odd in calls for parameter in odd if name == "policies.SupKernelUCB"}
    assert met == set(ODD)
    assert parameters == set(parameters_of("policies.SupKernelUCB"))
