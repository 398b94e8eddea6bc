import copy
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from numpy.testing import assert_allclose

from kernelbandits.errors import InvalidParameter
from kernelbandits.kernels import Spectrum, ngrams
from kernelbandits.kernels.ngrams import NgramIndex, ngram_lengths

WORDS = [f"word-{number:x}-{number * 7919:b}" for number in range(300)]


def counts(numbers, counts):
    return counts


@pytest.mark.parametrize(("n", "expected"), [(3, (3, 3)), ((2, 5), (2, 5)), ([1, 1], (1, 1)), (np.int64(2), (2, 2))])
def test_lengths_are_one_number_or_a_range(n, expected):
    assert ngram_lengths(n) == expected


@pytest.mark.parametrize(
    ("n", "message"),
    [
        (0, "The length n of n-grams has to be"),
        (2.5, "The length n of n-grams has to be"),
        ("3", "The length n of n-grams has to be"),
        ((3, 2), r"n has to be a whole number or \(shortest, longest\), as in \(2, 5\), got \(3, 2\)"),
        ((1, 2, 3), r"n has to be a whole number or \(shortest, longest\)"),
        ((0, 2), "The shortest n-gram has to be"),
        ((1, True), "The longest n-gram has to be"),
    ],
)
def test_lengths_are_checked(n, message):
    with pytest.raises(InvalidParameter, match=message):
        ngram_lengths(n)


def test_no_string_is_cut_up_twice(monkeypatch):
    cut = []
    monkeypatch.setattr(ngrams, "ngrams", lambda text, *_: cut.append(text) or [text])
    index = NgramIndex(2, 2)

    index.bags(["ab", "bc", "ab"], ["bc", "cd"], weigh=counts)
    index.bags(["cd", "ab"], weigh=counts)

    assert cut == ["ab", "bc", "cd"]


@pytest.mark.parametrize(("limit", "value"), [("VOCABULARY", 20), ("REMEMBERED", 50), ("REMEMBERED", 0)])
def test_forgetting_changes_no_answer(monkeypatch, limit, value):
    expected = Spectrum(n=(2, 3)).gram(WORDS[:40], WORDS[20:80])
    monkeypatch.setattr(ngrams, limit, value)
    kernel = Spectrum(n=(2, 3))

    for start in range(0, 300, 30):
        kernel.gram(WORDS[start : start + 30])

    assert_allclose(kernel.gram(WORDS[:40], WORDS[20:80]), expected)


def test_what_is_remembered_stays_within_its_bound(monkeypatch):
    monkeypatch.setattr(ngrams, "REMEMBERED", 500)
    monkeypatch.setattr(ngrams, "VOCABULARY", 400)
    index = NgramIndex(2, 3)

    for word in WORDS:
        index.bags([word], weigh=counts)

    assert index._size == sum(len(numbers) for numbers, _ in index._bags.values()) < 500 + 100
    assert len(index._numbers) < 400 + 100


def test_threads_may_share_a_kernel():
    expected = Spectrum(n=(2, 4)).gram(WORDS)
    shared = Spectrum(n=(2, 4))

    with ThreadPoolExecutor(4) as pool:
        grams = list(pool.map(lambda start: shared.gram(WORDS[start:] + WORDS[:start]), range(0, 40, 10)))

    for start, gram in zip(range(0, 40, 10), grams, strict=True):
        assert_allclose(np.roll(gram, (start, start), axis=(0, 1)), expected)


@pytest.mark.parametrize("duplicate", [copy.deepcopy, copy.copy, lambda kernel: pickle.loads(pickle.dumps(kernel))])
def test_copies_of_a_kernel_start_with_an_empty_memory(duplicate):
    kernel = Spectrum(n=2)
    kernel.gram(WORDS[:5])

    other = duplicate(kernel)

    assert other == kernel
    assert_allclose(other.gram(WORDS[:9]), kernel.gram(WORDS[:9]))
