"""UCB1."""

from __future__ import annotations

from math import log

import numpy as np

from kernelbandits.checks import positive
from kernelbandits.policies.index.index_policy import IndexPolicy
from kernelbandits.policies.ties import Ties
from kernelbandits.types import Parameters, Seed, Vector

__all__ = ["UCB1"]


class UCB1(IndexPolicy):
    """Play every action once, then the highest mean + sqrt(2 ln t / n) (Auer, Cesa-Bianchi and Fischer 2002).

    n counts an action's own plays and t the rounds, for rewards in [0, 1]; those of another range are scaled to it.
    The same as KernelUCB with the `Delta` kernel, regularisation → 0 and exploration sqrt(2 ln t). Contexts are not
    looked at: `ids`, or the rows where there are none, say which action is which. A round costs O(N).

    The guarantee (each suboptimal action is played O(ln T / gap²) times) is for a fixed set of actions whose rewards
    are independent draws and come before the next choice. Sets may change all the same; an action that was never
    played is then played first. Awaited decisions count in n and t at once, and not in the mean.

    Parameters
    ----------
    exploration_factor
        Multiplies sqrt(2 ln t / n). 1 is the paper's; 0.2 to 0.5 usually learns faster and proves nothing.
    reward_range
        Smallest and largest reward; others are refused.
    ties
        "lowest" row, or one at "random" drawn from `seed`, with its propensity in the decision.

    Examples
    --------
    >>> policy = UCB1()
    >>> for reward in (1.0, 0.0, 0.0):
    ...     policy.learn(policy.choose(["red", "green", "blue"]), reward)
    >>> policy.choose(["red", "green", "blue"]).context
    'red'
    """

    def __init__(
        self,
        *,
        exploration_factor: float = 1.0,
        reward_range: tuple[float, float] = (0.0, 1.0),
        ties: Ties = "lowest",
        seed: Seed = None,
    ) -> None:
        super().__init__(reward_range=reward_range, ties=ties, seed=seed)
        self._exploration_factor = positive(exploration_factor, "The exploration factor", "1.0 is the paper's.")

    def _indices(self, means: Vector, plays: Vector, t: int) -> Vector:
        return means + self._exploration_factor * np.sqrt(2.0 * log(t) / plays)

    def _parameters(self) -> Parameters:
        return {
            "exploration_factor": self._exploration_factor,
            "reward_range": self.reward_range,
            "ties": self._ties,
        }
