import functools

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.sparse import csr_array
from sklearn.gaussian_process import kernels as scikit

from kernelbandits.errors import CannotSave, InvalidContexts, InvalidParameter
from kernelbandits.kernels import (
    FromCallable,
    FromScikitLearn,
    Gaussian,
    Linear,
    Precomputed,
    SimilarityTable,
    Strings,
    as_kernel,
)
from kernelbandits.kernels.wrappers import function_name

ROWS = np.random.default_rng(0).normal(size=(40, 2))


def inner(first, second, scale=1.0):
    return scale * first @ second.T


def common_letters(first, second):
    return [[len(set(x) & set(z)) for z in second] for x in first]


def test_a_function_is_a_kernel():
    kernel = FromCallable(inner)

    assert_allclose(kernel.gram(ROWS, ROWS[:3].tolist()), ROWS @ ROWS[:3].T)
    assert_allclose(kernel.gram(ROWS), ROWS @ ROWS.T)
    assert_allclose(kernel.diagonal(ROWS), np.einsum("nd,nd->n", ROWS, ROWS))
    assert_allclose((2 * kernel + Linear()).diagonal(ROWS), 3 * np.einsum("nd,nd->n", ROWS, ROWS))


def test_a_function_may_compare_anything_its_kind_knows():
    kernel = FromCallable(common_letters, Strings())

    assert_allclose(kernel.gram(["abc", "cd"], ["bc"]), [[2.0], [1.0]])
    assert_allclose(kernel.diagonal(["abc", "", "aa"]), [3.0, 0.0, 1.0])


def test_the_diagonal_takes_few_calls_and_small_blocks():
    shapes = []

    def noting(first, second):
        shapes.append((len(first), len(second)))
        return inner(first, second)

    FromCallable(noting).diagonal(ROWS)

    assert shapes == [(16, 16), (16, 16), (8, 8)]


def test_a_diagonal_that_is_given_is_used():
    kernel = FromCallable(inner, diagonal=lambda points: np.full(len(points), 7))

    assert_allclose(kernel.diagonal(ROWS[:2]), [7.0, 7.0])


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (1.0, r"must return the similarities of all pairs, shape \(2, 2\), and returned shape \(\)"),
        (
            np.ones(2),
            r"must return .* returned shape \(2,\). A function k of two points becomes one of two collections",
        ),
        (np.ones((3, 2)), r"must return .* shape \(2, 2\), and returned shape \(3, 2\)"),
        (np.full((2, 2), np.nan), r"must return finite real numbers, and returned others \(dtype float64\)"),
        (np.full((2, 2), 1j), r"must return finite real numbers, and returned others \(dtype complex128\)"),
        ([["a"] * 2] * 2, "must return finite real numbers"),
    ],
)
def test_what_a_function_returns_is_checked(returned, message):
    with pytest.raises(InvalidParameter, match=f"test_wrap.*<lambda> {message}"):
        FromCallable(lambda *_: returned).gram(ROWS[:2])


def test_what_a_diagonal_returns_is_checked():
    with pytest.raises(InvalidParameter, match=r"shape \(2,\), and returned shape \(2, 1\)"):
        FromCallable(inner, diagonal=lambda points: np.ones((len(points), 1))).diagonal(ROWS[:2])


def test_a_function_is_described_by_its_name():
    named = FromCallable(inner).describe()
    partial = FromCallable(functools.partial(inner, scale=2.0), Strings()).describe()
    check_has_methods = FromCallable(scikit.RBF(1.0)).describe()

    assert named == {"class": "FromCallable", "function": f"{__name__}.inner", "kind": "Rows"}
    assert FromCallable(inner, diagonal=len).describe()["diagonal"] == "builtins.len"
    assert partial["function"] == f"partial of {__name__}.inner(scale=2.0)"
    assert partial["kind"] == "Strings"
    assert check_has_methods["function"] == "sklearn.gaussian_process.kernels.RBF"


def test_partials_with_other_arguments_have_other_names():
    scales = np.linspace(0.0, 1.0, 100)
    names = [function_name(functools.partial(inner, scale=scale)) for scale in (1.0, 2.0, scales, scales + 1.0)]

    assert len(set(names)) == 4
    assert names[2].startswith(f"partial of {__name__}.inner(digest ")
    assert max(map(len, names)) < 120


def test_functions_are_equal_when_they_are_the_same():
    assert FromCallable(inner) == FromCallable(inner)
    assert hash(FromCallable(inner)) == hash(FromCallable(inner))
    assert FromCallable(inner) != FromCallable(inner, Strings())
    assert FromCallable(inner) != FromCallable(lambda x, z: inner(x, z))


@pytest.mark.parametrize("kernel", [FromCallable(inner), FromScikitLearn(scikit.RBF(1.0)), 2 * FromCallable(inner)])
def test_wrapped_code_is_not_saved(kernel):
    with pytest.raises(CannotSave, match=r"wraps code that a file cannot hold. .* kb.load\(path, kernel=...\)"):
        kernel.pack()


def test_a_function_is_needed():
    with pytest.raises(InvalidParameter, match="FromCallable takes a function of two collections, got ndarray"):
        FromCallable(np.eye(2))


@pytest.mark.parametrize(
    "kernel",
    [scikit.RBF([0.4, 2.0]), 2.0 * scikit.Matern(0.7, nu=1.5) + scikit.DotProduct(1.3) ** 2, scikit.ExpSineSquared()],
)
def test_a_scikit_learn_kernel_is_a_kernel(kernel):
    wrapped = FromScikitLearn(kernel)

    assert_allclose(wrapped.gram(ROWS, ROWS[:3]), kernel(ROWS, ROWS[:3]))
    assert_allclose(wrapped.gram(ROWS), kernel(ROWS))
    assert_allclose(wrapped.diagonal(ROWS), kernel.diag(ROWS))
    assert wrapped == FromScikitLearn(kernel)
    assert hash(wrapped) == hash(FromScikitLearn(kernel))


def test_a_wrapped_kernel_does_not_change_with_the_one_it_was_made_of():
    kernel = scikit.RBF(0.7)
    wrapped = FromScikitLearn(kernel)

    kernel.set_params(length_scale=3.0)

    assert_allclose(wrapped.gram(ROWS), Gaussian(length_scale=0.7).gram(ROWS))


def test_a_scikit_learn_kernel_is_described_by_all_its_digits():
    described = FromScikitLearn(2.0 * scikit.RBF([0.123456789, np.float64(2.0)])).describe()

    assert described["kernel"] == "sklearn.gaussian_process.kernels.Product"
    assert described["parameters"]["k2__length_scale"] == [0.123456789, 2.0]
    assert described["parameters"]["k2"] == "sklearn.gaussian_process.kernels.RBF"


class Least:
    """The least that is needed."""

    def __call__(self, first, second):
        return np.equal.outer(first, second)

    def diag(self, points):
        return np.ones(len(points))


def test_other_objects_with_the_same_methods_will_do():
    kernel = FromScikitLearn(Least(), Strings())

    assert_allclose(kernel.gram(["a", "b"], ["b"]), [[0.0], [1.0]])
    assert kernel.describe() == {
        "class": "FromScikitLearn", "kernel": f"{__name__}.Least", "parameters": {}, "kind": "Strings",
    }  # fmt: skip


def test_sparse_rows_are_not_for_scikit_learn():
    with pytest.raises(
        InvalidContexts, match=r"scikit-learn's kernels take dense rows. Convert them: rows.toarray\(\)"
    ):
        FromScikitLearn(scikit.RBF(1.0)).gram(csr_array(ROWS))


@pytest.mark.parametrize("kernel", [scikit.WhiteKernel(0.1), scikit.RBF(1.0) + scikit.WhiteKernel(0.1)])
def test_noise_is_no_similarity(kernel):
    with pytest.raises(InvalidParameter, match="A WhiteKernel is noise and no similarity"):
        FromScikitLearn(kernel)


def test_an_object_without_a_diagonal_is_no_scikit_learn_kernel():
    with pytest.raises(InvalidParameter, match=r"an object with kernel\(X, Y\) and kernel.diag\(X\), got function"):
        FromScikitLearn(inner)


def test_whatever_can_be_a_kernel_becomes_one():
    gaussian, table = Gaussian(length_scale=2.0), SimilarityTable(np.eye(2))

    assert as_kernel(gaussian) is gaussian
    assert as_kernel(table) == Precomputed(table)
    assert isinstance(as_kernel(np.eye(3)), Precomputed)
    assert isinstance(as_kernel([[1.0, 0.2], [0.2, 1.0]]), Precomputed)
    assert as_kernel(scikit.RBF(1.0)) == FromScikitLearn(scikit.RBF(1.0))
    assert as_kernel(inner) == FromCallable(inner)
    assert isinstance(as_kernel(functools.partial(inner, scale=2.0)), FromCallable)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (Gaussian, r"A kernel is needed, got the class Gaussian. Call it: Gaussian\(...\)"),
        ("rbf", r"A kernel is needed, got the string 'rbf'. Kernels are objects: kernels.Gaussian\(length_scale=1.0\)"),
        (None, "A kernel is needed, got NoneType. Give a kernel of kb.kernels, a square matrix of similarities"),
        (3.0, "A kernel is needed, got float"),
        (np.ones((2, 3)), "The similarities must be a square matrix"),
        (np.array([[1.0, 0.0], [0.5, 1.0]]), "The similarities must be symmetric"),
        (np.ones(3), "The similarities must be a matrix of real numbers"),
    ],
)
def test_what_can_be_no_kernel_is_rejected(given, message):
    with pytest.raises(InvalidParameter, match=message):
        as_kernel(given)
