"""Pending decisions cost what their distinct points cost, however many there are."""

import sys
from collections import Counter
from dataclasses import replace

import pytest

import kernelbandits as kb
from interrupts import interrupted_everywhere
from kernelbandits.errors import NotSupported
from kernelbandits.kernels import Gaussian
from reliability.policies import CASES, FIXED, Case, always, rows

FEW, MANY = 20, 2000

WAITING = {
    **CASES,
    "KernelThompson features": Case(
        lambda: kb.KernelThompson(Gaussian(length_scale=0.4), draws="features", n_features=8, propensity_draws=8), rows
    ),
    "Mixed PEGE": Case(lambda: kb.Mixed(kb.PEGE(FIXED), epsilon=0.1, seed=1), always(FIXED)),
}


def n_calls(act):
    """Calls of functions, of Python and of C, while `act` runs."""
    count = 0

    def profile(_frame, event, _argument):
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        act()
    finally:
        sys.setprofile(before)
    return count


def with_pending(case, n_pending, n_points=3):
    """A policy with this many pending decisions over a few points, and the decisions."""
    policy = case.make()
    case.learn(policy, 3)
    made = [policy.choose(case.contexts(t)) for t in range(n_points)]
    pending = [replace(made[n % n_points], id=f"pending {n}") for n in range(n_pending)]
    for decision in pending:
        policy.expect(decision)
    policy.choose(case.contexts(0))  # counts that are derived are there from now on
    return policy, pending


@pytest.mark.filterwarnings("ignore::kernelbandits.errors.GuaranteeVoid")
@pytest.mark.parametrize("name", WAITING)
def test_many_pending_decisions_over_few_points_cost_what_few_cost(name):
    case = WAITING[name]

    def costs(n_pending):
        policy, pending = with_pending(case, n_pending)
        return {
            "choose": n_calls(lambda: policy.choose(case.contexts(0))),
            "learn": n_calls(lambda: policy.learn(pending[1], case.reward(pending[1]))),
            "choose again": n_calls(lambda: policy.choose(case.contexts(1))),
            "expect": n_calls(lambda: policy.expect(replace(pending[0], id="one more"))),
            "withdraw": n_calls(lambda: policy.withdraw(pending[2])),
        }

    try:
        few = costs(FEW)
    except NotSupported:
        pytest.skip("It cannot wait for rewards.")

    for call, count in costs(MANY).items():
        assert count <= 2 * few[call] + 20, call


COUNTED = ["PhasedElimination", "PEGE", "GridGP", "UncertaintyEllipsoid", "ConfidenceBall", "ContextualZooming", "UCB1"]

CHANGES = {
    "expect": lambda policy, pending: policy.expect(replace(pending[0], id="one more")),
    "withdraw": lambda policy, pending: policy.withdraw(pending[1]),
    "learn": lambda policy, pending: policy.learn(pending[1], 0.5),
    "learn_many": lambda policy, pending: policy.learn_many(pending[1:4], [0.5, 0.0, 1.0]),
}


@pytest.mark.filterwarnings("ignore::kernelbandits.errors.GuaranteeVoid")
@pytest.mark.parametrize("is_counted", [True, False])
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", COUNTED)
def test_an_interrupted_change_leaves_the_counts_of_what_is_pending(name, change, is_counted):
    def make():
        policy, pending = with_pending(CASES[name], 5)
        if not is_counted:  # as in a policy that was loaded
            policy._ledger._n_pending = None
        return policy, pending

    for policy, _ in interrupted_everywhere(make, lambda made: CHANGES[change](*made), step=5, within="policies"):
        policy.choose(CASES[name].contexts(0))

        expected = Counter(map(policy._pending_key, policy.pending.values()))
        assert policy._pending_counts() == expected


@pytest.mark.parametrize("name", COUNTED)
def test_counts_of_what_is_pending_survive_copies_and_files(name, tmp_path):
    policy, pending = with_pending(CASES[name], 5)
    policy.save(tmp_path / "policy.kb")
    again = CASES[name].contexts(0)

    for other in (policy.copy(), kb.load(tmp_path / "policy.kb")):
        other.withdraw(pending[0])
        other.choose(again)

        assert other._pending_counts() == Counter(map(other._pending_key, other.pending.values()))
    assert sum(policy._pending_counts().values()) == 5


def test_what_is_pending_does_not_change_with_the_memo_of_the_caller():
    policy, pending = with_pending(CASES["ContextualZooming"], 5)
    expected = dict(policy._pending_counts())

    pending[0].memo["ball"][0] = 77
    policy.withdraw(pending[0])

    assert sum(policy._pending_counts().values()) == sum(expected.values()) - 1
    assert policy._pending_counts().keys() <= expected.keys()
