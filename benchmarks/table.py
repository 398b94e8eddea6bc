"""The table that people read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from benchmarks.cases import OURS_NAME, PLAY_NAME, Bar, Case
from benchmarks.results import CaseReport, Outcome, Report, ThreadsReport
from benchmarks.timing import middle
from kernelbandits.experiments.reports.tables import markdown_rows

__all__ = ["duration", "markdown", "ratio", "reached"]

NEVER_SLOWER: Final = 0.95
"""Two threads count as not slower from here on: repeats on a quiet machine differ by a few per cent."""

IDLE: Final = 0.5
"""A machine with nothing else to do has a load average below this before the command begins."""

BUSY: Final = 0.9
"""Below this share of a processor, something else was using it."""

FAMILIES: Final = {
    "w1": "W1: a fixed set of actions",
    "w2": "W2: fresh contexts every round",
    "w3": "W3: linear kernel",
    "ek": "EK-UCB's worlds",
}

EXPLANATION: Final = """\
Seconds are those of the whole horizon: every `choose` and every `learn`, called from Python, one thread. "A round
at the end" is the median of the last rounds. "Ours is faster" divides the contestant's seconds by ours. Contestants
of a case take turns in one process. "From checkpoints": rounds timed from prepared histories, and the total is the
integral of a power law fitted to them, or of power laws between neighboring ones where that is less. "Equal": the
contestant computes the same model and chose our action in each of these rounds; one different choice would end the
command with an error. "Another model": the package has no shared model over action features (or explores
differently), so only its speed is compared."""


def markdown(report: Report, cases: Sequence[Case]) -> str:
    """The whole page."""
    parts = [_heading(report), _bars(report, cases), *_families(report), _threads(report.threads), _missing(report)]
    return "\n\n".join(part for part in parts if part) + "\n"


def duration(seconds: float | None) -> str:
    """Seconds as people read them.

    >>> duration(0.0000312), duration(0.0456), duration(7.25), duration(1630.4)
    ('31.2 µs', '45.6 ms', '7.25 s', '1,630 s')
    """
    if seconds is None:
        return "–"
    for unit, size in (("µs", 1e-6), ("ms", 1e-3)):
        if seconds < 999.5 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s" if seconds < 999.5 else f"{seconds:,.0f} s"


def ratio(value: float | None) -> str:
    """How many times.

    >>> ratio(4861.3), ratio(12.34), ratio(0.8)
    ('4,861×', '12.3×', '0.8×')
    """
    if value is None:
        return "–"
    return f"{value:,.0f}×" if value >= 999.5 else f"{value:.3g}×"


def reached(bar: Bar, report: CaseReport) -> float | None:
    """The figure that the target limits; None where it is missing."""
    judged = report.outcome(bar.of)
    if judged is None or judged.total is None:
        return None
    if bar.measure == "seconds":
        return judged.total
    if bar.measure == "last round":
        return judged.last_round
    if bar.measure == "rate":
        return report.horizon / judged.total
    peer = report.outcome(bar.against)
    return None if peer is None or peer.total is None else peer.total / judged.total


def _heading(report: Report) -> str:
    machine = ", ".join(f"{name} {value}" for name, value in report.machine.items())
    versions = ", ".join(f"{name} {value}" for name, value in report.versions.items())
    command = "python -m benchmarks" + (" --quick" if report.is_quick else "")
    lines = [
        "# Benchmarks",
        "",
        f"Written by `{command}` on {report.date}, in {report.minutes:.1f} minutes. Load average of the machine "
        f"{report.load[0]:.2f} before and {report.load[-1]:.2f} after.",
        "",
        f"- machine: {machine}",
        f"- versions: {versions}",
    ]
    if report.load[0] > IDLE:
        lines += ["", "**The machine was not idle before this began, so figures vary, most of all with two threads.**"]
    if report.is_quick:
        lines += ["", "**The quick form: smaller sets and shorter runs. The bars belong to the full form.**"]
    return "\n".join([*lines, "", EXPLANATION])


def _bars(report: Report, cases: Sequence[Case]) -> str:
    found = {case.name: case for case in report.cases}
    rows = [_bar_row(bar, case, found[case.name]) for case in cases if case.name in found for bar in case.bars]
    return "## Bars\n\n" + _table(("case", "what", "bar", "reached", ""), rows) if rows else ""


def _bar_row(bar: Bar, case: Case, report: CaseReport) -> tuple[str, ...]:
    words = {
        "ratio": f"faster than {bar.against}",
        "seconds": "seconds",
        "last round": "a round at the end",
        "rate": "decisions a second" + (", `play`" if bar.of == PLAY_NAME else ""),
    }
    value = reached(bar, report)
    verdict = "no figure" if value is None else "met" if bar.is_met(value) else "**not met**"
    sign = "≥" if bar.measure in ("ratio", "rate") else "≤"
    return case.title, words[bar.measure], f"{sign} {_figure(bar, bar.bound)}", _figure(bar, value), verdict


def _figure(bar: Bar, value: float | None) -> str:
    if value is None:
        return "–"
    if bar.measure == "ratio":
        return ratio(value)
    return f"{value:,.0f}" if bar.measure == "rate" else duration(value)


def _families(report: Report) -> Iterator[str]:
    for key, title in FAMILIES.items():
        cases = [case for case in report.cases if case.name.startswith(key)]
        if cases:
            yield "\n\n".join([f"## {title}", *map(_case, cases)])


def _case(case: CaseReport) -> str:
    heading = f"### {case.title}\n\n"
    if case.trouble:
        return heading + f"**Failed:** {case.trouble}"
    columns = ("contestant", "seconds", "a round at the end", "decisions a second", "ours is faster", "choices", "how")
    text = heading + _table(columns, (_outcome_row(outcome, case) for outcome in case.outcomes))
    text += f"\n\nWarm-up (first rounds of a fresh process with compilation, in no total): {duration(case.warm_up)}."
    if case.cpu_share < BUSY:
        text += f" The machine was busy: ours had {case.cpu_share:.0%} of a processor at worst."
    return text


def _outcome_row(outcome: Outcome, case: CaseReport) -> tuple[str, ...]:
    ours = case.outcome(OURS_NAME)
    faster = rate = None
    if outcome.total is not None and ours is not None and ours.total is not None:
        rate = case.horizon / outcome.total
        faster = None if outcome is ours else outcome.total / ours.total
    choices = outcome.choices
    if outcome.differs_at is not None:
        choices = f"**different in round {outcome.differs_at}**"
    return (
        outcome.name,
        duration(outcome.total),
        duration(outcome.last_round),
        "–" if rate is None else f"{rate:,.3g}" if rate < 100 else f"{rate:,.0f}",
        ratio(faster),
        choices or "–",
        outcome.how,
    )


def _threads(threads: Sequence[ThreadsReport]) -> str:
    if not threads:
        return ""
    rows = map(_threads_row, threads)
    return "## Two threads against one\n\n" + _table(
        ("case", "one thread", "two threads", "two are faster", "bar", "choices", ""), rows
    )


def _threads_row(threads: ThreadsReport) -> tuple[str, ...]:
    bar = f"≥ {threads.bar:g}×" if threads.bar > 1 else "never slower"
    if threads.trouble:
        return threads.title, "–", "–", "–", bar, "–", f"**failed:** {threads.trouble}"
    one, two = (middle(threads.seconds[n_threads]) for n_threads in (1, 2))
    needed = threads.bar if threads.bar > 1 else NEVER_SLOWER
    verdict = "met" if one / two >= needed else "**not met**"
    choices = "equal" if threads.is_same else "**different**"
    return threads.title, duration(one), duration(two), ratio(one / two), bar, choices, verdict


def _missing(report: Report) -> str:
    outcomes = [outcome for case in report.cases for outcome in case.outcomes]
    measured = {outcome.name for outcome in outcomes if outcome.total is not None or outcome.differs_at is not None}
    absent = {outcome.name: outcome.how for outcome in outcomes if outcome.name not in measured}
    if not absent:
        return ""
    return "## Not measured\n\n" + "\n".join(f"- {name}: {why}" for name, why in sorted(absent.items()))


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return markdown_rows([columns, *rows], n_text_columns=len(columns))
