"""Base class of all policies: argument validation, decision ids, pending rewards and serialization."""

from __future__ import annotations

import copy
import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import isfinite, nan
from os import PathLike
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Self, cast, overload

import numpy as np
from numpy import ndarray  # a local name: `_actions` runs in every round
from numpy.typing import ArrayLike, NDArray

from kernelbandits._parameters import Parametrized, ValueType, described
from kernelbandits._text import brief, html_table
from kernelbandits._transactions import Transactional, handles_transaction, transaction
from kernelbandits.errors import (
    DecisionError,
    GuaranteeVoid,
    IllConditioned,
    InvalidContexts,
    InvalidParameter,
    NotSupported,
    warn_user,
)
from kernelbandits.kernels import Kernel, PointKind, as_kernel
from kernelbandits.policies.decisions import MOST_LEARNED, Ledger, Rewards, digest_of_choice, is_issued
from kernelbandits.policies.events import Event, Listener
from kernelbandits.policies.explanation import Explanation
from kernelbandits.policies.random_state import RandomState
from kernelbandits.policies.rounds import KnownRounds, RewardLog, listed_rounds, per_round
from kernelbandits.policies.slates import Ranking, given_places, slate_places
from kernelbandits.posterior import Posterior
from kernelbandits.selection import Catalog, CatalogView
from kernelbandits.selection.actions import Actions, ActionSet, CatalogActions, checked_ids, no_ids_beside_a_catalog
from kernelbandits.selection.box import BOXES, Box, BoxActions, Product
from kernelbandits.types import (
    Decision,
    ItemId,
    Matrix,
    OpenDecision,
    Parameters,
    Plays,
    Point,
    Points,
    Seed,
    Selection,
    Slate,
    Vector,
    WithCosts,
)
from kernelbandits.validation import (
    check_bool,
    check_float,
    check_int,
    check_nonnegative,
    check_positive,
    check_range,
    is_number,
    short_repr,
)

__all__ = [
    "EXPLORATION_FACTOR",
    "HORIZON",
    "KERNEL",
    "LEARNING_FACTOR",
    "NOISE_SCALE",
    "NORM_BOUND",
    "N_ACTIONS",
    "REWARD_RANGE",
    "SEED",
    "UNIFORM_FACTOR",
    "Policy",
    "Saved",
    "fingerprint_of",
]

CATALOGS: Final = (Catalog, CatalogView)
SETS: Final = (*CATALOGS, *BOXES)

LARGEST_EXACT: Final = 1e19
"""Largest absolute reward that can be removed again without a rounding error in the sums of other rewards."""


KERNEL: Final = ValueType(as_kernel, described)
"""The `kernel` of a policy. A file holds it with the other parameters, or `load` needs it as an argument."""


def _reward_range(value: tuple[float, float] | None) -> tuple[float, float] | None:
    return None if value is None else check_range(value, "A reward range")


REWARD_RANGE: Final = ValueType(_reward_range)
"""The `reward_range` of a policy; None accepts any finite reward, where the algorithm does."""

SEED: Final = ValueType(lambda seed: seed)
"""The `seed` of a policy, validated by `RandomState`."""

HORIZON: Final = partial(check_int, name="The horizon")
N_ACTIONS: Final = partial(check_int, name="The number of actions")
NOISE_SCALE: Final = partial(check_nonnegative, name="The noise scale")
NORM_BOUND: Final = partial(check_nonnegative, name="The norm bound")
EXPLORATION_FACTOR: Final = partial(check_positive, name="The exploration")
UNIFORM_FACTOR: Final = partial(
    check_positive, name="The uniform factor", hint="1.0 is that of the proof; less learns faster."
)
LEARNING_FACTOR: Final = partial(check_positive, name="The learning factor")


class Saved(NamedTuple):
    """Constructor arguments of a policy as read from a file; input of `Policy._build`."""

    parameters: Parameters
    """The description of the policy, without its class."""

    kernel: Kernel | None
    structure: Mapping[str, Any]
    """Contents of the file for parameters whose description is not enough, by name."""

    rebuild: Callable[[Mapping[str, Any]], Policy]
    """Rebuilds a policy that `packed_policy` put into the structure."""


class Policy(Parametrized, Transactional, ABC):
    """Base class of policies, which choose among the actions of a round and learn from rewards.

    `choose` does not change any later result. `learn`, `amend` and `unlearn` change the model atomically: an
    interrupted call leaves the model as it was. Every public method is thread-safe; calls are serialized by a lock. A
    subclass declares its parameters and implements `_kind`, `_pick`, `_update`, `_state` and `_restore`; the base class
    provides everything else. Parameters named `reward_range`, `seed`, `horizon` and `n_actions` mean what they mean in
    every policy: a round beyond the horizon is reported once by a warning, and a round with more than `n_actions`
    eligible actions is rejected.
    """

    needs_fixed_actions = False
    """Whether the algorithm is defined for one fixed set of actions only. If so, any other set is rejected."""

    needs_reward_range = False
    """Whether the algorithm is defined only for rewards with a known range. If so, `reward_range=None` is rejected."""

    learns_from_any_action = False
    """Whether `learn` is correct for an action that another rule selected in place of the policy's own choice.

    Such a decision has no stage and carries this round's memo. `Mixed` wraps only policies with this property. It must
    be False for a policy whose importance weights depend on its own probabilities.
    """

    accepts_offsets = False
    """Whether the choice counts `actions.offset`, an amount that is added to the score of each action. `Paced` wraps
    only policies with this property."""

    reports_posterior_width = False
    """Whether a decision reports the width of the posterior that then learns it, once, so that the information gain of
    the learned data is a sum over decisions."""

    keeps_data_only = False
    """Whether `_state` holds only what was learned, in a form that depends on no parameter, so that `refit` can pass it
    on to a model with other parameters."""

    _has_notes_to_make = True
    """Whether `_note_model` does anything."""

    _seed_level = 0
    """Nesting depth of wrapped policies. It separates their random numbers if they have the same seed."""

    _plain_kind = cast("PointKind | None", None)
    """Kind of all points, if `_points`, `_context` and `_catalog_points` do no more than apply it."""

    _is_numbered = False
    """Whether observations have numbers (`_numbers_of`)."""

    _reserved = frozenset({"_journal", "_ledger", "_random", "_resolved", "_rewards"})

    _without_horizon = "horizon=None"
    """Arguments of a policy without a horizon, where that is optional."""

    _is_wrapped = False
    """Whether another policy wraps this one."""

    _is_outermost = False
    """Whether no other policy may wrap this one."""

    _validates_rounds = False
    """Whether rounds are restricted: to a fixed set, or by the parameters `horizon` and `n_actions`."""

    _searches_boxes = False
    """Whether `_pick` finds the best point of `BoxActions`."""

    _has_warned_beyond = False
    """Whether a round beyond the horizon was reported."""

    def _setup(self) -> None:
        """Create what every policy has. A subclass calls it first, then builds its model."""
        given = vars(self)
        self._rewards = Rewards(given.get("_reward_range"))
        if self.needs_reward_range and self._rewards.range is None:
            raise InvalidParameter(
                f"{type(self).__name__} measures rewards by their range, so the reward range must be declared, got "
                "reward_range=None. (0, 1) is right for clicks."
            )
        is_limited = any(self._limit(name) is not None for name in ("horizon", "n_actions"))
        self._validates_rounds = self.needs_fixed_actions or is_limited
        self._has_warned_beyond = False
        self._random = RandomState(given.get("_seed"), self._seed_level)
        if "_ledger" not in given:  # it stays the same when parameters are set
            self._ledger = Ledger(self._journal)
        self._known_fingerprint, self._known_configuration = "", -1
        self._has_history = False  # whether anything was learned by `warm_start`

    def _set_up(self) -> None:
        super()._set_up()
        for name, own in (("_rewards", Rewards), ("_random", RandomState), ("_ledger", Ledger)):
            if not isinstance(vars(self).get(name), own):
                raise TypeError(
                    f"{type(self).__name__} has no {name} of its base class: call super()._setup() first, and give an "
                    "attribute with this name another one."
                )

    @property
    @handles_transaction
    def kernel(self) -> Kernel | None:
        """Similarity of actions, if the policy has a kernel."""
        return None

    @property
    def reward_range(self) -> tuple[float, float] | None:
        """Range of valid rewards; a reward outside it is rejected. None accepts any finite number."""
        return self._rewards.range

    @property
    def remember(self) -> int:
        """Number of learned decisions with stored rewards, 100,000 by default: these can be amended without `was`."""
        return self._ledger.remember

    @remember.setter
    def remember(self, n_decisions: int) -> None:
        self._ledger.set_remember(
            check_int(n_decisions, "The number of remembered decisions", least=0, most=MOST_LEARNED)
        )

    # -- methods that a subclass must implement --------------------------------------------------------------------

    @abstractmethod
    def _kind(self, contexts: Points) -> PointKind:
        """Return the point type of the contexts."""

    @abstractmethod
    def _pick(self, actions: Actions) -> Selection:
        """Return the selected index into `actions.points`, the eligible actions of the round, with its estimates."""

    @abstractmethod
    def _update(self, decision: Decision, reward: float) -> None:
        """Update the model. Id and reward are already validated. Partial changes are rolled back on an error."""

    @abstractmethod
    def _state(self) -> Parameters:
        """Return nested plain values and arrays that restore the model, without caches."""

    @abstractmethod
    def _restore(self, state: Mapping[str, Any]) -> None:
        """Restore the model from the return value of `_state`."""

    # -- methods that a subclass may implement ---------------------------------------------------------------------

    def _ranking(self, actions: Actions, *, diverse: bool) -> Ranking:
        """Return an empty slate of these actions."""
        raise NotSupported(f"{type(self).__name__} chooses one action at a time; it has no ranking to give.")

    def _probabilities(self, actions: Actions) -> Vector:
        """Return the probability of each eligible action; a deterministic policy assigns 1 to one of them."""
        probabilities = np.zeros(actions.n_actions)
        probabilities[self._pick(actions).row] = 1.0
        return probabilities

    def _probabilities_batch(self, rounds: Sequence[Actions]) -> list[Vector]:
        """Return `_probabilities` of many rounds, all evaluated on the same model."""
        return [self._probabilities(actions) for actions in rounds]

    def _estimate_of(self, actions: Actions, place: int) -> tuple[float, float]:
        """Return mean and width of one eligible action, if the policy has such estimates."""
        return nan, nan

    def _note_model(self) -> None:
        """Record in the journal how to undo the next change of the model.

        The default records a copy of the whole model. Policies of the library replace their attributes instead of
        mutating them, so they record references (`_note_references`).
        """
        self._note_copy()

    def _note_references(self, *names: str) -> None:
        """Record the values of the given attributes, or of all. They must be replaced, not mutated in place."""
        now = vars(self)
        self._journal.note(now.update, {name: now[name] for name in names} if names else dict(now))

    def _noting_parts(self) -> tuple[object, ...]:
        return (self._ledger,)

    def _own_posterior(self, posterior: Posterior) -> Posterior:
        """Return the posterior, bound to the transactions of this policy and of no other."""
        if posterior.has_policy:
            raise InvalidParameter(
                "A posterior belongs to one policy, and this one has a policy already. A function that makes "
                "posteriors has to return a new one in each call."
            )
        posterior.has_policy = True
        posterior._join(self._journal)
        return posterior

    def _validate_decision(self, decision: Decision) -> None:
        """Raise DecisionError for a decision that this policy cannot have made."""

    def _update_many(self, decisions: Sequence[Decision], rewards: Vector) -> None:
        """Update the model with a batch of decisions and rewards."""
        for decision, reward in zip(decisions, rewards, strict=True):
            self._update(decision, float(reward))

    def _numbers_of(self, decisions: Sequence[Decision]) -> Sequence[int | None]:
        """Return the observation numbers of decisions just learned, if a correction has to identify the observation."""
        return [None] * len(decisions)

    def _amend_reward(self, decision: Decision, was: float, now: float, number: int | None) -> None:
        """Replace a learned reward; `number` is the result of `_numbers_of` when it was learned, if known."""
        raise NotSupported(f"{type(self).__name__} cannot amend a reward: its update depends on the order.")

    def _remove_reward(self, decision: Decision, reward: float, number: int | None) -> None:
        """Remove a learned reward from the model; `number` as in `_amend_reward`."""
        raise NotSupported(
            f"{type(self).__name__} cannot unlearn a reward: its update depends on the order of rewards."
        )

    def _warm_start(self, points: Points, rewards: Vector, times: ArrayLike) -> None:
        """Learn from historical data."""
        raise NotSupported(f"{type(self).__name__} cannot learn from rewards of other policies' decisions.")

    def _probe(self) -> Points | None:
        """Return points that were learned from, if any. A file stores some of their similarities to check a kernel."""
        return None

    @classmethod
    def _build(cls, saved: Saved) -> Policy:
        """Return a new policy with the parameters of a file; those it does not name have their defaults."""
        arguments = cls._unpacked_parameters(saved.parameters, saved.structure)
        if saved.kernel is not None and "kernel" in cls._declared:
            arguments["kernel"] = saved.kernel
        return cls(**arguments)

    def _check_refit(self, values: Mapping[str, Any]) -> None:
        """Raise NotSupported for parameters that cannot change after something was learned."""
        name = type(self).__name__
        if not self.keeps_data_only:
            changed = ", ".join(f"{changed}=…" for changed in values)
            raise NotSupported(
                f"The model of {name} depends on the parameters that it had when it learned, so they cannot change "
                f"now. Let a new policy learn the log: policy.clone({changed})."
            )
        if "reward_range" in values:
            raise NotSupported(
                f"{name} measures what it learned by its reward range, so that cannot change now. Let a new policy "
                "learn the log: policy.clone(reward_range=…)."
            )

    def _validate_action_set(self, points: Points) -> None:
        """Raise NotSupported for a whole set of actions that `needs_fixed_actions` excludes."""

    def _limit(self, name: str) -> int | None:
        """Return the value of the parameter `horizon` or `n_actions`; None if there is no such limit."""
        declared = self._declared.get(name)
        return None if declared is None else vars(self).get(declared.attribute)

    def _n_limited(self, actions: Actions) -> int:
        """Return the number that `n_actions` limits: that of the eligible actions."""
        return actions.n_actions

    def _validate_round(self, actions: Actions) -> None:
        """Apply the limits `horizon` and `n_actions` to a round."""
        most, n_actions = self._limit("n_actions"), self._n_limited(actions)
        if most is not None and n_actions > most:
            raise InvalidContexts(
                f"{type(self).__name__} was made for rounds of at most n_actions = {most} actions, got {n_actions}. "
                f"Give the number of the largest round: n_actions={n_actions}."
            )
        horizon = self._limit("horizon")
        if horizon is not None:
            self._warn_beyond(horizon)

    def _warn_beyond(self, horizon: int) -> None:
        """Warn once that the horizon is exceeded."""
        if self._ledger.round_index > horizon and not self._has_warned_beyond:
            self._has_warned_beyond = True
            is_optional = self._declared["horizon"].is_optional if "horizon" in self._declared else False
            remedy = f"{self._without_horizon}, if the end is not known" if is_optional else "a longer one"
            warn_user(
                f"Round {self._ledger.round_index} lies beyond the horizon {horizon} that {type(self).__name__} was "
                f"made for, so its guarantee is void. Take {remedy}.",
                GuaranteeVoid,
            )

    def _pending_key(self, decision: Decision) -> Hashable:
        """Return the key by which pending decisions are counted, computed from validated fields of the decision."""
        return int(decision.action)

    def _pending_counts(self) -> Mapping[Any, int]:
        """Return the number of pending decisions per `_pending_key`; an update takes constant time."""
        return self._ledger.pending_counts(self._pending_key)

    def _pending_changed(self, decision: Decision, change: int) -> None:
        """Update or drop derived data after a decision became pending (change 1) or is no longer pending (−1)."""
        self._ledger.count_pending(self._pending_key(decision), change)

    def _pick_batch(self, rounds: Sequence[Actions]) -> list[Selection]:
        """Return `_pick` of many rounds, all evaluated on the same model."""
        return [self._pick(actions) for actions in rounds]

    def _validate_comparable(self, point: Points) -> None:
        """Raise InvalidContexts for a point that cannot be compared with learned or pending points."""

    def _catalog_points(self, view: CatalogView) -> Points:
        """Return the validated points of the items of a catalog."""
        return view.points(self._kind(None))

    def _points(self, contexts: Points, ids: Sequence[ItemId] | None) -> Points:
        """Return the validated points of a round."""
        return self._kind(contexts).check(contexts)

    def _context(self, points: Points, row: int) -> Point:
        """Return a copy of one point for a decision."""
        return self._kind(points).one(points, row)

    def _point(self, decision: Decision) -> Points:
        """Return the decision's point as a collection of size one: inverse of `_context`."""
        kind = self._kind(decision.context)
        return (
            kind.from_trusted(decision.context)
            if decision is self._ledger.latest
            else kind.as_collection(decision.context)
        )

    # -- choosing --------------------------------------------------------------------------------------------------

    @overload
    def choose(
        self,
        contexts: Points,
        *,
        ids: Sequence[ItemId] | None = None,
        eligible: NDArray[np.bool_] | None = None,
        id: str | None = None,
    ) -> Decision: ...
    @overload
    def choose(
        self,
        contexts: Points,
        *,
        k: int,
        diverse: bool = False,
        ids: Sequence[ItemId] | None = None,
        eligible: NDArray[np.bool_] | None = None,
    ) -> Slate: ...
    @handles_transaction
    def choose(
        self,
        contexts: Points,
        *,
        k: int | None = None,
        diverse: bool = False,
        ids: Sequence[ItemId] | None = None,
        eligible: NDArray[np.bool_] | None = None,
        id: str | None = None,
    ) -> Decision | Slate:
        """Select the action to take now, or the k best. Does not change the model.

        Parameters
        ----------
        contexts
            The actions of this round in any form that the kernel accepts: rows, sparse rows, strings, ids, pairs. A
            `Catalog`, whole or restricted, is faster for a set of actions that is queried repeatedly. A `Box`, or a
            context joined with one (`kb.Product`), for actions that are continuous: the decision then holds the point
            found as its context, and has no propensity (nan), since a point has no probability.
        k
            Number of actions to rank, best first. The result is then a `Slate`.
        diverse
            Whether widths shrink as items are placed, so that a slate explores different actions.
        ids
            One id per row; the id of the selected row is returned as `decision.item`.
        eligible
            One boolean per row: which actions may be selected.
        id
            Id of the decision, if the caller already has one. A randomized policy then derives its random numbers from
            the seed and the id: the same id gives the same decision until something is learned.
        """
        journal = self._journal
        lock, notes = journal.lock, journal.notes
        is_inside = lock._is_owned()  # then this call is nested in another one
        try:
            with lock:
                if notes and not is_inside:
                    journal.roll_back()
                chosen: Decision | Slate
                if k is None and id is None and diverse is False:
                    actions, ledger = self._actions(contexts, ids, eligible), self._ledger
                    chosen = ledger.latest = self._decision(actions, self._pick(actions), ledger.issuer.next())
                else:
                    chosen = self._choose_with(contexts, k, check_bool(diverse, "`diverse`"), ids, eligible, id)
                if notes and not is_inside:
                    notes.clear()
                return chosen
        except BaseException:
            if not is_inside:
                journal.recover()
            raise

    def _choose_with(
        self,
        contexts: Points,
        k: int | None,
        diverse: bool,
        ids: Sequence[ItemId] | None,
        eligible: NDArray[np.bool_] | None,
        id: str | None,
    ) -> Decision | Slate:
        """Choose with options that are seldom given."""
        if k is not None:
            return self._choose_slate(contexts, k, diverse, ids, eligible, id)
        if diverse:
            raise InvalidParameter("A diverse slate needs its length: choose(contexts, k=5, diverse=True).")
        if id is None:
            return self.choose(contexts, ids=ids, eligible=eligible)
        return self._choose_by_id(contexts, ids, eligible, id)

    def _choose_by_id(
        self,
        contexts: Points,
        ids: Sequence[ItemId] | None,
        eligible: NDArray[np.bool_] | None,
        id: str,
    ) -> Decision:
        """Choose for a decision whose id the caller gave: draws depend on the seed and the id."""
        self._ledger.check_free(id)
        given = self._actions(contexts, ids, eligible)
        self._journal.note(self._draw_by, None)
        self._draw_by(id)
        choice = self._pick(given)
        self._draw_by(None)
        return self._decision(given, choice, id)

    def _choose_slate(
        self,
        contexts: Points,
        k: int,
        diverse: bool,
        ids: Sequence[ItemId] | None,
        eligible: NDArray[np.bool_] | None,
        id: str | None,
    ) -> Slate:
        if id is not None:
            raise InvalidParameter("A slate holds several decisions, and `id` can name only one. Leave it out.")
        if isinstance(contexts, BOXES):
            raise NotSupported(
                "A box has no k best points: close to the best one there are always others that are nearly as good. "
                "For several points at once, choose one, expect(decision), and choose again."
            )
        given = self._actions(contexts, ids, eligible)
        self._note_random()
        self._check_length(k, given)
        choices = self._ranking(given, diverse=diverse).first(int(k))
        return Slate(tuple(self._decision(given, choice, self._ledger.new_id()) for choice in choices))

    def _check_length(self, k: int, given: Actions) -> None:
        """Raise InvalidParameter for the length of a slate that these actions do not allow."""
        if not isinstance(k, int | np.integer) or not is_number(k) or not 1 <= k <= given.n_actions:
            n_actions = given.n_actions
            raise InvalidParameter(
                f"k must be a number from 1 to the {n_actions} eligible actions, got {short_repr(k)}."
            )

    # -- random state ------------------------------------------------------------------------------------------------

    @property
    def _rng(self) -> np.random.Generator:
        """Random generator of the current call."""
        return self._random.generator

    def _draw_by(self, id: str | None) -> None:
        """Derive the random numbers of this call from the id of its decision; None returns to the stream."""
        self._random.draw_by(id)

    def _note_random(self) -> None:
        """Record the random state before a call that may raise after a draw."""
        self._journal.note(self._random.restore, self._random.state())

    def reseed(self, seed: Seed = None) -> None:
        """Replace the random state. The model does not change.

        A policy that is loaded, copied or sent to several workers draws the same numbers in each of them. Pass a
        different seed to each worker, or None for an unpredictable one. A forked process reseeds itself.
        """
        random = RandomState(seed, self._seed_level)
        self._note_references(*({"_random", "_seed"} & vars(self).keys()))
        self._random = random
        if "_seed" in vars(self):
            self._seed = seed

    def choose_many(
        self,
        rounds: Sequence[Points],
        *,
        ids: Sequence[Sequence[ItemId] | None] | None = None,
        eligible: Sequence[NDArray[np.bool_] | None] | None = None,
    ) -> list[Decision]:
        """Decide independent rounds on the same model, in a batch where that is faster.

        The decisions are those of `choose`, which also defines the form of each round. A randomized policy draws in the
        order of the rounds.

        Parameters
        ----------
        rounds
            One entry per round, in the form that `choose` accepts.
        ids
            Per round, one id per row or None.
        eligible
            Per round, one boolean per row or None.
        """
        given = self._actions_of_each(rounds, ids, eligible)
        self._note_random()
        return [
            self._decision(actions, choice, self._ledger.new_id())
            for actions, choice in zip(given, self._pick_batch(given), strict=True)
        ]

    def probabilities(
        self, contexts: Points, *, ids: Sequence[ItemId] | None = None, eligible: NDArray[np.bool_] | None = None
    ) -> Vector:
        """Return the probability of each action; 0 for actions that are not eligible."""
        given = self._listed(contexts, ids, eligible)
        return _spread(given, self._probabilities(given))

    def probabilities_many(
        self,
        rounds: Sequence[Points],
        *,
        ids: Sequence[Sequence[ItemId] | None] | None = None,
        eligible: Sequence[NDArray[np.bool_] | None] | None = None,
    ) -> list[Vector]:
        """Return `probabilities` of many rounds, all evaluated on the same model.

        The rounds are evaluated in a batch where that is faster.

        Parameters
        ----------
        rounds
            One entry per round, in the form that `probabilities` accepts.
        ids
            Per round, one id per row or None.
        eligible
            Per round, one boolean per row or None.
        """
        given = self._actions_of_each(rounds, ids, eligible, self._listed)
        found = self._probabilities_batch(given)
        return [_spread(actions, probabilities) for actions, probabilities in zip(given, found, strict=True)]

    def slate_probabilities(
        self,
        contexts: Points,
        actions: ArrayLike,
        *,
        ids: Sequence[ItemId] | None = None,
        eligible: NDArray[np.bool_] | None = None,
    ) -> Vector:
        """Return the probability of each place of a slate, given the places above it; their product is the slate's.

        Parameters
        ----------
        contexts, ids, eligible
            As in `choose`.
        actions
            Rows of the slate, the top place first, as in `slate.actions`.
        """
        given = self._listed(contexts, ids, eligible)
        return given_places(self._ranking(given, diverse=False), slate_places(given, actions))

    def place_probabilities(
        self,
        contexts: Points,
        k: int,
        *,
        ids: Sequence[ItemId] | None = None,
        eligible: NDArray[np.bool_] | None = None,
    ) -> Matrix:
        """Return the probability of each action at each of k places, whatever is above it: a matrix k × actions.

        Exact for up to 2,000 beginnings of slates with positive probability; beyond, the mean over 1,000 beginnings
        drawn with a fixed seed.

        Parameters
        ----------
        contexts, k, ids, eligible
            As in `choose`.
        """
        given = self._listed(contexts, ids, eligible)
        self._check_length(k, given)
        found = self._ranking(given, diverse=False).place_probabilities(int(k))
        return found if given.rows is None else np.array([_spread(given, row) for row in found])

    def explain(self, decision: Decision, *, most: int = 10) -> Explanation:
        """Explain the score of the decision's action under the current model."""
        raise NotSupported(f"{type(self).__name__} has no estimates to explain.")

    @property
    def round_index(self) -> int:
        """Index of the round that the next choice belongs to: 1 + decisions learned + decisions pending."""
        return self._ledger.round_index

    # -- learning --------------------------------------------------------------------------------------------------

    @handles_transaction
    def learn(self, decision: Decision, reward: float) -> None:
        """Update the model with the reward of a decision: once, in any order, with any delay."""
        journal = self._journal
        lock, notes = journal.lock, journal.notes
        is_inside = lock._is_owned()
        try:
            with lock:
                if notes and not is_inside:
                    journal.roll_back()
                ledger, mark = self._ledger, None
                if decision is None or decision is not ledger.latest or decision.policy != self._known_fingerprint:
                    ledger.validate_learnable(decision, self.fingerprint)
                    self._validate_decision(decision)
                    mark = self._mark(decision)
                value = self._rewards.one(reward)
                if self._has_notes_to_make:
                    self._note_model()
                self._update(decision, value)
                number = self._numbers_of((decision,))[0] if self._is_numbered else None
                pending = ledger.mark_learned(decision, value, number, mark)
                if pending is not None:
                    self._pending_changed(pending, -1)
                if ledger.listeners.listed:
                    ledger.listeners.announce(Event("learn", decision, value))
                if not is_inside:
                    notes.clear()
        except BaseException:
            if not is_inside:
                journal.recover()
            raise

    def learn_many(self, decisions: Sequence[Decision], rewards: ArrayLike) -> None:
        """Update the model with many rewards atomically: all of them or none."""
        admitted = self._ledger.validate_all_learnable(decisions, self.fingerprint)
        for decision in admitted:
            self._validate_decision(decision)
        values = self._rewards.many(rewards, len(admitted))
        marks = [self._mark(decision) for decision in admitted]
        if not admitted:
            return
        self._note_model()
        self._update_many(admitted, values)
        numbers = self._numbers_of(admitted)
        for decision, reward, number, mark in zip(admitted, values.tolist(), numbers, marks, strict=True):
            pending = self._ledger.mark_learned(decision, reward, number, mark)
            if pending is not None:
                self._pending_changed(pending, -1)
        learned = zip(admitted, values.tolist(), strict=True)
        self._ledger.listeners.announce(*(Event("learn", decision, reward) for decision, reward in learned))

    def play(
        self,
        rounds: Sequence[Points],
        rewards: Sequence[Any] | Matrix,
        *,
        ids: Sequence[Sequence[ItemId] | None] | None = None,
        eligible: Sequence[NDArray[np.bool_] | None] | None = None,
    ) -> Plays:
        """Choose and learn in consecutive rounds whose rewards are all known in advance.

        The results are those of a loop over `choose` and `learn`, but no decision object is created per round, and the
        loop is compiled where the policy supports it. Either all rounds are learned, or none.

        Parameters
        ----------
        rounds
            The actions of every round; an array rounds × actions × columns is the fastest form.
        rewards
            For every round, the reward of each of its actions, eligible or not.
        ids
            Per round, one id per row or None.
        eligible
            Per round, one boolean per row or None. Rounds with a restriction are not compiled.
        """
        if isinstance(rounds, list | tuple) and any(isinstance(contexts, BOXES) for contexts in rounds):
            raise NotSupported(
                "`play` needs the reward of every action beforehand, and a box has no list of them. Loop over choose "
                "and learn."
            )
        known = KnownRounds(
            rounds,
            rewards,
            ids=ids,
            eligible=eligible,
            points_of=self._points,
            count=lambda points: self._kind(points).count(points),
            checked_rewards=self._rewards.many,
            table_of=self._rewards.table,
        )
        action, unknown = np.zeros(len(known), dtype=np.intp), np.full((4, len(known)), nan)
        plays = Plays(action, unknown[0], unknown[1], unknown[2], unknown[3], np.ones(len(known)))
        self._note_random()
        self._play(known, plays, range(len(known)))
        self._ledger.listeners.announce(Event("play", reward=rewards, contexts=rounds, ids=ids, eligible=eligible))
        return plays

    @property
    def has_compiled_loop(self) -> bool:
        """Whether `play` has a compiled loop for the current model, without `choose` and `learn` per round."""
        return False

    def _play(self, known: KnownRounds, plays: Plays, rounds: range) -> None:
        """Run consecutive rounds in order."""
        self._ledger.count(0)
        self._note_copy()  # instead of one journal entry per round
        notes = self._journal.notes
        n_notes = len(notes)
        for t in rounds:
            self._play_round(known, plays, t, self._pick)
            del notes[n_notes:]

    def _play_round(self, known: KnownRounds, plays: Plays, t: int, pick: Callable[[Actions], Selection]) -> None:
        given = self._known_actions(known, t)
        choice = pick(given)
        row = choice.row if given.rows is None else given.row(choice.row)
        reward = float(known.rewards[t][row])
        self._update(self._decision(given, choice, ""), reward)
        self._ledger.count(1)
        plays.action[t], plays.reward[t], plays.propensity[t] = row, reward, choice.propensity
        plays.mean[t], plays.width[t], plays.score[t] = choice.mean, choice.width, choice.score

    def warm_start(
        self,
        contexts: Points | RewardLog,
        rewards: ArrayLike | None = None,
        *,
        times: ArrayLike = 1,
        ids: Sequence[ItemId] | None = None,
    ) -> None:
        """Learn from historical data that this policy did not decide. It does not count in `round_index`.

        A policy whose update depends on its own probabilities or the order of its choices, such as EXP4 or
        SupKernelUCB, raises NotSupported.

        Parameters
        ----------
        contexts
            The actions that were taken, one for each reward; or a `Log`, alone, whose logged actions and rewards are
            learned in order, all of them or none. Its propensities are not used, and neither are actions that were not
            shown. Without ids, an action of a log has its row as id.
        rewards
            Reward of each action.
        times
            Number of times that each reward counts.
        ids
            Id of each action.
        """
        if isinstance(contexts, RewardLog):
            if rewards is not None or ids is not None or not np.array_equal(times, 1):
                raise InvalidParameter("A log has its rewards and ids, so nothing is given beside it: warm_start(log).")
            points, observed = self._observed(contexts)
            values = self._rewards.many(observed, len(observed))
        elif rewards is None:
            raise InvalidParameter("Actions need their rewards: warm_start(contexts, rewards). A log brings its own.")
        else:
            points = self._points(contexts, checked_ids(ids))
            values = self._rewards.many(rewards, self._kind(contexts).count(points))
        self._note_model()
        self._note_references("_has_history")
        self._warm_start(points, values, times)
        self._has_history = True
        given = None if rewards is None else values
        self._ledger.listeners.announce(Event("warm_start", reward=given, contexts=contexts, times=times, ids=ids))

    def _observed(self, log: RewardLog) -> tuple[Points, list[float]]:
        """Return the validated points of all logged actions of a log, and their rewards."""
        observed = list(log.observations())
        if not observed:
            raise InvalidParameter("The log must have at least one round, got none.")
        sets, ids, rewards = ([*part] for part in zip(*observed, strict=True))
        if all(isinstance(one, np.ndarray) and one.ndim == 2 and one.shape == sets[0].shape for one in sets):
            return self._points(np.concatenate(sets), ids), rewards  # one check of all rows
        points = [
            self._catalog_points(one) if isinstance(one, CatalogView) else self._points(one, [name])
            for one, name in zip(sets, ids, strict=True)
        ]
        return self._kind(sets[0]).stack(*points), rewards

    def expect(self, decision: Decision, *, expires: float | None = None) -> None:
        """Mark a decision as pending: its action was taken, its reward will follow. It counts in the widths at once.

        Parameters
        ----------
        decision
            A decision of this policy that has not been learned.
        expires
            Time after which `expire` withdraws the decision, on the caller's clock. None: it waits without limit.
        """
        self._ledger.validate_learnable(decision, self.fingerprint)
        self._ledger.validate_pending(decision)
        self._validate_decision(decision)
        time = None if expires is None else _check_time(expires, "The time at which a decision expires")
        point = self._point(decision)
        self._validate_comparable(point)
        # Copy, so that later changes of the caller's arrays do not affect the pending decision.
        memo = {name: np.array(values) for name, values in decision.memo.items()}
        pending = replace(decision, context=self._context(point, 0), memo=memo)
        self._ledger.expect(pending, time)
        self._pending_changed(pending, 1)
        self._ledger.listeners.announce(Event("expect", pending, expires=time))

    def withdraw(self, decision: Decision) -> None:
        """Remove a pending decision whose reward will never arrive."""
        self._ledger.require_own(decision, self.fingerprint)
        self._mark(decision)
        self._withdraw(decision)
        self._ledger.listeners.announce(Event("withdraw", decision))

    def expire(self, now: float) -> list[Decision]:
        """Withdraw the pending decisions whose time has come, and return them in the order in which they expire.

        The widths are then those of a policy that never expected them. The reward of an expired decision can still be
        learned when it arrives.

        Parameters
        ----------
        now
            The current time on the clock of `expect(decision, expires=…)`, such as `time.time()`.
        """
        expired = self._ledger.expired(_check_time(now, "The current time"))
        for decision in expired:
            self._withdraw(decision)
        if expired:
            self._ledger.listeners.announce(*(Event("withdraw", decision) for decision in expired))
        return expired

    def _withdraw(self, decision: Decision) -> None:
        self._pending_changed(self._ledger.withdraw(decision), -1)

    @property
    def pending(self) -> Mapping[str, Decision]:
        """Pending decisions by id: expected and not yet learned. A snapshot of the current state."""
        return MappingProxyType(dict(self._ledger.pending))

    def amend(self, decision: Decision, *, now: float, was: float | None = None) -> None:
        """Correct a reward already learned. For the last `remember` decisions, the call is idempotent.

        Parameters
        ----------
        decision
            A decision that was learned.
        now
            The corrected reward.
        was
            The reward that was learned. Required only if the decision is not among the last `remember` ones; for those
            the policy uses its stored value and ignores this argument.
        """
        claimed = None if was is None else self._rewards.one(was)
        learned, number = self._require_learned(decision, claimed)
        reward = self._rewards.one(now)
        if reward != learned:
            self._warn_if_inexact(learned)
            self._note_model()
            self._amend_reward(decision, learned, reward, number)
            self._ledger.correct(decision, reward)
            self._ledger.listeners.announce(Event("amend", decision, reward, learned))

    def unlearn(self, decision: Decision, reward: float | None = None) -> None:
        """Remove a learned reward; the decision may be learned again. `reward` is required as `was` is in `amend`."""
        claimed = None if reward is None else self._rewards.one(reward)
        learned, number = self._require_learned(decision, claimed)
        self._warn_if_inexact(learned)
        self._note_model()
        self._remove_reward(decision, learned, number)
        self._ledger.mark_unlearned(decision)
        self._ledger.listeners.announce(Event("unlearn", decision, was=learned))

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Announce every later change to a listener, such as a store; return a function that ends the subscription.

        The listener is called once per call of `learn`, `learn_many`, `expect`, `withdraw`, `expire`, `amend`,
        `unlearn`, `charge`, `warm_start`, `play`, `refit` or `set_params`, with its events in order, under the lock of
        the policy: after the model has changed and before the call is committed. If the listener raises, the call is
        rolled back and raises the same error, so the model holds nothing that the listener did not accept. Listeners
        are not saved and not copied. A policy and its wrappers have the same listeners.
        """
        return self._ledger.listeners.add(listener)

    def _warn_if_inexact(self, reward: float) -> None:
        if abs(reward) > LARGEST_EXACT:
            warn_user(
                f"A reward of {reward:.3g} was learned, and rewards beyond {LARGEST_EXACT:g} leave rounding errors in "
                "the sums of others when they are changed or removed. Rebuild the policy from a log without it.",
                IllConditioned,
            )

    # -- description and serialization -----------------------------------------------------------------------------

    def set_params(self, **changes: Any) -> Self:
        """Change parameters, and return the policy. Afterwards it is a new policy with these parameters.

        Only while nothing was learned and no reward is pending, except for parameters that may be assigned at any time,
        such as `exploration`. Decisions made before the change are those of another policy.
        """
        values = self._checked(changes)
        fixed = self._not_assignable(values)
        if fixed is None:
            self._assign(values)
            return self
        if self._ledger.n_learned or self._ledger.pending or self._has_history:
            raise NotSupported(
                f"{fixed!r} can be set only while nothing was learned and no reward is pending. To keep what was "
                f"learned: policy.refit({fixed}=…). A new policy with the other parameters: policy.clone({fixed}=…)."
            )
        if self._is_wrapped:
            raise NotSupported(
                f"{fixed!r} cannot be set in a policy that another one wraps. Wrap a new one: policy.clone({fixed}=…)."
            )
        self._note_references()
        self._reset(values)
        self._journal.note(setattr, self._ledger, "former", self._ledger.former)
        self._ledger.former = {}  # earlier decisions are those of another policy
        self._ledger.configuration += 1
        self._announce_refit(changes)
        return self

    def refit(self, **changes: Any) -> Self:
        """Change parameters, keep what was learned, and return the policy.

        Afterwards the policy is a new one with these parameters that learned the same rewards: the model is computed
        again from the distinct points with their counts and sums. Decisions made before can still be learned, amended
        and unlearned; pending ones stay pending; the random state does not change. The call takes effect completely or
        not at all, and is announced to listeners as one event. `posterior` is a new object.

        For policies that learn all rewards into one posterior, index policies (UCB1, KLUCB) and wrappers. A wrapper
        also takes the parameters of the policy that it wraps. Any policy accepts parameters that may be assigned at any
        time. The cost is that of learning all distinct points at once.

        >>> from kernelbandits.policies import KernelUCB
        >>> from kernelbandits.kernels import Gaussian
        >>> policy = KernelUCB(Gaussian(length_scale=1.0), exploration=0.5)
        >>> policy.learn(policy.choose([[0.0], [1.0]]), 0.5)
        >>> policy.refit(kernel=Gaussian(length_scale=0.2), regularization=0.1).round_index
        2
        """
        if self._is_wrapped:
            raise NotSupported(
                "Another policy wraps this one. Call `refit` of the wrapper: it takes the parameters of both."
            )
        if changes:
            self._refit_with(changes)
            self._announce_refit(changes)
        return self

    def _refit_with(self, changes: Mapping[str, Any]) -> None:
        values, ledger = self._checked(changes), self._ledger
        if "seed" in values:
            raise NotSupported("The seed is no parameter of the model. Replace the random state: policy.reseed(seed).")
        if self._not_assignable(values) is None:
            self._put(values)
            return
        has_learned = bool(ledger.n_learned or ledger.pending or self._has_history)
        if has_learned:
            self._check_refit(values)
        fingerprint, before = self.fingerprint, dict(vars(self))
        state = self._state()
        self._note_references()
        self._reset(values)
        self._random, self._has_history = before["_random"], before["_has_history"]
        if has_learned:
            self._continue_from(before, state)
        self._journal.note(setattr, ledger, "former", ledger.former)
        ledger.former = dict(ledger.former)
        ledger.add_former(fingerprint)
        ledger.latest = None
        ledger.configuration += 1
        for decision in ledger.pending.values():
            self._validate_decision(decision)
            self._validate_comparable(self._point(decision))

    def _continue_from(self, before: Mapping[str, Any], state: Mapping[str, Any]) -> None:
        """Restore what was learned under other parameters, or raise an error; `before` are the former attributes."""
        self._restore(state)

    def _not_assignable(self, values: Mapping[str, Any]) -> str | None:
        """Return the first of these parameters that cannot be assigned at any time."""
        for name, value in values.items():
            if value is None or not self._declared[name].is_assignable:
                return name
        return None

    def _announce_refit(self, changes: Mapping[str, Any]) -> None:
        parameters = {name: value for name, value in changes.items() if name != "seed"}
        if parameters:
            self._ledger.listeners.announce(Event("refit", parameters=parameters))

    @transaction
    def _assign(self, values: Mapping[str, Any]) -> None:
        """Assign parameters that may change at any time. Decisions made before are still the policy's own."""
        self._put(values)
        if self._ledger.listeners:
            self._announce_refit(values)

    def _put(self, values: Mapping[str, Any]) -> None:
        self._note_references("_resolved", *(self._declared[name].attribute for name in values))
        for name, value in values.items():
            vars(self)[self._declared[name].attribute] = value
        self._resolved = self._resolved - values.keys()
        self._ledger.configuration += 1

    def describe(self) -> Parameters:
        """Return the class and every parameter that changes results, also defaults, as plain values."""
        return {"class": type(self).__name__, **self._description()}

    @property
    def fingerprint(self) -> str:
        """Return a digest of class, kernel and parameters: equal for equally configured policies."""
        ledger = self._ledger
        if self._known_configuration != ledger.configuration:
            try:
                fingerprint = fingerprint_of(self.describe())
            except TypeError as error:
                raise InvalidParameter(
                    f"The parameters of {type(self).__name__} must be described by plain values: {error}. Declare them "
                    "with ValueType(check, describe=…)."
                ) from error
            if self._known_fingerprint not in ("", fingerprint):
                ledger.add_former(self._known_fingerprint)
            self._known_fingerprint, self._known_configuration = fingerprint, ledger.configuration
        return self._known_fingerprint

    @handles_transaction
    def save(self, path: str | PathLike[str]) -> None:
        """Write the policy to one checksummed, pickle-free file, atomically. Read it with `kernelbandits.load`."""
        from kernelbandits.policies.serialization import packed_policy, write_policy

        write_policy(transaction(packed_policy)(self), path)  # other threads continue during the write

    def _repr_html_(self) -> str:
        params = [[name, brief(value)] for name, value in self.get_params().items()]
        learned = [["learned", f"{self._ledger.n_learned:,}"], ["pending", f"{len(self._ledger.pending):,}"]]
        return html_table(type(self).__name__, [*params, *learned])

    def copy(self) -> Self:
        """Return an independent policy with the same model and the same random state; the kernel is shared."""
        return copy.deepcopy(self)

    # -- private helpers -------------------------------------------------------------------------------------------

    def _actions(
        self, contexts: Points, ids: Sequence[ItemId] | None, eligible: NDArray[np.bool_] | None = None
    ) -> Actions:
        if type(contexts) is not ndarray and isinstance(contexts, SETS):
            if isinstance(contexts, Box | Product):
                return self._box_actions(contexts, ids, eligible)
            if ids is not None:
                no_ids_beside_a_catalog(ids)
            listed = CatalogActions(contexts, eligible, self._catalog_points, self._plain_kind)
            if self._validates_rounds:
                self._validate(listed.catalog.points(self._kind(None)) if self.needs_fixed_actions else None, listed)
            return listed
        if type(contexts) is WithCosts:
            raise InvalidContexts(
                f"Costs of a round are for Paced, and {type(self).__name__} has no use for them. Take "
                "Paced(policy, …), or pass the contexts alone."
            )
        names, kind = None if ids is None else checked_ids(ids), self._plain_kind
        points = self._points(contexts, names) if kind is None else kind.check(contexts)
        is_plain = names is None and eligible is None and type(points) is ndarray
        given = ActionSet(None if is_plain else self._kind(points), points, names, eligible)
        if self._validates_rounds:
            self._validate(points, given)
        return given

    def _box_actions(
        self, box: Box | Product, ids: Sequence[ItemId] | None, eligible: NDArray[np.bool_] | None
    ) -> BoxActions:
        if not self._searches_boxes:
            raise NotSupported(
                f"{type(self).__name__} chooses among actions that can be listed, got a {type(box).__name__}. "
                "KernelUCB, GPUCB, CGPUCB, LinUCB and KernelThompson search a box; for any other policy, list some of "
                "its points, as an array or a kb.Catalog."
            )
        if ids is not None or eligible is not None:
            raise InvalidParameter("The points of a box have no ids and are all eligible. Leave out both.")
        actions = BoxActions(box, self._kind(None))
        if self._validates_rounds:
            self._validate_round(actions)
        return actions

    def _listed(
        self, contexts: Points, ids: Sequence[ItemId] | None, eligible: NDArray[np.bool_] | None = None
    ) -> Actions:
        """Return `_actions` that can be listed; reject a box."""
        if isinstance(contexts, BOXES):
            raise NotSupported(
                "The points of a box cannot be listed: a point of it has at most a density, and no probability. For "
                "probabilities, list the actions, as an array or a kb.Catalog."
            )
        return self._actions(contexts, ids, eligible)

    def _known_actions(self, known: KnownRounds, t: int) -> Actions:
        """Return `_actions` of a round whose points are validated."""
        points, ids, eligible = known.round(t), known.ids, known.eligible
        given = ActionSet(
            self._kind(points), points, None if ids is None else ids[t], None if eligible is None else eligible[t]
        )
        if self._validates_rounds:
            self._validate(points, given)
        return given

    def _validate(self, whole: Points, actions: Actions) -> None:
        """Validate a round with this whole set of actions, for a policy that restricts rounds."""
        if self.needs_fixed_actions:
            self._validate_action_set(whole)
        self._validate_round(actions)

    def _actions_of_each(
        self,
        rounds: Sequence[Points],
        ids: Sequence[Sequence[ItemId] | None] | None,
        eligible: Sequence[NDArray[np.bool_] | None] | None,
        actions_of: Callable[..., Actions] | None = None,
    ) -> list[Actions]:
        """Return `_actions` of each round, or those of another method."""
        listed, actions_of = listed_rounds(rounds), actions_of or self._actions
        if ids is None and eligible is None:
            return [actions_of(contexts, None) for contexts in listed]
        n_rounds = len(listed)
        names, masks = per_round(ids, n_rounds, "ids"), per_round(eligible, n_rounds, "eligible")
        return [actions_of(*given) for given in zip(listed, names, masks, strict=True)]

    def _decision(self, given: Actions, selection: Selection, id: str) -> Decision:
        place, mean, width, score, propensity, stage, memo, cost, _, _ = selection
        ledger, rows, kind, points = self._ledger, given.rows, self._plain_kind, given.points
        row = place if rows is None else rows.item(place)
        is_known = self._known_configuration == ledger.configuration
        fingerprint = self._known_fingerprint if is_known else self.fingerprint
        decision: Any = OpenDecision(
            row, self._context(points, place) if kind is None else kind.one(points, place),
            mean, width, score, propensity, stage,
            row if given.ids is None else given.item(row), given.n_actions,
            1 + ledger.n_learned + len(ledger.pending), id, fingerprint, memo, cost,
        )  # fmt: skip
        decision.__class__ = Decision  # the slots are identical, so the object becomes a Decision
        return decision  # type: ignore[no-any-return]

    def _require_own(self, decision: Decision) -> None:
        self._ledger.require_own(decision, self.fingerprint)

    def _require_learned(self, decision: Decision, claimed: float | None) -> tuple[float, int | None]:
        """Return reward and observation number of a learned decision, or raise NotLearnt."""
        self._ledger.require_own(decision, self.fingerprint)
        return self._ledger.require_learned(decision, claimed, self._mark(decision))

    def _mark(self, decision: Decision) -> int | None:
        """Return the digest of a decision's action if the caller chose the id, since the caller may reuse an id.

        Raises DecisionError if a different decision is pending under the same id. Ids issued by the policy are unique.
        """
        if not decision.id or is_issued(decision.id):
            return None
        pending = self._ledger.pending.get(decision.id)
        mark = self._digest(decision)
        if pending is not None and self._digest(pending) != mark:
            raise DecisionError(
                f"Another decision is pending under the id {decision.id!r}: it has another context or action. An id is "
                "used for one decision; give a repeated request the same contexts, or another id."
            )
        return mark

    def _digest(self, decision: Decision) -> int:
        key = self._kind(decision.context).keys(self._point(decision))[0]
        return digest_of_choice(decision.action, decision.item, decision.stage, key)


def fingerprint_of(description: Parameters) -> str:
    """Return the digest of a policy's description."""
    return hashlib.sha256(json.dumps(description, sort_keys=True).encode()).hexdigest()[:16]


def _check_time(value: float, name: str) -> float:
    time = check_float(value, name)
    if not isfinite(time):
        raise InvalidParameter(f"{name} must be a finite number, such as time.time(), got {short_repr(value)}.")
    return time


def _spread(given: Actions, probabilities: Vector) -> Vector:
    """Expand the probabilities of the eligible actions to all actions."""
    if given.rows is None:
        return probabilities
    spread = np.zeros(given.n_rows)
    spread[given.rows] = probabilities
    return spread
