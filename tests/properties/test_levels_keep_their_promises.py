"""Oracle 18: SupKernelUCB's invariants, in every mode, and Lemmas 4 to 7 on its runs."""

import numpy as np
import pytest

import kernelbandits as kb
from kernelbandits.kernels import Gaussian
from kernelbandits.theory import effective_dimension, lemma_4, lemma_5, lemma_6, lemma_7, n_stages
from reference import SlowSupKernelUCB

KERNEL, GAMMA, HORIZON, N_ACTIONS = Gaussian(length_scale=0.6), 0.5, 500, 5
MODES = [
    {
        "horizon": HORIZON,
        "n_actions": N_ACTIONS,
        "norm_bound": 1.0,
        "exploration": "theory",
        "failure_probability": 0.1,
    },
    {"horizon": HORIZON, "n_actions": N_ACTIONS, "mode": "paper", "exploration": "theory"},
    {"horizon": HORIZON, "n_actions": N_ACTIONS, "exploration": 0.4},
    {"horizon": HORIZON, "n_actions": N_ACTIONS, "exploration": 0.08},
    {"exploration": 0.2},
    {"norm_bound": 1.0, "exploration": "theory"},
    {"exploration": 0.2, "unknown_horizon": "doubling"},
]
CENTERS, WEIGHTS = np.array([[0.2, 0.3], [0.8, 0.6], [0.4, 0.9]]), np.array([0.4, 0.35, 0.2])


def truth(contexts):
    return KERNEL.gram(contexts, CENTERS) @ WEIGHTS


def run(parameters, *, replace_stage=None, seed=0):
    """Walks, decisions and truths of a run; rewards of one level may be replaced by coin flips."""
    rng, coins = np.random.default_rng(seed), np.random.default_rng(seed + 1)
    policy = kb.SupKernelUCB(KERNEL, regularization=GAMMA, **parameters)
    walks, decisions, truths, contexts_played = [], [], [], []
    for _ in range(HORIZON):
        contexts, noise = rng.uniform(size=(N_ACTIONS, 2)), rng.uniform(size=N_ACTIONS)
        walks.append(policy.walk(contexts))
        decision = policy.choose(contexts)
        value = truth(contexts)
        reward = float(noise[decision.action] < value[decision.action])
        coin = float(coins.integers(2))
        policy.learn(decision, coin if decision.stage == replace_stage and replace_stage is not None else reward)
        decisions.append(decision)
        truths.append(value)
        contexts_played.append(contexts[decision.action])
    return policy, walks, decisions, truths, np.array(contexts_played)


@pytest.mark.parametrize("parameters", MODES, ids=str)
def test_levels_active_sets_and_explored_rounds(parameters):
    policy, walks, decisions, _, _ = run(parameters)

    restarts = parameters.get("unknown_horizon") == "doubling"
    for round_index, (walk, decision) in enumerate(zip(walks, decisions, strict=True), start=1):
        horizon = parameters.get("horizon") or (2 ** (round_index.bit_length() - 1) if restarts else round_index)
        assert len(walk) <= n_stages(horizon)
        assert all(len(step.active) for step in walk)
        last = walk[-1]
        if decision.stage is None:
            assert last.outcome == "exploit"
        else:
            assert decision.stage == last.stage
            place = np.flatnonzero(last.active == decision.action)[0]
            assert last.scaled_width[place] > 2.0**-last.stage
            assert last.scaled_width[place] == pytest.approx(last.scaled_width.max())
    learned = sum(decision.stage is not None for decision in decisions[255 if restarts else 0 :])
    assert sum(level.stage_observations for level in policy.stages) == learned


def test_it_is_the_slow_literal_algorithm():
    for scale in (0.08, 0.4, 2.0):
        policy = kb.SupKernelUCB(KERNEL, regularization=GAMMA, horizon=HORIZON, n_actions=N_ACTIONS, exploration=scale)
        slow = SlowSupKernelUCB(KERNEL.gram, GAMMA, horizon=HORIZON, scale=scale, n_stages=n_stages(HORIZON))
        rng = np.random.default_rng(4)
        for _ in range(150):
            contexts = rng.uniform(size=(N_ACTIONS, 2))
            decision = policy.choose(contexts)
            assert (decision.action, decision.stage) == slow.choose(contexts)
            reward = float(rng.uniform())
            policy.learn(decision, reward)
            slow.learn(contexts[decision.action], decision.stage, reward)


@pytest.mark.parametrize(
    ("parameters", "stage"), [(MODES[2], 1), (MODES[2], 2), (MODES[2], 3), (MODES[3], 4), (MODES[3], 5)]
)
def test_membership_does_not_depend_on_the_rewards_of_its_own_level(parameters, stage):
    _, original, decisions, _, _ = run(parameters)
    _, replaced, _, _, _ = run(parameters, replace_stage=stage)

    assert sum(decision.stage == stage for decision in decisions) >= 3
    assert lemma_6(original, replaced, stage=stage).holds


def test_the_lemma_notices_when_lower_levels_change():
    """Negative control: level 3's membership does depend on the rewards of level 2."""
    _, original, _, _, _ = run(MODES[2])
    _, replaced, _, _, _ = run(MODES[2], replace_stage=2)

    assert not lemma_6(original, replaced, stage=3).holds


@pytest.mark.parametrize("parameters", MODES[:4], ids=str)
def test_levels_and_their_widths_stay_small(parameters):
    policy, _, decisions, _, played = run(parameters)

    dimension = effective_dimension(KERNEL.gram(played), regularization=GAMMA, horizon=HORIZON)
    problem = {"effective_dimension": dimension, "regularization": GAMMA, "horizon": HORIZON}
    scale = policy.scale_at(1)
    for stage, level in enumerate(policy.stages, start=1):
        widths = [decision.width for decision in decisions if decision.stage == stage]
        assert len(widths) == level.stage_observations
        assert lemma_4(np.array(widths), **problem).holds
        assert lemma_5(level.stage_observations, stage, scale=scale, **problem).holds


def test_the_best_action_stays_active_with_the_valid_scale():
    norm = float(np.sqrt(WEIGHTS @ KERNEL.gram(CENTERS) @ WEIGHTS))
    parameters = {
        "horizon": HORIZON,
        "n_actions": N_ACTIONS,
        "norm_bound": norm,
        "exploration": "theory",
        "failure_probability": 0.1,
    }
    policy, walks, _, truths, _ = run(parameters)

    for walk, value in zip(walks, truths, strict=True):
        assert all(check.holds for check in lemma_7(walk, value, scale=policy.scale_at(1)))
