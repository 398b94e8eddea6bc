"""SupKernelUCB and SupLinUCB: elimination by levels."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from math import sqrt
from typing import Any, Final, Literal, NamedTuple

import numpy as np

from kernelbandits._parameters import THEORY, Parameter, one_of, parameter
from kernelbandits._saved_state import saved_count, saved_value
from kernelbandits.errors import DecisionError, InvalidParameter, KernelBanditWarning, warn_user
from kernelbandits.kernels import Kernel, KernelLike, Linear, PointKind
from kernelbandits.kernels.stationary import Stationary
from kernelbandits.policies.base import (
    EXPLORATION_FACTOR,
    HORIZON,
    KERNEL,
    N_ACTIONS,
    NOISE_SCALE,
    NORM_BOUND,
    REWARD_RANGE,
    Policy,
)
from kernelbandits.policies.explanation import Explanation, explanation_of
from kernelbandits.posterior import PosteriorFactory, posterior_factory
from kernelbandits.posterior.base import checked_regularization
from kernelbandits.posterior.factory import make_posterior
from kernelbandits.selection import tied_for_best
from kernelbandits.selection.actions import Actions
from kernelbandits.theory import sup_kernel_ucb_anytime_scale, sup_kernel_ucb_scale
from kernelbandits.types import Decision, Indices, ItemId, Parameters, Points, Prediction, Selection, StageStep
from kernelbandits.validation import check_probability

__all__ = ["BaseKernelUCB", "LevelPolicy", "SupKernelUCB", "SupLinUCB"]

SMALLEST_WIDTH: Final = 1e-300
"""Lower bound of a width in a quotient: contexts of length 0 have none."""

LONG_WAIT: Final = 1_000
"""Rounds without learning at the beginning that are reported if the horizon is unknown; 25 with the default."""

MOST_STAGES: Final = 64
"""Upper bound on the number of levels: S = 64 would require a horizon of 2¹²⁸."""

PRACTICAL: Final = 0.2
"""Default exploration per length of the reward range: the best of a grid on problems apart (docs/defaults.md)."""

MOST_EPOCHS: Final = 64
"""Upper bound on the number of epochs: epoch m begins in round 2^m."""


class BaseKernelUCB:
    """Ridge estimates from the rounds of one level (Valko et al. 2013, BaseKernelUCB, corrected by erratum E5).

    >>> from kernelbandits.kernels import Linear
    >>> level = BaseKernelUCB(Linear(), regularization=1.0)
    >>> level.observe([[1.0]], 0.5)
    >>> level.estimate([[2.0]]).mean
    array([0.5])
    """

    def __init__(self, kernel: Kernel, *, regularization: float, posterior: str | PosteriorFactory = "auto") -> None:
        self.posterior = make_posterior(posterior_factory(posterior), kernel, regularization)
        if self.posterior.capabilities.predicts_log_odds:
            raise InvalidParameter(
                "Levels are judged by rewards, and this posterior predicts their log-odds. Take KernelUCB for it."
            )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.posterior!r})"

    def estimate(self, contexts: Points) -> Prediction:
        """Return mean and width of the actions still active."""
        return self.posterior.predict(contexts)

    def observe(self, context: Points, reward: float) -> None:
        """Add one round to this level; `context` is a collection of size one."""
        self.posterior.observe(context, [reward])

    @property
    def stage_observations(self) -> int:
        """Number of rounds of this level: ψ."""
        return self.posterior.n_observations


class _Rules(NamedTuple):
    """Parameters of one round: the scale of the widths, the width at which it exploits, and the epoch of the levels."""

    scale: float
    fine: float
    epoch: int


class LevelPolicy(Policy):
    """Base class of elimination by levels.

    Level s learns only from rounds that it explored itself. An action is selected only if no lower level eliminated it.
    Every level stores the rewards of its own rounds, and whether a round joins a level depends only on contexts and
    lower levels. The rewards within a level are therefore independent given the contexts, which the proof requires and
    which does not hold for KernelUCB. The contexts must not depend on rewards.
    """

    needs_reward_range = True
    learns_from_any_action = True  # by learning nothing: such a decision has no stage

    horizon: int | None = parameter(HORIZON, default=None)
    n_actions: int | None = parameter(N_ACTIONS, default=None)
    failure_probability: float = parameter(check_probability, default=0.05)
    norm_bound: float | None = parameter(NORM_BOUND, default=None)
    exploration: Parameter[float | Literal["theory"] | None, float | Literal["theory"]] = parameter(
        EXPLORATION_FACTOR, default=None, theory=THEORY
    )
    explore: Literal["widest", "lowest"] = parameter(
        one_of("widest", "lowest", message="explore must be 'widest' or 'lowest'"), default="widest"
    )
    reward_range: tuple[float, float] = parameter(REWARD_RANGE, default=(0.0, 1.0))

    def _setup(self) -> None:
        super()._setup()
        given = vars(self)
        self._span = self._rewards.span
        self._noise_scale: float = self._span / 2.0 if given.get("_noise_scale") is None else given["_noise_scale"]
        self._mode: Literal["valid", "paper"] = given.get("_mode", "valid")
        self._unknown_horizon: Literal["anytime", "doubling"] = given.get("_unknown_horizon", "anytime")
        self._validate_consistent()
        if self.exploration is None:
            self._resolve(exploration=self._practical_exploration())
        self._has_warned = False
        self._blank = self._joined_level()
        self._levels: list[BaseKernelUCB] = []
        self._epoch = 0
        self._most_actions = 1  # largest number in a learned round

    @abstractmethod
    def _new_level(self) -> BaseKernelUCB:
        """Return an empty level."""

    def _joined_level(self) -> BaseKernelUCB:
        level = self._new_level()
        self._own_posterior(level.posterior)
        return level

    def _validate_consistent(self) -> None:
        if self.horizon is None and self._mode == "paper":
            raise InvalidParameter("The printed rule needs a known horizon: give horizon=…, or take mode='valid'.")
        if self.exploration == THEORY:
            self._validate_theory()

    def _practical_exploration(self) -> float:
        return PRACTICAL * self._span

    def _validate_theory(self) -> None:
        """Raise InvalidParameter if the exploration of the theorem lacks one of its constants."""
        if self.horizon is not None and self.n_actions is None:
            raise InvalidParameter("A known horizon needs the largest number of actions of a round too: n_actions=….")
        if self._mode == "valid" and self.norm_bound is None:
            raise InvalidParameter(
                "A valid width needs a bound on the norm of the reward function: norm_bound=… (or exploration=… by "
                "hand, or mode='paper' for the printed rule, which can drop the best action: see docs/errata.md, E1)."
            )

    # -- choosing --------------------------------------------------------------------------------------------------

    @property
    def stages(self) -> tuple[BaseKernelUCB, ...]:
        """Learners of the levels, lowest first; levels that no round has reached do not exist yet."""
        return tuple(self._levels)

    def scale_at(self, round_index: int, n_actions: int | None = None) -> float:
        """Return the factor of the widths in a round with `n_actions` actions."""
        return self._rules(round_index, max(self._most_actions, n_actions or 1)).scale

    def walk(self, contexts: Points, *, ids: Sequence[ItemId] | None = None) -> tuple[StageStep, ...]:
        """Return the levels that this round passes through; the last one decides."""
        given = self._actions(contexts, ids)
        return self._walk(given.points, given.n_actions)[0]

    def _pick(self, actions: Actions) -> Selection:
        steps, rules = self._walk(actions.points, actions.n_actions)
        last = steps[-1]
        if last.outcome == "exploit":
            self._warn_if_nothing_is_learned(last)
            place = int(tied_for_best(last.prediction.mean + last.scaled_width)[0])
            score = float(last.prediction.mean[place] + last.scaled_width[place])
        else:
            place = self._explored_place(last, self._coarse(last.stage))
            score = float(last.scaled_width[place])
        return Selection(
            row=int(last.active[place]),
            mean=float(last.prediction.mean[place]),
            width=float(last.prediction.width[place]),
            score=score,
            stage=last.stage if last.outcome == "explore" else None,
            memo={"level": np.array([last.stage]), "epoch": np.array([rules.epoch])},
        )

    def _walk(self, points: Points, n_actions: int) -> tuple[tuple[StageStep, ...], _Rules]:
        rules = self._rules(self._ledger.round_index, max(n_actions, self._most_actions))
        levels = self._levels if rules.epoch == self._epoch else []  # a new epoch begins with empty levels
        steps: list[StageStep] = []
        active = np.arange(n_actions)
        for stage in range(1, MOST_STAGES + 1):
            level = levels[stage - 1] if stage <= len(levels) else self._blank
            prediction = level.estimate(points if len(active) == n_actions else self._kind(points).take(points, active))
            step = self._step(stage, active, prediction, rules)
            steps.append(step)
            if step.outcome != "narrow":
                break
            upper = prediction.mean + step.scaled_width
            active = active[upper >= upper.max() - 2.0 * self._coarse(stage)]
        return tuple(steps), rules

    def _least_exploration(self, widest: float) -> float | None:
        """Return the exploration up to which rounds whose widths are at most this are exploited without learning.

        None if the horizon is unknown, so that the threshold falls, or if the exploration is that of the theorem.
        """
        if self.horizon is None or not isinstance(self.exploration, float):
            return None
        return self._unit / sqrt(self.horizon) / max(widest, SMALLEST_WIDTH)

    def _warn_if_nothing_is_learned(self, step: StageStep) -> None:
        if self._levels or self._has_warned or self.horizon == 1:
            return
        widest = float(step.prediction.width.max())
        least = self._least_exploration(widest)
        if self.horizon is None and isinstance(self.exploration, float) and widest > SMALLEST_WIDTH:
            root = self._unit / self.exploration / widest
            if root * root > LONG_WAIT:
                self._has_warned = True
                warn_user(
                    f"Nothing is learned before round {root * root:.4g}: until then exploration · width is at most "
                    f"{self._unit:.4g} / sqrt(round) for all actions. Take a larger exploration, or leave it out for "
                    "the default.",
                    KernelBanditWarning,
                )
        elif least is not None:
            self._has_warned = True
            warn_user(
                f"Nothing was learned, and this round is exploited: exploration · width is at most {self._unit:.4g} / "
                "sqrt(horizon) for all actions. For contexts of this size, the exploration must be above "
                f"{least:.4g}.",
                KernelBanditWarning,
            )

    def _step(self, stage: int, active: Indices, prediction: Prediction, rules: _Rules) -> StageStep:
        widths = rules.scale * prediction.width
        outcome: Literal["explore", "narrow", "exploit"]
        if (widths <= rules.fine).all():
            outcome = "exploit"
        elif (widths <= self._coarse(stage)).all():
            outcome = "narrow"
        else:
            outcome = "explore"
        return StageStep(stage, active, prediction, widths, outcome)

    def _explored_place(self, step: StageStep, threshold: float) -> int:
        """Return the wide action to explore. It must not depend on this level's means, to preserve independence."""
        wide = np.flatnonzero(step.scaled_width > threshold)
        if self.explore == "lowest":
            return int(wide[0])
        return int(wide[tied_for_best(step.scaled_width[wide])[0]])

    def _coarse(self, stage: int) -> float:
        """Return the target width of level `stage`: 2^(−s), in units of the reward range (in paper mode: of 1)."""
        return self._unit * 2.0**-stage

    @property
    def _unit(self) -> float:
        return 1.0 if self._mode == "paper" else self._span

    @property
    def _restarts(self) -> bool:
        return self.horizon is None and self._unknown_horizon == "doubling"

    def _rules(self, round_index: int, n_actions: int) -> _Rules:
        n_actions = n_actions if self.n_actions is None else self.n_actions
        if self._restarts:
            epoch = max(self._epoch, round_index.bit_length() - 1)  # epoch m has the rounds 2^m … 2^(m+1) − 1
            share = self.failure_probability / ((epoch + 1) * (epoch + 2))
            return _Rules(self._scale_for(2**epoch, n_actions, share), self._unit / sqrt(2**epoch), epoch)
        if self.horizon is not None:
            scale = self._scale_for(self.horizon, n_actions, self.failure_probability)
            return _Rules(scale, self._unit / sqrt(self.horizon), 0)
        if isinstance(self.exploration, float):
            return _Rules(self.exploration, self._unit / sqrt(round_index), 0)
        assert self.norm_bound is not None
        scale = sup_kernel_ucb_anytime_scale(
            round_index=round_index,
            n_actions=n_actions,
            failure_probability=self.failure_probability,
            regularization=self._blank.posterior.regularization,
            norm_bound=self.norm_bound,
            noise_scale=self._noise_scale,
        )
        return _Rules(scale, self._unit / sqrt(round_index), 0)

    def _scale_for(self, horizon: int, n_actions: int, failure_probability: float) -> float:
        if isinstance(self.exploration, float):
            return self.exploration
        return self._theory_scale(horizon, n_actions, failure_probability)

    def _theory_scale(self, horizon: int, n_actions: int, failure_probability: float) -> float:
        """Return the scale of the theorem for this horizon."""
        return sup_kernel_ucb_scale(
            horizon=horizon,
            n_actions=n_actions,
            failure_probability=failure_probability,
            regularization=self._blank.posterior.regularization,
            norm_bound=self.norm_bound,
            noise_scale=self._noise_scale,
            mode=self._mode,
        )

    def explain(self, decision: Decision, *, most: int = 10) -> Explanation:
        """Explain which past actions determine the mean, under the current model of the level that decided."""
        self._require_own(decision)
        place = self._noted(decision, "level", default=decision.stage or 1)
        is_current = self._epoch_of(decision) == self._epoch
        level = self._levels[place - 1] if is_current and 0 < place <= len(self._levels) else self._blank
        scale = self.scale_at(self._ledger.round_index, decision.n_actions)
        return explanation_of(level.posterior, self._point(decision), exploration=scale, most=most)

    # -- learning --------------------------------------------------------------------------------------------------

    def _kind(self, contexts: Points) -> PointKind:
        return self._blank.posterior.kernel.kind

    def _update(self, decision: Decision, reward: float) -> None:
        epoch = self._epoch_of(decision)
        if epoch >= self._epoch:  # a reward that arrives after its epoch is not learned by any level
            levels = self._levels if epoch == self._epoch else []
            if decision.stage is not None:
                stage = self._checked_stage(decision)
                levels = [*levels, *(self._joined_level() for _ in range(stage - len(levels)))]
                levels[stage - 1].observe(self._point(decision), reward)
            self._levels, self._epoch = levels, epoch
        self._most_actions = max(self._most_actions, decision.n_actions)

    def _note_model(self) -> None:
        self._note_references()
        for level in self._levels:
            level.posterior._note_change()

    def _validate_decision(self, decision: Decision) -> None:
        self._noted(decision, "level", default=0)
        self._epoch_of(decision)
        if decision.stage is not None:
            self._checked_stage(decision)

    def _amend_reward(self, decision: Decision, was: float, now: float, number: int | None) -> None:
        level = self._level_of(decision)
        if level is not None:
            level.posterior.amend(self._point(decision), was=[was], now=[now])

    def _remove_reward(self, decision: Decision, reward: float, number: int | None) -> None:
        level = self._level_of(decision)
        if level is not None:
            level.posterior.remove(self._point(decision), [reward])

    def _level_of(self, decision: Decision) -> BaseKernelUCB | None:
        """Return the level that learned from a decision; None if there is no such level, or if its epoch is over."""
        if decision.stage is None or self._epoch_of(decision) != self._epoch:
            return None
        stage = self._checked_stage(decision)
        return self._levels[stage - 1] if stage <= len(self._levels) else None

    def _epoch_of(self, decision: Decision) -> int:
        return self._noted(decision, "epoch", default=self._epoch, most=MOST_EPOCHS)

    @staticmethod
    def _noted(decision: Decision, name: str, *, default: int, most: int = MOST_STAGES) -> int:
        if name not in decision.memo:
            return default
        noted = np.asarray(decision.memo[name])
        if noted.shape != (1,) or noted.dtype.kind not in "iu" or not 0 <= noted[0] <= most:
            raise DecisionError(
                f"Decision {decision.id!r} has to bring a whole number from 0 to {most} as memo[{name!r}], got "
                f"{noted!r:.60}. Keep the decision that `choose` gave, memo included: to_dict() has it all."
            )
        return int(noted[0])

    @staticmethod
    def _checked_stage(decision: Decision) -> int:
        stage = decision.stage
        if isinstance(stage, bool) or not isinstance(stage, int) or not 1 <= stage <= MOST_STAGES:
            raise DecisionError(f"A level is a whole number from 1 to {MOST_STAGES}, got stage={stage!r}.")
        return stage

    # -- description and serialization -----------------------------------------------------------------------------

    def _probe(self) -> Points | None:
        level = next((level for level in self._levels if level.posterior.size), None)
        return None if level is None else level.posterior.support()[0]

    def _state(self) -> Parameters:
        return {
            "levels": [level.posterior.state() for level in self._levels],
            "epoch": self._epoch,
            "most_actions": self._most_actions,
        }

    def _restore(self, state: Mapping[str, Any]) -> None:
        for saved in saved_value(state, "levels"):
            level = self._joined_level()
            level.posterior.restore(saved)
            self._levels.append(level)
        self._epoch = saved_count(state, "epoch", most=MOST_EPOCHS)
        self._most_actions = saved_count(state, "most_actions")


class _RidgeLevelPolicy(LevelPolicy):
    """Base class of SupKernelUCB and SupLinUCB, whose levels are ridge regressions."""

    regularization: float = parameter(checked_regularization, default=1.0)
    noise_scale: Parameter[float | None, float] = parameter(NOISE_SCALE, default=None)
    mode: Literal["valid", "paper"] = parameter(
        one_of("valid", "paper", message="The mode must be 'valid' or 'paper'"), default="valid"
    )
    unknown_horizon: Literal["anytime", "doubling"] = parameter(
        one_of("anytime", "doubling", message="unknown_horizon must be 'anytime' or 'doubling'"), default="anytime"
    )

    def _setup(self) -> None:
        was_given = self.noise_scale is not None
        super()._setup()
        if not was_given:
            self._resolve(noise_scale=self._noise_scale)
        least, given = self._least_exploration(1.0 / sqrt(self.regularization)), self.exploration
        # A stationary kernel has k(x, x) = 1; other widths are known when there are contexts.
        is_known = isinstance(self._blank.posterior.kernel, Stationary) and self.horizon != 1
        if is_known and least is not None and isinstance(given, float) and given <= least:
            raise InvalidParameter(
                f"With exploration={given:.4g} nothing would be learned in {self.horizon} rounds: a round is exploited "
                f"and not learned if exploration · width is at most {self._unit:.4g} / sqrt(horizon) for all actions, "
                f"as it is before the first reward. It must be above {least:.4g}; leave it out for the default."
            )

    def _practical_exploration(self) -> float:
        # Twice what short horizons need, so that the default always learns.
        least = 2.0 * sqrt(self.regularization / self.horizon) if self.horizon is not None else 0.0
        return max(PRACTICAL, least) * self._span

    def _validate_consistent(self) -> None:
        super()._validate_consistent()
        if self.exploration is None and (self.norm_bound is not None or self._mode == "paper"):
            raise InvalidParameter(
                f"norm_bound={self.norm_bound!r} and mode={self._mode!r} belong to the exploration of the theorem, and "
                "the default is a practical one. Give exploration='theory' too, or leave them out."
            )


class SupKernelUCB(_RidgeLevelPolicy):
    """Elimination by levels, with the sqrt(d̃T) guarantee of the corrected theorem (Valko et al. 2013, SupKernelUCB).

    A round starts at level 1 with all actions. At level s, with w = exploration · width from that level's rounds only:

    - every w ≤ 1/sqrt(T): select the highest mean + w, and do not learn from it;
    - every w ≤ 2^(−s): retain the actions within 2^(1−s) of the highest mean + w, and go to level s + 1;
    - otherwise: select the widest action, and update level s with its reward.

    With the exploration of the proof it explores for a very long time: nothing is gained in the first thousands of
    rounds. So the default is a practical exploration, without the guarantee (docs/defaults.md); `exploration="theory"`
    has it. `choose` costs one prediction per level visited.

    Parameters
    ----------
    kernel, regularization
        As in `KernelUCB`.
    horizon, n_actions
        Number of rounds and largest number of actions per round; a round with more is rejected. horizon None: unknown,
        see `unknown_horizon`; n_actions None: the largest number so far; required by "theory" with a known horizon.
    failure_probability
        With "theory": with probability 1 − this, every interval of every round and level holds.
    norm_bound
        B ≥ ‖f‖ in the RKHS of the kernel; required by "theory" in valid mode.
    noise_scale
        R of the sub-Gaussian noise, for "theory"; None: half the length of the reward range.
    reward_range
        Rewards outside this range are rejected. Thresholds are multiplied by its length, except in paper mode, whose
        thresholds are for length 1.
    mode
        Of "theory". "valid": exploration R sqrt(2 ln(2NTS/δ)) + sqrt(γ) B, which the proof requires. "paper": the
        published sqrt(2 ln(2TN/δ)), which can eliminate the best action permanently (docs/errata.md, E1).
    exploration
        Factor of the widths: a number; None: max(0.2, 2 sqrt(γ/T)) times the length of the reward range. Neither has
        a guarantee. "theory": that of the mode. A number up to sqrt(γ/T) times this length would learn nothing, and is
        rejected if k(x, x) = 1 is known.
    unknown_horizon
        "anytime": thresholds and exploration grow with the round, all data are retained. "doubling": new levels in
        epochs of 1, 2, 4, … rounds.
    explore
        Which wide action to explore: the "widest", or the "lowest" row.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelbandits.kernels import Gaussian
    >>> policy = SupKernelUCB(Gaussian(length_scale=0.5), horizon=1000)
    >>> decision = policy.choose(np.array([[0.1], [0.5], [0.9]]))
    >>> decision.stage
    3
    >>> policy.learn(decision, reward=0.4)
    >>> [step.outcome for step in policy.walk(np.array([[0.1], [0.5], [0.9]]))]
    ['narrow', 'narrow', 'explore']
    """

    kernel: Parameter[KernelLike, Kernel] = parameter(KERNEL, kw_only=False)

    def _new_level(self) -> BaseKernelUCB:
        return BaseKernelUCB(self.kernel, regularization=self.regularization)


class SupLinUCB(_RidgeLevelPolicy):
    """SupKernelUCB with the linear kernel in primal form (Chu et al. 2011). A round costs O(N d²) per level for any t.

    Mode "paper" has the α = sqrt(½ ln(2TN/δ)) of Chu et al., half of the number that Valko et al. print for
    SupKernelUCB; their regularization is 1. They threshold α · width while their lemma proves (α + 1) · width for
    ‖θ‖ ≤ 1: the same gap as in erratum E1. The valid exploration closes it (norm_bound=1.0).

    Parameters
    ----------
    regularization, horizon, n_actions, failure_probability, norm_bound, noise_scale, reward_range, mode, exploration
        As in SupKernelUCB; likewise `unknown_horizon` and `explore`.

    Examples
    --------
    >>> import numpy as np
    >>> policy = SupLinUCB(horizon=100)
    >>> policy.choose(np.array([[0.6, 0.0], [0.0, 1.0]])).action
    1
    """

    def _new_level(self) -> BaseKernelUCB:
        return BaseKernelUCB(Linear(), regularization=self.regularization, posterior="primal")

    def _theory_scale(self, horizon: int, n_actions: int, failure_probability: float) -> float:
        scale = super()._theory_scale(horizon, n_actions, failure_probability)
        return scale / 2.0 if self._mode == "paper" else scale  # α = sqrt(½ ln(2TN/δ)) = ½ sqrt(2 ln(2TN/δ))
