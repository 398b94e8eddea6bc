"""Facts known of the published sets, where their files are at hand."""

import os
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import kernelbandits as kb
from kernelbandits.environments import from_file
from kernelbandits.environments.datasets import LOADERS, open_bandit
from kernelbandits.kernels import Delta, Gaussian, Matern, PairProduct, Positionwise, Spectrum

FILES = {
    "abalone": "abalone/abalone.csv.gz",
    "adult": "adult/adult.csv.gz",
    "agnews": "agnews/agnews_test.csv.gz",
    "covertype": "covertype/covertype_50k.csv.gz",
    "mnist": "mnist/mnist_t10k.npz",
    "mushroom": "mushroom/mushroom.csv.gz",
    "newsfeeds": "newsfeeds/newsfeeds.csv.gz",
    "onlinenews": "onlinenews/onlinenews_part.csv.gz",
    "shuttle": "shuttle/shuttle.csv.gz",
    "splice": "splice/splice.csv.gz",
}


@pytest.fixture(scope="module")
def folder():
    named = os.environ.get("KERNELBANDITS_DATA")
    if not named:
        pytest.skip("needs the data sets: name their folder in the environment variable KERNELBANDITS_DATA")
    return Path(named)


@pytest.fixture(scope="module")
def load(folder):
    return lambda name, **options: from_file(name, folder / FILES[name], **options)


def test_every_loader_is_tried_here():
    assert set(FILES) == set(LOADERS)


@pytest.mark.parametrize(
    ("name", "shape", "counts"),
    [
        ("mushroom", (8_124, 22), {"e": 4_208, "p": 3_916}),
        ("shuttle", (58_000, 9), {1: 45_586, 2: 50, 3: 171, 4: 8_903, 5: 3_267, 6: 10, 7: 13}),
        ("adult", (48_842, 14), {"<=50K": 37_155, ">50K": 11_687}),
        ("mnist", (10_000, 784), {0: 980, 1: 1_135}),
        ("covertype", (50_000, 12), {}),
    ],
)
def test_classes_are_as_numerous_as_published(load, name, shape, counts):
    environment = load(name)

    assert environment.features.shape == shape
    assert Counter(environment.labels.tolist()) >= Counter(counts)
    world = environment.start(np.random.default_rng(1))
    assert world.observe().contexts.shape == (len(environment.classes), len(environment.classes) * shape[1])


def test_mushrooms_miss_only_some_stalk_roots(load):
    assert (load("mushroom").features == -1).sum(axis=0).tolist() == [0] * 10 + [2_480] + [0] * 11


@pytest.mark.parametrize(
    ("name", "options", "n_items", "mean"),
    [
        ("abalone", {}, 4_177, 0.319),
        ("onlinenews", {}, 9_874, 0.5),
        ("onlinenews", {"features": "words"}, 9_874, 0.5),
        ("newsfeeds", {"wanted": "tech"}, 4_505, 0.140),
        ("newsfeeds", {"wanted": "sport"}, 4_505, 0.080),
        ("agnews", {}, 7_600, 0.25),
        ("splice", {"task": "catalog"}, 3_190, 0.481),
    ],
)
def test_items_are_as_many_and_worth_as_much_as_known(load, name, options, n_items, mean):
    environment = load(name, **options)

    assert len(environment.values) == n_items
    assert environment.values.mean() == pytest.approx(mean, abs=6e-4)


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "options", "kernel"),
    [
        ("mushroom", {"normalize_rows": True}, Matern(smoothness=0.5, length_scale=1.0)),
        ("covertype", {"binary": True, "scaling": "standard"}, Gaussian(length_scale=3.0)),
        ("mnist", {"pixels": "standard", "encoding": "pairs"}, PairProduct(Gaussian(length_scale=20.0), Delta())),
        ("splice", {}, PairProduct(Positionwise(length_scale=7.0), Delta())),
        ("abalone", {}, Gaussian(length_scale=5.0)),
        ("newsfeeds", {}, Spectrum(n=3)),
        ("agnews", {}, Spectrum(n=3)),
        ("onlinenews", {}, Gaussian(length_scale=8.0)),
    ],
)
def test_a_policy_beats_random_choices_within_some_hundred_rounds(load, name, options, kernel):
    environment = load(name, **options)
    policy = kb.KernelUCB(kernel, regularization=0.1, exploration=0.1)

    trace = kb.simulate(environment, policy, horizon=300, seed=3)

    by_chance = kb.simulate(environment, kb.UniformRandom(seed=0), horizon=300, seed=3)
    assert trace.expected[100:].mean() > by_chance.expected.mean()


@pytest.mark.parametrize(("campaign", "n_items", "n_clicks"), [("all", 80, 38), ("men", 34, 46), ("women", 46, 46)])
def test_the_log_of_the_uniform_rule_has_uniform_propensities(folder, campaign, n_items, n_clicks):
    log = open_bandit(
        folder / f"obd/random_{campaign}.csv.gz",
        item_context=folder / f"obd/item_context_{campaign}_random.csv",
        user_context=True,
    )

    assert len(log) == 10_000
    assert set(log.n_actions.tolist()) == {n_items}
    np.testing.assert_allclose(log.propensities, 1 / n_items)
    assert log.rewards.sum() == n_clicks
