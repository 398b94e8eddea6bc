"""Phased elimination."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from math import ceil, sqrt
from typing import Any, Final

import numpy as np

from kernelbandits._saved_state import saved_array, saved_count, saved_part
from kernelbandits.errors import DamagedFile, DecisionError, InvalidParameter, NotSupported
from kernelbandits.kernels import Kernel, KernelLike, as_kernel
from kernelbandits.policies.comparators.fixed_set import FixedActionsPolicy
from kernelbandits.policies.explanation import Explanation, explanation_of
from kernelbandits.posterior import Pending, Posterior, PosteriorFactory, describe_posterior, posterior_factory
from kernelbandits.posterior.factory import make_posterior
from kernelbandits.selection import Catalog, tied_for_best
from kernelbandits.selection.actions import Actions
from kernelbandits.selection.selectors import Selectors
from kernelbandits.theory.exploration import FixedDesign, Situation
from kernelbandits.types import Decision, Indices, Parameters, Points, Prediction, Selection
from kernelbandits.validation import a_count, a_probability, not_negative, positive

__all__ = ["PhasedElimination"]

FIRST_LENGTH: Final = 8
"""Plays of the first phase where the horizon is not known; fewer drop nothing."""

MOST_PHASES: Final = 1000
"""In a file: without a horizon phases double, with one they soon are as long as it."""


class PhasedElimination(FixedActionsPolicy):
    """Explore purely in phases, and drop after each what cannot be best (Li and Scarlett 2022; Vakili et al. 2021).

    Phase i starts without data. Each of its N_i plays takes the widest of the actions still active; then, with mean
    and width from this phase's plays only, all actions are dropped for which

        mean + scale · width < highest mean − scale · width.

    Widths do not depend on rewards, so a phase's plays are settled before its first reward is known: the narrow
    interval of a fixed design holds, and the regret is of the order sqrt(T · information gain), as that of SupKernelUCB
    but for one fixed set. Like it, it explores long; KernelUCB usually has the better curve. Known horizon:
    N_i = ceil(sqrt(T · N_{i−1})), N_0 = 1, about log log T phases. Unknown: 8, 16, 32, … plays. What an earlier phase
    has learnt is not used again but for what it dropped.

    A round costs O(N) and the bookkeeping of one pull among N actions, which grows with the plays of the phase at
    distinct actions; O(N m²) for m such plays where the kernel is not one of this library's formulas.

    Rewards may come late. Awaited plays count as plays of their phase. Once all N_i plays are made, and until the last
    of their rewards is learnt or withdrawn, the active action of highest mean is played, and nothing learns from it;
    likewise where no eligible action is active. A reward that comes after its phase has ended (its decision was never
    expected) is learnt by nothing. A reward can be corrected or taken back while its phase lasts.

    Parameters
    ----------
    kernel
        As in KernelUCB.
    actions
        The fixed set; every round has to bring the same.
    regularization
        γ > 0. The valid scale contains sqrt(γ) B, so that a γ of about (R/B)² drops far sooner than 1.
    horizon
        T, which sets the lengths of the phases; None: unknown, they double.
    failure_probability
        With probability 1 − this, all intervals of all phases hold and the best action is never dropped; phase i has
        a share of 1/(i (i + 1)) of it.
    norm_bound
        B ≥ ‖f‖ in the kernel's space; needed unless `scale` is given.
    noise_scale
        R of the sub-Gaussian noise; None: half the length of the reward range.
    scale
        Set the scale by hand; no guarantee. None: R sqrt(2 ln(2 · active actions / share)) + sqrt(γ) B. 0.2 to 1 drops
        much sooner, and now and then the best action.
    posterior
        As in KernelUCB.
    reward_range
        Rewards outside are refused; None takes any finite number.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelbandits.kernels import Gaussian
    >>> actions = np.linspace(0, 1, 11)[:, None]
    >>> policy = PhasedElimination(Gaussian(length_scale=0.3), actions, regularization=0.01, horizon=400,
    ...                            norm_bound=2.0, noise_scale=0.1)
    >>> for _ in range(400):
    ...     decision = policy.choose(actions)
    ...     policy.learn(decision, reward=1.0 - abs(actions[decision.action, 0] - 0.7))
    >>> policy.phase, actions[policy.active].ravel()
    (4, array([0.5, 0.6, 0.7, 0.8, 0.9]))
    """

    learns_from_any_action = True

    def __init__(
        self,
        kernel: KernelLike,
        actions: Points,
        *,
        regularization: float = 1.0,
        horizon: int | None = None,
        failure_probability: float = 0.05,
        norm_bound: float | None = None,
        noise_scale: float | None = None,
        scale: float | None = None,
        posterior: str | PosteriorFactory = "auto",
        reward_range: tuple[float, float] | None = (0.0, 1.0),
    ) -> None:
        self.kernel: Kernel = as_kernel(kernel)
        super().__init__(actions, kind=self.kernel.kind, reward_range=reward_range)
        self._horizon = None if horizon is None else a_count(horizon, "The horizon")
        self._failure_probability = a_probability(failure_probability)
        self._norm_bound = None if norm_bound is None else not_negative(norm_bound, "The bound on the norm")
        self._noise_scale = None if noise_scale is None else not_negative(noise_scale, "The noise scale")
        self._scale = None if scale is None else positive(scale, "The scale")
        self._refuse_unknown_scale()
        self._form = posterior_factory(posterior)
        self._regularization = regularization
        self.posterior: Posterior = self._fresh()
        """What the plays of this phase say."""
        if self.posterior.forgets:
            raise InvalidParameter(
                "A phase is judged by all of its plays, so its posterior may not forget. For rewards that change with "
                "time take KernelUCB."
            )
        self.posterior.predict(self.actions)  # says now what it cannot compare
        self._phase = 1
        self._is_active = np.ones(self.n_actions, dtype=bool)
        self._phase_scale = self._scale_of_phase()
        self._catalog = Catalog(self.actions)
        self._selectors = Selectors()
        self._awaited: Pending | None = None  # derived from the pending decisions; None when to be made anew

    def _fresh(self) -> Posterior:
        return self._own_posterior(make_posterior(self._form, self.kernel, self._regularization))

    def _refuse_unknown_scale(self) -> None:
        if self._scale is None and self._norm_bound is None:
            raise InvalidParameter(
                "A valid width needs a bound on the norm of the reward function: norm_bound=… (or scale=… by hand)."
            )
        if self._scale is None and self._noise_scale is None and self.reward_range is None:
            raise InvalidParameter(
                "A valid width needs the scale of the noise: noise_scale=…, or a reward_range, of which it is half."
            )

    # -- phases ----------------------------------------------------------------------------------------------------

    @property
    def phase(self) -> int:
        """Number of the phase, from 1."""
        return self._phase

    @property
    def scale(self) -> float:
        """What widths are multiplied with when this phase ends."""
        return self._phase_scale

    @property
    def phase_length(self) -> int:
        """Plays of this phase."""
        if self._horizon is None:
            return int(FIRST_LENGTH * 2 ** (self.phase - 1))
        length = 1
        for _ in range(self.phase):
            before, length = length, ceil(sqrt(self._horizon * length))
            if length == before:
                break
        return length

    @property
    def active(self) -> Indices:
        """Rows of the actions that no phase has dropped."""
        return np.flatnonzero(self._is_active)

    def _scale_of_phase(self) -> float:
        if self._scale is not None:
            return self._scale
        assert self._norm_bound is not None
        noise_scale = self._noise_scale
        if noise_scale is None:
            assert self.reward_range is not None
            noise_scale = (self.reward_range[1] - self.reward_range[0]) / 2.0
        n_active = int(self._is_active.sum())
        schedule = FixedDesign(
            noise_scale=noise_scale,
            norm_bound=self._norm_bound,
            failure_probability=self._failure_probability / (self.phase * (self.phase + 1)),
            n_actions=n_active,
            horizon=1,  # one interval an action: at the end of the phase
        )
        situation = Situation(
            round_index=1,
            n_actions=n_active,
            log_det_gain=0.0,
            regularization=self.posterior.regularization,
        )
        return schedule(situation)

    def _pending_group(self, decision: Decision) -> Hashable:
        return decision.stage

    def _pending_plays(self) -> Indices:
        """Awaited decisions of this phase, of each row."""
        return self._pending_rows(self.phase)

    def _is_complete(self, n_learnt: int, n_pending: int) -> bool:
        return n_learnt >= self.phase_length and not n_pending

    def _end_phase(self) -> None:
        """Drop what cannot be best, and begin anew."""
        active = self.active
        prediction = self._predict(active)
        upper, lower = prediction.upper(self.scale), prediction.lower(self.scale)
        is_active = self._is_active.copy()
        is_active[active[upper < lower.max()]] = False
        self._is_active = is_active
        self._phase += 1
        self._phase_scale = self._scale_of_phase()
        self.posterior, self._awaited = self._fresh(), None

    # -- choosing --------------------------------------------------------------------------------------------------

    def _pick(self, actions: Actions) -> Selection:
        rows = self._eligible(actions)
        places = np.flatnonzero(self._is_active[rows])
        n_played = self.posterior.n_observations + int(self._pending_plays().sum())
        if places.size and n_played < self.phase_length:
            prediction = self._with_pending(rows[places])
            best = int(tied_for_best(prediction.width)[0])
            stage, score = self.phase, self.scale * float(prediction.width[best])
        else:
            places = places if places.size else np.arange(len(rows))
            prediction = self._with_pending(rows[places])
            best = int(tied_for_best(prediction.mean)[0])
            stage, score = None, float(prediction.mean[best])
        return Selection(
            row=int(places[best]),
            mean=float(prediction.mean[best]),
            width=float(prediction.width[best]),
            score=score,
            stage=stage,
        )

    def _predict(self, rows: Indices) -> Prediction:
        """Mean and width of these actions, from what was kept since the last play where that can be."""
        engine = self._selectors.engine(self._catalog, self.posterior)
        if engine is not None:
            return engine.estimate(rows)
        return self.posterior.predict(self._own_kind.take(self.actions, rows))

    def _with_pending(self, rows: Indices) -> Prediction:
        """Mean from settled data, width from settled and pending."""
        prediction = self._predict(rows)
        counts = self._pending_plays()
        awaited = np.flatnonzero(counts)
        if not awaited.size:
            return prediction
        if self._awaited is None:
            points = self._own_kind.take(self.actions, awaited)
            self._awaited = Pending(self.posterior, points, counts[awaited].astype(np.float64))
        return self._awaited.narrowed(self._own_kind.take(self.actions, rows), prediction)

    def _pending_changed(self, decision: Decision, change: int) -> None:
        self._note_model()
        super()._pending_changed(decision, change)
        self._awaited = None
        if self._is_complete(self.posterior.n_observations, int(self._pending_plays().sum())):
            self._end_phase()

    def _refuse_incomparable(self, point: Points) -> None:
        self.posterior.predict(point)

    def explain(self, decision: Decision, *, most: int = 10) -> Explanation:
        """Which plays of this phase made the mean, by the model as it is now."""
        self._require_own(decision)
        return explanation_of(self.posterior, self._point(decision), exploration=self.scale, most=most)

    # -- learning --------------------------------------------------------------------------------------------------

    def _take_in(self, decision: Decision, reward: float) -> None:
        stage = decision.stage
        if stage is not None and stage > self.phase:
            raise DecisionError(
                f"This decision is a play of phase {stage}, and this is phase {self.phase}. Stored decisions have to "
                "be learnt in the order in which they were."
            )
        if stage != self.phase:  # exploited, or of a phase that is over
            return
        n_others = int(self._pending_plays().sum()) - self._ledger.is_pending(decision.id, stage)
        is_last = self._is_complete(self.posterior.n_observations + 1, n_others)
        self._observe(decision, reward)
        if is_last:
            self._end_phase()

    def _observe(self, decision: Decision, reward: float) -> None:
        self.posterior._observe_one(self._point(decision), reward)
        self._awaited = None  # widths of what is still pending depend on the settled data

    def _note_model(self) -> None:
        self._note_references()
        self.posterior._note_change()

    def _correct(self, decision: Decision, was: float, now: float, number: int | None) -> None:
        if self._is_of_this_phase(decision):
            self.posterior.amend(self._point(decision), was=[was], now=[now])

    def _take_back(self, decision: Decision, reward: float, number: int | None) -> None:
        if self._is_of_this_phase(decision):
            self.posterior.remove(self._point(decision), [reward])
            self._awaited = None

    def _is_of_this_phase(self, decision: Decision) -> bool:
        """Whether this phase has learnt from it; NotSupported where an earlier one has."""
        if decision.stage is not None and decision.stage < self.phase:
            raise NotSupported(
                f"Phase {decision.stage} has ended: what it dropped by this reward stays dropped, so that it can be "
                "neither amended nor unlearnt."
            )
        return decision.stage == self.phase

    # -- describing and keeping ------------------------------------------------------------------------------------

    def _parameters(self) -> Parameters:
        return {
            "kernel": self.kernel.describe(),
            **self._set_parameters(),
            "regularization": self.posterior.regularization,
            "horizon": self._horizon,
            "failure_probability": self._failure_probability,
            "norm_bound": self._norm_bound,
            "noise_scale": self._noise_scale,
            "scale": self._scale,
            "posterior": describe_posterior(self._form),
            "reward_range": self.reward_range,
        }

    def _probe(self) -> Points | None:
        return self.actions

    def _state(self) -> Parameters:
        return {
            "phase": self.phase,
            "is_active": self._is_active.astype(np.uint8),
            "posterior": self.posterior.state(),
        }

    def _restore(self, state: Mapping[str, Any]) -> None:
        self._phase = saved_count(state, "phase", least=1, most=MOST_PHASES)
        self._is_active = saved_array(state, "is_active", "u", self._is_active.shape, most=1).astype(bool)
        if not self._is_active.any():
            raise DamagedFile("No action in the file is active.")
        self._phase_scale = self._scale_of_phase()
        self.posterior.restore(saved_part(state, "posterior"))
