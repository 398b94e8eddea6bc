"""Messages that come twice, late or out of order: corrections, ids and random draws."""

import json
import os
import pickle
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose

import kernelbandits as kb
from kernelbandits.errors import (
    AlreadyLearnt,
    DecisionError,
    IllConditioned,
    InvalidParameter,
    InvalidReward,
    NotLearnt,
    NotSupported,
)
from kernelbandits.kernels import Gaussian, Linear
from kernelbandits.policies.decisions import MOST_FORMER, digest_of_choice
from kernelbandits.posterior import posterior_factory
from kernelbandits.types import Decision
from reliability.policies import CASES, ROWS, gaussian, rows

# -- amend and unlearn -------------------------------------------------------------------------------------------------


def test_an_amendment_that_is_delivered_three_times_counts_once():
    policy = gaussian(reward_range=(0.0, 1.0))
    decision = policy.choose(ROWS)
    policy.learn(decision, 0.2)

    for _ in range(3):
        policy.amend(decision, was=0.2, now=0.7)

    expected = gaussian()
    expected.warm_start([decision.context], [0.7])
    assert_allclose(policy.posterior.predict(ROWS).mean, expected.posterior.predict(ROWS).mean)


def test_what_the_caller_believes_was_learned_does_not_matter():
    policy = gaussian()
    decision = policy.choose(ROWS)
    policy.learn(decision, 0.2)

    policy.amend(decision, was=55.0, now=0.7)
    policy.unlearn(decision, reward=-3.0)

    assert_allclose(policy.posterior.predict(ROWS).mean, 0.0, atol=1e-15)
    policy.learn(decision, 0.4)
    with pytest.raises(AlreadyLearnt, match="amend"):
        policy.learn(decision, 0.4)


def test_older_decisions_than_are_remembered_need_the_reward():
    policy = kb.LinUCB()
    policy.remember = 3
    decisions = [policy.choose(rows(t)) for t in range(12)]
    for decision in decisions:
        policy.learn(decision, 0.5)

    policy.amend(decisions[9], now=0.6)
    with pytest.raises(NotLearnt, match="last 3 decisions"):
        policy.amend(decisions[1], now=0.6)
    with pytest.raises(AlreadyLearnt):
        policy.learn(decisions[1], 0.5)
    policy.amend(decisions[1], was=0.5, now=0.6)
    policy.unlearn(decisions[0], reward=0.5)

    expected = kb.LinUCB()
    learned = [decision.context for decision in decisions[1:]]
    expected.warm_start(learned, [0.6, *[0.5] * 7, 0.6, 0.5, 0.5])
    assert_allclose(policy.posterior.predict(ROWS).mean, expected.posterior.predict(ROWS).mean, atol=1e-12)


def test_remembered_rewards_survive_files_and_copies(tmp_path):
    policy = gaussian(posterior_factory("windowed", length=3))
    decisions = [policy.choose(ROWS[[0, 1]]) for _ in range(4)]
    for decision, reward in zip(decisions, (0.1, 0.2, 0.3, 0.4), strict=True):
        policy.learn(decision, reward)
    policy.save(tmp_path / "policy.kb")

    for other in (policy, kb.load(tmp_path / "policy.kb"), policy.copy(), pickle.loads(pickle.dumps(policy))):
        other.amend(decisions[1], now=0.9)
        with pytest.raises(NotLearnt):
            other.amend(decisions[0], now=0.9)
        assert_allclose(other.posterior.predict(ROWS[[0]]).mean, (0.9 + 0.3 + 0.4) / 3.3)


@pytest.mark.parametrize("form", ["windowed", "forgetting"])
def test_a_correction_reaches_the_decision_that_it_names(form):
    """All contexts are one, and so are some rewards."""
    options = {"length": 5} if form == "windowed" else {"rate": 0.5}
    rng = np.random.default_rng(4)
    policy = gaussian(posterior_factory(form, **options))
    entries, decisions = [], []
    for _ in range(40):
        what = rng.integers(3) if len(entries) > 6 else 0
        place = int(rng.integers(len(entries))) if entries else 0
        if what == 0:
            decisions.append(policy.choose(ROWS[:1]))
            entries.append(float(rng.integers(3)))
            policy.learn(decisions[-1], entries[-1])
        elif what == 1:
            changed = attempt(partial(policy.amend, decisions[place], now=9.0))
            assert changed is (form == "forgetting" or place >= len(entries) - 5)
            entries[place] = 9.0 if changed else entries[place]
        else:
            place = len(entries) - 1
            assert attempt(partial(policy.unlearn, decisions[place]))
            del entries[place], decisions[place]
            if form == "windowed":  # what has left does not come back
                del entries[:-4], decisions[:-4]

    weights = 0.5 ** np.arange(len(entries) - 1, -1, -1.0) if form == "forgetting" else np.ones(len(entries))
    if form == "windowed":
        entries, weights = entries[-5:], weights[-5:]
    mean = weights @ entries / (weights.sum() + 0.3)
    assert_allclose(policy.posterior.predict(ROWS[:1]).mean, mean, rtol=1e-6)


def attempt(act):
    """Whether a correction found its observation."""
    try:
        act()
    except NotLearnt:
        return False
    return True


@pytest.mark.parametrize("correction", ["unlearn", "amend"])
@pytest.mark.parametrize(
    "name", ["KernelUCB exact", "KernelUCB catalog", "KernelUCB linear", "LinUCB", "LinUCB hybrid"]
)
@pytest.mark.parametrize("mistake", [1.7e18, -1e18, 3e9])
def test_a_reward_learned_by_mistake_at_a_repeated_context_leaves_no_trace(name, correction, mistake):
    case = CASES[name]
    policy, expected = case.make(), case.make()
    contexts = case.contexts(0)
    wrong = policy.choose(contexts)
    policy.learn(wrong, mistake)
    for t, reward in enumerate([0.4995, 0.25, 0.4995]):
        decision = kb.Decision.from_dict({**wrong.to_dict(), "id": str(t)})
        for each in (policy, expected):
            each.learn(decision, reward)
        policy.choose(contexts)

    if correction == "unlearn":
        policy.unlearn(wrong)
    else:
        policy.amend(wrong, now=0.125)
        expected.learn(wrong, 0.125)

    for each in (policy, expected):
        each.learn(kb.Decision.from_dict({**wrong.to_dict(), "id": "last"}), 0.5)
    decision, right = policy.choose(contexts, id="x"), expected.choose(contexts, id="x")
    assert_allclose([decision.mean, decision.width], [right.mean, right.width], rtol=0, atol=1e-12)


def test_without_the_second_double_the_trace_stays(monkeypatch):
    """The negative control."""
    monkeypatch.setattr(
        "kernelbandits.posterior.observations.two_sum", lambda total, _, change: (total + change, 0 * total)
    )

    with pytest.raises(AssertionError):
        test_a_reward_learned_by_mistake_at_a_repeated_context_leaves_no_trace("KernelUCB exact", "unlearn", 1.7e18)


def test_a_reward_too_large_to_be_taken_back_exactly_is_warned_about():
    policy = gaussian()
    decision = policy.choose(ROWS)
    policy.learn(decision, 1e25)

    with pytest.warns(IllConditioned, match=r"1e\+25"):
        policy.unlearn(decision)


# -- ids and draws -----------------------------------------------------------------------------------------------------

DRAWING = [
    "KernelThompson",
    "KernelSquareCB",
    "Mixed",
    "Softmax",
    "EXP4",
    "EXP4P",
    "UniformRandom",
    "KLUCB",
    "PACBayes",
]


@pytest.mark.parametrize("name", DRAWING)
def test_the_same_id_gets_the_same_answer_and_leaves_the_stream_alone(name):
    case = CASES[name]
    policy, plain = case.make(), case.make()
    contexts = case.contexts(0)

    answers = [policy.choose(contexts, id=f"user {n % 20}") for n in range(60)]

    for n in range(20):
        same = answers[n::20]
        assert {(one.action, one.propensity) for one in same} == {(same[0].action, same[0].propensity)}
    stream = [each.choose(contexts).action for each in (policy, plain) for _ in range(10)]
    assert stream[:10] == stream[10:]
    other = case.make()
    other.reseed(99)
    assert [other.choose(contexts, id=f"user {n}").action for n in range(20)] != [
        one.action for one in answers[:20]
    ] or (len({one.action for one in answers}) == 1)


def test_draws_by_id_follow_the_probabilities():
    policy = kb.Mixed(gaussian(), epsilon=0.5, seed=7)
    n_draws = 4_000

    counts = Counter(policy.choose(ROWS[:4], id=str(n)).action for n in range(n_draws))

    expected = policy.probabilities(ROWS[:4])
    observed = np.array([counts[action] for action in range(4)]) / n_draws
    assert_allclose(observed, expected, atol=4.5 * np.sqrt(0.25 / n_draws))


def test_a_rejected_call_does_not_move_the_random_state():
    policies = [kb.Mixed(kb.KernelUCB(Linear(), seed=1), epsilon=0.6, seed=5) for _ in range(2)]
    for each in policies:
        each.learn(each.choose(ROWS[:3]), 0.5)
    for rejected in (
        lambda policy: policy.choose(ROWS[:3, :1]),
        lambda policy: policy.choose(ROWS[:3], id=""),
        lambda policy: policy.choose(ROWS[:3], k=9),
        lambda policy: policy.choose_many([ROWS[:3], ROWS[:3, :1]]),
        lambda policy: policy.play([ROWS[:3], ROWS[:3, :1]], [[0.0] * 3] * 2),
    ):
        with pytest.raises(kb.errors.KernelBanditError):
            rejected(policies[0])

    first, second = ([each.choose(rows(t)).action for t in range(30)] for each in policies)
    assert first == second


def test_workers_that_open_one_file_with_seeds_of_their_own_draw_differently(tmp_path):
    policy = kb.UniformRandom(seed=3)
    policy.save(tmp_path / "policy.kb")

    same, again = ([kb.load(tmp_path / "policy.kb").choose(ROWS).action for _ in range(1)] for _ in range(2))
    drawn = {seed: actions_of(kb.load(tmp_path / "policy.kb", seed=seed)) for seed in (1, 2)}

    assert same == again
    assert drawn[1] != drawn[2]
    assert drawn[1] == actions_of(kb.load(tmp_path / "policy.kb", seed=1))


def actions_of(policy, n_rounds=20):
    return [policy.choose(ROWS).action for _ in range(n_rounds)]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_forked_workers_draw_differently_from_their_parent_and_each_other():
    policy = kb.Mixed(kb.UniformRandom(seed=1), epsilon=0.5, seed=2)
    answers = []
    for _ in range(2):
        read, write = os.pipe()
        child = os.fork()
        if not child:
            os.write(write, bytes(actions_of(policy)))
            os._exit(0)
        os.waitpid(child, 0)
        answers.append(list(os.read(read, 100)))
        os.close(read)
        os.close(write)

    answers.append(actions_of(policy))
    assert len({tuple(actions) for actions in answers}) == 3
    again = kb.Mixed(kb.UniformRandom(seed=1), epsilon=0.5, seed=2)
    assert answers[2] == actions_of(again), "the parent keeps its seeded stream"


# -- decisions that no policy made -------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::kernelbandits.errors.GuaranteeVoid")
@pytest.mark.parametrize("name", CASES)
def test_an_impossible_decision_is_rejected_and_the_policy_goes_on(name):
    case = CASES[name]
    policy = case.make()
    case.learn(policy, 6)
    values = policy.choose(case.contexts(7)).to_dict()
    before = [policy.probabilities(case.contexts(t)) for t in range(3)]
    memo = {key: np.full(np.shape(array), 1e9).tolist() for key, array in values["memo"].items()}
    changes = [
        {"propensity": 5e-324}, {"propensity": float("nan")}, {"propensity": 2.0}, {"action": -1}, {"n_actions": -1},
        {"stage": -1}, {"stage": 10**6}, {"memo": {key: [] for key in memo}}, {"memo": memo},
        {"memo": {key: np.full(np.shape(array), float("nan")).tolist() for key, array in memo.items()}},
    ]  # fmt: skip

    for change in changes:
        try:
            policy.learn(kb.Decision.from_dict({**values, **change, "id": str(change)}), 0.5)
        except (DecisionError, NotSupported, InvalidReward):
            pass
        else:  # a field that this policy does not use
            policy = case.make()
            case.learn(policy, 6)
        for t in range(3):
            assert_allclose(policy.probabilities(case.contexts(t)), before[t], atol=1e-9)
    case.learn(policy, 3)


# -- pending -----------------------------------------------------------------------------------------------------------


def test_pending_repeats_are_counts():
    policy = gaussian()
    policy.warm_start(ROWS, np.linspace(0.0, 1.0, 12))
    places = [0, 3, 3, 5, 0, 3]
    for n, place in enumerate(places):
        policy.expect(policy.choose(ROWS[[place]], id=str(n)))
    queries = ROWS + 0.05

    scored = [policy.choose(queries[[row]], id=f"query {row}").width for row in range(len(queries))]

    assert_allclose(scored, policy.posterior.predict(queries, pending=ROWS[places]).width, rtol=1e-8)
    policy.withdraw(policy.pending["1"])
    policy.learn(policy.pending["0"], 0.5)
    left = policy.choose(queries[[0]], id="again").width
    assert_allclose(left, policy.posterior.predict(queries[[0]], pending=ROWS[[3, 5, 0, 3]]).width, rtol=1e-8)


def test_many_pending_decisions_over_few_points_cost_what_the_points_cost(monkeypatch):
    policy = kb.KernelUCB(Gaussian(length_scale=0.3), regularization=0.1)
    policy.warm_start(ROWS, np.zeros(12))
    sizes, cholesky = [], kb.posterior.pending.cholesky
    monkeypatch.setattr(kb.posterior.pending, "cholesky", lambda matrix: sizes.append(len(matrix)) or cholesky(matrix))
    template = policy.choose(ROWS).to_dict()
    distinct = {tuple(row) for row in ROWS}

    for n in range(3_000):
        row = ROWS[n % 12]
        policy.expect(kb.Decision.from_dict({**template, "context": {"row": row.tolist()}, "id": str(n)}))
    policy.choose(ROWS)

    assert len(policy.pending) == 3_000
    assert max(sizes) == len(distinct)
    assert len(sizes) == 1


# -- copies and nested calls -------------------------------------------------------------------------------------------


def parts_of(policy):
    """The policy, what it wraps, and their posteriors."""
    inner = getattr(policy, "policy", None)
    own = [
        policy,
        *([policy.posterior] if isinstance(getattr(policy, "posterior", None), kb.posterior.Posterior) else []),
    ]
    return own + (parts_of(inner) if inner is not None else [])


@pytest.mark.filterwarnings("ignore::kernelbandits.errors.GuaranteeVoid")
@pytest.mark.parametrize("name", [name for name in CASES if name != "KernelUCB function"])
def test_a_pickled_policy_is_one_model_as_before(name):
    case = CASES[name]
    policy = case.make()
    case.learn(policy, 4)
    policy.expect(policy.choose(case.contexts(5)))

    thawed = pickle.loads(pickle.dumps(policy))

    assert len({id(part._journal) for part in parts_of(thawed)}) == 1
    assert len({id(part._ledger) for part in parts_of(thawed) if hasattr(part, "_ledger")}) == 1
    for each in (policy, thawed):
        each.learn(next(iter(each.pending.values())), 0.5)
    assert thawed.round_index == policy.round_index
    first, second = (each.choose(case.contexts(1), id="x") for each in (policy, thawed))
    assert first.action == second.action


def test_a_method_of_your_own_that_calls_others_is_one_transaction():
    class Careful(kb.LinUCB):
        def expect_and_choose(self, decision, contexts):
            self.expect(decision)
            return self.choose(contexts)

        def learn_and_fail(self, decision, reward):
            self.learn(decision, reward)
            raise RuntimeError

    policy = Careful()
    first = policy.choose(ROWS)

    second = policy.expect_and_choose(first, ROWS)
    assert list(policy.pending) == [first.id]
    with pytest.raises(RuntimeError):
        policy.learn_and_fail(second, 0.5)

    assert policy.posterior.n_observations == 0
    assert policy.round_index == 2
    policy.learn(second, 0.5)


def test_decisions_from_before_an_assignment_stay_the_policys_own(tmp_path):
    policy = gaussian()
    early, late = policy.choose(ROWS), policy.choose(ROWS)
    policy.expect(early)

    policy.exploration = 2.0
    policy.save(tmp_path / "policy.kb")
    opened = kb.load(tmp_path / "policy.kb")

    for each in (policy, opened):
        assert each.fingerprint != early.policy
        each.learn(early, 0.5)
        each.learn(late, 0.5)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_policy_that_is_sent_to_a_forked_worker_keeps_its_seed():
    packed = pickle.dumps(kb.UniformRandom(seed=7))
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.write(write, bytes(actions_of(pickle.loads(packed))))
        os._exit(0)
    os.waitpid(child, 0)

    assert list(os.read(read, 100)) == actions_of(pickle.loads(packed))
    os.close(read)
    os.close(write)


def test_a_posterior_of_two_policies_is_rejected():
    shared = kb.posterior.ExactPosterior(Gaussian(length_scale=1.0), regularization=1.0)
    kb.KernelUCB(shared.kernel, posterior=lambda *_: shared)

    with pytest.raises(kb.errors.InvalidParameter, match="belongs to one policy"):
        kb.KernelUCB(shared.kernel, posterior=lambda *_: shared)


def test_a_rejected_choice_by_id_leaves_the_policy_usable():
    policy = kb.Mixed(gaussian(), epsilon=0.1, seed=0)
    policy.learn(policy.choose(ROWS), 1.0)

    with pytest.raises(kb.errors.InvalidContexts):
        policy.choose(np.ones((4, 3)), id="request")

    assert policy.choose(ROWS, id="request").id == "request"


def test_ids_of_the_caller_are_remembered_for_a_while_only():
    policy = kb.UCB1()
    policy.remember = 100

    for n in range(1_000):
        policy.learn(policy.choose(ROWS[:2], id=f"request {n}"), 0.5)

    ledger = policy._ledger
    assert 100 <= len(ledger.recent) + len(ledger.older) <= 200
    assert not ledger.learned._pages
    with pytest.raises(AlreadyLearnt):
        policy.choose(ROWS[:2], id="request 950")


# -- one id, two decisions -------------------------------------------------------------------------------------------

NEAR, FAR = np.array([[0.0, 0.0]]), np.array([[3.0, 3.0]])


def two_of_one_id(make):
    """A repeated request with other contexts: the first of the two decisions is learned."""
    policy = make()
    first, second = policy.choose(NEAR, id="request 7"), policy.choose(FAR, id="request 7")
    policy.learn(policy.choose(FAR), 0.2)
    policy.learn(first, 0.9)
    return policy, first, second


@pytest.mark.parametrize("posterior", ["exact", "auto", posterior_factory("windowed", length=9)])
def test_a_correction_does_not_reach_another_decision_of_the_same_id(posterior):
    policy, first, second = two_of_one_id(lambda: gaussian(posterior))
    means = policy.posterior.predict(np.vstack([NEAR, FAR])).mean

    with pytest.raises(NotLearnt, match="Another decision was learned under the id 'request 7'"):
        policy.unlearn(second)
    with pytest.raises(NotLearnt, match="another context or action"):
        policy.amend(second, now=0.1)

    np.testing.assert_array_equal(policy.posterior.predict(np.vstack([NEAR, FAR])).mean, means)
    policy.unlearn(first)


def test_a_correction_of_a_policy_by_ids_does_not_reach_another_action():
    policy, contexts = kb.UCB1(), np.zeros((3, 1))
    decision = policy.choose(contexts, id="a")
    other = replace(decision, action=1, item=1)
    policy.learn(decision, 0.9)

    with pytest.raises(NotLearnt, match="another context or action"):
        policy.unlearn(other)


def test_a_pending_decision_is_not_learned_by_another_one_of_its_id():
    policy = gaussian()
    first, second = policy.choose(NEAR, id="request 7"), policy.choose(FAR, id="request 7")
    policy.expect(first)

    for call in (lambda: policy.learn(second, 0.5), lambda: policy.withdraw(second)):
        with pytest.raises(kb.errors.DecisionError, match="Another decision is pending under the id"):
            call()
    policy.learn(first, 0.5)

    assert not policy.pending


@pytest.mark.parametrize("name", CASES)
def test_a_decision_of_a_callers_id_is_corrected_after_a_trip_through_files(name, tmp_path):
    """What distinguishes decisions of one id is the same in another process."""
    case = CASES[name]
    policy = case.make()
    decision = policy.choose(case.contexts(0), id="mine")
    try:
        text = json.dumps(decision.to_dict())
        policy.save(tmp_path / "policy.kb")
    except kb.errors.KernelBanditError:
        pytest.skip("decisions or policies of this kind cannot be written")
    policy.learn(decision, 0.5)
    policy.save(tmp_path / "policy.kb")
    again = Decision.from_dict(json.loads(text))
    try:
        policy.amend(again, now=0.75)
    except NotSupported:
        return

    assert policy._ledger.remembered("mine")[0] == 0.75


DIGEST = """
from kernelbandits.policies.decisions import digest_of_choice
print(digest_of_choice(3, "x", None, (b"ab", frozenset({"u", "v", "w"}), 1.5)))
"""


@pytest.mark.parametrize("hash_seed", ["1", "2"])
def test_what_distinguishes_decisions_is_the_same_in_every_process(hash_seed):
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    found = subprocess.run([sys.executable, "-c", DIGEST], env=environment, capture_output=True, text=True, check=True)

    first = digest_of_choice(np.int64(3), "x", None, (b"ab", frozenset({"w", "v", "u"}), 1.5))

    assert int(found.stdout) == first
    assert first != digest_of_choice(3, "x", None, (b"ab", frozenset({"u", "v"}), 1.5))
    assert first != digest_of_choice(2, "x", None, (b"ab", frozenset({"u", "v", "w"}), 1.5))


# -- what is remembered, in files ------------------------------------------------------------------------------------


def test_a_policy_that_remembers_nothing_can_be_saved(tmp_path):
    policy = gaussian()
    policy.remember = 0
    decisions = CASES["KernelUCB rows"].learn(policy, 3)

    policy.save(tmp_path / "policy.kb")
    loaded = kb.load(tmp_path / "policy.kb")

    with pytest.raises(AlreadyLearnt):
        loaded.learn(decisions[0], 0.5)
    with pytest.raises(NotLearnt, match="Say which reward was learned"):
        loaded.amend(decisions[0], now=0.5)


def test_a_policy_can_be_saved_after_a_reward_was_taken_back_without_an_id(tmp_path):
    policy = gaussian()
    (decision,) = CASES["KernelUCB rows"].learn(policy, 1)
    policy.unlearn(replace(decision, id=""), reward=0.0)

    policy.save(tmp_path / "policy.kb")

    assert kb.load(tmp_path / "policy.kb").round_index == policy.round_index


def test_more_than_a_file_can_hold_is_not_remembered():
    with pytest.raises(InvalidParameter, match="at most"):
        gaussian().remember = 10**18


# -- random numbers and parameters of wrappers -----------------------------------------------------------------------


@pytest.mark.parametrize("by_id", [False, True])
@pytest.mark.parametrize(
    "make",
    [
        lambda seed: kb.Mixed(kb.KernelSquareCB(Gaussian(length_scale=0.4), seed=seed), epsilon=0.5, seed=seed),
        lambda seed: kb.Mixed(kb.Mixed(gaussian(), epsilon=0.5, seed=seed), epsilon=0.5, seed=seed),
        lambda seed: kb.Mixed(kb.Softmax(kb.LinUCB(), temperature=0.5, seed=seed), epsilon=0.5, seed=seed),
    ],
    ids=["SquareCB", "Mixed", "Softmax"],
)
def test_a_wrapper_with_the_seed_of_the_policy_inside_has_the_probabilities_that_it_reports(make, by_id):
    policy, contexts, n_draws = make(5), ROWS[:4], 4_000
    probabilities = policy.probabilities(contexts)

    drawn = [policy.choose(contexts, id=str(i) if by_id else None).action for i in range(n_draws)]

    shares = np.bincount(drawn, minlength=4) / n_draws
    errors = np.sqrt(probabilities * (1.0 - probabilities) / n_draws)
    np.testing.assert_array_less(np.abs(shares - probabilities), 5.0 * errors + 1e-12)


def test_an_assigned_exploration_inside_leaves_decisions_of_a_wrapper_its_own(tmp_path):
    inner = gaussian()
    policy = kb.Mixed(inner, epsilon=0.3, seed=1)
    before = policy.choose(ROWS[:4])
    inner.exploration = 0.9
    after = policy.choose(ROWS[:4])
    policy.expect(after)

    policy.save(tmp_path / "policy.kb")
    loaded = kb.load(tmp_path / "policy.kb")

    assert before.policy != after.policy
    for each in (policy, loaded):
        each.learn(before, 0.5)
        each.learn(each.pending[after.id], 0.5)


def test_former_parameters_are_bounded():
    policy = gaussian()
    for round_index in range(2_500):
        policy.exploration = 1.0 + round_index
        policy.choose(ROWS[:2])

    assert len(policy._ledger.former) == MOST_FORMER
