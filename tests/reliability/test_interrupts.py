"""A call that is interrupted at any line leaves the policy as it was before the call, or as it is after it."""

import numpy as np
import pytest

import kernelbandits as kb
from interrupts import interrupted, n_lines
from kernelbandits._transactions import ForkedLock, Journal
from kernelbandits.errors import AlreadyLearnt, NotLearnt, NotSupported
from kernelbandits.kernels import FromCallable, Gaussian, Linear, Rows
from kernelbandits.posterior import (
    AutoPosterior,
    BatchedResampling,
    DevicePosterior,
    ExactPosterior,
    ForgettingPosterior,
    LogisticPosterior,
    LowRankPosterior,
    NystroemPosterior,
    PrimalPosterior,
    WindowedPosterior,
)
from reliability.policies import BOXES, CASES, ROWS, SEARCHING, Case, rows, similar

N_KNOWN = 7


def flat(value, name=""):
    """Numbers and strings of nested plain values and arrays, by their names."""
    if isinstance(value, dict):
        return {key: part for name_, inner in value.items() for key, part in flat(inner, f"{name}.{name_}").items()}
    if isinstance(value, list | tuple):
        return {key: part for place, inner in enumerate(value) for key, part in flat(inner, f"{name}.{place}").items()}
    return {name: value}


def are_same(first, second):
    """Whether two states are equal, up to the rounding of what was computed in another order."""
    one, other = flat(first), flat(second)
    return one.keys() == other.keys() and all(map(is_same, one.values(), other.values()))


def is_same(first, second):
    if isinstance(first, np.ndarray | float) and np.asarray(first).dtype.kind == "f":
        return np.shape(first) == np.shape(second) and np.allclose(first, second, rtol=1e-9, atol=1e-11, equal_nan=True)
    return np.array_equal(first, second)


def state_of(policy):
    inner = {} if not hasattr(policy, "policy") else state_of(policy.policy)
    return {"model": policy._state(), "ledger": policy._ledger.state(), "inside": inner}


class Calls:
    """Calls that change a policy, with what they need of it beforehand."""

    def __init__(self, case, *, has_pending=True):
        self.case, self.has_pending = case, has_pending

    def start(self):
        """A policy with known, pending and open decisions, and these."""
        policy = self.case.make()
        learned = self.case.learn(policy, N_KNOWN)
        pending = policy.choose(self.case.contexts(N_KNOWN))
        if self.has_pending:
            policy.expect(pending, expires=1.0)
        opened = [policy.choose(self.case.contexts(N_KNOWN + 1 + t)) for t in range(3)]
        return policy, learned, pending, opened

    def reward(self, decision):
        return self.case.reward(decision)

    def learn(self, policy, learned, pending, opened):
        policy.learn(opened[0], self.reward(opened[0]))

    def learn_pending(self, policy, learned, pending, opened):
        policy.learn(pending, self.reward(pending))

    def learn_many(self, policy, learned, pending, opened):
        policy.learn_many(opened, [self.reward(decision) for decision in opened])

    def amend(self, policy, learned, pending, opened):
        policy.amend(learned[2], now=0.9)

    def unlearn(self, policy, learned, pending, opened):
        policy.unlearn(learned[3])

    def expect(self, policy, learned, pending, opened):
        policy.expect(opened[1])

    def withdraw(self, policy, learned, pending, opened):
        policy.withdraw(pending)

    def expire(self, policy, learned, pending, opened):
        if not policy.expire(1.0):
            raise kb.errors.DecisionError("expired already")

    def warm_start(self, policy, learned, pending, opened):
        contexts = self.case.contexts(0)
        contexts = contexts.contexts if isinstance(contexts, kb.WithCosts) else contexts
        listed = ROWS[:4] if isinstance(contexts, kb.Catalog | kb.Box | kb.Product) else contexts
        n_points = len(listed.actions if isinstance(listed, kb.Pairs) else listed)
        policy.warm_start(listed, np.linspace(0.0, 1.0, n_points))

    def charge(self, policy, learned, pending, opened):
        if not isinstance(policy, kb.Paced):
            raise NotSupported("This policy has no costs.")
        policy.charge(learned[1], 0.25)

    def play(self, policy, learned, pending, opened):
        policy.play([self.case.contexts(t) for t in range(3)], np.linspace(0.0, 1.0, 15).reshape(3, 5))

    def choose(self, policy, learned, pending, opened):
        policy.choose(self.case.contexts(3))


ANY = {**CASES, **BOXES}
NAMES = (
    "learn", "learn_pending", "learn_many", "amend", "unlearn", "expect", "withdraw", "expire", "choose", "warm_start",
    "charge",
)  # fmt: skip
WITHOUT_IDS = ("play", "warm_start")
"""Calls whose rewards have no ids, so that nothing tells a repeated call from a new one."""


def check(case, name, *, first, step, most=None):
    """Interrupt at every `step`-th line from `first`; gives the number of interrupts, or None where not supported.

    Of a call with more lines, about `most` that lie as far apart as each other.
    """
    calls = Calls(case, has_pending=name != "play")  # which would keep loops of their own from being used
    act = getattr(calls, name)
    whole = calls.start()
    before = state_of(whole[0])
    try:
        length = n_lines(lambda: act(*whole))
    except (NotSupported, NotLearnt):
        return None
    step = step if most is None else max(step, length // most)
    after = state_of(whole[0])
    n_interrupts, last = 0, first
    while True:
        start = calls.start()
        policy, expected = start[0], state_of(start[0])
        if not interrupted(lambda start=start: act(*start), last):
            return n_interrupts
        n_interrupts += 1
        state = without_ids(state_of(policy))
        is_before = are_same(state, without_ids(expected))
        assert is_before or are_same(state, without_ids(after)), f"{name}, line {last}: neither before nor after"
        assert are_same(without_ids(before), without_ids(expected))
        policy.choose(case.contexts(1), id="in between")
        try:
            act(*start)
        except (AlreadyLearnt, NotLearnt, kb.errors.DecisionError):
            assert not is_before
        else:
            assert is_before or name in ("amend", "choose", "charge", *WITHOUT_IDS)
            if name in WITHOUT_IDS and not is_before:  # a retry learns other rewards
                last += step
                continue
        assert are_same(without_ids(state_of(policy)), without_ids(after)), f"{name}, line {last}: a retry is wrong"
        fresh_choices(policy, case)
        last += step


def without_ids(state):
    """Ids are random: only how many there are is compared."""
    kept = dict(state)
    ledger = dict(kept["ledger"])
    ledger["learned"] = int(np.unpackbits(ledger["learned"]["bits"]).sum())
    # Their order says only which is forgotten first, and may change when an interrupted `unlearn` is rolled back.
    ledger["rewards"] = {name: np.sort(ledger["rewards"][name]) for name in ("rewards", "numbers")}
    ledger["pending"] = [values["context"] for values in ledger["pending"]]
    kept["ledger"] = ledger
    costs = {name: np.sort(kept["model"][name]["costs"]) for name in ("open", "charged") if name in kept["model"]}
    kept["model"] = {**kept["model"], **costs}
    kept["inside"] = without_ids(kept["inside"]) if kept["inside"] else {}
    return kept


def restore_models(policy, state):
    """Restore the policy and those inside it, from the innermost one on."""
    if state["inside"]:
        restore_models(policy.policy, state["inside"])
    policy._restore(state["model"])


def fresh_choices(policy, case):
    """A policy that was interrupted chooses as one that is built from its state: derived state is right, too."""
    again, state = case.make(), state_of(policy)
    restore_models(again, state)
    again._ledger.restore(state["ledger"])
    again._random.resume(np.random.default_rng(0), policy._random.key)
    again._journal.commit()
    for t in range(2):
        decision, expected = (each.choose(case.contexts(t), id=f"{t} again") for each in (policy, again))
        assert decision.action == expected.action
        estimate, truth = ((each.mean, each.width) for each in (decision, expected))
        np.testing.assert_allclose(estimate, truth, rtol=1e-6, atol=1e-8)


@pytest.mark.filterwarnings("ignore::kernelbandits.errors.GuaranteeVoid")
@pytest.mark.parametrize("name", [*CASES, "LinUCB box"])
def test_an_interrupted_call_is_whole_or_not_at_all(name):
    for place, call in enumerate(NAMES):
        check(ANY[name], call, first=1 + place, step=29, most=4 if name in SEARCHING else None)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::kernelbandits.errors.GuaranteeVoid")
@pytest.mark.parametrize("call", NAMES)
@pytest.mark.parametrize("name", ANY)
def test_so_it_is_at_every_line(name, call):
    check(ANY[name], call, first=1, step=1, most=60 if name in SEARCHING else None)


@pytest.mark.filterwarnings("ignore::kernelbandits.errors.GuaranteeVoid")
@pytest.mark.parametrize(
    "name", ["KernelUCB rows", "KernelUCB function", "LinUCB", "LinUCB disjoint", "Mixed", "UCB1", "EXP4", "OFUL"]
)
def test_a_batch_of_rounds_is_whole_or_not_at_all(name):
    check(CASES[name], "play", first=5, step=53)


@pytest.mark.parametrize("name", ["KernelUCB exact", "LinUCB"])
def test_without_the_journal_calls_are_left_half_done(name, monkeypatch):
    """The negative control: an undo log that notes nothing."""

    class Forgetful(list):
        def append(self, note):
            """Keep nothing."""

    def begin(journal):
        ForkedLock.__init__(journal)
        journal.notes, journal.is_snapshot = Forgetful(), False

    monkeypatch.setattr(Journal, "__init__", begin)

    def check_all():
        for call in NAMES:
            check(CASES[name], call, first=1, step=1)

    with pytest.raises(AssertionError):
        check_all()


# -- posteriors by themselves ------------------------------------------------------------------------------------------

POSTERIORS = {
    "exact": lambda: ExactPosterior(Gaussian(length_scale=0.4), regularization=0.2),
    "device": lambda: DevicePosterior(
        Gaussian(length_scale=0.4), regularization=0.2, device="cpu", array_library="array_api_strict"
    ),
    "exact function": lambda: ExactPosterior(FromCallable(similar, kind=Rows()), regularization=0.2),
    "primal": lambda: PrimalPosterior(Linear(), regularization=0.2),
    "compressed": lambda: LowRankPosterior(Gaussian(length_scale=0.4), regularization=0.2),
    "auto": lambda: AutoPosterior(Linear(), regularization=0.2),
    "budget": lambda: AutoPosterior(Gaussian(length_scale=0.4), regularization=0.2, budget=2),
    "resampled": lambda: NystroemPosterior(
        Gaussian(length_scale=0.4), regularization=0.2, dictionary=BatchedResampling(), seed=1
    ),
    "logistic": lambda: LogisticPosterior(Gaussian(length_scale=0.4), regularization=0.2),
    "windowed": lambda: WindowedPosterior(Gaussian(length_scale=0.4), regularization=0.2, length=4),
    "forgetting": lambda: ForgettingPosterior(Gaussian(length_scale=0.4), regularization=0.2, rate=0.7),
}

CHANGES = {
    "observe": lambda posterior: posterior.observe(ROWS[[3, 7, 3]], [0.3, 0.7, 0.1]),
    "repeat": lambda posterior: posterior.observe(ROWS[[0]], [0.3]),
    "amend": lambda posterior: posterior.amend(ROWS[[2]], was=[0.2], now=[0.8]),
    "remove": lambda posterior: posterior.remove(ROWS[[2]], [0.2]),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", POSTERIORS)
def test_so_is_every_change_of_a_posterior(name, change):
    def make():
        posterior = POSTERIORS[name]()
        posterior.observe(ROWS[[0, 1, 0, 2]], [0.0, 0.1, 0.5, 0.2])
        posterior.predict(ROWS)
        return posterior

    whole = make()
    before = whole.predict(ROWS)
    CHANGES[change](whole)
    after, last = whole.predict(ROWS), 1
    while True:
        posterior = make()
        if not interrupted(lambda posterior=posterior: CHANGES[change](posterior), last):
            break
        found = posterior.predict(ROWS)
        is_before = all(
            np.allclose(one, other, rtol=0, atol=1e-11)
            for one, other in [(found.mean, before.mean), (found.width, before.width)]
        )
        expected = before if is_before else after
        np.testing.assert_allclose(found.mean, expected.mean, atol=1e-9)
        np.testing.assert_allclose(found.width, expected.width, atol=1e-9)
        if is_before:
            CHANGES[change](posterior)
            np.testing.assert_allclose(posterior.predict(ROWS).mean, after.mean, atol=1e-9)
        last += 1
    assert last > 20


# -- a kernel function that raises -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["learn", "learn_pending", "learn_many", "amend", "unlearn", "expect", "choose"])
def test_a_kernel_that_raises_changes_nothing(name):
    class Trouble(Exception):
        pass

    budget = [10**9]

    def troubled(first, second):
        budget[0] -= 1
        if budget[0] < 0:
            raise Trouble
        return similar(first, second)

    case = Case(lambda: kb.KernelUCB(troubled, regularization=0.2), lambda t: rows(t) + t / 50.0)
    calls = Calls(case)
    act, n_raised = getattr(calls, name), 0
    for allowed in range(40):
        start = calls.start()
        before = without_ids(state_of(start[0]))
        budget[0] = allowed
        try:
            act(*start)
        except Trouble:
            n_raised += 1
        else:
            break
        finally:
            budget[0] = 10**9
        assert are_same(without_ids(state_of(start[0])), before)
        act(*start)

    assert n_raised or name in ("amend", "unlearn")
