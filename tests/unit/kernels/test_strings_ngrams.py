import copy
import pickle
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from numpy.testing import assert_allclose

from interrupts import interrupted_everywhere
from kernelbandits.errors import InvalidContexts, InvalidParameter
from kernelbandits.kernels import Spectrum, strings
from kernelbandits.kernels.strings import NgramIndex, Ngrams, ngram_lengths

WORDS = [f"word-{number:x}-{number * 7919:b}" for number in range(300)]


def counts(numbers, counts):
    return counts


@pytest.mark.parametrize(("n", "expected"), [(3, (3, 3)), ((2, 5), (2, 5)), ([1, 1], (1, 1)), (np.int64(2), (2, 2))])
def test_lengths_are_one_number_or_a_range(n, expected):
    assert ngram_lengths(n) == expected


@pytest.mark.parametrize(
    ("n", "message"),
    [
        (0, "The length n of n-grams must be"),
        (2.5, "The length n of n-grams must be"),
        ("3", "The length n of n-grams must be"),
        ((3, 2), r"n must be a whole number or \(shortest, longest\), as in \(2, 5\), got \(3, 2\)"),
        ((1, 2, 3), r"n must be a whole number or \(shortest, longest\)"),
        ((0, 2), "The shortest n-gram must be"),
        ((1, True), "The longest n-gram must be"),
    ],
)
def test_lengths_are_checked(n, message):
    with pytest.raises(InvalidParameter, match=message):
        ngram_lengths(n)


def test_no_string_is_cut_up_twice(monkeypatch):
    cut = []
    monkeypatch.setattr(strings.Ngrams, "of", lambda _, text: cut.append(text) or [text])
    index = NgramIndex(Ngrams(2, 2))

    index.bags(["ab", "bc", "ab"], ["bc", "cd"], weigh=counts)
    index.bags(["cd", "ab"], weigh=counts)

    assert cut == ["ab", "bc", "cd"]


@pytest.mark.parametrize("most_bytes", [0, 5_000, 50_000])
def test_forgetting_changes_no_answer(most_bytes):
    expected = Spectrum(n=(2, 3)).gram(WORDS[:40], WORDS[20:80])
    kernel = Spectrum(n=(2, 3))
    kernel._index.most_bytes = most_bytes

    for start in range(0, 300, 30):
        kernel.gram(WORDS[start : start + 30])

    assert_allclose(kernel.gram(WORDS[:40], WORDS[20:80]), expected)


TEXTS = {
    "short": ({"n": 3}, lambda number: f"{number:x}"),
    "too short for an n-gram": ({"n": 9}, lambda number: f"{number:x}"),
    "one character": ({"n": 1}, lambda number: chr(0x10000 + number)),
    "long": ({"n": (2, 5)}, lambda number: f"{number * 7919:032b}" * 2 + str(number)),
    "words": ({"analyzer": "word", "n": (1, 2)}, lambda number: f"word{number * 7919:x} " * 3 + f"{number:b}" * 9),
    "long words": ({"analyzer": "word"}, lambda number: f"\u4e2d{number:b}" * 40 + " the same"),
    "unicode": ({"n": (2, 5)}, lambda number: f"\u00e9{number * 7919:x}\u4e2d" * 4),
}


@pytest.mark.parametrize("form", TEXTS)
def test_what_is_remembered_stays_within_its_bound(form):
    most, n_empty = most_memory(form, most_bytes=1_000_000)

    assert 600_000 < most < 1_020_000
    assert n_empty


def test_without_the_bound_memory_goes_on_growing():
    most, n_empty = most_memory("short")

    assert most > 2_000_000
    assert not n_empty


def most_memory(form, *, most_bytes=strings.MOST_BYTES):
    """Bytes that a kernel holds between two calls at most, and how often it started again."""
    parameters, make = TEXTS[form]
    kernel = Spectrum(**parameters)
    kernel._index.most_bytes = most_bytes
    kernel.gram([make(0)])
    most, n_empty, held = 0, 0, kernel._index._held
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for start in range(0, 1200 if form in ("long", "unicode") else 6000, 20):
            kernel.diagonal([make(number) for number in range(start, start + 20)])
            most = max(most, tracemalloc.get_traced_memory()[0] - before)
            n_empty, held = n_empty + (kernel._index._held is not held), kernel._index._held
    finally:
        tracemalloc.stop()
    return most, n_empty


def test_an_interrupt_changes_no_later_answer():
    expected = Spectrum(n=(2, 3)).gram(WORDS[:6])
    kernels = interrupted_everywhere(lambda: Spectrum(n=(2, 3)), lambda kernel: kernel.gram(WORDS[3:6]), step=3)

    assert all(np.allclose(kernel.gram(WORDS[:6]), expected, rtol=1e-12) for kernel in kernels)


@pytest.mark.parametrize("points", ["abc", [1], [["a"]], {"a"}, [None], 3, b"ab"])
def test_what_is_no_sequence_of_strings_is_rejected(points):
    with pytest.raises(InvalidContexts, match=r"strings|sequence"):
        Spectrum(n=2).gram(["ab"], points)
    with pytest.raises(InvalidContexts, match=r"strings|sequence"):
        Spectrum(n=2).diagonal(points)


def test_threads_may_share_a_kernel():
    expected = Spectrum(n=(2, 4)).gram(WORDS)
    shared = Spectrum(n=(2, 4))

    with ThreadPoolExecutor(4) as pool:
        grams = list(pool.map(lambda start: shared.gram(WORDS[start:] + WORDS[:start]), range(0, 40, 10)))

    for start, gram in zip(range(0, 40, 10), grams, strict=True):
        assert_allclose(np.roll(gram, (start, start), axis=(0, 1)), expected)


def test_a_copy_of_a_kernel_is_the_kernel():
    kernel = Spectrum(n=2)

    assert copy.copy(kernel) is copy.deepcopy(kernel) is kernel


def test_a_pickled_kernel_starts_with_an_empty_memory():
    kernel = Spectrum(n=2)
    kernel.gram(WORDS[:5])

    other = pickle.loads(pickle.dumps(kernel))

    assert other == kernel
    assert not other._index._held.bags
    assert_allclose(other.gram(WORDS[:9]), kernel.gram(WORDS[:9]))
