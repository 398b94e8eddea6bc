import numpy as np
import pytest

import kernelbandits as kb
from kernelbandits.errors import InvalidParameter


def test_engines_can_be_left_out():
    rng = np.random.default_rng(4)
    policies = [
        kb.KernelUCB(kb.kernels.Gaussian(length_scale=0.4), regularization=0.3, exploration=0.5, engine=engine)
        for engine in ("auto", "exhaustive")
    ]
    for _ in range(40):
        contexts = rng.uniform(size=(30, 3))
        decisions = [policy.choose(contexts) for policy in policies]
        assert decisions[0].action == decisions[1].action
        for policy, decision in zip(policies, decisions, strict=True):
            policy.learn(decision, float(decision.context[0]))

    assert [decision.cost.engine for decision in decisions] == ["screened", "exhaustive"]
    assert policies[0].fingerprint == policies[1].fingerprint
    with pytest.raises(InvalidParameter, match="exhaustive"):
        kb.KernelUCB(kb.kernels.Linear(), engine="fast")


def test_engines_left_out_are_left_out_of_playing_too():
    rng = np.random.default_rng(5)
    policy = kb.KernelUCB(kb.kernels.Linear(), engine="exhaustive")
    policy.warm_start(rng.normal(size=(20, 2)), rng.normal(size=20))

    assert not policy.has_compiled_loop


def test_what_a_choice_cost_belongs_to_the_decision():
    rng = np.random.default_rng(6)
    policy = kb.KernelUCB(kb.kernels.Gaussian(length_scale=0.4))

    first = policy.choose(rng.uniform(size=(50, 2)))
    many = policy.choose_many([rng.uniform(size=(3, 2)), rng.uniform(size=(4, 2))])
    slate = policy.choose(rng.uniform(size=(9, 2)), k=2)

    assert first.cost.n_actions == 50
    assert [decision.cost.n_actions for decision in many] == [3, 4]
    assert [decision.cost.n_actions for decision in slate] == [9, 9]
    assert "cost" not in first.to_dict()


def test_rounds_of_many_actions_are_screened_one_by_one():
    rng = np.random.default_rng(7)
    policy = kb.KernelUCB(kb.kernels.Gaussian(length_scale=0.4), regularization=0.3)
    policy.warm_start(rng.uniform(size=(60, 2)), rng.normal(size=60))

    decisions = policy.choose_many([rng.uniform(size=(40, 2)) for _ in range(3)])

    assert len(decisions) == 3
    assert [(decision.cost.engine, decision.cost.n_actions) for decision in decisions] == 3 * [("screened", 40)]
