"""SupKernelUCB."""

from __future__ import annotations

from typing import Literal

from kernelbandits.kernels import Kernel, KernelLike, as_kernel
from kernelbandits.policies.levels import BaseKernelUCB, LevelPolicy
from kernelbandits.types import Parameters

__all__ = ["SupKernelUCB"]


class SupKernelUCB(LevelPolicy):
    """Elimination by levels, with the sqrt(d̃T) guarantee of the corrected theorem (Valko et al. 2013, SupKernelUCB).

    A round starts at level 1 with all actions. At level s, with w = scale · width from that level's rounds only:

    - every w ≤ 1/sqrt(T): play the highest mean + w, and learn nothing from it;
    - every w ≤ 2^(−s): keep the actions within 2^(1−s) of the highest mean + w, and go to level s + 1;
    - otherwise: play the widest action, and let level s learn from it.

    It explores for a very long time: it is the method with the proof, not the one with the best curve. A smaller
    `scale` set by hand shows what lies between. `choose` costs one prediction per level visited.

    Parameters
    ----------
    kernel, regularisation
        As in KernelUCB.
    horizon, n_actions
        Rounds to come and the most actions in one of them; a round with more is refused. horizon None: unknown, see
        `unknown_horizon`; n_actions None (unknown horizon only): the most seen so far.
    failure_probability
        With probability 1 − this, every interval of every round and level holds.
    norm_bound
        B ≥ ‖f‖ in the kernel's space; needed in valid mode unless `scale` is given.
    noise_scale
        R of the sub-Gaussian noise; None: half the length of the reward range.
    reward_range
        Rewards outside are refused; thresholds are multiplied by its length (but in paper mode, which prints them for
        length 1).
    mode
        "valid": scale R sqrt(2 ln(2NTS/δ)) + sqrt(γ) B, which the proof needs. "paper": the printed
        sqrt(2 ln(2TN/δ)), which can lose the best action for good (docs/errata.md, E1).
    scale
        Set the scale by hand; no guarantee.
    unknown_horizon
        "anytime": thresholds and scale grow with the round, nothing is thrown away. "doubling": fresh levels in epochs
        of 1, 2, 4, … rounds.
    explore
        Which wide action to explore: the "widest", or the "lowest" row.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelbandits.kernels import Gaussian
    >>> policy = SupKernelUCB(Gaussian(length_scale=0.5), horizon=1000, n_actions=3, norm_bound=1.0)
    >>> decision = policy.choose(np.array([[0.1], [0.5], [0.9]]))
    >>> decision.stage
    1
    >>> policy.learn(decision, reward=0.4)
    >>> [step.outcome for step in policy.walk(np.array([[0.1], [0.5], [0.9]]))]
    ['explore']
    """

    def __init__(
        self,
        kernel: KernelLike,
        *,
        regularisation: float = 1.0,
        horizon: int | None = None,
        n_actions: int | None = None,
        failure_probability: float = 0.05,
        norm_bound: float | None = None,
        noise_scale: float | None = None,
        reward_range: tuple[float, float] = (0.0, 1.0),
        mode: Literal["valid", "paper"] = "valid",
        scale: float | None = None,
        unknown_horizon: Literal["anytime", "doubling"] = "anytime",
        explore: Literal["widest", "lowest"] = "widest",
    ) -> None:
        self.kernel: Kernel = as_kernel(kernel)
        self._regularisation = regularisation
        super().__init__(
            horizon=horizon,
            n_actions=n_actions,
            failure_probability=failure_probability,
            norm_bound=norm_bound,
            noise_scale=noise_scale,
            reward_range=reward_range,
            mode=mode,
            scale=scale,
            unknown_horizon=unknown_horizon,
            explore=explore,
        )

    def _new_level(self) -> BaseKernelUCB:
        return BaseKernelUCB(self.kernel, regularisation=self._regularisation)

    def _parameters(self) -> Parameters:
        return {"kernel": self.kernel.describe(), **self._level_parameters()}
