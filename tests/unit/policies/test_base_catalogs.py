"""Choosing from a catalog is choosing from its items, found faster."""

import gc
from threading import Event, Thread

import numpy as np
import pytest

import kernelbandits as kb
from kernelbandits.errors import InvalidContexts, InvalidParameter, UnknownItem
from kernelbandits.kernels import Delta, Gaussian, Linear, Precomputed, Spectrum
from kernelbandits.theory import exploration as schedules

RNG = np.random.default_rng(0)
ITEMS = RNG.uniform(size=(60, 2))
MIXTURE = schedules.Mixture(noise_scale=0.3, norm_bound=1.0, failure_probability=0.1)

POLICIES = {
    "KernelUCB": lambda: kb.KernelUCB(Gaussian(length_scale=0.3), regularization=0.2, exploration=0.4),
    "linear kernel": lambda: kb.KernelUCB(Linear() + 0.5, regularization=0.2, exploration=0.4),
    "schedule": lambda: kb.KernelUCB(Gaussian(length_scale=0.3), regularization=0.2, exploration=MIXTURE),
    "GPUCB": lambda: kb.GPUCB(Gaussian(length_scale=0.3), noise_variance=0.1),
    "LinUCB": lambda: kb.LinUCB(exploration=0.4),
    "disjoint": lambda: kb.LinUCB(model="disjoint", exploration=0.4),
    "SupKernelUCB": lambda: kb.SupKernelUCB(Gaussian(length_scale=0.3), exploration=0.2),
    "random": lambda: kb.UniformRandom(seed=4),
}


@pytest.mark.parametrize("name", POLICIES)
def test_it_is_choosing_from_the_items(name):
    """With repeats, late and amended and removed rewards, restrictions and growth on the way."""
    rng = np.random.default_rng(1)
    ids = [f"item {row}" for row in range(60)]
    catalog = kb.Catalog(ITEMS[:50], ids=ids[:50])
    whole, plain = POLICIES[name](), POLICIES[name]()
    waiting = []
    for number in range(120):
        if number == 60:
            catalog.add(ITEMS[50:], ids=ids[50:])
        n_items = len(catalog)
        if number % 5 == 2:
            allowed = rng.choice(n_items, size=20, replace=False)
            view = catalog.only([ids[row] for row in allowed])
        else:
            allowed, view = np.arange(n_items), catalog
        mask = np.zeros(n_items, dtype=bool)
        mask[allowed] = True
        left = whole.choose(view)
        right = plain.choose(ITEMS[:n_items], ids=ids[:n_items], eligible=mask)
        assert (left.action, left.item, left.stage, left.propensity) == (
            right.action, right.item, right.stage, right.propensity,
        )  # fmt: skip
        assert left.n_actions == right.n_actions
        np.testing.assert_allclose([left.mean, left.width], [right.mean, right.width], rtol=1e-7, atol=1e-9)
        np.testing.assert_array_equal(left.context, ITEMS[left.action])
        waiting.append((left, right, float(rng.uniform())))
        if number % 7 == 0:
            continue  # this reward comes later
        while waiting:
            left, right, reward = waiting.pop()
            whole.learn(left, reward)
            plain.learn(right, reward)
        if number % 11 == 3:
            for policy, decision in ((whole, left), (plain, right)):
                policy.amend(decision, was=reward, now=0.5 * reward)
        if number % 13 == 5:
            for policy, decision in ((whole, left), (plain, right)):
                policy.unlearn(decision, reward if number % 11 != 3 else 0.5 * reward)


@pytest.mark.parametrize("name", POLICIES)
def test_a_catalog_whose_items_come_and_go_is_the_items_that_are_there(name):
    """Compared in every round with the same policy without a catalog."""
    rng = np.random.default_rng(2)
    points = rng.uniform(size=(200, 2))
    points[7] = points[3]  # a duplicate
    there = list(range(40))
    catalog = kb.Catalog(points[:40], ids=there)
    whole, plain = POLICIES[name](), POLICIES[name]()
    waiting, n_ever, latest = [], 40, 0
    for number in range(150):
        for _ in range(int(rng.integers(3)) if number % 4 == 1 else 0):
            if number % 8 == 1:  # one that was chosen last
                gone = [latest] if latest in there else there[:1]
            else:
                gone = rng.choice(there, size=int(rng.integers(1, 4)), replace=False).tolist()
            catalog.remove(gone)
            there = [item for item in there if item not in gone]
        if number % 5 == 2 and n_ever < 195:
            n_new = int(rng.integers(1, 5))
            catalog.add(points[n_ever : n_ever + n_new], ids=list(range(n_ever, n_ever + n_new)))
            there += range(n_ever, n_ever + n_new)
            n_ever += n_new
        assert catalog.ids == tuple(there)
        left, right = whole.choose(catalog), plain.choose(points[there], ids=there)
        assert (left.action, left.item, left.stage, left.propensity, left.n_actions) == (
            right.action, right.item, right.stage, right.propensity, right.n_actions,
        )  # fmt: skip
        np.testing.assert_allclose([left.mean, left.width], [right.mean, right.width], rtol=1e-7, atol=1e-9)
        np.testing.assert_array_equal(left.context, points[left.item])
        latest = left.item
        waiting.append((left, right, float(rng.uniform())))
        if number % 3:
            for left, right, reward in waiting:
                whole.learn(left, reward)
                plain.learn(right, reward)
            waiting = []


def test_an_engine_follows_removals_and_is_not_made_again(monkeypatch):
    catalog = kb.Catalog(ITEMS, ids=list(range(60)))
    policy = POLICIES["KernelUCB"]()
    for _ in range(30):
        policy.learn(policy.choose(catalog), 0.3)
    engine = policy._selectors.engine(catalog, policy.posterior)
    n_rebuilds = engine.n_rebuilds

    for item in range(40):
        catalog.remove([item])
    policy.learn(policy.choose(catalog), 0.3)

    assert policy._selectors.engine(catalog, policy.posterior) is engine
    assert (engine.n_items, engine.n_rebuilds) == (20, n_rebuilds)
    exact = policy.posterior.predict(ITEMS[40:])
    np.testing.assert_allclose(engine.estimate().mean, exact.mean, rtol=0, atol=1e-10)
    np.testing.assert_allclose(engine.estimate().width, exact.width, rtol=0, atol=1e-10)
    catalog.add(ITEMS[:5], ids=list(range(5)))
    catalog.remove(list(range(40, 60)))  # every item that the engine has
    assert policy.choose(catalog).item in range(5)
    assert policy._selectors.engine(catalog, policy.posterior) is not engine


def test_an_earlier_view_is_answered_for_the_items_that_it_holds():
    catalog = kb.Catalog(ITEMS, ids=list(range(60)))
    policy, plain = POLICIES["KernelUCB"](), POLICIES["KernelUCB"]()
    for _ in range(30):
        left, right = policy.choose(catalog), plain.choose(ITEMS)
        policy.learn(left, 0.3)
        plain.learn(right, 0.3)
    best = plain.choose(ITEMS).action
    view = catalog.without([(best + 1) % 60])
    catalog.remove([best])
    policy.choose(catalog)  # the engine has the smaller catalog now

    decision = policy.choose(view)
    assert (decision.item, decision.action) == (best, best)
    policy.learn(decision, 1.0)
    assert policy.choose(catalog).item != best


def test_a_policy_for_fixed_actions_rejects_a_catalog_that_lost_one():
    catalog = kb.Catalog(ITEMS, ids=list(range(60)))
    policy = kb.PhasedElimination(Gaussian(length_scale=0.3), ITEMS, horizon=200, exploration="theory", norm_bound=1.0)
    policy.choose(catalog)
    catalog.remove([0])

    with pytest.raises((InvalidContexts, kb.errors.NotSupported), match="action"):
        policy.choose(catalog)


def test_policies_choose_while_a_catalog_changes_in_another_thread():
    catalog = kb.Catalog(ITEMS, ids=[f"item {row}" for row in range(60)])
    points = {f"item {row}": ITEMS[row] for row in range(60)}
    policy, failures, stop = POLICIES["KernelUCB"](), [], Event()

    def change():
        rng = np.random.default_rng(0)
        while not stop.is_set():
            gone = rng.choice(catalog.ids, size=5, replace=False).tolist()
            catalog.remove(gone)
            catalog.add([points[item] for item in gone], ids=gone)

    thread = Thread(target=change)
    thread.start()
    try:
        for _ in range(300):
            decision = policy.choose(catalog)
            if not np.array_equal(decision.context, points[decision.item]):
                failures.append(decision)
            policy.learn(decision, float(decision.context.sum()))
    finally:
        stop.set()
        thread.join()

    assert not failures
    exact = policy.posterior.predict(np.array([points[item] for item in catalog.ids]))
    engine = policy._selectors.engine(catalog, policy.posterior)
    np.testing.assert_allclose(engine.estimate().mean, exact.mean, rtol=0, atol=1e-9)


def test_pending_decisions_and_slates_work_as_ever():
    catalog = kb.Catalog(ITEMS)
    whole, plain = POLICIES["KernelUCB"](), POLICIES["KernelUCB"]()
    for policy, contexts in ((whole, catalog), (plain, ITEMS)):
        for _ in range(10):
            policy.learn(policy.choose(contexts), 0.3)
        policy.expect(policy.choose(contexts))

    left, right = whole.choose(catalog, k=5, diverse=True), plain.choose(ITEMS, k=5, diverse=True)

    assert left.actions.tolist() == right.actions.tolist()
    assert whole.choose(catalog).action == plain.choose(ITEMS).action


def test_strings_tables_and_pairs_can_be_catalogs():
    words = ["red boat", "red coat", "blue goat", "blue coat"]
    for kernel, items in [
        (Spectrum(n=2), words),
        (Precomputed(np.eye(4) + 0.3, ids=words), words),
        (Precomputed(np.eye(4) + 0.3), [0, 1, 2, 3]),
        (Delta(), [7, "x", 9, 11]),
    ]:
        policy, plain = kb.KernelUCB(kernel, exploration=0.5), kb.KernelUCB(kernel, exploration=0.5)
        catalog = kb.Catalog(items)
        for reward in (0.1, 0.9, 0.3, 0.8):
            left, right = policy.choose(catalog), plain.choose(items)
            assert left.context == right.context
            policy.learn(left, reward)
            plain.learn(right, reward)
    pairs = kb.CGPUCB(context_kernel=Linear(), action_kernel=Delta(), noise_variance=0.1)
    decision = pairs.choose(kb.Catalog(words, ids=list("abcd")).given([0.5, 1.0]))
    assert decision.item in "abcd"
    pairs.learn(decision, 1.0)


def test_an_engine_is_used_reported_and_dropped_with_its_catalog():
    policy = POLICIES["KernelUCB"]()
    catalog = kb.Catalog(ITEMS)
    policy.learn(policy.choose(catalog), 0.5)
    cost = policy.choose(catalog).cost
    assert cost.engine != "exhaustive"
    assert cost.n_actions == 60
    assert policy.choose(ITEMS).cost.engine == "exhaustive"

    copied = policy.copy()
    del catalog
    gc.collect()

    assert len(policy._selectors) == len(copied._selectors) == 0


def test_probabilities_are_those_of_the_whole_catalog():
    policy = POLICIES["KernelUCB"]()
    catalog = kb.Catalog(ITEMS, ids=[f"item {row}" for row in range(60)])

    probabilities = policy.probabilities(catalog.only(["item 7", "item 3"]))

    assert probabilities.shape == (60,)
    assert np.flatnonzero(probabilities).tolist() == [3]


def test_ids_belong_to_the_catalog():
    policy = POLICIES["KernelUCB"]()

    with pytest.raises(InvalidParameter, match="A catalog has its own ids"):
        policy.choose(kb.Catalog(ITEMS), ids=list(range(60)))
    with pytest.raises(UnknownItem, match="No item 'z'"):
        kb.Catalog(ITEMS, ids=[f"item {row}" for row in range(60)]).only(["z"])


@pytest.mark.parametrize("size", [1e154, 1e200])
def test_items_whose_similarities_overflow_are_rejected_like_rows(size):
    policy = kb.KernelUCB(kb.kernels.Linear())
    policy.warm_start([[1.0, 2.0]], [1.0])
    rows = np.array([[1.0, 1.0], [size, size]])

    for contexts in (rows, kb.Catalog(rows)):
        with pytest.raises(InvalidContexts, match="overflow"):
            policy.choose(contexts)


def test_items_too_large_for_the_regularization_are_all_scored():
    rng = np.random.default_rng(3)
    policy = kb.KernelUCB(kb.kernels.Linear(), regularization=1e-3)
    catalog = kb.Catalog(rng.uniform(size=(30, 2)))
    policy.learn(policy.choose(catalog), 0.5)
    assert policy.choose(catalog).cost.engine == "column log"

    catalog.add(1e4 * rng.uniform(size=(5, 2)))

    assert policy.choose(catalog).cost.engine != "column log"


def test_objects_in_an_array_are_copied():
    items = np.empty(2, dtype=object)
    items[0], items[1] = {1, 2}, {3}
    catalog = kb.Catalog(items)
    items[0].add(9)

    assert kb.KernelUCB(kb.kernels.Jaccard()).choose(catalog).context == frozenset({1, 2})


def test_a_single_value_is_no_catalog():
    with pytest.raises(InvalidContexts, match="single value"):
        kb.Catalog(np.array(3.0))
