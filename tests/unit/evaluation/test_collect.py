import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from kernelbandits import Catalog
from kernelbandits.environments import Clustered, DrawnRounds, Round
from kernelbandits.errors import InvalidParameter, KernelBanditWarning
from kernelbandits.evaluation import collect_log, simulate, start_world, true_value
from kernelbandits.kernels import Delta, Gaussian
from kernelbandits.policies import KernelSquareCB, KernelThompson, KernelUCB, LinUCB, Mixed, UniformRandom

WORLD = Clustered(n_actions=4)


class Listed:
    """A world of given rounds and rewards."""

    reward_range = None

    def __init__(self, rounds):
        self.rounds = rounds

    def start(self, rng):
        return DrawnRounds(iter(self.rounds))

    def describe(self):
        return {"class": "Listed"}


def make_logger():
    return Mixed(KernelUCB(Gaussian(length_scale=0.1)), epsilon=0.4, seed=7)


def test_a_log_is_the_run_that_simulate_plays():
    log, trace = (
        collect_log(WORLD, make_logger(), horizon=80, seed=3),
        simulate(WORLD, make_logger(), horizon=80, seed=3),
    )

    world = start_world(WORLD, 3)
    for t in range(80):
        assert_array_equal(log.rounds[t], world.observe().contexts)
    assert_array_equal(log.actions, trace.action)
    assert_array_equal(log.propensities, trace.propensity)
    assert_array_equal(log.rewards, trace.reward)
    assert log.ids is None


def test_a_policy_that_plays_many_rounds_at_once_is_logged_all_the_same():
    with pytest.warns(KernelBanditWarning, match="LinUCB is deterministic"):
        log = collect_log(WORLD, LinUCB(), horizon=50, seed=3)

    assert_array_equal(log.actions, simulate(WORLD, LinUCB(), horizon=50, seed=3).action)


def thompson():
    return KernelThompson(Gaussian(length_scale=0.1), regularization=0.1, exploration=0.05, seed=5)


def test_a_policy_that_excludes_actions_is_reported_with_the_remedy():
    """Thompson sampling draws from the fraction of draws that an action wins: most win none."""
    with pytest.warns(KernelBanditWarning, match=r"KernelThompson gave probability 0 .*Mixed\(policy, epsilon=0.1\)"):
        log = collect_log(WORLD, thompson(), horizon=120, seed=3)

    assert_array_equal(log.actions, simulate(WORLD, thompson(), horizon=120, seed=3).action)  # looking changes nothing


def test_slates_of_a_policy_that_excludes_actions_are_reported_too():
    with pytest.warns(KernelBanditWarning, match=r"KernelThompson gave probability 0 .*Mixed\(policy, epsilon=0.1\)"):
        log = collect_log(Clustered(n_actions=20), thompson(), horizon=40, seed=3, k=2)

    assert (log.propensities < 1.0).any()


@pytest.mark.parametrize(
    "policy",
    [
        lambda: Mixed(thompson(), epsilon=0.1, seed=0),
        lambda: KernelSquareCB(Gaussian(length_scale=0.1), seed=0),
        lambda: UniformRandom(seed=0),
    ],
    ids=["Mixed", "KernelSquareCB", "UniformRandom"],
)
@pytest.mark.parametrize("k", [None, 2])
def test_a_policy_with_full_support_is_not_reported(policy, k, recwarn):
    log = collect_log(WORLD, policy(), horizon=120, seed=3, k=k)

    assert not [one for one in recwarn if "probability 0" in str(one.message)]
    assert log.propensities.min() > 0.0


def test_names_are_kept_and_parts_of_catalogs_count_their_own_items():
    catalog = Catalog(["a", "b", "c"])
    part = [(Round(catalog.without([0])), np.array([1.0, 2.0]))] * 20
    named = [(Round(["a", "b"], ids=["x", "y"]), np.array([0.0, 1.0]))] * 5

    of_part = collect_log(Listed(part), UniformRandom(seed=0), horizon=20)
    of_named = collect_log(Listed(named), UniformRandom(seed=0), horizon=9)

    assert set(of_part.actions) == {0, 1}
    assert_allclose(of_part.rewards, of_part.actions + 1.0)
    assert len(of_named) == 5
    assert of_named.ids_of(4) == ["x", "y"]


def test_the_true_value_is_the_expectation_over_the_policy():
    policy = Mixed(KernelUCB(Gaussian(length_scale=0.1)), epsilon=0.5, seed=0)

    result = true_value(WORLD, policy, horizon=30, seed=4)

    world, values = start_world(WORLD, 4), []
    for _ in range(30):
        observed = world.observe()
        values.append(policy.probabilities(observed.contexts) @ observed.expected)
    assert_allclose([result.value, result.standard_error], [np.mean(values), np.std(values, ddof=1) / np.sqrt(30)])
    assert policy.round_index == 1


def test_a_world_that_ends_gives_what_it_has():
    rounds = [(Round(["a", "b"], expected=np.array([0.0, t])), np.zeros(2)) for t in (1.0, 3.0)]

    result = true_value(Listed(rounds), UniformRandom(), horizon=10)

    assert (result.value, result.n_rounds) == (1.0, 2)


def test_a_world_without_expectations_has_no_truth_to_tell():
    with pytest.raises(InvalidParameter, match="true value is unknown"):
        true_value(Listed([(Round(["a"]), np.zeros(1))]), KernelUCB(Delta()), horizon=3)
