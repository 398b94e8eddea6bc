"""While decisions are pending, a catalog is searched for what scoring every item would choose."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import kernelbandits as kb
from kernelbandits.kernels import Gaussian, Linear, Matern, Spectrum
from kernelbandits.selection import CatalogEngine
from kernelbandits.selection.actions import CatalogActions
from kernelbandits.selection.selectors import PendingSearch, Selectors
from kernelbandits.selection.ties import pick_lowest
from kernelbandits.theory import Mixture

N_ITEMS = 300


@pytest.fixture(autouse=True)
def compiled():
    kb.compile_ahead()


def rows(rng):
    found = rng.uniform(size=(N_ITEMS, 3))
    found[N_ITEMS // 2] = found[0]  # a duplicate
    return found


WORLDS = {
    "gaussian": (lambda: Gaussian(length_scale=0.3), rows),
    "matern": (lambda: Matern(smoothness=0.5, length_scale=0.7), rows),
    "linear": (Linear, rows),
    "strings": (lambda: Spectrum(n=2), lambda rng: ["".join(rng.choice(list("abc"), size=5)) for _ in range(N_ITEMS)]),
}

SCHEDULES = {"constant": 0.7, "schedule": Mixture(noise_scale=0.2, norm_bound=1.0, failure_probability=0.1)}


def pair_of(world, schedule, ties="lowest"):
    """The same policy twice: one searches, the other scores every item."""
    kernel, items_of = WORLDS[world]
    catalog = kb.Catalog(items_of(np.random.default_rng(0)))
    options = {"regularization": 0.3, "exploration": SCHEDULES[schedule], "ties": ties, "seed": 0}
    return catalog, *(kb.KernelUCB(kernel(), engine=engine, **options) for engine in ("auto", "exhaustive"))


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("world", WORLDS)
def test_choices_are_those_of_scoring_every_item(world, schedule):
    catalog, searching, scoring = pair_of(world, schedule)
    rng = np.random.default_rng(1)
    waiting, n_searched = [], 0

    for number in range(60):
        some = np.sort(rng.choice(N_ITEMS, size=N_ITEMS - 40, replace=False))
        shown = catalog if number % 3 else catalog.only(some.tolist())
        ours, theirs = searching.choose(shown), scoring.choose(shown)
        assert ours.action == theirs.action, number
        assert_allclose([ours.mean, ours.width], [theirs.mean, theirs.width], rtol=1e-9, atol=1e-12)
        n_searched += ours.cost.engine == "pending search"
        for policy, decision in ((searching, ours), (scoring, theirs)):
            policy.expect(decision)
        waiting.append((ours, theirs))
        if number % 4 == 3:  # one is learned, one is withdrawn
            reward = float(rng.normal())
            for policy, first, second in zip((searching, scoring), waiting.pop(0), waiting.pop(1), strict=True):
                policy.learn(first, reward)
                policy.withdraw(second)

    assert n_searched > 40


def test_propensities_of_random_ties_are_those_of_scoring_every_item():
    catalog, searching, scoring = pair_of("gaussian", "constant", ties="random")
    for policy in (searching, scoring):
        decision = policy.choose(catalog.only([7]))
        policy.learn(decision, 1.0)
        policy.expect(policy.choose(catalog.only([9])))

    shown = catalog.only([0, 3, N_ITEMS // 2])  # the first and the last are equal
    ours, theirs = searching.choose(shown), scoring.choose(shown)

    assert ours.propensity == theirs.propensity
    assert ours.cost.engine == "pending search"


def search_of(policy, catalog, engine=None, **options):
    """The search of the next round, with a smaller first batch."""
    engine = Selectors().engine(catalog, policy.posterior) if engine is None else engine
    actions = CatalogActions(catalog, None, lambda view: view.points(policy.kernel.kind), policy.kernel.kind)
    return PendingSearch(engine, policy.posterior, policy._waiting(), **options), actions


def test_batches_go_on_until_no_bound_reaches_the_best_score():
    catalog, policy, scoring = pair_of("matern", "constant")
    for _ in range(30):  # the leaders fall behind as they become pending
        for one in (policy, scoring):
            one.expect(one.choose(catalog))
    search, actions = search_of(policy, catalog, n_first=2)

    selection = search.select(actions, 0.7, pick_lowest)

    assert selection.row == scoring.choose(catalog).action
    assert 2 < selection.cost.widths_computed <= N_ITEMS


def test_a_bound_that_is_too_low_would_lose_the_best():
    """Negative control: the search trusts the bounds."""

    class Low(CatalogEngine):
        def estimate(self, rows=None):
            found = super().estimate(rows)
            found.mean[best] -= 10.0
            return found

    catalog, policy, _ = pair_of("gaussian", "constant")
    for row in (5, 5, 5, 80):
        policy.learn(policy.choose(catalog.only([row])), 1.0)
    policy.expect(policy.choose(catalog.only([80])))
    search, actions = search_of(policy, catalog, n_first=2)
    best = search.select(actions, 0.0, pick_lowest).row
    low = Low(catalog.points(policy.kernel.kind), policy.kernel, 0.3)
    low.synchronize(policy.posterior.record)

    search, actions = search_of(policy, catalog, low, n_first=2)

    assert search.select(actions, 0.0, pick_lowest).row != best


def test_a_negative_exploration_scores_every_item():
    catalog, policy, _ = pair_of("gaussian", "constant")
    policy.expect(policy.choose(catalog))
    search, actions = search_of(policy, catalog)

    assert search.select(actions, -0.5, pick_lowest) is None
