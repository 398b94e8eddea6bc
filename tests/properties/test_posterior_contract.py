"""Every posterior keeps every promise, at regularizations other than 1, dense, sparse, strings, ids and labels."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from kernelbandits.kernels import (
    Delta,
    Gaussian,
    Linear,
    Matern,
    PairProduct,
    Polynomial,
    Precomputed,
    QuadratureFourier,
    Spectrum,
)
from kernelbandits.kernels.labeled import LabeledLinear
from kernelbandits.kernels.pairs import PairRows
from kernelbandits.posterior import (
    AutoPosterior,
    BatchedResampling,
    ExactPosterior,
    NystroemPosterior,
    OnlineRowSampling,
    PartitionedPosterior,
    PerActionPosterior,
    PrimalPosterior,
    Resampling,
    ResidualDictionary,
)
from kernelbandits.testing import PosteriorContract

ROWS = np.random.default_rng(0).normal(size=(14, 3))


@pytest.fixture(params=[0.05, 0.7, 9.0])
def regularization(request):
    return request.param


class TestExactGaussian(PosteriorContract):
    @pytest.fixture
    def posterior(self, regularization):
        return ExactPosterior(Gaussian(length_scale=0.8), regularization=regularization)

    @pytest.fixture
    def points(self):
        return ROWS


class TestExactMaternSparse(PosteriorContract):
    @pytest.fixture
    def posterior(self, regularization):
        return ExactPosterior(Matern(smoothness=1.5, length_scale=2.0), regularization=regularization)

    @pytest.fixture
    def points(self):
        return csr_array(np.where(np.abs(ROWS) > 0.7, ROWS, 0.0) + np.eye(14, 3))


class TestExactLinearWithMorePointsThanDimensions(PosteriorContract):
    @pytest.fixture
    def posterior(self, regularization):
        return ExactPosterior(Linear(), regularization=regularization)

    @pytest.fixture
    def points(self):
        return ROWS


class TestPrimalOnQuadratureFeatures(PosteriorContract):
    @pytest.fixture
    def posterior(self, regularization):
        kernel = QuadratureFourier(2.0 * Gaussian(length_scale=4.0), extent=[6.0, 6.0, 6.0], accuracy=0.01)
        return PrimalPosterior(kernel, regularization=regularization)

    @pytest.fixture
    def points(self):
        return ROWS


class TestExactStrings(PosteriorContract):
    @pytest.fixture
    def posterior(self, regularization):
        return ExactPosterior(Spectrum(n=2), regularization=regularization)

    @pytest.fixture
    def points(self):
        return [
            f"{first} {second}" for first in ("red", "green", "blue") for second in ("boat", "coat", "goat", "ship")
        ]


class TestExactTable(PosteriorContract):
    @pytest.fixture
    def posterior(self, regularization):
        table = Gaussian(length_scale=1.5).gram(ROWS)
        return ExactPosterior(
            Precomputed(table, ids=[f"item {row}" for row in range(14)]), regularization=regularization
        )

    @pytest.fixture
    def points(self):
        return [f"item {row}" for row in range(14)]


class TestPrimalLinear(PosteriorContract):
    @pytest.fixture
    def posterior(self, regularization):
        return PrimalPosterior(Linear(), regularization=regularization)

    @pytest.fixture
    def points(self):
        return ROWS


class TestPrimalPolynomialSparse(PosteriorContract):
    @pytest.fixture
    def posterior(self, regularization):
        return PrimalPosterior(0.1 * Polynomial(degree=2, offset=0.5), regularization=regularization)

    @pytest.fixture
    def points(self):
        return csr_array(ROWS)


class TestAutoThatChangesForm(PosteriorContract):
    @pytest.fixture
    def posterior(self, regularization):
        return AutoPosterior(Linear() + 0.3, regularization=regularization)

    @pytest.fixture
    def points(self):
        return ROWS


class TestAutoWithoutFeatures(PosteriorContract):
    @pytest.fixture
    def posterior(self, regularization):
        return AutoPosterior(Gaussian(length_scale=[0.5, 2.0, 1.0]), regularization=regularization)

    @pytest.fixture
    def points(self):
        return ROWS


class _Labeled(PosteriorContract):
    @pytest.fixture
    def points(self):
        return PairRows([row % 4 if row % 3 else "other" for row in range(14)], ROWS, is_shared=False)


class TestDisjoint(_Labeled):
    @pytest.fixture
    def posterior(self, regularization):
        return PerActionPosterior(LabeledLinear(), regularization=regularization)


class TestHybrid(_Labeled):
    @pytest.fixture
    def posterior(self, regularization):
        return PerActionPosterior(LabeledLinear((2,)), regularization=regularization)


class TestAllColumnsShared(_Labeled):
    @pytest.fixture
    def posterior(self, regularization):
        return PerActionPosterior(LabeledLinear((0, 1, 2)), regularization=regularization)


class TestPartitioned(PosteriorContract):
    @pytest.fixture
    def posterior(self, regularization):
        kernel = PairProduct(Gaussian(length_scale=0.8), Delta())
        return PartitionedPosterior(kernel, regularization=regularization)

    @pytest.fixture
    def points(self):
        return PairRows(ROWS, ["left", "right", "both", 4] * 3 + ["left", "new"], is_shared=False)


class _Nystroem(PosteriorContract):
    """A dictionary of all distinct points gives the exact posterior (oracle 10)."""

    tolerance = 1e-6


class TestNystroemGaussian(_Nystroem):
    @pytest.fixture
    def posterior(self, regularization):
        rule = ResidualDictionary(tolerance=0.0)
        return NystroemPosterior(Gaussian(length_scale=0.8), regularization=regularization, dictionary=rule)

    @pytest.fixture
    def points(self):
        return ROWS


class TestNystroemStrings(TestExactStrings):
    tolerance = 1e-6

    @pytest.fixture
    def posterior(self, regularization):
        rule = ResidualDictionary(tolerance=0.0, size=14)
        return NystroemPosterior(Spectrum(n=2), regularization=regularization, dictionary=rule)


class TestNystroemTable(TestExactTable):
    tolerance = 1e-6

    @pytest.fixture
    def posterior(self, regularization):
        table = Precomputed(Gaussian(length_scale=1.5).gram(ROWS), ids=[f"item {row}" for row in range(14)])
        rule = ResidualDictionary(accuracy=1e-9)
        return NystroemPosterior(table, regularization=regularization, dictionary=rule)


class TestNystroemSparseRowsDrawn(TestExactMaternSparse):
    """Every point is drawn: β is so large that every probability is 1."""

    tolerance = 1e-6

    @pytest.fixture
    def posterior(self, regularization):
        kernel, rule = Matern(smoothness=1.5, length_scale=2.0), OnlineRowSampling(oversampling=1e9)
        return NystroemPosterior(kernel, regularization=regularization, dictionary=rule)


class TestNystroemResampledPairs(_Labeled):
    tolerance = 1e-6

    @pytest.fixture
    def posterior(self, regularization):
        kernel, rule = PairProduct(Gaussian(length_scale=0.8), Delta()), Resampling(oversampling=1e9)
        return NystroemPosterior(kernel, regularization=regularization, dictionary=rule)

    @pytest.fixture
    def points(self):
        return PairRows(ROWS, ["left", "right", "both", 4] * 3 + ["left", "new"], is_shared=False)


class TestNystroemInBatches(_Nystroem):
    @pytest.fixture
    def posterior(self, regularization):
        kernel, rule = Gaussian(length_scale=0.8), BatchedResampling(oversampling=1e9, threshold=1.0 + 1e-9)
        return NystroemPosterior(kernel, regularization=regularization, dictionary=rule)

    @pytest.fixture
    def points(self):
        return ROWS
