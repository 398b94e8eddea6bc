"""The linear family's relations: OFUL to KernelUCB (oracle 11), ConfidenceBall to LinUCB, its two balls to each other.

SupLinUCB's relation to SupKernelUCB stands in `test_named_relations.py`.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import kernelbandits as kb
from kernelbandits.kernels import Linear
from kernelbandits.policies.comparators.spanning import coordinates_of
from kernelbandits.theory import exploration as schedules


@pytest.mark.parametrize("posterior", ["primal", "exact"])
@pytest.mark.parametrize("numbers", [(0.1, 0.3, 2.0, 0.3), (3.0, 1.0, 0.5, 0.01)])
def test_oful_is_kernel_ucb_with_the_linear_kernel(posterior, numbers):
    """Choice by choice, with action sets that change."""
    regularization, noise_scale, norm_bound, delta = numbers
    schedule = {"noise_scale": noise_scale, "norm_bound": norm_bound, "failure_probability": delta}
    oful = kb.OFUL(regularization=regularization, **schedule)
    kernel = kb.KernelUCB(
        Linear(),
        regularization=regularization,
        exploration=schedules.SelfNormalized(**schedule),
        posterior=posterior,
    )
    rng, weights = np.random.default_rng(0), np.array([0.5, -0.2, 0.3, 1.0])
    for _ in range(150):
        contexts = rng.normal(size=(rng.integers(1, 10), 4))
        left, right = oful.choose(contexts), kernel.choose(contexts)
        assert left.action == right.action
        assert_allclose([left.mean, left.score], [right.mean, right.score], rtol=1e-8, atol=1e-8)
        reward = float(left.context @ weights + noise_scale * rng.normal())
        oful.learn(left, reward)
        kernel.learn(right, reward)


def test_oful_that_switches_rarely_is_another_policy():
    """Negative control: the comparison above would notice."""
    schedule = {"noise_scale": 0.3, "norm_bound": 2.0, "failure_probability": 0.3}
    rare, kernel = kb.OFUL(switching=1.0, **schedule), kb.OFUL(**schedule)
    rng, parted = np.random.default_rng(0), 0
    for _ in range(60):
        contexts = rng.normal(size=(6, 3))
        decision = rare.choose(contexts)
        parted += decision.action != kernel.choose(contexts).action
        reward = float(rng.normal())
        rare.learn(decision, reward)
        kernel.learn(kernel.choose(contexts, eligible=np.arange(6) == decision.action), reward)

    assert parted > 0


class ConfidenceBallRadius:
    """sqrt(β_t) of Dani et al., written down once more."""

    def __init__(self, n_features, delta, factor):
        self.n_features, self.delta, self.factor = n_features, delta, factor

    def __call__(self, situation):
        t = situation.round_index
        share = np.log(t**2 / self.delta)
        return np.sqrt(self.factor * max(128 * self.n_features * np.log(t) * share, (8 / 3 * share) ** 2))

    def describe(self):
        return {"class": "ConfidenceBallRadius"}


@pytest.mark.parametrize("factor", [0.0005, 0.02])
def test_the_ball_of_norm_two_is_linucb_over_spanner_coordinates(factor):
    rng = np.random.default_rng(1)
    actions, weights = rng.normal(size=(15, 3)), np.array([0.2, -0.1, 0.15])
    ball = kb.ConfidenceBall(actions, failure_probability=0.1, exploration=np.sqrt(factor), reward_range=(-1, 1))
    coordinates = coordinates_of(actions, ball.spanner)
    lin = kb.LinUCB(regularization=1.0, exploration=ConfidenceBallRadius(3, 0.1, factor))
    for _ in range(200):
        left, right = ball.choose(actions), lin.choose(coordinates)
        assert (left.action, left.score) == (right.action, pytest.approx(right.score, rel=1e-8))
        reward = float(np.clip(actions[left.action] @ weights + 0.1 * rng.normal(), -1, 1))
        ball.learn(left, reward)
        lin.learn(right, reward)


@pytest.mark.parametrize("seed", range(4))
def test_the_dual_norm_gives_the_best_of_the_ball_of_norm_one(seed):
    """max_i |(A^−½ x)_i| against the 2d vertices, points drawn on the ball, and the ellipsoid inside."""
    rng = np.random.default_rng(seed)
    actions = rng.normal(size=(10, 4))
    policy = kb.ConfidenceBall(actions, norm=1, exploration=0.1, reward_range=(-1, 1))
    inside = kb.ConfidenceBall(actions, norm=2, exploration=0.1, reward_range=(-1, 1))
    precision, moments = actions[policy.spanner].T @ actions[policy.spanner], np.zeros(4)
    for _ in range(12):
        decision, reward = policy.choose(actions), float(rng.uniform(-1, 1))
        policy.learn(decision, reward)
        inside.learn(inside.choose(actions, eligible=np.arange(10) == decision.action), reward)
        precision += np.outer(decision.context, decision.context)
        moments += reward * decision.context
    values, vectors = np.linalg.eigh(precision)
    theta, inverse_root = np.linalg.solve(precision, moments), vectors @ np.diag(values**-0.5) @ vectors.T
    radius = np.sqrt(4 * policy.beta)
    drawn = rng.laplace(size=(2000, 4))
    drawn *= radius / np.abs(drawn).sum(axis=1)[:, None]  # on the ball's surface
    vertices = radius * np.vstack([np.eye(4), -np.eye(4)])
    for row in range(10):
        only = np.arange(10) == row

        score = policy.choose(actions, eligible=only).score

        values_at = lambda points, row=row: actions[row] @ (theta[:, None] + inverse_root @ points.T)  # noqa: E731
        assert score == pytest.approx(values_at(vertices).max(), rel=1e-9)
        assert values_at(drawn).max() <= score + 1e-9
        assert values_at(1.01 * vertices).max() > score  # negative control: a ball that is larger has a better best
        assert inside.choose(actions, eligible=only).score <= score + 1e-9
