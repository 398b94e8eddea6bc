import json

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from kernelbandits.environments import DrawnRounds, Round, SyntheticRKHS
from kernelbandits.errors import InvalidParameter, InvalidReward
from kernelbandits.evaluation import simulate, start_world
from kernelbandits.kernels import Gaussian
from kernelbandits.policies import GPUCB, Guarded, KernelUCB, LinUCB, Mixed, Softmax, SupKernelUCB, UniformRandom
from kernelbandits.types import Decision

KERNEL = Gaussian(length_scale=0.3)
WORLD = SyntheticRKHS(KERNEL, n_actions=4, n_features=2)


class Always:
    """A policy that takes the same row every time and remembers what it saw."""

    def __init__(self, action):
        self.action = action
        self.seen = []
        self.learned = []

    def choose(self, contexts, *, ids=None):
        self.seen.append((contexts, ids))
        return Decision(action=self.action, context=contexts[self.action], n_actions=len(contexts))

    def learn(self, decision, reward):
        self.learned.append((decision.action, reward))

    def describe(self):
        return {"class": "Always", "action": self.action}


class ThreeRounds:
    reward_range = None

    def start(self, rng):
        return DrawnRounds(iter([(Round(["a", "b"], ids=["x", "y"]), np.array([t, -t], float)) for t in range(3)]))

    def describe(self):
        return {"class": "ThreeRounds"}


def test_a_policy_learns_every_reward_of_its_own_actions():
    policy = Always(1)

    trace = simulate(WORLD, policy, horizon=5, seed=3)

    assert len(trace) == len(policy.learned) == 5
    assert policy.learned == list(zip(trace.action, trace.reward, strict=True))


def test_all_policies_meet_the_same_contexts_and_the_same_noise():
    first, second = Always(0), Always(3)

    traces = [simulate(WORLD, policy, horizon=30, seed=3) for policy in (first, second)]

    for (contexts, _), (contexts_again, _) in zip(first.seen, second.seen, strict=True):
        assert_array_equal(contexts, contexts_again)
    assert_array_equal(traces[0].best, traces[1].best)
    world = start_world(WORLD, 3)
    for round_index in range(30):
        world.observe()
        assert [world.reward(0), world.reward(3)] == [trace.reward[round_index] for trace in traces]


def test_equal_runs_give_equal_traces_and_other_seeds_do_not():
    trace = simulate(WORLD, Always(1), horizon=10, seed=3)

    assert trace.equals(simulate(WORLD, Always(1), horizon=10, seed=3))
    assert not trace.equals(simulate(WORLD, Always(1), horizon=10, seed=4))


def test_a_seed_sequence_can_be_used_again_and_is_left_as_it_was():
    sequence = np.random.SeedSequence(3).spawn(2)[1]

    first, second = (simulate(WORLD, Always(1), horizon=5, seed=sequence) for _ in range(2))

    assert first.equals(second)
    assert sequence.n_children_spawned == 0
    assert first.spec["seed"] == {"entropy": 3, "spawn_key": [1]}


def test_a_generator_moves_on():
    rng = np.random.default_rng(3)

    first, second = (simulate(WORLD, Always(1), horizon=5, seed=rng) for _ in range(2))

    assert not first.equals(second)
    assert second.equals(simulate(WORLD, Always(1), horizon=5, seed=second.spec["seed"]))


def test_a_run_without_a_seed_tells_the_one_it_drew():
    trace = simulate(WORLD, Always(1), horizon=5)

    assert trace.equals(simulate(WORLD, Always(1), horizon=5, seed=trace.spec["seed"]))


def test_the_trace_is_shorter_when_the_world_ends():
    policy = Always(1)

    trace = simulate(ThreeRounds(), policy, horizon=100, seed=0)

    assert trace.reward.tolist() == [0.0, -1.0, -2.0]
    assert policy.seen[0] == (["a", "b"], ["x", "y"])
    assert np.isnan(trace.regret).all()


def test_progress_is_reported_after_every_round():
    reported = []

    simulate(ThreeRounds(), Always(0), horizon=2, seed=0, progress=reported.append)

    assert reported == [1, 2]


def test_the_spec_says_what_produced_the_run_in_plain_values():
    spec = simulate(WORLD, Always(1), horizon=2, seed=3).spec

    assert json.loads(json.dumps(spec)) == spec
    assert spec["policy"] == {"class": "Always", "action": 1}
    assert (spec["environment"]["class"], spec["horizon"], spec["seed"]) == ("SyntheticRKHS", 2, 3)


@pytest.mark.parametrize("horizon", [0, -1, 2.5, True, None])
def test_a_bad_horizon_is_rejected_before_anything_is_played(horizon):
    policy = Always(0)

    with pytest.raises(InvalidParameter, match="The horizon must be"):
        simulate(WORLD, policy, horizon=horizon)

    assert policy.seen == []


def test_a_bad_seed_is_rejected():
    with pytest.raises(InvalidParameter, match="The seed must be a whole number"):
        simulate(WORLD, Always(0), horizon=3, seed=-1)


def test_errors_of_the_policy_are_its_own():
    class Picky(Always):
        def learn(self, decision, reward):
            raise StopIteration("even this one")

    with pytest.raises(StopIteration, match="even this one"):
        simulate(WORLD, Picky(0), horizon=3, seed=0)


def test_information_gain_is_read_off_the_posterior_after_learning():
    class Counting(Always):
        @property
        def posterior(self):
            class Gain:
                log_det_gain = float(len(self.learned))

            return Gain()

    assert simulate(WORLD, Counting(0), horizon=3, seed=0).log_det_gain.tolist() == [1.0, 2.0, 3.0]
    assert np.isnan(simulate(WORLD, Always(0), horizon=3, seed=0).log_det_gain).all()


CLICKS = SyntheticRKHS(KERNEL, n_actions=4, n_features=2, noise="bernoulli")
REAL = {
    "KernelUCB": lambda: KernelUCB(KERNEL, regularization=0.5, exploration=0.7),
    "LinUCB": lambda: LinUCB(regularization=0.5, exploration=0.7),
    "GPUCB": lambda: GPUCB(KERNEL, noise_variance=0.25),
    "SupKernelUCB": lambda: SupKernelUCB(KERNEL, horizon=25, n_actions=4, norm_bound=1.0, exploration="theory"),
    "UniformRandom": lambda: UniformRandom(seed=5),
}


@pytest.mark.parametrize("name", REAL)
def test_every_policy_meets_the_same_noise_and_repeats_itself(name):
    trace = simulate(CLICKS, REAL[name](), horizon=25, seed=8)

    assert trace.equals(simulate(CLICKS, REAL[name](), horizon=25, seed=8))
    world = start_world(CLICKS, 8)
    for action, reward, best in zip(trace.action, trace.reward, trace.best, strict=True):
        assert world.observe().expected.max() == best
        assert world.reward(action) == reward


def test_the_trace_of_kernel_ucb_holds_what_its_bound_is_made_of():
    policy = REAL["KernelUCB"]()

    trace = simulate(CLICKS, policy, horizon=25, seed=8)

    np.testing.assert_allclose(trace.exploration, 0.7)
    np.testing.assert_allclose(np.diff(trace.log_det_gain), np.log1p(trace.width[1:] ** 2))
    np.testing.assert_allclose(trace.log_det_gain[-1], policy.posterior.log_det_gain, rtol=1e-12)


@pytest.mark.parametrize(
    "wrap",
    [
        lambda policy: Mixed(policy, epsilon=0.4, seed=1),
        lambda policy: Softmax(policy, temperature=0.3, seed=1),
        lambda policy: Guarded(policy, baseline=0),
    ],
)
@pytest.mark.parametrize("name", ["KernelUCB", "LinUCB"])
def test_the_gain_of_a_wrapped_policy_is_that_of_its_posterior(wrap, name):
    policy = wrap(REAL[name]())

    trace = simulate(CLICKS, policy, horizon=25, seed=8)

    assert policy.reports_posterior_width
    np.testing.assert_allclose(trace.log_det_gain[-1], policy.policy.posterior.log_det_gain, rtol=1e-12)


def test_levels_are_in_the_trace_and_what_is_unknown_is_nan():
    levels = simulate(CLICKS, REAL["SupKernelUCB"](), horizon=25, seed=8)
    chance = simulate(CLICKS, REAL["UniformRandom"](), horizon=25, seed=8)

    assert set(levels.stage) <= {-1, 1, 2, 3}
    assert 1 in levels.stage
    assert np.isnan(levels.log_det_gain).all()
    assert np.isnan(chance.mean).all()
    assert_array_equal(chance.propensity, 0.25)


def test_a_world_that_pays_beyond_a_policys_range_hears_the_policys_own_error():
    wild = SyntheticRKHS(KERNEL, n_actions=4, n_features=2, noise_scale=5.0)

    with pytest.raises(InvalidReward):
        simulate(wild, REAL["SupKernelUCB"](), horizon=25, seed=8)
