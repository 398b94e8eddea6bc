"""Decisions of a policy: ids, which are learnt or pending, remembered rewards, and validation of rewards."""

from __future__ import annotations

import os
import re
import secrets
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from hashlib import blake2b
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
from kernelbandits.posterior.base import checked_rewards
from kernelbandits.types import Decision, ItemId, Matrix, Vector, check_decision
from kernelbandits.validation import a_range, shown, unrolled

__all__ = ["IdIssuer", "LearntIds", "Ledger", "Rewards", "digest_of_choice", "is_issued", "process"]

ISSUED: Final = re.compile(r"([0-9a-f]{16})-(0|[1-9][0-9]{0,15})")
PAGE: Final = 1 << 15
"""Ids of one issuer that share a bitmap: 4 kB."""
MOST_PAGES: Final = 4096
"""134 million decisions of one policy."""

Place: TypeAlias = tuple[tuple[str, int], int, int]  # page, byte and bit


class _Process:
    """Tells a forked process from its parent without asking the system each time."""

    def __init__(self) -> None:
        self.number = 1
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        self.number += 1


process: Final = _Process()


class IdIssuer:
    """Unique ids: a random name for this policy in this process, and a running number.

    Ids never enter results, so a run stays reproducible. A copy of a policy, in this process or in a forked one, finds
    that it is not the one the name was drawn for and draws its own.
    """

    def __init__(self) -> None:
        self._process = 0
        self._name = ""
        self._count = 0

    def __reduce__(self) -> tuple[type[IdIssuer], tuple[()]]:
        """A copy begins with a name of its own."""
        return IdIssuer, ()

    def next(self) -> str:
        """A name that no other decision has."""
        if self._process != process.number:
            self._process, self._name, self._count = process.number, secrets.token_hex(8), 0
        self._count += 1
        return f"{self._name}-{self._count}"


class LearntIds:
    """A set of issued ids at one bit each, in pages of 32,768; the oldest page is dropped when there are 4,096 of them.

    Memory is at most 16 MB. An id that a caller chose is not kept here.
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
        """Remember an issued id."""
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
        """Forget an id."""
        place = _place(name)
        if place is None:
            return
        page, byte, bit = place
        if page in self._pages:
            self._pages[page][byte] &= ~bit

    def state(self) -> dict[str, NDArray[Any]]:
        """Arrays that `restore` needs, the same for the same set."""
        pages = sorted(page for page, bits in self._pages.items() if any(bits))
        return {
            "bits": np.frombuffer(b"".join(bytes(self._pages[page]) for page in pages), dtype=np.uint8),
            "numbers": np.array([number for _, number in pages], dtype=np.int64),
            **{f"names.{key}": array for key, array in pack_strings([name for name, _ in pages]).items()},
        }

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Take over a saved set."""
        names = unpack_strings(below("names.", state))
        bits = saved_array(state, "bits", "u", (len(names) * (PAGE // 8),)).reshape(len(names), PAGE // 8)
        numbers = saved_array(state, "numbers", "i", (len(names),), least=0)
        self._pages = {
            (name, number): bytearray(row.tobytes())
            for name, number, row in zip(names, numbers.tolist(), bits, strict=True)
        }


def _place(name: str) -> Place | None:
    """Page, byte and bit of an issued id; None for one that a user chose."""
    issued = ISSUED.fullmatch(name)
    if issued is None:
        return None
    page, within = divmod(int(issued[2]), PAGE)
    return (issued[1], page), within >> 3, 1 << (within & 7)


def is_issued(id: str) -> bool:
    """Whether an id has the form of those that policies issue."""
    return ISSUED.fullmatch(id) is not None


def digest_of_choice(action: int, item: ItemId | None, stage: int | None, key: Hashable) -> int:
    """A number that two decisions share if they chose the same: equal keys, the same action, item and stage."""
    text = repr((int(action), str(item), stage)) + _plain(key)
    return int.from_bytes(blake2b(text.encode(errors="surrogatepass"), digest_size=7).digest(), "little")


def _plain(key: Hashable) -> str:
    """The key of a point as text, the same in every process; of objects of the user's only that they are some."""
    if isinstance(key, tuple):
        return f"({','.join(map(_plain, key))})"
    if isinstance(key, frozenset):
        return f"{{{','.join(sorted(map(_plain, key)))}}}"
    return repr(key) if isinstance(key, bytes | str | int | float) else type(key).__name__


REMEMBER: Final = 100_000
"""Learnt decisions whose rewards are remembered: about 20 MB, and 40 MB at most."""

MOST_LEARNT: Final = 2**40
"""Decisions in a file: at a million per second they take twelve days."""

UNKNOWN: Final = np.iinfo(np.int64).min
"""Stands in files for an observation that has no number."""


MOST_FORMER: Final = 1_000
"""Former fingerprints that are kept: a policy whose parameters are assigned more often forgets the oldest."""

Remembered: TypeAlias = tuple[float, int | None, int | None]
"""What was learnt from a decision: the reward, the number of the observation where the posterior numbers them, and the
digest of the action (`digest_of_choice`) where the caller chose the id."""


class Ledger:
    """Gives decisions their ids, and admits each to be learnt once.

    `fingerprint` is that of the policy that keeps the ledger; a decision with another one is foreign.

    The rewards of at least the last `remember` learnt decisions are kept, so that a repeated correction is harmless.
    Ids that callers chose are known as learnt for as long; ids that were issued here, for longer (`LearntIds`).
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self.n_learnt = 0
        self.learnt = LearntIds()
        self.remember = REMEMBER
        self.recent: dict[str, Remembered] = {}
        """Of the decisions learnt last; a full one becomes `older`, so that up to 2 · `remember` are kept."""
        self.older: dict[str, Remembered] = {}
        self.configuration = 0
        """Grows when a parameter of the policy, or of one that it wraps, is assigned. It is never put back."""
        self.former: dict[str, None] = {}
        """Fingerprints that the policy had before a parameter was assigned; its decisions from then are its own."""
        self.pending: dict[str, Decision] = {}
        """Decisions expected and not yet learnt, by id."""
        self._n_pending: dict[Any, int] | None = None  # how many there are of each key; None: to be counted
        self._issuer = IdIssuer()
        self.latest: Decision | None = None
        """The decision made last under an id of ours, while it is not learnt: it is not checked again."""

    @property
    def round_index(self) -> int:
        """1 + decisions learnt + decisions pending."""
        return 1 + self.n_learnt + len(self.pending)

    # -- ids ---------------------------------------------------------------------------------------------------------

    def new_id(self) -> str:
        """An id that no other decision has."""
        self.latest = None
        return self._issuer.next()

    def check_free(self, id: str) -> None:
        """Refuse an id that a caller chose and that cannot be given."""
        if not isinstance(id, str) or not id:
            raise InvalidParameter(f"A decision's id has to be a string that is not empty, got {shown(id)}.")
        if self.is_learnt(id) or id in self.pending:
            raise AlreadyLearnt(f"A decision {id!r} was learnt or is awaited already; ids are used once.")

    def is_learnt(self, id: str) -> bool:
        """Whether a decision of this id was learnt."""
        return id in self.recent or id in self.older or id in self.learnt

    def remembered(self, id: str) -> Remembered | None:
        """What was learnt from a decision, where that is remembered."""
        return self.recent.get(id) or self.older.get(id)

    # -- checks ------------------------------------------------------------------------------------------------------

    def admit(self, decision: Decision, fingerprint: str) -> None:
        """Refuse what is not a decision of such a policy, or was learnt."""
        self.require_own(decision, fingerprint)
        if decision.id and self.is_learnt(decision.id):
            raise AlreadyLearnt(
                f"The reward of decision {decision.id!r} was learnt before. Correct it: amend(decision, now=…)."
            )

    def admit_all(self, decisions: Sequence[Decision], fingerprint: str) -> tuple[Decision, ...]:
        """Likewise many, and none of them twice."""
        if isinstance(decisions, Decision):
            raise DecisionError("Several decisions are needed, got a single one. For one: learn(decision, reward).")
        try:
            listed = tuple(unrolled(decisions))
        except TypeError as error:
            raise DecisionError(f"A sequence of decisions is needed, got {type(decisions).__name__}.") from error
        ids: set[str] = set()
        for decision in listed:
            self.admit(decision, fingerprint)
            if decision.id in ids:
                raise AlreadyLearnt(f"Decision {decision.id!r} is among these twice; a reward is learnt once.")
            if decision.id:
                ids.add(decision.id)
        return listed

    def require_own(self, decision: Decision, fingerprint: str) -> None:
        """Refuse what is not a decision of such a policy."""
        check_decision(decision)
        if decision.policy and decision.policy != fingerprint and decision.policy not in self.former:
            raise ForeignDecision(
                f"Decision {decision.id!r} was made by a policy with other parameters (fingerprint {decision.policy}, "
                f"this one is {fingerprint}). To learn from it all the same: warm_start(contexts, rewards)."
            )

    def require_learnt(self, decision: Decision, claimed: float | None, mark: int | None) -> tuple[float, int | None]:
        """Reward and number of an own decision: as remembered, or else as the caller claims; or NotLearnt."""
        remembered = self.remembered(decision.id)
        if remembered is not None:
            reward, number, learnt_mark = remembered
            if learnt_mark != mark:
                raise NotLearnt(
                    f"Another decision was learnt under the id {decision.id!r}: it has another context or action. This "
                    "one was never learnt, so there is nothing to correct or take back."
                )
            return reward, number
        if decision.id and decision.id not in self.learnt:
            raise NotLearnt(
                f"Decision {decision.id!r} was never learnt, so there is nothing to correct or take back; or it has an "
                f"id of yours and was learnt longer ago than the last {self.remember} decisions, which are remembered."
            )
        if not self.n_learnt:
            raise NotLearnt("No decision has been learnt, so there is nothing to correct or take back.")
        if claimed is None:
            raise NotLearnt(
                f"The reward of decision {decision.id!r} is not remembered: a policy remembers those of the last "
                f"{self.remember} decisions with an id. Say which reward was learnt."
            )
        return claimed, None

    def check_may_wait(self, decision: Decision) -> None:
        """Refuse to await what cannot be identified, or is awaited already."""
        if not decision.id:
            raise DecisionError("A decision without an id cannot be awaited: nothing would say whose reward has come.")
        if decision.id in self.pending:
            raise DecisionError(f"Decision {decision.id!r} is awaited already. Learn its reward, or withdraw it.")

    # -- changes -----------------------------------------------------------------------------------------------------

    def expect(self, decision: Decision) -> None:
        """Await its reward."""
        self._journal.note(self.pending.pop, decision.id, None)
        self.pending[decision.id] = decision

    def withdraw(self, decision: Decision) -> Decision:
        """Await it no longer; gives the decision as it was awaited."""
        if decision.id not in self.pending:
            raise DecisionError(f"Decision {decision.id!r} is not awaited, so it cannot be withdrawn.")
        awaited = self.pending[decision.id]
        self._journal.note(self.pending.setdefault, decision.id, awaited)
        del self.pending[decision.id]
        return awaited

    def pending_counts(self, key: Callable[[Decision], Hashable]) -> Mapping[Any, int]:
        """How many decisions are pending of each key.

        They are counted at the first call, and then kept by `count_pending`, which has to be told of every change.
        """
        if self._n_pending is None:
            counts = dict(Counter(map(key, self.pending.values())))
            self._journal.note(setattr, self, "_n_pending", None)  # what is pending may be put back, too
            self._n_pending = counts
        return self._n_pending

    def is_pending(self, id: str, stage: int | None) -> bool:
        """Whether a decision of this id is pending, with this stage."""
        return id in self.pending and self.pending[id].stage == stage

    def count_pending(self, key: Hashable, change: int) -> None:
        """A decision of this key is pending (change 1), or not any more (−1)."""
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

    def settle(self, decision: Decision, reward: float, number: int | None, mark: int | None) -> Decision | None:
        """It was learnt; gives the decision as it was awaited, if it was."""
        name = decision.id
        awaited = self.pending.get(name) if self.pending else None
        if len(self.recent) >= self.remember > 0:
            self._make_room()
        self._journal.notes.append((self._unsettle, (self.n_learnt, name, awaited)))
        self.n_learnt += 1
        if name and self.remember:
            self.recent[name] = (reward, number, mark)
        elif name:
            self.learnt.add(name)
        self.latest = None
        if awaited is not None:
            del self.pending[name]
        return awaited

    def _make_room(self) -> None:
        """Forget the rewards that were learnt longest ago, and not that these decisions were learnt."""
        self._journal.note(vars(self).update, {"recent": self.recent, "older": self.older})
        for name in self.older:
            self.learnt.add(name)
        self.older = self.recent
        self.recent = {}

    def _unsettle(self, n_learnt: int, id: str, awaited: Decision | None) -> None:
        self.n_learnt = n_learnt
        if self.remember:
            self.recent.pop(id, None)
        else:
            self.learnt.discard(id)
        if awaited is not None:
            self.pending.setdefault(id, awaited)

    def add_former(self, fingerprint: str) -> None:
        """Own decisions of this fingerprint from now on, as long as it is among the last 1,000 added."""
        while len(self.former) >= MOST_FORMER:
            del self.former[next(iter(self.former))]
        self.former[fingerprint] = None

    def count(self, n_decisions: int) -> None:
        """Decisions without an id were learnt."""
        self._journal.note(setattr, self, "n_learnt", self.n_learnt)
        self.n_learnt += n_decisions

    def correct(self, decision: Decision, reward: float) -> None:
        """A remembered reward is another one."""
        before = self.remembered(decision.id)
        if before is not None:
            kept = self.recent if decision.id in self.recent else self.older
            self._journal.note(kept.update, {decision.id: before})
            kept[decision.id] = (reward, *before[1:])

    def take_back(self, decision: Decision) -> None:
        """It may be learnt again."""
        name = decision.id
        kept = self.recent if name in self.recent else self.older
        self._journal.note(self._untake, self.n_learnt, name, kept, kept.get(name))
        self.learnt.discard(name)
        kept.pop(name, None)
        self.n_learnt -= 1

    def _untake(self, n_learnt: int, id: str, kept: dict[str, Remembered], before: Remembered | None) -> None:
        self.n_learnt = n_learnt
        if before is not None:
            kept[id] = before
        else:
            self.learnt.add(id)

    def set_remember(self, n_decisions: int) -> None:
        """Remember the rewards of at least this many decisions from now on, and of at most twice as many."""
        known = [*self.older.items(), *self.recent.items()]
        split = max(0, len(known) - n_decisions)
        recent = dict(known[split:])
        for name, _ in known[:split]:
            self.learnt.add(name)
        self._journal.note(vars(self).update, {name: vars(self)[name] for name in ("remember", "recent", "older")})
        self.remember, self.recent, self.older = n_decisions, recent, {}

    # -- files -------------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Plain values and arrays that `restore` needs."""
        known = {**self.older, **self.recent}
        numbers, marks = (
            [UNKNOWN if entry[place] is None else entry[place] for entry in known.values()] for place in (1, 2)
        )
        return {
            "n_learnt": self.n_learnt,
            "learnt": self.learnt.state(),
            "remember": self.remember,
            "rewards": {
                **pack_strings(list(known)),
                "rewards": np.array([reward for reward, _, _ in known.values()], dtype=np.float64),
                "numbers": np.array(numbers, dtype=np.int64),
                "marks": np.array(marks, dtype=np.int64),
            },
            "former": list(self.former),
            "pending": [decision.to_dict() for decision in self.pending.values()],
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what was saved, or DamagedFile."""
        saved = saved_part(state, "rewards")
        ids = unpack_strings({key: saved_value(saved, key) for key in ("text", "ends")})
        rewards = saved_array(saved, "rewards", "f", (len(ids),)).tolist()
        numbers = saved_array(saved, "numbers", "i", (len(ids),)).tolist()
        marks = saved_array(saved, "marks", "i", (len(ids),)).tolist()
        self.n_learnt = saved_count(state, "n_learnt", most=MOST_LEARNT)
        self.remember = saved_count(state, "remember", most=MOST_LEARNT)
        self.learnt.restore(saved_part(state, "learnt"))
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
        self.pending, self._n_pending = {}, None
        for values in saved_value(state, "pending"):
            decision = Decision.from_dict(values)
            check_decision(decision)
            self.check_may_wait(decision)
            if self.is_learnt(decision.id):
                raise DamagedFile(f"Decision {decision.id!r:.80} in the file is awaited and learnt.")
            self.pending[decision.id] = decision


LARGEST: Final = 1e300
"""Up to here a plain number needs no closer look."""


class Rewards:
    """Checks rewards against a range; None: any finite number will do."""

    def __init__(self, reward_range: tuple[float, float] | None) -> None:
        self.range = None if reward_range is None else a_range(reward_range, "A reward range")
        self._low, self._high = (-LARGEST, LARGEST) if self.range is None else self.range

    def one(self, reward: float) -> float:
        """One reward as a number, or InvalidReward."""
        if type(reward) is float and self._low <= reward <= self._high:
            return reward
        if isinstance(reward, float | int) and self._low <= reward <= self._high:
            return float(reward)
        return float(self.many(reward, 1)[0])

    def many(self, rewards: ArrayLike, n_rewards: int) -> Vector:
        """As many as there have to be, or InvalidReward."""
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
        """A table of rewards, or InvalidReward; one that is fine as it is is not copied."""
        is_usual = rewards.dtype == np.float64 and type(rewards) is np.ndarray and rewards.flags.c_contiguous
        # Fresh memory is dear: the sum of squares, the least and the largest need none.
        is_finite = is_usual and rewards.size > 0 and isfinite(np.vdot(rewards, rewards))
        if is_finite and self._low <= rewards.min() and rewards.max() <= self._high:
            return rewards
        return self.many(rewards.reshape(-1), rewards.size).reshape(rewards.shape)

    @property
    def span(self) -> float:
        """Length of the declared range."""
        return self._high - self._low

    def unit(self, reward: float) -> float:
        """A reward of the declared range as a share of it, from 0 to 1."""
        return (reward - self._low) / self.span

    def from_unit(self, share: float) -> float:
        """Inverse of `unit`."""
        return self._low + share * self.span

    def unit_change(self, change: float) -> float:
        """A difference of two rewards as a share of the declared range."""
        return change / self.span
