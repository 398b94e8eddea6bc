"""Every kernel keeps every promise, over dense and sparse rows, strings, sets, ids, objects and pairs."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.gaussian_process import kernels as scikit

from kernelbandits import kernels
from kernelbandits.kernels import (
    Blocks,
    Columns,
    Constant,
    Cosine,
    Delta,
    FromCallable,
    FromScikitLearn,
    Gaussian,
    Ids,
    Jaccard,
    LabeledLinear,
    Laplacian,
    Linear,
    Matern,
    Normalized,
    Objects,
    PairProduct,
    PairSum,
    Polynomial,
    Positionwise,
    Precomputed,
    Product,
    QuadratureFourier,
    RandomFourier,
    RationalQuadratic,
    Rows,
    Scaled,
    Sets,
    SimilarityTable,
    Spectrum,
    Strings,
    Sum,
    TfIdf,
    repair,
)
from kernelbandits.testing import KernelContract
from kernelbandits.types import Pairs

RNG = np.random.default_rng(5)
DENSE = np.vstack([RNG.normal(size=(5, 3)), np.zeros(3), RNG.normal(size=3) * 30.0])
DENSE = np.vstack([DENSE, DENSE[1]])  # a zero row, a long row, a repeated row
SPARSE = csr_array(np.where(np.abs(DENSE) > 0.6, DENSE, 0.0))
ONE_ROW = [[0.25, -1.5, 3.0]] * 3
STRINGS = ["banana", "bandana", "", "an", "Straße", "banana", "\ud800an\x00an", "an an an an"]
CODES = ["red-s", "red-m", "tan-m", "red-s", "\ud83d\udc00lün"]
SETS = [{"red", "wool"}, set(), {"red", 1}, frozenset(), {"1", 1, "wool"}, {"red", "wool"}]
IDS = ["b", 3, "a", "3", 0, "b"]
PAIRS = Pairs([0.5, -1.0, 2.0], STRINGS)

SIMILARITIES = np.exp(-np.abs(np.subtract.outer(np.arange(6.0), np.arange(6.0))) / 1.7)
TABLE = SimilarityTable(SIMILARITIES, ids=["b", 3, "a", "3", 0, "spare"])
NUMBERED = SimilarityTable(SIMILARITIES)


def grown_repaired_table(method):
    raw = np.tanh(DENSE @ DENSE.T - 0.5)
    table, _ = repair(raw[:5, :5], method=method)
    table.add(["new", 77, "newer"], to_known=raw[5:, :5], among_new=raw[5:, 5:])
    return table


def smaller_of_both(first, second):
    return np.minimum(first, second.T)


def first_letter(first, second):
    return [[float(x[:1] == z[:1]) for z in second] for x in first]


GAUSSIAN = Gaussian(length_scale=[0.7, 2.0, 9.0])

ROW_KERNELS = {
    "linear": Linear(),
    "polynomial": Polynomial(degree=3, offset=0.7),
    "homogeneous polynomial": Polynomial(degree=2, offset=0.0),
    "cosine": Cosine(),
    "constant": Constant(2.5),
    "no constant": Constant(0.0),
    "gaussian": Gaussian(length_scale=0.7),
    "gaussian by column": Gaussian(length_scale=[0.5, 2.0, 9.0]),
    "laplacian": Laplacian(length_scale=1.7),
    "laplacian by column": Laplacian(length_scale=(0.5, 2.0, 9.0)),
    "matern 1/2": Matern(smoothness=0.5, length_scale=3.0),
    "matern 3/2": Matern(smoothness=1.5, length_scale=0.4),
    "matern 5/2 by column": Matern(smoothness=2.5, length_scale=[0.5, 2.0, 9.0]),
    "rational quadratic": RationalQuadratic(length_scale=0.6, mixture=2.5),
    "random fourier": RandomFourier(Matern(smoothness=1.5, length_scale=2.0), n_columns=3, n_frequencies=9),
    "orthogonal random fourier": 2.0 * RandomFourier(GAUSSIAN, n_columns=3, n_frequencies=5, orthogonal=True, seed=3),
    "quadrature fourier": QuadratureFourier(3.0 * GAUSSIAN, extent=(2.0, 3.0, 0.5), accuracy=0.01),
    "columns": Columns(Gaussian(length_scale=0.7), [2, 0]),
    "scaled": Scaled(Linear(), 0.3),
    "sum": Sum((Linear(), Polynomial(degree=2), Constant(0.5))),
    "product": Product((Cosine(), Polynomial(degree=2, offset=0.5), Linear())),
    "normalized": Normalized(Polynomial(degree=2, offset=0.0)),
    "deep": 2.0 * (Gaussian(length_scale=1.0) + 0.5) * Normalized(Linear() + Columns(Linear(), [1])) + 3,
    "delta of rows": Delta(kind=Rows()),
}

CASES = {
    **{f"{name}, dense": (kernel, DENSE) for name, kernel in ROW_KERNELS.items()},
    **{f"{name}, sparse": (kernel, SPARSE) for name, kernel in ROW_KERNELS.items()},
    **{f"{name}, one row thrice": (kernel, ONE_ROW) for name, kernel in ROW_KERNELS.items()},
    "delta": (Delta(), IDS),
    "delta of strings": (Delta(kind=Strings()), STRINGS),
    "delta of sets": (Delta(kind=Sets()), SETS),
    "constant of sets": (Constant(2.0, kind=Sets()), SETS),
    "spectrum": (Spectrum(n=2), STRINGS),
    "spectrum of several lengths": (Spectrum(n=(1, 4)), STRINGS),
    "spectrum, counts": (Spectrum(n=3, normalized=False), STRINGS),
    "tf-idf": (TfIdf(["banana", "ananas", "Straße"], n=(1, 3)), STRINGS),
    "tf-idf of another world": (TfIdf(["xyz"]), STRINGS),
    "positionwise": (Positionwise(length_scale=0.8), CODES),
    "jaccard": (Jaccard(), SETS),
    "strings, composed": (2 * Spectrum(n=2) + Delta(kind=Strings()) * TfIdf(["banana"]) + 1, STRINGS),
    "constants and strings": (Normalized(Constant(3.0)) * 2 * Spectrum(n=2), STRINGS),
    "precomputed": (Precomputed(TABLE), IDS),
    "precomputed by number": (Precomputed(NUMBERED), np.array([3, 0, 5, 3])),
    "precomputed, composed": (2 * Precomputed(TABLE) + Normalized(Precomputed(TABLE)) * 3 + 0.5, IDS),
    **{f"repaired by {method}": (Precomputed(grown_repaired_table(method)), [0, "new", 3, 77]) for method in
       ("clip", "flip", "square")},
    "repaired by shift": (Precomputed(repair(np.tanh(DENSE @ DENSE.T - 0.5), method="shift")[0]), [0, 5, 3, 7]),
    "pair product": (PairProduct(Gaussian(length_scale=2.0), Spectrum(n=2)), PAIRS),
    "pair sum": (PairSum(Gaussian(length_scale=2.0), Spectrum(n=2)), PAIRS),
    "pair product with features": (PairProduct(Polynomial(degree=2, offset=0.5), Linear()), Pairs([1.0, 2.0], DENSE)),
    "pair sum with features": (PairSum(Linear(), Polynomial(degree=2)), Pairs([1.0, 2.0], DENSE)),
    "pairs, sparse": (PairProduct(Jaccard(), Gaussian(length_scale=3.0)), Pairs({"a"}, SPARSE)),
    "pairs, composed": (2 * PairProduct(Precomputed(TABLE), Linear()) + PairSum(Precomputed(TABLE), Constant(0.3)) + 1,
                        Pairs("a", DENSE)),
    "pairs of pairs": (PairSum(Spectrum(n=1), PairProduct(Linear(), Jaccard())), Pairs("ab", Pairs([1.0, 2.0], SETS))),
    "blocks": (Blocks(0.5 * Matern(smoothness=0.5, length_scale=0.8) + Linear()), Pairs([1.0, 2.0], IDS)),
    "labeled": (LabeledLinear([1]), Pairs("left", DENSE)),
    "function of rows": (FromCallable(smaller_of_both), [[1.0], [0.5], [4.0], [1.0]]),
    "function of strings": (FromCallable(first_letter, Strings(), diagonal=lambda x: np.ones(len(x))), STRINGS),
    "function of ids": (FromCallable(lambda x, z: np.equal.outer(x, z), Ids()), [4, 2, 4]),
    "function of objects": (
        FromCallable(lambda x, z: [[abs(a * b.conjugate()) ** 2 for b in z] for a in x], Objects()),
        [1 + 2j, 2j, -1 + 0j],
    ),
    "scikit-learn": (FromScikitLearn(scikit.RBF(0.7) + scikit.ConstantKernel(2.0) * scikit.DotProduct(1.5)), DENSE),
}  # fmt: skip


class TestEveryKernel(KernelContract):
    @pytest.fixture(params=CASES.values(), ids=CASES)
    def case(self, request):
        return request.param

    @pytest.fixture
    def kernel(self, case):
        return case[0]

    @pytest.fixture
    def points(self, case):
        return case[1]


def test_no_kernel_is_left_out():
    offered = {name for name in kernels.__all__ if isinstance(getattr(kernels, name), type)}
    offered = {name for name in offered if issubclass(getattr(kernels, name), kernels.Kernel)} - {"Kernel"}

    covered = {type(kernel).__name__ for kernel, _ in CASES.values()}

    assert covered >= offered
