from dataclasses import replace
from itertools import islice, pairwise
from math import log, pi, sqrt

import numpy as np
import pytest
from numpy.testing import assert_allclose

import kernelbandits as kb
from definitions import ridge
from kernelbandits.errors import (
    DecisionError,
    GuaranteeVoid,
    InvalidContexts,
    InvalidParameter,
    KernelBanditWarning,
    NotSupported,
)
from kernelbandits.kernels import Gaussian, Linear
from kernelbandits.policies import BaseKernelUCB

KERNEL = Gaussian(length_scale=0.5)


def world(seed):
    rng = np.random.default_rng(seed)
    while True:
        contexts = rng.uniform(size=(6, 2))
        yield contexts, np.clip(0.5 + 0.4 * np.sin(5 * contexts[:, 0]) + 0.05 * rng.normal(size=6), 0.0, 1.0)


def played(policy, n_rounds, seed=0):
    decisions = []
    for contexts, rewards in islice(world(seed), n_rounds):
        decision = policy.choose(contexts)
        policy.learn(decision, rewards[decision.action])
        decisions.append(decision)
    return decisions


@pytest.mark.parametrize("regularization", [0.1, 2.0])
def test_a_level_is_the_ridge_estimate_of_its_own_rounds(regularization):
    rng = np.random.default_rng(0)
    points, rewards, queries = rng.uniform(size=(9, 2)), rng.uniform(size=9), rng.uniform(size=(4, 2))
    level = BaseKernelUCB(KERNEL, regularization=regularization)

    for point, reward in zip(points, rewards, strict=True):
        level.observe(point[None], reward)

    mean, width = ridge(KERNEL, points, rewards, queries, regularization)
    assert_allclose(level.estimate(queries).mean, mean, rtol=1e-8)
    assert_allclose(level.estimate(queries).width, width, rtol=1e-8)
    assert level.stage_observations == 9


def test_the_valid_scale_is_noise_plus_bias():
    policy = kb.SupKernelUCB(
        KERNEL,
        regularization=0.7,
        horizon=1000,
        n_actions=6,
        norm_bound=3.0,
        exploration="theory",
        failure_probability=0.1,
    )

    eta = sqrt(2 * log(2 * 6 * 1000 * 5 / 0.1))  # S = ceil(½ log2 1000) = 5
    assert policy.scale_at(1) == policy.scale_at(900) == pytest.approx(0.5 * eta + sqrt(0.7) * 3.0)


def test_the_printed_scale_knows_neither_noise_nor_norm():
    policy = kb.SupKernelUCB(
        KERNEL,
        regularization=0.7,
        horizon=1000,
        n_actions=6,
        failure_probability=0.1,
        exploration="theory",
        mode="paper",
    )

    assert policy.scale_at(1) == pytest.approx(sqrt(2 * log(2 * 1000 * 6 / 0.1)))


@pytest.mark.parametrize(("horizon", "n_actions", "delta"), [(1000, 6, 0.1), (50, 3, 0.01), (7, 1, 0.3)])
def test_the_printed_scale_of_sup_lin_ucb_is_the_alpha_of_chu_et_al(horizon, n_actions, delta):
    """α = sqrt(½ ln(2TK/δ)) with C = I + Σ x xᵀ, so the bonus of a context is α sqrt(xᵀ C⁻¹ x)."""
    policy = kb.SupLinUCB(
        horizon=horizon, n_actions=n_actions, failure_probability=delta, mode="paper", exploration="theory"
    )
    alpha = sqrt(0.5 * log(2 * horizon * n_actions / delta))
    rows = np.random.default_rng(0).normal(size=(n_actions, 3)) / 3.0

    (step,) = [policy.walk(rows)[0]]

    assert policy.scale_at(1) == pytest.approx(alpha)
    assert_allclose(step.scaled_width, alpha * np.linalg.norm(rows, axis=1))  # C = I before the first reward


def test_the_anytime_scale_follows_the_round_and_the_most_actions_seen():
    policy = kb.SupKernelUCB(
        KERNEL, regularization=0.7, norm_bound=3.0, exploration="theory", failure_probability=0.1, noise_scale=0.2
    )

    eta = sqrt(2 * log(2 * 6 * 4 * pi**2 * 100**2 / (6 * 0.1)))  # S_100 = 4
    assert policy.scale_at(100, n_actions=6) == pytest.approx(0.2 * eta + sqrt(0.7) * 3.0)
    played(policy, 3)
    assert policy.scale_at(100, n_actions=2) == pytest.approx(0.2 * eta + sqrt(0.7) * 3.0)


def test_doubling_gives_each_epoch_its_horizon_and_its_share_of_the_failures():
    policy = kb.SupKernelUCB(
        KERNEL,
        regularization=0.7,
        norm_bound=3.0,
        exploration="theory",
        failure_probability=0.1,
        n_actions=6,
        unknown_horizon="doubling",
    )

    for round_index, epoch in [(1, 0), (2, 1), (3, 1), (4, 2), (7, 2), (8, 3), (1000, 9)]:
        stages = max(1, -(-epoch // 2))
        eta = sqrt(2 * log(2 * 6 * 2**epoch * stages * (epoch + 1) * (epoch + 2) / 0.1))
        assert policy.scale_at(round_index) == pytest.approx(0.5 * eta + sqrt(0.7) * 3.0)


def test_doubling_starts_each_epoch_with_empty_levels_and_drops_late_rewards():
    policy = kb.SupKernelUCB(KERNEL, exploration=1.0, regularization=0.5, unknown_horizon="doubling")
    rounds = world(1)
    late = None
    for number in range(1, 12):
        contexts, rewards = next(rounds)
        decision = policy.choose(contexts)
        if number == 3:
            late = decision
            policy.expect(decision)
            continue
        policy.learn(decision, rewards[decision.action])

    assert sum(level.stage_observations for level in policy.stages) == 4  # rounds 8 to 11
    before = [level.stage_observations for level in policy.stages]
    policy.learn(late, 0.5)
    assert [level.stage_observations for level in policy.stages] == before
    assert policy.round_index == 12


def test_thresholds_are_in_units_of_the_reward_range():
    """Rewards, noise, norm and range times ten: the same decisions."""
    small = kb.SupKernelUCB(KERNEL, horizon=200, n_actions=6, exploration=0.6, regularization=0.5)
    large = kb.SupKernelUCB(
        KERNEL, horizon=200, n_actions=6, exploration=6.0, regularization=0.5, reward_range=(0.0, 10.0)
    )

    for (contexts, rewards), _ in zip(world(2), range(200), strict=False):
        left, right = small.choose(contexts), large.choose(contexts)
        assert (left.action, left.stage) == (right.action, right.stage)
        small.learn(left, rewards[left.action])
        large.learn(right, 10.0 * rewards[right.action])

    assert len(small.stages) > 1


THRESHOLDS = {
    "horizon": ({"horizon": 300, "n_actions": 6, "exploration": 0.4}, 4.0, lambda t: 300),
    "paper": ({"horizon": 300, "n_actions": 6, "exploration": 0.1, "mode": "paper"}, 1.0, lambda t: 300),
    "anytime by hand": ({"exploration": 0.4}, 4.0, lambda t: t),
    "anytime": ({"norm_bound": 0.05, "noise_scale": 0.05, "exploration": "theory"}, 4.0, lambda t: t),
    "doubling": ({"exploration": 0.4, "unknown_horizon": "doubling"}, 4.0, lambda t: 2 ** (t.bit_length() - 1)),
}


@pytest.mark.parametrize("case", THRESHOLDS)
def test_a_level_exploits_below_one_over_the_root_of_the_horizon_and_narrows_below_its_own_width(case):
    """In units of the reward range, except in paper mode; without a horizon, of the rounds so far."""
    parameters, unit, horizon_at = THRESHOLDS[case]
    policy = kb.SupKernelUCB(KERNEL, regularization=0.5, reward_range=(-1.0, 3.0), **parameters)
    wrong = {"1/t for 1/sqrt(t)": 0, "without the range": 0, "with the range": 0}
    for t, (contexts, rewards) in enumerate(islice(world(5), 300), start=1):
        root = sqrt(horizon_at(t))
        for step in policy.walk(contexts):
            widest, coarse = step.scaled_width.max(), unit * 2.0**-step.stage
            below = "narrow" if widest <= coarse else "explore"
            assert step.outcome == ("exploit" if widest <= unit / root else below)
            is_exploit, is_narrow = step.outcome == "exploit", step.outcome == "narrow"
            wrong["1/t for 1/sqrt(t)"] += is_exploit != (widest <= unit / root**2)
            for name, other in (("without the range", 1.0), ("with the range", 4.0)):
                wrong[name] += is_exploit != (widest <= other / root)
                wrong[name] += is_narrow != (other / root < widest <= other * 2.0**-step.stage)
        decision = policy.choose(contexts)
        policy.learn(decision, rewards[decision.action])

    wrong.pop("without the range" if unit == 1.0 else "with the range")
    assert all(wrong.values()), wrong  # each of the wrong rules would have been noticed


def test_a_decision_is_learned_by_its_own_level_only():
    policy = kb.SupKernelUCB(KERNEL, horizon=300, n_actions=6, exploration=0.1, regularization=0.5)

    decisions = played(policy, 250)

    explored = [decision.stage for decision in decisions if decision.stage is not None]
    assert [level.stage_observations for level in policy.stages] == [
        explored.count(stage) for stage in range(1, len(policy.stages) + 1)
    ]
    assert len(policy.stages) >= 3
    assert any(decision.stage is None for decision in decisions)


def test_exploring_takes_the_widest_action_or_the_lowest_wide_one():
    contexts = np.array([[0.2], [1.0], [3.0]])
    widest = kb.SupKernelUCB(Linear(), horizon=100, n_actions=3, exploration=1.0)
    lowest = kb.SupKernelUCB(Linear(), horizon=100, n_actions=3, exploration=1.0, explore="lowest")

    assert widest.choose(contexts).action == 2
    assert lowest.choose(contexts).action == 1  # 0.2 is within 2^-1 already


def test_pending_decisions_are_kept_and_shrink_no_level():
    policy = kb.SupKernelUCB(KERNEL, horizon=100, n_actions=6, exploration=0.5)
    played(policy, 20)
    contexts, _ = next(world(9))
    before = policy.walk(contexts)
    decision = policy.choose(contexts)

    policy.expect(decision)

    after = policy.walk(contexts)
    assert policy.round_index == 22
    assert [step.outcome for step in before] == [step.outcome for step in after]
    assert_allclose(before[0].scaled_width, after[0].scaled_width)


def test_the_walk_shows_levels_active_sets_and_outcomes():
    policy = kb.SupKernelUCB(KERNEL, horizon=300, n_actions=6, exploration=0.3, regularization=0.5)
    played(policy, 200)

    for (contexts, _), _ in zip(world(5), range(20), strict=False):
        steps, decision = policy.walk(contexts), policy.choose(contexts)
        assert [step.stage for step in steps] == list(range(1, len(steps) + 1))
        assert all(step.outcome == "narrow" for step in steps[:-1])
        assert steps[-1].outcome in ("explore", "exploit")
        assert decision.action in steps[-1].active
        for wider, narrower in pairwise(steps):
            assert set(narrower.active) <= set(wider.active)
        assert decision.stage == (steps[-1].stage if steps[-1].outcome == "explore" else None)


@pytest.mark.parametrize(
    "parameters",
    [
        {"horizon": 300, "n_actions": 6, "exploration": 0.3},
        {"horizon": 300, "n_actions": 6, "exploration": 0.05, "explore": "lowest"},
        {"exploration": 0.05},
        {"norm_bound": 1.0, "unknown_horizon": "doubling", "exploration": "theory"},
    ],
    ids=str,
)
def test_an_explanation_comes_from_the_level_that_decided(parameters):
    policy = kb.SupKernelUCB(KERNEL, regularization=0.5, **parameters)
    for contexts, rewards in islice(world(7), 150):
        decision = policy.choose(contexts)

        explanation = policy.explain(decision, most=500)

        assert explanation.mean == pytest.approx(decision.mean, abs=1e-9)
        assert explanation.width == pytest.approx(decision.width)
        assert sum(part.effect for part in explanation.contributions) == pytest.approx(explanation.mean, abs=1e-9)
        policy.learn(decision, rewards[decision.action])


def test_a_decision_without_its_memo_is_explained_by_its_stage():
    policy = kb.SupKernelUCB(KERNEL, regularization=0.5, horizon=300, n_actions=6, exploration=0.1)
    decisions = played(policy, 200)
    means = set()
    for stage in (None, 3, 4):
        decision = next(one for one in decisions if one.stage == stage)
        explained = policy.explain(replace(decision, memo={})).mean

        level = policy.stages[(stage or 1) - 1]
        assert explained == pytest.approx(level.estimate(decision.context[None]).mean[0], abs=1e-9)
        means.add(explained)
    assert len(means) == 3


def test_more_rounds_than_the_horizon_are_reported_once():
    policy = kb.SupKernelUCB(KERNEL, horizon=3, n_actions=6, norm_bound=1.0, exploration="theory")
    played(policy, 3)
    contexts, _ = next(world(0))

    with pytest.warns(GuaranteeVoid, match="Round 4 lies beyond the horizon 3"):
        policy.choose(contexts)

    policy.choose(contexts)


def test_more_actions_than_declared_are_rejected():
    policy = kb.SupKernelUCB(KERNEL, horizon=10, n_actions=5, norm_bound=1.0, exploration="theory")

    with pytest.raises(InvalidContexts, match="at most n_actions = 5 actions, got 6"):
        policy.choose(np.zeros((6, 2)))


def test_slates_and_warm_starts_have_no_meaning_here():
    policy = kb.SupKernelUCB(KERNEL, horizon=10, n_actions=5, norm_bound=1.0, exploration="theory")

    with pytest.raises(NotSupported, match="one action at a time"):
        policy.choose(np.zeros((5, 2)), k=2)
    with pytest.raises(NotSupported, match="other policies' decisions"):
        policy.warm_start(np.zeros((1, 2)), [0.5])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"horizon": 10, "n_actions": 5, "exploration": "theory"}, "norm_bound"),
        ({"horizon": 10, "norm_bound": 1.0}, "belong to the exploration of the theorem"),
        ({"horizon": 10, "mode": "paper"}, "Give exploration='theory' too"),
        ({"mode": "paper"}, "needs a known horizon"),
        ({"horizon": 10, "norm_bound": 1.0, "exploration": "theory"}, "n_actions"),
        ({"horizon": 0, "n_actions": 5, "norm_bound": 1.0}, "horizon"),
        ({"horizon": 10, "n_actions": 0, "norm_bound": 1.0}, "number of actions"),
        ({"norm_bound": -1.0}, "norm"),
        ({"norm_bound": 1.0, "failure_probability": 1.0}, "strictly between 0 and 1"),
        ({"norm_bound": 1.0, "noise_scale": -0.5}, "noise"),
        ({"norm_bound": 1.0, "reward_range": None}, "reward range must be declared"),
        ({"norm_bound": 1.0, "mode": "fast"}, "'valid' or 'paper'"),
        ({"norm_bound": 1.0, "unknown_horizon": "guess"}, "'anytime' or 'doubling'"),
        ({"norm_bound": 1.0, "explore": "best"}, "'widest' or 'lowest'"),
        ({"exploration": 0.0}, "exploration must be a finite number above zero"),
        ({"norm_bound": 1.0, "regularization": 0.0}, "regularization must be positive"),
    ],
)
def test_bad_parameters_are_rejected(arguments, message):
    with pytest.raises(InvalidParameter, match=message):
        kb.SupKernelUCB(KERNEL, **arguments)


@pytest.mark.parametrize("name", ["epoch", "level"])
@pytest.mark.parametrize("noted", [2**60, 65, -1])
def test_epochs_and_levels_that_no_run_reaches_are_rejected(name, noted):
    """Epoch m has 2^m rounds: one of 2^60 would take for ever to compute."""
    policy = kb.SupKernelUCB(KERNEL, exploration=1.0, unknown_horizon="doubling")
    decision = policy.choose(np.eye(2))
    forged = replace(decision, memo={**decision.memo, name: np.array([noted])})

    for call in (lambda: policy.learn(forged, 0.5), lambda: policy.expect(forged)):
        with pytest.raises(DecisionError, match=rf"whole number from 0 to 64 as memo\['{name}'\]"):
            call()
    policy.learn(decision, 0.5)


@pytest.mark.parametrize("horizon", [100, 2_000])
@pytest.mark.parametrize("regularization", [0.25, 4.0])
@pytest.mark.parametrize("span", [1.0, 30.0])
def test_an_exploration_with_which_nothing_is_learned_is_rejected_with_the_smallest_that_works(
    horizon, regularization, span
):
    """Before the first reward, every width is sqrt(1/γ): exploration · width must be above span / sqrt(T)."""
    options = {"horizon": horizon, "regularization": regularization, "reward_range": (0.0, span)}
    least = span * sqrt(regularization / horizon)

    with pytest.raises(InvalidParameter, match=rf"must be above {least:.4g}"):
        kb.SupKernelUCB(KERNEL, exploration=least, **options)

    assert kb.SupKernelUCB(KERNEL, exploration=1.001 * least, **options).choose(np.eye(2)).stage is not None
    assert kb.SupKernelUCB(KERNEL, **options).choose(np.eye(2)).stage is not None  # the default


@pytest.mark.parametrize("make", [kb.SupLinUCB, lambda **options: kb.SupKernelUCB(Linear(), **options)])
def test_contexts_too_short_to_learn_anything_are_reported_once(make):
    policy = make(horizon=100, exploration=0.1)

    with pytest.warns(KernelBanditWarning, match=r"Nothing was learned.*must be above 0\.2"):
        assert policy.choose([[0.5, 0.0], [0.0, 0.5]]).stage is None

    policy.choose([[0.5, 0.0], [0.0, 0.5]])
    assert make(horizon=100, exploration=0.201).choose([[0.5, 0.0], [0.0, 0.5]]).stage is not None


@pytest.mark.parametrize("unknown_horizon", ["anytime", "doubling"])
@pytest.mark.parametrize("make", [kb.SupLinUCB, lambda **options: kb.SupKernelUCB(KERNEL, **options)])
def test_a_long_beginning_without_learning_is_reported_once_if_the_horizon_is_unknown(make, unknown_horizon):
    """With γ = 4 the widths are 1/2, so nothing is learned while exploration / 2 is at most 1 / sqrt(t)."""
    options = {"regularization": 4.0, "unknown_horizon": unknown_horizon}
    policy = make(exploration=0.02, **options)

    with pytest.warns(KernelBanditWarning, match=r"Nothing is learned before round 1e\+04: "):
        assert policy.choose(np.eye(2)).stage is None

    policy.choose(np.eye(2))  # warnings are errors here
    assert make(exploration=0.064, **options).choose(np.eye(2)).stage is None  # for 977 rounds
    assert make(**options).choose(np.eye(2)).stage is None  # the default, for 100
