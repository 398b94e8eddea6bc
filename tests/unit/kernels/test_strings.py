import copy
import json
from collections import Counter
from math import exp, log, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.feature_extraction.text import TfidfVectorizer

import kernelbandits as kb
from kernelbandits.errors import InvalidContexts, InvalidParameter
from kernelbandits.kernels import Positionwise, Spectrum, TfIdf

TEXTS = ["banana", "bandana", "ananas", "Straße", "nab", "", "an"]
CORPUS = ["/news/politics/2024", "/news/sport", "/shop/shoes?id=7", "/shop/hats", "a"]
STRANGE = ["\ud800\udfff", "\ud800", "\x00\x00\x00", "e\u0301é", "🦆🦆🦆", " \t\n "]
ANY_TEXT = st.text(st.characters(), max_size=8)


def ngram_counts(text, shortest, longest):
    return Counter(text[i : i + n] for n in range(shortest, longest + 1) for i in range(len(text) - n + 1))


def inner(x, z):
    return sum(x[ngram] * z[ngram] for ngram in x if ngram in z)


def cosine(x, z):
    lengths = sqrt(inner(x, x) * inner(z, z))
    return inner(x, z) / lengths if lengths else 0.0


@pytest.mark.parametrize("n", [1, 2, 3, (1, 3), (2, 5)])
@pytest.mark.parametrize("normalized", [True, False])
def test_the_spectrum_is_the_inner_product_of_ngram_counts(n, normalized):
    kernel = Spectrum(n=n, normalized=normalized)
    vectors = [ngram_counts(text, *(n if isinstance(n, tuple) else (n, n))) for text in TEXTS]
    similarity = cosine if normalized else inner

    gram = kernel.gram(TEXTS, TEXTS[2:])

    assert_allclose(gram, [[similarity(x, z) for z in vectors[2:]] for x in vectors], atol=1e-15)
    assert_allclose(kernel.diagonal(TEXTS), [similarity(x, x) for x in vectors])


def test_a_string_without_ngrams_is_similar_to_nothing():
    kernel = Spectrum(n=3)

    assert_allclose(kernel.gram(["ab", "", "abc"]), np.diag([0.0, 0.0, 1.0]))
    assert_allclose(kernel.diagonal(["ab", "", "abc"]), [0.0, 0.0, 1.0])


@pytest.mark.parametrize("kernel", [Spectrum(n=1), Spectrum(n=(1, 3), normalized=False), TfIdf(STRANGE, n=(1, 2))])
def test_any_characters_can_be_compared(kernel):
    gram = kernel.gram(STRANGE)

    assert np.isfinite(gram).all()
    assert_allclose(np.diagonal(gram), kernel.diagonal(STRANGE))


@given(st.lists(ANY_TEXT, min_size=1, max_size=4), st.lists(ANY_TEXT, min_size=1, max_size=4))
def test_the_spectrum_of_any_strings_is_that_of_the_definition(first, second):
    gram = Spectrum(n=(1, 2)).gram(first, second)

    expected = [[cosine(ngram_counts(x, 1, 2), ngram_counts(z, 1, 2)) for z in second] for x in first]
    assert_allclose(gram, expected, atol=1e-14)


def test_the_spectrum_describes_its_lengths():
    assert Spectrum().describe() == {"class": "Spectrum", "n": 3, "normalized": True}
    assert Spectrum(n=[2, 4]).describe()["n"] == [2, 4]
    assert Spectrum(n=[2, 4]) == Spectrum(n=(2, 4)) != Spectrum(n=2)


def weighted(text, corpus, shortest, longest):
    holders = Counter(ngram for document in corpus for ngram in ngram_counts(document, shortest, longest))
    return {
        ngram: count * (log((1 + len(corpus)) / (1 + holders[ngram])) + 1)
        for ngram, count in ngram_counts(text, shortest, longest).items()
    }


@pytest.mark.parametrize("n", [(2, 5), (1, 2), 3])
def test_tf_idf_is_the_cosine_of_weighted_ngrams(n):
    shortest, longest = n if isinstance(n, tuple) else (n, n)
    texts = [*CORPUS, "/news/weather", "quite new", "", "q"]
    vectors = [weighted(text, CORPUS, shortest, longest) for text in texts]
    kernel = TfIdf(CORPUS, n=n)

    gram = kernel.gram(texts, texts[3:])

    assert_allclose(gram, [[cosine(x, z) for z in vectors[3:]] for x in vectors], atol=1e-15)
    assert_allclose(kernel.diagonal(texts), [cosine(x, x) for x in vectors])


def test_tf_idf_agrees_with_scikit_learn_where_the_corpus_holds_every_ngram():
    texts = ["/news/sport", "/shop/shoes", "/shop/", "news/politics"]  # parts of the documents
    vectors = TfidfVectorizer(analyzer="char", ngram_range=(2, 5)).fit(CORPUS).transform(texts)

    assert_allclose(TfIdf(CORPUS, n=(2, 5)).gram(texts), (vectors @ vectors.T).toarray(), rtol=1e-12)


def test_a_string_the_corpus_has_not_seen_is_like_itself():
    kernel = TfIdf(["abc"], n=2)

    assert_allclose(
        kernel.gram(["xyz", "xyzzy"], ["xyz"]),
        [[1.0], [cosine(Counter(["xy", "yz"]), Counter(["xy", "yz", "zz", "zy"]))]],
    )
    assert_allclose(kernel.diagonal(["xyz"]), [1.0])


def test_tf_idf_is_equal_by_what_it_knows():
    kernel = TfIdf(CORPUS)

    assert kernel == TfIdf(CORPUS[::-1])
    assert hash(kernel) == hash(TfIdf(CORPUS[::-1]))
    assert kernel != TfIdf(CORPUS, n=(2, 4))
    assert kernel != TfIdf([*CORPUS, "a"])
    assert kernel != TfIdf([*CORPUS[:-1], "zz"])
    assert kernel != "TfIdf"
    assert copy.deepcopy(kernel) == kernel


def test_tf_idf_does_not_show_its_corpus():
    kernel = TfIdf(CORPUS)

    described = kernel.describe()

    assert described["n_documents"] == 5
    assert described["n"] == [2, 5]
    assert len(described["digest"]) == 64
    assert len(json.dumps(described)) < 200
    assert repr(kernel) == "TfIdf(n=(2, 5), n_documents=5, analyzer='char', lowercase=False)"


def test_tf_idf_survives_packing():
    kernel = TfIdf([*CORPUS, *STRANGE], n=(1, 3))
    parameters, arrays = kernel.pack()

    loaded = TfIdf.unpack(json.loads(json.dumps(parameters)), arrays)

    assert loaded == kernel
    assert np.array_equal(loaded.gram(CORPUS, STRANGE), kernel.gram(CORPUS, STRANGE))


def test_tf_idf_is_frozen():
    with pytest.raises(AttributeError):
        TfIdf(CORPUS).n = (1, 1)


@pytest.mark.parametrize(
    ("corpus", "message"),
    [
        ("one string", "The corpus must be a sequence of strings. Contexts must be a sequence"),
        ([], "The corpus must be a sequence of strings. There must be at least one"),
        (["a", 3], "The corpus must be a sequence of strings. This kernel compares strings, got int"),
    ],
)
def test_a_corpus_is_some_strings(corpus, message):
    with pytest.raises(InvalidParameter, match=message):
        TfIdf(corpus)


@pytest.mark.parametrize("length_scale", [0.4, 2.5])
def test_positionwise_counts_positions_that_differ(length_scale):
    codes = ["abcd", "abcx", "axcx", "dcba", "\x00bc\ud800", "abc🦆"]
    kernel = Positionwise(length_scale=length_scale)

    gram = kernel.gram(codes, codes[1:])

    expected = [[exp(-sum(a != b for a, b in zip(x, z, strict=True)) / (2 * length_scale**2)) for z in codes[1:]]
                for x in codes]  # fmt: skip
    assert_allclose(gram, expected)
    assert_allclose(kernel.diagonal(codes), np.ones(6))


def test_empty_codes_are_alike():
    assert_allclose(Positionwise(length_scale=1.0).gram(["", ""]), np.ones((2, 2)))
    assert Positionwise(length_scale=1.0).gram([], ["ab"]).shape == (0, 1)


@pytest.mark.parametrize(("first", "second"), [(["abc", "ab"], None), (["abc"], ["ab"]), (["ab"], ["ab", "abc"])])
def test_codes_of_different_lengths_are_rejected(first, second):
    with pytest.raises(InvalidContexts, match=r"only when they are equally long, got \d and \d characters. Pad them"):
        Positionwise(length_scale=1.0).gram(first, second)


def test_a_length_scale_of_positions_is_positive():
    with pytest.raises(InvalidParameter, match="The length scale must be a finite number above zero"):
        Positionwise(length_scale=0.0)


# -- words and case ----------------------------------------------------------------------------------------------------

SENTENCES = [
    "Cheap flights to Rome",
    "cheap FLIGHTS, to Oslo!",
    "flights flights",
    "STRASSE Straße straße",
    "\u0130stanbul istanbul",
    "今日は 良い 天気",
    "naïve naïve_2 na-ive",
    "... !?",
    "",
    " \t\n ",
    "one",
    "🦆 duck 🦆",
]


def words_of(text, shortest, longest, lowercase):
    """The definition: runs of word characters, found one character at a time."""
    text, found, word = text.lower() if lowercase else text, [], ""
    for character in text + " ":
        if character == "_" or character.isalnum():
            word += character
        elif word:
            found.append(word)
            word = ""
    sizes = range(shortest, longest + 1)
    return Counter(" ".join(found[i : i + n]) for n in sizes for i in range(len(found) - n + 1))


@pytest.mark.parametrize("lowercase", [True, False])
@pytest.mark.parametrize("n", [1, 2, (1, 3)])
@pytest.mark.parametrize("normalized", [True, False])
def test_the_spectrum_of_words_is_the_inner_product_of_their_counts(n, normalized, lowercase):
    kernel = Spectrum(n=n, normalized=normalized, analyzer="word", lowercase=lowercase)
    lengths = n if isinstance(n, tuple) else (n, n)
    vectors = [words_of(text, *lengths, lowercase) for text in SENTENCES]
    similarity = cosine if normalized else inner

    assert_allclose(
        kernel.gram(SENTENCES, SENTENCES[1:]), [[similarity(x, z) for z in vectors[1:]] for x in vectors], atol=1e-15
    )
    assert_allclose(kernel.diagonal(SENTENCES), [similarity(x, x) for x in vectors])


@given(st.lists(ANY_TEXT, min_size=1, max_size=4), st.sampled_from(["char", "word"]), st.booleans())
def test_any_text_has_a_case_and_words(texts, analyzer, lowercase):
    kernel = Spectrum(n=(1, 2), analyzer=analyzer, lowercase=lowercase, normalized=False)
    gram = kernel.gram(texts)
    assert_allclose(np.diagonal(gram), kernel.diagonal(texts))
    if lowercase:
        plain = Spectrum(n=(1, 2), analyzer=analyzer, normalized=False)
        assert_allclose(gram, plain.gram([text.lower() for text in texts]))


@pytest.mark.parametrize("analyzer", ["char", "word"])
@pytest.mark.parametrize("lowercase", [True, False])
def test_tf_idf_is_that_of_scikit_learn(analyzer, lowercase):
    corpus, n = SENTENCES[:7], (1, 2)
    pattern = {"token_pattern": r"(?u)\w+"} if analyzer == "word" else {}
    peer = TfidfVectorizer(analyzer=analyzer, ngram_range=n, lowercase=lowercase, **pattern).fit(corpus)
    kernel = TfIdf(corpus, n=n, analyzer=analyzer, lowercase=lowercase)

    rows = peer.transform(corpus).toarray()

    texts = [" ".join(text.split()) if analyzer == "char" else text for text in corpus]  # scikit-learn does this
    assert_allclose(TfIdf(texts, n=n, analyzer=analyzer, lowercase=lowercase).gram(texts), rows @ rows.T, atol=1e-12)
    assert kernel.analyzer == analyzer
    new = TfIdf(texts, n=n, analyzer=analyzer, lowercase=lowercase).gram(["Rome rome novel", ""])
    assert_allclose(np.diagonal(new), [1.0, 0.0])


def test_case_matters_unless_it_is_said_otherwise():
    for make in (Spectrum, lambda **options: TfIdf(["rome", "Rome"], **options)):
        for analyzer in ("char", "word"):
            assert make(analyzer=analyzer).gram(["ROME"], ["rome"])[0, 0] == 0.0
            assert make(analyzer=analyzer, lowercase=True).gram(["ROME"], ["rome"])[0, 0] == pytest.approx(1.0)
    assert Positionwise(length_scale=1.0).gram(["a"], ["A"])[0, 0] < 1.0


def test_usual_lengths_depend_on_the_analyzer():
    assert (Spectrum().n, Spectrum(analyzer="word").n) == (3, 1)
    assert (TfIdf(["ab"]).n, TfIdf(["ab"], analyzer="word").n) == ((2, 5), (1, 2))
    assert Spectrum() == Spectrum(n=3, lowercase=False)
    assert Spectrum() != Spectrum(lowercase=True)
    assert TfIdf(["a b"], n=1) != TfIdf(["a b"], n=1, lowercase=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"analyzer": "words"}, "The analyzer must be 'char' or 'word', got 'words'"),
        ({"analyzer": None}, "The analyzer must be 'char' or 'word'"),
        ({"lowercase": "yes"}, "`lowercase`"),
    ],
)
def test_analyzers_are_checked(options, message):
    for make in (Spectrum, lambda **given: TfIdf(["a"], **given)):
        with pytest.raises(InvalidParameter, match=message):
            make(**options)


@pytest.mark.parametrize("options", [{}, {"analyzer": "word", "lowercase": True}])
def test_a_file_holds_the_analyzer(options, tmp_path):
    for kernel in (Spectrum(**options), TfIdf(SENTENCES, **options)):
        policy = kb.KernelUCB(kernel)
        policy.learn(policy.choose(SENTENCES), 0.5)
        policy.save(tmp_path / "policy")
        opened = kb.load(tmp_path / "policy")
        assert opened.kernel == kernel
        assert opened.kernel.describe() == kernel.describe()
        assert {"analyzer", "lowercase"} <= kernel.pack()[0].keys()
        assert ("analyzer" in kernel.describe()) == bool(options)  # its absence means characters
        assert_allclose(opened.kernel.gram(SENTENCES), kernel.gram(SENTENCES))
        assert copy.deepcopy(kernel) == kernel
