"""A running experiment: the life of its decisions, its catalog and its policy versions.

```text
decision ─► OPEN ── rewards ──► OPEN ── final reward or window over ──► CLOSED ─► learn
   └ defer ─► WAITING ── activate ─► OPEN            └ late reward: stored; ignored, or amended
                    └ window over ─► DISCARDED
```

Each method returns the rows that a request adds to the log and the answer that follows their commit. The state of
decisions changes when the rows are queued, so that the next request sees it; models learn when they are committed.
Everything here runs on the learner's thread.
"""

from __future__ import annotations

import json
import logging
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from heapq import heappop, heappush
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from kernelbandits.errors import KernelBanditError
from kernelbandits.selection import Catalog
from kernelbandits.service.clock import timestamp
from kernelbandits.service.model import (
    Model,
    apply_row,
    extend_table,
    place_of,
    plain_point,
    points_of,
    reject_indefinite,
    seed_of,
    table_of,
)
from kernelbandits.service.problems import Problem
from kernelbandits.service.schemas import (
    ID,
    Action,
    ClosedBody,
    DecisionAnswer,
    DecisionBody,
    DecisionRequest,
    Experiment,
    Items,
    LearnBody,
    Limits,
    Place,
    Ranked,
    RewardAnswer,
    RewardBody,
    RewardRequest,
    decode_body,
    encode,
)
from kernelbandits.service.store import (
    Draft,
    Mark,
    MarkDecision,
    MarkReward,
    MarkStatus,
    Row,
    Store,
)

__all__ = ["LiveExperiment", "Outcome", "PolicyVersion", "constant", "digest_text"]

logger = logging.getLogger("kernelbandits.service")

CACHED: Final = 10_000
"""Closed decisions, and bodies of decisions, that are held in memory; others are read from the store."""

CLOSED_AT_ONCE: Final = 256


class Outcome(NamedTuple):
    """Rows to append, and the answer after their commit."""

    drafts: list[Draft]
    reply: Callable[[list[Row]], Any]
    erase: Sequence[int] = ()


class Entry:
    """The state of one decision, as of the last row that was queued."""

    __slots__ = ("closes_at", "id", "learned", "places", "rewards", "seq", "status")

    def __init__(self, id: str, seq: int, status: str, closes_at: float, places: list[str]) -> None:
        self.id, self.seq, self.status, self.closes_at, self.places = id, seq, status, closes_at, places
        self.rewards: dict[str, tuple[int, float, bool]] = {}  # place, value, whether it counts
        self.learned: list[float | None] = [None] * len(places)


class _Catalog:
    """The items of a catalog as points, with their ids and rows."""

    def __init__(self, points: Catalog, ids: list[str]) -> None:
        self.points, self.ids = points, ids
        self.rows = {id: row for row, id in enumerate(ids)}


class PolicyVersion:
    """One version of the policy."""

    def __init__(self, id: str, description: dict[str, Any], epsilon: float, seq: int, note: str = "") -> None:
        self.id, self.description, self.epsilon, self.seq, self.note = id, description, epsilon, seq, note
        self.status = "building"

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "id": self.id,
            "policy": self.description,
            "epsilon": self.epsilon,
            "seq": self.seq,
            "status": self.status,
            "note": self.note,
        }


class LiveExperiment:
    """State of one experiment; only the learner's thread changes it."""

    def __init__(self, spec: Experiment, store: Store, limits: Limits, seq: int) -> None:
        self.spec, self.name, self.state = spec, spec.name, "draft"
        self.created_seq = seq
        self.created_at = 0.0
        self.limits = limits
        self._store = store
        self.models: dict[str, Model] = {}
        self.versions: dict[str, PolicyVersion] = {}
        self.active = ""
        self.items: dict[str, Any] = {}
        self.items_seq = 0
        self._catalog: _Catalog | None = None
        self.shape: tuple[Any, ...] | None = None
        """Form of the points, fixed by the first decision or item."""
        self.entries: dict[str, Entry] = {}
        """Decisions that are open, waiting or due."""
        self._closed: OrderedDict[str, Entry] = OrderedDict()
        self._bodies: OrderedDict[str, DecisionBody] = OrderedDict()
        self._fresh: dict[str, DecisionBody] = {}  # of decisions that are not committed
        self._fallbacks: dict[str, DecisionBody] = {}  # likewise, of those that the learner has not seen
        self._heap: list[tuple[float, str]] = []
        self._order: deque[str] = deque()  # decisions in order of their rows, for learn_on="close"
        self.counts: Counter[str] = Counter()
        """Committed rows by type."""

    @property
    def model(self) -> Model:
        """The active model."""
        return self.models[self.active]

    def require_running(self) -> None:
        """Raise a Problem unless decisions can be made."""
        if self.state not in ("running", "paused"):
            raise Problem("wrong-state", f"Experiment {self.name!r} is {self.state}; decisions need a running one.")

    # -- finding -----------------------------------------------------------------------------------------------------

    def entry(self, id: str) -> Entry | None:
        """The state of a decision, read from the store if it is not in memory."""
        found = self.entries.get(id) or self._closed.get(id)
        if found is None:
            found = self._stored_entry(id)
        return found

    def _stored_entry(self, id: str) -> Entry | None:
        known = self._store.decision(self.name, id)
        if known is None:
            return None
        body = self.find(id)
        places = [] if body is None else [place.id for place in body.places]
        entry = Entry(id, known.seq, known.status, known.closes_at, places)
        if known.learned is not None:
            entry.learned = json.loads(known.learned)
        for reward in self._store.rewards(self.name, id):
            entry.rewards[reward.id] = (reward.place, reward.value, not reward.is_late)
        if entry.status in ("open", "waiting", "due"):
            self.entries[id] = entry
        else:
            self._keep_closed(entry)
        return entry

    def _keep_closed(self, entry: Entry) -> None:
        self._closed[entry.id] = entry
        while len(self._closed) > CACHED:
            self._closed.popitem(last=False)

    def find(self, id: str) -> DecisionBody | None:
        """The body of a decision without its request; None if it was erased."""
        body = self._fresh.get(id) or self._bodies.get(id)
        if body is not None:
            return body
        known = self._store.decision(self.name, id)
        row = None if known is None else self._store.row(known.seq)
        if row is None or row.body is None:
            return None
        body = _slim(decode_body(row))
        self._remember(id, body)
        return body

    def _remember(self, id: str, body: DecisionBody) -> None:
        self._bodies[id] = body
        while len(self._bodies) > CACHED:
            self._bodies.popitem(last=False)

    def hold(self, id: str, body: DecisionBody) -> None:
        """Keep the body of a decision until `forget`."""
        self._fresh[id] = body

    def forget(self, ids: Iterable[str]) -> None:
        """Drop decisions from memory, after their erasure."""
        for id in ids:
            for held in (self.entries, self._closed, self._bodies, self._fresh):
                held.pop(id, None)

    # -- deciding ----------------------------------------------------------------------------------------------------

    def decide(self, id: str, request: DecisionRequest, now: float, digest: str | None = None) -> Outcome:
        """Choose, or answer as before if the id is known."""
        digest = digest or digest_text(request)
        known = self.known_decision(id, digest)
        if known is not None:
            return known
        self.require_running()
        contexts, ids, eligible = self.actions_of(request)
        n_actions = len(ids) if eligible is None else int(eligible.sum())
        if request.k > n_actions:
            raise Problem("invalid", f"k is at most the number of eligible actions, {n_actions}.", pointer="/k")
        try:
            mode, places = self._choose(id, request, contexts, ids, eligible)
        except KernelBanditError:
            raise
        except Exception as error:  # the policy is as it was before
            logger.exception("the policy of experiment %r could not choose", self.name)
            raise Problem("failed", "The policy could not choose.") from error
        explained = request.explain and len(ids) <= self.limits.inline_actions
        status = "waiting" if request.defer else "open"
        body = DecisionBody(
            request=request, digest=digest, mode=mode, policy=self.active, policy_seq=self.model.seq,
            n_actions=n_actions, places=places, closes_at=now + self.spec.wait, status=status,
            catalog=0 if request.actions is not None else self.items_seq,
            candidates=self._candidates(request, ids, eligible) if explained else None,
            epsilon=self.versions[self.active].epsilon,
            shadows=self._shadows(id, contexts, ids, eligible, request.k) if mode == "policy" else {},
        )  # fmt: skip
        for model in self.models.values():
            model.decided(id, body)
        self._register(id, body)
        self._fresh[id] = _slim(body)
        return Outcome([self.draft_of(id, body, now)], lambda rows: answer_of(id, body, rows[0].seq))

    def _register(self, id: str, body: DecisionBody, seq: int = 0) -> None:
        self.entries[id] = Entry(id, seq, body.status, body.closes_at, [place.id for place in body.places])
        heappush(self._heap, (body.closes_at, id))

    def draft_of(self, id: str, body: DecisionBody, now: float) -> Draft:
        """The row of a decision."""
        assert body.request is not None
        mark = MarkDecision(body.status, body.closes_at, body.digest, body.request.subject)
        return Draft(self.name, "decision", id, now, encode(body), (mark,))

    def known_decision(self, id: str, digest: str) -> Outcome | None:
        """The answer for an id that was used before; a Problem if it was for another request."""
        if self.entry(id) is None:
            return None
        body = self._fresh.get(id)
        if body is not None:
            if body.digest != digest:
                raise id_reused(id)
            return Outcome([], lambda rows: self.stored_answer(id, digest))  # after the commit of the first one
        return Outcome([], constant(self.stored_answer(id, digest)))

    def stored_answer(self, id: str, digest: str | None = None) -> DecisionAnswer:
        """The answer of a committed decision, from its row."""
        known = self._store.decision(self.name, id)
        row = None if known is None else self._store.row(known.seq)
        if known is None or row is None:
            raise Problem("not-found", f"There is no decision {id!r} in experiment {self.name!r}.")
        if row.body is None:
            raise Problem("not-found", f"Decision {id!r} was erased.")
        body: DecisionBody = decode_body(row)
        if digest is not None and body.digest != digest:
            raise id_reused(id)
        return answer_of(id, body, row.seq, replayed=True, status=known.status)

    def _choose(
        self,
        id: str,
        request: DecisionRequest,
        contexts: Any,
        ids: list[str],
        eligible: NDArray[np.bool_] | None,
    ) -> tuple[str, list[Place]]:
        """Choose by the policy, or the baseline for the holdout and while the experiment is paused."""
        if request.taken is not None:
            return "imported", self._taken(request, ids, eligible)
        if self.state == "paused":
            return "baseline", self.reference(id, request, ids, eligible)
        share = self.spec.holdout
        if share and _fraction(self.spec.seed, f"{id}:holdout") < share:
            places = self.reference(id, request, ids, eligible)
            if len(places) == 1:
                own = self.model.policy.probabilities(contexts, ids=ids_of(contexts, ids), eligible=eligible)
                places[0].p = min(1.0, share * places[0].p + (1.0 - share) * float(own[places[0].row]))
            return "holdout", places
        names = ids_of(contexts, ids)
        chosen = self.model.choose(id, contexts, ids=names, eligible=eligible, k=request.k)
        places = [place_of(decision, ids[int(decision.action)]) for decision in chosen]
        if share and len(places) == 1:
            other = self._reference_shares(request, ids, eligible)[places[0].row]
            places[0].p = min(1.0, (1.0 - share) * places[0].p + share * float(other))
        return "policy", places

    def _shadows(
        self, id: str, contexts: Any, ids: list[str], eligible: NDArray[np.bool_] | None, k: int
    ) -> dict[str, list[Ranked]]:
        """What each version in shadow would have chosen; one that cannot choose is left out."""
        found: dict[str, list[Ranked]] = {}
        names = ids_of(contexts, ids)
        for name, model in self.models.items():
            if name == self.active:
                continue
            try:
                chosen = model.choose(id, contexts, ids=names, eligible=eligible, k=k)
            except Exception:  # the decision of the active version stands
                logger.exception("policy %s of experiment %r could not choose in shadow", name, self.name)
                continue
            found[name] = [ranked(place_of(decision, ids[int(decision.action)])) for decision in chosen]
        return found

    def _candidates(self, request: DecisionRequest, ids: list[str], eligible: NDArray[np.bool_] | None) -> list[Ranked]:
        """Every eligible action, with its probability to be chosen: by the policy, the holdout or while paused."""
        found = self.model.candidates(self._points(request), ids, eligible)
        share = 1.0 if self.state == "paused" else self.spec.holdout
        if share and request.k == 1 and request.taken is None:
            other = dict(zip(ids, self._reference_shares(request, ids, eligible).tolist(), strict=True))
            for one in found:
                one.p = min(1.0, (1.0 - share) * one.p + share * other[one.id])
        return found

    def _taken(self, request: DecisionRequest, ids: list[str], eligible: NDArray[np.bool_] | None) -> list[Place]:
        """The choice that was made elsewhere."""
        assert request.taken is not None
        id = request.taken.action_id
        if id not in ids or (eligible is not None and not eligible[ids.index(id)]):
            raise Problem("invalid", f"{id!r} was taken and is no eligible action.", pointer="/taken/action_id")
        row = ids.index(id)
        return [Place(id=id, row=row, p=request.taken.propensity, point=self._point(request, ids, row))]

    def _reference_shares(
        self, request: DecisionRequest, ids: list[str], eligible: NDArray[np.bool_] | None
    ) -> NDArray[np.float64]:
        """Probability of every row under the choice of the holdout."""
        shares = np.ones(len(ids)) if eligible is None else eligible.astype(np.float64)
        baseline = request.baseline or self.spec.baseline
        if baseline in ids and shares[ids.index(baseline)]:
            return np.array([float(id == baseline) for id in ids])
        shares /= shares.sum()
        return shares

    def reference(
        self, id: str, request: DecisionRequest, ids: list[str], eligible: NDArray[np.bool_] | None
    ) -> list[Place]:
        """The baseline action first, if it is eligible; else, and for further places, uniformly random ones."""
        rows = list(range(len(ids))) if eligible is None else np.flatnonzero(eligible).tolist()
        rng = np.random.default_rng(seed_of(self.spec.seed, f"{id}:reference"))
        baseline = request.baseline or self.spec.baseline
        chosen: list[tuple[int, float]] = []
        while len(chosen) < request.k:
            first = [row for row in rows if ids[row] == baseline] if not chosen else []
            row, share = (first[0], 1.0) if first else (rows[int(rng.integers(len(rows)))], 1.0 / len(rows))
            chosen.append((row, share))
            rows.remove(row)
        return [Place(id=ids[row], row=row, p=share, point=self._point(request, ids, row)) for row, share in chosen]

    def _point(self, request: DecisionRequest, ids: list[str], row: int) -> Any:
        """One action as it is logged."""
        if request.actions is not None:
            return plain_point(request.actions[row], request.context)
        id = ids[row]
        try:
            return plain_point(Action(id, self.items[id]), None)
        except KeyError:  # of a fallback, while the learner removes the item
            raise Problem("overloaded", f"Item {id!r} has just been removed. Send the request again.") from None

    def _points(self, request: DecisionRequest) -> Any:
        """The points of all actions, also of a catalog."""
        if request.actions is not None:
            return points_of(request.actions, request.context)
        return points_of(Action(id, x) for id, x in self.items.items())

    def fallback(self, id: str, request: DecisionRequest, now: float, digest: str) -> tuple[DecisionBody, Draft]:
        """The decision when the learner is late: baseline or uniform, without the model; called by any thread."""
        self.require_running()
        _, ids, eligible = self.actions_of(request)
        body = DecisionBody(
            request=request, digest=digest, mode="fallback", policy=self.active, policy_seq=0,
            n_actions=len(ids) if eligible is None else int(eligible.sum()),
            places=self.reference(id, request, ids, eligible),
            closes_at=now + self.spec.wait,
            status="waiting" if request.defer else "open",
            catalog=0 if request.actions is not None else self.items_seq,
        )  # fmt: skip
        self._fallbacks[id] = _slim(body)
        return body, self.draft_of(id, body, now)

    # -- actions -----------------------------------------------------------------------------------------------------

    def actions_of(self, request: DecisionRequest) -> tuple[Any, list[str], NDArray[np.bool_] | None]:
        """The points of a request, their ids and which are eligible; or a Problem."""
        if request.actions is not None:
            ids = self._checked_ids(request.actions)
            points = points_of(request.actions, request.context)
            self._check_shape(request.actions, request.context)
        else:
            catalog = self._whole_catalog()
            if request.context is not None:
                raise Problem("invalid", "A context goes with inline actions.", pointer="/context")
            return catalog.points, catalog.ids, self._eligible(request, catalog.ids, catalog.rows)
        return points, ids, self._eligible(request, ids, None)

    def _checked_ids(self, actions: Sequence[Action]) -> list[str]:
        ids = [action.id for action in actions]
        if not ids:
            raise Problem("invalid", "A request has at least one action.", pointer="/actions")
        if len(ids) > self.limits.inline_actions:
            raise Problem(
                "too-large", f"A request has at most {self.limits.inline_actions:,} actions, got {len(ids):,}."
            )
        if len(set(ids)) < len(ids):
            raise Problem("invalid", "The ids of the actions of a request are distinct.", pointer="/actions")
        for place, id in enumerate(ids):
            if not ID.fullmatch(id):
                raise Problem("invalid", f"{id!r} is no id.", pointer=f"/actions/{place}/id")
        return ids

    def _check_shape(self, actions: Sequence[Action], context: Any) -> None:
        """Reject points of another form than those of the first decision."""
        shape = shape_of(actions, context)
        if shape[0] == "row" and shape[1] > self.limits.columns:
            raise Problem("invalid", f"A row has at most {self.limits.columns:,} columns.", pointer="/actions")
        if self.shape is None:
            self.shape = shape
        elif shape != self.shape:
            raise Problem(
                "invalid",
                f"The actions of experiment {self.name!r} are {said_shape(self.shape)}, got {said_shape(shape)}.",
                pointer="/actions",
            )

    def _whole_catalog(self) -> _Catalog:
        if not self.items:
            raise Problem("invalid", "The request has no actions, and the catalog is empty.", pointer="/actions")
        if self._catalog is None:
            items = list(self.items.items())  # at once: a fallback reads it beside the learner
            points = points_of(Action(id, x) for id, x in items)
            ids = [id for id, _ in items]
            self._catalog = _Catalog(Catalog(points, ids=ids), ids)
        return self._catalog

    def _eligible(
        self, request: DecisionRequest, ids: list[str], rows: dict[str, int] | None
    ) -> NDArray[np.bool_] | None:
        if request.eligible is None and request.exclude is None:
            return None
        places = {id: row for row, id in enumerate(ids)} if rows is None else rows
        mask = np.full(len(ids), request.eligible is None)
        for listed, value, field in ((request.eligible, True, "eligible"), (request.exclude, False, "exclude")):
            for id in listed or ():
                if id not in places:
                    raise Problem("invalid", f"{field} names {id!r}, which is no action.", pointer=f"/{field}")
                mask[places[id]] = value
        if not mask.any():
            raise Problem("invalid", "No action is eligible.", pointer="/eligible")
        return mask

    def change_items(self, change: Items, now: float) -> Outcome:
        """Add, replace and remove items of the catalog."""
        gone = [id for id in change.delete if id not in self.items]
        if gone:
            raise Problem("not-found", f"There is no item {gone[0]!r} in the catalog.")
        merged = {**self.items, **{action.id: action.x for action in change.put}}
        for id in change.delete:
            merged.pop(id, None)
        if len(merged) > self.limits.catalog_items:
            raise Problem("too-large", f"A catalog has at most {self.limits.catalog_items:,} items.")
        for action in change.put:
            if not ID.fullmatch(action.id):
                raise Problem("invalid", f"{action.id!r} is no id.", pointer="/put")
        if change.put:
            self._check_shape(change.put, None)
            points = points_of(change.put)
            try:
                self.model.policy.probabilities(points, ids=None)
            except KernelBanditError as error:
                raise Problem("invalid", str(error), pointer="/put") from error
        draft = Draft(self.name, "items", "", now, encode(change))
        return Outcome([draft], lambda rows: {"seq": rows[0].seq, "n_items": len(merged)})

    def apply_items(self, change: Items, seq: int) -> None:
        """Apply an `items` row; an item that is replaced becomes the last one, live and in a replay."""
        gone = [id for id in dict.fromkeys([*(action.id for action in change.put), *change.delete]) if id in self.items]
        for id in gone:
            del self.items[id]
        put = {action.id: action for action in change.put if action.id not in change.delete}
        had_items = bool(self.items)
        self.items.update({id: action.x for id, action in put.items()})
        self.items_seq, known, self._catalog = seq, self._catalog, None
        if known is not None and had_items:  # the engines of the policies follow
            if gone:
                known.points.remove(gone)
            if put:
                known.points.add(points_of(put.values()), ids=list(put))
            self._catalog = _Catalog(known.points, list(self.items))

    # -- rewards -----------------------------------------------------------------------------------------------------

    def reward(self, decision: str, id: str, request: RewardRequest, now: float) -> Outcome:
        """Take a reward, or answer as before if its id is known."""
        entry = self.entry(decision)
        if entry is None or entry.status == "erased":
            raise Problem("not-found", f"There is no decision {decision!r} in experiment {self.name!r}.")
        place = self._place(entry, request)
        digest = digest_text([place, request.reward, request.final])
        if id in entry.rewards:
            return Outcome([], lambda rows: self.stored_reward(decision, id, digest))
        if entry.status not in ("open", "closed", "due"):
            raise Problem("wrong-state", f"Decision {decision!r} is {entry.status}; it takes no rewards.")
        low, high = self.spec.reward_range
        if not low <= request.reward <= high:
            raise Problem(
                "invalid", f"Rewards lie in reward_range = [{low:g}, {high:g}], got {request.reward:g}.",
                pointer="/reward",
            )  # fmt: skip
        late = entry.status != "open"
        counts = not late or self.spec.late == "amend"
        entry.rewards[id] = (place, request.reward, counts)
        learn = self._update(entry, place) if counts and self._learns_now(entry) else LearnBody()
        final = request.final and not late
        body = RewardBody(
            decision=decision, place=place, value=request.reward, digest=digest, late=late,
            status="closed" if final or late else entry.status, learned=entry.learned[place], final=final,
        )  # fmt: skip
        mark = MarkReward(decision, request.reward, place, not counts, digest)
        drafts = [Draft(self.name, "reward", id, now, encode(body), (mark,))]
        drafts += self._learn_drafts(learn, now)
        if final:
            drafts += self._close([entry], "final", now)
        return Outcome(drafts, lambda rows: reward_answer(id, body, rows[0].seq))

    def stored_reward(self, decision: str, id: str, digest: str) -> RewardAnswer:
        """The answer of a committed reward."""
        for known in self._store.rewards(self.name, decision):
            if known.id == id:
                if known.request != digest:
                    raise id_reused(id)
                row = self._store.row(known.seq)
                assert row is not None
                assert row.body is not None
                return reward_answer(id, decode_body(row), row.seq, replayed=True)
        raise Problem("not-found", f"There is no reward {id!r} of decision {decision!r}.")

    def _place(self, entry: Entry, request: RewardRequest) -> int:
        if request.action_id is None:
            if len(entry.places) > 1:
                raise Problem("invalid", "A reward of a slate names its action.", pointer="/action_id")
            return 0
        if request.action_id not in entry.places:
            raise Problem(
                "invalid", f"Decision {entry.id!r} did not choose {request.action_id!r}.", pointer="/action_id"
            )
        return entry.places.index(request.action_id)

    def _learns_now(self, entry: Entry) -> bool:
        """Whether a reward changes what was learned at once: not before the close in decision order."""
        return self.spec.learn_on == "reward" or entry.status == "closed"

    def _update(self, entry: Entry, place: int) -> LearnBody:
        """Learn the aggregate of the rewards of one place, or correct what was learned."""
        value = self._aggregate(entry, place)
        before = entry.learned[place]
        if value is None or value == before:
            return LearnBody()
        entry.learned[place] = value
        if before is None:
            return LearnBody(learn=[(entry.id, place, value)])
        return LearnBody(amend=[(entry.id, place, before, value)])

    def _aggregate(self, entry: Entry, place: int) -> float | None:
        """Aggregate of the distinct rewards of a place; the default if there are none and the window is over."""
        values = [value for at, value, counts in entry.rewards.values() if at == place and counts]
        if not values:
            return self.spec.default_reward if entry.status != "open" else None
        low, high = self.spec.reward_range
        return min(high, max(low, AGGREGATES[self.spec.aggregate](values)))

    def _learn_drafts(self, learn: LearnBody, now: float) -> list[Draft]:
        if not (learn.learn or learn.amend or learn.unlearn):
            return []
        changed = {entry[0] for entry in learn.learn} | {entry[0] for entry in learn.amend}
        marks = tuple(MarkStatus(id, learned=json.dumps(self._known(id).learned)) for id in sorted(changed))
        return [Draft(self.name, "learn", "", now, encode(learn), marks)]

    def _known(self, id: str) -> Entry:
        entry = self.entry(id)
        assert entry is not None
        return entry

    # -- activation, closing -----------------------------------------------------------------------------------------

    def activate(self, id: str, now: float) -> Outcome:
        """Open a deferred decision: its action was shown."""
        entry = self._required(id)
        if entry.status == "open":
            return Outcome([], lambda rows: {"decision_id": id, "status": "open", "replayed": True})
        if entry.status != "waiting":
            raise Problem("wrong-state", f"Decision {id!r} is {entry.status}; only a deferred one is activated.")
        entry.status, entry.closes_at = "open", now + self.spec.wait
        heappush(self._heap, (entry.closes_at, id))
        mark = MarkStatus(id, "open", entry.closes_at)
        draft = Draft(self.name, "activated", id, now, encode({"closes_at": entry.closes_at}), (mark,))
        answer = {"decision_id": id, "status": "open", "closes_at": timestamp(entry.closes_at), "replayed": False}
        return Outcome([draft], lambda rows: {**answer, "seq": rows[0].seq})

    def cancel(self, id: str, now: float) -> Outcome:
        """Withdraw a decision whose action was not taken."""
        entry = self._required(id)
        if entry.status == "cancelled":
            return Outcome([], lambda rows: {"decision_id": id, "status": "cancelled", "replayed": True})
        if entry.status not in ("open", "waiting") or any(value is not None for value in entry.learned):
            raise Problem("wrong-state", f"Decision {id!r} is {entry.status} or has rewards; it cannot be cancelled.")
        drafts = self._close([entry], "cancelled", now)
        return Outcome(
            drafts, lambda rows: {"decision_id": id, "status": "cancelled", "seq": rows[0].seq, "replayed": False}
        )

    def _required(self, id: str) -> Entry:
        entry = self.entry(id)
        if entry is None or entry.status == "erased":
            raise Problem("not-found", f"There is no decision {id!r} in experiment {self.name!r}.")
        return entry

    @property
    def next_close(self) -> float | None:
        """Time at which the next window is over."""
        while self._heap:
            time, id = self._heap[0]
            entry = self.entries.get(id)
            if entry is None or entry.status not in ("open", "waiting") or entry.closes_at != time:
                heappop(self._heap)
                continue
            return time
        return None

    def sweep(self, now: float) -> Outcome | None:
        """Close decisions whose window is over."""
        due: list[Entry] = []
        while len(due) < CLOSED_AT_ONCE and (time := self.next_close) is not None and time <= now:
            entry = self.entries[heappop(self._heap)[1]]
            if entry.seq:
                due.append(entry)
            else:  # not committed
                heappush(self._heap, (entry.closes_at, entry.id))
                break
        if not due:
            return None
        opened = [entry for entry in due if entry.status == "open"]
        waiting = [entry for entry in due if entry.status == "waiting"]
        drafts = self._close(opened, "window", now) if opened else []
        drafts += self._close(waiting, "discarded", now) if waiting else []
        return Outcome(drafts, constant(None))

    def _close(self, entries: list[Entry], reason: str, now: float) -> list[Draft]:
        """Close decisions, and learn what they are to be learned with."""
        takes_rewards = reason in ("window", "final")
        in_order = self.spec.learn_on == "close"
        marks: list[Mark] = []
        learn = LearnBody()
        for entry in entries:
            entry.status = {"cancelled": "cancelled", "discarded": "discarded"}.get(
                reason, "due" if in_order else "closed"
            )
            marks.append(MarkStatus(entry.id, entry.status))
            if entry.status != "due":
                self.entries.pop(entry.id, None)
                self._keep_closed(entry)
            if takes_rewards and not in_order:
                for place in range(len(entry.places)):
                    _extend(learn, self._update(entry, place))
        body = ClosedBody([entry.id for entry in entries], reason)
        drafts = [
            Draft(self.name, "closed", entries[0].id if len(entries) == 1 else "", now, encode(body), tuple(marks))
        ]
        drafts += self._learn_drafts(learn, now)
        return drafts + (self._emit(now) if in_order else [])

    def _emit(self, now: float) -> list[Draft]:
        """Learn closed decisions in the order of their rows, up to the first that is open."""
        learn, marks = LearnBody(), []
        while self._order:
            entry = self.entries.get(self._order[0])
            if entry is not None and entry.status in ("open", "waiting"):
                break
            self._order.popleft()
            if entry is None or entry.status != "due":
                continue
            for place in range(len(entry.places)):
                _extend(learn, self._update(entry, place))
            entry.status = "closed"
            marks.append(MarkStatus(entry.id, "closed", learned=json.dumps(entry.learned)))
            self.entries.pop(entry.id)
            self._keep_closed(entry)
        if not marks:
            return []
        return [Draft(self.name, "learn", "", now, encode(learn), tuple(marks))]

    # -- committed rows ----------------------------------------------------------------------------------------------

    def committed(self, row: Row) -> None:
        """Take note of a committed row, in order, and let the models learn from it."""
        self.counts[row.type] += 1
        if row.type == "decision":
            self._committed_decision(row)
            return
        if row.body is None or row.type not in ("activated", "closed", "learn"):
            return
        body = decode_body(row)
        for model in self.models.values():
            apply_row(model, row, body, self.find)

    def _committed_decision(self, row: Row) -> None:
        body = self._fresh.pop(row.id, None)
        if body is None:  # a fallback, which the learner sees here for the first time
            body = self._fallbacks.pop(row.id, None) or _slim(decode_body(row))
            self._register(row.id, body, row.seq)
            for model in self.models.values():
                apply_row(model, row, body, self.find)
        self._remember(row.id, body)
        entry = self.entries.get(row.id)
        if entry is not None:
            entry.seq = row.seq
        if self.spec.learn_on == "close":
            self._order.append(row.id)

    # -- recovery ----------------------------------------------------------------------------------------------------

    def restore_entries(self) -> None:
        """Read the decisions that are open, waiting or due."""
        for known in self._store.decisions(self.name, status=("open", "waiting", "due")):
            entry = self._stored_entry(known.id)
            if entry is None:
                continue
            if entry.status != "due":
                heappush(self._heap, (entry.closes_at, entry.id))
            if self.spec.learn_on == "close":
                self._order.append(entry.id)

    def restore_shape(self) -> None:
        """Read the form of the points from the catalog, or from the first decision."""
        if self.items:
            self.shape = shape_of([Action(id, x) for id, x in list(self.items.items())[:1]], None)
            return
        for row in self._store.rows(self.name, types=("decision",)):
            request = None if row.body is None else decode_body(row).request
            if request is not None and request.actions is not None:
                self.shape = shape_of(request.actions, request.context)
                return

    def extend(self, seconds: float) -> None:
        """Extend every open window, after the service was down."""
        self._heap.clear()
        for entry in self.entries.values():
            if entry.status in ("open", "waiting"):
                entry.closes_at += seconds
                heappush(self._heap, (entry.closes_at, entry.id))

    def add_similarities(self, block: Any, now: float) -> Outcome:
        """Check a block of a similarity table; it is applied after its commit. A stored block is answered again."""
        table = table_of(self.model.policy)
        packed = encode(block)
        for row in self._store.rows(self.name, types=("similarities",)):
            if row.body == packed:
                return Outcome([], constant({"seq": row.seq, "n_items": len(table), "replayed": True}))
        trial = type(table).unpack(*table.pack())
        report = extend_table(trial, block)
        if report is None:
            reject_indefinite(trial.values)
        draft = Draft(self.name, "similarities", "", now, packed)
        found = None if report is None else {name: getattr(report, name) for name in type(report).__annotations__}
        answer = {"n_items": len(trial), "repair": found, "replayed": False}
        return Outcome([draft], lambda rows: {"seq": rows[0].seq, **answer})

    def info(self) -> dict[str, Any]:
        """Settings and state, as plain values."""
        model = self.models.get(self.active)
        return {
            **msgspec.to_builtins(self.spec),
            **{name: getattr(self.spec, name) for name in self.spec.__struct_fields__ if name not in ("policy",)},
            "state": self.state,
            "active": self.active,
            "policies": [version.to_dict() for version in self.versions.values()],
            "n_items": len(self.items),
            "n_open": len(self.entries),
            "policy_seq": 0 if model is None else model.seq,
            "n_learned": 0 if model is None else model.n_learned,
            "n_pending": 0 if model is None else model.pending,
            "n_skipped": 0 if model is None else model.n_skipped,
            "rows": dict(self.counts),
        }


AGGREGATES: Final[dict[str, Callable[[list[float]], float]]] = {
    "earliest": lambda values: values[0],
    "latest": lambda values: values[-1],
    "sum": sum,
    "mean": lambda values: sum(values) / len(values),
    "max": max,
    "min": min,
}


def answer_of(
    id: str, body: DecisionBody, seq: int, *, replayed: bool = False, status: str | None = None
) -> DecisionAnswer:
    """The answer to a decision request, from its row."""
    ranking = [ranked(place) for place in body.places]
    return DecisionAnswer(
        decision_id=id, action_id=body.places[0].id, propensity=body.places[0].p, seq=seq, policy=body.policy,
        policy_seq=body.policy_seq, ranking=ranking, closes_at=timestamp(body.closes_at), mode=body.mode,
        status=status or body.status, durable="disk", replayed=replayed, candidates=body.candidates,
    )  # fmt: skip


def ranked(place: Place) -> Ranked:
    """A chosen action as it is answered."""
    return Ranked(place.id, place.mean, place.width, place.score, place.p)


def reward_answer(id: str, body: RewardBody, seq: int, *, replayed: bool = False) -> RewardAnswer:
    """The answer to a reward, from its row."""
    return RewardAnswer(
        decision_id=body.decision, reward_id=id, seq=seq, status=body.status, late=body.late, learned=body.learned,
        durable="disk", replayed=replayed,
    )  # fmt: skip


def digest_text(value: Any) -> str:
    """Digest of a request, equal for equal requests."""
    return blake2b(encode(value), digest_size=12).hexdigest()


def id_reused(id: str) -> Problem:
    """Problem of an id that was used with another payload."""
    return Problem("id-reused", f"The id {id!r} belongs to another request. Send the same request, or another id.")


def ids_of(contexts: Any, ids: list[str]) -> list[str] | None:
    """Ids as `choose` takes them: a catalog has its own."""
    return None if isinstance(contexts, Catalog) else ids


def shape_of(actions: Sequence[Action], context: Any) -> tuple[Any, ...]:
    """Form of the points of a request."""
    return (*_form(actions[0].x), *(() if context is None else _form(context)))


def _form(x: Any) -> tuple[Any, ...]:
    if x is None or isinstance(x, str):
        return ("id" if x is None else "string", 0)
    return ("row", len(x)) if all(isinstance(part, float) for part in x) and x else ("set", 0)


def said_shape(shape: tuple[Any, ...]) -> str:
    """A form in words."""
    said = {"id": "ids", "string": "strings", "set": "sets", "row": f"rows of {shape[1]} numbers"}[shape[0]]
    return said if len(shape) == 2 else f"{said} with a context"


def _fraction(seed: int, text: str) -> float:
    return seed_of(seed, text) / 2.0**64


def constant(value: Any) -> Callable[[list[Row]], Any]:
    """An answer that does not depend on the rows that are committed."""
    return lambda rows: value


def _extend(learn: LearnBody, more: LearnBody) -> None:
    learn.learn.extend(more.learn)
    learn.amend.extend(more.amend)


def _slim(body: DecisionBody) -> DecisionBody:
    """A body without what learning does not need."""
    return msgspec.structs.replace(body, request=None, candidates=None, shadows={})
