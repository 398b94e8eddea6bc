"""Random state of a policy: one stream for decisions without a caller's id, and one per id that a caller gives."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

import numpy as np

from kernelbandits.policies.decisions import process
from kernelbandits.types import Seed
from kernelbandits.validation import a_generator

__all__ = ["RandomState"]

KEY_BYTES = 16
"""Of the key of a Philox generator."""


class RandomState:
    """Draws in the order of decisions, or by the id of a decision where the caller gave one.

    The stream of a seed is that of `numpy.random.default_rng(seed)`. A draw for an id depends on the seed and the id
    only, so a repeated request gets the same answer. A forked process goes on with a stream of its own.
    """

    def __init__(self, seed: Seed) -> None:
        self._stream = a_generator(seed)
        state = repr(self._stream.bit_generator.state).encode()
        self.key = blake2b(state, digest_size=KEY_BYTES).digest()
        """Distinguishes the draws by id of two policies with different seeds."""
        self._process = process.number
        self._keyed: np.random.Generator | None = None

    @property
    def generator(self) -> np.random.Generator:
        """What draws come from now."""
        if self._keyed is not None:
            return self._keyed
        if self._process != process.number:  # the parent and its other children go on with the same stream
            self._stream, self._process = np.random.default_rng(), process.number
        return self._stream

    def draw_by(self, id: str | None) -> None:
        """Draw for the decision of this id from now on; None: in the order of decisions."""
        if id is None:
            self._keyed = None
            return
        digest = blake2b(id.encode(errors="surrogatepass"), key=self.key, digest_size=KEY_BYTES).digest()
        self._keyed = np.random.Generator(np.random.Philox(key=int.from_bytes(digest, "little")))

    def state(self) -> Mapping[str, Any]:
        """State of the stream, for `restore`."""
        keyed, self._keyed = self._keyed, None
        state = self.generator.bit_generator.state
        self._keyed = keyed
        return state

    def restore(self, state: Mapping[str, Any]) -> None:
        """Put the stream back."""
        self._stream.bit_generator.state = state

    def go_on(self, stream: np.random.Generator, key: bytes) -> None:
        """Restore what was saved."""
        self._stream, self.key, self._process = stream, key, process.number

    def __setstate__(self, state: dict[str, Any]) -> None:
        """A policy that is sent to another process keeps its stream there."""
        vars(self).update(state)
        self._process = process.number
