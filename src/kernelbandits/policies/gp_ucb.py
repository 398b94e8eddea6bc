"""GP-UCB and CGP-UCB: KernelUCB with the parameters of a Gaussian process."""

from __future__ import annotations

from abc import abstractmethod
from typing import Final, Literal

from kernelbandits._parameters import Parameter, one_of, parameter
from kernelbandits._transactions import handles_transaction
from kernelbandits.errors import ForeignFile
from kernelbandits.kernels import Kernel, KernelLike, PairProduct, PairSum
from kernelbandits.policies.base import KERNEL, Policy, Saved
from kernelbandits.policies.posterior_policy import ACCURACY, BUDGET, EXPLORATION
from kernelbandits.policies.upper_confidence import UpperConfidencePolicy
from kernelbandits.posterior import Posterior, cheapest_exact
from kernelbandits.posterior.base import checked_regularization
from kernelbandits.theory.exploration import Exploration, GPUCBFinite
from kernelbandits.validation import check_probability

__all__ = ["CGPUCB", "GPUCB"]


PRACTICAL_DIVISOR: Final = 20.0
"""Divisor of β by default: the best of a grid on problems apart is between 20 and 50 (docs/defaults.md)."""


class _GaussianProcessPolicy(UpperConfidencePolicy):
    """Upper confidence bounds of a Gaussian process: regularization = noise variance, exploration = sqrt(γ β)."""

    noise_variance: float = parameter(checked_regularization)
    exploration: Parameter[float | Exploration | None, Exploration] = parameter(
        EXPLORATION, default=None, is_assignable=True
    )
    failure_probability: float = parameter(check_probability, default=0.05)
    budget: int | None = parameter(BUDGET, default=None)
    accuracy: float | None = parameter(ACCURACY, default=None)

    @abstractmethod
    def _new_kernel(self) -> Kernel:
        """Return the covariance of the process."""

    def _new_posterior(self) -> Posterior:
        return cheapest_exact(
            self._new_kernel(), regularization=self.noise_variance, budget=self.budget, accuracy=self.accuracy
        )

    def _first_exploration(self) -> Exploration:
        if self.exploration is None:
            schedule = GPUCBFinite(failure_probability=self.failure_probability, divide_by=PRACTICAL_DIVISOR)
            self._resolve(exploration=schedule)
        return self.exploration


class GPUCB(_GaussianProcessPolicy):
    """Select the highest mean + sqrt(β) · deviation of a Gaussian process (Srinivas et al. 2010).

    KernelUCB with regularization = noise variance: the standard deviation of the process is sqrt(γ) · width, hence
    exploration η = sqrt(γ β). (Not the noise *level*: erratum E10.) A round costs as much as with KernelUCB.

    Parameters
    ----------
    kernel
        Prior covariance of the rewards, in any form that KernelUCB accepts.
    noise_variance
        Variance of the reward noise.
    exploration
        Multiplier of `width`, a number or a schedule. None: a twentieth of β_t = 2 ln(N t² π² / 6δ), the schedule for
        finitely many actions at `failure_probability`; that of the theorem is GPUCBFinite(failure_probability=δ). In
        practice, its authors divide β by 5.
    failure_probability
        δ of that schedule.
    budget, accuracy, reward_range, ties, seed
        As in `KernelUCB`.

    Examples
    --------
    >>> from kernelbandits.kernels import Gaussian
    >>> policy = GPUCB(Gaussian(length_scale=0.2), noise_variance=0.01)
    >>> decision = policy.choose([[0.1], [0.9]])
    >>> policy.learn(decision, reward=0.3)
    >>> policy.choose([[0.1], [0.9]]).action
    1
    """

    kernel: Parameter[KernelLike, Kernel] = parameter(KERNEL, kw_only=False)

    def _new_kernel(self) -> Kernel:
        return self.kernel


class CGPUCB(_GaussianProcessPolicy):
    """GP-UCB over pairs of a shared context and an action, each with its own kernel (Krause and Ong 2011).

    A round costs as much as with GPUCB; similarities of pairs with the same context are computed once per action.

    Parameters
    ----------
    context_kernel, action_kernel
        Similarity of contexts and of actions.
    combine
        "product": pairs are similar if both context and action are similar; "sum": information about either transfers
        to other pairs.
    noise_variance, exploration, failure_probability, budget, accuracy, reward_range, ties, seed
        As in `GPUCB`.

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

    context_kernel: Parameter[KernelLike, Kernel] = parameter(KERNEL)
    action_kernel: Parameter[KernelLike, Kernel] = parameter(KERNEL)
    combine: Literal["product", "sum"] = parameter(
        one_of("product", "sum", message="The kernels are combined by 'product' or 'sum'"), default="product"
    )

    @property
    @handles_transaction
    def kernel(self) -> Kernel:
        """Similarity of pairs."""
        return self.posterior.kernel

    def _new_kernel(self) -> Kernel:
        pair = PairProduct if self.combine == "product" else PairSum
        return pair(self.context_kernel, self.action_kernel)

    @classmethod
    def _build(cls, saved: Saved) -> Policy:
        kernel = saved.kernel
        if not isinstance(kernel, PairProduct | PairSum):
            raise ForeignFile(f"CGP-UCB needs a kernel over pairs, got {kernel!r}.")
        halves = {"context_kernel": kernel.context, "action_kernel": kernel.action}
        return super()._build(saved._replace(structure={**saved.structure, **halves}))
