"""Any sequence of requests, time and restarts, compared with a plain model of what each decision is learned with."""

import json
import math
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernelbandits.service.problems import Problem
from services import PATIENCE, Time, check, decide, eventually, experiment, request, reward, running, settle

WAIT = 60.0
AGGREGATES = {
    "earliest": lambda values: values[0],
    "latest": lambda values: values[-1],
    "sum": lambda values: min(1.0, sum(values)),
    "mean": lambda values: sum(values) / len(values),
    "max": max,
    "min": min,
}

NUMBERS = st.integers(0, 5)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("decide"), NUMBERS, st.booleans()),
        st.tuples(st.just("reward"), NUMBERS, st.sampled_from([0.0, 0.25, 0.5, 1.0]), st.integers(0, 2), st.booleans()),
        st.tuples(st.just("activate"), NUMBERS),
        st.tuples(st.just("cancel"), NUMBERS),
        st.tuples(st.just("wait"), st.sampled_from([10.0, 35.0, 70.0])),
        st.tuples(st.just("restart")),
    ),
    min_size=1,
    max_size=25,
)


class Reference:
    """What section 3 of the design says, without a log, threads or a policy."""

    def __init__(self, aggregate, learn_on, late, default):
        self.aggregate, self.learn_on, self.late, self.default = AGGREGATES[aggregate], learn_on, late, default
        self.now, self.decisions = 0.0, {}

    def decide(self, number, defer):
        self.decisions.setdefault(
            number, {"status": "waiting" if defer else "open", "closes": self.now + WAIT, "rewards": {}, "counts": {}}
        )

    def reward(self, number, value, name, final):
        """Whether the reward is accepted."""
        known = self.decisions.get(number)
        if known is None:
            return False
        if name in known["rewards"]:
            return known["rewards"][name] == (value, final)
        if known["status"] not in ("open", "closed"):
            return False
        known["rewards"][name] = (value, final)
        late = known["status"] == "closed"
        known["counts"][name] = not late or self.late == "amend"
        if final and not late:
            known["status"] = "closed"
        return True

    def activate(self, number):
        known = self.decisions.get(number)
        if known is not None and known["status"] == "waiting":
            known.update(status="open", closes=self.now + WAIT)

    def cancel(self, number):
        known = self.decisions.get(number)
        if known is None or known["status"] not in ("open", "waiting"):
            return
        learned_at_once = self.learn_on == "reward" and known["rewards"]
        if not learned_at_once:
            known["status"] = "cancelled"

    def wait(self, seconds):
        self.now += seconds
        for known in self.decisions.values():
            if known["status"] in ("open", "waiting") and known["closes"] <= self.now:
                known["status"] = "closed" if known["status"] == "open" else "discarded"

    def learned(self):
        """Value of each decision that was learned."""
        found, is_blocked = {}, False
        for number, known in self.decisions.items():  # in order of the decisions
            is_blocked |= self.learn_on == "close" and known["status"] in ("open", "waiting")
            if known["status"] in ("waiting", "discarded", "cancelled"):
                continue
            if self.learn_on == "close" and (is_blocked or known["status"] == "open"):
                continue
            values = [value for name, (value, _) in known["rewards"].items() if known["counts"][name]]
            if values:
                found[number] = self.aggregate(values)
            elif known["status"] == "closed" and self.default is not None:
                found[number] = self.default
        return found


def same(learner, name, number, call):
    """Run a call that may be rejected."""
    try:
        call()
    except Problem as problem:
        if problem.status not in (404, 409, 422):
            raise
        return False
    return True


def play(folder, steps, **options):
    clock = Time()
    reference = Reference(**options)
    settings_of = {
        "aggregate": options["aggregate"], "learn_on": options["learn_on"], "late": options["late"],
        "default_reward": options["default"], "wait": WAIT,
    }  # fmt: skip
    pieces, current = [[]], 0
    for step in steps:
        if step[0] == "restart":
            pieces.append([])
            current += 1
        else:
            pieces[current].append(step)
    for place, piece in enumerate(pieces):
        with running(folder, clock=clock.clock()) as learner:
            if place == 0:
                experiment(learner, **settings_of)
            live = learner.experiments["e"]
            for step in piece:
                _do(learner, live, clock, reference, step)
            settle(learner)
            expected = reference.learned()
            found = {
                int(entry.id[1:]): value
                for entry in learner.store.decisions("e")
                for value in ([] if entry.learned is None else json.loads(entry.learned))
                if value is not None
            }
            assert found == pytest.approx(expected)
            assert live.info()["n_learned"] == len(expected)
            if expected:
                _, _, counts, sums = live.model.inner.posterior.support()
                assert counts.sum() == len(expected)
                assert sums.sum() == pytest.approx(sum(expected.values()))
            assert live.model.n_skipped == 0
            check(learner)


def _do(learner, live, clock, reference, step):
    kind, *given_values = step
    if kind == "decide":
        number, defer = given_values
        same(learner, "e", number, lambda: decide(learner, f"d{number}", request(number, n=1, defer=defer)))
        reference.decide(number, defer)
    elif kind == "reward":
        number, value, name, final = given_values
        took = same(learner, "e", number, lambda: reward(learner, f"d{number}", value, f"r{name}", final=final))
        assert took == reference.reward(number, value, name, final)
    elif kind == "activate":
        same(
            learner,
            "e",
            0,
            lambda: learner.call(lambda: live.activate(f"d{given_values[0]}", learner.clock.now())).result(PATIENCE),
        )
        reference.activate(given_values[0])
    elif kind == "cancel":
        same(
            learner,
            "e",
            0,
            lambda: learner.call(lambda: live.cancel(f"d{given_values[0]}", learner.clock.now())).result(PATIENCE),
        )
        reference.cancel(given_values[0])
    else:
        settle(learner)
        clock.pass_(given_values[0])
        reference.wait(given_values[0])
        eventually(lambda: (live.next_close or math.inf) > learner.clock.now())
        settle(learner)


@settings(max_examples=25, suppress_health_check=list(HealthCheck), derandomize=True)
@given(
    steps=STEPS,
    aggregate=st.sampled_from(sorted(AGGREGATES)),
    learn_on=st.sampled_from(["reward", "close"]),
    late=st.sampled_from(["ignore", "amend"]),
    default=st.sampled_from([None, 0.0, 0.5]),
)
def test_any_sequence_is_learned_as_the_reference_says(steps, **options):
    with tempfile.TemporaryDirectory() as folder:
        play(Path(folder), steps, **options)


@pytest.mark.long
@settings(max_examples=1_000, suppress_health_check=list(HealthCheck))
@given(
    steps=STEPS,
    aggregate=st.sampled_from(sorted(AGGREGATES)),
    learn_on=st.sampled_from(["reward", "close"]),
    late=st.sampled_from(["ignore", "amend"]),
    default=st.sampled_from([None, 0.0, 0.5]),
)
def test_a_thousand_sequences_are_learned_as_the_reference_says(steps, **options):
    with tempfile.TemporaryDirectory() as folder:
        play(Path(folder), steps, **options)


def test_another_rule_would_be_noticed(tmp_path):
    """Negative control: the service ignores late rewards, and the reference amends."""
    steps = [("decide", 0, False), ("wait", 70.0), ("reward", 0, 1.0, 0, False)]
    options = {"aggregate": "latest", "learn_on": "reward", "default": 0.0}
    (tmp_path / "right").mkdir()
    play(tmp_path / "right", steps, late="ignore", **options)

    class Amending(Reference):
        def __init__(self, **given):
            super().__init__(**{**given, "late": "amend"})

    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(globals(), "Reference", Amending)
        with pytest.raises(AssertionError):
            play(tmp_path, steps, late="ignore", **options)
