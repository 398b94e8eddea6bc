"""Every policy, taken with its defaults, has clearly less regret than uniform choices on an ordinary problem."""

import inspect
import warnings

import numpy as np
import pytest

import kernelbandits as kb
from kernelbandits.errors import KernelBanditWarning
from kernelbandits.evaluation import start_world
from kernelbandits.experiments.policy_problems import CenteredLinear, ContextAction
from kernelbandits.kernels import Gaussian
from kernelbandits.policies.experts import constant_experts, linear_experts

pytestmark = pytest.mark.long

N_ACTIONS, HORIZON, SEEDS = 12, 3_000, range(4)
WORLD = CenteredLinear(n_actions=N_ACTIONS, n_features=3)
"""Fixed actions with linear rewards, so that the assumptions of every family hold."""

KERNEL = Gaussian(length_scale=0.5)


def experts(seed):
    return [*constant_experts(N_ACTIONS), *linear_experts(4, n_experts=20, seed=seed)]


def of_class(policy):
    return lambda rows, seed: policy(experts(seed), n_actions=N_ACTIONS, seed=seed)


POLICIES = {
    "BBKB": lambda rows, seed: kb.BBKB(KERNEL, seed=seed),
    "BKB": lambda rows, seed: kb.BKB(KERNEL, seed=seed),
    "CBBKB": lambda rows, seed: kb.CBBKB(KERNEL, seed=seed),
    "ConfidenceBall": lambda rows, seed: kb.ConfidenceBall(rows),
    "ContextualZooming": lambda rows, seed: kb.ContextualZooming(KERNEL, horizon=HORIZON),
    "EKUCB": lambda rows, seed: kb.EKUCB(KERNEL, seed=seed),
    "EXP4": lambda rows, seed: kb.EXP4(experts(seed), horizon=HORIZON, seed=seed),
    "EXP4P": lambda rows, seed: kb.EXP4P(experts(seed), horizon=HORIZON, seed=seed),
    "EpochGreedy": of_class(kb.EpochGreedy),
    "GPUCB": lambda rows, seed: kb.GPUCB(KERNEL, noise_variance=0.25),
    "GridGP": lambda rows, seed: kb.GridGP(KERNEL, rows, horizon=HORIZON),
    "ILOVETOCONBANDITS": of_class(kb.ILOVETOCONBANDITS),
    "KLUCB": lambda rows, seed: kb.KLUCB(),
    "KernelEpochGreedy": lambda rows, seed: kb.KernelEpochGreedy(KERNEL, n_actions=N_ACTIONS, seed=seed),
    "KernelSquareCB": lambda rows, seed: kb.KernelSquareCB(KERNEL, seed=seed),
    "KernelThompson": lambda rows, seed: kb.KernelThompson(KERNEL, seed=seed),
    "KernelUCB": lambda rows, seed: kb.KernelUCB(KERNEL),
    "LinUCB": lambda rows, seed: kb.LinUCB(),
    "MiniBatchGPUCB": lambda rows, seed: kb.MiniBatchGPUCB(KERNEL, noise_variance=0.25),
    "Mixed": lambda rows, seed: kb.Mixed(kb.KernelUCB(KERNEL), epsilon=0.1, seed=seed),
    "OFUL": lambda rows, seed: kb.OFUL(noise_scale=0.5, norm_bound=1.0),
    "PACBayes": lambda rows, seed: kb.PACBayes(rows[:1], n_actions=N_ACTIONS, seed=seed),
    "PEGE": lambda rows, seed: kb.PEGE(rows),
    "PhasedElimination": lambda rows, seed: kb.PhasedElimination(KERNEL, rows),
    "PhasedElimination, horizon": lambda rows, seed: kb.PhasedElimination(KERNEL, rows, horizon=HORIZON),
    "PolicyElimination": of_class(kb.PolicyElimination),
    "RandomizedUCB": of_class(kb.RandomizedUCB),
    "Softmax": lambda rows, seed: kb.Softmax(kb.KernelUCB(KERNEL), temperature=0.05, seed=seed),
    "SupKernelUCB": lambda rows, seed: kb.SupKernelUCB(KERNEL),
    "SupKernelUCB, horizon": lambda rows, seed: kb.SupKernelUCB(KERNEL, horizon=HORIZON),
    "SupLinRel": lambda rows, seed: kb.SupLinRel(horizon=HORIZON, n_actions=N_ACTIONS),
    "SupLinUCB": lambda rows, seed: kb.SupLinUCB(),
    "SupLinUCB, horizon": lambda rows, seed: kb.SupLinUCB(horizon=HORIZON),
    "UCB1": lambda rows, seed: kb.UCB1(),
    "UncertaintyEllipsoid": lambda rows, seed: kb.UncertaintyEllipsoid(rows),
    "VE": lambda rows, seed: kb.VE(experts(seed), horizon=HORIZON, vc_dimension=2, uniform_rounds=100, seed=seed),
}

OTHERS = {"CGPUCB", "Guarded", "Paced", "UniformRandom"}
"""CGPUCB has a test of its own. Guarded plays its baseline until another action is better for sure: it promises to.
Paced chooses as the wrapped policy does where nothing costs; `studies.budgets` measures it where actions do."""


def fractions(make, world=WORLD, horizon=HORIZON):
    """Regret as a fraction of that of uniform choices, per seed."""
    found = []
    for seed in SEEDS:
        run = start_world(world, seed)
        shown, regret, uniform, policy = run.observe(), 0.0, 0.0, None
        for _ in range(horizon):
            policy = policy or make(shown.contexts, seed)
            decision = policy.choose(shown.contexts)
            policy.learn(decision, run.reward(decision.action))
            regret += shown.expected.max() - shown.expected[decision.action]
            uniform += shown.expected.max() - shown.expected.mean()
            shown = run.observe()
        found.append(regret / uniform)
    return np.array(found)


def is_clearly_better(found):
    """Mean and two standard errors below 0.75."""
    return found.mean() + 2.0 * found.std(ddof=1) / np.sqrt(len(found)) < 0.75


def test_every_policy_is_here():
    concrete = {
        name
        for name in kb.policies.__all__
        if inspect.isclass(made := getattr(kb.policies, name))
        and issubclass(made, kb.Policy)
        and not inspect.isabstract(made)
    }

    assert {name.split(",")[0] for name in POLICIES} | OTHERS == concrete


@pytest.mark.parametrize("name", POLICIES)
def test_the_defaults_learn(name):
    with warnings.catch_warnings():
        warnings.simplefilter("error", KernelBanditWarning)
        found = fractions(POLICIES[name])

    assert is_clearly_better(found), found


def test_the_defaults_of_cgpucb_learn():
    def make(_, seed):
        return kb.CGPUCB(context_kernel=KERNEL, action_kernel=KERNEL, noise_variance=0.25)

    found = fractions(make, ContextAction(n_actions=8, n_centers=4), horizon=1_000)

    assert is_clearly_better(found), found


@pytest.mark.parametrize(
    "make",
    [
        lambda rows, seed: kb.UniformRandom(seed=seed),
        lambda rows, seed: kb.ConfidenceBall(rows, exploration="theory"),
        lambda rows, seed: kb.PolicyElimination(
            experts(seed), n_actions=N_ACTIONS, exploration="theory", uniform_factor="theory", seed=seed
        ),
    ],
    ids=["UniformRandom", "ConfidenceBall, theory", "PolicyElimination, theory"],
)
def test_the_test_can_fail(make):
    """Negative control: neither uniform choices nor constants of proofs pass."""
    assert not is_clearly_better(fractions(make))
