"""Rounds that are not learned, not known or reported late."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from kernelbandits.environments import Clustered, Delayed, DrawnRounds, Round, SyntheticRKHS
from kernelbandits.errors import InvalidParameter, NotSupported
from kernelbandits.evaluation import simulate, start_world
from kernelbandits.kernels import Gaussian, Linear
from kernelbandits.policies import KernelUCB, LinUCB, SupKernelUCB
from kernelbandits.selection import Catalog
from kernelbandits.types import Decision

KERNEL = Gaussian(length_scale=0.3)
WORLD = SyntheticRKHS(KERNEL, n_actions=5, n_features=2)
POLICIES = {
    "stepped": lambda: KernelUCB(KERNEL, regularization=0.3, exploration=0.5),
    "fused": lambda: KernelUCB(Linear(), regularization=0.3, exploration=0.5, posterior="primal"),
}


class Diary:
    """A policy that takes turns and records its calls, in order."""

    def __init__(self):
        self.entries = []
        self.n_chosen = 0

    def choose(self, contexts, *, ids=None):
        self.n_chosen += 1
        self.entries.append(("choose", self.n_chosen))
        return Decision(action=self.n_chosen % len(contexts), context=self.n_chosen, n_actions=len(contexts))

    def expect(self, decision):
        self.entries.append(("expect", decision.context))

    def learn(self, decision, reward):
        self.entries.append(("learn", decision.context, reward))

    def describe(self):
        return {"class": type(self).__name__}

    def calls_of(self, word):
        return [entry[1] for entry in self.entries if entry[0] == word]


class Scripted:
    """A world with these rewards (a row a round, a column an action) and delays."""

    reward_range = None

    def __init__(self, rewards, delays=None):
        self.rewards, self.delays = np.asarray(rewards, dtype=float), delays

    def start(self, rng):
        rounds = ((Round(np.eye(len(rewards))), rewards) for rewards in self.rewards)
        return DrawnRounds(rounds) if self.delays is None else ScriptedLateWorld(rounds, self.delays)

    def describe(self):
        return {"class": "Scripted"}


class ScriptedLateWorld(DrawnRounds):
    def __init__(self, rounds, delays):
        super().__init__(rounds)
        self.delays = iter(delays)

    def delay(self):
        return next(self.delays)


class TestLearnRounds:
    @pytest.mark.parametrize("name", POLICIES)
    @pytest.mark.parametrize("learn_rounds", [0, 7, 60, 80])
    def test_the_policy_is_frozen_after_them(self, name, learn_rounds):
        policy, by_hand = POLICIES[name](), POLICIES[name]()

        trace = simulate(WORLD, policy, horizon=80, seed=2, learn_rounds=learn_rounds)

        world = start_world(WORLD, 2)
        for t in range(80):
            decision = by_hand.choose(world.observe().contexts)
            assert (decision.action, world.reward(decision.action)) == (trace.action[t], trace.reward[t])
            if t < learn_rounds:
                by_hand.learn(decision, trace.reward[t])
        assert policy.posterior.n_observations == learn_rounds
        assert np.all(trace.log_det_gain[learn_rounds:] == trace.log_det_gain[max(0, learn_rounds - 1)])

    @pytest.mark.parametrize("name", POLICIES)
    def test_as_many_as_there_are_is_all_of_them(self, name):
        trace = simulate(WORLD, POLICIES[name](), horizon=60, seed=2)

        assert trace.equals(simulate(WORLD, POLICIES[name](), horizon=60, seed=2, learn_rounds=60))
        assert not trace.equals(simulate(WORLD, POLICIES[name](), horizon=60, seed=2, learn_rounds=20))

    def test_a_reward_of_theirs_is_learned_however_late_it_comes(self):
        policy = Diary()

        simulate(Scripted(np.zeros((6, 2)), delays=[3, 3, 3, 3, 3, 3]), policy, horizon=6, seed=0, learn_rounds=2)

        assert policy.calls_of("expect") == policy.calls_of("learn") == [1, 2]

    def test_the_spec_tells_it(self):
        assert simulate(WORLD, Diary(), horizon=2, seed=0, learn_rounds=1).spec["learn_rounds"] == 1
        assert simulate(WORLD, Diary(), horizon=2, seed=0).spec["learn_rounds"] is None

    @pytest.mark.parametrize("learn_rounds", [-1, 2.5, True])
    def test_a_bad_number_is_rejected_before_anything_is_played(self, learn_rounds):
        policy = Diary()

        with pytest.raises(InvalidParameter, match="The number of rounds to learn from must be"):
            simulate(WORLD, policy, horizon=5, seed=0, learn_rounds=learn_rounds)

        assert policy.entries == []


class TestRewardsThatAreNotKnown:
    def test_they_are_recorded_and_not_learned(self):
        policy = Diary()
        rewards = [[0.0, np.nan], [2.0, np.nan], [np.nan, 3.0], [np.nan, 4.0]]

        trace = simulate(Scripted(rewards), policy, horizon=10, seed=0)

        assert_array_equal(trace.reward, [np.nan, 2.0, 3.0, np.nan])
        assert policy.calls_of("learn") == [2, 3]
        assert policy.calls_of("choose") == [1, 2, 3, 4]

    def test_a_policy_with_a_loop_of_its_own_steps_over_them(self):
        rewards = np.random.default_rng(3).random((40, 4))
        rewards[rewards < 0.3] = np.nan
        policy, by_hand = POLICIES["fused"](), POLICIES["fused"]()

        trace = simulate(Scripted(rewards), policy, horizon=40, seed=0)

        assert policy.has_compiled_loop

        for t in range(40):
            decision = by_hand.choose(np.eye(4))
            assert decision.action == trace.action[t]
            if not np.isnan(rewards[t, decision.action]):
                by_hand.learn(decision, rewards[t, decision.action])
        assert 0 < np.isnan(trace.reward).sum() < 40
        assert policy.posterior.n_observations == 40 - np.isnan(trace.reward).sum()

    def test_they_are_not_pending_either(self):
        policy = Diary()

        simulate(Scripted([[np.nan, np.nan], [1.0, 1.0], [1.0, 1.0]], delays=[1, 1]), policy, horizon=3, seed=0)

        assert policy.calls_of("expect") == [2, 3]


class TestDelays:
    def test_rewards_are_learned_when_due_in_order_of_arrival(self):
        policy = Diary()

        simulate(Scripted(np.zeros((6, 2)), delays=[3, 0, 1, 1, 9, 0]), policy, horizon=6, seed=0)

        words = [entry[:2] for entry in policy.entries]
        assert words == [
            ("choose", 1), ("expect", 1),
            ("choose", 2), ("learn", 2),
            ("choose", 3), ("expect", 3),
            ("learn", 1), ("learn", 3), ("choose", 4), ("expect", 4),
            ("learn", 4), ("choose", 5), ("expect", 5),
            ("choose", 6), ("learn", 6),
        ]  # fmt: skip

    @pytest.mark.parametrize("name", POLICIES)
    def test_no_delay_is_the_undelayed_run(self, name):
        trace = simulate(WORLD, POLICIES[name](), horizon=50, seed=4)
        late = simulate(Delayed(WORLD, delay=0), POLICIES[name](), horizon=50, seed=4)

        assert_array_equal(late.action, trace.action)
        assert_array_equal(late.reward, trace.reward)
        np.testing.assert_allclose(late.log_det_gain, trace.log_det_gain, rtol=1e-10)

    @pytest.mark.parametrize("name", POLICIES)
    @pytest.mark.parametrize("delay", [1, 2, 5])
    def test_a_constant_delay_is_the_loop_written_out(self, name, delay):
        policy, by_hand = POLICIES[name](), POLICIES[name]()

        trace = simulate(Delayed(WORLD, delay=delay), policy, horizon=40, seed=4)

        world, waiting = start_world(WORLD, 4), []
        for t in range(40):
            observed = world.observe()
            if t >= delay:
                by_hand.learn(*waiting[t - delay])
            decision = by_hand.choose(observed.contexts)
            waiting.append((decision, world.reward(decision.action)))
            by_hand.expect(decision)
            assert (trace.action[t], trace.reward[t]) == (decision.action, waiting[t][1])
            np.testing.assert_allclose(trace.width[t], decision.width, rtol=1e-10)  # the last digit is the machine's
            np.testing.assert_allclose(trace.log_det_gain[t], by_hand.posterior.log_det_gain, rtol=1e-10)
        assert len(policy.pending) == delay
        assert policy.posterior.n_observations == 40 - delay

    def test_a_longer_delay_changes_choices(self):
        prompt, late = (simulate(Delayed(WORLD, delay=d), POLICIES["stepped"](), horizon=60, seed=4) for d in (0, 20))

        assert not np.array_equal(prompt.action, late.action)

    def test_a_policy_that_cannot_await_learns_late(self):
        class Impatient(Diary):
            def expect(self, decision):
                raise NotSupported("no")

        class Deaf(Diary):
            expect = None

        for policy in (Impatient(), Deaf()):
            simulate(Scripted(np.zeros((5, 2)), delays=[2] * 5), policy, horizon=5, seed=0)

            assert policy.calls_of("learn") == [1, 2, 3]

    @pytest.mark.parametrize(
        "policy",
        [
            LinUCB(model="disjoint"),
            SupKernelUCB(KERNEL, horizon=30, n_actions=4, norm_bound=1.0, exploration="theory"),
        ],
        ids=lambda policy: type(policy).__name__,
    )
    def test_other_policies_await_too(self, policy):
        trace = simulate(Delayed(Clustered(n_actions=4), delay=(0, 6)), policy, horizon=30, seed=1)

        assert len(trace) == 30
        assert policy.round_index == 31

    @pytest.mark.parametrize("delay", [-1, 0.5])
    def test_a_delay_that_is_none_is_rejected(self, delay):
        with pytest.raises(InvalidParameter, match="A delay must be a whole number"):
            simulate(Scripted(np.zeros((5, 2)), delays=[delay]), Diary(), horizon=5, seed=0)


def test_a_policy_with_a_loop_of_its_own_chooses_from_a_catalog_in_a_world_with_look_ahead():
    items = Catalog(np.eye(3))
    rounds = [(Round(items), np.array([0.0, 1.0, 0.0])) for _ in range(6)]

    class Shop:
        reward_range = None

        def start(self, rng):
            return DrawnRounds(iter(rounds))

        def describe(self):
            return {"class": "Shop"}

    trace = simulate(Shop(), LinUCB(exploration=0.1), horizon=6, seed=0)

    assert trace.action[-1] == 1
