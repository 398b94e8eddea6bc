"""Phased elimination for a fixed set of actions."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from math import ceil, sqrt
from typing import Any, Final, Literal

import numpy as np

from kernelbandits._parameters import THEORY, Parameter, parameter
from kernelbandits._saved_state import saved_array, saved_count, saved_part
from kernelbandits.errors import DamagedFile, DecisionError, InvalidParameter, NotSupported
from kernelbandits.kernels import Kernel, KernelLike, PointKind
from kernelbandits.policies.base import EXPLORATION_FACTOR, HORIZON, KERNEL, NOISE_SCALE, NORM_BOUND, REWARD_RANGE
from kernelbandits.policies.comparators.fixed_set import ACTIONS, FixedActionsPolicy
from kernelbandits.policies.explanation import Explanation, explanation_of
from kernelbandits.policies.posterior_policy import POSTERIOR
from kernelbandits.posterior import Pending, Posterior, PosteriorFactory
from kernelbandits.posterior.base import checked_regularization
from kernelbandits.posterior.factory import make_posterior
from kernelbandits.selection import Catalog, tied_for_best
from kernelbandits.selection.actions import Actions
from kernelbandits.selection.selectors import Selectors
from kernelbandits.theory.exploration import FixedDesign, RoundState
from kernelbandits.types import Decision, Indices, Parameters, Points, Prediction, Selection
from kernelbandits.validation import check_probability

__all__ = ["PhasedElimination"]

PRACTICAL: Final = 0.25
"""Default exploration per length of the reward range: the best of a grid on problems apart (docs/defaults.md)."""

FIRST_LENGTH: Final = 8
"""Rounds of the first phase if the horizon is unknown; fewer rounds eliminate nothing."""

MOST_PHASES: Final = 1000
"""Largest number of phases in a file: without a horizon phases double, with one they soon are as long as it."""


class PhasedElimination(FixedActionsPolicy):
    """Pure exploration in phases, with elimination after each (Li and Scarlett 2022; Vakili et al. 2021).

    Phase i starts without data. Each of its N_i rounds selects the widest of the active actions. Then, with mean and
    width from the rounds of this phase only, all actions are eliminated for which

        mean + exploration · width < highest mean − exploration · width.

    Widths do not depend on rewards, so the choices of a phase are determined before its first reward is known. The
    narrow interval of a fixed design therefore holds, and the regret is of the order sqrt(T · information gain), as for
    SupKernelUCB, but for one fixed set. KernelUCB usually has lower regret in practice. Known horizon: N_i =
    ceil(sqrt(T · N_{i−1})), N_0 = 1, about log log T phases. Unknown: 8, 16, 32, … rounds. Apart from the eliminated
    actions, nothing is carried over from earlier phases.

    A round costs O(N) plus the incremental update of one pull among N actions, which grows with the number of distinct
    actions selected in the phase; O(N m²) for m distinct actions if the kernel is not one of the library's built-in
    formulas.

    Rewards may be delayed. Pending rounds count as rounds of their phase. After all N_i rounds, and until the last of
    their rewards is learned or withdrawn, the active action of highest mean is selected and its reward is not learned;
    likewise if no eligible action is active. A reward that arrives after its phase has ended (its decision was never
    expected) is not learned. A reward can be corrected or removed only during its phase.

    Parameters
    ----------
    kernel
        As in `KernelUCB`.
    actions
        The fixed set of actions; every round must pass the same set.
    regularization
        γ > 0. The exploration of "theory" contains sqrt(γ) B, so a γ of about (R/B)² eliminates far sooner than 1.
    horizon
        T, which sets the lengths of the phases; None: unknown, the lengths double.
    failure_probability
        With "theory": with probability 1 − failure_probability, all intervals of all phases hold and the best action
        is never eliminated; phase i uses a share of 1/(i (i + 1)) of it.
    norm_bound
        B ≥ ‖f‖ in the RKHS of the kernel; required by "theory".
    noise_scale
        R of the sub-Gaussian noise, for "theory"; None: half the length of the reward range.
    exploration
        Factor of the widths: a number; None: 0.25 times the length of the reward range (of 1, if there is none).
        Neither has a guarantee: the best action is eliminated occasionally. "theory": R sqrt(2 ln(2 · active actions /
        share)) + sqrt(γ) B, which eliminates much later.
    posterior
        As in `KernelUCB`.
    reward_range
        Rewards outside this range are rejected; None accepts any finite number.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelbandits.kernels import Gaussian
    >>> actions = np.linspace(0, 1, 11)[:, None]
    >>> policy = PhasedElimination(Gaussian(length_scale=0.3), actions, regularization=0.01, horizon=400,
    ...                            norm_bound=2.0, noise_scale=0.1, exploration="theory")
    >>> for _ in range(400):
    ...     decision = policy.choose(actions)
    ...     policy.learn(decision, reward=1.0 - abs(actions[decision.action, 0] - 0.7))
    >>> policy.phase, actions[policy.active].ravel()
    (4, array([0.5, 0.6, 0.7, 0.8, 0.9]))
    """

    learns_from_any_action = True

    kernel: Parameter[KernelLike, Kernel] = parameter(KERNEL, kw_only=False)
    actions: Points = parameter(ACTIONS, kw_only=False, attribute="_fixed_actions")
    regularization: float = parameter(checked_regularization, default=1.0)
    horizon: int | None = parameter(HORIZON, default=None)
    failure_probability: float = parameter(check_probability, default=0.05)
    norm_bound: float | None = parameter(NORM_BOUND, default=None)
    noise_scale: float | None = parameter(NOISE_SCALE, default=None)
    exploration: Parameter[float | Literal["theory"] | None, float | Literal["theory"]] = parameter(
        EXPLORATION_FACTOR, default=None, theory=THEORY
    )
    posterior: Parameter[str | PosteriorFactory, Posterior] = parameter(
        POSTERIOR, default="auto", attribute="_form", is_public=False
    )
    reward_range: tuple[float, float] | None = parameter(REWARD_RANGE, default=(0.0, 1.0))

    def _setup(self) -> None:
        super()._setup()
        self._check_scale()
        self._begin_phase()
        if self.posterior.capabilities.predicts_log_odds:
            raise InvalidParameter(
                "A phase is judged by rewards, and this posterior predicts their log-odds. Take KernelUCB for it."
            )
        if self.posterior.capabilities.forgets:
            raise InvalidParameter(
                "A phase is judged by all of its plays, so its posterior may not forget. For rewards that change with "
                "time take KernelUCB."
            )
        self.posterior.predict(self.actions)  # raises now if points cannot be compared
        self._phase = 1
        self._is_active = np.ones(self.n_actions, dtype=bool)
        self._phase_scale = self._scale_of_phase()
        actions, kind = self.actions, self._own_kind
        # Canonical items of a similarity table are not a sequence.
        items = actions if isinstance(actions, Iterable) else [kind.one(actions, row) for row in range(self.n_actions)]
        self._catalog = Catalog(items)
        self._selectors = Selectors()
        self._pending_effect: Pending | None = None  # derived from the pending decisions; None: to be recomputed

    def _fixed_kind(self) -> PointKind:
        return self.kernel.kind

    def _begin_phase(self) -> None:
        form, self._pending_effect = vars(self)["_form"], None
        posterior = self._own_posterior(make_posterior(form, self.kernel, self.regularization))
        self.posterior = posterior  # type: ignore[assignment]  # the argument of this name makes it
        """Posterior given the rewards of this phase."""

    def _check_scale(self) -> None:
        if self.exploration is None:
            if self.norm_bound is not None or self.noise_scale is not None:
                raise InvalidParameter(
                    f"norm_bound={self.norm_bound!r} and noise_scale={self.noise_scale!r} belong to the exploration of "
                    "the theorem, and the default is a practical one. Give exploration='theory' too, or leave them out."
                )
            self._resolve(exploration=PRACTICAL * (1.0 if self.reward_range is None else self._rewards.span))
        if self.exploration == THEORY and self.norm_bound is None:
            raise InvalidParameter(
                "A valid width needs a bound on the norm of the reward function: norm_bound=… (or exploration=… by "
                "hand)."
            )
        if self.exploration == THEORY and self.noise_scale is None and self.reward_range is None:
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
        """Factor of the widths at the end of this phase."""
        return self._phase_scale

    @property
    def phase_length(self) -> int:
        """Number of rounds of this phase."""
        if self.horizon is None:
            return int(FIRST_LENGTH * 2 ** (self.phase - 1))
        length = 1
        for _ in range(self.phase):
            before, length = length, ceil(sqrt(self.horizon * length))
            if length == before:
                break
        return length

    @property
    def active(self) -> Indices:
        """Rows of the actions not eliminated so far."""
        return np.flatnonzero(self._is_active)

    def _scale_of_phase(self) -> float:
        if isinstance(self.exploration, float):
            return self.exploration
        assert self.norm_bound is not None
        noise_scale = self.noise_scale
        if noise_scale is None:
            assert self.reward_range is not None
            noise_scale = (self.reward_range[1] - self.reward_range[0]) / 2.0
        n_active = int(self._is_active.sum())
        schedule = FixedDesign(
            noise_scale=noise_scale,
            norm_bound=self.norm_bound,
            failure_probability=self.failure_probability / (self.phase * (self.phase + 1)),
            n_actions=n_active,
            horizon=1,  # one interval per action: at the end of the phase
        )
        situation = RoundState(
            round_index=1,
            n_actions=n_active,
            log_det_gain=0.0,
            regularization=self.posterior.regularization,
        )
        return schedule(situation)

    def _pending_group(self, decision: Decision) -> Hashable:
        return decision.stage

    def _pending_plays(self) -> Indices:
        """Return the number of pending decisions of this phase per row."""
        return self._pending_rows(self.phase)

    def _is_complete(self, n_learned: int, n_pending: int) -> bool:
        return n_learned >= self.phase_length and not n_pending

    def _end_phase(self) -> None:
        """Eliminate the actions that cannot be best, and start the next phase without data."""
        active = self.active
        prediction = self._predict(active)
        upper, lower = prediction.upper(self.scale), prediction.lower(self.scale)
        is_active = self._is_active.copy()
        is_active[active[upper < lower.max()]] = False
        self._is_active = is_active
        self._phase += 1
        self._phase_scale = self._scale_of_phase()
        self._begin_phase()

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
        """Return mean and width of these actions, using the values cached since the last round where possible."""
        engine = self._selectors.engine(self._catalog, self.posterior)
        if engine is not None:
            return engine.estimate(rows)
        return self.posterior.predict(self._own_kind.take(self.actions, rows))

    def _with_pending(self, rows: Indices) -> Prediction:
        """Return the mean from observed data and the width from observed and pending data."""
        prediction = self._predict(rows)
        counts = self._pending_plays()
        pending = np.flatnonzero(counts)
        if not pending.size:
            return prediction
        if self._pending_effect is None:
            points = self._own_kind.take(self.actions, pending)
            self._pending_effect = Pending(self.posterior, points, counts[pending].astype(np.float64))
        return self._pending_effect.narrowed(self._own_kind.take(self.actions, rows), prediction)

    def _pending_changed(self, decision: Decision, change: int) -> None:
        self._note_model()
        super()._pending_changed(decision, change)
        self._pending_effect = None
        if self._is_complete(self.posterior.n_observations, int(self._pending_plays().sum())):
            self._end_phase()

    def _validate_comparable(self, point: Points) -> None:
        self.posterior.predict(point)

    def explain(self, decision: Decision, *, most: int = 10) -> Explanation:
        """Explain which rounds of this phase determine the mean, under the current model."""
        self._require_own(decision)
        return explanation_of(self.posterior, self._point(decision), exploration=self.scale, most=most)

    # -- learning --------------------------------------------------------------------------------------------------

    def _update(self, decision: Decision, reward: float) -> None:
        stage = decision.stage
        if stage is not None and stage > self.phase:
            raise DecisionError(
                f"This decision is a play of phase {stage}, and this is phase {self.phase}. Stored decisions have to "
                "be learned in the order in which they were."
            )
        if stage != self.phase:  # exploited, or of an earlier phase
            return
        n_others = int(self._pending_plays().sum()) - self._ledger.is_pending(decision.id, stage)
        is_last = self._is_complete(self.posterior.n_observations + 1, n_others)
        self._observe(decision, reward)
        if is_last:
            self._end_phase()

    def _observe(self, decision: Decision, reward: float) -> None:
        self.posterior._observe_one(self._point(decision), reward)
        self._pending_effect = None  # widths of pending points depend on the observed data

    def _note_model(self) -> None:
        self._note_references()
        self.posterior._note_change()

    def _amend_reward(self, decision: Decision, was: float, now: float, number: int | None) -> None:
        if self._is_of_this_phase(decision):
            self.posterior.amend(self._point(decision), was=[was], now=[now])

    def _remove_reward(self, decision: Decision, reward: float, number: int | None) -> None:
        if self._is_of_this_phase(decision):
            self.posterior.remove(self._point(decision), [reward])
            self._pending_effect = None

    def _is_of_this_phase(self, decision: Decision) -> bool:
        """Whether this phase has learned from the decision; raises NotSupported if an earlier phase has."""
        if decision.stage is not None and decision.stage < self.phase:
            raise NotSupported(
                f"Phase {decision.stage} has ended: what it dropped by this reward stays dropped, so that it can be "
                "neither amended nor unlearned."
            )
        return decision.stage == self.phase

    # -- description and serialization -----------------------------------------------------------------------------

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
