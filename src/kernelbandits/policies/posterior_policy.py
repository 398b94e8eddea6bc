"""Base class of policies that score actions by the mean and width of a posterior."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from math import inf, isnan, sqrt
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from kernelbandits._parameters import Parameter, ValueType, described, parameter
from kernelbandits._saved_state import saved_array, saved_count, saved_part
from kernelbandits._transactions import handles_transaction
from kernelbandits.errors import (
    CannotSave,
    ForeignFile,
    GuaranteeVoid,
    InvalidParameter,
    NotSupported,
    NumericalError,
    warn_user,
)
from kernelbandits.kernels import Kernel, KernelLike, PointKind, Rows
from kernelbandits.policies.base import KERNEL, REWARD_RANGE, SEED, Policy
from kernelbandits.policies.explanation import Explanation, explanation_of
from kernelbandits.posterior import (
    AutoPosterior,
    DevicePosterior,
    Pending,
    Placed,
    Posterior,
    PosteriorFactory,
    PrimalPosterior,
    describe_posterior,
    posterior_factory,
    posterior_from,
)
from kernelbandits.posterior.base import checked_regularization
from kernelbandits.posterior.device import checked_device
from kernelbandits.posterior.dictionaries import checked_accuracy, checked_budget
from kernelbandits.posterior.factory import NamedPosterior, make_posterior
from kernelbandits.posterior.parameter_search import (
    ParameterSearch,
    Refit,
    as_refit,
    as_vector,
    at_vector,
    check_searchable,
    refit_from,
)
from kernelbandits.selection import CatalogView
from kernelbandits.selection.actions import Actions
from kernelbandits.selection.box import N_STARTS
from kernelbandits.selection.selector import Selector
from kernelbandits.theory.exploration import Constant, Exploration, RoundState, as_exploration, exploration_from
from kernelbandits.types import Decision, ItemId, Parameters, Point, Points, Prediction, Seed, Vector

__all__ = [
    "ACCURACY",
    "BUDGET",
    "EXPLORATION",
    "POSTERIOR",
    "KernelPolicy",
    "PendingPoints",
    "PosteriorPolicy",
    "ScoredPrediction",
]


def _packed_exploration(exploration: Exploration) -> Parameters:
    description = exploration.describe()
    try:
        exploration_from(description)
    except ForeignFile as error:
        raise CannotSave(f"An exploration schedule of your own cannot be saved: {error}") from error
    return description


EXPLORATION: Final = ValueType(as_exploration, described, _packed_exploration, exploration_from)
"""The `exploration` of a policy: a number or a schedule."""


def _packed_posterior(factory: PosteriorFactory) -> str | Parameters:
    if not isinstance(factory, NamedPosterior):
        raise CannotSave(
            "A posterior made by a function of your own cannot be saved; one that posterior_factory names can."
        )
    return factory.describe()


POSTERIOR: Final = ValueType(posterior_factory, describe_posterior, _packed_posterior, posterior_from)
"""The `posterior` of a policy: a name or a function. The attribute of this name is the posterior it made."""

BUDGET: Final = ValueType(checked_budget)
"""The `budget` of a policy: number of distinct points up to which its posterior is exact; None: no limit."""

ACCURACY: Final = ValueType(checked_accuracy)
"""The `accuracy` of a policy: largest unexplained part of the observations, as a fraction of the regularization."""

DEVICE: Final = ValueType(checked_device)
"""The `device` of a policy: "cpu", or the name of a GPU. It does not change the choices, so it is not described."""

logger: Final = logging.getLogger(__name__)

LARGEST_LOG: Final = 700.0
"""Largest logarithm of a parameter in a file; its exponential is a finite number."""

REFIT: Final = ValueType(as_refit, described, described, refit_from)
"""The `refit` of a policy: when it learns the parameters of its kernel; None: never."""

NOT_PROVED: Final = (
    "No interval is proved for {model}, so this exploration schedule claims more than it keeps. Tune a number instead: "
    "exploration=0.5 is a start."
)


class ScoredPrediction(NamedTuple):
    """Mean, width, exploration and offset: the components of a score."""

    prediction: Prediction
    exploration: float
    offset: Vector | None = None
    """Amount added to the score of each action; None: nothing."""

    @property
    def scores(self) -> Vector:
        """Mean + exploration · width + offset."""
        upper = self.prediction.upper(self.exploration)
        return upper if self.offset is None else upper + self.offset

    @property
    def lower(self) -> Vector:
        """Mean − exploration · width + offset."""
        lower = self.prediction.lower(self.exploration)
        return lower if self.offset is None else lower + self.offset


class PendingPoints:
    """Multiset of pending points: the distinct points and their counts.

    >>> from kernelbandits.kernels import Strings
    >>> tally = PendingPoints(Strings())
    >>> for point in ("a", "b", "a"):
    ...     tally.add([point], 1)
    >>> tally.distinct()
    (['a', 'b'], array([2., 1.]))
    """

    def __init__(self, kind: PointKind) -> None:
        self._kind = kind
        self._counts: dict[Hashable, int] = {}
        self._points: dict[Hashable, Points] = {}
        self._stacked: Points = None  # None: to be computed

    def add(self, point: Points, change: int) -> None:
        """Add (1) or remove (−1) one point, given as a collection of size one."""
        (key,) = self._kind.keys(point)
        count = self._counts.get(key, 0) + change
        if count and key in self._points:
            self._counts[key] = count
            return
        self._stacked = None
        if count:
            self._counts[key], self._points[key] = count, point
        else:
            del self._counts[key], self._points[key]

    def distinct(self) -> tuple[Points, Vector]:
        """Return the distinct points and their counts; requires at least one point."""
        if self._stacked is None:
            self._stacked = self._kind.stack(*self._points.values())
        return self._stacked, np.array(list(self._counts.values()), dtype=np.float64)


class PosteriorPolicy(Policy):
    """Base class of policies that learn all rewards into one posterior; the subclass defines how to choose.

    Pending decisions count in the widths, not in the means.
    """

    learns_from_any_action = True
    keeps_data_only = True

    reward_range: tuple[float, float] | None = parameter(REWARD_RANGE, default=None)
    seed: Seed = parameter(SEED, default=None, is_described=False)

    @abstractmethod
    def _new_posterior(self) -> Posterior:
        """Return an empty posterior."""

    def _setup(self) -> None:
        super()._setup()
        posterior = self._own_posterior(self._new_posterior())
        # A user-defined posterior records copies of itself; those of the library record their changes as they make
        # them.
        is_foreign = type(posterior)._note_change is Posterior._note_change
        self._has_notes_to_make = is_foreign or type(self)._note_model is not PosteriorPolicy._note_model
        self._is_numbered = posterior.capabilities.forgets
        self._has_plain_rows = type(posterior.kernel.kind) is Rows and type(self)._point is Policy._point
        self._point_kind = posterior.kernel.kind
        hooks = ("_points", "_context", "_catalog_points")
        is_fixed = all(getattr(type(self), hook) is getattr(PosteriorPolicy, hook) for hook in hooks)
        self._plain_kind = self._point_kind if is_fixed else None
        self.posterior = posterior
        """Posterior given the data learned so far: `policy.posterior.predict(contexts)` returns mean and width."""
        self._exploration = self._first_exploration()
        self._exploration_unit = 1.0  # factor on an exploration that is a number, where γ is learned
        self._search_due: int | None = None  # number of rewards at which parameters are learned next
        self._pending_points: PendingPoints | None = None  # derived from the pending decisions; None: to be computed
        self._pending_effect: Pending | None = None  # their effect on widths; None: to be computed
        self._has_warned = False

    def _first_exploration(self) -> Exploration:
        """Return the exploration at construction; zero for a policy that scores actions by their means."""
        given: Exploration | None = vars(self).get("_exploration")
        return Constant(0.0) if given is None else given

    @property
    @handles_transaction
    def exploration(self) -> Exploration:
        """Exploration schedule: the multiplier of the width in each round."""
        return self._exploration

    # -- points: as in `Policy`, without determining their kind ----------------------------------------------------

    def _kind(self, contexts: Points) -> PointKind:
        return self._point_kind

    def _points(self, contexts: Points, ids: Sequence[ItemId] | None) -> Points:
        return self._point_kind.check(contexts)

    def _context(self, points: Points, row: int) -> Point:
        return self._point_kind.one(points, row)

    def _catalog_points(self, view: CatalogView) -> Points:
        return view.points(self._point_kind)

    # -- prediction ------------------------------------------------------------------------------------------------

    def _estimate(self, points: Points, n_actions: int, waiting: Pending | None, round_index: int) -> ScoredPrediction:
        """Return the prediction and the exploration factor for it."""
        return ScoredPrediction(self._predict(points, waiting), self._exploration_now(n_actions, waiting, round_index))

    def _predict(self, points: Points, waiting: Pending | None) -> Prediction:
        """Return the mean from observed data and the width from observed and pending data."""
        return self.posterior._estimate(points) if waiting is None else waiting.estimate(points)

    def _predict_one(self, points: Points, place: int) -> tuple[float, float]:
        """Return mean and width of one of the points."""
        prediction = self._predict(self._kind(points).take(points, np.array([place])), self._waiting())
        return prediction.mean.item(), prediction.width.item()

    def _estimate_of(self, actions: Actions, place: int) -> tuple[float, float]:
        return self._predict_one(actions.points, place)

    def _exploration_now(
        self,
        n_actions: int,
        waiting: Pending | Placed | None,
        round_index: int,
        selector: Selector | None = None,
    ) -> float:
        if isinstance(self._exploration, Constant):  # independent of the round
            return self._exploration.value * self._exploration_unit
        gain = None if selector is None else selector.log_det_gain()  # avoids a posterior update every round
        if gain is None:
            gain = self.posterior.log_det_gain
        situation = RoundState(
            round_index=round_index,
            n_actions=n_actions or N_STARTS,
            is_continuous=not n_actions,
            log_det_gain=gain + (waiting.log_det_gain if waiting else 0.0),
            regularization=self.posterior.regularization,
            residual=self.posterior.residual,
        )
        exploration = self._exploration(situation)
        if not 0.0 <= exploration < inf:  # also catches NaN
            raise InvalidParameter(
                f"An exploration schedule has to give a finite number, zero or above, got {exploration!r} from "
                f"{self._exploration.describe()} in round {round_index}."
            )
        if self._exploration.is_tuned:
            return exploration * self._exploration_unit
        unproved = self.unproved
        broken = NOT_PROVED.format(model=unproved) if unproved else self._exploration.violated_assumption(situation)
        if broken and not self._has_warned:
            warn_user(broken, GuaranteeVoid)
            self._has_warned = True
        # A confidence statement about the mean holds for the narrower width only with this factor.
        return exploration * (waiting.inflation if waiting else 1.0) * self.posterior.inflation

    @property
    def unproved(self) -> str:
        """What about the model voids every confidence statement; empty if there is nothing."""
        offered = self.posterior.capabilities
        return "a posterior that forgets or predicts log-odds" if offered.forgets or offered.predicts_log_odds else ""

    def _waiting(self) -> Pending | None:
        if not self._ledger.pending:
            return None
        if self._pending_effect is None:
            points, counts = self._pending_tally().distinct()
            self._pending_effect = Pending(self.posterior, points, counts)
        return self._pending_effect

    def _pending_tally(self) -> PendingPoints:
        """Return the distinct points of the pending decisions."""
        if self._pending_points is None:
            tally = PendingPoints(self.posterior.kernel.kind)
            for decision in self._ledger.pending.values():
                tally.add(self._point(decision), 1)
            self._pending_points = tally
        return self._pending_points

    def _pending_changed(self, decision: Decision, change: int) -> None:
        self._pending_effect = None
        if self._pending_points is not None:
            self._journal.note(setattr, self, "_pending_points", None)  # recomputed if the call is interrupted
            self._pending_points.add(self._point(decision), change)

    def _validate_comparable(self, point: Points) -> None:
        if not self.posterior._knows(point):
            self.posterior.predict(point)
        if self._ledger.pending:
            self.posterior.kernel.kind.stack(self._pending_tally().distinct()[0], point)

    def explain(self, decision: Decision, *, most: int = 10) -> Explanation:
        """Explain which past actions determine the mean and how much is exploration, under the current model."""
        self._require_own(decision)
        point = self._point(decision)
        n_actions = 0 if isnan(decision.propensity) else max(1, int(decision.n_actions))  # nan: of a box
        estimate = self._estimate(point, n_actions, self._waiting(), self._ledger.round_index)
        return explanation_of(
            self.posterior, point, exploration=estimate.exploration, most=most, prediction=estimate.prediction
        )

    # -- learning --------------------------------------------------------------------------------------------------

    def _note_model(self) -> None:
        self.posterior._note_change()

    def _numbers_of(self, decisions: Sequence[Decision]) -> Sequence[int | None]:
        last = self.posterior.last_number if self.posterior.capabilities.forgets else None
        return super()._numbers_of(decisions) if last is None else range(last - len(decisions) + 1, last + 1)

    def _update(self, decision: Decision, reward: float) -> None:
        if self._has_plain_rows and decision is self._ledger.latest and type(decision.context) is np.ndarray:
            self.posterior._observe_one(decision.context[None], reward)  # equals `_point`, without its overhead
        else:
            self.posterior._observe_one(self._point(decision), reward)
        self._pending_effect = None  # widths of pending points depend on the observed data
        if self._search_due is not None:
            self._search_if_due()

    def _update_many(self, decisions: Sequence[Decision], rewards: Vector) -> None:
        first, n_rewards = 0, len(decisions)
        while first < n_rewards:  # parameters are learned after the same rewards as one at a time
            stop = n_rewards if self._search_due is None else first + self._search_due - self.posterior.n_observations
            points = self.posterior.kernel.kind.stack(*(self._point(decision) for decision in decisions[first:stop]))
            self.posterior.observe(points, rewards[first:stop])
            first = stop
            if self._search_due is not None:
                self._search_if_due()
        self._pending_effect = None

    def _search_if_due(self) -> None:
        """Learn the parameters of the model if enough rewards have come since the last time."""

    def _adopt(self, posterior: Posterior) -> None:
        """Continue with another posterior, which has learned the same."""
        self.posterior = posterior
        self._pending_points = self._pending_effect = None

    def _amend_reward(self, decision: Decision, was: float, now: float, number: int | None) -> None:
        self.posterior.amend(self._point(decision), was=[was], now=[now], numbers=[number])
        self._pending_effect = None  # of binary rewards, widths depend on the rewards, too

    def _remove_reward(self, decision: Decision, reward: float, number: int | None) -> None:
        self.posterior.remove(self._point(decision), [reward], numbers=[number])
        self._pending_effect = None

    def _warm_start(self, points: Points, rewards: Vector, times: ArrayLike) -> None:
        self.posterior.observe(points, rewards, times=times)
        self._pending_effect = None
        if self._search_due is not None:
            self._search_if_due()

    def _check_refit(self, values: Mapping[str, Any]) -> None:
        super()._check_refit({name: value for name, value in values.items() if name != "reward_range"})
        if type(self.posterior)._note_change is Posterior._note_change:
            raise NotSupported(
                "What a posterior of your own stores may depend on its parameters. Let a new policy learn the log: "
                "policy.clone(…)."
            )
        if "reward_range" in values and not _contains(values["reward_range"], self.reward_range):
            raise NotSupported(
                f"Rewards of the range {self.reward_range} were learned, so a new range must contain it, got "
                f"{values['reward_range']}."
            )

    def _continue_from(self, before: Mapping[str, Any], state: Mapping[str, Any]) -> None:
        old, new = before["posterior"], self.posterior
        if old.kernel.kind != new.kernel.kind:
            raise NotSupported(
                f"{type(old.kernel.kind).__name__} were learned, and the new parameters are for "
                f"{type(new.kernel.kind).__name__}. Let a new policy learn the log: policy.clone(…)."
            )
        forms = [describe_posterior(values["_form"]) for values in (before, vars(self)) if "_form" in values]
        if (old.capabilities.forgets or new.capabilities.forgets) and forms[0] != forms[-1]:
            raise NotSupported(
                "How rewards are forgotten cannot change after something was learned. Let a new policy learn the log: "
                "policy.clone(posterior=…)."
            )
        has_same_features = old.kernel.describe() == new.kernel.describe()
        has_plain_sums = type(new) is PrimalPosterior or old.regularization == new.regularization
        if old.n_merged and not (has_same_features and has_plain_sums):
            raise NotSupported(
                f"{old.n_merged} observations were merged into sums, which hold for these parameters only. Let a new "
                "policy learn the log: policy.clone(…)."
            )
        super()._continue_from(before, state)
        if new.size:  # compares points and factorizes while the call can still be rejected
            new.predict(new.kernel.kind.take(new.support()[0], np.zeros(1, dtype=np.intp)))

    def _probe(self) -> Points | None:
        return self.posterior.support()[0] if self.posterior.size else None

    def _state(self) -> Parameters:
        return {"posterior": self.posterior.state()}

    def _restore(self, state: Mapping[str, Any]) -> None:
        self.posterior.restore(saved_part(state, "posterior"))


def _contains(outer: tuple[float, float] | None, inner: tuple[float, float] | None) -> bool:
    """Whether one range of rewards contains another; None is unbounded."""
    return outer is None or (inner is not None and outer[0] <= inner[0] and inner[1] <= outer[1])


class KernelPolicy(PosteriorPolicy):
    """Base class of policies with a kernel and a posterior of the user's choice."""

    kernel: Parameter[KernelLike, Kernel] = parameter(KERNEL, kw_only=False)
    regularization: float = parameter(checked_regularization, default=1.0)
    posterior: Parameter[str | PosteriorFactory, Posterior] = parameter(
        POSTERIOR, default="auto", attribute="_form", is_public=False
    )

    budget: int | None = parameter(BUDGET, default=None)
    accuracy: float | None = parameter(ACCURACY, default=None)
    device: str = parameter(DEVICE, default="cpu", is_described=False)
    refit: Parameter[Literal["auto"] | int | Refit | None, Callable[..., Any]] = parameter(
        REFIT, default=None, attribute="_refit_rule", is_public=False
    )

    def _setup(self) -> None:
        self._found: Vector | None = None  # parameters that were learned, as in `as_vector`; None: those given
        rule: Refit | None = vars(self)["_refit_rule"]
        if rule is not None:
            self._check_searchable()
        super()._setup()
        self._search_due = None if rule is None else rule.next_after(0)

    def _new_posterior(self) -> Posterior:
        form = vars(self)["_form"]
        is_approximate = self.budget is not None or self.accuracy is not None
        if (is_approximate or self.device != "cpu") and form != posterior_factory("auto"):
            raise InvalidParameter(
                f"A budget, an accuracy or a device is for posterior='auto', got {describe_posterior(form)!r}. Leave "
                "the posterior out."
            )
        kernel, regularization = self._current_parameters()
        if self.device != "cpu":
            if self.accuracy is not None:
                raise NotSupported(
                    f"A model on device={self.device!r} is exact, or has a budget, so it takes no accuracy. Leave the "
                    "device out: a model with an accuracy is computed on the processor."
                )
            if self.budget is not None:
                return AutoPosterior(kernel, regularization=regularization, budget=self.budget, device=self.device)
            return DevicePosterior(kernel, regularization=regularization, device=self.device)
        if is_approximate:
            given = {"budget": self.budget, "accuracy": self.accuracy}
            form = posterior_factory("auto", **{name: value for name, value in given.items() if value is not None})
        return make_posterior(form, kernel, regularization)

    # -- parameters that follow the data -----------------------------------------------------------------------------

    def _check_searchable(self) -> None:
        """Raise NotSupported for a model whose parameters cannot be learned from what it stores."""
        form = vars(self)["_form"]
        if self.budget is not None or self.accuracy is not None:
            raise NotSupported(
                "Parameters are learned from all observations, and beyond a budget or with an accuracy only a "
                f"dictionary is used, got budget={self.budget} and accuracy={self.accuracy}. Leave `refit` out, or "
                "these two."
            )
        if form not in (posterior_factory("auto"), posterior_factory("exact")):
            raise NotSupported(
                f"Parameters are learned for posterior='auto' and 'exact', got {describe_posterior(form)!r}. Leave "
                "`refit` out, or the posterior."
            )
        check_searchable(self.kernel)

    def _current_parameters(self) -> tuple[Kernel, float]:
        """Return the kernel and the regularization in use."""
        return (self.kernel, self.regularization) if self._found is None else at_vector(self.kernel, self._found)

    @property
    def unproved(self) -> str:
        is_fixed = vars(self)["_refit_rule"] is None
        return super().unproved if is_fixed else "kernel parameters that are chosen by the rewards"

    def _search_if_due(self) -> None:
        if self._search_due is None or self.posterior.n_observations < self._search_due:
            return
        rule: Refit = vars(self)["_refit_rule"]
        self._note_references("_search_due")
        self._search_due = rule.next_after(self.posterior.n_observations)
        start = as_vector(self.kernel, self.regularization)
        points, _, counts, sums = self.posterior.support()
        search = ParameterSearch(self.kernel, start, points, counts, sums, criterion=rule.criterion, most=rule.most)
        found = search.better_than(start if self._found is None else self._found)
        if found is not None:
            self._use(found)

    def _use(self, found: Vector) -> None:
        """Continue with these parameters, unless the posterior rejects them."""
        state, before = self.posterior.state(), self._found
        self._note_references()
        self._found = found
        posterior = self._new_posterior()
        try:
            posterior.restore(state)
            posterior.predict(posterior.kernel.kind.take(posterior.support()[0], np.zeros(1, dtype=np.intp)))
        except NumericalError as error:
            self._found = before
            logger.warning("Learned parameters are not used: %s", error)
            return
        self._adopt(self._own_posterior(posterior))
        logger.debug("Parameters are %r and %g now.", posterior.kernel, posterior.regularization)

    def _adopt(self, posterior: Posterior) -> None:
        super()._adopt(posterior)
        self._exploration_unit = min(1.0, sqrt(posterior.regularization / self.regularization))

    def _continue_from(self, before: Mapping[str, Any], state: Mapping[str, Any]) -> None:
        has_same = all(before[name] == vars(self)[name] for name in ("_refit_rule", "_regularization"))
        if "refit" in state and not (has_same and before["_kernel"].describe() == self.kernel.describe()):
            state = {name: part for name, part in state.items() if name != "refit"}
        super()._continue_from(before, state)

    def _state(self) -> Parameters:
        if self._search_due is None:
            return super()._state()
        found = np.zeros(0) if self._found is None else self._found
        return {**super()._state(), "refit": {"found": found, "due": self._search_due}}

    def _restore(self, state: Mapping[str, Any]) -> None:
        rule: Refit | None = vars(self)["_refit_rule"]
        if rule is not None and "refit" in state:
            saved = saved_part(state, "refit")
            self._search_due = saved_count(saved, "due", least=1)
            if len(saved_array(saved, "found", "f", (None,))):
                start = as_vector(self.kernel, self.regularization)
                self._found = saved_array(saved, "found", "f", start.shape, least=-LARGEST_LOG, most=LARGEST_LOG)
                self._adopt(self._own_posterior(self._new_posterior()))
        super()._restore(state)
        if rule is not None and "refit" not in state:
            self._search_due = rule.next_after(self.posterior.n_observations)
