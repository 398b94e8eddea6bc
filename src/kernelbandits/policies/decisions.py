"""Decisions of a policy: ids, learned and pending decisions, stored rewards, and validation of rewards."""

from __future__ import annotations

import os
import re
import secrets
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from hashlib import blake2b
from heapq import heapify, heappop, heappush
from math import isfinite
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelbandits._saved_state import below, saved_array, saved_count, saved_part, saved_value
from kernelbandits._transactions import Journal
from kernelbandits.errors import (
    AlreadyLearnt,
    DamagedFile,
    DecisionError,
    ForeignDecision,
    InvalidParameter,
    InvalidReward,
    NotLearnt,
)
from kernelbandits.kernels.sequences import pack_strings, unpack_strings
from kernelbandits.policies.events import Listeners
from kernelbandits.posterior.base import checked_rewards
from kernelbandits.types import Decision, ItemId, Matrix, Vector, check_decision
from kernelbandits.validation import as_list, check_range, is_number, short_repr

__all__ = ["IdIssuer", "LearnedIds", "Ledger", "Rewards", "digest_of_choice", "is_issued", "process"]

ISSUED: Final = re.compile(r"([0-9a-f]{16})-(0|[1-9][0-9]{0,15})")
PAGE: Final = 1 << 15
"""Number of ids of one issuer per bitmap: 4 kB."""
MOST_PAGES: Final = 4096
"""Largest number of bitmaps: 134 million decisions of one policy."""

Place: TypeAlias = tuple[tuple[str, int], int, int]  # page, byte and bit


class _Process:
    """Process identity: distinguishes a forked process from its parent without a system call."""

    def __init__(self) -> None:
        self.number = 1
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        self.number += 1


process: Final = _Process()


class IdIssuer:
    """Issuer of unique ids: a random prefix for this policy in this process, and a running number.

    Ids do not affect results, so a run stays reproducible. A copy of a policy, in this process or in a forked one,
    detects that the prefix was not drawn for it and draws its own.
    """

    def __init__(self) -> None:
        self._process = 0
        self._name = ""
        self._count = 0

    def __reduce__(self) -> tuple[type[IdIssuer], tuple[()]]:
        """Copy without the prefix: a copy draws its own."""
        return IdIssuer, ()

    def next(self) -> str:
        """Return an id that no other decision has."""
        if self._process != process.number:
            self._process, self._name, self._count = process.number, secrets.token_hex(8), 0
        self._count += 1
        return f"{self._name}-{self._count}"


class LearnedIds:
    """Set of issued ids at one bit each, in pages of 32,768; the oldest page is dropped when there are 4,096 pages.

    Memory is at most 16 MB. Ids chosen by a caller are not stored here.
    """

    def __init__(self) -> None:
        self._pages: dict[tuple[str, int], bytearray] = {}

    def __contains__(self, name: str) -> bool:
        place = _place(name)
        if place is None:
            return False
        page, byte, bit = place
        bits = self._pages.get(page)
        return bits is not None and bool(bits[byte] & bit)

    def add(self, name: str) -> None:
        """Add an issued id."""
        place = _place(name)
        if place is None:
            return
        page, byte, bit = place
        bits = self._pages.get(page)
        if bits is None:
            if len(self._pages) >= MOST_PAGES:
                del self._pages[next(iter(self._pages))]
            bits = self._pages[page] = bytearray(PAGE // 8)
        bits[byte] |= bit

    def discard(self, name: str) -> None:
        """Remove an id."""
        place = _place(name)
        if place is None:
            return
        page, byte, bit = place
        if page in self._pages:
            self._pages[page][byte] &= ~bit

    def state(self) -> dict[str, NDArray[Any]]:
        """Return arrays for `restore`, equal for equal sets."""
        pages = sorted(page for page, bits in self._pages.items() if any(bits))
        return {
            "bits": np.frombuffer(b"".join(bytes(self._pages[page]) for page in pages), dtype=np.uint8),
            "numbers": np.array([number for _, number in pages], dtype=np.int64),
            **{f"names.{key}": array for key, array in pack_strings([name for name, _ in pages]).items()},
        }

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Restore a saved set."""
        names = unpack_strings(below("names.", state))
        bits = saved_array(state, "bits", "u", (len(names) * (PAGE // 8),)).reshape(len(names), PAGE // 8)
        numbers = saved_array(state, "numbers", "i", (len(names),), least=0)
        self._pages = {
            (name, number): bytearray(row.tobytes())
            for name, number, row in zip(names, numbers.tolist(), bits, strict=True)
        }


def _place(name: str) -> Place | None:
    """Return page, byte and bit of an issued id; None for an id chosen by the caller."""
    issued = ISSUED.fullmatch(name)
    if issued is None:
        return None
    page, within = divmod(int(issued[2]), PAGE)
    return (issued[1], page), within >> 3, 1 << (within & 7)


def is_issued(id: str) -> bool:
    """Whether an id has the form of ids issued by policies."""
    return ISSUED.fullmatch(id) is not None


def digest_of_choice(action: int, item: ItemId | None, stage: int | None, key: Hashable) -> int:
    """Return a digest that is equal for equal choices: equal keys, and the same action, item and stage."""
    text = repr((int(action), str(item), stage)) + _plain(key)
    return int.from_bytes(blake2b(text.encode(errors="surrogatepass"), digest_size=7).digest(), "little")


def _plain(key: Hashable) -> str:
    """Return the key of a point as text, equal in every process; user-defined objects are not distinguished."""
    if isinstance(key, tuple):
        return f"({','.join(map(_plain, key))})"
    if isinstance(key, frozenset):
        return f"{{{','.join(sorted(map(_plain, key)))}}}"
    return repr(key) if isinstance(key, bytes | str | int | float) else type(key).__name__


REMEMBER: Final = 100_000
"""Default number of learned decisions whose rewards are stored: about 20 MB, and 40 MB at most."""

MOST_LEARNED: Final = 2**40
"""Largest number of decisions in a file: at a million per second they take twelve days."""

UNKNOWN: Final = np.iinfo(np.int64).min
"""Value in files for an observation that has no number."""


MOST_FORMER: Final = 1_000
"""Largest number of stored former fingerprints; if parameters are assigned more often, the oldest are dropped."""

Remembered: TypeAlias = tuple[float, int | None, int | None]
"""Record of a learned decision: reward, observation number and digest of the action.

The number is None unless the posterior numbers observations; the digest (`digest_of_choice`) is None unless the caller
chose the id.
"""


class Ledger:
    """Ledger of decisions: issues ids, and ensures that each decision is learned at most once.

    `fingerprint` is that of the policy that owns the ledger; a decision with another one is foreign.

    The rewards of at least the last `remember` learned decisions are stored, so that corrections are idempotent. Ids
    chosen by callers are known as learned for as long; issued ids, for longer (`LearnedIds`).
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self.n_learned = 0
        self.learned = LearnedIds()
        self.remember = REMEMBER
        self.recent: dict[str, Remembered] = {}
        """Records of the decisions learned last. A full one becomes `older`, so up to 2 · `remember` are stored."""
        self.older: dict[str, Remembered] = {}
        self.configuration = 0
        """Counter of parameter assignments in the policy and the policies it wraps. Never rolled back."""
        self.former: dict[str, None] = {}
        """Fingerprints of the policy before a parameter was assigned; decisions with them are still its own."""
        self.pending: dict[str, Decision] = {}
        """Decisions expected and not yet learned, by id."""
        self.expires: dict[str, float] = {}
        """Times at which pending decisions expire, by id; the others never do."""
        self._next_to_expire: list[tuple[float, str]] | None = None  # heap, with stale entries; None: to be computed
        self.listeners = Listeners()
        self._n_pending: dict[Any, int] | None = None  # number of pending decisions per key; None: to be counted
        self.issuer = IdIssuer()
        """Issuer of ids for new decisions."""
        self.latest: Decision | None = None
        """The last decision made under an issued id, until it is learned: it is not validated again."""

    @property
    def round_index(self) -> int:
        """1 + decisions learned + decisions pending."""
        return 1 + self.n_learned + len(self.pending)

    # -- ids ---------------------------------------------------------------------------------------------------------

    def new_id(self) -> str:
        """Return an id that no other decision has."""
        self.latest = None
        return self.issuer.next()

    def check_free(self, id: str) -> None:
        """Reject an id chosen by the caller that is not available."""
        if not isinstance(id, str) or not id:
            raise InvalidParameter(f"A decision's id must be a string that is not empty, got {short_repr(id)}.")
        if self.is_learned(id) or id in self.pending:
            raise AlreadyLearnt(f"A decision {id!r} was learned or is pending already; ids are used once.")

    def is_learned(self, id: str) -> bool:
        """Whether a decision with this id was learned."""
        return id in self.recent or id in self.older or id in self.learned

    def remembered(self, id: str) -> Remembered | None:
        """Return the record of a learned decision, if it is stored."""
        return self.recent.get(id) or self.older.get(id)

    # -- validation --------------------------------------------------------------------------------------------------

    def validate_learnable(self, decision: Decision, fingerprint: str) -> None:
        """Reject an object that is not a decision of this policy, or was already learned."""
        self.require_own(decision, fingerprint)
        if decision.id and self.is_learned(decision.id):
            raise AlreadyLearnt(
                f"The reward of decision {decision.id!r} was learned before. Correct it: amend(decision, now=…)."
            )

    def validate_all_learnable(self, decisions: Sequence[Decision], fingerprint: str) -> tuple[Decision, ...]:
        """Validate many decisions likewise, and reject duplicates."""
        if isinstance(decisions, Decision):
            raise DecisionError("Several decisions are needed, got a single one. For one: learn(decision, reward).")
        try:
            listed = tuple(as_list(decisions))
        except TypeError as error:
            raise DecisionError(f"A sequence of decisions is needed, got {type(decisions).__name__}.") from error
        ids: set[str] = set()
        for decision in listed:
            self.validate_learnable(decision, fingerprint)
            if decision.id in ids:
                raise AlreadyLearnt(f"Decision {decision.id!r} is among these twice; a reward is learned once.")
            if decision.id:
                ids.add(decision.id)
        return listed

    def require_own(self, decision: Decision, fingerprint: str) -> None:
        """Reject an object that is not a decision of this policy."""
        check_decision(decision)
        if decision.policy and decision.policy != fingerprint and decision.policy not in self.former:
            raise ForeignDecision(
                f"Decision {decision.id!r} was made by a policy with other parameters (fingerprint {decision.policy}, "
                f"this one is {fingerprint}). To learn from it all the same: warm_start(contexts, rewards)."
            )

    def require_learned(self, decision: Decision, claimed: float | None, mark: int | None) -> tuple[float, int | None]:
        """Return reward and number of an own decision, as stored or else as claimed; or raise NotLearnt."""
        remembered = self.remembered(decision.id)
        if remembered is not None:
            reward, number, learned_mark = remembered
            if learned_mark != mark:
                raise NotLearnt(
                    f"Another decision was learned under the id {decision.id!r}: it has another context or action. "
                    "This one was never learned, so there is nothing to amend or unlearn."
                )
            return reward, number
        if decision.id and decision.id not in self.learned:
            raise NotLearnt(
                f"Decision {decision.id!r} was never learned, so there is nothing to amend or unlearn; or it has "
                f"an id of yours and was learned longer ago than the last {self.remember} decisions, which are "
                "remembered."
            )
        if not self.n_learned:
            raise NotLearnt("No decision has been learned, so there is nothing to amend or unlearn.")
        if claimed is None:
            raise NotLearnt(
                f"The reward of decision {decision.id!r} is not remembered: a policy remembers those of the last "
                f"{self.remember} decisions with an id. Say which reward was learned."
            )
        return claimed, None

    def validate_pending(self, decision: Decision) -> None:
        """Reject a decision that cannot be identified, or is already pending."""
        if not decision.id:
            raise DecisionError("A decision without an id cannot be pending: its reward could not be assigned to it.")
        if decision.id in self.pending:
            raise DecisionError(f"Decision {decision.id!r} is pending already. Learn its reward, or withdraw it.")

    # -- changes -----------------------------------------------------------------------------------------------------

    def expect(self, decision: Decision, expires: float | None = None) -> None:
        """Mark the decision as pending, until a time if one is given."""
        self._journal.note(self._remove_pending, decision.id)
        self._add_pending(decision, expires)

    def withdraw(self, decision: Decision) -> Decision:
        """Remove a pending decision and return it as it was stored."""
        if decision.id not in self.pending:
            raise DecisionError(f"Decision {decision.id!r} is not pending, so it cannot be withdrawn.")
        pending = self.pending[decision.id]
        self._journal.note(self._add_pending, pending, self.expires.get(decision.id))
        self._remove_pending(decision.id)
        return pending

    def expired(self, now: float) -> list[Decision]:
        """Return the pending decisions that expire at this time or before, in the order in which they do."""
        if self._next_to_expire is None:
            self._next_to_expire = [(time, name) for name, time in self.expires.items()]
            heapify(self._next_to_expire)
        heap = self._next_to_expire
        found: list[Decision] = []
        if heap and heap[0][0] <= now:
            self._journal.note(setattr, self, "_next_to_expire", None)
        while heap and heap[0][0] <= now:
            time, name = heappop(heap)
            if self.expires.get(name) == time and (not found or found[-1].id != name):
                found.append(self.pending[name])
        return found

    def _add_pending(self, decision: Decision, expires: float | None) -> None:
        self.pending[decision.id] = decision
        if expires is not None:
            self.expires[decision.id] = expires
            if self._next_to_expire is not None:
                heappush(self._next_to_expire, (expires, decision.id))

    def _remove_pending(self, id: str) -> None:
        self.pending.pop(id, None)
        self.expires.pop(id, None)

    def pending_counts(self, key: Callable[[Decision], Hashable]) -> Mapping[Any, int]:
        """Return the number of pending decisions per key.

        They are counted at the first call, and then updated by `count_pending`, which must be called for every change.
        """
        if self._n_pending is None:
            counts = dict(Counter(map(key, self.pending.values())))
            self._journal.note(setattr, self, "_n_pending", None)  # a rollback may restore pending decisions, too
            self._n_pending = counts
        return self._n_pending

    def is_pending(self, id: str, stage: int | None) -> bool:
        """Whether a decision with this id and stage is pending."""
        return id in self.pending and self.pending[id].stage == stage

    def count_pending(self, key: Hashable, change: int) -> None:
        """Update the count after a decision with this key became pending (change 1) or is no longer pending (−1)."""
        if self._n_pending is not None:
            before = self._n_pending.get(key, 0)
            self._journal.note(self._put_count, key, before)
            self._put_count(key, before + change)

    def _put_count(self, key: Hashable, count: int) -> None:
        if self._n_pending is None:
            return
        if count:
            self._n_pending[key] = count
        else:
            self._n_pending.pop(key, None)

    def mark_learned(self, decision: Decision, reward: float, number: int | None, mark: int | None) -> Decision | None:
        """Mark the decision as learned; return the pending decision, if there was one."""
        name = decision.id
        pending = self.pending.get(name) if self.pending else None
        if len(self.recent) >= self.remember > 0:
            self._make_room()
        expires = None if pending is None else self.expires.get(name)
        self._journal.notes.append((self._unmark_learned, (self.n_learned, name, pending, expires)))
        self.n_learned += 1
        if name and self.remember:
            self.recent[name] = (reward, number, mark)
        elif name:
            self.learned.add(name)
        self.latest = None
        if pending is not None:
            self._remove_pending(name)
        return pending

    def _make_room(self) -> None:
        """Drop the oldest stored rewards; their decisions remain marked as learned."""
        self._journal.note(vars(self).update, {"recent": self.recent, "older": self.older})
        for name in self.older:
            self.learned.add(name)
        self.older = self.recent
        self.recent = {}

    def _unmark_learned(self, n_learned: int, id: str, pending: Decision | None, expires: float | None) -> None:
        self.n_learned = n_learned
        if self.remember:
            self.recent.pop(id, None)
        else:
            self.learned.discard(id)
        if pending is not None:
            self._add_pending(pending, expires)

    def add_former(self, fingerprint: str) -> None:
        """Accept decisions with this fingerprint from now on, as long as it is among the last 1,000 added."""
        while len(self.former) >= MOST_FORMER:
            del self.former[next(iter(self.former))]
        self.former[fingerprint] = None

    def count(self, n_decisions: int) -> None:
        """Count decisions that were learned without an id."""
        self._journal.note(setattr, self, "n_learned", self.n_learned)
        self.n_learned += n_decisions

    def correct(self, decision: Decision, reward: float) -> None:
        """Replace a stored reward."""
        before = self.remembered(decision.id)
        if before is not None:
            memory = self.recent if decision.id in self.recent else self.older
            self._journal.note(memory.update, {decision.id: before})
            memory[decision.id] = (reward, *before[1:])

    def mark_unlearned(self, decision: Decision) -> None:
        """Mark the decision as not learned; it may be learned again."""
        name = decision.id
        memory = self.recent if name in self.recent else self.older
        self._journal.note(self._undo_unlearn, self.n_learned, name, memory, memory.get(name))
        self.learned.discard(name)
        memory.pop(name, None)
        self.n_learned -= 1

    def _undo_unlearn(self, n_learned: int, id: str, memory: dict[str, Remembered], before: Remembered | None) -> None:
        self.n_learned = n_learned
        if before is not None:
            memory[id] = before
        else:
            self.learned.add(id)

    def set_remember(self, n_decisions: int) -> None:
        """Set the number of decisions whose rewards are stored: at least this many, at most twice as many."""
        known = [*self.older.items(), *self.recent.items()]
        split = max(0, len(known) - n_decisions)
        recent = dict(known[split:])
        for name, _ in known[:split]:
            self.learned.add(name)
        self._journal.note(vars(self).update, {name: vars(self)[name] for name in ("remember", "recent", "older")})
        self.remember, self.recent, self.older = n_decisions, recent, {}

    # -- serialization -----------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Return plain values and arrays for `restore`."""
        known = {**self.older, **self.recent}
        numbers, marks = (
            [UNKNOWN if entry[place] is None else entry[place] for entry in known.values()] for place in (1, 2)
        )
        return {
            "n_learned": self.n_learned,
            "learned": self.learned.state(),
            "remember": self.remember,
            "rewards": {
                **pack_strings(list(known)),
                "rewards": np.array([reward for reward, _, _ in known.values()], dtype=np.float64),
                "numbers": np.array(numbers, dtype=np.int64),
                "marks": np.array(marks, dtype=np.int64),
            },
            "former": list(self.former),
            "pending": [decision.to_dict() for decision in self.pending.values()],
            "expires": [self.expires.get(name) for name in self.pending],
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a saved state, or raise DamagedFile."""
        saved = saved_part(state, "rewards")
        ids = unpack_strings({key: saved_value(saved, key) for key in ("text", "ends")})
        rewards = saved_array(saved, "rewards", "f", (len(ids),)).tolist()
        numbers = saved_array(saved, "numbers", "i", (len(ids),)).tolist()
        marks = saved_array(saved, "marks", "i", (len(ids),)).tolist()
        self.n_learned = saved_count(state, "n_learned", most=MOST_LEARNED)
        self.remember = saved_count(state, "remember", most=MOST_LEARNED)
        self.learned.restore(saved_part(state, "learned"))
        known = [
            (name, (reward, None if number == UNKNOWN else number, None if mark == UNKNOWN else mark))
            for name, reward, number, mark in zip(ids, rewards, numbers, marks, strict=True)
        ]
        split = max(0, len(known) - self.remember)
        self.older, self.recent = dict(known[:split]), dict(known[split:])
        n_known = len(self.older.keys() | self.recent.keys())
        if "" in ids or not n_known == len(ids) <= 2 * self.remember:
            raise DamagedFile("The file remembers rewards of more decisions than it may, or of one twice.")
        self.former = dict.fromkeys(map(str, saved_value(state, "former")[:MOST_FORMER]))
        self.pending, self.expires, self._n_pending, self._next_to_expire = {}, {}, None, None
        pending, expires = list(saved_value(state, "pending")), list(saved_value(state, "expires"))
        if len(pending) != len(expires) or not all(
            time is None or (is_number(time) and isfinite(time)) for time in expires
        ):
            raise DamagedFile("The file has to hold, for each pending decision, the time at which it expires or none.")
        for values, time in zip(pending, expires, strict=True):
            decision = Decision.from_dict(values)
            check_decision(decision)
            self.validate_pending(decision)
            if self.is_learned(decision.id):
                raise DamagedFile(f"Decision {decision.id!r:.80} in the file is pending and learned.")
            self._add_pending(decision, None if time is None else float(time))


LARGEST: Final = 1e300
"""Largest absolute value that needs no further validation."""


class Rewards:
    """Validation of rewards against a range; None accepts any finite number."""

    def __init__(self, reward_range: tuple[float, float] | None) -> None:
        self.range = None if reward_range is None else check_range(reward_range, "A reward range")
        self._low, self._high = (-LARGEST, LARGEST) if self.range is None else self.range
        self.span = self._high - self._low
        """Length of the declared range."""

    def one(self, reward: float) -> float:
        """Return one reward as a number, or raise InvalidReward."""
        if type(reward) is float and self._low <= reward <= self._high:
            return reward
        if isinstance(reward, float | int) and self._low <= reward <= self._high:
            return float(reward)
        return float(self.many(reward, 1)[0])

    def many(self, rewards: ArrayLike, n_rewards: int) -> Vector:
        """Return exactly `n_rewards` rewards, or raise InvalidReward."""
        values = checked_rewards(rewards, n_rewards)
        if self.range is not None and n_rewards:
            outside = (values < self._low) | (values > self._high)
            if outside.any():
                raise InvalidReward(
                    f"Rewards have to lie in reward_range = [{self._low}, {self._high}], got {values[outside][0]}. "
                    "Rescale them, or declare a wider range."
                )
        return values

    def table(self, rewards: NDArray[Any]) -> Matrix:
        """Return a table of rewards, or raise InvalidReward; a valid float table is not copied."""
        is_usual = rewards.dtype == np.float64 and type(rewards) is np.ndarray and rewards.flags.c_contiguous
        # Allocation is expensive: the sum of squares, the minimum and the maximum need none.
        is_finite = is_usual and rewards.size > 0 and isfinite(np.vdot(rewards, rewards))
        if is_finite and self._low <= rewards.min() and rewards.max() <= self._high:
            return rewards
        return self.many(rewards.reshape(-1), rewards.size).reshape(rewards.shape)

    def unit(self, reward: float) -> float:
        """Scale a reward of the declared range to [0, 1]."""
        return (reward - self._low) / self.span

    def from_unit(self, share: float) -> float:
        """Inverse of `unit`."""
        return self._low + share * self.span

    def unit_change(self, change: float) -> float:
        """Scale a difference of two rewards by the length of the declared range."""
        return change / self.span
