"""What all policies of the expert family have in common."""

from inspect import signature

import numpy as np
import pytest

import kernelbandits as kb
from kernelbandits.kernels import Gaussian
from kernelbandits.policies.experts import linear_experts

EXPERTS = linear_experts(3, n_experts=5, seed=1)
FAMILY = {
    "EXP4": lambda: kb.EXP4(EXPERTS, horizon=90, seed=3),
    "EXP4P": lambda: kb.EXP4P(EXPERTS, horizon=90, seed=3),
    "VE": lambda: kb.VE(EXPERTS, horizon=90, vc_dimension=2, uniform_rounds=4, seed=3),
    "EpochGreedy": lambda: kb.EpochGreedy(EXPERTS, n_actions=4, uniform_factor=0.1, seed=3),
    "KernelEpochGreedy": lambda: kb.KernelEpochGreedy(Gaussian(length_scale=0.8), n_actions=4, seed=3),
    "PACBayes": lambda: kb.PACBayes(np.eye(3), n_actions=4, seed=3),
    "PolicyElimination": lambda: kb.PolicyElimination(EXPERTS, n_actions=4, seed=3),
    "RandomizedUCB": lambda: kb.RandomizedUCB(EXPERTS, n_actions=4, seed=3),
    "ILOVETOCONBANDITS": lambda: kb.ILOVETOCONBANDITS(EXPERTS, n_actions=4, seed=3),
}


@pytest.fixture(params=FAMILY, ids=str)
def make_policy(request):
    return FAMILY[request.param]


@pytest.mark.parametrize("n_learned", [0, 1, 6])
def test_decisions_made_together_note_down_what_those_made_alone_do(make_policy, n_learned):
    together, alone = make_policy(), make_policy()
    rounds = np.random.default_rng(4).normal(size=(n_learned + 3, 4, 3))
    for contexts in rounds[:n_learned]:
        for policy in (together, alone):
            policy.learn(policy.choose(contexts), 0.5)

    decisions = together.choose_many(rounds[n_learned:])

    for contexts, decision in zip(rounds[n_learned:], decisions, strict=True):
        other = alone.choose(contexts)
        assert (decision.action, decision.stage, decision.propensity) == (other.action, other.stage, other.propensity)
        assert decision.memo.keys() == other.memo.keys()
        for name, numbers in decision.memo.items():
            np.testing.assert_array_equal(numbers, other.memo[name])
    together.learn_many(decisions, [0.1, 0.2, 0.3])


def test_parameters_are_fixed_when_the_policy_is_made(make_policy):
    policy = make_policy()
    fingerprint = policy.fingerprint

    methods = {"refit"}  # the name of a method, too
    for name in signature(type(policy)).parameters.keys() - {"kernel", "posterior", "regularization", "seed"} - methods:
        with pytest.raises(AttributeError):
            setattr(policy, name, getattr(policy, name))

    assert policy.fingerprint == fingerprint == make_policy().fingerprint


def test_centers_are_the_policy_s_own():
    given = np.eye(3)
    policy = kb.PACBayes(given, n_actions=4)

    given[:] = 7.0
    with pytest.raises(ValueError, match="read-only"):
        policy.centers[:] = 7.0

    np.testing.assert_array_equal(policy.centers, np.eye(3))
