"""What wrappers share that look at the means and widths inside."""

from __future__ import annotations

from kernelbandits.errors import InvalidParameter
from kernelbandits.policies.action_set import Actions
from kernelbandits.policies.posterior_policy import Estimate
from kernelbandits.policies.randomised.wrapped_policy import WrappedPolicy
from kernelbandits.policies.upper_confidence import UpperConfidencePolicy
from kernelbandits.types import Seed

__all__ = ["UpperConfidenceWrapper"]


class UpperConfidenceWrapper(WrappedPolicy):
    """Wraps a policy that takes the highest mean + exploration · width."""

    policy: UpperConfidencePolicy

    def __init__(self, policy: UpperConfidencePolicy, *, seed: Seed = None) -> None:
        if not isinstance(policy, UpperConfidencePolicy):
            raise InvalidParameter(
                f"{type(self).__name__} needs the means and widths of a policy that takes the highest upper confidence "
                f"bound, such as KernelUCB, LinUCB or GPUCB, got {type(policy).__name__}."
            )
        super().__init__(policy, seed=seed)

    def _estimate(self, actions: Actions) -> Estimate:
        """Mean and width of all eligible actions, and the exploration of this round."""
        policy = self.policy
        return policy._estimate(actions.points, actions.n_actions, policy._waiting(), policy.round_index)
