"""One recipe for all sets: KernelUCB with its defaults, and a verdict that follows from the numbers."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from studies import recipe
from studies.__main__ import NUMBERS

from kernelbandits import KernelUCB
from kernelbandits.environments import Classification
from kernelbandits.evaluation import simulate
from kernelbandits.kernels import Delta, Gaussian, PairProduct, TfIdf


def test_the_recipe_has_defaults_and_the_median_distance():
    rows = np.random.default_rng(0).standard_normal((40, 3))
    environment = Classification(rows, [str(row) for row in range(2)] * 20, encoding="pairs")
    apart = np.linalg.norm(rows[:, None] - rows, axis=2)[np.triu_indices(40, k=1)]

    policy = recipe.recipe(environment)

    assert (
        policy.describe() == KernelUCB(PairProduct(Gaussian(length_scale=float(np.median(apart))), Delta())).describe()
    )


def test_texts_have_the_cosine_of_their_ngrams():
    texts = ["sport today", "stocks fall", "sport again", "stocks rise"]
    policy = recipe.recipe(Classification(texts, ["a", "b", "a", "b"], encoding="pairs"))

    np.testing.assert_array_equal(policy.kernel.context.gram(texts), TfIdf(texts).gram(texts))


def test_the_recipe_learns_blobs():
    rng = np.random.default_rng(1)
    labels = rng.integers(3, size=300)
    rows = 4.0 * np.eye(3)[labels] + rng.standard_normal((300, 3))
    environment = Classification(rows, labels, encoding="pairs")

    assert simulate(environment, recipe.recipe(environment), horizon=300, seed=0).regret[-1] < 60


@pytest.mark.parametrize(
    ("ends", "verdict"),
    [
        ([800.0, 842.0], "fewer in every run"),
        ([842.0, 843.0, 900.0], "fewer in 1 of 3 runs"),
        ([842.3, 900.0], "more in every run"),
    ],
)
def test_a_verdict_is_about_every_run(ends, verdict):
    assert recipe.verdict({"data": "mnist", "ends": ends}) == verdict


def test_sets_without_a_published_number_have_no_verdict():
    assert recipe.verdict({"data": "splice", "ends": [1.0]}) == "–"


def test_the_words_group_the_sets_by_verdict():
    rows = [
        {"data": data, "ends": ends} for data, ends in {"mnist": [1.0], "adult": [9e9], "mushroom": [1, 99]}.items()
    ]

    assert recipe.words(rows) == (
        "The recipe has fewer errors than the best published policy in every run on mnist, fewer in some runs only on "
        "mushroom, more in every run on adult."
    )


def test_the_words_name_every_set_with_a_published_number_once():
    numbers = json.loads(NUMBERS.read_text(encoding="utf-8"))
    if "recipe" not in numbers:
        pytest.skip("docs/results/results.json has no numbers of this study yet: it is not a section of the page")
    rows = numbers["recipe"]["rows"]

    assert all(recipe.words(rows).count(data) == 1 for data in recipe.PUBLISHED)


def test_every_table_is_standardized_and_every_set_is_in_pairs():
    if "KERNELBANDITS_DATA" not in os.environ:
        pytest.skip("reads data sets: set KERNELBANDITS_DATA to their folder")
    sets = recipe.data_sets(Path(os.environ["KERNELBANDITS_DATA"]))

    assert sorted(sets) == ["adult", "agnews", "covertype", "mnist", "mushroom", "shuttle", "splice"]
    for name, environment in sets.items():
        assert environment.encoding == "pairs"
        if isinstance(environment.features, np.ndarray):
            is_number = np.array([len(np.unique(column[:1_000])) > 2 for column in environment.features.T])
            numbers = environment.features[:, is_number]
            if name != "mushroom" and name != "splice":
                np.testing.assert_allclose(numbers.mean(axis=0), 0.0, atol=1e-8)
                np.testing.assert_allclose(numbers.std(axis=0), 1.0, atol=1e-8)
    assert sets["splice"].features.shape[0] == 3_190
    assert set(np.unique(sets["splice"].features)) == {0.0, 1.0}
