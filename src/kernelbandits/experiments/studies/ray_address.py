"""Where a Ray cluster is: addresses that are none, and places where nobody answers, are told within seconds."""

from __future__ import annotations

import socket
from typing import Final

from kernelbandits.errors import InvalidParameter, NotSupported

__all__ = ["TOKENS", "checked_address", "refuse_silence"]

WORK_BEFORE_COMPILE: Final = 5.0
"""Seconds that a connection may take; Ray itself tries for minutes."""

TOKENS: Final = (
    "A cluster that asks for a token tells nobody without one: set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN_PATH where "
    "the token is not in Ray's own place."
)


def checked_address(address: str | None) -> str | None:
    """An address that Ray can connect to, None where none is given, or an error.

    >>> checked_address("127.0.0.1:6379"), checked_address("auto"), checked_address(None)
    ('127.0.0.1:6379', 'auto', None)
    """
    if address in (None, "auto", "local"):
        return address
    if isinstance(address, str) and address.startswith("ray://"):
        raise NotSupported(
            f"A study is played from a machine of the cluster, not through Ray's client, got {address!r}. Give the "
            "HOST:PORT that `ray start --head` said."
        )
    if not isinstance(address, str) or _host_and_port(address) is None:
        raise InvalidParameter(f"The address of a Ray cluster is HOST:PORT or 'auto', got {address!r}.")
    return address


def refuse_silence(address: str | None) -> None:
    """InvalidParameter where nobody takes a connection at HOST:PORT; other addresses are left to Ray."""
    place = _host_and_port(address or "")
    if place is None:
        return
    try:
        socket.create_connection(place, timeout=WORK_BEFORE_COMPILE).close()
    except OSError as error:
        raise InvalidParameter(
            f"Nobody answers at the address {address!r} ({error.strerror or error}). Start a cluster there with "
            "`ray start --head`, or leave the address out to play on this machine."
        ) from error


def _host_and_port(address: str) -> tuple[str, int] | None:
    host, colon, port = address.rpartition(":")
    is_place = colon and host and "/" not in host and port.isascii() and port.isdigit() and 0 < int(port) < 65_536
    return (host.removeprefix("[").removesuffix("]"), int(port)) if is_place else None
