import numpy as np
import pytest
from scipy.sparse import csr_array

from kernelbandits import Catalog
from kernelbandits.errors import InvalidContexts
from kernelbandits.kernels import Gaussian, Linear
from kernelbandits.policies import KernelUCB, Mixed
from kernelbandits.theory.exploration import Mixture


def make_policy(posterior, ties, exploration=0.3, n_learned=150):
    rng = np.random.default_rng(0)
    kernel = Linear() if posterior == "primal" else Gaussian(length_scale=0.4)
    policy = KernelUCB(kernel, regularization=0.2, exploration=exploration, ties=ties, posterior=posterior, seed=1)
    policy.warm_start(rng.integers(4, size=(n_learned, 3)) / 3, rng.random(n_learned))
    policy.warm_start(rng.random((n_learned, 3)), rng.random(n_learned))
    return policy


def some_rounds(n_rounds=60):
    """On a coarse grid, so that there are ties."""
    rng = np.random.default_rng(1)
    return [rng.integers(4, size=(rng.integers(1, 20), 3)) / 3 for _ in range(n_rounds)]


def assert_like_each(policy, rounds, ids=None):
    together = policy.probabilities_many(rounds, ids=ids)

    for t, (contexts, probabilities) in enumerate(zip(rounds, together, strict=True)):
        alone = policy.probabilities(contexts, ids=None if ids is None else ids[t])
        np.testing.assert_array_equal(probabilities, alone)
    return together


@pytest.mark.parametrize("ties", ["lowest", "random", "exact"])
@pytest.mark.parametrize("posterior", ["auto", "exact", "primal"])
def test_they_are_those_of_each_round_ties_included(posterior, ties):
    together = assert_like_each(make_policy(posterior, ties), some_rounds())

    n_tied = sum(np.count_nonzero(probabilities) > 1 for probabilities in together)
    assert n_tied > 0 if ties == "random" else n_tied == 0


@pytest.mark.parametrize("similarities_at_once", [1, 5_000])
@pytest.mark.parametrize("posterior", ["auto", "exact", "primal"])
def test_they_are_the_same_in_small_batches(posterior, similarities_at_once):
    policy = make_policy(posterior, "random")
    rounds = policy._actions_of_each(some_rounds(), None, None, policy._listed)
    policy.probabilities(some_rounds()[0])  # the first query may change the form of the posterior

    batches = list(policy._side_by_side(rounds, similarities_at_once=similarities_at_once))

    assert [actions for batch in batches for actions in batch] == rounds
    assert max(len(batch) for batch in batches) < (2 if similarities_at_once == 1 else 30)
    tied = [rows for batch in batches for rows in policy._tied_in_each(batch)]
    for found, expected in zip(tied, policy._tied_in_each(rounds), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_the_chosen_action_is_the_one_of_probability_one():
    policy, rounds = make_policy("exact", "lowest"), some_rounds()

    together = policy.probabilities_many(rounds)

    assert [int(row.argmax()) for row in together] == [policy.choose(contexts).action for contexts in rounds]


def test_pending_rewards_and_schedules_count():
    policy = make_policy(
        "exact", "lowest", exploration=Mixture(noise_scale=0.5, norm_bound=2.0, failure_probability=0.1)
    )
    before = policy.probabilities_many(some_rounds())
    for contexts in some_rounds(25):
        policy.expect(policy.choose(contexts))

    after = assert_like_each(policy, some_rounds())

    assert any(not np.array_equal(first, second) for first, second in zip(before, after, strict=True))


def test_catalogs_and_rows_may_take_turns():
    catalog = Catalog(np.random.default_rng(2).random((12, 3)))
    rounds = [*some_rounds(3), catalog, catalog.only([1, 5, 7]), *some_rounds(4)]

    together = assert_like_each(make_policy("exact", "random"), rounds)

    assert together[4].shape == (12,)


def test_ids_are_those_of_each_round():
    rounds = some_rounds(5)
    ids = [[f"item {row}" for row in range(len(contexts))] if t % 2 else None for t, contexts in enumerate(rounds)]

    assert_like_each(Mixed(make_policy("exact", "random"), epsilon=0.2), rounds, ids)


def test_a_policy_that_knows_nothing_yet_is_queried_too():
    assert_like_each(KernelUCB(Gaussian(length_scale=0.4), ties="random"), some_rounds(10))


@pytest.mark.parametrize("ties", ["lowest", "random"])
def test_rounds_need_not_be_alike_before_anything_is_learned(ties):
    policy = KernelUCB(Linear(), ties=ties, seed=0)
    rounds = [np.ones((2, 3)), np.eye(3), np.ones((4, 2)), csr_array(np.eye(2)), Catalog(np.eye(5))]

    assert_like_each(policy, rounds)

    assert [decision.n_actions for decision in policy.choose_many(rounds[:4])] == [2, 3, 4, 2]


def test_ids_for_other_rounds_are_rejected():
    with pytest.raises(InvalidContexts, match="3 rounds and 2 entries"):
        make_policy("exact", "lowest").probabilities_many(some_rounds(3), ids=[None, None])
