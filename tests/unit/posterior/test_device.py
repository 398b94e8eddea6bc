"""The posterior of another device, on arrays of PyTorch in ordinary memory where it is installed.

`array_api_strict` implements the array API standard and nothing beyond it: what works there works with every library.
"""

import copy
import importlib.util
import pickle
import re

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.sparse import csr_array

from definitions import log_det_gain, ridge
from kernelbandits.errors import (
    IllConditioned,
    InvalidParameter,
    MissingExtra,
    NotSupported,
    NumericalError,
    OutOfMemory,
)
from kernelbandits.kernels import (
    FromCallable,
    Gaussian,
    Laplacian,
    Linear,
    Matern,
    Normalized,
    Polynomial,
    RationalQuadratic,
    Spectrum,
)
from kernelbandits.posterior import DevicePosterior, ExactPosterior
from kernelbandits.posterior.device import PENDING, Device, InverseFactor
from kernelbandits.testing import PosteriorContract

HAS_TORCH = importlib.util.find_spec("torch") is not None
needs_torch = pytest.mark.skipif(not HAS_TORCH, reason="PyTorch is not installed: pip install torch")
LIBRARIES = ["array_api_strict", pytest.param("torch", marks=needs_torch)]

ROWS = np.random.default_rng(0).normal(size=(14, 3))


@pytest.fixture(params=LIBRARIES)
def library(request):
    return request.param


def on_device(kernel, library, regularization=0.3):
    return DevicePosterior(kernel, regularization=regularization, device="cpu", array_library=library)


class TestContract(PosteriorContract):
    @pytest.fixture(params=[0.05, 9.0])
    def posterior(self, request, library):
        return on_device(Gaussian(length_scale=0.8), library, request.param)

    @pytest.fixture
    def points(self):
        return ROWS


class TestContractOfSimilaritiesFromTheHost(PosteriorContract):
    @pytest.fixture
    def posterior(self, library):
        return on_device(Spectrum(n=2), library, 0.7)

    @pytest.fixture
    def points(self):
        return ["abab", "babb", "aabb", "bbbb", "abba", "baba", "aaab", "bbab", "abcb", "cbca", "ccab", "bcab", "acbc"]


KERNELS = [
    0.7 * Matern(smoothness=0.5, length_scale=[0.3, 0.4, 0.9]) + 0.5,
    Matern(smoothness=1.5, length_scale=0.5),
    Matern(smoothness=2.5, length_scale=0.5),
    Linear() * Gaussian(length_scale=1.5),
    RationalQuadratic(length_scale=0.8, mixture=2.0),
    Laplacian(length_scale=2.0),
    Polynomial(degree=3, offset=0.2),
    Normalized(Polynomial(degree=2)),
]


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: repr(kernel)[:30])
def test_a_history_with_repeats_corrections_and_batches_is_that_of_the_exact_posterior(kernel, library):
    rng = np.random.default_rng(1)
    exact, device = ExactPosterior(kernel, regularization=0.3), on_device(kernel, library)
    points = rng.uniform(size=(40, 3))
    for t in range(3 * PENDING):
        query = np.vstack([rng.uniform(size=(3, 3)), points[[rng.integers(len(points))]]])
        wanted, found = exact.predict(query), device.predict(query)
        assert_allclose(found.mean, wanted.mean, rtol=1e-8, atol=1e-10)
        assert_allclose(found.width, wanted.width, rtol=1e-9)
        chosen, reward = query[[rng.integers(4)]], rng.normal()
        for posterior in (exact, device):
            posterior.observe(chosen, [reward])
            if t % 50 == 20:
                posterior.amend(chosen, was=[reward], now=[reward - 2.0])
            if t % 50 == 40:
                posterior.remove(chosen, [reward])
            if t == 100:
                posterior.observe(np.linspace(0.0, 1.0, 60)[:, None] * np.ones(3), np.arange(60.0), times=3)

    assert_allclose(device.log_det_gain, exact.log_det_gain, rtol=1e-10)
    assert_allclose(device.covariance(query, points[:5]), exact.covariance(query, points[:5]), atol=1e-10)
    assert_allclose(device.covariance(points[:5]), exact.covariance(points[:5]), atol=1e-10)


def test_predictions_are_those_of_the_definition_on_several_blocks(library):
    rng = np.random.default_rng(2)
    kernel, points = Matern(smoothness=0.5, length_scale=0.4), rng.uniform(size=(1_300, 2))
    rewards = rng.normal(size=len(points))
    posterior = on_device(kernel, library, 0.05)
    posterior.observe(points[:1_000], rewards[:1_000])
    for first in range(1_000, 1_100):
        posterior.predict(points[first : first + 2])
        posterior.observe(points[[first]], rewards[[first]])
    posterior.observe(points[1_100:], rewards[1_100:])

    queries = rng.uniform(size=(20, 2))
    mean, width = ridge(kernel, points, rewards, queries, 0.05)
    prediction = posterior.predict(queries)
    assert_allclose(prediction.mean, mean, rtol=1e-8, atol=1e-10)
    assert_allclose(prediction.width, width, rtol=1e-9)
    assert_allclose(posterior.log_det_gain, log_det_gain(kernel, points, 0.05), rtol=1e-10)


def test_repeats_never_fill_more_than_half_of_the_factor(library):
    posterior = on_device(Gaussian(length_scale=0.5), library)
    for t in range(1_000):
        posterior.predict(ROWS[[t % 3]])
        posterior.observe(ROWS[[t % 3]], [1.0])

    posterior.predict(ROWS)
    assert posterior.size == 3
    assert posterior.n_rows <= 2 * 3 + PENDING + 1


def test_sparse_rows_are_compared_on_the_host(library):
    points = csr_array(np.where(ROWS > 0.0, ROWS, 0.0))
    exact, device = ExactPosterior(Linear(), regularization=0.5), on_device(Linear(), library, 0.5)
    for posterior in (exact, device):
        posterior.observe(points[:10], np.arange(10.0))

    assert_allclose(device.predict(points).width, exact.predict(points).width, rtol=1e-10)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda posterior: pickle.loads(pickle.dumps(posterior))])
def test_a_copy_computes_its_own_factor_from_the_record(copied, library):
    posterior = on_device(Gaussian(length_scale=0.8), library)
    posterior.observe(ROWS[:9], np.arange(9.0))
    before = posterior.predict(ROWS)

    other = copied(posterior)
    other.observe(ROWS[9:], np.zeros(5))

    assert other.n_rows == 0
    assert_allclose(posterior.predict(ROWS).mean, before.mean, rtol=0, atol=0)
    assert other.predict(ROWS).width[10] < before.width[10]


def test_an_observation_that_does_not_fit_is_rejected_before_anything_is_allocated(library, monkeypatch):
    posterior = on_device(Gaussian(length_scale=0.8), library)
    posterior.observe(ROWS[:9], np.arange(9.0))
    before = posterior.predict(ROWS)
    monkeypatch.setattr(Device, "free_bytes", lambda self: 1.2e7)

    with pytest.raises(OutOfMemory, match=re.escape("free. Nothing was changed. Bound the memory")) as raised:
        posterior.observe(np.random.default_rng(0).uniform(size=(2_000, 3)), np.zeros(2_000))

    assert "budget=700" in str(raised.value)
    assert posterior.n_observations == 9
    assert_allclose(posterior.predict(ROWS).mean, before.mean, rtol=0, atol=0)
    posterior.observe(ROWS[9:], np.zeros(5))  # fits into what is allocated


def test_too_small_a_regularization_is_reported_and_rejected(library):
    points = np.linspace(0.0, 1e-9, 600)[:, None]
    posterior = on_device(Gaussian(length_scale=1.0), library, 1e-17)
    with pytest.warns(IllConditioned):
        posterior.observe(points, np.zeros(600))
    with pytest.raises(NumericalError, match="too small beside similarities"):
        posterior.predict(points)


def test_kernels_that_may_be_indefinite_are_rejected():
    with pytest.raises(NotSupported, match="certainly positive semi-definite"):
        on_device(FromCallable(lambda first, second: first @ second.T), "array_api_strict")


@needs_torch
@pytest.mark.parametrize("name", ["cuda:99", "mps", "gpu", "", 3])
def test_a_device_that_is_not_there_is_rejected(name):
    with pytest.raises(InvalidParameter, match=r"device|GPU|precision"):
        DevicePosterior(Linear(), regularization=1.0, device=name)


@pytest.mark.skipif(HAS_TORCH, reason="PyTorch is installed")
def test_without_pytorch_the_extra_is_named():
    with pytest.raises(MissingExtra, match=re.escape("kernelbandits[gpu]")):
        DevicePosterior(Linear(), regularization=1.0)


def test_the_inverse_factor_is_the_inverse_of_the_factor(library):
    """Rows appended one by one, and in blocks, also across the borders of blocks."""
    rng = np.random.default_rng(3)
    points = rng.uniform(size=(1_200, 2))
    matrix = Gaussian(length_scale=0.2).gram(points) + 0.1 * np.eye(len(points))
    lower = np.linalg.cholesky(matrix)
    device = Device("cpu", library)
    factor = InverseFactor(device)
    factor.reserve(len(points))
    size = 0
    for n_rows in (70, 1, 1, 500, 600, 28):
        if n_rows <= 100:
            for row in range(size, size + n_rows):
                factor.append(device.array(lower[row, :row]), lower.item(row, row))
        else:
            rows = slice(size, size + n_rows)
            factor.append_many(device.array(lower[rows, :size].T), device.array(np.linalg.inv(lower[rows, rows])))
        size += n_rows
        right = rng.normal(size=(size, 3))
        found = device.numpy(factor.apply(device.array(right)))
        assert_allclose(lower[:size, :size] @ found, right, atol=1e-10)
    assert factor.size == size == len(points)


@needs_torch
@pytest.mark.gpu
def test_on_a_gpu_predictions_are_those_of_the_exact_posterior():
    import torch

    if not torch.cuda.is_available():
        pytest.skip("There is no GPU that PyTorch can use.")
    rng = np.random.default_rng(4)
    kernel = Matern(smoothness=0.5, length_scale=1.0)
    exact, device = (
        ExactPosterior(kernel, regularization=0.1),
        DevicePosterior(kernel, regularization=0.1, device="cuda"),
    )
    for _ in range(2_000):
        query = rng.uniform(size=(5, 20))
        wanted, found = exact.predict(query), device.predict(query)
        assert_allclose(found.mean, wanted.mean, rtol=1e-8, atol=1e-10)
        assert_allclose(found.width, wanted.width, rtol=1e-9)
        for posterior in (exact, device):
            posterior.observe(query[:1], [float(query[0, 0])])
