"""Oracles 21 and 22: measured regret lies below the bounds, grows slower than linearly, and the kernel matters."""

import numpy as np
import pytest

import kernelbandits as kb
from kernelbandits.environments import SyntheticRKHS
from kernelbandits.kernels import Gaussian, Linear
from kernelbandits.theory import (
    effective_dimension,
    kernel_ucb_bound,
    kernel_ucb_trace_bound,
    sup_kernel_ucb_bound,
    sup_kernel_ucb_data_bound,
    theorem_1_bound,
)
from kernelbandits.theory import exploration as schedules

KERNEL, GAMMA, N_ACTIONS = Gaussian(length_scale=0.3), 0.3, 15


def world(noise="gaussian", **arguments):
    scale = {} if noise == "bernoulli" else {"noise_scale": 0.1}
    return SyntheticRKHS(KERNEL, n_actions=N_ACTIONS, n_features=1, noise=noise, **scale, **arguments)


def test_kernel_ucb_stays_below_a_bound_that_uniform_choices_exceed():
    schedule = schedules.Mixture(noise_scale=0.1, norm_bound=1.0, failure_probability=0.05)
    bounds, uniform = [], []
    for seed in range(4):
        policy = kb.KernelUCB(KERNEL, regularization=GAMMA, exploration=schedule)

        trace = kb.simulate(world(norm=1.0), policy, horizon=300, seed=seed)

        gain = policy.posterior.log_det_gain
        bound = kernel_ucb_bound(
            horizon=300, regularization=GAMMA, log_det_gain=gain, exploration=float(trace.exploration[-1])
        )
        tighter = kernel_ucb_trace_bound(trace.exploration, trace.width)
        assert 0 < trace.regret[-1] <= tighter <= bound * (1 + 1e-9)
        bounds.append(tighter)
        random = kb.simulate(world(norm=1.0), kb.UniformRandom(seed=seed), horizon=300, seed=seed)
        uniform.append(random.regret[-1])
        assert trace.regret[-1] < 0.1 * uniform[-1]

    assert np.mean(bounds) < 0.6 * np.mean(uniform)  # so a policy can exceed them


@pytest.mark.parametrize("seed", range(3))
def test_the_bounds_of_sup_kernel_ucb_are_ordered(seed):
    """From the data of a run, by the corrected theorem, and as printed; the constants are large at 300 rounds."""
    problem = {"horizon": 300, "n_actions": N_ACTIONS, "regularization": GAMMA, "failure_probability": 0.05}
    policy = kb.SupKernelUCB(KERNEL, norm_bound=0.9, exploration="theory", **problem)

    kb.simulate(world("bernoulli", norm=0.9), policy, horizon=300, seed=seed)

    played = np.vstack([level.posterior.support()[0] for level in policy.stages])
    dimension = effective_dimension(KERNEL.gram(played), regularization=GAMMA, horizon=300)
    assert len(played) == 300  # every round was explored, so the levels hold all contexts
    corrected = sup_kernel_ucb_bound(effective_dimension=dimension, norm_bound=0.9, **problem)
    printed = theorem_1_bound(effective_dimension=dimension, norm=0.9, **problem)
    assert data_bound(policy, **problem) <= corrected <= printed


def data_bound(policy, *, horizon, regularization, **_):
    return sup_kernel_ucb_data_bound(
        scale=policy.scale_at(1),
        horizon=horizon,
        regularization=regularization,
        stage_sizes=[level.stage_observations for level in policy.stages],
        stage_log_det_gains=[level.posterior.log_det_gain for level in policy.stages],
    )


THETA = np.array([0.9, 0.05])


def regret_among_directions(policy, *, horizon, seed, noise=0.01):
    """Ten directions of the plane in every round, drawn afresh, with little noise: a problem of two dimensions."""
    rng = np.random.default_rng(seed)
    regret = 0.0
    for _ in range(horizon):
        angles = rng.uniform(0.0, np.pi / 2.0, size=10)
        contexts = np.column_stack([np.cos(angles), np.sin(angles)])
        expected = contexts @ THETA
        decision = policy.choose(contexts)
        policy.learn(decision, float(expected[decision.action] + noise * rng.uniform(-1.0, 1.0)))
        regret += expected.max() - expected[decision.action]
    return regret


@pytest.mark.parametrize("seed", range(2))
def test_sup_kernel_ucb_stays_below_a_bound_that_uniform_choices_exceed(seed):
    problem = {"horizon": 4000, "n_actions": 10, "regularization": 0.003, "failure_probability": 0.05}
    policy = kb.SupKernelUCB(
        Linear(), norm_bound=float(np.linalg.norm(THETA)), noise_scale=0.01, exploration="theory", **problem
    )

    regret = regret_among_directions(policy, horizon=4000, seed=seed)

    uniform = regret_among_directions(kb.UniformRandom(seed=seed), horizon=4000, seed=seed)
    bound = data_bound(policy, **problem)
    assert bound < 0.8 * uniform  # so a policy can exceed it
    assert regret <= bound
    assert regret < 0.02 * uniform


def mean_regret(make_policy, n_runs, horizon):
    curves = [kb.simulate(world(norm=2.0), make_policy(), horizon=horizon, seed=run).regret for run in range(n_runs)]
    return np.mean(curves, axis=0)


def test_regret_grows_slower_than_linearly_and_a_wrong_kernel_is_visibly_worse():
    def right():
        return kb.KernelUCB(KERNEL, regularization=GAMMA, exploration=0.4)

    def wrong():
        return kb.KernelUCB(Linear() + 1.0, regularization=GAMMA, exploration=0.4)

    regret, straight = mean_regret(right, 8, 400), mean_regret(wrong, 8, 400)

    first, second = regret[199], regret[399] - regret[199]
    assert second < 0.5 * first
    assert straight[399] > 4 * regret[399]
    chance = mean_regret(lambda: kb.UniformRandom(seed=0), 8, 400)
    assert regret[399] < 0.15 * chance[399]


@pytest.mark.long
def test_regret_grows_slower_than_linearly_in_the_long_run():
    regret = mean_regret(lambda: kb.KernelUCB(KERNEL, regularization=GAMMA, exploration=0.4), 6, 1600)

    quarters = np.diff(regret[[0, 399, 799, 1199, 1599]])
    assert (quarters[1:] < 0.5 * quarters[0]).all()
