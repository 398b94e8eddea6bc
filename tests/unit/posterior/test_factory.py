import json
from functools import partial

import numpy as np
import pytest

from kernelbandits.errors import ForeignFile, InvalidParameter
from kernelbandits.kernels import Linear
from kernelbandits.posterior import (
    AutoPosterior,
    ExactPosterior,
    ForgettingPosterior,
    LowRankPosterior,
    PrimalPosterior,
    WindowedPosterior,
    describe_posterior,
    posterior_factory,
    posterior_from,
)


@pytest.mark.parametrize(
    ("name", "form", "options"),
    [
        ("auto", AutoPosterior, {}),
        ("exact", ExactPosterior, {}),
        ("primal", PrimalPosterior, {}),
        ("windowed", WindowedPosterior, {"length": 7}),
        ("forgetting", ForgettingPosterior, {"rate": 0.9}),
    ],
)
def test_names_make_posteriors(name, form, options):
    posterior = posterior_factory(name, **options)(Linear(), 0.25)

    assert isinstance(posterior, form)
    assert posterior.regularization == 0.25
    assert {option: getattr(posterior, option) for option in options} == options


def test_a_function_is_taken_as_it_is():
    def own(kernel, regularization):
        return ExactPosterior(kernel, regularization=2 * regularization)

    assert posterior_factory(own)(Linear(), 1.0).regularization == 2.0


def test_another_name_is_rejected():
    with pytest.raises(InvalidParameter, match=r"one of 'auto', 'exact', .* or a function"):
        posterior_factory("best")


def test_a_named_factory_is_described_by_plain_values_and_made_again_from_them():
    factory = posterior_factory("windowed", length=np.int64(200))

    assert describe_posterior(posterior_factory("auto")) == "auto"
    assert json.dumps(describe_posterior(factory)) == '{"name": "windowed", "length": 200}'
    assert posterior_from(describe_posterior(factory)) == factory
    assert posterior_from("exact") == posterior_factory("exact")
    assert posterior_factory(factory) is factory


def test_of_a_function_only_the_name_is_known():
    assert describe_posterior(ExactPosterior) == {"function": "kernelbandits.posterior.exact.ExactPosterior"}
    first, second = (describe_posterior(partial(LowRankPosterior, tolerance=tolerance)) for tolerance in (1e-9, 1e-8))
    assert first == {"function": "partial of kernelbandits.posterior.low_rank.LowRankPosterior(tolerance=1e-09)"}
    assert first != second
    assert describe_posterior(point for point in ()) == {"function": "builtins.generator"}  # it has no module


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("windowed", {}, r"needs length, got none. Write posterior_factory\('windowed', length=200\)"),
        ("forgetting", {"length": 3}, "needs rate, got length"),
        ("auto", {"length": 3}, "takes budget or accuracy, got length"),
        ("exact", {"length": 3}, "takes no options, got length"),
        ("windowed", {"length": 0}, "at least 1, got 0"),
        ("windowed", {"length": 2.5}, "whole number"),
        ("forgetting", {"rate": 0.0}, "above 0 and be at most 1, got 0.0"),
        ("forgetting", {"rate": 1.5}, "above 0 and be at most 1, got 1.5"),
        ("forgetting", {"rate": float("nan")}, "above 0"),
        ("forgetting", {"rate": "much"}, "one number"),
        (ExactPosterior, {"length": 3}, "here is a function: length"),
    ],
)
def test_options_that_do_not_belong_are_rejected(name, options, message):
    with pytest.raises(InvalidParameter, match=message):
        posterior_factory(name, **options)


@pytest.mark.parametrize("description", ["best", {}, {"name": "windowed"}, {"function": "own"}])
def test_a_description_of_nothing_known_is_foreign(description):
    with pytest.raises(ForeignFile, match="posterior that is not known here"):
        posterior_from(description)
