"""The harness on a case of a few rounds: what it does, not how long it takes."""

from __future__ import annotations

import doctest
from dataclasses import replace

import numpy as np
import pytest
from benchmarks import checkpoints, sessions, table, timing
from benchmarks import duel as duel_module
from benchmarks.cases import Case, Pace
from benchmarks.duel import duel
from benchmarks.peers import PEERS, Peer
from benchmarks.peers.algorithm_one import AlgorithmOne
from benchmarks.runs import play_through
from benchmarks.spawning import THREAD_VARIABLES, environment
from benchmarks.workloads import LINEAR, REGIMES, FixedSet, FreshContexts

PACE = Pace(repeats=2, run_seconds=30.0, patience=30.0, prefix=6, prefix_seconds=30.0)


@pytest.fixture
def case():
    return Case(name="w1", title="few", world=FixedSet(40), regime=REGIMES["A"], horizon=20, peers=("Algorithm 1",))


class Stubborn(AlgorithmOne):
    """Of the same model, it says, but takes the last row after some rounds."""

    def choose(self, contexts):
        choice = super().choose(contexts)
        return choice if len(self._rewards) < 4 else choice._replace(action=len(contexts) - 1)


class Broken(AlgorithmOne):
    def choose(self, contexts):
        raise ArithmeticError("no idea")


def test_a_duel_compares_and_measures(case):
    report = duel(case, PACE)

    ours, peer = report.outcomes
    assert ours.name == "kernelbandits"
    assert ours.total > 0
    assert ours.last_round > 0
    assert ours.choices.endswith("distinct")
    assert peer.differs_at is None
    assert peer.choices.startswith("equal in 8 rounds")
    assert "19" in peer.how


def test_a_different_choice_is_found(case, monkeypatch):
    monkeypatch.setitem(PEERS, "Algorithm 1", Peer(name="Algorithm 1", start=Stubborn, grows=True))

    report = duel(case, PACE)

    assert report.outcomes[1].differs_at == 5
    assert report.outcomes[1].total is None


def test_a_different_choice_in_whole_runs_is_found(monkeypatch):
    case = Case(
        name="w3", title="few", world=FreshContexts(9, LINEAR), regime=REGIMES["B"], horizon=20, peers=("plain NumPy",)
    )
    assert duel(case, PACE).outcomes[-1].choices == "equal in 20 rounds"

    monkeypatch.setitem(PEERS, "plain NumPy", Peer(name="plain NumPy", start=Stubborn))

    assert duel(case, PACE).outcomes[-1].differs_at >= 5


def test_a_peer_that_fails_is_reported(case, monkeypatch):
    monkeypatch.setitem(PEERS, "Algorithm 1", Peer(name="Algorithm 1", start=Broken, grows=True))

    assert duel(case, PACE).outcomes[1].how == "failed: ArithmeticError: no idea"


def test_a_peer_that_is_missing_is_reported(case, monkeypatch):
    absent = Peer(name="Algorithm 1", start=AlgorithmOne, package="surely_not_installed")
    monkeypatch.setitem(PEERS, "Algorithm 1", absent)

    assert duel(case, PACE).outcomes[1].how == "not installed"


def test_checkpoints_beyond_patience_are_left_out(case):
    outcome = duel(replace(case, horizon=150), replace(PACE, patience=1e-9)).outcomes[1]

    assert outcome.total is None
    assert outcome.how == "one checkpoint, round 100: too few for a total"


def test_a_stopped_run_says_so_and_is_extended(case):
    run = play_through(duel_module.PEERS["Algorithm 1"], case, limit=0.0)

    assert not run.is_whole
    assert len(run.rows) == 1
    assert sessions._how([run]).startswith("stopped at round 1 of 20")
    assert sessions._whole(run) == pytest.approx(run.preparation + 20 * run.seconds[0])


def test_a_run_keeps_what_was_chosen(case):
    run = play_through(PEERS["Algorithm 1"], case, limit=60.0)

    contexts = next(case.world.rounds()).contexts
    assert run.is_whole
    np.testing.assert_array_equal(run.contexts, contexts[run.rows])
    assert run.total >= run.seconds.sum()


def test_workers_have_their_threads_set():
    assert {environment(2)[name] for name in THREAD_VARIABLES} == {"2"}


@pytest.mark.parametrize("module", [checkpoints, table, timing], ids=lambda module: module.__name__)
def test_examples_are_true(module):
    assert doctest.testmod(module).failed == 0
