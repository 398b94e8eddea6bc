"""GP-UCB and CGP-UCB: KernelUCB with the parameters of a Gaussian process."""

from __future__ import annotations

from typing import Literal

from kernelbandits.errors import ForeignFile, InvalidParameter
from kernelbandits.kernels import Kernel, KernelLike, PairProduct, PairSum, as_kernel
from kernelbandits.policies.base import Policy, Saved
from kernelbandits.policies.upper_confidence import UpperConfidencePolicy
from kernelbandits.posterior import cheapest_exact
from kernelbandits.selection.ties import Ties
from kernelbandits.theory.exploration import Exploration, GPUCBFinite, as_exploration
from kernelbandits.types import Parameters, Seed
from kernelbandits.validation import is_one_of, short_repr

__all__ = ["CGPUCB", "GPUCB"]


class _GaussianProcessPolicy(UpperConfidencePolicy):
    """Upper confidence bounds of a Gaussian process: regularization = noise variance, exploration = sqrt(γ β)."""

    def __init__(
        self,
        kernel: Kernel,
        *,
        noise_variance: float,
        exploration: float | Exploration | None,
        failure_probability: float,
        reward_range: tuple[float, float] | None,
        ties: Ties,
        seed: Seed,
    ) -> None:
        self.kernel: Kernel = kernel
        schedule = GPUCBFinite(failure_probability=failure_probability) if exploration is None else exploration
        super().__init__(
            cheapest_exact(kernel, regularization=noise_variance),
            as_exploration(schedule),
            reward_range=reward_range,
            ties=ties,
            seed=seed,
        )

    @property
    def noise_variance(self) -> float:
        """Variance of the reward noise: the posterior's regularization."""
        return self.posterior.regularization

    def _parameters(self) -> Parameters:
        return {
            "kernel": self.kernel.describe(),
            "noise_variance": self.noise_variance,
            "exploration": self.exploration.describe(),
            "reward_range": self.reward_range,
            "ties": self._ties,
        }


class GPUCB(_GaussianProcessPolicy):
    """Select the highest mean + sqrt(β) · standard deviation of a Gaussian process (Srinivas et al. 2010).

    KernelUCB with regularization = noise variance: the standard deviation of the process is sqrt(γ) · width, hence
    exploration η = sqrt(γ β). (Not the noise *level*: erratum E10.)

    Parameters
    ----------
    kernel
        Prior covariance of the rewards, in any form that KernelUCB accepts.
    noise_variance
        Variance of the reward noise.
    exploration
        Multiplier of `width`, a number or a schedule. None: β_t = 2 ln(N t² π² / 6δ), the schedule for finitely many
        actions at `failure_probability`. In practice, its authors divide β by 5: GPUCBFinite(divide_by=5).
    reward_range, ties, seed
        As in KernelUCB. The cost of a round is also that of KernelUCB.

    Examples
    --------
    >>> from kernelbandits.kernels import Gaussian
    >>> policy = GPUCB(Gaussian(length_scale=0.2), noise_variance=0.01)
    >>> decision = policy.choose([[0.1], [0.9]])
    >>> policy.learn(decision, reward=0.3)
    >>> policy.choose([[0.1], [0.9]]).action
    1
    """

    def __init__(
        self,
        kernel: KernelLike,
        *,
        noise_variance: float,
        exploration: float | Exploration | None = None,
        failure_probability: float = 0.1,
        reward_range: tuple[float, float] | None = None,
        ties: Ties = "lowest",
        seed: Seed = None,
    ) -> None:
        super().__init__(
            as_kernel(kernel),
            noise_variance=noise_variance,
            exploration=exploration,
            failure_probability=failure_probability,
            reward_range=reward_range,
            ties=ties,
            seed=seed,
        )


class CGPUCB(_GaussianProcessPolicy):
    """GP-UCB over pairs of a shared context and an action, each with its own kernel (Krause and Ong 2011).

    Parameters
    ----------
    context_kernel, action_kernel
        Similarity of contexts and of actions.
    combine
        "product": pairs are similar if both context and action are similar; "sum": information about either transfers
        to other pairs.
    noise_variance, exploration, failure_probability, reward_range, ties, seed
        As in GPUCB. The cost of a round is also that of GPUCB; similarities of pairs that share a context are computed
        once per distinct action.

    Examples
    --------
    >>> import kernelbandits as kb
    >>> policy = kb.CGPUCB(context_kernel=kb.kernels.Gaussian(length_scale=0.3), action_kernel=kb.kernels.Delta(),
    ...                    noise_variance=0.01)
    >>> decision = policy.choose(kb.Pairs(context=[0.2, 0.7], actions=["red", "blue"]))
    >>> policy.learn(decision, reward=0.0)
    >>> policy.choose(kb.Pairs(context=[0.2, 0.7], actions=["red", "blue"])).context.actions
    'blue'
    """

    def __init__(
        self,
        *,
        context_kernel: KernelLike,
        action_kernel: KernelLike,
        combine: Literal["product", "sum"] = "product",
        noise_variance: float,
        exploration: float | Exploration | None = None,
        failure_probability: float = 0.1,
        reward_range: tuple[float, float] | None = None,
        ties: Ties = "lowest",
        seed: Seed = None,
    ) -> None:
        if not is_one_of(combine, ("product", "sum")):
            raise InvalidParameter(f"The kernels are combined by 'product' or 'sum', got {short_repr(combine)}.")
        pair = PairProduct if combine == "product" else PairSum
        super().__init__(
            pair(as_kernel(context_kernel), as_kernel(action_kernel)),
            noise_variance=noise_variance,
            exploration=exploration,
            failure_probability=failure_probability,
            reward_range=reward_range,
            ties=ties,
            seed=seed,
        )

    @classmethod
    def _build(cls, saved: Saved) -> Policy:
        kernel = saved.kernel
        if not isinstance(kernel, PairProduct | PairSum):
            raise ForeignFile(f"CGP-UCB needs a kernel over pairs, got {kernel!r}.")
        halves = {
            "context_kernel": kernel.context,
            "action_kernel": kernel.action,
            "combine": "product" if isinstance(kernel, PairProduct) else "sum",
        }
        return super()._build(saved._replace(parameters={**saved.parameters, **halves}, kernel=None))
