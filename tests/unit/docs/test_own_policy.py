"""The policy of the guide keeps every promise: its contract is run as it stands on the page."""

import doctest
from pathlib import Path

import pytest

from kernelbandits.testing import PolicyContract

PAGE = Path(__file__).parents[3] / "docs" / "guides" / "own-policy.md"


def names_of_page():
    """Names that the page defines; only what defines something is run."""
    names = {"__name__": "own_policy"}
    for example in doctest.DocTestParser().get_examples(PAGE.read_text(encoding="utf-8")):
        if example.source.startswith(("import ", "from ", "class ")):
            exec(example.source, names)
    return names


NAMES = names_of_page()


class TestContractOfThePage(NAMES["TestKernelAverage"]):
    pass


def test_the_page_shows_a_contract():
    assert issubclass(NAMES["TestKernelAverage"], PolicyContract)
    assert NAMES["TestKernelAverage"].own_classes == (NAMES["KernelAverage"],)


class Forgetful(NAMES["KernelAverage"]):
    """Leaves what it tried out of the file."""

    def _state(self):
        return {"tried": {}, "paid": []}


def test_a_class_that_breaks_a_promise_fails(tmp_path):
    contract = NAMES["TestKernelAverage"]()
    contract.own_classes = (Forgetful,)
    kernel = NAMES["kb"].kernels.Gaussian(length_scale=0.7)

    with pytest.raises(AssertionError):
        contract.test_a_saved_policy_goes_on_where_it_was(
            lambda: Forgetful(kernel, epsilon=0.2, seed=5), lambda rng, n: rng.normal(size=(n, 3)), tmp_path
        )
