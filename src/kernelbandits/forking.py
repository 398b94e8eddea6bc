"""Locks that a forked process can use."""

from __future__ import annotations

import os
from threading import RLock
from typing import Any
from weakref import WeakSet

__all__ = ["ForkedLock"]


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
