"""What a policy announces to its listeners, and pending decisions that expire."""

import copy
import pickle

import numpy as np
import pytest

import kernelbandits as kb
from kernelbandits.errors import DecisionError, InvalidParameter, InvalidReward
from kernelbandits.kernels import Gaussian
from kernelbandits.policies.events import Event
from reliability.policies import CASES, rows


def policy_of():
    return kb.KernelUCB(Gaussian(length_scale=0.4), regularization=0.3, exploration=0.5)


def listening(policy):
    """The policy, and the list of what it announces: one list of events per call."""
    calls = []
    policy.subscribe(lambda events: calls.append(list(events)))
    return policy, calls


def kinds(calls):
    return [[event.kind for event in events] for events in calls]


def state_of(policy):
    return policy._state(), policy._ledger.state()


class TestAnnouncements:
    def test_every_change_is_announced_once_and_in_order(self):
        policy, calls = listening(policy_of())
        first, second, third, fourth = (policy.choose(rows(t)) for t in range(4))

        policy.learn(first, 0.5)
        policy.learn_many([second, third], [0.1, 0.2])
        policy.expect(fourth, expires=7.0)
        policy.withdraw(fourth)
        policy.amend(first, now=0.6)
        policy.unlearn(second)
        policy.warm_start(rows(0), np.ones(5))
        policy.play([rows(1)], [np.ones(5)])

        assert kinds(calls) == [
            ["learn"], ["learn", "learn"], ["expect"], ["withdraw"], ["amend"], ["unlearn"], ["warm_start"], ["play"],
        ]  # fmt: skip
        assert (calls[0][0].decision, calls[0][0].reward) == (first, 0.5)
        assert [event.reward for event in calls[1]] == [0.1, 0.2]
        assert (calls[2][0].decision.id, calls[2][0].expires) == (fourth.id, 7.0)
        assert (calls[4][0].was, calls[4][0].reward) == (0.5, 0.6)
        assert calls[5][0].was == 0.1

    def test_choosing_and_an_amendment_that_changes_nothing_are_not_announced(self):
        policy, calls = listening(policy_of())
        decision = policy.choose(rows(0))
        policy.learn(decision, 0.5)
        policy.choose(rows(1), k=2)

        policy.amend(decision, now=0.5)

        assert kinds(calls) == [["learn"]]

    def test_a_rejected_call_is_not_announced(self):
        policy, calls = listening(policy_of())
        decision = policy.choose(rows(0))

        with pytest.raises(InvalidReward):
            policy.learn(decision, float("nan"))
        with pytest.raises(DecisionError):
            policy.withdraw(decision)

        assert calls == []

    @pytest.mark.filterwarnings("ignore::kernelbandits.errors.GuaranteeVoid")
    @pytest.mark.parametrize("name", CASES)
    def test_the_events_rebuild_the_model(self, name):
        """A store that keeps the events of a policy can replay them into a new one."""
        case = CASES[name]
        policy, calls = listening(case.make())
        learned = case.learn(policy, 6)
        pending = policy.choose(case.contexts(6))
        policy.expect(pending, expires=9.0)
        try:
            policy.amend(learned[2], now=0.9)
            policy.unlearn(learned[3])
        except kb.errors.NotSupported:
            assert kinds(calls)[-1] == ["expect"]

        other = case.make()
        for events in calls:
            for event in events:
                event.apply(other)

        assert other.pending.keys() == {pending.id}
        assert other.round_index == policy.round_index
        assert np.allclose(other.probabilities(case.contexts(0)), policy.probabilities(case.contexts(0)), atol=1e-9)
        expected, found = (p.choose(case.contexts(1), id="same") for p in (policy, other))
        assert (found.action, found.propensity) == (expected.action, pytest.approx(expected.propensity))

    def test_an_event_repeats_the_ids_and_eligible_actions_of_played_rounds(self):
        policy, calls = listening(kb.LinUCB(model="disjoint"))
        rounds, rewards = [rows(0), rows(1)], [np.arange(5.0), np.arange(5.0)]
        ids, eligible = [list("abcde"), list("ebcda")], [None, np.array([True, False, False, False, True])]
        policy.play(rounds, rewards, ids=ids, eligible=eligible)

        other = kb.LinUCB(model="disjoint")
        calls[0][0].apply(other)

        found, expected = (one.choose(rows(2), ids=list("eabcd")) for one in (other, policy))
        assert (found.item, found.mean, found.width) == (expected.item, expected.mean, expected.width)
        without = kb.LinUCB(model="disjoint")
        without.play(rounds, rewards)
        assert without.choose(rows(2), ids=list("eabcd")).width != expected.width

    def test_without_an_event_the_model_differs(self):
        """Negative control of the test above."""
        case = CASES["KernelUCB rows"]
        policy, calls = listening(case.make())
        case.learn(policy, 6)

        other = case.make()
        for events in calls[:-1]:
            events[0].apply(other)

        assert other.round_index == policy.round_index - 1

    def test_a_wrapper_and_its_policy_announce_to_the_same_listeners(self):
        policy, calls = listening(kb.Mixed(policy_of(), epsilon=0.5, seed=0))

        policy.learn(policy.choose(rows(0)), 0.5)
        policy.policy.learn(policy.policy.choose(rows(0)), 0.5)

        assert kinds(calls) == [["learn"], ["learn"]]

    def test_play_and_warm_start_can_be_repeated(self):
        policy, calls = listening(policy_of())
        policy.warm_start(rows(0), np.linspace(0, 1, 5), times=2)
        policy.play([rows(t) for t in range(4)], np.linspace(0, 1, 20).reshape(4, 5))

        other = policy_of()
        for events in calls:
            events[0].apply(other)

        assert other.round_index == 5
        assert other.choose(rows(2)).mean == pytest.approx(policy.choose(rows(2)).mean)


class TestListeners:
    @pytest.mark.parametrize(
        "name", ["learn", "learn_many", "expect", "withdraw", "expire", "amend", "unlearn", "play"]
    )
    def test_a_listener_that_raises_rolls_the_call_back(self, name):
        """The model holds nothing that a store did not accept."""
        policy = policy_of()
        first, second = (policy.choose(rows(t)) for t in range(2))
        policy.learn(first, 0.5)
        policy.expect(second, expires=1.0)
        third = policy.choose(rows(2))
        calls = {
            "learn": lambda: policy.learn(third, 0.1),
            "learn_many": lambda: policy.learn_many([second, third], [0.1, 0.2]),
            "expect": lambda: policy.expect(third),
            "withdraw": lambda: policy.withdraw(second),
            "expire": lambda: policy.expire(2.0),
            "amend": lambda: policy.amend(first, now=0.7),
            "unlearn": lambda: policy.unlearn(first),
            "play": lambda: policy.play([rows(0)], [np.ones(5)]),
        }
        before = state_of(policy)

        def reject(events):
            raise OSError("the disk is full")

        unsubscribe = policy.subscribe(reject)
        with pytest.raises(OSError, match="the disk is full"):
            calls[name]()
        assert repr(state_of(policy)) == repr(before)

        unsubscribe()
        calls[name]()
        assert repr(state_of(policy)) != repr(before)

    def test_a_listener_may_be_added_twice_and_removed_once(self):
        policy, seen = policy_of(), []
        unsubscribe = policy.subscribe(seen.extend)
        policy.subscribe(seen.extend)

        unsubscribe()
        unsubscribe()  # a repeated call is harmless
        policy.learn(policy.choose(rows(0)), 0.5)

        assert [event.kind for event in seen] == ["learn"]

    @pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, kb.KernelUCB.copy])
    def test_a_copy_has_no_listeners(self, duplicate):
        policy, calls = listening(policy_of())

        made = duplicate(policy)
        made.learn(made.choose(rows(0)), 0.5)

        assert calls == []
        policy.learn(policy.choose(rows(0)), 0.5)
        assert kinds(calls) == [["learn"]]

    def test_a_policy_with_a_listener_can_be_pickled_and_saved(self, tmp_path):
        policy, calls = listening(policy_of())
        policy.learn(policy.choose(rows(0)), 0.5)

        policy.save(tmp_path / "policy.kb")
        for made in (pickle.loads(pickle.dumps(policy)), kb.load(tmp_path / "policy.kb")):
            made.learn(made.choose(rows(1)), 0.5)

        assert len(calls) == 1

    def test_what_is_not_a_function_is_rejected(self):
        with pytest.raises(InvalidParameter, match="A listener is a function of a sequence of events, got list"):
            policy_of().subscribe([])

    def test_an_event_is_a_value(self):
        with pytest.raises(AttributeError):
            Event("play").kind = "expect"

    @pytest.mark.parametrize("kind", ["forget", "expire", None, 3])
    def test_an_unknown_kind_is_rejected(self, kind):
        with pytest.raises(InvalidParameter, match="The kind of an event must be one of 'learn', "):
            Event(kind)

    @pytest.mark.parametrize("kind", ["learn", "expect", "withdraw", "amend", "unlearn"])
    def test_an_event_about_a_decision_has_one(self, kind):
        with pytest.raises(InvalidParameter, match=f"The decision of a '{kind}' event must be a Decision"):
            Event(kind)


class TestExpiry:
    def test_decisions_expire_in_the_order_of_their_times(self):
        policy = policy_of()
        decisions = [policy.choose(rows(t)) for t in range(4)]
        for decision, expires in zip(decisions, [3.0, 1.0, None, 2.0], strict=True):
            policy.expect(decision, expires=expires)

        assert policy.expire(0.5) == []
        assert [decision.id for decision in policy.expire(2.0)] == [decisions[1].id, decisions[3].id]
        assert set(policy.pending) == {decisions[0].id, decisions[2].id}
        assert policy.expire(2.0) == []
        assert [decision.id for decision in policy.expire(1e12)] == [decisions[0].id]
        assert set(policy.pending) == {decisions[2].id}

    @pytest.mark.filterwarnings("ignore::kernelbandits.errors.GuaranteeVoid")
    @pytest.mark.parametrize("name", CASES)
    def test_an_expired_decision_leaves_no_trace(self, name):
        case = CASES[name]
        policy, other = case.make(), case.make()
        for made in (policy, other):
            case.learn(made, 5)
        policy.expect(policy.choose(case.contexts(5), id="late"), expires=1.0)

        policy.expire(1.0)

        expected, found = (p.choose(case.contexts(6), id="same") for p in (other, policy))
        assert (found.action, found.width) == (expected.action, pytest.approx(expected.width, nan_ok=True))
        assert policy.round_index == other.round_index

    def test_a_reward_that_arrives_after_all_is_learned(self):
        policy = policy_of()
        decision = policy.choose(rows(0))
        policy.expect(decision, expires=1.0)
        policy.expire(2.0)

        policy.learn(decision, 0.5)

        assert policy.round_index == 2

    def test_a_decision_that_is_learned_or_withdrawn_does_not_expire(self):
        policy = policy_of()
        first, second, third = (policy.choose(rows(t)) for t in range(3))
        for decision in (first, second, third):
            policy.expect(decision, expires=1.0)
        assert policy.expire(0.0) == []  # orders the times that follow are compared with
        policy.learn(first, 0.5)
        policy.withdraw(second)
        policy.expect(second, expires=5.0)

        assert [decision.id for decision in policy.expire(1.0)] == [third.id]
        assert [decision.id for decision in policy.expire(5.0)] == [second.id]

    def test_expiring_is_announced_in_one_call(self):
        policy, calls = listening(policy_of())
        for t in range(3):
            policy.expect(policy.choose(rows(t)), expires=float(t))

        expired = policy.expire(1.0)

        assert kinds(calls) == [["expect"]] * 3 + [["withdraw", "withdraw"]]
        assert [event.decision.id for event in calls[-1]] == [decision.id for decision in expired]

    def test_times_are_saved_copied_and_pickled(self, tmp_path):
        policy = policy_of()
        first, second = (policy.choose(rows(t)) for t in range(2))
        policy.expect(first, expires=2.5)
        policy.expect(second)
        policy.save(tmp_path / "policy.kb")

        for made in (kb.load(tmp_path / "policy.kb"), policy.copy(), pickle.loads(pickle.dumps(policy))):
            assert made.expire(2.4) == []
            assert [decision.id for decision in made.expire(2.5)] == [first.id]
            assert set(made.pending) == {second.id}
        assert set(policy.pending) == {first.id, second.id}

    @pytest.mark.parametrize("time", [float("nan"), float("inf"), "soon", None, np.zeros(2)])
    def test_what_is_not_a_time_is_rejected(self, time):
        policy = policy_of()
        decision = policy.choose(rows(0))

        with pytest.raises(InvalidParameter, match="The current time"):
            policy.expire(time)
        if time is not None:
            with pytest.raises(InvalidParameter, match="The time at which a decision expires"):
                policy.expect(decision, expires=time)
        assert not policy.pending

    def test_many_expired_decisions_are_found_without_looking_at_all(self):
        """Calling `expire` often costs little: only the next decision to expire is looked at."""
        policy = kb.UniformRandom(seed=0)
        for t in range(2_000):
            policy.expect(policy.choose(rows(t)), expires=1e6 + t)
        policy.expire(0.0)
        times = policy._ledger.expires
        policy._ledger.expires = type("NotIterable", (dict,), {"items": None, "__iter__": None})(times)

        assert policy.expire(1.0) == []
        assert len(policy.expire(1e6)) == 1


def test_an_event_of_observations_counts_each_once_unless_it_says_otherwise():
    assert Event("warm_start").times == 1
