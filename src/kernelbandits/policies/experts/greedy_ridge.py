"""The expert that was taught beforehand: kernel ridge regression, played greedily."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kernelbandits.errors import InvalidContexts
from kernelbandits.kernels import Kernel, KernelLike, as_kernel, unpack_kernel
from kernelbandits.kernels.points import digest_of
from kernelbandits.policies.experts.advice import JointAdvice, all_on
from kernelbandits.posterior import ExactPosterior
from kernelbandits.selection.ties import best_of_each
from kernelbandits.types import Matrix, Parameters, Points, Vector

__all__ = ["GreedyRidge"]


@dataclass(frozen=True, eq=False)
class GreedyRidge:
    """The action of highest estimated reward Σ α k(x, z) over points z; among tied ones the lowest row.

    Made by `taught`: α are the dual weights of kernel ridge regression, α = (K + γI)⁻¹ y.

    >>> from kernelbandits.kernels import Linear
    >>> GreedyRidge.taught(Linear(), [[1.0], [2.0]], [0.1, 0.4], regularisation=0.5).advise([[0.5], [3.0]])
    array([0., 1.])
    """

    kernel: Kernel
    regularisation: float
    points: Points
    weights: Vector

    @classmethod
    def taught(cls, kernel: KernelLike, contexts: Points, rewards: ArrayLike, *, regularisation: float) -> GreedyRidge:
        """The model of these actions and what they paid.

        Parameters
        ----------
        kernel
            Similarity of actions.
        contexts
            Actions that were played, one per reward.
        rewards
            What they paid.
        regularisation
            γ, above zero.
        """
        posterior = ExactPosterior(as_kernel(kernel), regularisation=regularisation)
        posterior.observe(contexts, rewards)
        if not posterior.n_observations:
            raise InvalidContexts("A ridge expert is taught by at least one action and its reward, got none.")
        points, weights, _, _ = posterior.support()
        kind = posterior.kernel.kind
        own = kind.take(points, np.arange(kind.count(points)))  # a copy: the caller's may change
        return cls(posterior.kernel, posterior.regularisation, own, weights)

    def estimate(self, contexts: Points) -> Vector:
        """Estimated reward of each action."""
        estimates: Vector = self.kernel.gram(self.kernel.kind.check(contexts), self.points) @ self.weights
        return estimates

    def advise(self, contexts: Points) -> Vector:
        """1 at the action of highest estimate."""
        estimates = self.estimate(contexts)
        advice: Vector = all_on(best_of_each(estimates[None]), len(estimates))[0]
        return advice

    @staticmethod
    def together(experts: Sequence[GreedyRidge]) -> JointAdvice:
        """The advice of many: one Gram matrix for all of the same kernel and points."""
        groups: dict[tuple[int, str], list[int]] = {}
        kernels: list[Kernel] = []
        for place, expert in enumerate(experts):
            known = next((n for n, kernel in enumerate(kernels) if kernel == expert.kernel), len(kernels))
            if known == len(kernels):
                kernels.append(expert.kernel)
            groups.setdefault((known, expert.points_digest()), []).append(place)
        stacked = [
            (experts[rows[0]], rows, np.array([experts[row].weights for row in rows])) for rows in groups.values()
        ]

        def advice(contexts: Points, n_actions: int) -> Matrix:
            estimates = np.empty((len(experts), n_actions))
            for first, rows, weights in stacked:
                kernel = first.kernel
                estimates[rows] = weights @ kernel.gram(first.points, kernel.kind.check(contexts))
            return all_on(best_of_each(estimates), n_actions)

        return advice

    def points_digest(self) -> str:
        """Equal for equal points."""
        return digest_of(self.kernel.kind, self.points)

    def describe(self) -> Parameters:
        """Class and parameters as plain values."""
        return {
            "class": "GreedyRidge",
            "kernel": self.kernel.describe(),
            "regularisation": self.regularisation,
            "points": self.points_digest(),
            "weights": hashlib.sha256(self.weights.tobytes()).hexdigest()[:16],
        }

    def pack(self) -> Parameters:
        """Plain values and arrays, for a file; CannotSave where the kernel is one of your own."""
        parameters, arrays = self.kernel.pack()
        return {
            "kernel": {"parameters": parameters, "arrays": arrays},
            "regularisation": self.regularisation,
            "points": self.kernel.kind.pack(self.points),
            "weights": self.weights,
        }

    @classmethod
    def unpack(cls, packed: Mapping[str, Any]) -> GreedyRidge:
        """Inverse of `pack`."""
        kernel = unpack_kernel(packed["kernel"]["parameters"], packed["kernel"]["arrays"])
        return cls(kernel, packed["regularisation"], kernel.kind.unpack(packed["points"]), packed["weights"])
