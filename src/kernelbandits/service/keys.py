"""Access keys: random 256 bits, shown once; the store holds their digests."""

from __future__ import annotations

import hmac
import secrets
import time
from collections.abc import Iterable
from hashlib import sha256
from typing import Final

from kernelbandits.service.problems import Problem
from kernelbandits.service.store import Key, Store

__all__ = ["SCOPES", "create_key", "find_key", "require"]

SCOPES: Final = ("decide", "reward", "read", "manage")
"""What a key may allow; "manage" contains nothing else by itself."""

PREFIX: Final = "kb_"


def create_key(store: Store, scopes: Iterable[str], experiments: Iterable[str] = ()) -> tuple[Key, str]:
    """Create a key; return it with its secret, which is stored nowhere."""
    given = frozenset(scopes)
    if not given or not given <= set(SCOPES):
        raise Problem("invalid", f"The scopes of a key are some of {', '.join(SCOPES)}.", pointer="/scopes")
    secret = PREFIX + secrets.token_urlsafe(32)
    key = Key(secrets.token_hex(4), _digest(secret), given, frozenset(experiments), time.time(), None)
    store.add_key(key)
    return key, secret


def find_key(store: Store, secret: str) -> Key:
    """The key with this secret, or a Problem."""
    digest = _digest(secret)
    key = store.key(digest)
    if key is None or not hmac.compare_digest(key.digest, digest):
        raise Problem("unauthorized", "This key is not known. Create one: kernelbandits keys create")
    if key.revoked is not None:
        raise Problem("unauthorized", "This key was revoked.")
    return key


def require(key: Key | None, scope: str, experiment: str | None) -> None:
    """Raise a Problem unless the key allows this; no key allows everything.

    `experiment` is "" for what concerns the whole service, and None to leave the experiments of the key aside.
    """
    if key is None:
        return
    if scope not in key.scopes:
        raise Problem("forbidden", f"The key has the scopes {', '.join(sorted(key.scopes))}; this needs {scope!r}.")
    if experiment is not None and key.experiments and experiment not in key.experiments:
        raise Problem("forbidden", "The key belongs to other experiments.")


def _digest(secret: str) -> bytes:
    return sha256(secret.encode(errors="replace")).digest()
