"""The life of a decision: late, amended, missing, repeated and shuffled rewards."""

import itertools
import json
import random
import shutil
from contextlib import contextmanager

import pytest

from kernelbandits import KernelUCB
from kernelbandits.service.experiment import Outcome
from kernelbandits.service.learner import replay
from kernelbandits.service.log import audit_choices
from kernelbandits.service.model import Model
from kernelbandits.service.problems import Problem
from kernelbandits.service.schemas import Action, Block, DecisionRequest, ExperimentChange, Items, RewardRequest
from services import (
    PATIENCE,
    ROWS,
    STRINGS,
    TABLE,
    Time,
    check,
    decide,
    drive,
    eventually,
    experiment,
    request,
    reward,
    running,
    settle,
)


@contextmanager
def problem(code, match=""):
    with pytest.raises(Problem, match=match) as raised:
        yield raised
    assert raised.value.code == code


def after(learner, clock, seconds):
    """Let time pass, and wait until windows that are over are closed."""
    clock.pass_(seconds)
    now = learner.clock.now()
    eventually(lambda: all((one.next_close or now + 1.0) > now for one in list(learner.experiments.values())))
    settle(learner)


def test_a_decision_is_answered_stored_and_the_same_when_sent_again(tmp_path):
    with running(tmp_path) as learner:
        experiment(learner)
        first = decide(learner, "d1")

        again = decide(learner, "d1")

        assert (first.replayed, again.replayed) == (False, True)
        assert (first.action_id, first.propensity, first.seq) == (again.action_id, again.propensity, again.seq)
        with problem("id-reused", "another request"):
            decide(learner, "d1", request(2))
        assert check(learner, [first, again]) == learner.store.head().seq


def test_a_reward_counts_once(tmp_path):
    with running(tmp_path) as learner:
        live = experiment(learner)
        decide(learner, "d1")

        first, again = reward(learner, "d1", 0.5), reward(learner, "d1", 0.5)

        assert (first.seq, again.seq, first.learned, again.replayed) == (first.seq, first.seq, 0.5, True)
        with problem("id-reused"):
            reward(learner, "d1", 0.6)
        with problem("not-found"):
            reward(learner, "none", 0.5)
        with problem("invalid", r"reward_range = \[0, 1\], got 2"):
            reward(learner, "d1", 2.0, "r2")
        settle(learner)
        assert live.info()["n_learned"] == 1
        check(learner, [first])


@pytest.mark.parametrize(
    ("aggregate", "expected"),
    [("earliest", 0.2), ("latest", 0.4), ("sum", 1.0), ("mean", 0.4), ("max", 0.6), ("min", 0.2)],
)
def test_rewards_of_one_decision_are_aggregated_and_amended(tmp_path, aggregate, expected):
    with running(tmp_path) as learner:
        live = experiment(learner, aggregate=aggregate)
        decide(learner, "d1", request(1, n=1))

        for name, value in (("a", 0.2), ("b", 0.6), ("c", 0.4)):
            last = reward(learner, "d1", value, name)

        settle(learner)
        assert last.learned == pytest.approx(expected)
        points, _, counts, sums = live.model.inner.posterior.support()
        assert (len(points), counts.tolist()) == (1, [1.0])
        assert sums.tolist() == pytest.approx([expected])
        check(learner)


def test_a_window_that_is_over_learns_the_default_or_nothing(tmp_path):
    clock = Time()
    with running(tmp_path, clock=clock.clock()) as learner:
        with_default = experiment(learner, "zero", default_reward=0.25)
        without = experiment(learner, "none")
        for name in ("zero", "none"):
            decide(learner, "d1", name=name)
            decide(learner, "d2", request(7), name)
            reward(learner, "d2", 1.0, name=name)

        after(learner, clock, 61.0)

        assert with_default.info()["n_learned"] == 2
        assert without.info()["n_learned"] == 1
        assert with_default.model.pending == without.model.pending == 0
        assert learner.store.decision("zero", "d1")[3:] == (
            "closed",
            *learner.store.decision("zero", "d1")[4:6],
            "[0.25]",
        )
        check(learner)


@pytest.mark.parametrize(("late", "learned"), [("ignore", None), ("amend", 0.75)])
def test_a_late_reward_is_stored_and_ignored_or_amended(tmp_path, late, learned):
    clock = Time()
    with running(tmp_path, clock=clock.clock()) as learner:
        live = experiment(learner, late=late)
        decide(learner, "d1")
        after(learner, clock, 61.0)

        answer = reward(learner, "d1", 0.75)

        settle(learner)
        assert (answer.late, answer.learned) == (True, learned)
        assert live.info()["n_learned"] == (learned is not None)
        assert len(learner.store.rewards("e", "d1")) == 1
        check(learner, [answer])


def test_a_late_reward_amends_the_default_long_after_the_policy_has_forgotten_it(tmp_path):
    clock = Time()
    with running(tmp_path, clock=clock.clock()) as learner:
        live = experiment(learner, late="amend", default_reward=0.0)
        live.model.inner.remember = 3
        decide(learner, "first", request(1, n=1))
        after(learner, clock, 61.0)
        for number in range(20):
            decide(learner, f"d{number}", request(2, n=1))
            reward(learner, f"d{number}", 1.0)

        reward(learner, "first", 0.5)

        settle(learner)
        assert live.model.n_skipped == 0
        assert live.model.inner.posterior.support()[3].tolist() == [0.5, 20.0]
        check(learner)


def test_a_final_reward_closes(tmp_path):
    with running(tmp_path) as learner:
        experiment(learner)
        decide(learner, "d1")

        assert reward(learner, "d1", 1.0, final=True).status == "closed"
        assert reward(learner, "d1", 0.5, "r2").late


def test_a_deferred_decision_waits_and_is_discarded(tmp_path):
    clock = Time()
    with running(tmp_path, clock=clock.clock()) as learner:
        live = experiment(learner, default_reward=0.0)
        assert decide(learner, "shown", request(1, defer=True)).status == "waiting"
        decide(learner, "never", request(2, defer=True))
        assert live.model.pending == 0
        with problem("wrong-state", "waiting"):
            reward(learner, "shown", 1.0)

        activated = learner.call(lambda: live.activate("shown", learner.clock.now())).result(PATIENCE)
        again = learner.call(lambda: live.activate("shown", learner.clock.now())).result(PATIENCE)
        reward(learner, "shown", 1.0)
        after(learner, clock, 61.0)

        assert (activated["status"], again["replayed"]) == ("open", True)
        assert activated["closes_at"] == "2023-11-14T22:14:20.000Z"  # a minute after 22:13:20
        assert live.info()["n_learned"] == 1
        assert learner.store.decision("e", "never").status == "discarded"
        with problem("wrong-state", "discarded"):
            reward(learner, "never", 1.0)
        check(learner)


def test_a_cancelled_decision_counts_for_nothing(tmp_path):
    with running(tmp_path) as learner:
        live = experiment(learner)
        decide(learner, "d1")
        assert live.model.pending == 1

        learner.call(lambda: live.cancel("d1", learner.clock.now())).result(PATIENCE)

        settle(learner)
        assert (live.model.pending, live.info()["n_learned"]) == (0, 0)
        with problem("wrong-state", "cancelled"):
            reward(learner, "d1", 1.0)
        check(learner)


def test_with_learn_on_close_the_record_does_not_depend_on_the_order_of_rewards(tmp_path):
    records = set()
    for place, order in enumerate(itertools.permutations(range(4))):
        clock = Time()
        with (
            running(tmp_path / str(place), clock=clock.clock())
            if (tmp_path / str(place)).mkdir() is None
            else 0 as learner
        ):
            live = experiment(learner, learn_on="close", default_reward=0.5)
            for number in range(5):
                decide(learner, f"d{number}", request(number, n=1))
            for number in order:
                reward(learner, f"d{number}", number / 7, final=number % 2 == 0)
            after(learner, clock, 61.0)
            check(learner)
            assert live.info()["n_learned"] == 5
            records.add(live.model.record)
        if place == 5:
            break
    assert len(records) == 1


def test_with_learn_on_reward_the_record_depends_on_it(tmp_path):
    records = set()
    for place, order in enumerate([(0, 1), (1, 0)]):
        folder = tmp_path / str(place)
        folder.mkdir()
        with running(folder) as learner:
            live = experiment(learner)
            for number in range(2):
                decide(learner, f"d{number}", request(number, n=1))
            for number in order:
                reward(learner, f"d{number}", 0.5)
            settle(learner)
            records.add(live.model.record)
    assert len(records) == 2


def test_a_slate_has_a_reward_for_each_place(tmp_path):
    with running(tmp_path) as learner:
        live = experiment(learner)

        slate = decide(learner, "d1", request(1, k=3))

        ids = [one.id for one in slate.ranking]
        assert len(set(ids)) == 3
        with problem("invalid", "names its action"):
            reward(learner, "d1", 1.0)
        reward(learner, "d1", 1.0, "r1", action_id=ids[2])
        reward(learner, "d1", 0.5, "r2", action_id=ids[0])
        with problem("invalid", "did not choose"):
            reward(learner, "d1", 0.5, "r3", action_id="a99")
        settle(learner)
        assert (live.info()["n_learned"], live.model.pending) == (2, 1)
        check(learner, [slate])


def test_pending_decisions_are_counted_up_to_the_limit(tmp_path):
    with running(tmp_path) as learner:
        live = experiment(learner, pending_limit=3)
        for number in range(6):
            decide(learner, f"d{number}")

        assert live.model.pending == 3
        assert list(live.model.policy.pending) == ["d3", "d4", "d5"]
        reward(learner, "d0", 1.0)
        settle(learner)
        check(learner)


def test_of_many_decisions_that_fell_back_the_policy_hears_only_of_those_that_count(tmp_path, monkeypatch):
    heard, was = [], KernelUCB._pending_changed

    def changed(self, decision, change):
        heard.append((decision.id, change))
        was(self, decision, change)

    monkeypatch.setattr(KernelUCB, "_pending_changed", changed)
    with running(tmp_path) as learner:
        experiment(learner, pending_limit=3, epsilon=0.0)
        decide(learner, "first")
        for number in range(40):
            learner.fall_back("e", f"f{number}", request(number), "").result(PATIENCE)
        learner.call(lambda: Outcome([], lambda rows: None), is_exclusive=True).result(PATIENCE)  # all are applied
        assert heard == []

        decide(learner, "next")

        assert heard == [("f37", 1), ("f38", 1), ("f39", 1)]
        settle(learner)
        assert heard[3:] == [("f37", -1), ("next", 1)]
        check(learner)


def test_a_burst_of_equal_requests_does_not_get_equal_answers(tmp_path):
    with running(tmp_path) as learner:
        experiment(learner, epsilon=0.0)
        same = DecisionRequest(actions=[Action("a", [0.0, 1.0]), Action("b", [3.0, 0.0])])

        chosen = [decide(learner, f"d{number}", same).action_id for number in range(4)]

        assert set(chosen) == {"a", "b"}


def test_a_paused_experiment_answers_the_baseline_and_logs(tmp_path):
    with running(tmp_path) as learner:
        live = experiment(learner, baseline="a3")
        learner.transition("e", "pause").result(PATIENCE)

        paused = decide(learner, "d1")
        learner.transition("e", "resume").result(PATIENCE)

        assert (paused.action_id, paused.propensity, paused.mode) == ("a3", 1.0, "baseline")
        reward(learner, "d1", 0.5)
        settle(learner)
        assert live.info()["n_learned"] == 1
        learner.transition("e", "end").result(PATIENCE)
        with problem("wrong-state", "ended"):
            decide(learner, "d2")
        check(learner, [paused])


def test_propensities_of_a_holdout_are_those_of_the_mixture(tmp_path):
    with running(tmp_path) as learner:
        experiment(learner, holdout=0.5, epsilon=0.1, baseline="a1")
        same = DecisionRequest(actions=[Action("a0", [0.0]), Action("a1", [2.0])])
        share = {}

        for number in range(60):
            answer = decide(learner, f"d{number}", same)
            share.setdefault((answer.mode, answer.action_id), answer.propensity)
            live = learner.experiments["e"]
            learner.call(lambda n=number, live=live: live.cancel(f"d{n}", learner.clock.now())).result(PATIENCE)

        explained = decide(learner, "explained", DecisionRequest(actions=same.actions, explain=True))
        assert {one.id: one.p for one in explained.candidates} == {
            "a0": pytest.approx(0.5 * 0.95),
            "a1": pytest.approx(0.5 + 0.5 * 0.05),
        }
        learner.transition("e", "pause").result(PATIENCE)
        paused = decide(learner, "paused", DecisionRequest(actions=same.actions, explain=True))
        assert {one.id: one.p for one in paused.candidates} == {"a0": 0.0, "a1": 1.0}

        # the policy alone takes a0 with 0.95; the holdout takes a1
        assert share[("policy", "a0")] == pytest.approx(0.5 * 0.95)
        assert share[("holdout", "a1")] == pytest.approx(0.5 + 0.5 * 0.05)


def test_draws_depend_on_the_seed_and_the_id_only(tmp_path):
    chosen = []
    for place in range(2):
        folder = tmp_path / str(place)
        folder.mkdir()
        with running(folder) as learner:
            experiment(learner, epsilon=1.0, pending_limit=0)
            order = range(20) if place == 0 else reversed(range(20))
            chosen.append({number: decide(learner, f"d{number}", request(1)).action_id for number in order})
    assert chosen[0] == chosen[1]
    assert len(set(chosen[0].values())) > 1


def test_catalogs_change_and_can_be_restricted(tmp_path):
    with running(tmp_path) as learner:
        live = experiment(learner, policy=STRINGS)
        with problem("invalid", "catalog is empty"):
            decide(learner, "d0", DecisionRequest())
        put = [Action("a", "one"), Action("b", "two"), Action("c", "three")]
        learner.change_items("e", Items(put=put)).result(PATIENCE)

        assert decide(learner, "d1", DecisionRequest(eligible=["b"])).action_id == "b"
        assert decide(learner, "d2", DecisionRequest(exclude=["a", "b"])).action_id == "c"
        with problem("invalid", "no action is eligible|No action"):
            decide(learner, "d3", DecisionRequest(eligible=["b"], exclude=["b"]))
        with problem("invalid", "'z', which is no action"):
            decide(learner, "d3", DecisionRequest(eligible=["z"]))
        learner.change_items("e", Items(delete=["b"])).result(PATIENCE)
        with problem("invalid"):
            decide(learner, "d3", DecisionRequest(eligible=["b"]))
        with problem("invalid", "strings"):
            learner.change_items("e", Items(put=[Action("d", [1.0])])).result(PATIENCE)
        assert list(live.items) == ["a", "c"]
        check(learner)
    with running(tmp_path) as learner:
        assert list(learner.experiments["e"].items) == ["a", "c"]


def test_a_fallback_to_an_item_that_is_being_removed_is_to_be_sent_again(tmp_path):
    with running(tmp_path) as learner:
        live = experiment(learner, baseline="b")
        learner.change_items("e", Items(put=[Action("a", [0.0, 1.0]), Action("b", [1.0, 0.0])])).result(PATIENCE)
        live.fallback("d1", DecisionRequest(), 0.0, "")
        del live.items["b"]  # as the learner does it, in the middle of a fallback

        with pytest.raises(Problem, match=r"'b' has just been removed\. Send the request again") as raised:
            live.fallback("d2", DecisionRequest(), 0.0, "")

        assert raised.value.code == "overloaded"
        live.items["b"] = [1.0, 0.0]


def test_a_catalog_that_changes_is_the_same_live_and_in_a_replay(tmp_path):
    draw = random.Random(5)
    with running(tmp_path) as learner:
        live = experiment(learner, epsilon=0.2)
        for number in range(60):
            if number % 3 == 0:
                names = draw.sample(range(12), 4)
                put = [Action(f"i{one}", [draw.gauss(0, 1), float(one)]) for one in names]
                known = [name for name in live.items if name not in {f"i{one}" for one in names}]
                change = Items(put=put, delete=draw.sample(known, min(2, len(known))))
                learner.change_items("e", change).result(PATIENCE)
            explain = number % 5 == 0
            k = min(len(live.items), 1 + number % 2)
            excluded = draw.sample(list(live.items), min(2, len(live.items) - k)) if number % 4 == 0 else None
            answer = decide(learner, f"d{number}", DecisionRequest(exclude=excluded, k=k, explain=explain))
            assert answer.action_id in live.items
            assert answer.action_id not in (excluded or ())
            if explain:
                assert {one.id for one in answer.candidates} == set(live.items) - set(excluded or ())
            reward(learner, f"d{number}", draw.random(), action_id=answer.action_id)
        settle(learner)
        assert audit_choices(learner.store, live, live.versions["p1"], None) == {"n_checked": 60, "n_differ": 0}
        check(learner)
        items = list(live.items)
    with running(tmp_path) as learner:
        assert list(learner.experiments["e"].items) == items


def test_a_version_that_cannot_choose_in_shadow_leaves_the_decision(tmp_path, monkeypatch, caplog):
    with running(tmp_path) as learner:
        live = experiment(learner)
        broken = Model("p2", live.model.policy.copy(), live.spec)
        monkeypatch.setattr(broken, "choose", lambda *arguments, **named: 1 / 0)
        monkeypatch.setitem(live.models, "p2", broken)

        assert decide(learner, "d1").mode == "policy"

        settle(learner)
        assert learner.state == "ready"
        assert "could not choose in shadow" in caplog.text
        monkeypatch.undo()
        check(learner)


def test_similarity_only_experiments_grow(tmp_path):
    with running(tmp_path) as learner:
        live = experiment(learner, policy=TABLE)
        pair = DecisionRequest(actions=[Action("a"), Action("b")])
        reward(learner, decide(learner, "d1", pair).decision_id, 1.0)

        new = Block(ids=["c"], to_known=[[0.2, 0.9]], among_new=[[1.0]])
        added = learner.add_similarities("e", new).result(PATIENCE)
        assert (added["n_items"], added["replayed"]) == (3, False)
        n_rows = len(list(learner.store.rows()))
        again = learner.add_similarities("e", new).result(PATIENCE)
        assert again == {"seq": added["seq"], "n_items": 3, "replayed": True}
        assert len(list(learner.store.rows())) == n_rows
        for bad, match in (
            (Block(ids=["d"], to_known=[[0.2, 0.9, 3.0]], among_new=[[1.0]]), "Cauchy"),
            (Block(ids=["d"], to_known=[[0.9, 0.9, -0.9]], among_new=[[1.0]]), "indefinite"),
            (Block(ids=["d"], to_known=[[0.2, 0.9]], among_new=[[1.0]]), "shape"),
            (Block(ids=["d"], to_known=[[0.2], [0.9, 0.1]], among_new=[[1.0]]), "same length"),
            (Block(ids=[], to_known=[], among_new=[]), "same length"),
            (Block(ids=["c"], to_known=[[0.2, 0.9, 0.1]], among_new=[[1.0]]), "twice"),
        ):
            with (
                problem("invalid", match)
                if "shape" not in match and "twice" not in match
                else pytest.raises(Exception, match=match)
            ):
                learner.add_similarities("e", bad).result(PATIENCE)
        decide(learner, "d2", DecisionRequest(actions=[Action("a"), Action("c")]))
        reward(learner, "d2", 0.5)
        with problem("invalid"):
            decide(learner, "d3", DecisionRequest(actions=[Action("unknown")]))
        settle(learner)
        assert len(live.model.policy.kernel.table) == 3
        check(learner)


def test_rows_of_another_length_are_rejected_and_leave_no_trace(tmp_path):
    with running(tmp_path) as learner:
        experiment(learner)
        decide(learner, "d1")
        seq = learner.store.head().seq

        for bad in (
            DecisionRequest(actions=[Action("a", [1.0])]),
            DecisionRequest(actions=[Action("a", [1.0, 2.0, 3.0]), Action("b", [1.0])]),
            DecisionRequest(actions=[Action("a", "text")]),
            DecisionRequest(actions=[Action("a", ["x", "y"])]),
            DecisionRequest(actions=[Action("a", [1.0, "y"])]),
            DecisionRequest(actions=[Action("a")]),
            DecisionRequest(actions=[Action("a", [])]),
            DecisionRequest(actions=[]),
            DecisionRequest(actions=[Action("a", [1.0, 2.0, 3.0])] * 2),
            request(1, k=99),
        ):
            with problem("invalid"):
                decide(learner, "d2", bad)

        settle(learner)
        assert learner.store.head().seq == seq
        check(learner)


def test_the_form_of_the_points_outlives_the_erasure_of_the_first_decision(tmp_path):
    with running(tmp_path) as learner:
        experiment(learner)
        decide(learner, "d1", request(1, subject="anna"))
        decide(learner, "d2")
        learner.erase("e", "anna").result(PATIENCE)
    with running(tmp_path) as learner, problem("invalid", "are rows of 3 numbers, got rows of 1"):
        decide(learner, "d3", DecisionRequest(actions=[Action("a", [1.0])]))


def test_a_restart_continues_where_it_ended(tmp_path):
    with running(tmp_path) as learner:
        experiment(learner, default_reward=0.0)
        experiment(learner, "close", learn_on="close")
        acknowledged = drive(learner, 40) + drive(learner, 20, name="close")
        settle(learner)
        acknowledged += drive(learner, 10, start=40)
        settle(learner)
        before = {name: one.model.record for name, one in learner.experiments.items()}
        opened = {name: one.info()["n_open"] for name, one in learner.experiments.items()}

    with running(tmp_path) as learner:
        assert {name: one.model.record for name, one in learner.experiments.items()} == before
        assert {name: one.info()["n_open"] for name, one in learner.experiments.items()} == opened
        check(learner, acknowledged)
        acknowledged += drive(learner, 20, start=50)
        settle(learner)
        check(learner, acknowledged)


@pytest.mark.parametrize("policy", [{**ROWS, "budget": 8}, {**STRINGS, "budget": 5}])
def test_with_a_budget_the_record_is_the_same_and_matrices_agree(tmp_path, policy):
    draw = random.Random(3)

    def go(learner, numbers):
        for number in numbers:
            xs = [
                [draw.gauss(0, 1)] * 2 if "length_scale" in str(policy) else f"some {draw.random():.4f}"
                for _ in range(4)
            ]
            decide(learner, f"d{number}", DecisionRequest(actions=[Action(f"a{i}", x) for i, x in enumerate(xs)]))
            reward(learner, f"d{number}", draw.random())
            if number % 5 == 0:
                reward(learner, f"d{number}", draw.random(), "r2")
        settle(learner)

    with running(tmp_path, snapshot_rows=40) as learner:
        live = experiment(learner, policy=policy)
        go(learner, range(60))
        check(learner)
    with running(tmp_path) as learner:
        live = learner.experiments["e"]
        go(learner, range(60, 110))
        check(learner)
        assert live.model.inner.posterior.size < 110
        again = replay(learner.store, live, live.versions["p1"], use_snapshots=False)
        probe = [[0.1, 0.2], [1.0, -1.0]] if "length_scale" in str(policy) else ["some 0.5", "other"]
        one, other = (model.inner.posterior.predict(probe) for model in (live.model, again))
        assert one.mean == pytest.approx(other.mean, abs=1e-8)
        assert one.width == pytest.approx(other.width, abs=1e-8)


def test_a_replay_from_any_snapshot_gives_the_same_record(tmp_path):
    with running(tmp_path, snapshot_rows=25) as learner:
        live = experiment(learner)
        drive(learner, 40)
        settle(learner)

        entries = learner.store.snapshots("e")
        assert len(entries) == 2
        for entry in entries:
            from_start = replay(learner.store, live, live.versions["p1"], upto=entry.seq, use_snapshots=False)
            assert from_start.record == entry.record
        with_snapshots = replay(learner.store, live, live.versions["p1"], use_snapshots=True, folder=learner.folder)
        assert with_snapshots.record == live.model.record


def test_recorded_choices_are_those_that_a_replay_makes_again(tmp_path, monkeypatch):
    with running(tmp_path) as learner:
        live = experiment(learner, epsilon=0.3, pending_limit=4)
        for start in range(0, 40, 8):  # concurrent ones, so that decisions are made before rewards are applied
            waiting = [learner.decide("e", f"d{n}", request(n % 5)) for n in range(start, start + 8)]
            waiting += [learner.reward("e", f"d{n}", f"r{start}", RewardRequest(reward=0.5)) for n in range(start)]
            for one in waiting:
                (one.future if hasattr(one, "future") else one).result(PATIENCE)
        settle(learner)
        version = live.versions["p1"]
        assert audit_choices(learner.store, live, version, None) == {"n_checked": 40, "n_differ": 0}
        check(learner)

        monkeypatch.setattr("kernelbandits.service.model.seed_of", lambda seed, name: 7)  # negative control
        assert audit_choices(learner.store, live, version, None)["n_differ"] > 5


def test_downtime_extends_windows(tmp_path):
    clock = Time()
    with running(tmp_path, clock=clock.clock()) as learner:
        experiment(learner, default_reward=0.0)
        decide(learner, "d1")
        settle(learner)
    clock.pass_(10_000.0)  # longer than the window

    with running(tmp_path, clock=clock.clock()) as learner:
        settle(learner)
        assert learner.experiments["e"].info()["n_open"] == 1
        after(learner, clock, 30.0)
        assert learner.experiments["e"].info()["n_open"] == 1
        after(learner, clock, 40.0)
        assert learner.experiments["e"].info()["n_open"] == 0
        check(learner)


def test_settings_change_and_are_remembered(tmp_path):
    with running(tmp_path) as learner:
        experiment(learner)
        learner.change("e", ExperimentChange(wait=5.0, default_reward=None, pending_limit=2)).result(PATIENCE)
        for number in range(4):
            decide(learner, f"d{number}")
        with problem("invalid", "lies in the reward range"):
            learner.change("e", ExperimentChange(default_reward=7.0)).result(PATIENCE)
        settle(learner)
        check(learner)
    with running(tmp_path) as learner:
        live = learner.experiments["e"]
        assert (live.spec.wait, live.spec.pending_limit, live.model.pending_limit) == (5.0, 2, 2)
        assert live.model.pending == 2


def test_erasure_leaves_no_trace_of_a_subject(tmp_path):
    with running(tmp_path) as learner:
        live = experiment(learner, policy=STRINGS)
        secret = "the very secret headline"
        for number, text in enumerate(("one thing", secret, "another")):
            given = DecisionRequest(actions=[Action("a", text)], subject="anna" if text == secret else "bert")
            decide(learner, f"d{number}", given)
            reward(learner, f"d{number}", 0.5)
        settle(learner)
        assert any(secret.encode() in path.read_bytes() for path in tmp_path.iterdir())

        assert learner.erase("e", "anna").result(PATIENCE)["n_erased"] == 1
        assert learner.erase("e", "anna").result(PATIENCE)["n_erased"] == 0

        assert [path.name for path in tmp_path.iterdir() if secret.encode() in path.read_bytes()] == []
        assert live.info()["n_learned"] == 2
        with problem("not-found"):
            reward(learner, "d1", 0.5, "r2")
        decide(learner, "d3", DecisionRequest(actions=[Action("a", "a fourth")]))
        settle(learner)
        check(learner)
    with running(tmp_path) as learner:
        check(learner)


def test_a_crash_after_an_erasure_leaves_no_snapshot_of_the_subject(tmp_path):
    """The row is there, and the snapshots from before it are: a restart removes them, and learns from none."""
    crashed = []

    def at(point):
        if point == "erased":
            crashed.append(shutil.copytree(tmp_path / "data", tmp_path / "crashed"))

    (tmp_path / "data").mkdir()
    with running(tmp_path / "data", at=at) as learner:
        experiment(learner, policy=STRINGS)
        secret = "the very secret headline"
        for number in range(3):
            given = DecisionRequest(actions=[Action("a", secret)], subject="anna")
            decide(learner, f"d{number}", given)
            reward(learner, f"d{number}", 0.5)
        settle(learner)
        learner.erase("e", "anna").result(PATIENCE)
    (folder,) = crashed
    (snapshot,) = folder.glob("*.kb")
    shutil.copy(snapshot, folder / "e-p1-3.kb")  # files of a crash before they were listed, or complete
    shutil.copy(snapshot, folder / f".e-p1-3.kb.{'0' * 32}.partial")
    shutil.copy(snapshot, folder / "own.kb")

    with running(folder) as learner:
        assert learner.experiments["e"].model.n_learned == 0
        check(learner)
        assert [path.name for path in folder.iterdir() if secret.encode() in path.read_bytes()] == ["own.kb"]


def test_a_version_that_was_being_built_during_an_erasure_knows_nothing_of_the_subject(tmp_path):
    with running(tmp_path) as learner:
        live = experiment(learner, policy=STRINGS)
        for number, subject in enumerate(("anna", "bert", "anna")):
            given = DecisionRequest(actions=[Action("a", f"headline {number}")], subject=subject)
            decide(learner, f"d{number}", given)
            reward(learner, f"d{number}", 0.5)
        made = learner.add_version("e", {**STRINGS, "exploration": 0.1}, None, "").result(PATIENCE)
        built = replay(learner.store, live, live.versions["p2"], upto=made["seq"], use_snapshots=False)
        built.save(tmp_path / "built.kb")
        assert learner.erase("e", "anna").result(PATIENCE)["n_erased"] == 2

        learner.adopt("e", "p2", tmp_path / "built.kb", made["seq"]).result(PATIENCE)

        assert live.models["p2"].n_learned == 1
        check(learner)


def test_a_restart_knows_when_the_last_snapshot_was_written(tmp_path):
    with running(tmp_path) as learner:
        experiment(learner)
        assert learner.last_snapshot_at is None
        decide(learner, "d1")
        settle(learner)
        last = learner.last_snapshot_at

    with running(tmp_path) as learner:
        assert 0.0 <= last - learner.last_snapshot_at < PATIENCE


def test_policies_that_cannot_be_served_are_rejected(tmp_path):
    with running(tmp_path) as learner:
        for number, (policy, match) in enumerate(
            [
                ({"class": "KernelUCB"}, "kernel"),
                ({"class": "Nothing"}, "no policy"),
                ({"class": "KernelUCB", "kernel": {"class": "Gaussian", "length_scale": -1}}, "above zero"),
                ({"class": "Gaussian", "length_scale": 1.0}, "policy is needed"),
                ({**ROWS, "seed": 1}, "seed belongs"),
                ({"class": "FixedCatalog"}, "no policy"),
                ({"class": "PhasedElimination", "kernel": {"class": "Linear"}, "horizon": 10}, "fixed set|missing"),
                ({**TABLE, "kernel": {**TABLE["kernel"], "values": [[1, 2], [2, 1]]}}, "Cauchy"),
            ]
        ):
            with problem("invalid", match):
                experiment(learner, f"e{number}", policy=policy)
        with problem("invalid") as raised:  # what is wrong, and where
            experiment(learner, policy={**TABLE, "kernel": {**TABLE["kernel"], "values": [[1, 2], [2, 1]]}})
        assert (raised.value.pointer, raised.value.body()["report"]["n_negative"]) == ("/policy", 1)
        with problem("invalid") as raised:
            experiment(learner, policy={**ROWS, "seed": 1})
        assert raised.value.pointer == "/policy/seed"
        assert not learner.experiments
        repaired = {**TABLE["kernel"], "values": [[1, 1.2], [1.2, 1]], "repair": "clip"}
        experiment(learner, policy={**TABLE, "kernel": repaired})


def test_linear_and_other_policies_are_served(tmp_path):
    policies = {
        "linear": {"class": "LinUCB", "exploration": 0.5},
        "thompson": {
            "class": "KernelThompson",
            "kernel": {"class": "Gaussian", "length_scale": 1.0},
            "exploration": 1.0,
        },
        "sup": {"class": "SupKernelUCB", "kernel": {"class": "Gaussian", "length_scale": 1.0}, "reward_range": [0, 1]},
        "uniform": {"class": "UniformRandom"},
    }
    with running(tmp_path) as learner:
        for name, policy in policies.items():
            experiment(learner, name, policy=policy)
            drive(learner, 15, name=name)
        settle(learner)
        check(learner)
        assert all(one.model.n_skipped == 0 for one in learner.experiments.values())


def test_learned_values_in_the_index_are_those_of_the_rows(tmp_path):
    with running(tmp_path) as learner:
        experiment(learner)
        drive(learner, 30)
        settle(learner)
        learned = {}
        for row in learner.store.rows("e", types=("learn",)):
            body = json.loads(row.body)
            learned |= {one[0]: one[-1] for one in (*body.get("learn", ()), *body.get("amend", ()))}
        index = {one.id: json.loads(one.learned)[0] for one in learner.store.decisions("e") if one.learned}
        assert index == learned
        assert learned
