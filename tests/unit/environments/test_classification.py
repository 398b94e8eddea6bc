import pickle
import sys
from math import exp, sqrt

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import kernelbandits as kb
from kernelbandits.environments import Classification
from kernelbandits.environments.base import BatchWorld
from kernelbandits.errors import DataUnavailable, InvalidParameter, MissingExtra
from kernelbandits.kernels import Constant, Delta, FromCallable, Ids, Linear, Matern, PairProduct
from kernelbandits.testing import EnvironmentContract

RNG = np.random.default_rng(8)
FEATURES = RNG.normal(2.0, 3.0, size=(30, 4))
LABELS = np.array(["plum", "apple", "fig"])[RNG.integers(3, size=30)]
WORDS = ["".join(RNG.choice(list("abc"), size=5)) for _ in range(30)]


class TestClassification(EnvironmentContract):
    @pytest.fixture(params=["disjoint", "pairs", "shared"])
    def environment(self, request):
        return Classification(FEATURES, LABELS, encoding=request.param, normalize_rows=True)


class TestClassificationOfStrings(EnvironmentContract):
    @pytest.fixture
    def environment(self):
        return Classification(WORDS, LABELS, encoding="pairs")


def rounds_of(environment, seed=1):
    world = environment.start(np.random.default_rng(seed))
    for _ in range(environment.n_rows):
        observed = world.observe()
        yield observed, [world.reward(action) for action in range(len(observed.ids))]
    with pytest.raises(StopIteration):
        world.observe()


def test_rounds_are_the_rows_with_a_block_a_class():
    environment = Classification(FEATURES, LABELS, shuffle=False)

    for row, (observed, rewards) in enumerate(rounds_of(environment)):
        blocks = np.zeros((3, 12))
        for action in range(3):
            blocks[action, 4 * action : 4 * action + 4] = FEATURES[row]
        right = [float(LABELS[row] == label) for label in ("apple", "fig", "plum")]

        assert_array_equal(observed.contexts, blocks)
        assert observed.ids == ("apple", "fig", "plum")
        assert rewards == right == observed.expected.tolist()


def test_every_run_has_an_order_of_its_own_and_shows_each_row_once():
    environment = Classification(FEATURES, LABELS, encoding="shared")

    orders = [[observed.contexts[0].tolist() for observed, _ in rounds_of(environment, seed)] for seed in (1, 2)]

    assert orders[0] != orders[1]
    assert sorted(orders[0]) == sorted(orders[1]) == sorted(FEATURES.tolist())


@pytest.mark.parametrize("encoding", ["disjoint", "pairs", "shared"])
def test_rows_are_divided_by_their_length_and_zeros_stay(encoding):
    features = FEATURES.copy()
    features[3] = 0.0
    environment = Classification(features, LABELS, encoding=encoding, normalize_rows=True, shuffle=False)

    for row, (observed, _) in enumerate(rounds_of(environment)):
        found = observed.contexts.context if encoding == "pairs" else observed.contexts[0, :4]
        assert_allclose(found, features[row] / (np.linalg.norm(features[row]) or 1.0))


def test_pairs_show_the_row_and_the_classes():
    observed, _ = next(rounds_of(Classification(FEATURES, LABELS, encoding="pairs", shuffle=False)))

    assert_array_equal(observed.contexts.context, FEATURES[0])
    assert observed.contexts.actions == ("apple", "fig", "plum")


def block_and_pair_points(normalize_rows):
    """Points of both encodings in the same order: all classes of all rows."""
    options = {"normalize_rows": normalize_rows, "shuffle": False}
    blocks = [observed.contexts for observed, _ in rounds_of(Classification(FEATURES, LABELS, **options))]
    kind = PairProduct(Linear(), Delta()).kind
    rounds = rounds_of(Classification(FEATURES, LABELS, encoding="pairs", **options))
    return np.vstack(blocks), kind.stack(*(kind.check(observed.contexts) for observed, _ in rounds))


@pytest.mark.parametrize("normalize_rows", [True, False])
def test_the_linear_kernel_over_blocks_is_a_product_over_pairs(normalize_rows):
    blocks, pairs = block_and_pair_points(normalize_rows)

    assert_allclose(PairProduct(Linear(), Delta()).gram(pairs), Linear().gram(blocks), atol=1e-12)


def test_on_unit_rows_a_kernel_of_the_distance_over_blocks_is_a_product_and_a_constant_over_pairs():
    blocks, pairs = block_and_pair_points(normalize_rows=True)
    kernel, between = Matern(smoothness=0.5, length_scale=1.0), exp(-sqrt(2.0))
    beyond = FromCallable(lambda first, second: kernel.gram(first, second) - between)
    over_pairs = PairProduct(beyond, Delta()) + PairProduct(Constant(between), Constant(1.0, kind=Ids()))

    assert_allclose(over_pairs.gram(pairs), kernel.gram(blocks), atol=1e-12)
    assert np.linalg.eigvalsh(beyond.gram(pairs.contexts)).min() > -1e-12  # k − c is a kernel there
    assert not np.allclose(PairProduct(kernel, Delta()).gram(pairs), kernel.gram(blocks))


def test_a_policy_with_a_model_per_class_learns_from_shared_rows():
    corners = np.tile([[x, y, 1.0] for x in (-1.0, 1.0) for y in (-1.0, 1.0)], (15, 1))
    environment = Classification(corners, (corners[:, 0] > 0).tolist(), encoding="shared")

    trace = kb.simulate(environment, kb.LinUCB(model="disjoint", exploration=0.3), horizon=100, seed=2)

    assert len(trace) == 60
    assert trace.reward[30:].mean() == 1.0
    assert trace.regret[-1] == 60 - trace.reward.sum()


def test_large_rounds_are_not_peeked():
    """Thousands of matrices of 10 × 7,840 numbers at once would not fit into memory."""
    labels = np.arange(30) % 10
    worlds = [Classification(np.ones((30, columns)), labels).start(np.random.default_rng(0)) for columns in (100, 101)]

    assert [isinstance(world, BatchWorld) for world in worlds] == [True, False]


def test_an_environment_travels_to_other_processes():
    environment = Classification(FEATURES, LABELS, normalize_rows=True)

    traveled = pickle.loads(pickle.dumps(environment))

    assert traveled.describe() == environment.describe()
    assert_array_equal(next(rounds_of(traveled))[0].contexts, next(rounds_of(environment))[0].contexts)


def test_equal_data_have_equal_descriptions_and_other_data_others():
    description = Classification(FEATURES, LABELS).describe()
    changed = FEATURES.copy()
    changed[7, 2] += 1e-9

    assert Classification(FEATURES.tolist(), list(LABELS)).describe() == description
    assert Classification(changed, LABELS).describe() != description
    assert Classification(FEATURES, np.roll(LABELS, 1)).describe() != description
    assert Classification(FEATURES, LABELS, normalize_rows=True).describe() != description


@pytest.mark.parametrize("library", ["dictionary", "pandas", "polars", "pyarrow"])
def test_tables_of_every_library_give_the_same_environment(library):
    table = {"size": [1.0, None, 3.0], "color": ["red", "?", "blue"], "name": ["x", "y", "z"], "kind": [2, 1, 2]}
    if library != "dictionary":
        module = pytest.importorskip(library)
        table = module.table(table) if library == "pyarrow" else module.DataFrame(table)

    environment = Classification.from_frame(table, label="kind", drop=["name"], scaling="minmax", encoding="shared")

    assert_array_equal(environment.features, [[0, 1], [-1, -1], [1, 0]])
    assert environment.labels.tolist() == [2, 1, 2]
    assert environment.encoding == "shared"


def test_a_frame_may_stand_for_features():
    environment = Classification({"size": [1.0, 3.0], "color": ["red", "blue"]}, [0, 1])

    assert_array_equal(environment.features, [[1, 1], [3, 0]])


@pytest.mark.parametrize(
    ("name", "shape", "n_classes"),
    [("digits", (1797, 64), 10), ("breast_cancer", (569, 30), 2), ("wine", (178, 13), 3), ("iris", (150, 4), 3)],
)
def test_sets_that_scikit_learn_brings(name, shape, n_classes):
    environment = Classification.from_scikit_learn(name, scaling="standard")

    assert environment.features.shape == shape
    assert len(environment.classes) == n_classes
    is_constant = np.ptp(environment.features, axis=0) == 0.0
    assert_allclose(environment.features.std(axis=0)[~is_constant], 1.0)


def test_a_set_that_scikit_learn_does_not_bring_is_rejected():
    with pytest.raises(InvalidParameter, match=r"digits, breast_cancer, wine, iris.*'mnist'"):
        Classification.from_scikit_learn("mnist")


def test_without_scikit_learn_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn", None)

    with pytest.raises(MissingExtra, match=r"kernelbandits\[experiments\]"):
        Classification.from_scikit_learn("iris")


@pytest.fixture
def fetch(monkeypatch):
    """A stand-in for the download; it records its arguments."""
    pandas = pytest.importorskip("pandas")
    arguments = {"targets": ["kind"]}

    def fetch_openml(name, **options):
        arguments.update(options, name=name)
        columns = {"size": [1.0, 2.0], "color": ["b", "a"], "kind": ["no", "yes"]}
        frame = pandas.DataFrame(columns).astype({"color": "category", "kind": "category"})
        return type("Bunch", (), {"frame": frame, "target_names": arguments["targets"]})

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch_openml)
    return arguments


def test_a_fetched_set_is_a_table_like_any_other(fetch):
    environment = Classification.from_openml("fruit", version=3, scaling="minmax", encoding="pairs")

    assert_array_equal(environment.features, [[0, 1], [1, 0]])
    assert environment.classes == ("no", "yes")
    assert (fetch["name"], fetch["version"]) == ("fruit", 3)


def test_a_fetched_set_with_several_label_columns_needs_one_named(fetch):
    fetch["targets"] = ["kind", "color"]

    with pytest.raises(InvalidParameter, match=r"label columns \['kind', 'color'\]"):
        Classification.from_openml("fruit")
    assert Classification.from_openml("fruit", label="color").classes == ("a", "b")


def test_a_set_that_openml_does_not_have_is_rejected(monkeypatch):
    def fetch_openml(name, **options):
        raise ValueError("No active dataset")

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch_openml)

    with pytest.raises(InvalidParameter, match=r"no data set that .*'fruits'.*No active dataset"):
        Classification.from_openml("fruits")


def test_being_offline_is_reported_with_a_remedy(monkeypatch):
    def fetch(name, **options):
        raise OSError("Name or service not known")

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch)

    with pytest.raises(DataUnavailable, match=r"'fruit' could not be fetched.*service not known.*from_frame"):
        Classification.from_openml("fruit")


@pytest.mark.parametrize(
    ("features", "labels", "options", "message"),
    [
        ([[1.0], [np.nan]], [0, 1], {}, "row 1 holds NaN.*from_frame"),
        ([[1.0], [2.0]], [0, 1, 1], {}, "2 rows and 3 labels"),
        (["a", "b"], [0, 1], {}, "encoding='pairs'"),
        (["a", "b"], [0, 1], {"encoding": "pairs", "normalize_rows": True}, "normalize_rows. Omit it"),
        ([[1.0], [2.0]], [0, 1], {"encoding": "blocks"}, "one of .*'disjoint'.*'blocks'"),
    ],
)
def test_what_makes_no_sense_is_rejected(features, labels, options, message):
    with pytest.raises(InvalidParameter, match=message):
        Classification(features, labels, **options)


@pytest.mark.parametrize("unit", [1e-250, 1e250])
def test_rows_are_normalized_however_large_or_small(unit):
    environment = Classification(
        [[3.0 * unit, 4.0 * unit], [0.0, 0.0]], ["a", "b"], encoding="shared", normalize_rows=True, shuffle=False
    )

    world = environment.start(np.random.default_rng(0))
    np.testing.assert_allclose(world.observe().contexts[0], [0.6, 0.8], rtol=1e-12)
    np.testing.assert_array_equal(world.observe().contexts[0], [0.0, 0.0])
