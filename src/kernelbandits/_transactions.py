"""Locks and undo logs: every public call of a model is serialized and atomic.

A call that changes a model first notes how to put back what it is about to change, then changes it, and ends by
clearing the notes. Clearing is one step of the interpreter: it is the commit. Whatever interrupts the call before that
(an error, Ctrl-C, a fork in another thread) leaves notes behind, and they are played back at once, or before the next
call where playing back was interrupted too. Derived state that is changed in place is protected by the same notes.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Mapping
from functools import wraps
from threading import RLock
from types import FunctionType
from typing import Any, Final, Self, TypeVar
from weakref import WeakSet

from kernelbandits.errors import InvalidParameter

__all__ = ["ForkedLock", "Journal", "Transactional", "handles_transaction", "inside_transaction", "transaction"]


class ForkedLock:
    """A reentrant lock that is free in a forked process, whatever the threads of its parent were doing.

    Use it as ``with guard.lock:``, which no signal can interrupt between taking the lock and having to give it back. It
    is reentrant, since a call may be part of another one.
    """

    __slots__ = ("__weakref__", "lock")

    def __init__(self) -> None:
        self.lock: Any = RLock()  # typeshed does not know `_is_owned`
        _guards.add(self)

    def __reduce__(self) -> tuple[type[ForkedLock], tuple[()]]:
        """A copy has a lock of its own."""
        return ForkedLock, ()


_guards: WeakSet[ForkedLock] = WeakSet()


def _begin_in_child() -> None:
    for guard in list(_guards):
        guard.lock = RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_in_child)


BRITISH_TO_AMERICAN: Final = {"regularisation": "regularization", "centres": "centers"}
"""Parameters of models that are often spelled otherwise."""

BRITISH: Final = frozenset(BRITISH_TO_AMERICAN)

Method = TypeVar("Method", bound=Callable[..., Any])


class Journal(ForkedLock):
    """Undo log of one model, shared by a policy, its wrappers and its posteriors.

    A note is a function and its arguments that restore former values. It sets values, and never adds to them, so
    playing notes back a second time after an interrupt is harmless.

    >>> journal, model = Journal(), {"mean": 0.5}
    >>> journal.note(model.update, dict(model))
    >>> model["mean"] = 0.7
    >>> journal.roll_back()
    >>> model
    {'mean': 0.5}
    """

    __slots__ = ("is_snapshot", "notes")

    def __init__(self) -> None:
        super().__init__()
        self.is_snapshot = False
        """Whether its model is a copy that was made to be pickled."""
        self.notes: list[tuple[Callable[..., object], tuple[Any, ...]]] = []

    def __reduce__(self) -> tuple[type[Journal], tuple[()]]:
        """A copy begins with an empty journal, and a lock of its own."""
        return Journal, ()

    def note(self, restore: Callable[..., object], *arguments: Any) -> None:
        """Record how to restore what is about to change."""
        self.notes.append((restore, arguments))

    def drop(self, restore: Callable[..., object]) -> None:
        """Remove the latest note if it is this one."""
        if self.notes and self.notes[-1][0] == restore:
            self.notes.pop()

    def commit(self) -> None:
        """What was changed stays."""
        self.notes.clear()

    def recover(self) -> None:
        """Roll back what a call has left unfinished, if one has."""
        with self.lock:
            if self.notes:
                self.roll_back()

    def roll_back(self) -> None:
        """Put everything back, the latest change first."""
        for restore, arguments in reversed(self.notes):
            restore(*arguments)
        self.notes.clear()


def transaction(method: Callable[..., Any]) -> Callable[..., Any]:
    """Run a method under the lock of its object's journal, wholly or not at all.

    A call inside another one of the same journal, in the same thread, is part of that.
    """

    @wraps(method)
    def call(self: Transactional, *arguments: Any, **options: Any) -> Any:
        journal = self._journal
        if journal.lock._is_owned():
            return method(self, *arguments, **options)
        try:
            with journal.lock:
                if journal.notes:
                    journal.roll_back()
                result = method(self, *arguments, **options)
                journal.notes.clear()
                return result
        except BaseException:
            journal.recover()
            raise

    return call


def handles_transaction(method: Method) -> Method:
    """Mark a public method that does itself what `transaction` does, to save a call on a hot path."""
    method.handles_transaction = True  # type: ignore[attr-defined]
    return method


inside_transaction = handles_transaction
"""Mark a method that other parts of the library call inside a transaction; users have no need for it."""


class Transactional:
    """Base class of models: every public method and property of a subclass is a transaction."""

    _journal: Journal

    def __new__(cls, *_: Any, **options: Any) -> Self:
        if not BRITISH.isdisjoint(options):
            raise _spelled_otherwise(cls, options)
        made = super().__new__(cls)
        made._journal = Journal()  # here, so that a subclass need not call this class's __init__
        return made

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name, member in list(vars(cls).items()):
            if name.startswith("_") or hasattr(member, "handles_transaction"):
                continue
            if isinstance(member, FunctionType):
                setattr(cls, name, transaction(member))
            elif isinstance(member, property) and not hasattr(member.fget, "handles_transaction"):
                getter, setter = (part and transaction(part) for part in (member.fget, member.fset))
                setattr(cls, name, property(getter, setter, doc=member.__doc__))

    # One way to copy a model: copy.copy, copy.deepcopy, pickle and roll-back all come here.

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        journal = self._journal
        is_inside = journal.lock._is_owned()
        with journal.lock:
            if journal.notes and not is_inside:
                journal.roll_back()
            made = type(self).__new__(type(self))
            memo[id(self)] = made
            vars(made).update(copy.deepcopy(vars(self), memo))
            return made

    def __copy__(self) -> Self:
        return copy.deepcopy(self)

    def __getstate__(self) -> dict[str, Any]:
        """Of a copy, all parts of which share one journal: what is pickled does not change while it is written."""
        if self._journal.is_snapshot:
            return vars(self)
        made = copy.deepcopy(self)
        made._journal.is_snapshot = True
        return vars(made)

    def _note_copy(self) -> None:
        """Note a copy of everything: for a call that makes many changes, or changes that are not noted one by one."""
        shared = {id(part): part for part in (self._journal, *self._noting_parts())}
        self._journal.note(adopt, self, copy.deepcopy(vars(self), shared))

    def _noting_parts(self) -> tuple[object, ...]:
        """Parts that note their changes by themselves."""
        return ()


def _spelled_otherwise(model: type, options: Mapping[str, Any]) -> InvalidParameter:
    wrong = next(name for name in options if name in BRITISH)
    right = BRITISH_TO_AMERICAN[wrong]
    return InvalidParameter(f"{model.__name__} has no parameter {wrong!r}. American spelling is used: {right!r}.")


def adopt(model: object, state: dict[str, Any]) -> None:
    """Give a model the state of a copy. Parts that are models themselves stay the same objects."""
    for name in [name for name in vars(model) if name not in state]:
        del vars(model)[name]
    for name, value in state.items():
        own = vars(model).get(name)
        if type(own) is type(value) and hasattr(own, "_journal"):
            adopt(own, vars(value))
        else:
            vars(model)[name] = value
