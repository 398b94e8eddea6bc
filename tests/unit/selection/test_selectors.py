"""Engines are derived state: bounded, never copied, and never used after an interrupt."""

import copy
import pickle
import sys
import tracemalloc
from itertools import pairwise
from threading import Thread

import numpy as np
import pytest
from numpy.testing import assert_allclose

import kernelbandits as kb
from interrupts import interrupted, interrupted_everywhere
from kernelbandits.kernels import Gaussian, Linear
from kernelbandits.selection import CatalogEngine, selectors
from kernelbandits.selection.active_set import ActiveSetLimits, ActiveSets
from kernelbandits.selection.column_log import ColumnLog

RNG = np.random.default_rng(3)
ITEMS = RNG.uniform(size=(40, 2))
REWARDS = np.sin(5.0 * ITEMS[:, 0]) + ITEMS[:, 1]


def made(**arguments):
    return kb.KernelUCB(Gaussian(length_scale=0.3), regularization=0.2, exploration=0.4, posterior="exact", **arguments)


def taught(catalog, n_rounds, policy=None):
    """A policy that has learned for some rounds from the catalog."""
    policy = made() if policy is None else policy
    for _ in range(n_rounds):
        decision = policy.choose(catalog)
        policy.learn(decision, REWARDS[decision.action])
    return policy


# -- bounds ----------------------------------------------------------------------------------------------------------


def small_catalogs(n_catalogs):
    return [kb.Catalog(RNG.uniform(size=(10, 2))) for _ in range(n_catalogs)]


def memory_of(policy, catalogs):
    """Bytes that the policy has allocated for catalogs that the caller keeps."""
    for catalog in catalogs:
        catalog.points(policy.posterior.kernel.kind)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for catalog in catalogs:
            policy.choose(catalog)
        return tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("n_catalogs", [100, pytest.param(1000, marks=pytest.mark.long)])
def test_a_small_catalog_takes_little_memory(n_catalogs):
    catalogs, policy = small_catalogs(n_catalogs), made()
    policy.warm_start(ITEMS[:5], REWARDS[:5])
    policy.choose(kb.Catalog(ITEMS))

    held = memory_of(policy, catalogs)

    assert len(policy._selectors) >= n_catalogs
    assert held < 40_000 * n_catalogs


def test_engines_beyond_the_bound_are_dropped_those_used_longest_ago_first():
    catalogs, policy = small_catalogs(80), made()
    policy._selectors.most_bytes = 1_000_000
    policy.warm_start(ITEMS[:5], REWARDS[:5])

    held = memory_of(policy, catalogs)

    assert held < 1_000_000 + 50_000
    n_kept = len(policy._selectors)
    assert 15 <= n_kept < 50
    is_kept = [catalog in policy._selectors._stored for catalog in catalogs]
    assert is_kept == [False] * (80 - n_kept) + [True] * n_kept


def test_the_engine_in_use_is_kept_however_large():
    catalog = kb.Catalog(ITEMS)
    policy = taught(catalog, 5)
    policy._selectors.most_bytes = 0

    found = policy._selectors.engine(catalog, policy.posterior)
    policy.choose(catalog)

    assert len(policy._selectors) == 1
    assert policy._selectors.engine(catalog, policy.posterior) is found


@pytest.mark.parametrize(("most_bytes", "n_engines"), [(10**9, 2), (0, 40)])
def test_catalogs_that_take_turns_keep_their_engines_where_they_fit(monkeypatch, most_bytes, n_engines):
    made_engines = []
    monkeypatch.setattr(selectors, "CatalogEngine", lambda *given: made_engines.append(given) or CatalogEngine(*given))
    catalogs = [kb.Catalog(ITEMS), kb.Catalog(ITEMS[::-1])]
    policy = made()
    policy._selectors.most_bytes = most_bytes

    for number in range(40):
        policy.learn(policy.choose(catalogs[number % 2]), 0.1 * number)

    assert len(made_engines) == n_engines


def test_what_an_engine_counts_is_what_it_takes():
    points = np.random.default_rng(0).uniform(size=(3000, 2))
    policy, catalog = made(), kb.Catalog(points)
    policy.warm_start(points[:50], points[:50, 0])
    policy.choose(kb.Catalog(points[:100]))
    catalog.points(policy.posterior.kernel.kind)

    found = policy._selectors.engine(catalog, policy.posterior)
    found.choose(0.4)

    assert 50 * 3000 * 8 < found.n_bytes < 1.5 * 50 * 3000 * 8


# -- copies ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda policy: pickle.loads(pickle.dumps(policy))])
def test_a_copy_has_no_engine(copied):
    catalog = kb.Catalog(ITEMS)
    policy = taught(catalog, 12)
    policy.choose(catalog)

    other = copied(policy)

    assert not len(other._selectors)
    assert len(pickle.dumps(policy)) < 100_000


# -- interrupts ------------------------------------------------------------------------------------------------------


def expected_choices(policy, n_rounds):
    """The choices of a policy that scores all actions, and learns for this many rounds."""
    choices = []
    for _ in range(n_rounds):
        prediction = policy.posterior.predict(ITEMS)
        scores = prediction.upper(0.4)
        row = int(np.argmax(scores))
        choices.append((row, prediction.mean[row], prediction.width[row]))
        policy.posterior.observe(ITEMS[[row]], [REWARDS[row]])
    return np.array(choices)


def choices_of(policy, actions, n_rounds):
    choices = []
    for _ in range(n_rounds):
        decision = policy.choose(actions)
        choices.append((decision.action, decision.mean, decision.width))
        policy.learn(decision, REWARDS[decision.action])
    return np.array(choices)


WAYS = {
    "catalog": lambda policy, catalog: policy.choose(catalog),
    "restricted catalog": lambda policy, catalog: policy.choose(catalog.without([0, 1])),
    "changing rows": lambda policy, _: policy.choose(ITEMS),
    "slate": lambda policy, catalog: policy.choose(catalog, k=3),
    "diverse slate": lambda policy, _: policy.choose(ITEMS, k=3, diverse=True),
}


@pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("way", WAYS)
def test_an_interrupted_choice_changes_no_later_one(way, step):
    catalog = kb.Catalog(ITEMS)
    start = taught(catalog, 12)
    expected = expected_choices(start.copy(), 3)

    def make():
        policy = start.copy()
        for _ in range(2):  # with engines that have something to follow
            policy.choose(catalog)
            policy.choose(ITEMS)
            decision = policy.choose(catalog)
            policy.learn(decision, REWARDS[decision.action])
            policy.unlearn(decision, REWARDS[decision.action])
        return policy

    for policy in interrupted_everywhere(make, lambda policy: WAYS[way](policy, catalog), step=step):
        assert_allclose(choices_of(policy.copy(), ITEMS, 3), expected, rtol=1e-9)
        assert_allclose(choices_of(policy, catalog, 3), expected, rtol=1e-9)


NEW = np.array([[0.31, 0.77]])


@pytest.mark.parametrize("way", ["catalog", "changing rows"])
def test_nor_does_one_that_was_interrupted_while_new_points_were_taken_in(way):
    """The posterior, which has to take them in too, is not interrupted here."""
    catalog = kb.Catalog(ITEMS)
    start = taught(catalog, 12)
    taught_new = start.copy()
    taught_new.warm_start(NEW, [0.4])
    expected = expected_choices(taught_new, 3)
    n_interrupts = 0

    def make():
        policy = start.copy()
        policy.choose(catalog)
        policy.choose(ITEMS)
        policy.warm_start(NEW, [0.4])
        return policy

    act = WAYS[way]
    for policy in interrupted_everywhere(make, lambda policy: act(policy, catalog), step=2, within="selection"):
        n_interrupts += 1
        assert_allclose(choices_of(policy.copy(), ITEMS, 3), expected, rtol=1e-9)
        actions = catalog if way == "catalog" else ITEMS
        assert_allclose(choices_of(policy, actions, 3), expected, rtol=1e-9)

    assert n_interrupts > 20


def test_an_engine_that_was_interrupted_is_not_used_again(monkeypatch):
    """Without the mark an unfinished engine is queried again, and is wrong."""
    catalog, wrong = kb.Catalog(ITEMS), 0
    start = taught(catalog, 12)
    expected = expected_choices(start.copy(), 1)
    monkeypatch.setattr(CatalogEngine, "is_finished", property(lambda _: True, lambda *_: None), raising=False)

    def make():
        policy = start.copy()
        policy.choose(catalog)
        decision = policy.choose(ITEMS)
        policy.learn(decision, REWARDS[decision.action])
        policy.choose(catalog)
        policy.unlearn(decision, REWARDS[decision.action])
        return policy

    for policy in interrupted_everywhere(make, lambda policy: policy.choose(catalog)):
        try:
            wrong += not np.allclose(choices_of(policy, catalog, 1), expected, rtol=1e-9)
        except (ValueError, IndexError, TypeError, AttributeError):
            wrong += 1

    assert wrong


def test_screening_that_was_interrupted_is_not_used_again():
    policy = taught(ITEMS, 12)
    assert policy.choose(ITEMS).cost.engine == "screened"
    before = policy._selectors.screening

    for last in range(1, 200):
        if interrupted(lambda: policy.choose(ITEMS), last) and not policy._selectors.screening.is_finished:
            break
    policy.choose(ITEMS)

    assert before.is_finished is False
    assert policy._selectors.screening is not before
    assert policy._selectors.screening.is_finished


def test_a_kernel_that_raises_leaves_no_half_made_engine(monkeypatch):
    catalog, policy = kb.Catalog(ITEMS), made()
    taught(catalog, 12, policy)
    expected = expected_choices(policy.copy(), 3)
    policy.warm_start([[0.9, 0.9]], [1.0])  # a column for it is needed
    fresh = policy.copy()

    with monkeypatch.context() as patched:
        patched.setattr(Gaussian, "gram", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            policy.choose(catalog)

    assert len(expected) == 3
    assert_allclose(choices_of(policy, catalog, 3), choices_of(fresh, ITEMS, 3), rtol=1e-9)


# -- rewards learned by mistake ----------------------------------------------------------------------------------------

MISTAKE = 1.7e18
STEPS = [MISTAKE, 2.0**54, 2.0**48, 2.0**43, 2.0**37, 2.0**31, 2.0**25, 0.0]
CORRECTIONS = {
    "unlearned": lambda policy, decision, _: policy.unlearn(decision, MISTAKE),
    "amended": lambda policy, decision, _: policy.amend(decision, was=MISTAKE, now=0.0),
    "amended step by step": lambda policy, decision, catalog: [
        (policy.amend(decision, was=was, now=now), policy.choose(catalog), policy.choose(ITEMS))
        for was, now in pairwise(STEPS)
    ],
}


def learn_in_turn(policy, catalog, rows):
    """Learn the items of these rows, each chosen while the engine for the whole catalog and screening follow."""
    for row in rows:
        decision = policy.choose(catalog.only([row]))
        policy.learn(decision, REWARDS[row % len(REWARDS)])
        policy.choose(catalog)
        policy.choose(catalog.points(policy.posterior.kernel.kind)[::-1].copy())


@pytest.mark.parametrize("correction", CORRECTIONS)
def test_a_reward_learned_by_mistake_leaves_no_trace(correction):
    catalog, policy, plain = kb.Catalog(ITEMS), made(), made()
    learn_in_turn(policy, catalog, [5, 9, 11, 3, 8, 1, 20, 31, 2])
    mistake = policy.choose(catalog.only([13]))
    policy.learn(mistake, MISTAKE)
    learn_in_turn(policy, catalog, [17, 23, 25, 4])

    CORRECTIONS[correction](policy, mistake, catalog)
    by_engine = policy.choose(catalog)
    by_screening = policy.choose(ITEMS)

    rows = [5, 9, 11, 3, 8, 1, 20, 31, 2, 17, 23, 25, 4]
    plain.warm_start(ITEMS[rows], REWARDS[rows])
    if correction != "unlearned":
        plain.warm_start(ITEMS[[13]], [0.0])
    expected = plain.posterior.predict(ITEMS)
    estimate = policy._selectors.engine(catalog, policy.posterior).estimate()
    best = int(np.argmax(expected.upper(0.4)))
    assert_allclose(estimate.mean, expected.mean, rtol=0, atol=1e-12)
    assert_allclose(estimate.width, expected.width, rtol=0, atol=1e-12)
    for decision in (by_engine, by_screening):
        assert decision.action == best
        assert_allclose(
            [decision.mean, decision.width], [expected.mean[best], expected.width[best]], rtol=0, atol=1e-12
        )


def test_without_the_look_at_falling_sums_the_trace_stays(monkeypatch):
    monkeypatch.setattr(ColumnLog, "has_fallen", lambda *_: False)
    monkeypatch.setattr(ColumnLog, "round", lambda *_: -1)  # which looks by itself

    with pytest.raises(AssertionError):
        test_a_reward_learned_by_mistake_leaves_no_trace("amended")


def test_nor_does_it_where_most_items_are_only_bounded():
    """With an active set, which is updated with all rewards before the other items are."""
    points = np.random.default_rng(5).uniform(size=(300, 2))
    catalog, policy, plain = kb.Catalog(points), made(), made()
    engine = policy._selectors.engine(catalog, policy.posterior)
    engine._active_sets = ActiveSets(engine._items, ActiveSetLimits(least_items=100, many_items=100, least_active=40))
    rewards = points.sum(axis=1)
    for _ in range(30):
        decision = policy.choose(catalog)
        policy.learn(decision, rewards[decision.action])
        plain.warm_start(points[[decision.action]], [rewards[decision.action]])
    assert policy.choose(catalog).cost.engine == "active set"
    mistake = policy.choose(catalog.only([int(np.argmin(rewards))]))
    policy.choose(catalog)
    policy.learn(mistake, MISTAKE)
    policy.choose(catalog)

    policy.unlearn(mistake, MISTAKE)
    policy.choose(catalog)

    estimate = policy._selectors.engine(catalog, policy.posterior).estimate()
    assert_allclose(estimate.mean, plain.posterior.predict(points).mean, rtol=0, atol=1e-12)


# -- a catalog that grows in another thread --------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", [Gaussian(length_scale=0.3), Linear()])
def test_a_catalog_may_grow_while_policies_choose(kernel):
    points = np.random.default_rng(1).uniform(size=(400, 2))
    catalog = kb.Catalog(points[:5], ids=[f"i{row}" for row in range(5)])
    failures, interval = [], sys.getswitchinterval()

    def play(seed):
        policy = kb.KernelUCB(kernel, regularization=0.2, exploration=0.4, ties="random", seed=seed)
        try:
            while len(catalog) < 400:
                least = len(catalog)
                decisions = [
                    policy.choose(catalog),
                    policy.choose(catalog.without(["i0"])),
                    policy.choose(catalog, k=2)[0],
                ]
                for decision in decisions:
                    is_there = (
                        decision.item == f"i{decision.action}" and (decision.context == points[decision.action]).all()
                    )
                    if not (is_there and least - 1 <= decision.n_actions <= len(catalog)):
                        failures.append(decision)
                if decisions[0].action >= decisions[0].n_actions:
                    failures.append(decisions[0])
                policy.learn(decisions[0], points[decisions[0].action].sum())
        except Exception as error:
            failures.append(error)

    sys.setswitchinterval(1e-6)
    try:
        players = [Thread(target=play, args=(seed,)) for seed in range(2)]
        for player in players:
            player.start()
        for row in range(5, 400):
            catalog.add(points[[row]], ids=[f"i{row}"])
        for player in players:
            player.join()
    finally:
        sys.setswitchinterval(interval)

    assert not failures
