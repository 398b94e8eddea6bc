"""BKB, BBKB, EK-UCB and CBBKB: upper confidence bounds on a dictionary that is drawn at random."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from functools import partial
from typing import Any

from kernelbandits._parameters import Parameter, parameter
from kernelbandits.kernels import Kernel, KernelLike
from kernelbandits.policies.base import KERNEL
from kernelbandits.policies.posterior_policy import ACCURACY, EXPLORATION
from kernelbandits.policies.upper_confidence import UpperConfidencePolicy
from kernelbandits.posterior import (
    BatchedResampling,
    Dictionary,
    NystroemPosterior,
    OnlineRowSampling,
    Posterior,
    Resampling,
)
from kernelbandits.posterior.base import checked_regularization
from kernelbandits.posterior.dictionaries import checked_threshold
from kernelbandits.theory.exploration import Exploration
from kernelbandits.validation import check_positive

__all__ = ["BBKB", "BKB", "CBBKB", "EKUCB"]

a_multiplier = partial(check_positive, name="The oversampling", hint="1 to 10 serve in practice.")


class _SampledDictionaryPolicy(UpperConfidencePolicy):
    """Base class: KernelUCB on a `NystroemPosterior`; the subclass defines the rule of the dictionary."""

    kernel: Parameter[KernelLike, Kernel] = parameter(KERNEL, kw_only=False)
    regularization: float = parameter(checked_regularization, default=1.0)
    exploration: Parameter[float | Exploration, Exploration] = parameter(EXPLORATION, default=1.0, is_assignable=True)

    @abstractmethod
    def _dictionary(self) -> Dictionary:
        """Return the rule of the dictionary."""

    def _new_posterior(self) -> Posterior:
        return NystroemPosterior(
            self.kernel,
            regularization=self.regularization,
            dictionary=self._dictionary(),
            seed=int.from_bytes(self._random.key[:6], "little"),
        )

    def _continue_from(self, before: Mapping[str, Any], state: Mapping[str, Any]) -> None:
        super()._continue_from(before, state)
        posterior = self.posterior
        assert isinstance(posterior, NystroemPosterior)
        posterior.begin_batch()  # the saved one is that of the former parameters


class BKB(_SampledDictionaryPolicy):
    """Budgeted kernel bandit: a dictionary that is redrawn after every reward (Calandriello et al. 2019, BKB).

    After a reward every learned context x with count n is kept with probability min(1, q · n · width²(x)), by widths of
    the current dictionary; then KernelUCB on the Nyström posterior of this dictionary, with DTC widths. With q = 6 ρ
    ln(4T/δ)/ε², ρ = (1 + ε)/(1 − ε), widths are within a factor ρ of the exact ones with probability 1 − δ, and the
    dictionary has O(q d̃) atoms; in practice q from 2 to 10 serves.

    The authors' factor on the width is 2R sqrt(ρ ln(κt) Σ width² + ln(1/δ)) + (1 + 1/sqrt(1 − ε)) sqrt(γ) B. The
    schedule SelfNormalized(noise_scale=R, norm_bound=B, failure_probability=δ) is its computable form: it uses what the
    dictionary actually leaves unexplained, so it holds for any q.

    All contexts are stored. With t distinct ones and m atoms a round costs O(N m² + t m²).

    Parameters
    ----------
    kernel, regularization, reward_range, ties
        As in `KernelUCB`.
    exploration
        Number of widths added to the mean: a number tuned to the problem, or a schedule.
    oversampling
        q > 0.
    seed
        Seed of the dictionary and of ties.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelbandits.kernels import Gaussian
    >>> policy = BKB(Gaussian(length_scale=0.3), regularization=0.1, exploration=0.2, seed=0)
    >>> contexts = np.linspace(0, 1, 5)[:, None]
    >>> for _ in range(10):
    ...     decision = policy.choose(contexts)
    ...     policy.learn(decision, reward=1.0 - abs(contexts[decision.action, 0] - 0.75))
    >>> policy.choose(contexts).action
    3
    """

    oversampling: float = parameter(a_multiplier, default=5.0)

    def _dictionary(self) -> Dictionary:
        return Resampling(oversampling=self.oversampling)


class BBKB(_SampledDictionaryPolicy):
    """Batched BKB: dictionary and means are fixed within adaptive batches (Calandriello et al. 2020, BBKB).

    Within a batch, widths shrink as contexts are chosen and learned, and means stay those of its start. The batch ends
    when 1 + Σ width² of its contexts, by the widths at its start, exceeds C; then the dictionary is redrawn as in
    BKB, and all rewards enter the means. A schedule with a guarantee is multiplied by sqrt(1 + Σ width²) ≤ sqrt(C +
    κ/γ), the factor by which the intervals of the start of the batch can be too wide for the current widths.

    The number of batches is O(d̃ ln T), so the amortized cost of a round is that of the queries, O(N m²).

    Parameters
    ----------
    kernel, regularization, exploration, oversampling, reward_range, ties, seed
        As in `BKB`.
    threshold
        C > 1.

    Examples
    --------
    >>> from kernelbandits.kernels import Gaussian
    >>> policy = BBKB(Gaussian(length_scale=0.3), regularization=0.1, threshold=1.5, seed=0)
    >>> policy.learn(policy.choose([[0.1], [0.9]]), 1.0)
    >>> policy.posterior.certificate.n_atoms
    1
    """

    oversampling: float = parameter(a_multiplier, default=5.0)
    threshold: float = parameter(checked_threshold, default=2.0)

    def _dictionary(self) -> Dictionary:
        return BatchedResampling(oversampling=self.oversampling, threshold=self.threshold)


class EKUCB(_SampledDictionaryPolicy):
    """Efficient contextual kernel UCB: a dictionary by online row sampling (Zenati et al. 2022, EK-UCB).

    A learned context enters the dictionary with probability min(1, β τ), τ its ridge leverage score as estimated from
    the atoms and their probabilities (KORS); atoms stay. Means are always current. The score is the corrected one:
    (1 + ε) e / (e + μ), with e what the weighted atoms do not explain. ρ ≤ μ/(1 − ε) with high probability for β =
    3 ln(T/δ)/ε²; in practice β from 1 to 10 serves. SelfNormalized is the factor of the paper with the residual that is
    actually there.

    All contexts are stored. A round costs O(N m²), and O(t m) more when an atom is added.

    Parameters
    ----------
    kernel, regularization, exploration, reward_range, ties, seed
        As in `BKB`.
    oversampling
        β > 0.
    accuracy
        ε in (0, 1).
    projection
        μ as a multiple of the regularization.

    Examples
    --------
    >>> from kernelbandits.kernels import Gaussian
    >>> policy = EKUCB(Gaussian(length_scale=0.3), regularization=0.1, seed=0)
    >>> policy.learn(policy.choose([[0.1], [0.9]]), 1.0)
    >>> policy.posterior.certificate.n_atoms
    1
    """

    oversampling: float = parameter(a_multiplier, default=2.0)
    accuracy: float = parameter(ACCURACY, default=0.5)
    projection: float = parameter(partial(check_positive, name="The projection parameter"), default=1.0)

    def _dictionary(self) -> Dictionary:
        return OnlineRowSampling(oversampling=self.oversampling, accuracy=self.accuracy, projection=self.projection)


class CBBKB(_SampledDictionaryPolicy):
    """Contextual batched BKB: the dictionary is fixed within adaptive batches (Zenati et al. 2022, CBBKB).

    As BBKB, but rewards enter the means at once: only the drawing of the dictionary is batched.

    Parameters
    ----------
    kernel, regularization, exploration, oversampling, threshold, reward_range, ties, seed
        As in `BBKB`.

    Examples
    --------
    >>> from kernelbandits.kernels import Gaussian
    >>> policy = CBBKB(Gaussian(length_scale=0.3), regularization=0.1, seed=0)
    >>> policy.learn(policy.choose([[0.1], [0.9]]), 1.0)
    >>> policy.choose([[0.1], [0.9]]).action
    1
    """

    oversampling: float = parameter(a_multiplier, default=5.0)
    threshold: float = parameter(checked_threshold, default=2.0)

    def _dictionary(self) -> Dictionary:
        return BatchedResampling(oversampling=self.oversampling, threshold=self.threshold, batch="dictionary")
