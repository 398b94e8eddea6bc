import numpy as np
import pytest
from numpy.testing import assert_allclose

from kernelbandits.errors import InvalidContexts, NotSupported
from kernelbandits.kernels import (
    Gaussian,
    Kernel,
    Linear,
    PairPoints,
    PairProduct,
    PairSum,
    Polynomial,
    Rows,
    Spectrum,
    Strings,
)
from kernelbandits.types import Pairs

CONTEXTS = np.random.default_rng(0).normal(size=(3, 2))
ACTIONS = ["boat", "coat", "goats"]
CONTEXT_KERNEL, ACTION_KERNEL = Gaussian(length_scale=1.7), Spectrum(n=2, normalized=False)
COMBINED = {PairProduct: np.multiply, PairSum: np.add}
KIND = PairPoints(Rows(), Strings())


def learned_pairs():
    """Each pair with a context of its own, as a history has them."""
    first, second = (
        KIND.check(Pairs(context, [action])) for context, action in zip(CONTEXTS[:2], ACTIONS[:2], strict=True)
    )
    return KIND.stack(first, second)


def slowly(combine, first, second):
    """One pair of pairs at a time."""
    return np.array([[combine(CONTEXT_KERNEL.gram([c], [d])[0, 0], ACTION_KERNEL.gram([a], [b])[0, 0])
                      for d, b in second] for c, a in first])  # fmt: skip


@pytest.mark.parametrize("kernel_type", COMBINED)
def test_gram_combines_both_halves(kernel_type):
    kernel = kernel_type(CONTEXT_KERNEL, ACTION_KERNEL)
    learned = [(CONTEXTS[0], "boat"), (CONTEXTS[1], "coat")]
    shown = [(CONTEXTS[2], action) for action in ACTIONS]

    gram = kernel.gram(learned_pairs(), Pairs(CONTEXTS[2], ACTIONS))

    assert_allclose(gram, slowly(COMBINED[kernel_type], learned, shown))
    assert_allclose(kernel.gram(Pairs(CONTEXTS[2], ACTIONS), learned_pairs()), gram.T)
    assert_allclose(kernel.gram(learned_pairs()), slowly(COMBINED[kernel_type], learned, learned))
    assert_allclose(kernel.gram(Pairs(CONTEXTS[2], ACTIONS)), slowly(COMBINED[kernel_type], shown, shown))
    assert_allclose(kernel.diagonal(learned_pairs()), np.diagonal(slowly(COMBINED[kernel_type], learned, learned)))
    assert_allclose(
        kernel.diagonal(Pairs(CONTEXTS[2], ACTIONS)), np.diagonal(slowly(COMBINED[kernel_type], shown, shown))
    )


class Counting(Kernel):
    """A linear kernel that notes how many rows it was shown."""

    def __init__(self):
        self.shapes = []

    def gram(self, first, second=None):
        second = first if second is None else second
        self.shapes.append((len(first), len(second)))
        return Linear().gram(first, second)

    def diagonal(self, points):
        self.shapes.append((len(points),))
        return Linear().diagonal(points)


@pytest.mark.parametrize("kernel_type", COMBINED)
def test_a_shared_context_is_compared_once(kernel_type):
    counting = Counting()
    kernel = kernel_type(counting, ACTION_KERNEL)

    kernel.gram(learned_pairs(), Pairs(CONTEXTS[2], ACTIONS))
    kernel.gram(Pairs(CONTEXTS[0], ACTIONS), Pairs(CONTEXTS[2], ACTIONS))
    kernel.gram(Pairs(CONTEXTS[0], ACTIONS))
    kernel.diagonal(Pairs(CONTEXTS[0], ACTIONS))

    assert counting.shapes == [(2, 1), (1, 1), (1, 1), (1,)]


@pytest.mark.parametrize(("kernel_type", "size"), [(PairProduct, 2 * 6), (PairSum, 2 + 6)])
def test_features_are_there_when_both_halves_have_them(kernel_type, size):
    kernel = kernel_type(Linear(), Polynomial(degree=2, offset=0.3))
    pairs = Pairs(CONTEXTS[0], CONTEXTS)

    features = kernel.features(pairs)

    assert kernel.n_features(pairs) == size
    assert features.shape == (3, size)
    assert_allclose(features @ features.T, kernel.gram(pairs))


@pytest.mark.parametrize("kernel_type", COMBINED)
def test_features_are_missing_when_one_half_has_none(kernel_type):
    kernel = kernel_type(Linear(), ACTION_KERNEL)

    assert kernel.n_features(Pairs(CONTEXTS[0], ACTIONS)) is None
    with pytest.raises(NotSupported, match="Spectrum has no finite feature map"):
        kernel.features(Pairs(CONTEXTS[0], ACTIONS))


def test_the_kind_is_made_of_both_halves():
    kind = PairProduct(CONTEXT_KERNEL, ACTION_KERNEL).kind

    assert kind == KIND
    assert hash(kind) == hash(KIND)
    assert kind != PairPoints(Strings(), Rows())
    assert kind.describe() == {"context": "Rows", "action": "Strings"}
    assert repr(kind) == "PairPoints(Rows(), Strings())"


@pytest.mark.parametrize("points", [CONTEXTS, ("context", ACTIONS), None])
def test_a_round_of_pairs_is_given_as_pairs(points):
    with pytest.raises(
        InvalidContexts, match=r"compares \(context, action\) pairs, got .*kb.Pairs\(context, actions\)"
    ):
        PairSum(CONTEXT_KERNEL, ACTION_KERNEL).gram(points)


def test_one_pair_is_a_pair():
    with pytest.raises(InvalidContexts, match=r"A pair is kb.Pairs\(context, action\), got str"):
        KIND.as_collection("boat")


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        (Pairs([1.0, np.nan], ACTIONS), "row 0 holds NaN"),
        (Pairs([1.0, 2.0], "boat"), "Contexts must be a sequence"),
        (Pairs([1.0, 2.0], []), "at least one context"),
        (Pairs(CONTEXTS, ACTIONS), "One context is one row, got 3 rows"),
    ],
)
def test_each_half_is_checked_by_its_kind(pairs, message):
    with pytest.raises(InvalidContexts, match=message):
        KIND.check(pairs)


def test_one_pair_reads_as_it_was_written():
    pair = KIND.one(KIND.check(Pairs([1.0, 2.0], ACTIONS)), 1)

    assert pair.context.tolist() == [1.0, 2.0]
    assert pair.actions == "coat"
