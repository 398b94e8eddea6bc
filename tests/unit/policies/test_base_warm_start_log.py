"""`warm_start(log)` learns every observed reward of a log."""

import numpy as np
import pytest
from scipy.sparse import csr_array

import kernelbandits as kb
from kernelbandits.environments import Log
from kernelbandits.errors import InvalidParameter, InvalidReward, NotSupported
from kernelbandits.kernels import Delta, Gaussian, PairProduct, Spectrum
from kernelbandits.posterior import posterior_factory

RNG = np.random.default_rng(0)
N_ROUNDS = 30
SIZES = RNG.integers(2, 6, size=N_ROUNDS)
ACTIONS = np.array([RNG.integers(size) for size in SIZES])
REWARDS = RNG.uniform(size=N_ROUNDS)
ROWS = [RNG.normal(size=(size, 2)) for size in SIZES]
WORDS = [[f"word {RNG.integers(9)}{'x' * row}" for row in range(size)] for size in SIZES]
IDS = [[f"item {name}" for name in RNG.permutation(8)[:size]] for size in SIZES]
CATALOG = kb.Catalog(RNG.normal(size=(9, 2)))


def gaussian(**options):
    return kb.KernelUCB(Gaussian(length_scale=0.6), regularization=0.3, exploration=0.5, **options)


def log_of(rounds, ids=None, rewards=REWARDS):
    return Log(rounds, ACTIONS, np.full(N_ROUNDS, 0.5), rewards, ids)


CASES = {
    "rows": (gaussian, ROWS, None),
    "rows of integers": (gaussian, [np.round(rows).astype(int) for rows in ROWS], None),
    "lists of rows": (gaussian, [rows.tolist() for rows in ROWS], None),
    "sparse rows": (lambda: kb.LinUCB(), [csr_array(rows) for rows in ROWS], None),
    "words": (lambda: kb.KernelUCB(Spectrum(n=2)), WORDS, None),
    "pairs": (
        lambda: kb.KernelUCB(PairProduct(Gaussian(length_scale=0.5), Delta())),
        [kb.Pairs(RNG.normal(size=2), names) for names in IDS],
        None,
    ),
    "windowed": (lambda: gaussian(posterior=posterior_factory("windowed", length=7)), ROWS, None),
    "disjoint": (lambda: kb.LinUCB(model="disjoint"), ROWS, IDS),
    "UCB1": (lambda: kb.UCB1(reward_range=(0, 1)), ROWS, IDS),
    "UCB1 without ids": (lambda: kb.UCB1(reward_range=(0, 1)), ROWS, None),
    "Mixed": (lambda: kb.Mixed(kb.LinUCB(model="hybrid", shared_columns=(0,)), epsilon=0.2, seed=0), ROWS, IDS),
    "Guarded": (lambda: kb.Guarded(gaussian(), baseline=0, absent="free"), ROWS, None),
    "Softmax": (lambda: kb.Softmax(gaussian(), temperature=0.3, seed=0), ROWS, None),
    "KernelThompson": (lambda: kb.KernelThompson(Gaussian(length_scale=0.5), seed=0), ROWS, None),
    "KernelSquareCB": (lambda: kb.KernelSquareCB(Gaussian(length_scale=0.5), seed=0), ROWS, None),
}


@pytest.mark.parametrize("name", CASES)
def test_a_log_is_learned_as_its_observations_one_by_one(name):
    make, rounds, ids = CASES[name]
    whole, one_by_one, empty = make(), make(), make()

    whole.warm_start(log_of(rounds, ids))

    for t, (contexts, action) in enumerate(zip(rounds, ACTIONS.tolist(), strict=True)):
        item = action if ids is None else ids[t][action]
        if isinstance(contexts, kb.Pairs):
            chosen = kb.Pairs(contexts.context, [contexts.actions[action]])
        else:
            chosen = contexts[[action]] if hasattr(contexts, "shape") else [contexts[action]]
        one_by_one.warm_start(chosen, [REWARDS[t]], ids=[item])
    last, names = rounds[-1], None if ids is None else ids[-1]
    found, expected = (policy.choose(last, ids=names, id="same") for policy in (whole, one_by_one))
    assert (found.action, found.item, whole.round_index) == (expected.action, expected.item, 1)
    np.testing.assert_allclose([found.mean, found.width], [expected.mean, expected.width], rtol=1e-7)
    assert found.width != empty.choose(last, ids=names, id="same").width


def test_items_of_catalogs_are_learned_by_their_row():
    views = [CATALOG, CATALOG.only([1, 3, 8]), CATALOG.only([2, 5])]
    log = Log(views, actions=[4, 2, 0], propensities=[0.5] * 3, rewards=[0.1, 0.2, 0.3])
    policy, expected = gaussian(), gaussian()

    policy.warm_start(log)

    points = CATALOG.points(expected.kernel.kind)
    expected.warm_start(points[[4, 8, 2]], [0.1, 0.2, 0.3])
    np.testing.assert_allclose(policy.posterior.predict(points).mean, expected.posterior.predict(points).mean)


def test_every_place_of_a_slate_is_learned():
    log = Log(ROWS[:3], [[0, 1], [1, 0], [0, 1]], np.full((3, 2), 0.5), [[1.0, 0.0], [0.5, 0.2], [0.1, 0.3]])
    policy, expected = gaussian(), gaussian()

    policy.warm_start(log)

    shown = np.concatenate([ROWS[0][[0, 1]], ROWS[1][[1, 0]], ROWS[2][[0, 1]]])
    expected.warm_start(shown, [1.0, 0.0, 0.5, 0.2, 0.1, 0.3])
    np.testing.assert_allclose(policy.posterior.predict(shown).mean, expected.posterior.predict(shown).mean)


def test_one_event_repeats_it():
    policy, other, calls = gaussian(), gaussian(), []
    policy.subscribe(calls.append)

    policy.warm_start(log_of(ROWS))

    ((event,),) = calls
    event.apply(other)
    assert event.kind == "warm_start"
    assert policy.choose(ROWS[0]).mean == other.choose(ROWS[0]).mean


@pytest.mark.parametrize("wrap", [lambda policy: policy, lambda policy: kb.Mixed(policy, epsilon=0.1)])
def test_all_of_a_log_is_learned_or_nothing(wrap):
    policy = wrap(gaussian(reward_range=(0, 1)))
    rewards = REWARDS.copy()
    rewards[17] = 2.0

    with pytest.raises(InvalidReward, match="reward_range"):
        policy.warm_start(log_of(ROWS, rewards=rewards))

    assert policy.policy.posterior.size == 0 if isinstance(policy, kb.Mixed) else policy.posterior.size == 0
    policy.subscribe(lambda events: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        policy.warm_start(log_of(ROWS))
    assert np.isclose(policy.choose(ROWS[0]).mean, 0.0)


def test_what_a_log_holds_is_not_given_beside_it():
    for beside in ({"rewards": REWARDS}, {"ids": list(range(N_ROUNDS))}, {"times": 3}):
        with pytest.raises(InvalidParameter, match="nothing is given beside it"):
            gaussian().warm_start(log_of(ROWS), **beside)
    with pytest.raises(InvalidParameter, match="Actions need their rewards"):
        gaussian().warm_start(ROWS[0])
    with pytest.raises(InvalidParameter, match="at least one round"):
        gaussian().warm_start(log_of(ROWS)[:0])


def test_a_policy_that_cannot_learn_from_others_says_so():
    policy = kb.SupKernelUCB(Gaussian(length_scale=0.5), exploration=0.5)
    with pytest.raises(NotSupported, match="cannot learn from rewards of other policies' decisions"):
        policy.warm_start(log_of(ROWS))
