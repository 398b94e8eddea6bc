"""The estimator and its equivalent forms computed the slow way: what the tests compare with."""

from __future__ import annotations

import numpy as np


def ridge(kernel, points, rewards, queries, regularization):
    """Mean and width from the definition: kᵀA⁻¹y and γ^(-1/2) sqrt(k(x, x) − kᵀA⁻¹k), A = K + γI."""
    count = kernel.kind.count(queries)
    prior = kernel.diagonal(queries)
    if points is None or kernel.kind.count(points) == 0:
        return np.zeros(count), np.sqrt(prior / regularization)
    matrix = kernel.gram(points) + regularization * np.eye(kernel.kind.count(points))
    similarity = kernel.gram(points, queries)
    solved = np.linalg.solve(matrix, similarity)
    squared = (prior - np.einsum("mn,mn->n", similarity, solved)) / regularization
    return solved.T @ np.asarray(rewards), np.sqrt(np.maximum(squared, 0.0))


def log_det_gain(kernel, points, regularization):
    """ln det(I + K/γ)."""
    gram = kernel.gram(points)
    return np.linalg.slogdet(np.eye(len(gram)) + gram / regularization)[1]


class JointPosterior:
    """Mean and full covariance of a fixed set of actions, updated at each pull."""

    def __init__(self, gram, regularization):
        self.covariance, self.mean, self.regularization = gram.copy(), np.zeros(len(gram)), regularization

    def pull(self, action, reward):
        gain = self.covariance[:, action] / (self.covariance[action, action] + self.regularization)
        self.mean = self.mean + gain * (reward - self.mean[action])
        self.covariance = self.covariance - np.outer(gain, self.covariance[action])

    @property
    def width(self):
        return np.sqrt(np.diag(self.covariance) / self.regularization)


class RowCache:
    """Residual variances of a fixed set of actions, and the rows V = L⁻¹K that explain the rest."""

    def __init__(self, gram, regularization):
        self.gram, self.regularization = gram, regularization
        self.rows = np.zeros((0, len(gram)))
        self.mean, self.residual = np.zeros(len(gram)), np.diag(gram).copy()

    def pull(self, action, reward):
        spread = np.sqrt(self.residual[action] + self.regularization)
        row = (self.gram[action] - self.rows[:, action] @ self.rows) / spread
        self.mean = self.mean + row * (reward - self.mean[action]) / spread
        self.residual = self.residual - row**2
        self.rows = np.vstack([self.rows, row])

    @property
    def width(self):
        return np.sqrt(np.maximum(self.residual, 0.0) / self.regularization)
