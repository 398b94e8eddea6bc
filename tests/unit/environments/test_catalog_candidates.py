import pickle

import numpy as np
import pytest
from scipy.sparse import csr_array

import kernelbandits as kb
from kernelbandits.environments import Candidates
from kernelbandits.errors import InvalidContexts, InvalidParameter
from kernelbandits.kernels import Spectrum
from kernelbandits.testing import EnvironmentContract

WORDS = ["goal", "goals", "match", "matches", "vote", "votes", "election", "elected", "elector"]
VALUES = [1, 1, 1, 1, 0, 0, 0, 0, 0]
ROWS = np.random.default_rng(6).normal(size=(9, 2))


class TestCandidates(EnvironmentContract):
    @pytest.fixture(params=["strings", "rows", "sparse", "ids"])
    def environment(self, request):
        items = {"strings": WORDS, "rows": ROWS, "sparse": csr_array(ROWS), "ids": list(range(9))}[request.param]
        return Candidates(items, VALUES, n_actions=4, noise_scale=0.0 if request.param == "ids" else 0.4)


def test_a_round_shows_different_items_with_their_numbers_and_values():
    world = Candidates(WORDS, VALUES, n_actions=5).start(np.random.default_rng(1))

    for _ in range(50):
        observed = world.observe()
        assert len(set(observed.ids)) == 5
        assert observed.contexts == [WORDS[item] for item in observed.ids]
        assert observed.expected.tolist() == [VALUES[item] for item in observed.ids]
        assert [world.reward(action) for action in range(5)] == observed.expected.tolist()


def test_every_item_and_every_pair_is_equally_likely():
    world = Candidates(WORDS, VALUES, n_actions=3).start(np.random.default_rng(2))
    together = np.zeros((9, 9))
    n_rounds = 6_000
    for _ in range(n_rounds):
        ids = world.observe().ids
        together[np.ix_(ids, ids)] += 1

    expected = np.where(np.eye(9, dtype=bool), 3 / 9, (3 * 2) / (9 * 8))
    errors = np.sqrt(expected * (1 - expected) / n_rounds)
    assert np.all(np.abs(together / n_rounds - expected) < 5 * errors)


def test_given_ids_name_the_items():
    names = [f"w{place}" for place in range(9)]
    observed = Candidates(WORDS, VALUES, n_actions=9, ids=names).start(np.random.default_rng(3)).observe()

    assert dict(zip(observed.ids, observed.contexts, strict=True)) == dict(zip(names, WORDS, strict=True))


def test_noise_belongs_to_each_candidate():
    world = Candidates(WORDS, VALUES, n_actions=9, noise_scale=0.5).start(np.random.default_rng(4))
    noises = []
    for _ in range(1_000):
        observed = world.observe()
        noises.append([world.reward(action) - observed.expected[action] for action in range(9)])

    correlations = np.corrcoef(np.array(noises).T)
    assert np.std(noises) == pytest.approx(0.5, rel=5 / np.sqrt(2 * 9_000))
    assert np.abs(correlations - np.eye(9)).max() < 5 / np.sqrt(1_000)


def test_rewards_keep_within_the_values_without_noise_and_have_no_bounds_with_it():
    assert Candidates(WORDS, VALUES, n_actions=2).reward_range == (0.0, 1.0)
    assert Candidates(WORDS, VALUES, n_actions=2, noise_scale=0.1).reward_range is None


def test_a_policy_learns_from_similarity_alone():
    kernel = Spectrum(n=2)

    trace = kb.simulate(
        Candidates(WORDS, VALUES, n_actions=4), kb.KernelUCB(kernel, exploration=0.2), horizon=80, seed=5
    )

    assert trace.regret[-1] == trace.regret[-40]


def test_an_environment_travels_to_other_processes():
    environment = Candidates(WORDS, VALUES, n_actions=3)

    traveled = pickle.loads(pickle.dumps(environment))

    assert traveled.describe() == environment.describe()
    worlds = [each.start(np.random.default_rng(1)) for each in (environment, traveled)]
    assert worlds[0].observe().expected.tolist() == worlds[1].observe().expected.tolist()
    assert worlds[0].reward(2) == worlds[1].reward(2)


def test_equal_data_have_equal_descriptions_and_other_data_others():
    description = Candidates(WORDS, VALUES, n_actions=3).describe()

    assert Candidates(tuple(WORDS), np.array(VALUES), n_actions=3).describe() == description
    assert Candidates(WORDS[::-1], VALUES, n_actions=3).describe() != description
    assert Candidates(WORDS, VALUES[::-1], n_actions=3).describe() != description
    assert Candidates(WORDS, VALUES, n_actions=3, ids=range(10, 19)).describe() != description


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"values": VALUES[1:]}, "9 items and 8 values"),
        ({"n_actions": 10}, "10 actions need as many items, got 9"),
        ({"n_actions": 0}, "number of actions"),
        ({"ids": ["a"] * 9}, "'a' occurs twice"),
        ({"ids": [1, 2]}, "2 ids for 9 items"),
        ({"noise_scale": np.inf}, "noise scale"),
    ],
)
def test_what_makes_no_sense_is_rejected(arguments, message):
    with pytest.raises(InvalidParameter, match=message):
        Candidates(**{"items": WORDS, "values": VALUES, "n_actions": 3, **arguments})


def test_items_with_gaps_are_rejected():
    with pytest.raises(InvalidContexts, match="row 1 holds NaN"):
        Candidates([[0.0], [np.nan]], [0, 1], n_actions=1)
