from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
from benchmarks.cases import cases, thread_cases
from benchmarks.peers import OURS, PEERS, Choice, Peer, Setting, best_row
from benchmarks.peers.base import TIE_TOLERANCE
from benchmarks.workloads import LINEAR, REGIMES, FixedSet, FreshContexts, Plane

from kernelbandits import types

WORLDS = [FixedSet(60), FreshContexts(15), FreshContexts(15, LINEAR), Plane("step-diagonal")]


def present(name):
    peer = PEERS[name]
    return pytest.param(
        peer, marks=pytest.mark.skipif(bool(peer.missing()), reason=f"{name}: {peer.missing()}"), id=name
    )


def play(peer, world, n_rounds, regime="A"):
    """Rows, contexts and rewards, with the player afterwards."""
    player = peer.start(Setting.of(world, REGIMES[regime]))
    rows, contexts, rewards, offered = [], [], [], None
    for shown in islice(world.rounds(), n_rounds):
        if world.is_fixed:
            offered = peer.fixed(shown.contexts) if offered is None else offered
        choice = player.choose(offered if world.is_fixed else shown.contexts)
        rows.append(choice.action)
        contexts.append(shown.contexts[choice.action])
        rewards.append(shown.reward(choice.action))
        player.learn(choice, rewards[-1])
    return rows, np.array(contexts), np.array(rewards), player


@pytest.mark.parametrize("world", WORLDS, ids=repr)
@pytest.mark.parametrize("peer", [present(name) for name in ("Algorithm 1", "scikit-learn")])
def test_a_peer_of_the_same_model_chooses_what_we_choose(peer, world):
    assert play(peer, world, 25)[0] == play(OURS, world, 25)[0]


def test_plain_ridge_chooses_what_we_choose():
    world = FreshContexts(15, LINEAR)

    assert play(PEERS["plain NumPy"], world, 40)[0] == play(OURS, world, 40)[0]


@pytest.mark.parametrize("peer", [present(name) for name in ("Algorithm 1", "scikit-learn")])
def test_a_prepared_history_is_the_history(peer):
    world = FreshContexts(15)
    rows, contexts, rewards, _ = play(peer, world, 12)
    player = peer.start(Setting.of(world, REGIMES["A"]))

    player.remember(contexts[:8], rewards[:8])
    followed = []
    for shown, reward in zip(islice(world.rounds(), 8, 12), rewards[8:], strict=True):
        choice = player.choose(shown.contexts)
        followed.append(choice.action)
        player.learn(choice, float(reward))

    assert followed == rows[8:]


@pytest.mark.parametrize(
    "peer", [present(name) for name in ("river", "Vowpal Wabbit", "MABWiser", "contextualbandits")]
)
def test_a_peer_with_another_model_plays(peer):
    rows, *_ = play(peer, FreshContexts(5, LINEAR), 4)

    assert all(0 <= row < 5 for row in rows)


def test_ties_are_decided_as_the_library_does():
    assert types.TIE_TOLERANCE == TIE_TOLERANCE
    assert best_row(np.array([0.0, 1.0, 1.0 + 1e-12])) == 1
    assert best_row(np.array([0.0, 1.0, 1.0 + 1e-6])) == 2


def test_what_is_not_installed_is_reported():
    assert Peer(name="none", start=Choice, package="surely_not_installed").missing() == "not installed"
    assert not PEERS["Algorithm 1"].missing()


@pytest.mark.parametrize("is_quick", [True, False])
def test_cases_name_peers_that_exist_and_have_names_of_their_own(is_quick):
    chosen = cases(is_quick=is_quick)

    assert {peer for case in chosen for peer in case.peers} <= set(PEERS)
    assert len({case.name for case in chosen}) == len(chosen)
    assert all(bar.against in ("", *case.peers) for case in chosen for bar in case.bars)
    assert all(case.thread_bar for case in thread_cases(is_quick=is_quick))
