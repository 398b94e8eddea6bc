import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import kernelbandits as kb
from kernelbandits import Catalog
from kernelbandits.environments import FixedCatalog
from kernelbandits.errors import InvalidContexts, InvalidParameter
from kernelbandits.kernels import Gaussian
from kernelbandits.testing import EnvironmentContract

RNG = np.random.default_rng(9)
ITEMS = RNG.normal(size=(25, 3))
VALUES = RNG.uniform(-2.0, 5.0, size=25)


class TestFixedCatalog(EnvironmentContract):
    @pytest.fixture(params=["rows", "strings", "catalog", "quiet"])
    def environment(self, request):
        if request.param == "strings":
            return FixedCatalog(["a", "b", "ab"], [0.1, 0.9, 0.4], ids=["x", "y", "z"], noise_scale=0.3)
        if request.param == "catalog":
            return FixedCatalog(Catalog(ITEMS, ids=range(100, 125)), VALUES, noise_scale=0.3)
        return FixedCatalog(ITEMS, VALUES, noise_scale=0.0 if request.param == "quiet" else 0.3)


def test_every_round_and_every_run_shows_the_same_catalog():
    environment = FixedCatalog(ITEMS, VALUES)
    worlds = [environment.start(np.random.default_rng(seed)) for seed in (1, 2)]

    observed = [world.observe() for world in worlds for _ in range(3)]

    assert all(each.contexts is environment.catalog for each in observed)
    assert_array_equal(observed[0].expected, VALUES)


def test_noise_is_common_to_a_round_normal_and_fresh_in_the_next():
    world = FixedCatalog(ITEMS, VALUES, noise_scale=0.7).start(np.random.default_rng(3))
    noises = []
    for _ in range(4_000):
        world.observe()
        noise = world.reward(4) - VALUES[4]
        assert world.reward(17) - VALUES[17] == pytest.approx(noise)
        noises.append(noise)

    assert abs(np.mean(noises)) < 5 * 0.7 / np.sqrt(4_000)
    assert abs(np.std(noises) / 0.7 - 1.0) < 5 / np.sqrt(2 * 4_000)
    assert abs(np.corrcoef(noises[1:], noises[:-1])[0, 1]) < 5 / np.sqrt(4_000)


def test_a_policy_finds_a_good_item_of_the_catalog():
    environment = FixedCatalog(ITEMS, np.exp(-np.sum(ITEMS**2, axis=1)), noise_scale=0.05)

    trace = kb.simulate(environment, kb.KernelUCB(Gaussian(length_scale=1.0), exploration=0.3), horizon=120, seed=1)

    assert trace.n_actions.tolist() == [25] * 120
    assert trace.regret[-1] - trace.regret[-40] < 0.1 * 40 * (trace.best[0] - environment.values.mean())


@pytest.mark.parametrize("library", ["dictionary", "pandas", "polars", "pyarrow"])
def test_tables_of_every_library_give_the_same_environment(library):
    table = {"weight": [1.0, 3.0, 8.0], "sex": ["f", "m", "f"], "age": [4, 12, 6]}
    if library != "dictionary":
        module = pytest.importorskip(library)
        table = module.table(table) if library == "pyarrow" else module.DataFrame(table)

    environment = FixedCatalog.from_frame(table, value="age", noise_scale=0.2)

    features = np.array([[1.0, 0.0], [3.0, 1.0], [8.0, 0.0]])
    assert_allclose(environment.items, (features - features.mean(axis=0)) / features.std(axis=0))
    assert_array_equal(environment.values, [0.0, 1.0, 0.25])
    assert environment.noise_scale == 0.2


def test_a_missing_value_is_rejected():
    with pytest.raises(InvalidParameter, match=r"values in column 'age'.*NaN"):
        FixedCatalog.from_frame({"weight": [1.0, 2.0], "age": [3.0, None]}, value="age")


def test_the_set_that_scikit_learn_brings():
    environment = FixedCatalog.from_scikit_learn("diabetes", values="rank")

    assert len(environment.catalog) == 442
    assert environment.values.mean() == pytest.approx(0.5)


def test_an_environment_travels_to_other_processes():
    environment = FixedCatalog(ITEMS, VALUES)

    traveled = pickle.loads(pickle.dumps(environment))

    assert traveled.describe() == environment.describe()
    worlds = [each.start(np.random.default_rng(1)) for each in (environment, traveled)]
    assert worlds[0].observe().expected.tolist() == worlds[1].observe().expected.tolist()
    assert worlds[0].reward(2) == worlds[1].reward(2)


def test_equal_data_have_equal_descriptions_and_other_data_others():
    description = FixedCatalog(ITEMS, VALUES).describe()

    assert FixedCatalog(Catalog(ITEMS), VALUES.tolist()).describe() == description
    assert FixedCatalog(ITEMS, -VALUES).describe() != description
    assert FixedCatalog(-ITEMS, VALUES).describe() != description
    assert FixedCatalog(ITEMS, VALUES, ids=range(1, 26)).describe() != description
    assert FixedCatalog(ITEMS, VALUES, noise_scale=0.2).describe() != description


def test_a_catalog_that_has_grown_needs_a_new_environment():
    catalog = Catalog(ITEMS)
    environment = FixedCatalog(catalog, VALUES)
    catalog.add(np.zeros((1, 3)))

    with pytest.raises(InvalidParameter, match=r"grown to 26 items.*made for 25"):
        environment.start(np.random.default_rng(0))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"values": VALUES[:-1]}, "25 items and 24 values"),
        ({"values": [*VALUES[:-1], np.nan]}, "finite"),
        ({"noise_scale": -0.1}, "noise scale"),
        ({"items": Catalog(ITEMS), "ids": range(25)}, "own ids"),
        ({"ids": [0] * 25}, "twice"),
    ],
)
def test_what_makes_no_sense_is_rejected(arguments, message):
    with pytest.raises(InvalidParameter, match=message):
        FixedCatalog(**{"items": ITEMS, "values": VALUES, **arguments})


def test_items_with_gaps_are_rejected():
    with pytest.raises(InvalidContexts, match=r"row 0 holds NaN.*Fill gaps"):
        FixedCatalog([[np.nan], [1.0]], [0.0, 1.0])
