"""KernelUCB's relations to LinUCB, UCB1, GP-UCB and SupLinUCB, choice by choice (oracles 1, 6, 7 and 11)."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import kernelbandits as kb
from definitions import ridge
from kernelbandits.kernels import Delta, Gaussian, LabeledLinear, Linear
from kernelbandits.posterior import ExactPosterior
from kernelbandits.theory import exploration as schedules


def exact(kernel, regularization):
    return ExactPosterior(kernel, regularization=regularization)


def same_choices(first, second, n_rounds, n_actions, n_features, seed=0, ids=None):
    """Play two policies side by side; gives the decisions of both."""
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=n_features)
    pairs = []
    for _ in range(n_rounds):
        contexts = rng.normal(size=(n_actions, n_features))
        left, right = first.choose(contexts, ids=ids), second.choose(contexts, ids=ids)
        assert left.action == right.action
        reward = float(contexts[left.action] @ weights + 0.3 * rng.normal())
        first.learn(left, reward)
        second.learn(right, reward)
        pairs.append((left, right))
    return pairs


@pytest.mark.parametrize("regularization", [0.05, 1.0, 6.0])
def test_the_linear_kernel_is_linucb(regularization):
    lin = kb.LinUCB(regularization=regularization, exploration=0.8)
    kernel = kb.KernelUCB(Linear(), regularization=regularization, exploration=0.8, posterior=exact)

    pairs = same_choices(lin, kernel, 120, 8, 5)

    for left, right in pairs:
        assert_allclose([left.mean, left.width], [right.mean, right.width], rtol=1e-8, atol=1e-8)


class LiRecursion:
    """Hybrid LinUCB as its authors write it: the blocks A0, b0, A_a, B_a, b_a, inverted at every use."""

    def __init__(self, n_shared, n_own, regularization):
        self.a0, self.b0 = regularization * np.eye(n_shared), np.zeros(n_shared)
        self.blocks, self.n_own, self.n_shared, self.regularization = {}, n_own, n_shared, regularization

    def block(self, label):
        fresh = [self.regularization * np.eye(self.n_own), np.zeros((self.n_own, self.n_shared)), np.zeros(self.n_own)]
        return self.blocks.setdefault(label, fresh)

    def predict(self, label, x, z):
        a, b_cross, b = self.block(label)
        a0_inv, a_inv = np.linalg.inv(self.a0), np.linalg.inv(a)
        beta = a0_inv @ self.b0
        theta = a_inv @ (b - b_cross @ beta)
        link = a0_inv @ b_cross.T @ a_inv @ x
        squared = z @ a0_inv @ z - 2 * z @ link + x @ a_inv @ x + x @ a_inv @ b_cross @ link
        return z @ beta + x @ theta, np.sqrt(squared)

    def learn(self, label, x, z, reward):
        block = self.block(label)
        a, b_cross, b = block
        self.a0 = self.a0 + b_cross.T @ np.linalg.inv(a) @ b_cross
        self.b0 = self.b0 + b_cross.T @ np.linalg.inv(a) @ b
        block[0], block[1], block[2] = a + np.outer(x, x), b_cross + np.outer(x, z), b + reward * x
        a, b_cross, b = block
        self.a0 = self.a0 + np.outer(z, z) - b_cross.T @ np.linalg.inv(a) @ b_cross
        self.b0 = self.b0 + reward * z - b_cross.T @ np.linalg.inv(a) @ b


@pytest.mark.parametrize("regularization", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("shared", [(), (1, 3)])
def test_disjoint_and_hybrid_linucb_are_kernels_over_labeled_rows(regularization, shared):
    """Oracle 1, against the kernel form (Gram matrix of the whole history) and the authors' own recursion."""
    model = "hybrid" if shared else "disjoint"
    policy = kb.LinUCB(model=model, shared_columns=list(shared) or None, regularization=regularization, exploration=0.8)
    kernel, rng = LabeledLinear(shared), np.random.default_rng(0)
    own = [column for column in range(5) if column not in shared]
    authors = LiRecursion(len(shared), len(own), regularization)
    labels, rows, rewards = [], [], []
    for number in range(60):
        ids = [["red", "green", 7, "blue"][(number + place) % 4] for place in range(3)]
        contexts = rng.normal(size=(3, 5))
        queries = kb.kernels.pairs.PairRows(ids, contexts, is_shared=False)
        past = kb.kernels.pairs.PairRows(labels, np.array(rows), is_shared=False) if rows else None
        mean, width = ridge(kernel, past, rewards, queries, regularization)

        decision = policy.choose(contexts, ids=ids)

        assert decision.action == int(np.argmax(mean + 0.8 * width))
        assert_allclose(
            [decision.mean, decision.width], [mean[decision.action], width[decision.action]], rtol=1e-8, atol=1e-8
        )
        for place, label in enumerate(ids):
            as_printed = authors.predict(label, contexts[place][own], contexts[place][list(shared)])
            assert_allclose(as_printed, [mean[place], width[place]], rtol=1e-8, atol=1e-8)
        reward = float(rng.normal())
        policy.learn(decision, reward)
        authors.learn(decision.item, decision.context[own], decision.context[list(shared)], reward)
        labels.append(decision.item)
        rows.append(decision.context)
        rewards.append(reward)


@pytest.mark.parametrize("gamma", [0.2, 1.0, 3.0])
def test_the_delta_kernel_counts(gamma):
    """Oracle 6: mean = Σr/(n + γ), width = 1/sqrt(n + γ)."""
    rng = np.random.default_rng(0)
    pulls, rewards = rng.integers(0, 5, size=200), rng.normal(size=200)
    policy = kb.KernelUCB(Delta(), regularization=gamma)

    policy.warm_start(pulls.tolist(), rewards)

    counts, sums = np.bincount(pulls, minlength=6), np.bincount(pulls, rewards, 6)
    prediction = policy.posterior.predict(list(range(6)))
    assert_allclose(prediction.mean, sums / (counts + gamma), rtol=1e-10)
    assert_allclose(prediction.width, 1 / np.sqrt(counts + gamma), rtol=1e-10)


class RootOfTwoLogarithms:
    """UCB1's sqrt(2 ln t)."""

    def __call__(self, situation):
        return float(np.sqrt(2 * np.log(situation.round_index)))

    def describe(self):
        return {"class": "RootOfTwoLogarithms"}


def test_ucb1_is_the_delta_kernel_without_regularization():
    """Oracle 6, second half: continuous rewards, each action once, γ = 1e-6."""
    rng = np.random.default_rng(1)
    values = rng.uniform(size=6)
    policy = kb.KernelUCB(Delta(), regularization=1e-6, exploration=RootOfTwoLogarithms())
    counts, sums = np.zeros(6), np.zeros(6)
    for round_index in range(1, 401):
        if round_index <= 6:
            decision = policy.choose([round_index - 1])
            action = round_index - 1
        else:
            decision = policy.choose(list(range(6)))
            action = int(np.argmax(sums / counts + np.sqrt(2 * np.log(round_index) / counts)))
            assert decision.context == action
        reward = float(values[action] + 0.3 * rng.normal())
        policy.learn(decision, reward)
        counts[action] += 1
        sums[action] += reward


@pytest.mark.parametrize("noise_variance", [0.01, 0.5, 2.0])
def test_gp_ucb_is_kernel_ucb_with_noise_variance_and_root_gamma_beta(noise_variance):
    """Oracle 7: mean + sqrt(β_t) · standard deviation of the process, computed from its covariance."""
    rng = np.random.default_rng(2)
    actions = rng.uniform(size=(15, 2))
    kernel = Gaussian(length_scale=0.4)
    covariance, mean = kernel.gram(actions), np.zeros(15)
    policy = kb.GPUCB(kernel, noise_variance=noise_variance, exploration=schedules.GPUCBFinite(failure_probability=0.1))
    ucb = kb.KernelUCB(
        kernel, regularization=noise_variance, exploration=schedules.GPUCBFinite(failure_probability=0.1)
    )
    for round_index in range(1, 80):
        beta = 2 * np.log(15 * round_index**2 * np.pi**2 / (6 * 0.1))
        scores = mean + np.sqrt(beta * np.diag(covariance))
        decision = policy.choose(actions)
        other = ucb.choose(actions)
        best = int(np.flatnonzero(scores >= scores.max() - 1e-9)[0])
        assert decision.action == other.action == best
        assert decision.score == pytest.approx(scores[best], rel=1e-6)
        reward = float(rng.normal())
        policy.learn(decision, reward)
        ucb.learn(other, reward)
        gain = covariance[:, best] / (covariance[best, best] + noise_variance)
        mean = mean + gain * (reward - mean[best])
        covariance = covariance - np.outer(gain, covariance[best])


@pytest.mark.parametrize(
    "parameters",
    [
        {"horizon": 400, "n_actions": 6, "norm_bound": 1.0, "exploration": "theory", "failure_probability": 0.1},
        {"horizon": 400, "n_actions": 6, "exploration": 0.2},
        {"exploration": 0.3},
        {"horizon": 400, "n_actions": 6, "mode": "paper", "exploration": 1.5},
    ],
    ids=str,
)
def test_suplinucb_is_supkernelucb_with_the_linear_kernel(parameters):
    """Oracle 11, choice by choice and level by level."""
    rng = np.random.default_rng(3)
    lin = kb.SupLinUCB(regularization=0.7, **parameters)
    kernel = kb.SupKernelUCB(Linear(), regularization=0.7, **parameters)
    weights = np.array([0.5, 0.2, 0.3])
    for _ in range(400):
        contexts = rng.uniform(size=(6, 3)) * np.array([1.0, 0.5, 0.8])
        left, right = lin.choose(contexts), kernel.choose(contexts)
        assert (left.action, left.stage) == (right.action, right.stage)
        reward = float(contexts[left.action] @ weights * rng.uniform())
        lin.learn(left, reward)
        kernel.learn(right, reward)

    assert [level.stage_observations for level in lin.stages] == [level.stage_observations for level in kernel.stages]
