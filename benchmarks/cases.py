"""The claims: who runs what, for how long, and the bar that ours has to pass."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from benchmarks.workloads import LINEAR, REGIMES, FixedSet, FreshContexts, Plane, Regime, World

__all__ = ["FULL_PACE", "OURS_NAME", "PLAY_NAME", "QUICK_PACE", "Bar", "Case", "Pace", "cases", "thread_cases"]

OURS_NAME: Final = "kernelbandits"
PLAY_NAME: Final = "kernelbandits, play"

Measure: TypeAlias = Literal["ratio", "seconds", "last round", "rate"]

KERNEL_PEERS: Final = ("Algorithm 1", "scikit-learn")
LINEAR_PEERS: Final = ("plain NumPy", "river", "Vowpal Wabbit", "MABWiser", "contextualbandits")


@dataclass(frozen=True)
class Bar:
    """What must be reached: at least a ratio or a rate, at most this many seconds."""

    measure: Measure
    bound: float
    against: str = ""
    """The peer, for a ratio."""

    of: str = OURS_NAME

    def is_met(self, value: float) -> bool:
        """Whether this value passes."""
        return value >= self.bound if self.measure in ("ratio", "rate") else value <= self.bound


@dataclass(frozen=True, kw_only=True)
class Case:
    """One problem, played by ours and by some peers."""

    name: str
    title: str
    world: World
    regime: Regime
    horizon: int
    peers: tuple[str, ...] = ()
    bars: tuple[Bar, ...] = ()
    has_play: bool = False
    """Whether ours also plays it through `policy.play`, all rounds in one call."""

    thread_bar: float | None = None
    """How much faster two threads must be; None where this is not compared."""


@dataclass(frozen=True, kw_only=True)
class Pace:
    """How long to look."""

    repeats: int
    run_seconds: float
    """A run is stopped after this long, and its repeats have to share it."""

    patience: float
    """A checkpoint whose round would take longer than this is left out."""

    prefix: int
    """Rounds from the first on in which a peer of the same model plays along."""

    prefix_seconds: float


FULL_PACE: Final = Pace(repeats=3, run_seconds=40.0, patience=20.0, prefix=200, prefix_seconds=4.0)
QUICK_PACE: Final = Pace(repeats=3, run_seconds=3.0, patience=1.0, prefix=50, prefix_seconds=0.7)


def cases(*, is_quick: bool) -> tuple[Case, ...]:
    """Everything that is run on one thread."""
    return tuple(_quick() if is_quick else _full())


def thread_cases(*, is_quick: bool) -> tuple[Case, ...]:
    """Ours alone, with one thread and with two: never slower, and faster where a round moves more than 4 MB."""
    if is_quick:
        return (_catalog("B", 10_000, 300, thread_bar=1.0), _fresh(100, 300, thread_bar=1.0))
    return (
        _catalog("B", 1_000, 1000, thread_bar=1.0),
        _catalog("B", 10_000, 1000, thread_bar=1.0),
        _catalog("D", 10_000, 1000, thread_bar=1.6),
        _catalog("B", 1_000_000, 500, thread_bar=1.6),
        _fresh(20, 1500, thread_bar=1.0),
        _fresh(1000, 1500, thread_bar=1.6),
        _linear(100, 5000, thread_bar=1.0),
    )


def _full() -> Iterator[Case]:
    one, both = KERNEL_PEERS[:1], KERNEL_PEERS
    yield _catalog("B", 1_000, 2000, both, Bar("last round", 30e-6))
    yield _catalog("B", 10_000, 500, (*both, "BoTorch"), Bar("ratio", 700, "Algorithm 1"))
    yield _catalog("A", 10_000, 2000, both, Bar("ratio", 4000, both[0]), Bar("ratio", 4000, both[1]))
    yield _catalog(
        "B", 10_000, 2000, both, Bar("ratio", 4000, both[0]), Bar("ratio", 4000, both[1]), Bar("last round", 70e-6)
    )
    yield _catalog("C", 10_000, 2000, one, Bar("seconds", 3.0))
    yield _catalog("D", 10_000, 2000, one, Bar("ratio", 250, one[0]))
    yield _catalog("B", 100_000, 5000, one, Bar("seconds", 3.0), Bar("last round", 320e-6))
    yield _catalog("B", 1_000_000, 1000, one, Bar("seconds", 5.0), Bar("last round", 1e-3))
    yield _fresh(20, 3000, both, Bar("ratio", 12, one[0]))
    yield _fresh(100, 3000, both, Bar("ratio", 12, one[0]))
    yield _fresh(1000, 3000, (*both, "BoTorch"), Bar("ratio", 30, both[0]), Bar("ratio", 50, both[1]))
    yield _linear(10, 20_000, LINEAR_PEERS, Bar("rate", 50e3), Bar("rate", 250e3, of=PLAY_NAME))
    yield _linear(100, 10_000, LINEAR_PEERS, Bar("rate", 40e3), Bar("rate", 150e3, of=PLAY_NAME))
    yield _linear(1000, 2_000, LINEAR_PEERS, Bar("rate", 25e3), Bar("rate", 50e3, of=PLAY_NAME))
    yield _plane("chessboard", 2000, both, Bar("seconds", 1.5))
    yield _plane("step-diagonal", 2000, both, Bar("seconds", 1.5))


def _quick() -> Iterator[Case]:
    one, both = KERNEL_PEERS[:1], KERNEL_PEERS
    for regime in "ABCD":
        yield _catalog(regime, 1_000, 300, one)
    yield _catalog("B", 10_000, 300, both)
    yield _fresh(20, 300, both)
    yield _fresh(100, 300, both)
    yield _linear(10, 3000, LINEAR_PEERS)
    yield _linear(100, 2000, LINEAR_PEERS)
    yield _plane("chessboard", 300, both)
    yield _plane("step-diagonal", 300, both)


def _catalog(
    regime: str, n_actions: int, horizon: int, peers: tuple[str, ...] = (), *bars: Bar, thread_bar: float | None = None
) -> Case:
    return Case(
        name=f"w1-{regime.lower()}-{n_actions:.0e}-{horizon}".replace("e+0", "e"),
        title=f"W1, fixed set, regime {regime}, N = {n_actions:,}, T = {horizon:,}",
        world=FixedSet(n_actions),
        regime=REGIMES[regime],
        horizon=horizon,
        peers=peers,
        bars=bars,
        thread_bar=thread_bar,
    )


def _fresh(
    n_actions: int, horizon: int, peers: tuple[str, ...] = (), *bars: Bar, thread_bar: float | None = None
) -> Case:
    return Case(
        name=f"w2-{n_actions}-{horizon}",
        title=f"W2, fresh contexts, regime B, N = {n_actions:,}, T = {horizon:,}",
        world=FreshContexts(n_actions),
        regime=REGIMES["B"],
        horizon=horizon,
        peers=peers,
        bars=bars,
        thread_bar=thread_bar,
    )


def _linear(
    n_actions: int, horizon: int, peers: tuple[str, ...] = (), *bars: Bar, thread_bar: float | None = None
) -> Case:
    return Case(
        name=f"w3-{n_actions}-{horizon}",
        title=f"W3, linear kernel, d = 10, regime B, N = {n_actions:,}, T = {horizon:,}",
        world=FreshContexts(n_actions, LINEAR),
        regime=REGIMES["B"],
        horizon=horizon,
        peers=peers,
        bars=bars,
        has_play=thread_bar is None,
        thread_bar=thread_bar,
    )


def _plane(pattern: Literal["chessboard", "step-diagonal"], horizon: int, peers: tuple[str, ...], *bars: Bar) -> Case:
    return Case(
        name=f"ek-{pattern}-{horizon}",
        title=f"EK-UCB's {pattern}, λ = 1, N = 10, T = {horizon:,}",
        world=Plane(pattern),
        regime=Regime(1.0, 0.1),
        horizon=horizon,
        peers=peers,
        bars=bars,
    )
