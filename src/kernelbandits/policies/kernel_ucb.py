"""KernelUCB."""

from __future__ import annotations

from typing import Literal

from kernelbandits.checks import is_one_of, shown
from kernelbandits.errors import InvalidParameter
from kernelbandits.kernels import Kernel, KernelLike, as_kernel
from kernelbandits.policies.ties import Ties
from kernelbandits.policies.upper_confidence import UpperConfidencePolicy
from kernelbandits.posterior import PosteriorFactory, describe_posterior, posterior_factory
from kernelbandits.posterior.factory import make_posterior
from kernelbandits.theory.widths import Exploration, as_exploration
from kernelbandits.types import Parameters, Seed

__all__ = ["KernelUCB"]


class KernelUCB(UpperConfidencePolicy):
    """Take the action of highest mean + exploration · width (Valko et al. 2013, KernelUCB with online updates).

    Ridge regression in the feature space of the kernel gives mean and width of every action of the round from the
    rewards learnt so far; actions never tried are judged by their similarity to actions that were. Choosing among N
    actions after learning from m distinct contexts costs O(N m) and O(m²) for each action that may be the best, O(N m²)
    where all widths have to be known; learning costs O(m²), or O(m) for what was chosen just before.

    Parameters
    ----------
    kernel
        A kernel, a square table of similarities, a scikit-learn kernel, or a function (first, second) → matrix.
    regularisation
        γ > 0: how much evidence it takes to leave the prior belief that every reward is 0.
    exploration
        How many widths above its mean an action is judged: a number tuned to the problem (0.1 to 2), or a schedule of
        `kernelbandits.theory.widths` such as `Mixture`, whose confidence statement is proved.
    posterior
        "auto" (the cheaper exact form), "exact", "primal", or a function (kernel, regularisation) → posterior. For
        rewards that change with time: posterior_factory("windowed", length=200) or
        posterior_factory("forgetting", rate=0.99); then all actions are scored, and exploration has to be tuned.
    reward_range
        Rewards outside it are refused; None takes any finite number.
    ties
        Scores within 1e-10 of the best are tied, and go to the "lowest" row, or to one at "random" drawn from `seed`,
        with its propensity in the decision. "exact" is the plain argmax: the last digit decides, and all are scored.
    engine
        "auto" finds the best action without scoring all where it can; "exhaustive" scores every one, to compare with.
        The choices are the same, so it is no part of the fingerprint and of files.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelbandits.kernels import Gaussian
    >>> policy = KernelUCB(Gaussian(length_scale=0.3), regularisation=0.1, exploration=0.2)
    >>> contexts = np.linspace(0, 1, 5)[:, None]
    >>> for _ in range(10):
    ...     decision = policy.choose(contexts)
    ...     policy.learn(decision, reward=1.0 - abs(contexts[decision.action, 0] - 0.75))
    >>> policy.choose(contexts).action
    3
    """

    def __init__(
        self,
        kernel: KernelLike,
        *,
        regularisation: float = 1.0,
        exploration: float | Exploration = 1.0,
        posterior: str | PosteriorFactory = "auto",
        reward_range: tuple[float, float] | None = None,
        ties: Ties = "lowest",
        seed: Seed = None,
        engine: Literal["auto", "exhaustive"] = "auto",
    ) -> None:
        if not is_one_of(engine, ("auto", "exhaustive")):
            raise InvalidParameter(f"The engine is 'auto', or 'exhaustive' to score every action, got {shown(engine)}.")
        self.kernel: Kernel = as_kernel(kernel)
        self._form = posterior_factory(posterior)
        super().__init__(
            make_posterior(self._form, self.kernel, regularisation),
            as_exploration(exploration),
            reward_range=reward_range,
            ties=ties,
            seed=seed,
        )
        self._uses_engines = self._uses_engines and engine == "auto"

    def _parameters(self) -> Parameters:
        return {
            "kernel": self.kernel.describe(),
            "regularisation": self.posterior.regularisation,
            "exploration": self.exploration.describe(),
            "posterior": describe_posterior(self._form),
            "reward_range": self.reward_range,
            "ties": self._ties,
        }
