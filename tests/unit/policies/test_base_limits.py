"""One rule for every policy that is made for a number of rounds or of actions: `horizon` and `n_actions`."""

import warnings

import numpy as np
import pytest

import kernelbandits as kb
from golden.policies import CASES
from golden.worlds import World
from kernelbandits.errors import GuaranteeVoid, InvalidContexts

HORIZON = 40


def classes_with(name):
    return [
        made
        for exported in kb.policies.__all__
        if isinstance(made := getattr(kb.policies, exported), type)
        and issubclass(made, kb.Policy)
        and name in made._declared
    ]


def case_of(policy):
    """A world and a policy of this class with all its parameters, from the golden traces."""
    for world, make in CASES.values():
        made = make(World(world), 0)
        if type(made) is policy and world != "catalog":
            return World(world), made
    raise AssertionError(policy)


def with_horizon(policy):
    other = {"n_points": None} if isinstance(policy, kb.GridGP) else {}
    return policy.clone(horizon=HORIZON, **other)


def learn(policy, world, n_rounds):
    for t in range(n_rounds):
        contexts, features = world.round(t)
        decision = policy.choose(contexts)
        policy.learn(decision, float(world.rewards(t, features, 0)[decision.action]))


def test_the_policies_with_limits_are_known():
    """So that a parameter that is renamed does not leave its policy without a test."""
    assert {made.__name__ for made in classes_with("horizon")} == {
        "ContextualZooming", "EXP4", "EXP4P", "EpochGreedy", "GridGP", "KernelEpochGreedy", "Paced",
        "PhasedElimination", "SupKernelUCB", "SupLinRel", "SupLinUCB", "VE",
    }  # fmt: skip
    assert {made.__name__ for made in classes_with("n_actions")} == {
        "EpochGreedy", "ILOVETOCONBANDITS", "KernelEpochGreedy", "PACBayes", "PolicyElimination", "RandomizedUCB",
        "SupKernelUCB", "SupLinRel", "SupLinUCB",
    }  # fmt: skip


@pytest.mark.parametrize("made", classes_with("horizon"))
def test_a_round_beyond_the_horizon_is_reported_once(made):
    world, policy = case_of(made)
    policy = with_horizon(policy)
    contexts, _ = world.round(HORIZON)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        learn(policy, world, HORIZON)

    with pytest.warns(GuaranteeVoid, match=rf"Round 41 lies beyond the horizon 40 that {made.__name__} was made for"):
        decision = policy.choose(contexts)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        policy.learn(decision, 0.5)
        policy.choose(contexts)
        policy.probabilities(contexts)


@pytest.mark.parametrize("made", [made for made in classes_with("horizon") if made._declared["horizon"].is_optional])
def test_without_a_horizon_nothing_is_reported(made):
    world, policy = case_of(made)
    policy = policy.clone(horizon=None, **({"n_points": 5} if made is kb.GridGP else {}))

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        learn(policy, world, HORIZON + 2)


@pytest.mark.parametrize("made", classes_with("n_actions"))
def test_more_actions_than_declared_are_rejected(made):
    world, policy = case_of(made)
    n_actions = world.n_actions
    policy = policy.clone(n_actions=n_actions)
    contexts, _ = world.round(1)
    more = np.concatenate([contexts, contexts[:1] / 2.0])
    policy.choose(contexts)

    for ask in (policy.choose, policy.probabilities, lambda rows: policy.choose_many([rows])):
        with pytest.raises(
            InvalidContexts, match=rf"at most n_actions = {n_actions} actions, got {n_actions + 1}.*Give"
        ):
            ask(more)
    with pytest.raises(InvalidContexts, match="at most n_actions"):
        policy.play([more], [np.zeros(n_actions + 1)])

    assert policy.round_index == 1
    if made is not kb.PACBayes:  # which knows actions by their row
        eligible = np.arange(n_actions + 1) > 0
        assert policy.choose(more, eligible=eligible).n_actions == n_actions


def test_a_wrapped_policy_keeps_its_limits():
    world, inner = case_of(kb.SupKernelUCB)
    policy = kb.Mixed(inner.clone(horizon=2, n_actions=3, exploration=5.0), epsilon=0.5, seed=0)
    contexts = world.round(0)[0]

    with pytest.raises(InvalidContexts, match="SupKernelUCB was made for rounds of at most n_actions = 3 actions, got"):
        policy.choose(contexts)
    for _ in range(2):
        policy.learn(policy.choose(contexts[:3]), 0.5)
    with pytest.warns(GuaranteeVoid, match="Round 3 lies beyond the horizon 2 that SupKernelUCB"):
        policy.choose(contexts[:3])


def test_a_gap_weight_has_a_horizon_of_its_own():
    weight = kb.policies.GrowingGapWeight(scale=4.0, horizon=2)
    policy = kb.KernelSquareCB(kb.kernels.Linear(), gap_weight=weight, seed=0)
    for _ in range(2):
        policy.learn(policy.choose([[0.1], [0.2]]), 0.5)

    with pytest.warns(GuaranteeVoid, match="Round 3 lies beyond the horizon 2"):
        policy.choose([[0.1], [0.2]])


def test_policies_without_limits_take_any_round():
    """Negative control: the rule is not applied where nothing was declared."""
    policy = kb.KernelUCB(kb.kernels.Linear())

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for n_actions in (1, 5, 2):
            policy.learn(policy.choose(np.ones((n_actions, 2))), 0.5)


def test_the_remedy_for_a_round_beyond_the_horizon_can_be_followed():
    actions = np.linspace(0.0, 1.0, 5)[:, None]
    policy = kb.GridGP(kb.kernels.Linear(), actions, horizon=1, dimension=1)
    policy.learn(policy.choose(actions), 0.5)

    with pytest.warns(GuaranteeVoid, match=r"Take n_points=… in place of horizon=…, if the end is not known"):
        policy.choose(actions)
