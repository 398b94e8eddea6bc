"""The engine of catalogs on another device chooses what the engine of the processor chooses."""

import importlib.util
import itertools
import re
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose

import kernelbandits as kb
from kernelbandits.errors import InvalidParameter, MissingExtra, NotSupported, OutOfMemory
from kernelbandits.kernels import Gaussian, Spectrum
from kernelbandits.posterior import DevicePosterior
from kernelbandits.posterior.device import Device
from kernelbandits.selection import device_engine, selectors
from kernelbandits.selection.device_engine import DeviceEngine, DeviceLimits

HAS_TORCH = importlib.util.find_spec("torch") is not None
LIBRARIES = [
    "array_api_strict",
    pytest.param("torch", marks=pytest.mark.skipif(not HAS_TORCH, reason="PyTorch is not installed")),
]


WORDS = list(itertools.product("abcdefg", repeat=3))
"""More strings than an active set of the tests has."""


@pytest.fixture(params=LIBRARIES)
def library(request):
    return request.param


@pytest.fixture
def small_sets(monkeypatch):
    """Few pending points, a small active set and narrow chunks, so that a short history needs all of them."""
    limits = DeviceLimits(most_pending=7, most_active=40, most_columns=16, items_at_once=300)
    monkeypatch.setattr(selectors, "DeviceEngine", partial(DeviceEngine, limits=limits))


def policies(kernel, library, **parameters):
    """The same policy on the processor and on a device."""
    return [
        kb.KernelUCB(kernel, **parameters),
        kb.KernelUCB(
            kernel,
            posterior=lambda kernel, gamma: DevicePosterior(
                kernel, regularization=gamma, device="cpu", array_library=library
            ),
            **parameters,
        ),
    ]


def engine_of(policy, catalog):
    return policy._selectors.engine(catalog, policy.posterior)


def same_choice(both, *arguments, **options):
    wanted, found = (policy.choose(*arguments, **options) for policy in both)
    assert found.action == wanted.action
    assert_allclose([found.mean, found.width], [wanted.mean, wanted.width], rtol=1e-8, atol=1e-9)
    return wanted, found


@pytest.mark.parametrize(("regularization", "exploration"), [(1.0, 0.5), (0.1, 1.0), (0.01, 0.3)])
@pytest.mark.usefixtures("small_sets")
def test_choices_are_those_of_the_processor(regularization, exploration, library):
    """Also after amended and removed rewards, points that are no items, and new items."""
    rng = np.random.default_rng(0)
    items = rng.uniform(size=(700, 4))
    catalog = kb.Catalog(items)
    both = policies(Gaussian(length_scale=0.5), library, regularization=regularization, exploration=exploration)
    for t in range(120):
        decisions = same_choice(both, catalog)
        reward = float(np.sin(decisions[0].context @ [3.0, 1.0, 2.0, 5.0]) + 0.1 * rng.normal())
        other = rng.uniform(size=(1, 4))
        for policy, decision in zip(both, decisions, strict=True):
            policy.learn(decision, reward)
            if t == 30:
                policy.amend(decision, now=reward + 0.5)
            if t == 60:
                policy.unlearn(decision)
            if t % 25 == 5:
                policy.warm_start(other, [0.3])
        if t == 80:
            catalog.add(rng.uniform(size=(5, 4)))
        if t % 20 == 10:
            same_choice(both, catalog, eligible=np.arange(len(catalog)) % 3 == 0)

    engines = [engine_of(policy, catalog) for policy in both]
    assert isinstance(engines[1], DeviceEngine)
    wanted, found = (engine.estimate() for engine in engines)
    assert_allclose(found.mean, wanted.mean, rtol=1e-7, atol=1e-9)
    assert_allclose(found.width, wanted.width, rtol=1e-7)
    assert_allclose(engines[1].log_det_gain(), both[0].posterior.log_det_gain, rtol=1e-9)


@pytest.mark.usefixtures("small_sets")
def test_most_rounds_compute_the_active_set_only(library):
    """The negative control of the bound: without it every item would have to be computed."""
    rng = np.random.default_rng(1)
    catalog = kb.Catalog(rng.uniform(size=(700, 4)))
    policy = policies(Gaussian(length_scale=0.5), library, regularization=1.0, exploration=0.5)[1]
    computed = []
    for _ in range(60):
        decision = policy.choose(catalog)
        policy.learn(decision, float(decision.context[0]))
        computed.append(decision.cost.widths_computed)

    assert np.mean(np.array(computed[20:]) < 200) > 0.9


@pytest.mark.usefixtures("small_sets")
def test_a_bound_that_is_too_low_would_be_noticed(library, monkeypatch):
    """The negative control of the comparison."""
    monkeypatch.setattr(device_engine._Effect, "rise", lambda self, beta: 0.2 * beta)
    with pytest.raises(AssertionError):
        test_choices_are_those_of_the_processor(0.1, 1.0, library)


@pytest.mark.usefixtures("small_sets")
def test_strings_are_compared_on_the_host(library):
    rng = np.random.default_rng(2)
    words = sorted({"".join(rng.choice(list("abcd"), size=6)) for _ in range(200)})
    catalog = kb.Catalog(words)
    both = policies(Spectrum(n=2), library, regularization=0.5, exploration=0.7)
    for _ in range(40):
        decisions = same_choice(both, catalog)
        reward = decisions[0].context.count("a") / 6
        for policy, decision in zip(both, decisions, strict=True):
            policy.learn(decision, reward)


def test_ties_go_to_the_lowest_row(library):
    catalog = kb.Catalog(np.repeat(np.eye(3), 4, axis=0))
    both = policies(Gaussian(length_scale=1.0), library)
    for _ in range(6):
        for policy, decision in zip(both, same_choice(both, catalog), strict=True):
            policy.learn(decision, 0.5)


def test_a_removed_item_is_never_chosen(library):
    catalog = kb.Catalog(np.random.default_rng(3).uniform(size=(50, 2)), ids=[f"item {i}" for i in range(50)])
    both = policies(Gaussian(length_scale=0.3), library)
    for _ in range(20):
        decisions = same_choice(both, catalog)
        assert decisions[0].item == decisions[1].item
        for policy, decision in zip(both, decisions, strict=True):
            policy.learn(decision, 1.0)
        catalog.remove([decisions[0].item])


def test_columns_that_do_not_fit_are_rejected(library, monkeypatch):
    catalog = kb.Catalog(np.random.default_rng(4).uniform(size=(5_000, 2)))
    policy = policies(Gaussian(length_scale=0.3), library)[1]
    policy.learn(policy.choose(catalog), 1.0)
    monkeypatch.setattr(Device, "free_bytes", lambda self: 1e6)
    with pytest.raises(OutOfMemory, match=r"free\. Nothing was changed"):
        policy.choose(catalog, eligible=np.arange(5_000) > 2)
    monkeypatch.undo()
    assert policy.choose(catalog, eligible=np.arange(5_000) > 2).action > 2


# -- the parameter of policies ----------------------------------------------------------------------------------------


@pytest.mark.skipif(HAS_TORCH, reason="PyTorch is installed")
def test_without_pytorch_a_device_names_the_extra():
    with pytest.raises(MissingExtra, match=re.escape("kernelbandits[gpu]")):
        kb.KernelUCB(Gaussian(length_scale=1.0), device="cuda")


@pytest.mark.skipif(not HAS_TORCH, reason="PyTorch is not installed")
def test_a_gpu_that_is_not_there_is_rejected():
    for options in ({}, {"budget": 100}):
        with pytest.raises(InvalidParameter, match="needs a GPU that PyTorch can use"):
            kb.KernelUCB(Gaussian(length_scale=1.0), device="cuda:77", **options)


def test_a_device_is_for_the_model_that_the_library_chooses():
    with pytest.raises(NotSupported, match="takes no accuracy"):
        kb.KernelUCB(Gaussian(length_scale=1.0), device="cuda", accuracy=0.1)
    with pytest.raises(InvalidParameter, match="is for posterior='auto'"):
        kb.KernelUCB(Gaussian(length_scale=1.0), device="cuda", posterior="exact")
    with pytest.raises(InvalidParameter, match="must be 'cpu', 'cuda'"):
        kb.KernelUCB(Gaussian(length_scale=1.0), device=3)


def test_the_device_is_not_part_of_the_description():
    policy = kb.KernelUCB(Gaussian(length_scale=1.0), device="cpu")
    assert policy.device == "cpu"
    assert "device" not in policy.describe()


@pytest.mark.skipif(not HAS_TORCH, reason="PyTorch is not installed")
def test_a_live_policy_moves_to_a_device_or_stays_as_it_was(monkeypatch):
    policy = kb.KernelUCB(Gaussian(length_scale=1.0))
    contexts = np.random.default_rng(5).uniform(size=(6, 2))
    policy.learn(policy.choose(contexts), 1.0)
    before = policy.posterior.predict(contexts)
    with pytest.raises(InvalidParameter, match="needs a GPU that PyTorch can use"):
        policy.refit(device="cuda:77")
    assert policy.device == "cpu"

    import torch

    monkeypatch.setattr(Device, "_found", lambda self: torch.device("cpu"))  # a stand-in for a GPU
    policy.refit(device="cuda")

    assert isinstance(policy.posterior, DevicePosterior)
    assert_allclose(policy.posterior.predict(contexts).mean, before.mean, rtol=1e-10)
    assert policy.choose(contexts).policy == policy.fingerprint


@pytest.mark.parametrize("kernel", [Gaussian(length_scale=0.5), Spectrum(n=2)])
@pytest.mark.usefixtures("small_sets")
def test_columns_of_an_observed_item_are_read_and_not_solved_for(kernel, library, monkeypatch):
    rng = np.random.default_rng(4)
    items = rng.uniform(size=(300, 3)) if isinstance(kernel, Gaussian) else ["".join(word) for word in WORDS]
    catalog = kb.Catalog(items)
    _, policy = policies(kernel, library, regularization=0.1, exploration=1.0, seed=0)
    solved, substitution = [], DeviceEngine._column_of
    monkeypatch.setattr(
        DeviceEngine, "_column_of", lambda own, point: (solved.append(point), substitution(own, point))[1]
    )

    for _ in range(40):
        policy.learn(policy.choose(catalog), float(rng.normal()))
    policy.warm_start([items[7]] if isinstance(kernel, Spectrum) else items[7:8], [0.4])  # an item that was not chosen
    policy.choose(catalog)

    assert not solved
    engine = engine_of(policy, catalog)
    assert len(engine._blocks) > 2
    for row in (0, 7, 120):
        point = kernel.kind.take(engine._points, np.array([row]))
        read, found = engine._device.numpy(engine._column_at(row)), engine._device.numpy(substitution(engine, point))
        assert_allclose(read, found, rtol=1e-9, atol=1e-11)

    policy.warm_start(["zzzz"] if isinstance(kernel, Spectrum) else [[2.0, 2.0, 2.0]], [0.4])  # no item
    policy.choose(catalog)
    assert len(solved) == 1
