"""Who takes part: ours, and what users would pick instead. A package that is not installed is named, never imitated."""

from __future__ import annotations

from typing import Final

from benchmarks.peers import (
    algorithm_one,
    botorch,
    contextual_bandits,
    mabwiser,
    numpy_ridge,
    ours,
    river,
    scikit_learn,
    vowpal_wabbit,
)
from benchmarks.peers.base import Choice, Peer, Player, Remembering, Setting, best_row

__all__ = ["OURS", "PEERS", "Choice", "Peer", "Player", "Remembering", "Setting", "best_row"]

OURS: Final = ours.PEER

PEERS: Final = {
    peer.name: peer
    for peer in (
        algorithm_one.PEER,
        scikit_learn.PEER,
        botorch.PEER,
        numpy_ridge.PEER,
        river.PEER,
        vowpal_wabbit.PEER,
        mabwiser.PEER,
        contextual_bandits.PEER,
    )
}
