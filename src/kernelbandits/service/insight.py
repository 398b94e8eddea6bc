"""What an experiment's log says about it: a running summary of its rows, for the interface and the dashboard.

The summary is a fold over committed rows, apart from the models: it reads what was stored, recomputes no choice, and
goes on where it ended. It covers at most the last `SPAN` rows that were there when it began.
"""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict, deque
from collections.abc import Iterable
from math import isnan
from typing import Any, Final

import msgspec
from msgspec import Struct

from kernelbandits.errors import KernelBanditError
from kernelbandits.evaluation import ABComparison, Estimate
from kernelbandits.experiments.diagnostics import has_kernel
from kernelbandits.service.experiment import LiveExperiment, Outcome
from kernelbandits.service.learner import Learner
from kernelbandits.service.schemas import ClosedBody, LearnBody, RewardBody, decode_body
from kernelbandits.service.store import Row
from kernelbandits.theory import effective_dimension

__all__ = ["Insight", "Insights"]

SPAN: Final = 200_000
"""Rows before the first summary that it reads: a few seconds of work."""

BUCKETS: Final = 48
"""Intervals of time are joined in pairs when there are more."""

FIRST_WIDTH: Final = 1.0
"""Seconds of an interval at first."""

KNOWN: Final = 50_000
"""Decisions and actions that are remembered, the most recent ones; later rewards of older decisions are not counted."""

FAILURE: Final = 0.05
"""Probability that the interval of the comparison with the holdout fails at any time."""

RECENT: Final = 50
CHANGES: Final = 100
MOST_SHOWN: Final = 6
MOST_LISTED: Final = 200
MOST_POINTS: Final = 500
"""Learned points up to which the effective dimension is computed."""

DELAYS: Final = (1.0, 10.0, 60.0, 600.0, 3_600.0, 21_600.0, 86_400.0, 604_800.0)
"""Upper ends in seconds of the intervals of delays."""

FOLDED: Final = ("decision", "reward", "learn", "closed", "activated", "erased")
RARE: Final = ("experiment", "settings", "state", "items", "policy", "similarities", "extended", "erased")
OF_SERVICE: Final = ("started", "alarm")


class _Id(Struct):
    id: str


class _Request(Struct):
    actions: list[_Id] | None = None


class _Place(Struct):
    id: str
    p: float
    mean: float | None = None
    width: float | None = None


class _Decision(Struct):
    """The part of a decision's body that is read here."""

    mode: str
    policy: str
    places: list[_Place]
    status: str
    n_actions: int
    request: _Request | None = None
    shadows: dict[str, list[_Id]] = {}


_decoder = msgspec.json.Decoder(_Decision)


class _Bucket:
    """Sums over the decisions of an interval of time."""

    __slots__ = ("actions", "n", "n_learned", "n_model", "n_unlikely", "predicted", "realized", "width")

    def __init__(self) -> None:
        self.n = self.n_model = self.n_unlikely = self.n_learned = 0
        self.width = self.predicted = self.realized = 0.0
        self.actions: Counter[str] = Counter()

    def join(self, other: _Bucket) -> None:
        for name in self.__slots__:
            if name == "actions":
                self.actions.update(other.actions)
            else:
                setattr(self, name, getattr(self, name) + getattr(other, name))


class _Known:
    """What later rows of a decision need."""

    __slots__ = ("action", "at", "has_reward", "learned", "mean", "mode")

    def __init__(self, at: float, mode: str, action: str, mean: float | None) -> None:
        self.at, self.mode, self.action, self.mean = at, mode, action, mean
        self.has_reward = False
        self.learned: float | None = None


class _Action:
    """Counts of one action."""

    __slots__ = ("chosen", "first", "learned", "offered", "total")

    def __init__(self, first: float) -> None:
        self.first = first
        self.offered = self.chosen = self.learned = 0
        self.total = 0.0


class Insight:
    """The summary of one experiment.

    Parameters
    ----------
    reward_range
        Smallest and largest reward.
    after
        The row after which the summary begins.
    """

    def __init__(self, reward_range: tuple[float, float], *, after: int = 0) -> None:
        self.after = self.seq = after
        self.start: float | None = None
        self.width = FIRST_WIDTH
        self.comparison = ABComparison(failure_probability=FAILURE, reward_range=reward_range)
        self._new: dict[str, list[float]] = {"policy": [], "holdout": []}  # rewards that the comparison has not seen
        self.modes: Counter[str] = Counter()
        self.health: Counter[str] = Counter()
        self.delays = [0] * (len(DELAYS) + 1)
        self._buckets: dict[int, _Bucket] = {}
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._actions: OrderedDict[str, _Action] = OrderedDict()
        self._recent: deque[tuple[str, _Decision, float]] = deque(maxlen=RECENT)
        self._shadows: dict[str, list[int]] = {}  # decisions, and those with the same choice, per version in shadow

    # -- rows --------------------------------------------------------------------------------------------------------

    def feed(self, row: Row) -> None:
        """Take in one row."""
        self.seq = row.seq
        if row.body is None:
            return
        if row.type == "decision":
            self._decision(row, _decoder.decode(row.body))
        elif row.type == "activated":
            self.health["activated"] += 1
        elif row.type == "reward":
            self._reward(row, decode_body(row))
        elif row.type == "closed":
            body: ClosedBody = decode_body(row)
            self.health[body.reason] += len(body.decisions)
        elif row.type == "learn":
            self._learn(decode_body(row))
        elif row.type == "erased":
            gone = set(decode_body(row)["decisions"])
            self._recent = deque((one for one in self._recent if one[0] not in gone), maxlen=RECENT)

    def _decision(self, row: Row, body: _Decision) -> None:
        self.modes[body.mode] += 1
        self.health["deferred"] += body.status == "waiting"
        self._recent.append((row.id, body, row.at))
        first = body.places[0]
        chosen = [place.id for place in body.places]
        for name, places in body.shadows.items():
            counts = self._shadows.setdefault(name, [0, 0])
            counts[0] += 1
            counts[1] += [place.id for place in places] == chosen
        _remember(self._known, row.id, _Known(row.at, body.mode, first.id, first.mean))
        for one in (body.request and body.request.actions) or ():
            self._action(one.id, row.at).offered += 1
        bucket = self._bucket(row.at)
        bucket.n += 1
        if body.mode == "policy":
            bucket.n_model += 1
            bucket.width += first.width or 0.0
            bucket.n_unlikely += first.p < 0.5
        for place in body.places:
            bucket.actions[place.id] += 1
            self._action(place.id, row.at).chosen += 1

    def _action(self, id: str, at: float) -> _Action:
        found = self._actions.get(id)
        if found is None:
            found = _Action(at)
            _remember(self._actions, id, found)
        return found

    def _reward(self, row: Row, body: RewardBody) -> None:
        self.health["late"] += body.late
        known = self._known.get(body.decision)
        if known is None:
            return
        delay = row.at - known.at
        self.delays[sum(delay > end for end in DELAYS)] += 1
        if not known.has_reward and not body.late:
            known.has_reward = True
            self.health["rewarded"] += 1

    def _learn(self, body: LearnBody) -> None:
        for id, place, value in body.learn:
            known = self._known.get(id)
            if known is None or place:
                continue
            known.learned = value
            self.health["default"] += not known.has_reward
            if known.mode in self._new:
                self._new[known.mode].append(value)
            self._learned(known, value, 1)
        for id, place, before, value in body.amend:
            known = self._known.get(id)
            self.health["amended"] += 1
            if known is not None and not place and known.learned is not None:
                known.learned = value
                self._learned(known, value - before, 0)
        for id, place, value in body.unlearn:
            known = self._known.pop(id, None)
            if known is not None and not place:
                self._learned(known, -value, -1)

    def _learned(self, known: _Known, value: float, n: int) -> None:
        """Add to the sums of what was learned."""
        action = self._actions.get(known.action)
        if action is not None:
            action.learned += n
            action.total += value
        if known.mean is not None:
            bucket = self._bucket(known.at)
            bucket.n_learned += n
            bucket.realized += value
            bucket.predicted += n * known.mean

    def _bucket(self, at: float) -> _Bucket:
        if self.start is None:
            self.start = at
        place = max(0, int((at - self.start) / self.width))
        while place >= BUCKETS:
            self.width *= 2.0
            joined: dict[int, _Bucket] = {}
            for old, bucket in sorted(self._buckets.items()):
                joined.setdefault(old // 2, _Bucket()).join(bucket)
            self._buckets = joined
            place = int((at - self.start) / self.width)
        return self._buckets.setdefault(place, _Bucket())

    # -- answers -----------------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """The summary as plain values."""
        n = sum(self.modes.values())
        totals = sum((bucket.actions for bucket in self._buckets.values()), Counter())
        shown = [id for id, _ in totals.most_common(MOST_SHOWN)]
        return {
            "from_seq": self.after + 1,
            "to_seq": self.seq,
            "n_decisions": n,
            "modes": dict(self.modes),
            "comparison": self._comparison(),
            "intervals": [self._interval(place, shown) for place in sorted(self._buckets)],
            "interval_seconds": self.width,
            "shown_actions": shown,
            "actions": self._listed(),
            "n_actions": len(self._actions),
            "n_never_tried": sum(not one.chosen for one in self._actions.values()),
            "never_tried": [id for id, one in reversed(self._actions.items()) if not one.chosen][:RECENT],
            "funnel": self._funnel(n),
            "delays": [{"up_to": end, "n": count} for end, count in zip((*DELAYS, None), self.delays, strict=True)],
            "recent": [self._decided(*one) for one in reversed(self._recent)],
            "shadows": {name: {"n": n, "same": same} for name, (n, same) in self._shadows.items()},
        }

    def _comparison(self) -> dict[str, Any]:
        self.comparison.add(first=self._new["policy"], second=self._new["holdout"])
        self._new = {"policy": [], "holdout": []}
        first, second = self.comparison.first.estimate(), self.comparison.second.estimate()
        has_both = bool(first.n_rounds and second.n_rounds)
        return {
            "policy": _said(first),
            "holdout": _said(second),
            "difference": _said(self.comparison.estimate()) if has_both else None,
            "winner": {"first": "policy", "second": "holdout", None: None}[self.comparison.winner],
        }

    def _interval(self, place: int, shown: Iterable[str]) -> dict[str, Any]:
        assert self.start is not None
        bucket = self._buckets[place]
        chosen = bucket.actions.total()
        return {
            "at": self.start + place * self.width,
            "n": bucket.n,
            "predicted": _ratio(bucket.predicted, bucket.n_learned),
            "realized": _ratio(bucket.realized, bucket.n_learned),
            "width": _ratio(bucket.width, bucket.n_model),
            "unlikely": _ratio(bucket.n_unlikely, bucket.n_model),
            "shares": [bucket.actions[id] / chosen for id in shown] if chosen else [],
        }

    def _listed(self) -> list[dict[str, Any]]:
        """The actions that were chosen most."""
        n_chosen = sum(one.chosen for one in self._actions.values())
        ordered = sorted(self._actions.items(), key=lambda pair: -pair[1].chosen)[:MOST_LISTED]
        return [
            {
                "id": id,
                "chosen": one.chosen,
                "offered": one.offered or None,
                "share": _ratio(one.chosen, n_chosen),
                "mean_reward": _ratio(one.total, one.learned),
                "first_at": one.first,
            }
            for id, one in ordered
        ]

    def _funnel(self, n: int) -> dict[str, int]:
        health = self.health
        waiting = health["deferred"] - health["activated"]
        names = ("rewarded", "default", "late", "amended", "cancelled", "discarded", "deferred", "activated")
        return {"decided": n, "shown": n - waiting, **{name: health[name] for name in names}}

    def _decided(self, id: str, body: _Decision, at: float) -> dict[str, Any]:
        first, known = body.places[0], self._known.get(id)
        return {
            "id": id, "at": at, "mode": body.mode, "policy": body.policy, "action": first.id, "propensity": first.p,
            "mean": first.mean, "width": first.width, "learned": None if known is None else known.learned,
        }  # fmt: skip


class Insights:
    """The summaries of all experiments of a learner, each read on demand by any thread."""

    def __init__(self, learner: Learner) -> None:
        self._learner = learner
        self._lock = threading.Lock()
        self._held: dict[str, Insight] = {}
        self._dimensions: dict[str, tuple[int, float, int | None]] = {}

    def summary(self, name: str) -> dict[str, Any]:
        """The summary of an experiment up to its last row."""
        experiment = self._learner.experiment(name)
        store = self._learner.store
        with self._lock:
            held = self._held.get(name)
            if held is None:
                head = store.head()
                after = max(0, (0 if head is None else head.seq) - SPAN)
                held = self._held[name] = Insight(experiment.spec.reward_range, after=after)
            for row in store.rows(name, after=held.seq, types=FOLDED):
                held.feed(row)
            found = held.to_dict()
        found["funnel"]["open"] = len(experiment.entries)
        found["model"] = self._model(experiment)
        found["changes"] = self._changes(experiment)
        return found

    def _changes(self, experiment: LiveExperiment) -> list[dict[str, Any]]:
        """What was changed, the latest first: settings, policies, catalog, restarts of the service."""
        store = self._learner.store
        own = deque(store.rows(experiment.name, types=RARE), maxlen=CHANGES)
        service = deque(store.rows("", after=experiment.created_seq, types=OF_SERVICE), maxlen=CHANGES)
        rows = sorted((*own, *service), key=lambda row: -row.seq)[:CHANGES]
        return [
            {
                "seq": row.seq, "at": row.at, "type": row.type, "id": row.id,
                "what": {} if row.body is None or row.type in BULKY else msgspec.json.decode(row.body),
            }
            for row in rows
        ]  # fmt: skip

    def _model(self, experiment: LiveExperiment) -> dict[str, Any]:
        """How much the active policy has learned."""
        info = experiment.info()
        found = {name: info[name] for name in ("active", "policy_seq", "n_learned", "n_pending", "n_skipped")}
        seq, at, dimension = self._dimensions.get(experiment.name, (-1, 0.0, None))
        now = self._learner.clock.now()
        if seq < 0 or (seq != info["policy_seq"] and now - at > 10.0):
            dimension = self._dimension(experiment)
            self._dimensions[experiment.name] = info["policy_seq"], now, dimension
        return {**found, "effective_dimension": dimension}

    def _dimension(self, experiment: LiveExperiment) -> int | None:
        """Effective dimension of the learned points; None where there are too many, or no kernel.

        The learner gives the points, and the calling thread computes.
        """

        def work() -> Outcome:
            policy = experiment.model.inner
            posterior: Any = getattr(policy, "posterior", None)
            if posterior is None or not has_kernel(policy) or not 0 < posterior.size <= MOST_POINTS:
                return Outcome([], lambda rows: None)
            points, _, counts, _ = posterior.support()
            found = posterior.kernel, points, counts.copy(), posterior.regularization, posterior.n_observations
            return Outcome([], lambda rows: found)

        try:
            given = self._learner.call(work).result(5.0)
            if given is None:
                return None
            kernel, points, counts, regularization, n = given
            gram = kernel.gram(points)
            return effective_dimension(gram, regularization=regularization, horizon=max(2, n), counts=counts)
        except (KernelBanditError, TimeoutError):
            return None


BULKY: Final = frozenset({"items", "similarities", "erased"})
"""Rows whose bodies are not repeated among the changes."""


def _remember(held: OrderedDict[str, Any], key: str, value: Any) -> None:
    held[key] = value
    while len(held) > KNOWN:
        held.popitem(last=False)


def _ratio(total: float, n: int) -> float | None:
    return total / n if n else None


def _said(estimate: Estimate) -> dict[str, Any]:
    value = None if isnan(estimate.value) else estimate.value
    return {"n": estimate.n_rounds, "mean": value, "low": estimate.low, "high": estimate.high}
