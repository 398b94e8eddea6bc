"""What policies share that judge actions by the mean and width of a posterior."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from kernelbandits.errors import GuaranteeVoid, InvalidParameter, warn_user
from kernelbandits.kernels import PointKind
from kernelbandits.policies.action_set import Actions
from kernelbandits.policies.base import Policy
from kernelbandits.policies.explanation import Explanation, explanation_of
from kernelbandits.posterior import Pending, Placed, Posterior
from kernelbandits.selection import CatalogueEngine
from kernelbandits.theory.widths import Constant, Exploration, Situation, as_exploration
from kernelbandits.types import Decision, Parameters, Points, Prediction, Seed, Vector

__all__ = ["Estimate", "PosteriorPolicy"]

NOT_PROVED: Final = (
    "No interval is proved for a posterior that forgets, so this exploration schedule claims more than it keeps. Tune "
    "a number instead: exploration=0.5 is a start."
)


class Estimate(NamedTuple):
    """All that a score is made of."""

    prediction: Prediction
    exploration: float

    @property
    def scores(self) -> Vector:
        """Mean + exploration · width."""
        return self.prediction.upper(self.exploration)


class PosteriorPolicy(Policy):
    """Learns every reward into one posterior, whichever action it was of; the subclass says how to choose by it.

    Decisions that are awaited count in the widths, and not in the means.
    """

    learns_from_any_action = True

    def __init__(
        self,
        posterior: Posterior,
        exploration: Exploration,
        *,
        reward_range: tuple[float, float] | None,
        seed: Seed,
    ) -> None:
        super().__init__(reward_range=reward_range, seed=seed)
        self.posterior = posterior
        """What is known so far: `policy.posterior.predict(contexts)` gives mean and width."""
        self._exploration = exploration
        self._awaited: Pending | None = None  # derived from the pending decisions; None when to be made anew
        self._has_warned = False

    @property
    def exploration(self) -> Exploration:
        """The schedule; a number that is assigned becomes `Constant`, as in the constructor."""
        return self._exploration

    @exploration.setter
    def exploration(self, value: float | Exploration) -> None:
        self._exploration = as_exploration(value)

    def _kind(self, contexts: Points) -> PointKind:
        return self.posterior.kernel.kind

    # -- estimating ------------------------------------------------------------------------------------------------

    def _estimate(self, points: Points, n_actions: int, waiting: Pending | None, round_index: int) -> Estimate:
        """What is predicted, and the exploration that it calls for."""
        return Estimate(self._predict(points, waiting), self._exploration_now(n_actions, waiting, round_index))

    def _predict(self, points: Points, waiting: Pending | None) -> Prediction:
        """Mean from settled data, width from settled and pending."""
        prediction = self.posterior.estimate(points)
        return prediction if waiting is None else waiting.narrowed(points, prediction)

    def _predict_one(self, points: Points, place: int) -> tuple[float, float]:
        """Mean and width of one of the points."""
        prediction = self._predict(self._kind(points).take(points, np.array([place])), self._waiting())
        return prediction.mean.item(), prediction.width.item()

    def _estimate_of(self, actions: Actions, place: int) -> tuple[float, float]:
        return self._predict_one(actions.points, place)

    def _exploration_now(
        self,
        n_actions: int,
        waiting: Pending | Placed | None,
        round_index: int,
        engine: CatalogueEngine | None = None,
    ) -> float:
        if isinstance(self.exploration, Constant):  # looks at nothing
            return self.exploration.value
        gain = None if engine is None else engine.log_det_gain()  # spares the posterior from following every round
        if gain is None:
            gain = self.posterior.log_det_gain
        situation = Situation(
            round_index=round_index,
            n_actions=n_actions,
            log_det_gain=gain + (waiting.log_det_gain if waiting else 0.0),
            regularisation=self.posterior.regularisation,
        )
        exploration = self.exploration(situation)
        if not 0.0 <= exploration < inf:  # also catches NaN
            raise InvalidParameter(
                f"An exploration schedule has to give a finite number, zero or above, got {exploration!r} from "
                f"{self.exploration.describe()} in round {round_index}."
            )
        if self.exploration.is_tuned:
            return exploration
        broken = NOT_PROVED if self.posterior.forgets else self.exploration.broken_by(situation)
        if broken and not self._has_warned:
            self._has_warned = True
            warn_user(broken, GuaranteeVoid)
        # A claim about the mean survives the narrower width only with this factor.
        return exploration * (waiting.inflation if waiting else 1.0)

    def _waiting(self) -> Pending | None:
        if self._ledger.pending and self._awaited is None:
            self._awaited = Pending(self.posterior, self._pending_points())
        return self._awaited if self._ledger.pending else None

    def _pending_points(self) -> Points:
        return self.posterior.kernel.kind.stack(*(self._point(decision) for decision in self._ledger.pending.values()))

    def _pending_changed(self) -> None:
        self._awaited = None

    def _refuse_incomparable(self, point: Points) -> None:
        self.posterior.predict(point)
        if self._ledger.pending:
            self.posterior.kernel.kind.stack(self._pending_points(), point)

    def explain(self, decision: Decision, *, most: int = 10) -> Explanation:
        """Which past actions made this mean, and how much of the score is exploration, by the model as it is now."""
        self._require_own(decision)
        point = self._point(decision)
        estimate = self._estimate(point, max(1, int(decision.n_actions)), self._waiting(), self.round_index)
        return explanation_of(
            self.posterior, point, exploration=estimate.exploration, most=most, prediction=estimate.prediction
        )

    # -- learning --------------------------------------------------------------------------------------------------

    def _take_in(self, decision: Decision, reward: float) -> None:
        self.posterior.observe_one(self._point(decision), reward)
        self._awaited = None  # widths of what is still pending depend on the settled data

    def _take_in_many(self, decisions: Sequence[Decision], rewards: Vector) -> None:
        points = self.posterior.kernel.kind.stack(*(self._point(decision) for decision in decisions))
        self.posterior.observe(points, rewards)
        self._awaited = None

    def _correct(self, decision: Decision, change: float) -> None:
        self.posterior.amend(self._point(decision), [change])

    def _take_back(self, decision: Decision, reward: float) -> None:
        self.posterior.remove(self._point(decision), [reward])
        self._awaited = None

    def _start_from(self, points: Points, rewards: Vector, times: ArrayLike) -> None:
        self.posterior.observe(points, rewards, times=times)
        self._awaited = None

    def _probe(self) -> Points | None:
        return self.posterior.support()[0] if self.posterior.size else None

    def _state(self) -> Parameters:
        return {"posterior": self.posterior.state()}

    def _restore(self, state: Mapping[str, Any]) -> None:
        self.posterior.restore(state["posterior"])
