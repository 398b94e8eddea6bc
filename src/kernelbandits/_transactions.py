"""Locks and undo logs: every public call of a model is serialized and atomic.

A call that changes a model first records how to restore what it is about to change, then changes it, and ends by
clearing the records. Clearing is atomic under the GIL: it is the commit. If anything interrupts the call before that
(an error, Ctrl-C, a fork in another thread), the records remain, and are replayed immediately, or before the next call
if the replay was interrupted, too. Derived state that is changed in place is protected by the same records.
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
    """Reentrant lock that is free in a forked process, whatever the threads of its parent were doing.

    Use it as ``with guard.lock:``, which no signal can interrupt between acquiring the lock and entering the block. It
    is reentrant, since a call may be part of another one.
    """

    __slots__ = ("__weakref__", "lock")

    def __init__(self) -> None:
        self.lock: Any = RLock()  # typeshed does not know `_is_owned`
        _guards.add(self)

    def __reduce__(self) -> tuple[type[ForkedLock], tuple[()]]:
        """Copy as a new lock."""
        return ForkedLock, ()


_guards: WeakSet[ForkedLock] = WeakSet()


def _begin_in_child() -> None:
    for guard in list(_guards):
        guard.lock = RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_in_child)


BRITISH_TO_AMERICAN: Final = {"regularisation": "regularization", "centres": "centers"}
"""Parameters of models with a common alternative spelling."""

BRITISH: Final = frozenset(BRITISH_TO_AMERICAN)

Method = TypeVar("Method", bound=Callable[..., Any])


class Journal(ForkedLock):
    """Undo log of one model, shared by a policy, its wrappers and its posteriors.

    A record is a function and its arguments that restore former values. It sets values and never adds to them, so
    replaying records a second time after an interrupt is harmless.

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
        """Whether its model is a copy that was created for pickling."""
        self.notes: list[tuple[Callable[..., object], tuple[Any, ...]]] = []

    def __reduce__(self) -> tuple[type[Journal], tuple[()]]:
        """Copy as an empty journal with a new lock."""
        return Journal, ()

    def note(self, restore: Callable[..., object], *arguments: Any) -> None:
        """Record how to restore what is about to change."""
        self.notes.append((restore, arguments))

    def drop(self, restore: Callable[..., object]) -> None:
        """Remove the latest note if it is this one."""
        if self.notes and self.notes[-1][0] == restore:
            self.notes.pop()

    def commit(self) -> None:
        """Make the changes permanent."""
        self.notes.clear()

    def recover(self) -> None:
        """Roll back an incomplete call, if there is one."""
        with self.lock:
            if self.notes:
                self.roll_back()

    def roll_back(self) -> None:
        """Restore everything, the latest change first."""
        for restore, arguments in reversed(self.notes):
            restore(*arguments)
        self.notes.clear()


def transaction(method: Callable[..., Any]) -> Callable[..., Any]:
    """Run a method under the lock of its object's journal, atomically.

    A nested call with the same journal, in the same thread, is part of the outer call.
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
    """Mark a public method that implements its own `transaction`, to save a call on a hot path."""
    method.handles_transaction = True  # type: ignore[attr-defined]
    return method


inside_transaction = handles_transaction
"""Mark a method that other parts of the library call inside a transaction; it is not for users."""


class Transactional:
    """Base class of models: every public method and property of a subclass is a transaction."""

    _journal: Journal

    def __new__(cls, *_: Any, **options: Any) -> Self:
        if not BRITISH.isdisjoint(options):
            raise _spelled_otherwise(cls, options)
        made = super().__new__(cls)
        made._journal = Journal()  # here, so that a subclass need not call __init__ of this class
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

    # The only way to copy a model: copy.copy, copy.deepcopy, pickle and rollback all use it.

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
        """State of a copy whose parts share one journal, so that it does not change while it is pickled."""
        if self._journal.is_snapshot:
            return vars(self)
        made = copy.deepcopy(self)
        made._journal.is_snapshot = True
        return vars(made)

    def _note_copy(self) -> None:
        """Record a copy of everything, for a call with many changes, or whose changes are not recorded one by one."""
        shared = {id(part): part for part in (self._journal, *self._noting_parts())}
        self._journal.note(adopt, self, copy.deepcopy(vars(self), shared))

    def _noting_parts(self) -> tuple[object, ...]:
        """Parts that record their own changes."""
        return ()


def _spelled_otherwise(model: type, options: Mapping[str, Any]) -> InvalidParameter:
    wrong = next(name for name in options if name in BRITISH)
    right = BRITISH_TO_AMERICAN[wrong]
    return InvalidParameter(f"{model.__name__} has no parameter {wrong!r}. American spelling is used: {right!r}.")


def adopt(model: object, state: dict[str, Any]) -> None:
    """Set a model to the state of a copy. Parts that are models themselves stay the same objects."""
    for name in [name for name in vars(model) if name not in state]:
        del vars(model)[name]
    for name, value in state.items():
        own = vars(model).get(name)
        if type(own) is type(value) and hasattr(own, "_journal"):
            adopt(own, vars(value))
        else:
            vars(model)[name] = value
