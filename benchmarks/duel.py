"""The contestants of one case, in turn, in this process."""

from __future__ import annotations

import kernelbandits as kb
from benchmarks.cases import PLAY_NAME, Case, Pace
from benchmarks.checkpoints import AtCheckpoints
from benchmarks.peers import PEERS
from benchmarks.results import CaseReport
from benchmarks.runs import Run
from benchmarks.sessions import Absent, InOneCall, Ours, Session, WholeRuns

__all__ = ["duel"]


def duel(case: Case, pace: Pace) -> CaseReport:
    """Every contestant, repeat by repeat."""
    ours = Ours(case, pace)
    sessions = [_session(name, case, ours.history, pace) for name in case.peers]
    if case.has_play:
        sessions.insert(0, _play(case, ours.history))
    for repeat in range(pace.repeats):
        if repeat:
            ours.repeat()
        sessions = [_after_a_turn(session) for session in sessions]
    return CaseReport(
        name=case.name,
        title=case.title,
        n_actions=case.world.n_actions,
        horizon=case.horizon,
        outcomes=[ours.outcome(), *(session.outcome() for session in sessions)],
        warm_up=ours.warm_up,
        cpu_share=min(run.cpu_share for run in ours.runs),
    )


def _session(name: str, case: Case, history: Run, pace: Pace) -> Session:
    peer = PEERS[name]
    if why := peer.missing():
        return Absent(name, why)
    return (AtCheckpoints if peer.grows else WholeRuns)(peer, case, history, pace)


def _play(case: Case, history: Run) -> Session:
    if not hasattr(kb.KernelUCB, "play"):
        return Absent(PLAY_NAME, "this version of the library has no `play`")
    return InOneCall(case, history)


def _after_a_turn(session: Session) -> Session:
    """The session after one more repeat; a program of others that fails is reported and does not take part further."""
    try:
        session.repeat()
    except Exception as failure:  # anything that other code can raise
        if session.name == PLAY_NAME:  # our own failures are not swallowed
            raise
        return Absent(session.name, f"failed: {type(failure).__name__}: {failure}")
    return session
