import numpy as np
import pytest
from numpy.testing import assert_allclose

import kernelbandits as kb
from kernelbandits.errors import InvalidContexts, InvalidParameter
from kernelbandits.kernels import Delta, Gaussian, Linear
from kernelbandits.theory.exploration import GPUCBFinite

ACTIONS = [[0.1], [0.5], [0.9]]


def test_the_schedule_is_that_of_finitely_many_actions_unless_specified():
    assert kb.GPUCB(Linear(), noise_variance=0.1).exploration == GPUCBFinite(failure_probability=0.05, divide_by=20.0)
    assert kb.GPUCB(Linear(), noise_variance=0.1, exploration=2).describe()["exploration"]["value"] == 2.0


def test_the_regularization_is_the_noise_variance():
    policy = kb.GPUCB(Linear(), noise_variance=0.25)

    assert policy.noise_variance == policy.posterior.regularization == 0.25


@pytest.mark.parametrize("combine", ["product", "sum"])
def test_pairs_are_compared_half_by_half(combine):
    contexts, actions = Gaussian(length_scale=0.5), Gaussian(length_scale=0.2)
    policy = kb.CGPUCB(context_kernel=contexts, action_kernel=actions, combine=combine, noise_variance=0.1)
    rng = np.random.default_rng(0)
    seen, taken, rewards = [], [], []
    for _ in range(12):
        context = rng.uniform(size=2)
        decision = policy.choose(kb.Pairs(context, ACTIONS))
        reward = float(rng.normal())
        policy.learn(decision, reward)
        seen.append(context)
        taken.append(ACTIONS[decision.action])
        rewards.append(reward)

    query = rng.uniform(size=2)
    decision = policy.choose(kb.Pairs(query, ACTIONS))

    join = np.multiply if combine == "product" else np.add
    gram = join(contexts.gram(seen), actions.gram(taken)) + 0.1 * np.eye(12)
    cross = join(contexts.gram(seen, [query]), actions.gram(taken, [ACTIONS[decision.action]]))[:, 0]
    own = 1.0 if combine == "product" else 2.0
    solved = np.linalg.solve(gram, cross)
    assert_allclose(decision.mean, solved @ rewards, rtol=1e-9)
    assert_allclose(0.1 * decision.width**2, own - solved @ cross, rtol=1e-8)


def test_rounds_have_to_be_pairs():
    policy = kb.CGPUCB(context_kernel=Linear(), action_kernel=Delta(), noise_variance=0.1)

    with pytest.raises(InvalidContexts, match=r"kb\.Pairs\(context, actions\)"):
        policy.choose(ACTIONS)
    with pytest.raises(InvalidParameter, match="'product' or 'sum'"):
        kb.CGPUCB(context_kernel=Linear(), action_kernel=Delta(), noise_variance=0.1, combine="mean")
