"""Decisions have names: how a policy issues them, and how it remembers which it has learnt."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kernelbandits.kernels.sequences import pack_strings, unpack_strings
from kernelbandits.restoring import below, saved_array

__all__ = ["IdIssuer", "LearntIds", "process"]

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
