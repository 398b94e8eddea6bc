"""Marginalized importance weights, for many actions: ratios of probabilities of similar actions together."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from typing import Final

import numpy as np

from kernelbandits.environments import Log
from kernelbandits.errors import InvalidParameter
from kernelbandits.evaluation._inputs import check_log, points_of
from kernelbandits.evaluation.off_policy import (
    CONFIDENCE,
    IPS,
    Judged,
    OffPolicyEstimator,
    SelfNormalizedIPS,
    checked_clip,
    clipped,
    weight_warnings,
)
from kernelbandits.evaluation.targets import Place, Target
from kernelbandits.kernels import Kernel, as_kernel
from kernelbandits.policies.base import Policy
from kernelbandits.types import Matrix, Points, Vector
from kernelbandits.validation import check_bool, check_confidence, short_repr

__all__ = ["MarginalizedIPS"]

SIMILAR_TRUSTED: Final = (
    "The weights take actions that the kernel calls similar for actions of equal reward; where they are not, the "
    "value has a bias that the interval does not contain."
)


@dataclass(frozen=True)
class MarginalizedIPS(OffPolicyEstimator):
    """Marginalized inverse propensity scoring (MIPS) by similarity: value = (1/n) Σ w̄ r.

    With thousands of actions a logged one is almost never the target's, and the weights of `IPS` are 0 or huge. Here
    a logged action counts for all that are similar to it. Similarities K ≥ 0 describe actions as random neighbors e,
    P(e | a) = K(a, e) / Σ_b K(a, b), and the weight is the expected ratio of their probabilities,

        w̄(x, a) = Σ_e P(e | a) π(e | x) / μ(e | x),   π(e | x) = Σ_b π(b | x) P(e | b),

    with π the target and μ the logging policy: between `IPS` (every action similar to itself only, `Delta`) and the
    mean reward of the log (all equally similar). With K = 1 within groups and 0 between them it is the estimator of
    Saito and Joachims (2022) for groups: Σ π / Σ μ over the group of the logged action. The mean weight is 1 for any K.

    Unbiased if the expected reward given a neighbor is the same under both policies, as when actions of a neighborhood
    have equal rewards. It is also right where actions of the target were never logged, if similar ones were. The wider
    the similarity, the smaller the variance and the larger the bias (`studies/large_actions.py` shows where it wins).

    The log must have the probabilities of all actions: `Log(…, probabilities=…)`, `collect_log(…, probabilities=True)`.
    Cost: O(N²) for each distinct set of N actions and logging probabilities.

    Reference: Saito and Joachims (2022), Off-Policy Evaluation for Large Action Spaces via Embeddings.

    Parameters
    ----------
    kernel
        Similarity of the actions of a round, nowhere negative: `Gaussian` with a length scale over which rewards change
        little; `Columns(Delta(kind=Rows()), …)` or `Precomputed` for groups.
    clip
        Largest weight; None disables clipping.
    normalized
        Divide by the sum of the weights, as `SelfNormalizedIPS` does.
    confidence
        Confidence level of the normal interval.

    Examples
    --------
    >>> from kernelbandits.kernels import Precomputed, SimilarityTable
    >>> from kernelbandits.policies import UniformRandom
    >>> groups = SimilarityTable([[1, 1, 0], [1, 1, 0], [0, 0, 1]], ids=["tea", "mate", "soap"])
    >>> log = Log([["tea", "mate", "soap"]] * 4, actions=[0, 0, 0, 2], propensities=[0.75] * 3 + [0.25],
    ...           rewards=[1, 1, 1, 0], probabilities=[[0.75, 0.0, 0.25]] * 4)
    >>> round(MarginalizedIPS(Precomputed(groups)).estimate(log, UniformRandom()).value, 4)  # 3/4 · (2/3) / (3/4)
    0.6667
    """

    kernel: Kernel
    _: KW_ONLY
    clip: float | None = None
    normalized: bool = False
    confidence: float = CONFIDENCE

    def __post_init__(self) -> None:
        object.__setattr__(self, "kernel", as_kernel(self.kernel))
        object.__setattr__(self, "clip", checked_clip(self.clip))
        object.__setattr__(self, "normalized", check_bool(self.normalized, "`normalized`"))
        object.__setattr__(self, "confidence", check_confidence(self.confidence))

    def _judge(self, log: Log, policy: Policy) -> Judged:
        if check_log(log).probabilities is None:
            raise InvalidParameter(
                "Marginalized weights need the probabilities of all actions under the logging policy, and the log has "
                "those of the logged ones only. Give them: Log(…, probabilities=…), as policy.probabilities(contexts) "
                "has them, or collect_log(…, probabilities=True)."
            )
        target = Target.of(log, policy)
        every = self._weights(log, target)
        weights = clipped(every, self.clip)
        form = SelfNormalizedIPS() if self.normalized else IPS()
        value, error, terms = form._value([weights], [log.rewards])
        return Judged(
            value=value, error=error, terms=terms, places=[Place(log, replace(target, weights=every))],
            weights=[weights], warnings=(SIMILAR_TRUSTED, *weight_warnings(log, every, self.clip)),
        )  # fmt: skip

    def _weights(self, log: Log, target: Target) -> Vector:
        """Return w̄ of every round; the similarities of each distinct set are computed once."""
        assert log.probabilities is not None
        weights = np.empty(len(log))
        for place, contexts in enumerate(target.rounds.contexts):
            neighbors = self._neighbors(contexts)
            of_target = target.probabilities[place] @ neighbors
            of_rule: dict[bytes, Vector] = {}  # weights of all actions, by the probabilities of the logging policy
            for t in np.flatnonzero(target.rounds.which == place).tolist():
                shares = log.probabilities[t]
                key = shares.tobytes()
                if key not in of_rule:
                    of_log = shares @ neighbors
                    # Where the logging policy has no neighbor, P(e | a) is 0 for every action that it could log.
                    ratios = np.divide(of_target, of_log, out=np.zeros_like(of_log), where=of_log > 0.0)
                    of_rule[key] = neighbors @ ratios
                weights[t] = of_rule[key][log.actions[t]]
        return weights

    def _neighbors(self, contexts: Points) -> Matrix:
        """Return P(e | a), one row per action a; an action without similarity is its own neighbor."""
        similarity = self.kernel.gram(points_of(self.kernel.kind, contexts))
        if not similarity.min() >= 0.0:  # also catches NaN
            raise InvalidParameter(
                f"Similarities of actions must not be negative, got {float(similarity.min()):.3g} from "
                f"{short_repr(self.kernel)}. Gaussian, Matern and Delta have none below 0."
            )
        totals = similarity.sum(axis=1)
        similarity = np.where((totals > 0.0)[:, None], similarity, np.eye(len(totals)))
        return np.asarray(similarity / np.where(totals > 0.0, totals, 1.0)[:, None])
