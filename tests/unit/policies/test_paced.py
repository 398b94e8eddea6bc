"""Costs and allowances: the price, the cap, exact propensities, and costs that come late or change."""

from math import sqrt

import numpy as np
import pytest

import kernelbandits as kb
from kernelbandits import WithCosts
from kernelbandits.errors import (
    AllowanceSpent,
    DecisionError,
    ForeignDecision,
    GuaranteeVoid,
    InvalidContexts,
    InvalidParameter,
    NotLearnt,
    NotSupported,
)
from kernelbandits.kernels import Delta, Gaussian
from kernelbandits.policies import Event
from kernelbandits.posterior import posterior_factory

KERNEL = Gaussian(length_scale=0.6)
INSIDE = {
    "KernelUCB": lambda: kb.KernelUCB(KERNEL, regularization=0.3, exploration=0.4),
    "random ties": lambda: kb.KernelUCB(KERNEL, regularization=0.3, exploration=0.4, ties="random", seed=1),
    "LinUCB": lambda: kb.LinUCB(regularization=0.5, exploration=0.3),
    "Mixed": lambda: kb.Mixed(kb.KernelUCB(KERNEL, exploration=0.4), epsilon=0.3, seed=2),
    "Softmax": lambda: kb.Softmax(kb.KernelUCB(KERNEL, exploration=0.4), temperature=0.2, seed=3),
    "Guarded": lambda: kb.Guarded(kb.KernelUCB(KERNEL, exploration=0.1), baseline=0, absent="free"),
    "KernelThompson": lambda: kb.KernelThompson(KERNEL, regularization=0.3, propensity_draws=64, seed=4),
    "KernelSquareCB": lambda: kb.KernelSquareCB(KERNEL, seed=5),
    "UniformRandom": lambda: kb.UniformRandom(seed=6),
}
WITH_MODEL = [name for name in INSIDE if name != "UniformRandom"]


def rounds(seed, n_actions=5):
    """Rounds without end: actions with costs, one of them free, and the reward of each."""
    rng = np.random.default_rng(seed)
    while True:
        contexts = rng.uniform(size=(n_actions, 2))
        costs = rng.uniform(0.0, 2.0, size=n_actions)
        costs[rng.integers(n_actions)] = 0.0
        yield WithCosts(contexts, costs), contexts.sum(axis=1) / 2.0


def price_by_definition(policy, costs, limits, n_rounds, pending=()):
    """The formula of the docstring over lists: known costs, the most that each could be, and those that wait."""
    rate, horizon = policy.allowance / policy.horizon, policy.horizon
    costs, limits = np.array(costs), np.array(limits)
    deviation = max(rate, sqrt(np.mean((costs - rate) ** 2))) if len(costs) else rate
    share = costs.sum() / limits.sum() if limits.sum() else 1.0
    spent = costs.sum() + share * np.sum(pending)
    z = policy.learning_factor / (4.0 * rate)
    over = spent - (1.0 - horizon**-0.5) * rate * n_rounds
    return max(0.0, policy.price + z * over / (deviation * sqrt(horizon)))


def run(policy, n_rounds, seed=0):
    """Learns this many rounds, and returns the decisions."""
    decisions = []
    for _, (round_, rewards) in zip(range(n_rounds), rounds(seed), strict=False):
        decisions.append(policy.choose(round_))
        policy.learn(decisions[-1], rewards[decisions[-1].action])
    return decisions


def paced(inside="KernelUCB", **options):
    return kb.Paced(INSIDE[inside](), **{"allowance": 8.0, "horizon": 60, **options})


# -- the price ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"learning_factor": 3.0, "price": 0.2}, {"allowance": 30.0}], ids=str)
def test_the_price_is_the_formula(options):
    policy, prices, costs = paced(**options), [], []

    for _, (round_, rewards) in zip(range(40), rounds(1), strict=False):
        prices.append((policy.current_price, price_by_definition(policy, costs, costs, len(costs))))
        decision = policy.choose(round_)
        costs.append(round_.costs[decision.action])
        policy.learn(decision, rewards[decision.action])

    np.testing.assert_allclose(*zip(*prices, strict=True), rtol=1e-9)
    assert policy.spent == pytest.approx(sum(costs))
    assert max(prices)[0] > min(prices)[0]  # it moves


def test_the_price_counts_what_waits_at_the_share_of_what_was_paid():
    policy = paced(observed_costs=True, allowance=40.0)
    decisions = run(policy, 10)
    for decision in decisions[:6]:
        policy.charge(decision, 0.5 * float(decision.memo["cost"]))
    limits = [float(decision.memo["cost"]) for decision in decisions]

    expected = price_by_definition(policy, [0.5 * limit for limit in limits[:6]], limits[:6], 10, limits[6:])

    assert policy.current_price == pytest.approx(expected, rel=1e-9)
    assert policy.reserved == pytest.approx(sum(limits[6:]))
    assert policy.left == pytest.approx(40.0 - sum(limits[:6]) / 2.0 - sum(limits[6:]))


def test_costs_in_any_order_give_the_same_price():
    first, second = (paced(observed_costs=True, allowance=60.0) for _ in range(2))
    decisions = run(first, 20)
    for decision in decisions:
        Event("learn", decision, 0.5).apply(second)
    costs = np.random.default_rng(0).uniform(size=20)

    for place in range(20):
        first.charge(decisions[place], costs[place])
    for place in reversed(range(20)):
        second.charge(decisions[place], 7.0)
        second.charge(decisions[place], costs[place])

    assert second.current_price == pytest.approx(first.current_price, rel=1e-9)
    assert second.spent == pytest.approx(first.spent, rel=1e-12)


def test_without_a_horizon_the_price_is_fixed():
    policy = paced(horizon=None, price=0.7)
    run(policy, 10)

    assert policy.current_price == 0.7


@pytest.mark.parametrize("name", ["KernelUCB", "LinUCB"])
def test_the_score_is_reduced_by_price_times_cost(name):
    policy = paced(name, horizon=None, allowance=None, price=0.3)
    run(policy, 12)
    (round_, _), plain = next(rounds(7)), policy.policy

    decision = policy.choose(round_)

    prediction = plain.posterior.predict(round_.contexts)
    scores = prediction.mean + plain.exploration.value * prediction.width - 0.3 * round_.costs
    assert decision.action == scores.argmax()
    assert decision.score == pytest.approx(scores.max(), rel=1e-9)
    assert scores.argmax() != (scores + 0.3 * round_.costs).argmax()  # the price decides here


# -- the cap -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("observed", [False, True])
@pytest.mark.parametrize("name", INSIDE)
def test_the_allowance_is_never_exceeded(name, observed):
    if observed and name == "UniformRandom":
        pytest.skip("it has no posterior")
    policy, rng = paced(name, horizon=None, observed_costs=observed), np.random.default_rng(3)
    paid, waiting = 0.0, []

    for _, (round_, rewards) in zip(range(60), rounds(2), strict=False):
        decision = policy.choose(round_)
        policy.expect(decision)
        waiting.append((decision, rewards[decision.action]))
        limit = round_.costs[decision.action]
        cost = limit * rng.uniform() if observed else limit
        paid += cost
        if observed:
            policy.charge(decision, cost)
        if rng.random() < 0.6:
            policy.learn(*waiting.pop(rng.integers(len(waiting))))
        assert paid <= 8.0 + 1e-9
        assert policy.spent + policy.reserved == pytest.approx(paid)

    assert paid > 6.0  # the cap was reached


def test_without_the_cap_it_would_be_exceeded():
    policy = paced(horizon=None, allowance=None)
    run(policy, 60)

    assert policy.spent > 16.0
    assert policy.left == np.inf


def test_pending_decisions_reserve_what_they_may_cost():
    policy = kb.Paced(kb.KernelUCB(Delta()), allowance=1.0, costs=0.4)
    first, second = policy.choose(["a"]), policy.choose(["a"])
    policy.expect(first)
    policy.expect(second)

    with pytest.raises(AllowanceSpent, match=r"0.2 of 1 is left, with 0.8 reserved, and the cheapest costs 0.4"):
        policy.choose(["a"])
    policy.withdraw(first)

    assert policy.choose(["a"]).item == 0
    assert policy.left == pytest.approx(0.6)


def test_what_was_charged_stays_charged_when_the_reward_never_comes():
    policy = kb.Paced(kb.KernelUCB(Delta()), allowance=1.0, costs=0.4)
    charged, other = policy.choose(["a"]), policy.choose(["a"])
    for decision in (charged, other):
        policy.expect(decision, expires=10.0)
    policy.charge(charged, 0.3)

    policy.expire(11.0)

    assert (policy.spent, policy.reserved) == (0.3, 0.0)
    policy.charge(other, 0.25)  # the bill of a decision that has expired
    assert policy.spent == pytest.approx(0.55)
    policy.learn(other, 1.0)  # a late reward
    assert policy.spent == pytest.approx(0.55)


def test_an_allowance_can_be_spent_to_the_last_unit():
    policy = kb.Paced(kb.KernelUCB(Delta()), allowance=1.0, costs=0.1)

    for _ in range(10):  # ten times 0.1 is not 1 in floating point
        policy.learn(policy.choose(["a"]), 0.5)

    assert policy.spent == pytest.approx(1.0)
    with pytest.raises(AllowanceSpent):
        policy.choose(["a"])


def test_an_action_that_costs_nothing_stays():
    policy = kb.Paced(kb.KernelUCB(Delta()), allowance=1.0, costs={"dear": 0.6, "free": 0})
    policy.charge(policy.choose(["dear"], ids=["dear"]), 5.0)  # more than it could cost

    decision = policy.choose(["dear", "free"], ids=["dear", "free"])

    assert (decision.item, decision.n_actions, decision.propensity) == ("free", 1, 1.0)
    assert policy.left == -4.0
    assert policy.probabilities(["dear", "free"], ids=["dear", "free"]).tolist() == [0.0, 1.0]


def test_the_next_allowance_is_added():
    policy = kb.Paced(kb.KernelUCB(Delta()), allowance=1.0, horizon=2, costs=1.0)
    policy.learn(policy.choose(["a"]), 0.5)
    with pytest.raises(AllowanceSpent):
        policy.choose(["a"])

    policy.set_params(allowance=policy.allowance + 3.0, horizon=8)

    assert policy.left == 3.0
    policy.learn(policy.choose(["a"]), 0.5)
    assert policy.spent == 2.0


def test_a_round_beyond_the_horizon_is_reported():
    policy = kb.Paced(kb.KernelUCB(Delta()), allowance=10.0, horizon=2, costs=0.1)
    for _ in range(2):
        policy.learn(policy.choose(["a"]), 0.5)

    with pytest.warns(GuaranteeVoid, match="beyond the horizon 2 that Paced"):
        policy.choose(["a"])


# -- propensities ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("observed", [False, True])
@pytest.mark.parametrize("name", INSIDE)
def test_propensities_are_the_probabilities(name, observed):
    if observed and name == "UniformRandom":
        pytest.skip("it has no posterior")
    policy, least = paced(name, observed_costs=observed), 1.0

    for _, (round_, rewards) in zip(range(50), rounds(4), strict=False):
        probabilities = policy.probabilities(round_)
        decision = policy.choose(round_)
        assert probabilities.sum() == pytest.approx(1.0)
        assert decision.propensity == pytest.approx(probabilities[decision.action], rel=1e-12)
        assert not probabilities[round_.costs > policy.left + 1e-9].any()
        least = min(least, decision.propensity)
        policy.learn(decision, rewards[decision.action])
        if observed:
            policy.charge(decision, 0.7 * float(decision.memo["cost"]))

    assert policy.current_price > 0.0
    assert least < 1.0 or name in ("KernelUCB", "LinUCB", "Guarded", "random ties")


def test_a_softmax_is_one_of_the_reduced_scores():
    policy = paced("Softmax")
    run(policy, 30)
    round_, _ = next(rounds(8))
    inner = policy.policy.policy
    prediction = inner.posterior.predict(round_.contexts)

    scores = prediction.mean + 0.4 * prediction.width - policy.current_price * round_.costs
    weights = np.where(round_.costs <= policy.left, np.exp(scores / 0.2), 0.0)

    assert policy.current_price > 0.1
    np.testing.assert_allclose(policy.probabilities(round_), weights / weights.sum(), rtol=1e-9)


def test_random_actions_of_mixed_stay_within_the_allowance():
    policy = kb.Paced(kb.Mixed(kb.KernelUCB(KERNEL), epsilon=0.4, seed=0), allowance=1.0)
    round_ = WithCosts(np.eye(4)[:, :2], [0.5, 2.0, 0.1, 3.0])

    probabilities = policy.probabilities(round_)

    np.testing.assert_allclose(np.sort(probabilities), [0.0, 0.0, 0.2, 0.8])
    assert {policy.choose(round_).action for _ in range(50)} == {0, 2}


def test_thompson_draws_are_reduced():
    policy = kb.Paced(kb.KernelThompson(KERNEL, exploration=0.5, propensity_draws=4096, seed=0), price=0.5)
    contexts, costs = np.random.default_rng(0).uniform(size=(3, 2)), np.array([0.0, 0.6, 1.2])
    draws = policy.policy.draw(contexts, 200_000, seed=1) - 0.5 * costs

    expected = np.bincount(draws.argmax(axis=1), minlength=3) / 200_000

    np.testing.assert_allclose(policy.probabilities(WithCosts(contexts, costs)), expected, atol=0.03)
    assert expected[0] > 1.5 * expected[2]
    two = WithCosts(contexts[:2], costs[:2])
    exact = (draws[:, 0] > draws[:, 1]).mean()
    assert policy.probabilities(two)[0] == pytest.approx(exact, abs=0.005)


@pytest.mark.parametrize("name", INSIDE)
def test_many_rounds_of_the_same_actions_with_other_costs_are_chosen_like_each(name):
    together, alone = (paced(name, horizon=None, allowance=50.0, price=0.5) for _ in range(2))
    for policy in (together, alone):
        run(policy, 8)
    contexts, rng = np.random.default_rng(0).uniform(size=(5, 2)), np.random.default_rng(1)
    many = [WithCosts(contexts, rng.uniform(0.0, 2.0, size=5)) for _ in range(6)]

    stated = together.probabilities_many(many)
    decisions = together.choose_many(many)

    for round_, probabilities, decision in zip(many, stated, decisions, strict=True):
        np.testing.assert_allclose(probabilities, alone.probabilities(round_), rtol=1e-9)
        other = alone.choose(round_)
        assert (decision.action, decision.propensity) == (other.action, pytest.approx(other.propensity, rel=1e-12))
        assert float(decision.memo["cost"]) == round_.costs[decision.action]
    assert len({np.round(one, 6).tobytes() for one in stated}) > 1 or name == "UniformRandom"


# -- forms of rounds ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["KernelUCB", "LinUCB", "Mixed", "KernelThompson"])
def test_costs_follow_the_rows_of_masks_and_catalogs(name):
    rng = np.random.default_rng(5)
    items, costs = rng.uniform(size=(12, 2)), rng.uniform(0.0, 3.0, size=12)
    names = [f"item {row}" for row in range(12)]
    catalog = kb.Catalog(items, ids=names)
    policy = paced(name, horizon=None, allowance=2.0, price=0.3)
    mask = rng.random(12) < 0.7
    some = [row for row in range(12) if row % 3]

    for _ in range(4):
        given = policy.probabilities(WithCosts(items, costs), ids=names, eligible=mask)
        stored = policy.probabilities(WithCosts(catalog, costs), eligible=mask)
        np.testing.assert_allclose(stored, given, rtol=1e-9)
        assert not given[~mask | (costs > policy.left)].any()
        view = catalog.only([names[row] for row in some])
        shown = policy.probabilities(WithCosts(view, costs[some]))
        part = policy.probabilities(WithCosts(items, costs), eligible=np.arange(12) % 3 > 0)
        np.testing.assert_allclose(shown, part, rtol=1e-9)
        decision = policy.choose(WithCosts(catalog, costs), eligible=mask)
        assert float(decision.memo["cost"]) == costs[decision.action]
        policy.learn(decision, 0.5)


def test_costs_by_id_are_those_of_the_round():
    by_id, given = (
        kb.Paced(kb.KernelUCB(KERNEL), price=0.4, costs=costs) for costs in ({"a": 1, "b": 0.5, "c": 0}, None)
    )
    contexts, names = np.random.default_rng(0).uniform(size=(3, 2)), ["b", "c", "a"]

    first, second = by_id.choose(contexts, ids=names), given.choose(WithCosts(contexts, [0.5, 0.0, 1.0]), ids=names)

    assert (first.item, first.score) == (second.item, second.score)
    assert by_id.get_params()["costs"] == (("a", 1.0), ("b", 0.5), ("c", 0.0))
    with pytest.raises(InvalidContexts, match="no cost of 'd'"):
        by_id.choose(contexts[:1], ids=["d"])
    with pytest.raises(InvalidContexts, match="costs of this round are missing"):
        given.choose(contexts)


@pytest.mark.parametrize(
    ("costs", "match"),
    [
        ([1.0], r"per action \(3\), got 1"),
        ([0.1, 0.2, -0.5], "from 0 to .*from -0.5"),
        ([0.1, np.nan, 0.2], "NaN or infinite"),
        ([[0.1, 0.2, 0.3]], "shape"),
        (["a", "b", "c"], "real numbers"),
        (None, "costs of this round are missing"),
    ],
)
def test_costs_that_no_round_has_are_rejected(costs, match):
    with pytest.raises(InvalidContexts, match=match):
        paced().choose(WithCosts(np.zeros((3, 2)), costs))


# -- costs that come late, change or go --------------------------------------------------------------------------------


def test_charging_is_idempotent_and_the_last_cost_counts():
    policy, other = paced(allowance=50.0), paced(allowance=50.0)
    decisions = run(policy, 8)
    for decision in run(other, 8):
        other.charge(decision, 0.25)

    for decision in decisions:
        for cost in (3.0, 0.25, 0.25):
            policy.charge(decision, cost)

    assert policy.spent == pytest.approx(2.0) == other.spent
    assert policy.current_price == pytest.approx(other.current_price)


def test_a_cost_may_come_before_the_reward():
    policy = paced()
    decision = policy.choose(WithCosts(np.zeros((1, 2)), [1.5]))
    policy.charge(decision, 1.0)

    policy.learn(decision, 0.5)

    assert (policy.spent, policy.reserved) == (1.0, 0.0)


@pytest.mark.parametrize("observed", [False, True])
def test_unlearning_leaves_nothing_of_the_cost(observed):
    policy, untouched = (paced(observed_costs=observed, allowance=50.0) for _ in range(2))
    for one in (policy, untouched):
        for decision in run(one, 6):
            one.charge(decision, 0.3)
    more = run(policy, 5, seed=9)
    for decision in more[:3]:
        policy.charge(decision, 0.8)

    for decision in more:
        policy.unlearn(decision)

    assert policy.spent == pytest.approx(untouched.spent)
    assert policy.reserved == 0.0
    assert policy.current_price == pytest.approx(untouched.current_price)
    round_, _ = next(rounds(11))
    np.testing.assert_allclose(policy.choose(round_).score, untouched.choose(round_).score, rtol=1e-9)
    policy.learn(more[0], 0.5)  # it may be learned again
    assert policy.spent + policy.reserved == pytest.approx(untouched.spent + float(more[0].memo["cost"]))


def test_amending_a_reward_costs_nothing():
    policy = paced()
    decision = run(policy, 5)[-1]
    spent = policy.spent

    policy.amend(decision, now=0.9)

    assert policy.spent == spent


def test_forgotten_costs_have_to_be_said():
    policy = paced(allowance=50.0)
    policy.remember = 2
    decisions = run(policy, 9)
    spent, cost = policy.spent, float(decisions[0].memo["cost"])

    with pytest.raises(NotLearnt, match=r"is not remembered.*was="):
        policy.charge(decisions[0], 0.1)
    with pytest.raises(NotLearnt, match=r"is not remembered.*was="):
        policy.unlearn(decisions[0], 0.5)
    policy.charge(decisions[0], cost + 1.0, was=cost)

    assert policy.spent == pytest.approx(spent + 1.0)


def test_what_is_not_learned_is_never_forgotten():
    policy = paced(allowance=50.0, observed_costs=True)
    policy.remember = 2
    first = policy.choose(WithCosts(np.zeros((1, 2)), [2.0]))
    policy.charge(first, 1.25)
    for decision in run(policy, 9):
        policy.charge(decision, 0.0)

    policy.learn(first, 0.5)

    assert policy.spent == 1.25
    assert policy.reserved == 0.0


@pytest.mark.parametrize("observed", [False, True])
def test_a_listener_that_raises_undoes_everything(observed):
    policy = paced(observed_costs=observed, allowance=50.0)
    decisions = run(policy, 6)
    policy.charge(decisions[0], 0.2)
    waiting = policy.choose(next(rounds(12))[0])
    policy.expect(waiting)
    before = state(policy)

    def refuse(_):
        raise RuntimeError("full")

    policy.subscribe(refuse)
    for change in (
        lambda: policy.charge(decisions[0], 0.9),
        lambda: policy.charge(decisions[1], 0.9),
        lambda: policy.charge(waiting, 0.9),
        lambda: policy.learn(waiting, 0.5),
        lambda: policy.learn_many([waiting], [0.5]),
        lambda: policy.unlearn(decisions[0]),
        lambda: policy.withdraw(waiting),
        lambda: policy.refit(regularization=2.0),
        lambda: policy.set_params(allowance=70.0),
    ):
        with pytest.raises(RuntimeError, match="full"):
            change()
        assert state(policy) == pytest.approx(before, rel=1e-12)


def state(policy):
    round_, _ = next(rounds(13))
    decision = policy.choose(round_)
    return policy.spent, policy.reserved, policy.left, policy.current_price, decision.score, policy.round_index


@pytest.mark.parametrize("observed", [False, True])
def test_events_repeat_the_costs(observed):
    policy, follower, events = paced(observed_costs=observed), paced(observed_costs=observed), []
    policy.subscribe(events.extend)
    decisions = run(policy, 12)
    for decision in decisions[:7]:
        policy.charge(decision, 0.15)
    policy.charge(decisions[2], 0.3)
    policy.expect(policy.choose(next(rounds(14))[0]))
    policy.unlearn(decisions[9])

    for event in events:
        event.apply(follower)

    assert state(follower) == pytest.approx(state(policy))
    assert [event.kind for event in events].count("charge") == 8
    with pytest.raises(InvalidParameter, match="charge"):
        next(event for event in events if event.kind == "charge").apply(kb.KernelUCB(KERNEL))


@pytest.mark.parametrize("observed", [False, True])
@pytest.mark.parametrize("name", WITH_MODEL)
def test_a_file_and_a_copy_continue_exactly(name, observed, tmp_path):
    policy = paced(name, observed_costs=observed, costs={"a": 1.0})
    decisions = run(policy, 15)
    policy.charge(decisions[3], 0.4)
    policy.expect(policy.choose(next(rounds(15))[0]))
    policy.save(tmp_path / "policy.kb")

    for other in (kb.load(tmp_path / "policy.kb"), policy.copy()):
        assert state(other)[:4] == state(policy)[:4]
        assert other.describe() == policy.describe()
        np.testing.assert_allclose(other.probabilities(next(rounds(16))[0]), policy.probabilities(next(rounds(16))[0]))
        other.charge(decisions[3], 1.4)
        assert other.spent == pytest.approx(policy.spent + 1.0)
    clone = policy.clone()
    assert (clone.spent, clone.get_params()["costs"]) == (0.0, (("a", 1.0),))


# -- a model of costs --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["KernelUCB", "LinUCB", "Softmax"])
def test_observed_costs_are_estimated_by_lower_confidence_bounds(name):
    policy = paced(name, observed_costs=True, horizon=None, allowance=None, price=0.5)
    shares, decisions = [], run(policy, 20)
    for decision in decisions:
        limit = float(decision.memo["cost"])
        shares.append(0.3 + 0.5 * decision.context[0])
        policy.charge(decision, limit * shares[-1])
    round_, _ = next(rounds(17))
    inner = policy.policy if name != "Softmax" else policy.policy.policy

    given = policy._actions(round_, None)

    kept = [place for place, decision in enumerate(decisions) if decision.memo["cost"] > 0.0]
    model = inner.clone()
    model.warm_start(np.array([decisions[place].context for place in kept]), np.array(shares)[kept])
    prediction = model.posterior.predict(round_.contexts)
    lower = prediction.mean - inner.exploration.value * prediction.width
    np.testing.assert_allclose(given.offset, -0.5 * round_.costs * np.clip(lower, 0.0, 1.0), rtol=1e-8)
    assert (lower > 0.1).any()


def test_a_refit_takes_the_model_of_costs_along():
    policy = paced(observed_costs=True, allowance=50.0)
    for decision in run(policy, 10):
        policy.charge(decision, 0.4)
    before = policy.spent

    policy.refit(regularization=2.0)

    assert policy.spent == before
    assert policy._cost_posterior.regularization == 2.0
    assert policy._cost_posterior.size > 5
    with pytest.raises(NotSupported, match="observed cannot change now"):
        policy.refit(observed_costs=False)
    policy.refit(learning_factor=2.0, costs=0.5)
    assert policy.spent == before


# -- what is refused ---------------------------------------------------------------------------------------------------


def test_policies_without_scores_are_rejected():
    with pytest.raises(NotSupported, match="SupKernelUCB has no scores"):
        kb.Paced(kb.SupKernelUCB(KERNEL), allowance=1.0)
    with pytest.raises(NotSupported, match="MiniBatchGPUCB has no scores"):
        kb.Paced(kb.MiniBatchGPUCB(KERNEL, noise_variance=0.5), allowance=1.0)
    with pytest.raises(InvalidParameter, match=r"Take Paced\(Mixed\(…\)\)"):
        kb.Mixed(paced(), epsilon=0.1)
    with pytest.raises(InvalidParameter, match="wraps a policy"):
        kb.Paced("KernelUCB", allowance=1.0)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"allowance": 0.0}, "The allowance must be"),
        ({"allowance": np.inf}, "The allowance must be"),
        ({"allowance": None, "horizon": 10}, "horizon=10 without one"),
        ({"horizon": 0}, "The horizon"),
        ({"price": -1.0}, "The price"),
        ({"costs": -1.0}, "The cost of an action"),
        ({"costs": {"a": "cheap"}}, "The cost of 'a'"),
        ({"costs": "cheap"}, "The cost of an action"),
        ({"costs": ["cheap"]}, "Costs are a number or a mapping"),
        ({"observed_costs": "yes"}, "`observed_costs` must be True or False"),
        ({"learning_factor": 0.0}, "The learning factor"),
    ],
    ids=str,
)
def test_parameters_out_of_their_range_are_rejected(options, match):
    with pytest.raises(InvalidParameter, match=match):
        paced(**options)


def test_observed_costs_need_a_posterior_that_remembers():
    forgetful = kb.KernelUCB(KERNEL, posterior=posterior_factory("windowed", length=5))
    for policy, match in (
        (forgetful, "none that remembers all"),
        (kb.UniformRandom(), "none that remembers all"),
        (kb.KernelUCB(KERNEL, posterior="logistic", reward_range=(0, 1)), "no binary rewards"),
    ):
        with pytest.raises(NotSupported, match=match):
            kb.Paced(policy, allowance=1.0, observed_costs=True)
    assert kb.Paced(forgetful, allowance=1.0, costs=0.5).choose(np.zeros((2, 2))).n_actions == 2


def test_what_cannot_be_charged_is_rejected():
    policy = paced()
    decision = policy.choose(next(rounds(0))[0])

    for cost in (-1.0, np.nan, np.inf, "1", None):
        with pytest.raises(InvalidParameter, match="The cost of a decision"):
            policy.charge(decision, cost)
    with pytest.raises(ForeignDecision):
        policy.charge(kb.KernelUCB(KERNEL).choose(np.zeros((2, 2))), 1.0)
    with pytest.raises(DecisionError, match="without an id"):
        policy.charge(kb.Decision(action=0, context=np.zeros(2), memo={"cost": 1.0}), 1.0)
    with pytest.raises(DecisionError, match="holds its cost"):
        policy.learn(kb.Decision(action=0, context=np.zeros(2), id="x"), 1.0)
    with pytest.raises(DecisionError, match="holds its cost"):
        policy.learn(kb.Decision(action=0, context=np.zeros(2), id="x", memo={"cost": [1.0, 2.0]}), 1.0)
    assert policy.spent == 0.0


def test_rounds_with_costs_are_not_played_and_not_history():
    policy, (round_, rewards) = paced(), next(rounds(0))

    with pytest.raises(NotSupported, match="not by play and warm_start"):
        policy.play([round_], [rewards])
    with pytest.raises(NotSupported, match="not by play and warm_start"):
        policy.warm_start(round_, rewards)
    for other in (kb.KernelUCB(KERNEL), kb.UniformRandom()):
        with pytest.raises(InvalidContexts, match=rf"for Paced, and {type(other).__name__} has no use for them"):
            other.choose(round_)
    with pytest.raises(NotSupported, match="Paced chooses one action at a time"):
        policy.choose(round_, k=2)


def test_playing_charges_every_round():
    played, looped = (
        kb.Paced(INSIDE["Mixed"](), allowance=9.0, horizon=30, costs={0: 0.0, 1: 0.5, 2: 1.0}) for _ in "ab"
    )
    rng = np.random.default_rng(0)
    contexts, rewards = rng.uniform(size=(20, 3, 2)), rng.uniform(size=(20, 3))

    plays = played.play(contexts, rewards)

    for t in range(20):
        decision = looped.choose(contexts[t])
        looped.learn(decision, rewards[t, decision.action])
        assert (plays.action[t], plays.propensity[t]) == (decision.action, pytest.approx(decision.propensity))
    assert played.spent == looped.spent
    assert 0.0 < played.spent <= 9.0
