"""Whatever a kernel is given: an answer, or one of the library's own errors."""

import numpy as np
import pytest
from scipy.sparse import coo_array, csr_array

import kernelbandits as kb
from kernelbandits.errors import InvalidParameter, KernelBanditError, UnknownItem
from kernelbandits.kernels import (
    Constant,
    Cosine,
    Delta,
    Gaussian,
    Jaccard,
    LabeledLinear,
    Laplacian,
    Linear,
    Matern,
    PairProduct,
    PairSum,
    Polynomial,
    Positionwise,
    Precomputed,
    Rows,
    SimilarityTable,
    Spectrum,
    TfIdf,
)

PLANE = np.ones((2, 2))
TABLE = SimilarityTable(np.eye(3), ids=["a", "b", 2])
KERNELS = {
    "Gaussian": (Gaussian(length_scale=[1.0, 2.0]), PLANE),
    "Laplacian": (Laplacian(length_scale=1.0), PLANE),
    "Matern": (Matern(length_scale=1.0, smoothness=1.5), PLANE),
    "Linear": (Linear(), PLANE),
    "Polynomial": (Polynomial(degree=2), PLANE),
    "Cosine": (Cosine(), PLANE),
    "Constant": (Constant(2.0), PLANE),
    "Delta of rows": (Delta(kind=Rows()), PLANE),
    "sum": (Gaussian(length_scale=1.0) + 2.0 * Linear(), PLANE),
    "Spectrum": (Spectrum(n=2), ["ab", "cd"]),
    "TfIdf": (TfIdf(["ab", "bc"]), ["ab", "cd"]),
    "Positionwise": (Positionwise(length_scale=1.0), ["ab", "cd"]),
    "Jaccard": (Jaccard(), [{"a"}, {"b"}]),
    "Delta": (Delta(), ["a", "b"]),
    "Precomputed": (Precomputed(TABLE), ["a", "b"]),
    "PairProduct": (PairProduct(Gaussian(length_scale=1.0), Spectrum(n=2)), kb.Pairs([1.0, 2.0], ["ab", "cd"])),
    "PairSum": (PairSum(Gaussian(length_scale=1.0), Precomputed(TABLE)), kb.Pairs([1.0, 2.0], ["a", "b"])),
    "LabeledLinear": (LabeledLinear(), kb.Pairs("a", PLANE)),
}
WRONG = {
    "None": None,
    "a number": 2.5,
    "a string": "ab",
    "bytes": b"ab",
    "a set": {"a"},
    "a mapping": {"a": 1},
    "ragged rows": [[1.0], [1.0, 2.0]],
    "a list of None": [None],
    "nested lists": [[["a"]]],
    "objects": np.array([[1.0, "x"]], dtype=object),
    "masked": np.ma.masked_array(PLANE, mask=[[0, 1], [0, 0]]),
    "no axis": np.array(1.0),
    "one axis": np.ones(3),
    "three axes": np.ones((2, 2, 2)),
    "complex": PLANE * 1j,
    "records": np.zeros(2, dtype=[("a", float)]),
    "dates": np.array(["2020-01-01"], dtype="datetime64[D]"),
    "a huge integer": [[10**400, 1.0]],
    "one axis, sparse": coo_array(np.ones(2)),
    "pairs of nothing": kb.Pairs(None, None),
    "a table": TABLE,
    "a class": Gaussian,
}
if coo_array(np.ones(2)).ndim == 2:  # SciPy before 1.13 has no sparse arrays of one axis
    del WRONG["one axis, sparse"]


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("name", KERNELS)
def test_what_is_no_collection_of_points_is_rejected(name, wrong):
    kernel, good = KERNELS[name]
    points, known = WRONG[wrong], kernel.kind.check(good)

    questions = [kernel.kind.check, kernel.diagonal, kernel.gram]
    if points is not None:  # which would mean the known ones
        questions.append(lambda points: kernel.gram(known, points))
    for question in questions:
        with pytest.raises(KernelBanditError):
            question(points)


@pytest.mark.parametrize("name", KERNELS)
def test_points_are_taken_in_any_usual_form(name):
    kernel, good = KERNELS[name]
    forms = [good]
    if isinstance(good, np.ndarray):
        forms += [good.tolist(), good.astype(int), np.asfortranarray(good), np.ma.masked_array(good)]
    elif isinstance(good, list):
        forms += [tuple(good), np.array(good, dtype=object)]

    grams = [kernel.gram(form) for form in forms]

    for form, gram in zip(forms, grams, strict=True):
        np.testing.assert_allclose(gram, grams[0])
        np.testing.assert_allclose(kernel.diagonal(form), np.diagonal(gram))


@pytest.mark.parametrize(
    ("similarities", "message"),
    [
        (np.ma.masked_array(np.eye(2), mask=np.eye(2)), r"masked, and some are\. Fill missing entries"),
        ([[1.0], [1.0, 2.0]], "rows of equal length"),
        (np.array([[1.0, None], [None, 1.0]]), "real numbers, got dtype object"),
        (np.eye(2) * 1j, "real numbers"),
        ([[1.0, 1.7e308], [-1.7e308, 1.0]], "symmetric"),
        (csr_array(np.eye(2)), "sparse"),
        (None, "real numbers"),
    ],
)
def test_odd_similarities_are_rejected_in_words(similarities, message):
    with pytest.raises(InvalidParameter, match=message):
        SimilarityTable(similarities)
    with pytest.raises(InvalidParameter, match=message):
        SimilarityTable(np.eye(2)).add([2, 3], to_known=np.zeros((2, 2)), among_new=similarities)


@pytest.mark.parametrize("row", [None, 1.0, "a", [0], np.zeros(2), 3, -1])
def test_what_is_no_row_of_a_table_has_no_id(row):
    with pytest.raises(UnknownItem, match="no row"):
        TABLE.id(row)


@pytest.mark.parametrize("ids", [None, 3, "a", np.zeros((1, 1)), {"a": 1}.get])
def test_what_is_no_collection_of_ids_restricts_no_catalog(ids):
    catalog = kb.Catalog(PLANE, ids=["a", "b"])

    with pytest.raises(InvalidParameter, match="Ids are given as a collection"):
        catalog.only(ids)
    with pytest.raises(InvalidParameter, match="Ids are given as a collection"):
        catalog.without(ids)


@pytest.mark.parametrize("row", [None, 1.0, "a", [0], np.zeros(2), 2, -1])
def test_what_is_no_row_of_a_catalog_has_no_id(row):
    with pytest.raises(UnknownItem, match="No row"):
        kb.Catalog(PLANE, ids=["a", "b"]).item(row)
