"""Large queries of a Nyström posterior on arrays of another library, beside NumPy."""

import copy
import importlib.util
import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.sparse import csr_array

from kernelbandits.errors import InvalidParameter, NotPositiveSemidefinite, OutOfMemory
from kernelbandits.kernels import FromCallable, Gaussian, Matern
from kernelbandits.posterior import (
    AutoPosterior,
    BatchedResampling,
    NystroemPosterior,
    OnlineRowSampling,
    Resampling,
    ResidualDictionary,
)
from kernelbandits.posterior import nystroem as module
from kernelbandits.posterior.device import Device

HAS_TORCH = importlib.util.find_spec("torch") is not None
needs_torch = pytest.mark.skipif(not HAS_TORCH, reason="PyTorch is not installed: pip install torch")
KERNEL = Matern(smoothness=1.5, length_scale=0.5)
RNG = np.random.default_rng(0)
POINTS, REWARDS, QUERIES = RNG.uniform(size=(400, 3)), RNG.normal(size=400), RNG.uniform(size=(200, 3))


@pytest.fixture(params=["array_api_strict", pytest.param("torch", marks=needs_torch)])
def library(request):
    return request.param


@pytest.fixture
def places(monkeypatch):
    """Sizes of the queries that were answered on the device."""
    seen, locate = [], module.DeviceQueries.locate

    def watched(self, projection, points, prior):
        seen.append(len(prior))
        return locate(self, projection, points, prior)

    monkeypatch.setattr(module.DeviceQueries, "locate", watched)
    return seen


def check(device, host, queries=QUERIES):
    found, wanted = device.predict(queries), host.predict(queries)
    assert_allclose(found.mean, wanted.mean, atol=1e-9)
    assert_allclose(found.width, wanted.width, rtol=1e-8)
    assert_allclose(found.error, wanted.error, rtol=1e-6)


@pytest.mark.parametrize(
    "rule",
    [
        ResidualDictionary(size=90, tolerance=0.01),
        ResidualDictionary(accuracy=0.5),
        OnlineRowSampling(oversampling=2.0),
        Resampling(oversampling=3.0),
        BatchedResampling(oversampling=3.0, batch="dictionary"),
    ],
    ids=lambda rule: type(rule).__name__,
)
def test_answers_are_those_of_the_processor_while_the_dictionary_grows(rule, library, places):
    device = NystroemPosterior(KERNEL, regularization=0.3, dictionary=rule, device="cpu", array_library=library)
    host = NystroemPosterior(KERNEL, regularization=0.3, dictionary=rule)
    for first, last in [(0, 1), (1, 2), (2, 9), (9, 60), (60, 61), (61, 130), (130, 131), (131, 300), (300, 301)]:
        for posterior in (device, host):
            posterior.observe(POINTS[first:last], REWARDS[first:last])
        check(device, host)
        check(device, host, QUERIES[:3])
    device.amend(POINTS[300:301], was=REWARDS[300:301], now=[2.0])
    host.amend(POINTS[300:301], was=REWARDS[300:301], now=[2.0])
    check(device, host)
    assert set(places) == {200}  # few points stay on the processor
    assert len(places) == 10


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda posterior: pickle.loads(pickle.dumps(posterior))])
def test_a_copy_reads_its_own_dictionary(copied, library):
    rule = ResidualDictionary(size=300, tolerance=0.0)
    device = NystroemPosterior(KERNEL, regularization=0.3, dictionary=rule, device="cpu", array_library=library)
    host = NystroemPosterior(KERNEL, regularization=0.3, dictionary=rule)
    for posterior in (device, host):
        posterior.observe(POINTS[:50], REWARDS[:50])
    check(device, host)
    other, beside = copied(device), copied(host)
    for posterior in (other, beside):
        posterior.observe(POINTS[50:60], REWARDS[50:60])
    for posterior in (device, host):
        posterior.observe(POINTS[60:70], REWARDS[60:70])

    check(other, beside)
    check(device, host)


def test_a_dictionary_that_was_rolled_back_is_read_again(library):
    rule = ResidualDictionary(size=300, tolerance=0.0)
    device = NystroemPosterior(KERNEL, regularization=0.3, dictionary=rule, device="cpu", array_library=library)
    host = NystroemPosterior(KERNEL, regularization=0.3, dictionary=rule)
    for posterior in (device, host):
        posterior.observe(POINTS[:40], REWARDS[:40])
    mark, located = device._projection.mark(), device._locate(POINTS[41:42])
    nothing = np.zeros(device._projection.size)
    device._projection.append_one(POINTS[40:41], device._locate(POINTS[40:41]), nothing, 0.0, 0.0)
    device.predict(QUERIES)
    device._projection.put_back(mark)
    device._projection.append_one(POINTS[41:42], located, nothing, 0.0, 0.0)
    host._projection.append_one(POINTS[41:42], host._locate(POINTS[41:42]), nothing, 0.0, 0.0)

    assert_allclose(device.predict(QUERIES).width, host.predict(QUERIES).width, rtol=1e-8)


def test_similarities_that_are_no_formula_of_rows_come_from_the_processor(library, places):
    points, queries = csr_array(np.where(POINTS > 0.4, POINTS, 0.0)), csr_array(np.where(QUERIES > 0.4, QUERIES, 0.0))
    posteriors = [
        AutoPosterior(Gaussian(length_scale=0.4), regularization=0.3, budget=30, **options)
        for options in ({"device": "cpu", "array_library": library}, {})
    ]
    for posterior in posteriors:
        posterior.observe(points, REWARDS)

    check(*posteriors, queries)
    assert places == [200]


def test_an_indefinite_similarity_is_rejected_on_the_device(library):
    table = FromCallable(lambda first, second: first @ second.T - 2.0 * (first[:, :1] @ second[:, :1].T))
    rule = ResidualDictionary(size=4, tolerance=0.0)
    posterior = NystroemPosterior(table, regularization=0.3, dictionary=rule, device="cpu", array_library=library)
    posterior.observe([[0.1, 1.0]], [1.0])

    with pytest.raises(NotPositiveSemidefinite):
        posterior.predict(np.tile([[2.0, 1.0]], (80, 1)) * np.arange(1.0, 81.0)[:, None])


def test_a_dictionary_that_does_not_fit_is_rejected(library, monkeypatch):
    posterior = AutoPosterior(KERNEL, regularization=0.3, budget=40, device="cpu", array_library=library)
    posterior.observe(POINTS, REWARDS)
    monkeypatch.setattr(Device, "free_bytes", lambda self: 1e5)

    with pytest.raises(OutOfMemory, match="Nothing was changed"):
        posterior.predict(QUERIES)

    monkeypatch.undo()
    assert np.isfinite(posterior.predict(QUERIES).mean).all()


def test_a_device_that_is_not_there_is_rejected():
    with pytest.raises(InvalidParameter, match="must be 'cpu', 'cuda'"):
        NystroemPosterior(KERNEL, regularization=0.3, device="")


@needs_torch
@pytest.mark.gpu
def test_on_a_gpu_a_budget_answers_as_on_the_processor():
    import torch

    if not torch.cuda.is_available():
        pytest.skip("There is no GPU that PyTorch can use.")
    device, host = (AutoPosterior(KERNEL, regularization=0.3, budget=60, device=name) for name in ("cuda", None))
    for first in range(0, 400, 25):
        for posterior in (device, host):
            posterior.observe(POINTS[first : first + 25], REWARDS[first : first + 25])
    check(device, host)
