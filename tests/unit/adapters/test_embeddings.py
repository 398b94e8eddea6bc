import copy
import os
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scipy.sparse import csr_array

import kernelbandits as kb
from kernelbandits.adapters import CachedEncoder
from kernelbandits.errors import InvalidContexts, InvalidParameter
from kernelbandits.kernels import Gaussian


class Encoder:
    """Letters are counted; every call is recorded."""

    def __init__(self):
        self.calls = []

    def encode(self, texts):
        self.calls.append(list(texts))
        return np.array([[text.count(letter) for letter in "abc"] for text in texts], dtype=np.float32)


def test_rows_are_those_of_the_encoder():
    encoder, texts = CachedEncoder(Encoder()), ["abba", "cab", "", "abba"]

    rows = encoder(texts)

    assert rows.dtype == np.float64
    np.testing.assert_array_equal(rows, Encoder().encode(texts))
    np.testing.assert_array_equal(encoder.one("cab"), [1, 1, 1])


def test_a_text_is_encoded_once_and_missing_ones_together():
    inner = Encoder()
    encoder = CachedEncoder(inner)

    encoder(["a", "b", "a"])
    encoder(["b", "c", "d"])

    assert inner.calls == [["a", "b"], ["c", "d"]]
    assert (encoder.n_encoded, len(encoder)) == (4, 4)


def test_the_text_used_longest_ago_is_dropped():
    inner = Encoder()
    encoder = CachedEncoder(inner, size=2)
    encoder(["a", "b"])
    encoder(["a"])

    encoder(["c"])
    encoder(["a"])
    rows = encoder(["b", "a", "c", "abc"])  # more than are kept

    assert inner.calls == [["a", "b"], ["c"], ["b", "abc"]]
    np.testing.assert_array_equal(rows, Encoder().encode(["b", "a", "c", "abc"]))
    assert len(encoder) == 2
    assert repr(encoder) == "CachedEncoder(2 of 2 texts)"


def test_nothing_is_kept_with_size_zero():
    inner = Encoder()
    encoder = CachedEncoder(inner, size=0)

    for _ in range(2):
        np.testing.assert_array_equal(encoder(["ab", "ab"]), [[1, 1, 0]] * 2)

    assert inner.calls == [["ab"], ["ab"]]


def test_a_change_of_the_answer_changes_nothing_that_is_kept():
    encoder = CachedEncoder(Encoder())
    encoder(["abc"])[:] = 7.0
    encoder.one("abc")[:] = 7.0

    np.testing.assert_array_equal(encoder.one("abc"), [1, 1, 1])


def test_rows_of_length_one():
    encoder = CachedEncoder(Encoder(), normalized=True)

    rows = encoder(["aab", "x"])

    np.testing.assert_allclose(rows, [[2 / np.sqrt(5), 1 / np.sqrt(5), 0], [0, 0, 0]])


def test_functions_and_vectorizers_are_encoders():
    class Vectorizer:
        def transform(self, texts):
            return csr_array(Encoder().encode(texts))

    for encoder in (Vectorizer(), Encoder().encode, lambda texts: Encoder().encode(texts).tolist()):
        np.testing.assert_array_equal(CachedEncoder(encoder)(["aac"]), [[2, 0, 1]])


@pytest.mark.parametrize(
    ("rows", "match"),
    [
        (lambda texts: [1.0] * len(texts), "shape"),
        (lambda texts: np.ones((len(texts) + 1, 2)), r"\(2\), got shape \(3, 2\)"),
        (lambda texts: np.full((len(texts), 2), np.nan), "NaN or infinite"),
        (lambda texts: [["x"]] * len(texts), "one row of numbers"),
        (lambda texts: [[1.0], [1.0, 2.0]], "one row of numbers"),
        (lambda texts: [[10**400]] * len(texts), "one row of numbers"),
        (lambda texts: [[1j]] * len(texts), "real numbers"),
        (lambda texts: csr_array((len(texts), 2**40)), "at most"),
    ],
)
def test_anything_but_a_row_is_rejected_and_not_kept(rows, match):
    encoder = CachedEncoder(rows)

    with pytest.raises(InvalidContexts, match=match):
        encoder(["a", "b"])

    assert len(encoder) == 0


def test_rows_of_another_length_are_rejected():
    encoder = CachedEncoder(lambda texts: np.ones((len(texts), len(texts))))
    encoder(["a"])

    with pytest.raises(InvalidContexts, match="2 columns after 1"):
        encoder(["b", "c"])

    np.testing.assert_array_equal(encoder(["a"]), [[1.0]])


def test_a_failing_encoder_leaves_what_is_kept():
    def failing(texts):
        if "b" in texts:
            raise ConnectionError("no answer")
        return np.ones((len(texts), 1))

    encoder = CachedEncoder(failing)
    encoder(["a"])

    with pytest.raises(ConnectionError):
        encoder(["a", "b"])

    assert len(encoder) == 1


def test_arguments_are_checked():
    for wrong in (Encoder, 3, None, "all-MiniLM"):
        with pytest.raises(InvalidParameter, match="An encoder is a function"):
            CachedEncoder(wrong)
    with pytest.raises(InvalidParameter, match="number of kept embeddings"):
        CachedEncoder(Encoder(), size=-1)
    with pytest.raises(InvalidParameter, match="normalized"):
        CachedEncoder(Encoder(), normalized="yes")
    with pytest.raises(InvalidContexts, match=r"takes texts, got float: 1.5\. Rows of numbers need no encoder"):
        CachedEncoder(Encoder())([1.5])
    with pytest.raises(InvalidContexts, match=r"takes texts, got ndarray.* need no encoder"):
        CachedEncoder(Encoder())(np.eye(2))
    with pytest.raises(InvalidContexts, match=r"takes a list of texts, got str\. One text: encoder.one"):
        CachedEncoder(Encoder())("one prompt")
    with pytest.raises(InvalidContexts, match="at least one text"):
        CachedEncoder(Encoder())([])


def test_threads_agree():
    encoder, texts = CachedEncoder(Encoder(), size=20), ["a" * (n % 37) + "b" for n in range(400)]

    with ThreadPoolExecutor(8) as pool:
        rows = list(pool.map(encoder.one, texts))

    np.testing.assert_array_equal(rows, Encoder().encode(texts))
    assert len(encoder) == 20


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda encoder: pickle.loads(pickle.dumps(encoder))])
def test_a_copy_is_independent(copied):
    encoder = CachedEncoder(Encoder())
    encoder(["a"])

    other = copied(encoder)
    other(["b"])

    assert (len(encoder), len(other)) == (1, 2)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_process_that_is_forked_while_another_thread_looks_up_goes_on():
    code = """
import os, signal, threading
from kernelbandits.adapters import CachedEncoder
encoder = CachedEncoder(lambda texts: [[len(text)] for text in texts])
encoder(["a"])
held, done = threading.Event(), threading.Event()
def hold():
    with encoder._guard.lock:
        held.set()
        done.wait()
threading.Thread(target=hold).start()
held.wait()
child = os.fork()
if not child:
    signal.alarm(200)  # it would wait for ever
    os._exit(int(encoder(["a", "abc"])[1, 0]))
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
done.set()
"""
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, timeout=300, check=True
    )

    assert run.stdout == "3\n"


def test_embeddings_are_rows_of_a_policy():
    encoder = CachedEncoder(Encoder(), normalized=True)
    policy = kb.KernelUCB(Gaussian(length_scale=0.5))
    for _ in range(3):
        policy.learn(policy.choose(encoder(["aab", "ccc"])), 0.5)

    assert encoder.n_encoded == 2
