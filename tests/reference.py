"""Slow, literal implementations to compare with: the paper's own recursions, once corrected.

Nothing here is fast or safe; every step is the formula. Public code is compared with these at values other than 1.
"""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt

import numpy as np

from kernelbandits.types import Matrix, Prediction, StageStep, Vector

KernelFunction = Callable[[Matrix, Matrix], Matrix]


class InverseKernelUCB:
    """Algorithm 1 of Valko et al. (2013), corrected: the inverse of K + γI grows by Schur complements.

    Corrections: the first inverse is 1/(k + γ) (erratum E3); what Algorithm 1 calls the inverse of K_t is that of
    K_t + γI (E4); the width carries γ^(-1/2) (E4); scores belong to the contexts of the round to come (E2).
    """

    def __init__(self, kernel: KernelFunction, regularization: float) -> None:
        self.kernel, self.regularization = kernel, regularization
        self.contexts: Matrix | None = None
        self.rewards = np.empty(0)
        self.inverse = np.empty((0, 0))

    def observe(self, x_row: Vector, reward: float) -> None:
        row = np.atleast_2d(np.asarray(x_row, dtype=float))
        own = self.kernel(row, row)[0, 0]
        if self.contexts is None:
            self.contexts, self.inverse = row, np.array([[1.0 / (own + self.regularization)]])
        else:
            b = self.kernel(self.contexts, row)  # (n_seen, 1)
            g = self.inverse @ b
            k22 = 1.0 / (own + self.regularization - (b.T @ g)[0, 0])
            self.inverse = np.block([[self.inverse + k22 * g @ g.T, -k22 * g], [-k22 * g.T, np.array([[k22]])]])
            self.contexts = np.vstack([self.contexts, row])
        self.rewards = np.append(self.rewards, reward)

    def predict(self, X: Matrix) -> tuple[Vector, Vector]:
        points = np.atleast_2d(np.asarray(X, dtype=float))
        own = np.array([self.kernel(row[None], row[None])[0, 0] for row in points])
        if self.contexts is None:
            return np.zeros(len(points)), np.sqrt(own / self.regularization)
        similarity = self.kernel(self.contexts, points)  # (n_seen, n_points)
        mean = similarity.T @ self.inverse @ self.rewards
        unexplained = own - np.sum(similarity * (self.inverse @ similarity), axis=0)
        return mean, np.sqrt(np.maximum(unexplained, 0.0) / self.regularization)

    def choose(self, X: Matrix, *, exploration: float) -> int:
        mean, width = self.predict(X)
        return int(np.argmax(mean + exploration * width))


class SlowSupKernelUCB:
    """Algorithms 2 and 3 of Valko et al. (2013), corrected, every level refitted from scratch in every round.

    `explore` is the rule for the explored action: "widest", or "best score", which looks at means of its own level
    and thereby loses the independence that the proof needs.
    """

    def __init__(
        self,
        kernel: KernelFunction,
        regularization: float,
        *,
        horizon: int,
        scale: float,
        n_stages: int,
        explore: str = "widest",
    ) -> None:
        self.kernel, self.regularization, self.horizon, self.scale = kernel, regularization, horizon, scale
        self.explore = explore
        self.contexts: list[list[Vector]] = [[] for _ in range(n_stages + 1)]
        self.rewards: list[list[float]] = [[] for _ in range(n_stages + 1)]

    def predict(self, stage: int, points: Matrix) -> Prediction:
        own = np.array([self.kernel(row[None], row[None])[0, 0] for row in points])
        if not self.contexts[stage]:
            return Prediction(np.zeros(len(points)), np.sqrt(own / self.regularization))
        seen = np.array(self.contexts[stage])
        regularized = self.kernel(seen, seen) + self.regularization * np.eye(len(seen))
        similarity = self.kernel(seen, points)
        solved = np.linalg.solve(regularized, similarity)
        mean = solved.T @ np.array(self.rewards[stage])
        unexplained = own - np.sum(similarity * solved, axis=0)
        return Prediction(mean, np.sqrt(np.maximum(unexplained, 0.0) / self.regularization))

    def walk(self, contexts: Matrix) -> tuple[StageStep, ...]:
        stage, active, steps = 1, np.arange(len(contexts)), []
        while True:
            prediction = self.predict(stage, contexts[active])
            scaled = self.scale * prediction.width
            if np.all(scaled <= 1.0 / sqrt(self.horizon)):
                return (*steps, StageStep(stage, active, prediction, scaled, "exploit"))
            if not np.all(scaled <= 2.0**-stage):
                return (*steps, StageStep(stage, active, prediction, scaled, "explore"))
            steps.append(StageStep(stage, active, prediction, scaled, "narrow"))
            score = prediction.mean + scaled
            active = active[score >= np.max(score) - 2.0 ** (1 - stage)]
            stage += 1

    def choose(self, contexts: Matrix) -> tuple[int, int | None]:
        last = self.walk(contexts)[-1]
        score = last.prediction.mean + last.scaled_width
        if last.outcome == "exploit":
            return int(last.active[np.argmax(score)]), None
        if self.explore == "widest":
            return int(last.active[np.argmax(last.scaled_width)]), last.stage
        wide = last.scaled_width > 2.0**-last.stage
        return int(last.active[np.argmax(np.where(wide, score, -np.inf))]), last.stage

    def learn(self, context: Vector, stage: int | None, reward: float) -> None:
        if stage is not None:
            self.contexts[stage].append(np.asarray(context, dtype=float))
            self.rewards[stage].append(reward)
