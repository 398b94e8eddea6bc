"""Random state of a policy: one stream for decisions without a caller's id, and one per id that a caller gives."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, Final

import numpy as np

from kernelbandits.policies.decisions import process
from kernelbandits.types import Seed
from kernelbandits.validation import as_generator

__all__ = ["RandomState"]

KEY_BYTES = 16
"""Length of the key of a Philox generator, in bytes."""


LEVELS: Final = 0x6B62
"""First element of the spawn keys of levels; larger than the number of children that any study spawns."""


class RandomState:
    """Random state that draws in the order of decisions, or by the id of a decision if the caller gave one.

    The stream of a seed is that of `numpy.random.default_rng(seed)`. A draw for an id depends only on the seed and the
    id, so a repeated request gives the same decision. A forked process continues with its own stream.

    `level` separates the draws of a wrapper from those of the wrapped policy. With the same seed, and thus the same
    numbers, actions would be drawn with probabilities different from those reported.
    """

    def __init__(self, seed: Seed, level: int = 0) -> None:
        self._stream = as_generator(seed)
        if level and not isinstance(seed, np.random.Generator | np.random.BitGenerator):
            self._stream = np.random.default_rng(_child(self._stream, level))
        state = repr((level, self._stream.bit_generator.state) if level else self._stream.bit_generator.state).encode()
        self.key = blake2b(state, digest_size=KEY_BYTES).digest()
        """Distinguishes the draws by id of two policies with different seeds."""
        self._process = process.number
        self._keyed: np.random.Generator | None = None

    @property
    def generator(self) -> np.random.Generator:
        """Current generator."""
        if self._keyed is not None:
            return self._keyed
        if self._process != process.number:  # the parent and its other children continue with the same stream
            self._stream, self._process = np.random.default_rng(), process.number
        return self._stream

    def draw_by(self, id: str | None) -> None:
        """Draw for the decision with this id from now on; None: in the order of decisions."""
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
        """Restore the stream."""
        self._stream.bit_generator.state = state

    def resume(self, stream: np.random.Generator, key: bytes) -> None:
        """Continue from a saved stream and key."""
        self._stream, self.key, self._process = stream, key, process.number

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore from a pickle; a policy sent to another process continues its stream there."""
        vars(self).update(state)
        self._process = process.number


def _child(generator: np.random.Generator, level: int) -> np.random.SeedSequence:
    """Return the seed of a generator, extended by a level; spawned children of the same seed have different keys."""
    parent = generator.bit_generator.seed_seq
    return np.random.SeedSequence(parent.entropy, spawn_key=(*parent.spawn_key, LEVELS, level))  # type: ignore[attr-defined]
