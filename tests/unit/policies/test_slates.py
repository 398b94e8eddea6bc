"""Slates of policies that draw: each place has its exact probability given the places above it."""

import itertools
from collections import Counter
from math import log, pi, sqrt

import numpy as np
import pytest

import kernelbandits as kb
from kernelbandits.errors import InvalidContexts, InvalidParameter, NotSupported
from kernelbandits.kernels import Gaussian
from kernelbandits.theory import GPUCBFinite

CONTEXTS = np.random.default_rng(0).uniform(size=(5, 2))
IDS = list("abcde")


def learned(exploration=0.5, **options):
    policy = kb.KernelUCB(Gaussian(length_scale=0.5), regularization=0.3, exploration=exploration, **options)
    policy.warm_start(CONTEXTS[:3], [0.4, 0.5, 0.45], times=3)
    return policy


def square():
    policy = kb.KernelSquareCB(Gaussian(length_scale=0.5), regularization=0.3, gap_weight=20.0, seed=1)
    policy.warm_start(CONTEXTS[:3], [0.4, 0.5, 0.45], times=3)
    return policy


MAKERS = {
    "Mixed": lambda: kb.Mixed(learned(), epsilon=0.4, seed=1),
    "Mixed random ties": lambda: kb.Mixed(learned(0.0, ties="random", seed=4), epsilon=0.4, seed=1),
    "Mixed Softmax": lambda: kb.Mixed(kb.Softmax(learned(), temperature=0.2, seed=2), epsilon=0.2, seed=1),
    "Mixed Guarded": lambda: kb.Mixed(kb.Guarded(learned(), baseline="d"), epsilon=0.3, seed=1),
    "Mixed SquareCB": lambda: kb.Mixed(square(), epsilon=0.3, seed=2),
    "Mixed UniformRandom": lambda: kb.Mixed(kb.UniformRandom(seed=2), epsilon=0.3, seed=2),
    "Softmax": lambda: kb.Softmax(learned(), temperature=0.2, seed=1),
    "Guarded": lambda: kb.Guarded(learned(ties="random", seed=1), baseline="b"),
    "KernelSquareCB": square,
    "UniformRandom": lambda: kb.UniformRandom(seed=1),
}
DIVERSE = ["Mixed", "Mixed Softmax", "Mixed Guarded", "Softmax", "Guarded"]


def remaining(slate, place):
    """Which actions are not above this place."""
    eligible = np.ones(len(CONTEXTS), dtype=bool)
    eligible[slate.actions[:place]] = False
    return eligible


@pytest.mark.parametrize("name", MAKERS)
def test_each_place_has_the_probability_of_choosing_among_the_remaining_actions(name):
    policy = MAKERS[name]()

    for _ in range(30):
        slate = policy.choose(CONTEXTS, k=4, ids=IDS)
        assert len(set(slate.actions.tolist())) == 4
        for place, decision in enumerate(slate):
            expected = policy.probabilities(CONTEXTS, ids=IDS, eligible=remaining(slate, place))
            assert decision.propensity == pytest.approx(expected[decision.action], rel=1e-9)


@pytest.mark.parametrize("name", DIVERSE)
def test_a_place_of_a_diverse_slate_is_a_choice_after_expecting_the_places_above(name):
    policy = MAKERS[name]()

    for _ in range(10):
        slate = policy.choose(CONTEXTS, k=3, ids=IDS, diverse=True)
        expecting = policy.copy()
        for place, decision in enumerate(slate):
            expected = expecting.probabilities(CONTEXTS, ids=IDS, eligible=remaining(slate, place))
            assert decision.propensity == pytest.approx(expected[decision.action], rel=1e-7)
            width = expecting.explain(decision).width
            assert decision.width == pytest.approx(width, rel=1e-7)
            expecting.expect(decision)


def test_a_place_of_a_diverse_slate_is_explored_as_a_round_of_the_remaining_actions():
    """The exploration of this schedule depends on the round and on the number of actions."""
    policy = kb.GPUCB(Gaussian(length_scale=0.5), noise_variance=0.3, exploration=GPUCBFinite(failure_probability=0.1))
    policy.warm_start(CONTEXTS[:3], [0.4, 0.5, 0.45], times=3)
    n_actions, t = len(CONTEXTS), policy.round_index

    slate = policy.choose(CONTEXTS, k=4, diverse=True)

    expecting, explorations = policy.copy(), []
    for place, decision in enumerate(slate):
        single = expecting.choose(CONTEXTS, eligible=remaining(slate, place))
        assert (decision.action, decision.score) == (single.action, pytest.approx(single.score, rel=1e-9))
        expecting.expect(decision)
        explorations.append((decision.score - decision.mean) / decision.width)
    betas = [2 * log((n_actions - place) * (t + place) ** 2 * pi**2 / (6 * 0.1)) for place in range(4)]
    assert explorations[0] == pytest.approx(sqrt(0.3 * betas[0]), rel=1e-9)
    for place in range(1, 4):  # placed actions count as pending, which widens the interval by a factor
        assert explorations[place] > sqrt(0.3 * betas[place])


def test_diversity_changes_the_probabilities():
    """Negative control of the test above."""
    policy = kb.Softmax(learned(2.0), temperature=0.2, seed=1)
    plain, diverse = (
        {tuple(slate.actions): slate.propensity for slate in (policy.choose(CONTEXTS, k=2, **how) for _ in range(200))}
        for how in ({}, {"diverse": True})
    )

    common = set(plain) & set(diverse)
    assert len(common) > 5
    assert max(abs(plain[one] - diverse[one]) for one in common) > 1e-3


@pytest.mark.parametrize("name", [*MAKERS, "KernelThompson", "Mixed KernelThompson"])
def test_slates_are_drawn_with_their_propensities(name):
    thompson = kb.KernelThompson(Gaussian(length_scale=0.5), regularization=0.3, propensity_draws=16, seed=3)
    thompson.warm_start(CONTEXTS[:3], [0.4, 0.5, 0.45], times=3)
    more = {"KernelThompson": thompson, "Mixed KernelThompson": kb.Mixed(thompson.copy(), epsilon=0.3, seed=2)}
    policy = more[name] if name in more else MAKERS[name]()
    n_slates = 3_000
    slates = [policy.choose(CONTEXTS, k=2, ids=IDS) for _ in range(n_slates)]
    counts = Counter(tuple(slate.actions.tolist()) for slate in slates)
    propensity = {tuple(slate.actions.tolist()): slate.propensity for slate in slates}

    assert sum(propensity.values()) <= 1.0 + 1e-9
    for actions, count in counts.items():
        p = propensity[actions]
        assert abs(count - n_slates * p) < 5.0 * np.sqrt(n_slates * p * (1.0 - p)) + 1.0


@pytest.mark.parametrize("name", MAKERS)
def test_decisions_of_a_slate_are_learned_one_by_one(name):
    policy = MAKERS[name]()

    slate = policy.choose(CONTEXTS, k=3, ids=IDS)
    policy.learn(slate[1], 0.5)
    policy.learn_many([slate[0], slate[2]], [0.1, 0.2])

    assert policy.round_index == 4


def test_the_baseline_of_a_guarded_slate_comes_first_unless_another_is_better_with_confidence():
    policy = kb.Guarded(learned(10.0), baseline="d")

    slate = policy.choose(CONTEXTS, k=3, ids=IDS)

    free = learned(10.0).choose(CONTEXTS, k=4, ids=IDS)
    assert slate[0].item == "d"
    assert [one.item for one in slate][1:] == [one.item for one in free if one.item != "d"][:2]
    with pytest.raises(InvalidContexts, match="is not an action of this round"):
        policy.choose(CONTEXTS, k=2)


def test_a_wrapper_of_a_policy_without_slates_has_none():
    policy = kb.Mixed(kb.UCB1(), epsilon=0.1, seed=0)

    with pytest.raises(NotSupported, match="UCB1 chooses one action at a time"):
        policy.choose(IDS, k=2, ids=IDS)


def test_diverse_slates_need_widths():
    with pytest.raises(NotSupported, match="no diverse slates"):
        square().choose(CONTEXTS, k=2, diverse=True)


@pytest.mark.parametrize("name", MAKERS)
def test_a_rejected_slate_does_not_move_the_random_state(name):
    policy, other = MAKERS[name](), MAKERS[name]()

    with pytest.raises(kb.errors.InvalidParameter):
        policy.choose(CONTEXTS, k=9, ids=IDS)

    slates = [p.choose(CONTEXTS, k=3, ids=IDS).actions.tolist() for p in (policy, other)]
    assert slates[0] == slates[1]


def test_tied_actions_of_a_thompson_slate_are_split():
    policy = kb.KernelThompson(Gaussian(length_scale=0.4), ties="random", seed=0, propensity_draws=128)
    contexts = [[0.0, 0.0], [0.0, 0.0], [3.0, 3.0]]
    expected = policy.probabilities(contexts)

    slates = [policy.choose(contexts, k=2) for _ in range(600)]

    for slate in slates:
        assert slate[0].propensity == pytest.approx(expected[slate[0].action])
    counts = Counter(slate[0].action for slate in slates)
    for row in range(3):
        assert abs(counts[row] - 600 * expected[row]) < 5.0 * np.sqrt(600 * expected[row] * (1.0 - expected[row]))


WITH_THOMPSON = {
    **MAKERS,
    "KernelUCB": lambda: learned(ties="random", seed=3),
    "KernelThompson": lambda: thompson(),
    "Mixed Thompson": lambda: kb.Mixed(thompson(), epsilon=0.3, seed=1),
}


def thompson():
    policy = kb.KernelThompson(Gaussian(length_scale=0.5), regularization=0.3, exploration=0.6, seed=1)
    policy.warm_start(CONTEXTS[:3], [0.4, 0.5, 0.45], times=3)
    return policy


@pytest.mark.parametrize("name", WITH_THOMPSON)
def test_the_probability_of_a_slate_is_that_with_which_it_is_drawn(name):
    policy = WITH_THOMPSON[name]()

    for _ in range(20):
        slate = policy.choose(CONTEXTS, k=3, ids=IDS)
        expected = [decision.propensity for decision in slate]
        assert policy.slate_probabilities(CONTEXTS, slate.actions, ids=IDS) == pytest.approx(expected)


@pytest.mark.parametrize("name", WITH_THOMPSON)
def test_slates_and_places_have_the_probabilities_of_all_slates_together(name):
    """The oracle: every slate of the round, enumerated."""
    policy, k = WITH_THOMPSON[name](), 3
    every = list(itertools.permutations(range(5), k))
    shares = np.array([policy.slate_probabilities(CONTEXTS, slate, ids=IDS).prod() for slate in every])
    expected = np.zeros((k, 5))
    for slate, share in zip(every, shares, strict=True):
        expected[np.arange(k), list(slate)] += share

    found = policy.place_probabilities(CONTEXTS, k, ids=IDS)

    assert shares.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(found, expected, atol=1e-12)
    np.testing.assert_allclose(found[0], policy.probabilities(CONTEXTS, ids=IDS), atol=1e-12)


def test_asking_for_probabilities_of_slates_changes_nothing():
    queried, other = WITH_THOMPSON["Mixed Thompson"](), WITH_THOMPSON["Mixed Thompson"]()

    queried.slate_probabilities(CONTEXTS, [0, 4, 2])
    queried.place_probabilities(CONTEXTS, 3)

    assert queried.choose(CONTEXTS, k=5).actions.tolist() == other.choose(CONTEXTS, k=5).actions.tolist()


@pytest.mark.parametrize(("n_actions", "is_sampled"), [(44, False), (46, True)])
def test_many_beginnings_of_slates_are_sampled(n_actions, is_sampled):
    """44 actions have 1,892 beginnings of length two, 46 have 2,070."""
    policy, contexts = MAKERS["Softmax"](), np.random.default_rng(1).uniform(size=(n_actions, 2))
    first = policy.probabilities(contexts)
    exact = np.array([first, np.zeros(n_actions), np.zeros(n_actions)])
    for above, second in itertools.permutations(range(n_actions), 2):
        pair = first[above] * first[second] / (1.0 - first[above])
        exact[1, second] += pair
        left = np.delete(np.arange(n_actions), [above, second])
        exact[2, left] += pair * first[left] / first[left].sum()

    found = policy.place_probabilities(contexts, 3)

    np.testing.assert_allclose(found, exact, rtol=0.03 if is_sampled else 1e-9)
    assert bool(np.abs(found - exact).max() > 1e-6) is is_sampled
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    np.testing.assert_array_equal(found, policy.place_probabilities(contexts, 3))


def test_only_eligible_actions_have_places():
    policy, eligible = MAKERS["Mixed"](), np.array([True, False, True, True, False])

    found = policy.place_probabilities(CONTEXTS, 2, eligible=eligible)
    of_slate = policy.slate_probabilities(CONTEXTS, [3, 0], eligible=eligible)

    assert (found.shape, found[:, ~eligible].tolist()) == ((2, 5), [[0.0, 0.0]] * 2)
    np.testing.assert_allclose(
        of_slate, [found[0, 3], policy.probabilities(CONTEXTS, eligible=np.array([1, 0, 1, 0, 0], dtype=bool))[0]]
    )
    np.testing.assert_allclose(
        policy.slate_probabilities(kb.Catalog(CONTEXTS).only([0, 2, 3]), [3, 0]),
        policy.slate_probabilities(CONTEXTS, [3, 0], eligible=eligible),
    )
    uniform = kb.UniformRandom().place_probabilities(CONTEXTS, 2, eligible=eligible)
    np.testing.assert_allclose(uniform, np.tile(eligible / 3.0, (2, 1)))


@pytest.mark.parametrize("wrong", [[0, 0], [], [[0, 1]], [0.5], [0, 5], [-1], "ab"])
def test_what_is_no_slate_has_no_probability(wrong):
    with pytest.raises(InvalidParameter, match="A slate"):
        MAKERS["Mixed"]().slate_probabilities(CONTEXTS, wrong)


def test_lengths_of_slates_are_checked_and_diverse_slates_are_built_once():
    policy = learned()
    with pytest.raises(InvalidParameter, match="k must be a number from 1 to the 5"):
        policy.place_probabilities(CONTEXTS, 6)
    with pytest.raises(NotSupported, match="built once"):
        policy._ranking(policy._actions(CONTEXTS, None), diverse=True).copy()
    with pytest.raises(NotSupported, match="one action at a time"):
        kb.UCB1(reward_range=(0, 1)).place_probabilities(CONTEXTS, 2)
