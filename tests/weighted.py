"""The definition of ridge regression over weighted observations, computed the slow way."""

import numpy as np
from numpy.testing import assert_allclose

from kernelbandits._transactions import transaction


def definition(kernel, regularization, past, rewards, weights, points):
    """Mean, width and log-determinant gain, from the Gram matrix of the whole history and K + γ W⁻¹."""
    prior = kernel.diagonal(kernel.kind.check(points))
    if not len(rewards):
        return np.zeros(len(prior)), np.sqrt(prior / regularization), 0.0
    gram, similarity = kernel.gram(past), kernel.gram(past, points)
    solved = np.linalg.solve(gram + regularization * np.diag(1.0 / weights), similarity)
    squared = (prior - np.einsum("mn,mn->n", similarity, solved)) / regularization
    roots = np.sqrt(weights)
    gain = np.linalg.slogdet(np.eye(len(rewards)) + roots[:, None] * gram * roots / regularization)[1]
    return solved.T @ rewards, np.sqrt(np.maximum(squared, 0.0)), gain


@transaction
def observe_one(posterior, point, reward):
    """The fast path of a policy, in a transaction of its own."""
    posterior._observe_one(point, reward)


class Slow:
    """A list of observations beside a posterior under test: `weight(age)` says what each of them counts."""

    def __init__(self, posterior, points, weight):
        self.posterior, self.weight = posterior, weight
        self.points = posterior.kernel.kind.check(points)
        self.entries = []

    def take(self, rows):
        return self.posterior.kernel.kind.take(self.points, np.asarray(rows, dtype=np.intp))

    def observe(self, rows, rewards):
        self.posterior.observe(self.take(rows), rewards)
        self.entries += list(zip(rows, rewards, strict=True))

    def observe_one(self, row, reward):
        observe_one(self.posterior, self.take([row]), reward)
        self.entries.append((row, reward))

    @property
    def counting(self):
        """Row, reward and weight of what counts, oldest first."""
        ages = range(len(self.entries) - 1, -1, -1)
        weighted = [(*entry, self.weight(age)) for entry, age in zip(self.entries, ages, strict=True)]
        return [entry for entry in weighted if entry[2] > 0.0]

    def check(self, tolerance=1e-7):
        posterior, counting = self.posterior, self.counting
        rows = np.array([row for row, _, _ in counting], dtype=np.intp)
        rewards, weights = (np.array([entry[place] for entry in counting]) for place in (1, 2))
        past = self.take(rows) if len(rows) else None
        mean, width, gain = definition(posterior.kernel, posterior.regularization, past, rewards, weights, self.points)
        prediction = posterior.predict(self.points)
        assert_allclose(prediction.mean, mean, rtol=tolerance, atol=tolerance * np.abs(rewards).max(initial=1e-300))
        assert_allclose(prediction.width, width, rtol=tolerance)
        assert_allclose(posterior.log_det_gain, gain, rtol=tolerance, atol=tolerance)
