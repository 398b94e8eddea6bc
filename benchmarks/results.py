"""What was found, as plain values: workers write it, the table and the figures read it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["CaseReport", "Outcome", "Report", "ThreadsReport"]


@dataclass(kw_only=True)
class Outcome:
    """One contestant in one case."""

    name: str
    how: str
    """How the figures came about, or why there are none."""

    total: float | None = None
    """Seconds of the whole horizon: every `choose` and `learn`, and what was prepared before the first."""

    last_round: float | None = None
    choices: str = ""
    """Whether it chose what we chose."""

    differs_at: int | None = None
    """The round in which it did not, though its model is ours."""

    rounds: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    """Seconds of these rounds, for the figures."""


@dataclass(kw_only=True)
class CaseReport:
    """All contestants of one case, ours first."""

    name: str
    title: str
    n_actions: int
    horizon: int
    outcomes: list[Outcome]
    warm_up: float = 0.0
    """Seconds of our first few rounds in a fresh process, compilation included; not part of any total."""

    cpu_share: float = 1.0
    """Processor seconds per second while ours ran: below one on one thread, others were using the machine."""

    trouble: str = ""
    """Why the case has no outcomes."""

    def outcome(self, name: str) -> Outcome | None:
        """Of this contestant."""
        return next((outcome for outcome in self.outcomes if outcome.name == name), None)

    @classmethod
    def read(cls, path: Path) -> CaseReport:
        """From the file that a worker wrote."""
        values: dict[str, Any] = json.loads(path.read_text())
        return cls(**{**values, "outcomes": [Outcome(**outcome) for outcome in values["outcomes"]]})

    def write(self, path: Path) -> None:
        """As JSON."""
        path.write_text(json.dumps(asdict(self)))


@dataclass(kw_only=True)
class ThreadsReport:
    """Ours with one thread and with two, in turn."""

    name: str
    title: str
    bar: float
    seconds: dict[int, list[float]]
    """Per number of threads, the runs' totals."""

    is_same: bool
    """Whether the choices are the same."""

    trouble: str = ""


@dataclass(kw_only=True)
class Report:
    """One call of the command."""

    is_quick: bool
    machine: dict[str, str]
    versions: dict[str, str]
    date: str
    load: list[float]
    """Load average of the last minute, before and after."""

    minutes: float
    cases: list[CaseReport]
    threads: list[ThreadsReport]

    @property
    def is_sound(self) -> bool:
        """Whether everything ran, and every choice that had to be equal was."""
        return not (
            any(case.trouble for case in self.cases)
            or any(outcome.differs_at for case in self.cases for outcome in case.outcomes)
            or any(threads.trouble or not threads.is_same for threads in self.threads)
        )

    def write(self, path: Path) -> None:
        """As JSON, so that a page may quote the figures."""
        path.write_text(json.dumps(asdict(self), indent=1) + "\n")
