import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.sparse import csr_array

from kernelbandits.errors import InvalidParameter
from kernelbandits.kernels import (
    Blocks,
    Cosine,
    Gaussian,
    Laplacian,
    Linear,
    Matern,
    Polynomial,
    RationalQuadratic,
    Spectrum,
)
from kernelbandits.kernels.pairs import PairRows

ROWS = np.random.default_rng(3).normal(size=(9, 4)) * np.geomspace(0.01, 30.0, 9)[:, None]
LABELS = ["a", "b", 7, "b", "b", "a", 7, "c", "a"]
ROUND = [
    Matern(smoothness=0.5, length_scale=1.7),
    Gaussian(length_scale=0.6),
    RationalQuadratic(length_scale=2.0, mixture=0.5),
    Linear(),
    Polynomial(degree=3, offset=0.4),
    Cosine(),
    2.0 * Gaussian(length_scale=3.0) * Linear() + 0.3,
]


def disjoint(rows, labels):
    blocks = sorted(set(labels), key=str)
    encoded = np.zeros((len(rows), len(blocks), rows.shape[1]))
    for row, label in enumerate(labels):
        encoded[row, blocks.index(label)] = rows[row]
    return encoded.reshape(len(rows), -1)


@pytest.mark.parametrize("kernel", ROUND)
@pytest.mark.parametrize("form", [np.asarray, csr_array])
def test_equals_the_kernel_of_the_disjoint_encoding(kernel, form):
    points = PairRows(form(ROWS), LABELS, is_shared=False)

    gram = Blocks(kernel).gram(points)

    expected = kernel.gram(disjoint(ROWS, LABELS))
    assert_allclose(gram, expected, rtol=1e-9, atol=1e-12)
    assert_allclose(Blocks(kernel).diagonal(points), np.diag(expected), rtol=1e-9)


def test_a_shared_context_is_compared_with_each_of_the_others():
    kernel = Blocks(Gaussian(length_scale=2.0))
    history = PairRows(ROWS, LABELS, is_shared=False)
    shared = PairRows(ROWS[:1], ["a", "b", "new"], is_shared=True)

    similarities = kernel.gram(history, shared)

    spread = PairRows(np.repeat(ROWS[:1], 3, axis=0), ["a", "b", "new"], is_shared=False)
    assert_allclose(similarities, kernel.gram(history, spread))


@pytest.mark.parametrize("kernel", [Laplacian(length_scale=1.0), Gaussian(length_scale=[1.0, 2.0]), Spectrum(n=2)])
def test_a_kernel_that_sees_directions_is_rejected(kernel):
    with pytest.raises(InvalidParameter, match="lengths and angles only"):
        Blocks(kernel)
    with pytest.raises(InvalidParameter, match="lengths and angles only"):
        Blocks(2.0 * kernel)


def test_the_laplacian_kernel_would_indeed_be_wrong():
    """Negative control: what is refused does differ."""
    kernel = Laplacian(length_scale=1.0)
    x, z = np.array([[1.0, 2.0]]), np.array([[0.5, -1.0]])

    encoded = kernel.gram(np.hstack([x, 0 * x]), np.hstack([0 * z, z]))
    rotated = kernel.gram([[np.linalg.norm(x), 0.0]], [[0.0, np.linalg.norm(z)]])

    assert abs(encoded - rotated) > 1e-3
