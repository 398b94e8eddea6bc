"""The model of one policy version: a fold over the log.

The same function applies rows while the service runs, when it recovers and when a new version is built, so a replay
gives the same record. Rows that change the model are applied after their commit. A decision counts as pending from the
moment it is made, and its row names the last row of the model that it saw (`policy_seq`); a replay therefore holds
later rows back until a decision has seen them.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cache
from itertools import chain
from math import isfinite
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kernelbandits import kernels, policies, theory
from kernelbandits.errors import InvalidParameter, KernelBanditError, NotLearnt
from kernelbandits.experiments.policy_spec import build_value
from kernelbandits.kernels import Precomputed, RepairReport, SimilarityTable, detect, repair
from kernelbandits.policies import Mixed, Policy, experts, load
from kernelbandits.policies.serialization import packed_policy
from kernelbandits.service.problems import Problem
from kernelbandits.service.schemas import (
    Action,
    Block,
    ClosedBody,
    DecisionBody,
    Experiment,
    LearnBody,
    Place,
    Ranked,
    decode_body,
)
from kernelbandits.service.store import Row
from kernelbandits.types import Decision, Pairs, Points
from kernelbandits.validation import short_repr

__all__ = ["MODEL_ROWS", "Fold", "Model", "build_policy", "points_of", "record_digest", "seed_of"]

MODEL_ROWS: Final = ("decision", "activated", "closed", "learn", "similarities", "settings")
"""Types of rows that can change a model."""

REMEMBER: Final = 10_000
"""Learned decisions whose rewards the policy itself remembers; corrections of older ones name the learned value."""

RANDOM_STATE: Final = frozenset({"entropy"})
"""Parts of a model that are random state: they follow from the seed and the id of a decision, not from the log."""

DERIVED: Final = tuple(
    f"dictionary.{name}"
    for name in ("precision", "moments", "totals", "scales", "spent", "batch_precision", "batch_weights")
)
"""Parts of the state under a budget that follow from the record up to rounding; a replay agrees to 1e-8."""

TABLE: Final = "SimilarityTable"
"""Class of a kernel that is given as a table in a policy's description."""


def build_policy(description: Mapping[str, Any], spec: Experiment, epsilon: float | None = None) -> Policy:
    """Build the policy of an experiment from its description, with the exploration floor."""
    share = spec.epsilon if epsilon is None else epsilon
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            rng = np.random.default_rng(spec.seed)  # some policies draw when they are made
            policy = build_value(_with_tables(_with_range(description, spec)), "policy", rng)
    except Problem as problem:  # with its own pointer, or the report about a table
        problem.pointer = problem.pointer or "/policy"
        raise
    except KernelBanditError as error:
        raise Problem("invalid", str(error), pointer="/policy") from error
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise Problem("invalid", f"This does not describe a policy: {error!s:.200}.", pointer="/policy") from error
    if not isinstance(policy, Policy):
        raise Problem("invalid", f"A policy is needed, got a {type(policy).__name__}.", pointer="/policy/class")
    if policy.needs_fixed_actions:
        raise Problem(
            "invalid", f"{type(policy).__name__} needs one fixed set of actions, which no request has to keep.",
            pointer="/policy/class",
        )  # fmt: skip
    try:
        policy.remember = REMEMBER
        policy = Mixed(policy, epsilon=share) if share else policy
        policy.fingerprint  # noqa: B018 – raises for a policy that cannot be described
        packed_policy(policy)
    except KernelBanditError as error:
        raise Problem("invalid", str(error), pointer="/policy") from error
    return policy


def _with_range(description: Mapping[str, Any], spec: Experiment) -> dict[str, Any]:
    """The description with the reward range of the experiment, where the class has one and it is not given."""
    kind = getattr(policies, str(description.get("class")), None)
    has_range = isinstance(kind, type) and issubclass(kind, Policy) and "reward_range" in kind._declared
    given = dict(description)
    if has_range and given.get("reward_range") is None:
        given["reward_range"] = list(spec.reward_range)
    if "seed" in given:
        raise Problem("invalid", "The seed belongs to the experiment: leave it out here.", pointer="/policy/seed")
    return given


def _with_tables(value: Any) -> Any:
    """The description with similarity tables built from their values; other classes are looked up by name."""
    if isinstance(value, Mapping):
        if "class" in value and value["class"] not in {TABLE, *_names()}:
            raise InvalidParameter(f"There is no policy, kernel or schedule {value['class']!r:.100}.")
        if value.get("class") == TABLE:
            return _table_kernel(value)
        return {key: _with_tables(part) for key, part in value.items()}
    return [_with_tables(part) for part in value] if isinstance(value, list) else value


@cache
def _names() -> frozenset[str]:
    """Names of classes that a description may hold. Nothing is imported by a name."""
    return frozenset(name for package in (kernels, policies, theory, experts) for name in package.__all__)


def _table_kernel(given: Mapping[str, Any]) -> Precomputed:
    """The kernel of a similarity table: checked, and repaired only if the description says so."""
    unknown = set(given) - {"class", "ids", "values", "repair"}
    if unknown:
        raise InvalidParameter(f"A similarity table has ids, values and repair, got {sorted(unknown)}.")
    table = SimilarityTable(np.array(given.get("values", []), dtype=np.float64), ids=given.get("ids"))
    if given.get("repair") is not None:
        table, _ = repair(table, method=given["repair"])
    else:
        reject_indefinite(table.values)
    return Precomputed(table)


def reject_indefinite(values: NDArray[np.float64]) -> None:
    """Raise a Problem for a matrix that is no table of similarities of a kernel."""
    found = detect(values)
    diagonal = np.sqrt(np.maximum(np.diagonal(values), 0.0))
    beyond = np.abs(values) > np.outer(diagonal, diagonal) * (1.0 + 1e-9) + 1e-12
    if beyond.any():
        row, column = (int(place) for place in np.argwhere(beyond)[0])
        raise Problem(
            "invalid",
            f"The similarity of items {row} and {column} is {values[row, column]:g}, more than the geometric mean of "
            "their self-similarities (Cauchy-Schwarz). Correct the table, or declare a repair.",
            report={"n_negative": found.n_negative, "most_negative": found.most_negative},
        )
    if found.n_negative:
        raise Problem(
            "invalid",
            f"The table is indefinite: {found.n_negative} negative eigenvalues, the lowest {found.most_negative:.3g}. "
            'Correct it, or declare a repair: "repair": "clip".',
            report={
                "n_negative": found.n_negative,
                "most_negative": found.most_negative,
                "negative_mass": found.negative_mass,
            },
        )


def seed_of(seed: int, id: str) -> int:
    """Seed of the random draws of one decision: a function of the experiment's seed and the decision's id."""
    return int.from_bytes(hashlib.blake2b(f"{seed}:{id}".encode(), digest_size=8).digest(), "little")


def points_of(actions: Iterable[Action], context: Any = None) -> Points:
    """Points of actions, in the form that `Policy.choose` accepts: rows, strings, sets or ids; pairs with a context."""
    listed = list(actions)
    given = [action.x for action in listed]
    points: Any
    if all(x is None for x in given):
        points = [action.id for action in listed]
    elif any(x is None for x in given):
        raise Problem("invalid", "Either every action has x, or none.", pointer="/actions")
    elif all(isinstance(x, str) for x in given):
        points = given
    else:
        points = _lists(given)
    return points if context is None else Pairs(_one(context), points)


def _lists(given: list[Any]) -> Any:
    """Rows of numbers as a matrix, lists of strings as sets."""
    if any(isinstance(x, str) for x in given):
        raise Problem("invalid", "The actions of a request are all rows, all strings or all sets.", pointer="/actions")
    kinds = set(map(type, chain.from_iterable(given)))
    if kinds <= {str}:
        return [frozenset(x) for x in given]
    if kinds != {float}:
        raise Problem("invalid", "A row holds numbers, and a set strings; not both.", pointer="/actions")
    if len({len(x) for x in given}) != 1:
        raise Problem("invalid", "All rows of a request have the same length.", pointer="/actions")
    return np.array(given, dtype=np.float64)


def _one(x: Any) -> Any:
    """One point."""
    if isinstance(x, str):
        return x
    return _lists([x])[0]


def record_digest(policy: Policy) -> str:
    """Digest of what a policy has learned: points, counts and reward sums in order, and pending decisions."""
    packed = packed_policy(policy)
    made = hashlib.sha256()
    _feed(made, _record(packed))
    return made.hexdigest()[:32]


def _record(packed: Any) -> Any:
    """The part of a packed policy that is learned: models and ledgers, also those of wrapped policies."""
    ledger = packed["ledger"]
    inner = packed["structure"].get("policy")
    return {
        "model": {key: value for key, value in packed["model"].items() if key not in RANDOM_STATE},
        "n_learned": ledger["n_learned"],
        "pending": sorted(decision["id"] for decision in ledger["pending"]),
        "inner": None if inner is None else _record(inner),
    }


def _feed(digest: Any, value: Any) -> None:
    if isinstance(value, np.ndarray):
        digest.update(f"{value.dtype.str}{value.shape}".encode())
        digest.update(np.ascontiguousarray(value).tobytes())
    elif isinstance(value, Mapping):
        for key in sorted(value.keys() - set(DERIVED)):
            digest.update(str(key).encode())
            _feed(digest, value[key])
    elif isinstance(value, list | tuple):
        digest.update(b"[")
        for part in value:
            _feed(digest, part)
    else:
        digest.update(json.dumps(value if not isinstance(value, np.generic) else value.item()).encode())


def place_of(decision: Decision, id: str) -> Place:
    """A chosen action as it is logged."""
    said = decision.to_dict()
    return Place(
        id=id,
        row=int(decision.action),
        p=min(1.0, float(decision.propensity)),
        point=said["context"],
        mean=_finite(said["mean"]),
        width=_finite(said["width"]),
        score=_finite(said["score"]),
        stage=None if decision.stage is None else int(decision.stage),
        memo=said["memo"],
    )


def _finite(value: float | None) -> float | None:
    return value if value is None or isfinite(value) else None


class Model:
    """One policy version and the rows it has applied.

    Pending decisions are passed to the policy before its next call: of thousands that were made while it was busy, only
    the last `pending_limit` count.
    """

    def __init__(self, name: str, policy: Policy, spec: Experiment, *, seq: int = 0) -> None:
        self.name, self._policy, self.spec = name, policy, spec
        self.seq = seq
        """Last row of the log that was applied."""
        self.n_skipped = 0
        """Rows that the policy rejected, such as rewards for actions of another kind."""
        self.pending_limit = spec.pending_limit
        self._pending: dict[str, Decision] = dict(policy.pending)  # those that count, in order
        self._expected = dict(self._pending)  # those that the policy knows of

    @property
    def policy(self) -> Policy:
        """The policy, which knows of every pending decision that counts. Only for the thread that applies rows."""
        if self._expected.keys() != self._pending.keys():
            for name in [*self._expected.keys() - self._pending.keys()]:
                self._try(self._policy.withdraw, self._expected.pop(name))
            for name in [name for name in self._pending if name not in self._expected]:
                if self._try(self._policy.expect, self._pending[name]):
                    self._expected[name] = self._pending[name]
                else:
                    del self._pending[name]
        return self._policy

    # -- choosing ----------------------------------------------------------------------------------------------------

    def choose(
        self, id: str, contexts: Points, *, ids: list[str] | None, eligible: NDArray[np.bool_] | None, k: int
    ) -> list[Decision]:
        """Choose an action or a slate; the draws depend on the seed of the experiment and the id."""
        self.policy.reseed(seed_of(self.spec.seed, id))
        if k == 1:
            return [self.policy.choose(contexts, ids=ids, eligible=eligible)]
        return list(self.policy.choose(contexts, ids=ids, eligible=eligible, k=k))

    def candidates(self, contexts: Points, ids: list[str], eligible: NDArray[np.bool_] | None) -> list[Ranked]:
        """Mean, width and probability of every eligible action, by descending score."""
        shares = self.policy.probabilities(contexts, ids=ids, eligible=eligible)
        inner = self.inner
        posterior, exploration = getattr(inner, "posterior", None), getattr(inner, "exploration", None)
        means = widths = [None] * len(ids)
        if posterior is not None and not isinstance(contexts, Pairs):
            prediction = posterior.predict(contexts)
            means, widths = prediction.mean.tolist(), prediction.width.tolist()
        factor = getattr(exploration, "value", None)
        found = []
        for row, id in enumerate(ids):
            if eligible is not None and not eligible[row]:
                continue
            mean, width = means[row], widths[row]
            score = None if mean is None or width is None or factor is None else mean + factor * width
            found.append(Ranked(id, mean, width, score, float(shares[row])))
        return sorted(found, key=lambda one: -(one.score if one.score is not None else one.p))

    @property
    def inner(self) -> Policy:
        """The policy without its wrappers."""
        policy = self.policy
        while isinstance(getattr(policy, "policy", None), Policy):
            policy = policy.policy  # type: ignore[attr-defined]
        return policy

    # -- the fold ----------------------------------------------------------------------------------------------------

    def decided(self, id: str, body: DecisionBody) -> None:
        """Count a new decision as pending."""
        if body.status == "open":
            self.expect(id, body)

    def expect(self, id: str, body: DecisionBody) -> None:
        """Count the places of a decision as pending; the oldest pending ones no longer count beyond the limit."""
        if not self.pending_limit:
            return
        for place in range(len(body.places)):
            name = _place_id(id, place)
            if name not in self._pending:
                self._pending[name] = self.decision_of(id, body, place)
        while len(self._pending) > self.pending_limit:
            del self._pending[next(iter(self._pending))]

    def withdraw(self, id: str, n_places: int) -> None:
        """Stop counting a decision as pending."""
        for place in range(n_places):
            self._pending.pop(_place_id(id, place), None)

    def learn(self, body: LearnBody, find: Callable[[str], DecisionBody | None]) -> None:
        """Apply a `learn` row; `find` returns the bodies of decisions, or None for one that was erased."""
        decisions: list[Decision] = []
        values: list[float] = []
        for id, place, value in body.learn:
            known = find(id)
            if known is not None and self._learns_from(known):
                decisions.append(self.decision_of(id, known, place))
                values.append(value)
        learned, policy = decisions, self._policy  # which need not hear that a decision is pending to learn it
        if decisions and not self._try(policy.learn_many, decisions, values):
            pairs = zip(decisions, values, strict=True)
            learned = [decision for decision, value in pairs if self._try(policy.learn, decision, value)]
        for decision in decisions:
            self._pending.pop(decision.id, None)
        for decision in learned:
            self._expected.pop(decision.id, None)
        for id, place, was, now in body.amend:
            self._correct(find(id), id, place, was, now)
        for id, place, was in body.unlearn:
            self._correct(find(id), id, place, was, None)

    def _correct(self, known: DecisionBody | None, id: str, place: int, was: float, now: float | None) -> None:
        if known is None or not self._learns_from(known):
            return
        decision = self.decision_of(id, known, place)
        try:
            self._amend(decision, was, now)
        except NotLearnt:  # learned before the last decisions that the policy remembers
            self._try(self._amend, replace(decision, id=""), was, now)
        except KernelBanditError:
            self.n_skipped += 1

    def _amend(self, decision: Decision, was: float, now: float | None) -> None:
        if now is None:
            self._policy.unlearn(decision, was)
        else:
            self._policy.amend(decision, was=was, now=now)

    def _learns_from(self, body: DecisionBody) -> bool:
        """Whether the update is defined for the decision: the version's own, or of a policy that learns from any."""
        return self.policy.learns_from_any_action or (body.mode == "policy" and body.policy == self.name)

    def decision_of(self, id: str, body: DecisionBody, place: int) -> Decision:
        """The decision of one place. One of another version, or of none, has no memo and no stage."""
        chosen = body.places[place]
        is_own = body.mode == "policy" and body.policy == self.name
        return Decision.from_dict(
            {
                "action": chosen.row,
                "context": chosen.point,
                "mean": chosen.mean,
                "width": chosen.width,
                "score": chosen.score,
                "propensity": chosen.p,
                "stage": chosen.stage if is_own else None,
                "item": chosen.id,
                "n_actions": body.n_actions,
                "round_index": 0,
                "id": _place_id(id, place),
                "memo": chosen.memo if is_own else {},
            }
        )

    def add_similarities(self, block: Block) -> None:
        """Extend the similarity table of the kernel, if it has one."""
        if isinstance(self.policy.kernel, Precomputed):
            self._try(extend_table, self.policy.kernel.table, block)

    def _try(self, call: Callable[..., Any], *arguments: Any) -> bool:
        """Call the policy; count an event that it rejects, which leaves it unchanged."""
        try:
            call(*arguments)
        except MemoryError:
            raise
        except Exception:  # a row that one run rejects is rejected by every replay, so it must not end the service
            self.n_skipped += 1
            return False
        return True

    @property
    def pending(self) -> int:
        """Number of pending places that count."""
        return len(self._pending)

    @property
    def n_learned(self) -> int:
        """Number of rewards that were learned."""
        return self._policy.round_index - 1 - len(self._policy.pending)

    # -- files -------------------------------------------------------------------------------------------------------

    def save(self, path: Path) -> None:
        """Write the policy to a file."""
        self.policy.save(path)

    @classmethod
    def load(cls, path: Path, name: str, spec: Experiment, *, seq: int) -> Model:
        """Read a policy from a file."""
        return cls(name, load(path), spec, seq=seq)

    @property
    def record(self) -> str:
        """Digest of the learned record."""
        return record_digest(self.policy)


def _place_id(id: str, place: int) -> str:
    return id if not place else f"{id}/{place}"


def plain_point(action: Action, context: Any) -> Any:
    """One action as it is logged."""
    points = points_of([action], context)
    if isinstance(points, Pairs):
        return Decision(action=0, context=Pairs(points.context, points.actions[0])).to_dict()["context"]
    return Decision(action=0, context=points[0]).to_dict()["context"]


def table_of(policy: Policy) -> SimilarityTable:
    """The similarity table of a policy's kernel."""
    kernel = policy.kernel
    if not isinstance(kernel, Precomputed):
        raise Problem("wrong-state", f"The kernel of this experiment is no similarity table: {short_repr(kernel)}.")
    return kernel.table


def extend_table(table: SimilarityTable, block: Block) -> RepairReport | None:
    """Add a block of new items to a table; return the report of a repair."""
    return table.add(
        block.ids, to_known=_matrix(block.to_known, "to_known"), among_new=_matrix(block.among_new, "among_new")
    )


def _matrix(rows: list[list[float]], name: str) -> NDArray[np.float64]:
    if len({len(row) for row in rows}) != 1:
        raise Problem("invalid", f"{name} is a matrix: its rows have the same length.", pointer=f"/{name}")
    return np.array(rows, dtype=np.float64)


class Fold:
    """Applies rows of the log to a model, in the order in which the service applied them.

    `decided` is called with each decision of a policy when the model is in the state in which it was made.
    """

    def __init__(
        self,
        model: Model,
        find: Callable[[str], DecisionBody | None],
        *,
        decided: Callable[[Row, DecisionBody], None] | None = None,
    ) -> None:
        self.model, self._find, self._decided = model, find, decided
        self._held: deque[tuple[Row, Any]] = deque()

    def feed(self, row: Row) -> None:
        """Take the next row."""
        if row.type not in MODEL_ROWS or row.body is None:
            return
        body = decode_body(row)
        if row.type == "decision" and body.mode != "fallback":
            self.flush(body.policy_seq)
            if self._decided is not None:
                self._decided(row, body)
            self.model.decided(row.id, body)
            self.model.seq = max(self.model.seq, row.seq)
        else:
            self._held.append((row, body))

    def flush(self, upto: int | None = None) -> None:
        """Apply the rows that are held back, up to a row or all."""
        while self._held and (upto is None or self._held[0][0].seq <= upto):
            apply_row(self.model, *self._held.popleft(), self._find)


def apply_row(model: Model, row: Row, body: Any, find: Callable[[str], DecisionBody | None]) -> None:
    """Apply one committed row to a model."""
    match row.type:
        case "decision":
            model.decided(row.id, body)
        case "activated":
            known = find(row.id)
            if known is not None:
                model.expect(row.id, known)
        case "closed":
            assert isinstance(body, ClosedBody)
            for id in body.decisions:
                known = find(id)
                if known is not None:
                    model.withdraw(id, len(known.places))
        case "learn":
            model.learn(body, find)
        case "similarities":
            model.add_similarities(body)
        case "settings":
            model.pending_limit = body.get("pending_limit", model.pending_limit)
    model.seq = max(model.seq, row.seq)
