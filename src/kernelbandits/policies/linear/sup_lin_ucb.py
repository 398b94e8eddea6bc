"""SupLinUCB."""

from __future__ import annotations

from typing import Literal

from kernelbandits.kernels import Linear
from kernelbandits.policies.levels import BaseKernelUCB, LevelPolicy
from kernelbandits.types import Parameters

__all__ = ["SupLinUCB"]


class SupLinUCB(LevelPolicy):
    """SupKernelUCB with the linear kernel in primal form (Chu et al. 2011): a round costs O(N d²) a level, whatever t.

    Chu et al. threshold α · width while their lemma proves (α + 1) · width for ‖θ‖ ≤ 1: the same gap as erratum E1,
    closed here by the valid scale (norm_bound=1.0).

    Parameters
    ----------
    regularisation, horizon, n_actions, failure_probability, norm_bound, noise_scale, reward_range, mode, scale
        As in SupKernelUCB, and so are `unknown_horizon` and `explore`.

    Examples
    --------
    >>> import numpy as np
    >>> policy = SupLinUCB(horizon=100, n_actions=2, norm_bound=1.0)
    >>> policy.choose(np.array([[0.6, 0.0], [0.0, 1.0]])).action
    1
    """

    def __init__(
        self,
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
        return BaseKernelUCB(Linear(), regularisation=self._regularisation, posterior="primal")

    def _parameters(self) -> Parameters:
        return self._level_parameters()
