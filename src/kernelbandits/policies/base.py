"""What every policy can do. Checks, identities, waiting for rewards and files are handled here once."""

from __future__ import annotations

import copy
import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from math import nan
from os import PathLike
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Self, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelbandits._transactions import Transactional, handles_transaction, transaction
from kernelbandits.errors import (
    DecisionError,
    IllConditioned,
    InvalidContexts,
    InvalidParameter,
    NotSupported,
    warn_user,
)
from kernelbandits.kernels import Kernel, PointKind
from kernelbandits.policies.decisions import MOST_LEARNT, Ledger, Rewards, digest_of_choice, is_issued
from kernelbandits.policies.explanation import Explanation
from kernelbandits.policies.random_state import RandomState
from kernelbandits.policies.rounds import KnownRounds, listed_rounds
from kernelbandits.posterior import Posterior, posterior_from
from kernelbandits.selection import Catalog, CatalogView
from kernelbandits.selection.actions import Actions, ActionSet, CatalogActions, checked_ids, no_ids_beside_a_catalog
from kernelbandits.theory.exploration import exploration_from
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
)
from kernelbandits.validation import a_count, a_flag, a_list, is_number, shown

__all__ = ["Policy", "Saved"]

CATALOGS: Final = (Catalog, CatalogView)

LARGEST_EXACT: Final = 1e19
"""Rewards up to it can be taken back without a trace in the sums of others."""


class Saved(NamedTuple):
    """What a file holds of how a policy was made; `Policy._build` makes it again."""

    parameters: Parameters
    """What `_parameters` gave."""

    kernel: Kernel | None
    structure: Mapping[str, Any]
    """What `_structure` gave."""

    rebuild: Callable[[Mapping[str, Any]], Policy]
    """Opens a policy that `packed_policy` put into the structure."""


class Policy(Transactional, ABC):
    """Chooses among the actions of a round and learns from rewards.

    `choose` changes no later answer; `learn` and its corrections move the model, each wholly or not at all, whatever
    interrupts them. Every public method may be called from any thread; calls run one at a time. A new policy writes
    `_kind`, `_parameters`, `_pick`, `_take_in`, `_state` and `_restore`; all else is done for it.
    """

    needs_fixed_actions: bool = False
    """Whether the algorithm is defined for one fixed set of actions only, so that any other set is refused."""

    needs_reward_range: bool = False
    """Whether the algorithm is defined for rewards of a known range only, so that `reward_range=None` is refused."""

    learns_from_any_action: bool = False
    """Whether `learn` is right for an action that another rule took in place of the one chosen here, its decision being
    without a stage and with this round's memo: `Mixed` wraps no other policy. One whose importance weights are made of
    its own probabilities has to say no."""

    _has_notes_to_make: bool = True
    """Whether `_note_model` does anything."""

    _seed_level: int = 0
    """Policies wrapped, one inside the other: it separates their random numbers where they have the same seed."""

    _is_numbered: bool = False
    """Whether observations have numbers (`_numbers_of`)."""

    kernel: Kernel | None = None
    """Similarity of actions, where the policy was given one."""

    def __init__(self, *, reward_range: tuple[float, float] | None = None, seed: Seed = None) -> None:
        self._rewards = Rewards(reward_range)
        if self.needs_reward_range and self._rewards.range is None:
            raise InvalidParameter(
                f"{type(self).__name__} measures rewards by their range, so the reward range has to be declared, got "
                "reward_range=None. (0, 1) is right for clicks."
            )
        self._random = RandomState(seed, self._seed_level)
        self._ledger = Ledger(self._journal)
        self._known_fingerprint, self._known_configuration = "", -1

    @property
    def reward_range(self) -> tuple[float, float] | None:
        """A reward outside it is refused; None: any finite number."""
        return self._rewards.range

    @property
    def remember(self) -> int:
        """Learnt decisions whose rewards are remembered, 100,000 by default: those can be amended without `was`."""
        return self._ledger.remember

    @remember.setter
    def remember(self, n_decisions: int) -> None:
        self._ledger.set_remember(a_count(n_decisions, "The number of remembered decisions", least=0, most=MOST_LEARNT))

    # -- what a new policy writes ----------------------------------------------------------------------------------

    @abstractmethod
    def _kind(self, contexts: Points) -> PointKind:
        """The kind of point it chooses among."""

    @abstractmethod
    def _parameters(self) -> Parameters:
        """Constructor arguments as plain values, but for kernels and seeds; `_structure` names the exceptions."""

    @abstractmethod
    def _pick(self, actions: Actions) -> Selection:
        """Place among `actions.points`, the eligible actions of the round, and what is known of it."""

    @abstractmethod
    def _take_in(self, decision: Decision, reward: float) -> None:
        """Move the model; identity and reward are checked already. What was moved before an error is put back."""

    @abstractmethod
    def _state(self) -> Parameters:
        """Nested plain values and arrays that restore the model; caches are not among them."""

    @abstractmethod
    def _restore(self, state: Mapping[str, Any]) -> None:
        """Inverse of `_state`."""

    # -- what a new policy may write -------------------------------------------------------------------------------

    def _rank(self, actions: Actions, k: int, *, diverse: bool) -> list[Selection]:
        """The k best, best first."""
        raise NotSupported(f"{type(self).__name__} chooses one action at a time; it has no ranking to give.")

    def _probabilities(self, actions: Actions) -> Vector:
        """Probability of each eligible action; a deterministic policy gives one of them 1."""
        probabilities = np.zeros(actions.n_actions)
        probabilities[self._pick(actions).row] = 1.0
        return probabilities

    def _probabilities_for_each(self, rounds: Sequence[Actions]) -> list[Vector]:
        """`_probabilities` for many rounds on the same model."""
        return [self._probabilities(actions) for actions in rounds]

    def _estimate_of(self, actions: Actions, place: int) -> tuple[float, float]:
        """Mean and width of one eligible action, where the policy has such estimates."""
        return nan, nan

    def _note_model(self) -> None:
        """Note how to undo the change of the model that comes next.

        The default notes a copy of the whole model. Policies of the library, whose attributes are replaced and not
        changed in place, note references (`_note_references`).
        """
        self._note_copy()

    def _note_references(self, *names: str) -> None:
        """Note the values of these attributes, or of all; they are replaced and not changed in place."""
        now = vars(self)
        self._journal.note(now.update, {name: now[name] for name in names} if names else dict(now))

    def _noting_parts(self) -> tuple[object, ...]:
        return (self._ledger,)

    def _own_posterior(self, posterior: Posterior) -> Posterior:
        """A posterior that takes part in the transactions of this policy, and of no other."""
        if posterior.has_policy:
            raise InvalidParameter(
                "A posterior belongs to one policy, and this one has a policy already. A function that makes "
                "posteriors has to return a new one in each call."
            )
        posterior.has_policy = True
        posterior._join(self._journal)
        return posterior

    def _validate_decision(self, decision: Decision) -> None:
        """DecisionError for a decision that this policy cannot have made."""

    def _take_in_many(self, decisions: Sequence[Decision], rewards: Vector) -> None:
        """Move the model by all of them."""
        for decision, reward in zip(decisions, rewards, strict=True):
            self._take_in(decision, float(reward))

    def _numbers_of(self, decisions: Sequence[Decision]) -> Sequence[int | None]:
        """Numbers of the observations of decisions just learnt, where it matters for corrections which one is meant."""
        return [None] * len(decisions)

    def _correct(self, decision: Decision, was: float, now: float, number: int | None) -> None:
        """A learnt reward is another one; `number` is what `_numbers_of` gave when it was learnt, if known."""
        raise NotSupported(f"{type(self).__name__} cannot amend a reward: its update depends on the order.")

    def _take_back(self, decision: Decision, reward: float, number: int | None) -> None:
        """A learnt reward never happened; `number` as in `_correct`."""
        raise NotSupported(
            f"{type(self).__name__} cannot unlearn a reward: its update depends on the order of rewards."
        )

    def _start_from(self, points: Points, rewards: Vector, times: ArrayLike) -> None:
        """Learn from history."""
        raise NotSupported(f"{type(self).__name__} cannot learn from rewards of other policies' decisions.")

    def _probe(self) -> Points | None:
        """Points it has learnt from, if any: a file keeps some of their similarities to check a kernel by."""
        return None

    def _structure(self) -> Parameters:
        """Constructor arguments that are no plain values, such as arrays: nested plain values and arrays, by name.

        They go to a file as they are; `_parameters` has, under the same name, what tells them apart in a few words.
        """
        return {}

    @classmethod
    def _build(cls, saved: Saved) -> Policy:
        """A fresh policy from what `_parameters` and `_structure` gave."""
        arguments = {**saved.parameters, **saved.structure}
        if "exploration" in arguments:
            arguments["exploration"] = exploration_from(arguments["exploration"])
        if "posterior" in arguments:
            arguments["posterior"] = posterior_from(arguments["posterior"])
        if arguments.get("reward_range") is not None:
            arguments["reward_range"] = tuple(arguments["reward_range"])
        arguments.pop("kernel", None)
        if saved.kernel is not None:
            arguments["kernel"] = saved.kernel
        return cls(**arguments)

    def _refuse_other_set(self, points: Points) -> None:
        """NotSupported for a whole set of actions that `needs_fixed_actions` rules out."""

    def _pending_key(self, decision: Decision) -> Hashable:
        """What pending decisions are counted by: made of fields of the decision that were checked when it came."""
        return int(decision.action)

    def _pending_counts(self) -> Mapping[Any, int]:
        """How many decisions are pending of each `_pending_key`; a change costs one step, however many there are."""
        return self._ledger.pending_counts(self._pending_key)

    def _pending_changed(self, decision: Decision, change: int) -> None:
        """A decision is awaited (change 1), or not any more (−1): drop or move what was derived from these."""
        self._ledger.count_pending(self._pending_key(decision), change)

    def _pick_for_each(self, rounds: Sequence[Actions]) -> list[Selection]:
        """`_pick` for many rounds on the same model."""
        return [self._pick(actions) for actions in rounds]

    def _refuse_incomparable(self, point: Points) -> None:
        """InvalidContexts for a point that cannot be compared with what was learnt or is awaited."""

    def _catalog_points(self, view: CatalogView) -> Points:
        """Checked points of the items of a catalog."""
        return view.points(self._kind(None))

    def _points(self, contexts: Points, ids: Sequence[ItemId] | None) -> Points:
        """Checked points of a round."""
        return self._kind(contexts).check(contexts)

    def _context(self, points: Points, row: int) -> Point:
        """A copy of one point for a decision."""
        return self._kind(points).one(points, row)

    def _point(self, decision: Decision) -> Points:
        """The decision's point as a collection of one: inverse of `_context`."""
        kind = self._kind(decision.context)
        return kind.again(decision.context) if decision is self._ledger.latest else kind.single(decision.context)

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
        """The action to take now, or the k best; the model stays as it was.

        Parameters
        ----------
        contexts
            The actions of this round: rows, sparse rows, strings, ids, pairs: what the kernel takes; or a `Catalog`
            that is asked about again and again, whole or restricted.
        k
            How many actions to rank, best first; a `Slate` comes back.
        diverse
            Whether widths shrink as items are placed, so that a slate explores different things.
        ids
            An id per row, given back as `decision.item`.
        eligible
            A truth value per row: which actions may be taken.
        id
            An id for the decision, where the caller has one already. A policy that draws its actions then draws by the
            seed and the id: the same id gets the same answer as long as nothing is learnt.
        """
        journal = self._journal
        is_inside = journal.lock._is_owned()  # then this call is part of another one
        try:
            with journal.lock:
                if journal.notes and not is_inside:
                    journal.roll_back()
                chosen: Decision | Slate
                if diverse is not False:
                    diverse = a_flag(diverse, "`diverse`")
                if k is not None:
                    chosen = self._choose_slate(contexts, k, diverse, ids, eligible, id)
                elif diverse:
                    raise InvalidParameter("A diverse slate needs its length: choose(contexts, k=5, diverse=True).")
                else:
                    chosen = self._choose_one(contexts, ids, eligible, id)
                if not is_inside:
                    journal.notes.clear()
                return chosen
        except BaseException:
            if not is_inside:
                journal.recover()
            raise

    def _choose_one(
        self,
        contexts: Points,
        ids: Sequence[ItemId] | None,
        eligible: NDArray[np.bool_] | None,
        id: str | None,
    ) -> Decision:
        ledger = self._ledger
        if id is None:
            given = self._actions(contexts, ids, eligible)
            choice = self._pick(given)
            ledger.latest = self._decision(given, choice, ledger.new_id())
            return ledger.latest
        ledger.check_free(id)
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
        given = self._actions(contexts, ids, eligible)
        if not isinstance(k, int | np.integer) or not is_number(k) or not 1 <= k <= given.n_actions:
            n_actions = given.n_actions
            raise InvalidParameter(f"k has to be a number from 1 to the {n_actions} eligible actions, got {shown(k)}.")
        choices = self._rank(given, int(k), diverse=diverse)
        return Slate(tuple(self._decision(given, choice, self._ledger.new_id()) for choice in choices))

    # -- random state ------------------------------------------------------------------------------------------------

    @property
    def _rng(self) -> np.random.Generator:
        """What draws come from in this call."""
        return self._random.generator

    def _draw_by(self, id: str | None) -> None:
        """Key the draws of this call by the id of its decision; None: the stream again."""
        self._random.draw_by(id)

    def _note_random(self) -> None:
        """Note the random state, where a call may be refused after a draw."""
        self._journal.note(self._random.restore, self._random.state())

    def reseed(self, seed: Seed = None) -> None:
        """Go on with another random state; what was learnt stays.

        A policy that is loaded, copied or sent to several workers draws the same numbers in each. Give each worker its
        own seed, or None for an unpredictable one. (A forked process reseeds itself.)
        """
        random = RandomState(seed, self._seed_level)
        self._journal.note(setattr, self, "_random", self._random)
        self._random = random

    def choose_many(self, rounds: Sequence[Points]) -> list[Decision]:
        """Independent rounds decided on the same model: what `choose` says of each, computed together where that pays.

        Rounds are what `choose` takes. A randomized policy draws in their order.
        """
        given = [self._actions(contexts, None) for contexts in listed_rounds(rounds)]
        self._note_random()
        return [
            self._decision(actions, choice, self._ledger.new_id())
            for actions, choice in zip(given, self._pick_for_each(given), strict=True)
        ]

    def probabilities(
        self, contexts: Points, *, ids: Sequence[ItemId] | None = None, eligible: NDArray[np.bool_] | None = None
    ) -> Vector:
        """Probability of each action; zero for those not eligible."""
        given = self._actions(contexts, ids, eligible)
        return _spread(given, self._probabilities(given))

    def probabilities_many(
        self, rounds: Sequence[Points], *, ids: Sequence[Sequence[ItemId] | None] | None = None
    ) -> list[Vector]:
        """Probabilities of the actions of many rounds on the same model: what `probabilities` says of each.

        Computed together where that pays.

        Parameters
        ----------
        rounds
            What `probabilities` takes, one a round.
        ids
            For every round an id per row, or None.
        """
        listed = listed_rounds(rounds)
        names = [None] * len(listed) if ids is None else a_list(ids, "The ids of rounds")
        if len(names) != len(listed):
            raise InvalidContexts(f"Every round has its ids or None: {len(listed)} rounds, {len(names)} ids.")
        given = [self._actions(contexts, own) for contexts, own in zip(listed, names, strict=True)]
        found = self._probabilities_for_each(given)
        return [_spread(actions, probabilities) for actions, probabilities in zip(given, found, strict=True)]

    def explain(self, decision: Decision, *, most: int = 10) -> Explanation:
        """Why this action scores as it does, by the model as it is now."""
        raise NotSupported(f"{type(self).__name__} has no estimates to explain.")

    @property
    def round_index(self) -> int:
        """The round that the next choice belongs to: 1 + decisions learnt + decisions pending."""
        return self._ledger.round_index

    # -- learning --------------------------------------------------------------------------------------------------

    @handles_transaction
    def learn(self, decision: Decision, reward: float) -> None:
        """Update the model with the reward of a decision: once, in any order, however late."""
        journal = self._journal
        is_inside = journal.lock._is_owned()
        try:
            with journal.lock:
                if journal.notes and not is_inside:
                    journal.roll_back()
                ledger, mark = self._ledger, None
                if decision is None or decision is not ledger.latest or decision.policy != self._known_fingerprint:
                    ledger.admit(decision, self.fingerprint)
                    self._validate_decision(decision)
                    mark = self._mark(decision)
                value = self._rewards.one(reward)
                if self._has_notes_to_make:
                    self._note_model()
                self._take_in(decision, value)
                number = self._numbers_of((decision,))[0] if self._is_numbered else None
                awaited = ledger.settle(decision, value, number, mark)
                if awaited is not None:
                    self._pending_changed(awaited, -1)
                if not is_inside:
                    journal.notes.clear()
        except BaseException:
            if not is_inside:
                journal.recover()
            raise

    def learn_many(self, decisions: Sequence[Decision], rewards: ArrayLike) -> None:
        """Take in many rewards at once: all of them or none."""
        admitted = self._ledger.admit_all(decisions, self.fingerprint)
        for decision in admitted:
            self._validate_decision(decision)
        values = self._rewards.many(rewards, len(admitted))
        marks = [self._mark(decision) for decision in admitted]
        if not admitted:
            return
        self._note_model()
        self._take_in_many(admitted, values)
        numbers = self._numbers_of(admitted)
        for decision, reward, number, mark in zip(admitted, values.tolist(), numbers, marks, strict=True):
            awaited = self._ledger.settle(decision, reward, number, mark)
            if awaited is not None:
                self._pending_changed(awaited, -1)

    def play(self, rounds: Sequence[Points], rewards: Sequence[Any] | Matrix) -> Plays:
        """Choose and learn round after round where every reward is known beforehand.

        The answers are those of a loop over `choose` and `learn`, without a decision object for each round, and at the
        speed of a compiled loop where the policy has one. All rounds are learnt, or none.

        Parameters
        ----------
        rounds
            The actions of every round; an array rounds × actions × columns is the fastest form.
        rewards
            For every round, what each of its actions would pay.
        """
        known = KnownRounds(
            rounds,
            rewards,
            points_of=lambda contexts: self._points(contexts, None),
            count=lambda points: self._kind(points).count(points),
            checked_rewards=self._rewards.many,
            table_of=self._rewards.table,
        )
        action, unknown = np.zeros(len(known), dtype=np.intp), np.full((4, len(known)), nan)
        plays = Plays(action, unknown[0], unknown[1], unknown[2], unknown[3], np.ones(len(known)))
        self._note_random()
        self._play(known, plays)
        return plays

    @property
    def is_fused(self) -> bool:
        """Whether `play` is more than the loop written out: it has a loop of its own for the model as it is now."""
        return False

    def _play(self, known: KnownRounds, plays: Plays) -> None:
        """Play all rounds, in turn."""
        self._ledger.count(0)
        self._note_copy()  # instead of a note per round
        notes = self._journal.notes
        n_notes = len(notes)
        for t in range(len(known)):
            self._play_round(known, plays, t)
            del notes[n_notes:]

    def _play_round(self, known: KnownRounds, plays: Plays, t: int) -> None:
        points = known.round(t)
        if self.needs_fixed_actions:
            self._refuse_other_set(points)
        given = ActionSet(self._kind(points), points, None, None)
        choice = self._pick(given)
        reward = float(known.rewards[t][choice.row])
        self._take_in(self._decision(given, choice, ""), reward)
        self._ledger.count(1)
        plays.action[t], plays.reward[t], plays.propensity[t] = choice.row, reward, choice.propensity
        plays.mean[t], plays.width[t], plays.score[t] = choice.mean, choice.width, choice.score

    def warm_start(
        self, contexts: Points, rewards: ArrayLike, *, times: ArrayLike = 1, ids: Sequence[ItemId] | None = None
    ) -> None:
        """Learn from history that no decision of ours made; it counts in no round."""
        points = self._points(contexts, checked_ids(ids))
        values = self._rewards.many(rewards, self._kind(contexts).count(points))
        self._note_model()
        self._start_from(points, values, times)

    def expect(self, decision: Decision) -> None:
        """Say that a decision was played and its reward is pending: it counts in the widths at once."""
        self._ledger.admit(decision, self.fingerprint)
        self._ledger.check_may_wait(decision)
        self._validate_decision(decision)
        point = self._point(decision)
        self._refuse_incomparable(point)
        # A copy: what the caller does to its own later may not change what is awaited.
        memo = {name: np.array(values) for name, values in decision.memo.items()}
        awaited = replace(decision, context=self._context(point, 0), memo=memo)
        self._ledger.expect(awaited)
        self._pending_changed(awaited, 1)

    def withdraw(self, decision: Decision) -> None:
        """Say that a reward will never come: forget that it was expected."""
        self._ledger.require_own(decision, self.fingerprint)
        self._mark(decision)
        self._pending_changed(self._ledger.withdraw(decision), -1)

    @property
    def pending(self) -> Mapping[str, Decision]:
        """Decisions expected and not yet learnt, by id, as they are now."""
        return MappingProxyType(dict(self._ledger.pending))

    def amend(self, decision: Decision, *, now: float, was: float | None = None) -> None:
        """Correct a reward already learnt. For the last `remember` decisions, repeating the call changes nothing.

        Parameters
        ----------
        decision
            A decision that was learnt.
        now
            Its reward as it should be.
        was
            Its reward as it was learnt. Needed only for a decision that is not among the last `remember` ones; for
            those the policy knows it, and does not use this.
        """
        claimed = None if was is None else self._rewards.one(was)
        learnt, number = self._require_learnt(decision, claimed)
        reward = self._rewards.one(now)
        if reward != learnt:
            self._warn_if_inexact(learnt)
            self._note_model()
            self._correct(decision, learnt, reward, number)
            self._ledger.correct(decision, reward)

    def unlearn(self, decision: Decision, reward: float | None = None) -> None:
        """Take a learnt reward back; the decision may be learnt again. `reward` is needed where `was` is in `amend`."""
        claimed = None if reward is None else self._rewards.one(reward)
        learnt, number = self._require_learnt(decision, claimed)
        self._warn_if_inexact(learnt)
        self._note_model()
        self._take_back(decision, learnt, number)
        self._ledger.take_back(decision)

    def _warn_if_inexact(self, reward: float) -> None:
        if abs(reward) > LARGEST_EXACT:
            warn_user(
                f"A reward of {reward:.3g} was learnt, and rewards beyond {LARGEST_EXACT:g} leave rounding errors in "
                "the sums of others when they are changed or taken back. Rebuild the policy from a log without it.",
                IllConditioned,
            )

    # -- describing and keeping ------------------------------------------------------------------------------------

    def describe(self) -> Parameters:
        """Class and parameters as plain values."""
        return {"class": type(self).__name__, **self._parameters()}

    @property
    def fingerprint(self) -> str:
        """A digest of class, kernel and parameters: equal for equally configured policies."""
        ledger = self._ledger
        if self._known_configuration != ledger.configuration:
            text = json.dumps(self.describe(), sort_keys=True)
            fingerprint = hashlib.sha256(text.encode()).hexdigest()[:16]
            if self._known_fingerprint not in ("", fingerprint):
                ledger.add_former(self._known_fingerprint)
            self._known_fingerprint, self._known_configuration = fingerprint, ledger.configuration
        return self._known_fingerprint

    @handles_transaction
    def save(self, path: str | PathLike[str]) -> None:
        """One pickle-free file, written atomically, checksummed to the last byte. Open it with `kernelbandits.load`."""
        from kernelbandits.policies.serialization import packed_policy, write_policy

        write_policy(transaction(packed_policy)(self), path)  # other threads go on while it is written

    def __repr__(self) -> str:
        parameters = ", ".join(f"{name}={value!r}" for name, value in self._parameters().items() if value is not None)
        return f"{type(self).__name__}({parameters})"

    def copy(self) -> Self:
        """An independent policy with the same model and the same random state; the kernel is shared."""
        return copy.deepcopy(self)

    # -- inside ----------------------------------------------------------------------------------------------------

    def _actions(
        self, contexts: Points, ids: Sequence[ItemId] | None, eligible: NDArray[np.bool_] | None = None
    ) -> Actions:
        if isinstance(contexts, CATALOGS):
            if ids is not None:
                no_ids_beside_a_catalog(ids)
            listed = CatalogActions(contexts, eligible, self._catalog_points)
            if self.needs_fixed_actions:
                self._refuse_other_set(listed.catalog.points(self._kind(None)))
            return listed
        names = None if ids is None else checked_ids(ids)
        points = self._points(contexts, names)
        if self.needs_fixed_actions:
            self._refuse_other_set(points)
        is_plain = names is None and eligible is None and type(points) is np.ndarray
        return ActionSet(None if is_plain else self._kind(points), points, names, eligible)

    def _decision(self, given: Actions, selection: Selection, id: str) -> Decision:
        place, mean, width, score, propensity, stage, memo, cost, _, _ = selection
        ledger, rows = self._ledger, given.rows
        row = place if rows is None else rows.item(place)
        is_known = self._known_configuration == ledger.configuration
        fingerprint = self._known_fingerprint if is_known else self.fingerprint
        decision: Any = OpenDecision(
            row, self._context(given.points, place), mean, width, score, propensity, stage, given.item(row),
            given.n_actions, 1 + ledger.n_learnt + len(ledger.pending), id, fingerprint, memo, cost,
        )  # fmt: skip
        decision.__class__ = Decision  # the slots are the same, so the object is a decision from now on
        return decision  # type: ignore[no-any-return]

    def _require_own(self, decision: Decision) -> None:
        self._ledger.require_own(decision, self.fingerprint)

    def _require_learnt(self, decision: Decision, claimed: float | None) -> tuple[float, int | None]:
        """Reward and number of a learnt decision, or NotLearnt."""
        self._ledger.require_own(decision, self.fingerprint)
        return self._ledger.require_learnt(decision, claimed, self._mark(decision))

    def _mark(self, decision: Decision) -> int | None:
        """Digest of the action of a decision whose id the caller chose: such an id may name two decisions.

        DecisionError where another one is pending under its id. Ids that were issued name one decision each.
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


def _spread(given: Actions, probabilities: Vector) -> Vector:
    """Probabilities of all actions, from those of the eligible ones."""
    if given.rows is None:
        return probabilities
    spread = np.zeros(given.n_rows)
    spread[given.rows] = probabilities
    return spread
