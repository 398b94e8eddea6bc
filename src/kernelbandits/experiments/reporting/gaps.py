"""What a reader has to know before trusting a report: what is missing, short or alone."""

from __future__ import annotations

from collections.abc import Iterator

from kernelbandits.experiments.letters import FONT, unknown_letters
from kernelbandits.experiments.reporting.measure import measure_of
from kernelbandits.experiments.reporting.played import Played
from kernelbandits.experiments.reporting.reading import Recorded
from kernelbandits.validation import pluralize

__all__ = ["gaps"]

MOST_NAMED = 8
"""Gaps that are named one by one; the others are counted."""


def gaps(recorded: Recorded) -> tuple[str, ...]:
    """Sentences, the gravest first; none where the study is complete and every run has its full length."""
    parts = (_unfinished, _empty, _short, _alone, _no_regret, _unknown_rewards, _boxes)
    return tuple(sentence for part in parts for sentence in part(recorded))


def _unfinished(recorded: Recorded) -> Iterator[str]:
    if recorded.n_missing:
        n_jobs = len(recorded.head["jobs"])
        yield (
            f"The study is not complete: {n_jobs - recorded.n_missing:,} of {n_jobs:,} jobs are finished. Policies "
            f"with fewer seeds met other luck, so compare with care. {_named(list(_missing(recorded)))}"
        ).strip()
    if recorded.n_foreign:
        n = recorded.n_foreign
        results = "One result in the folder is" if n == 1 else f"{n} results in the folder are"
        yield f"{results} not part of the study as it is now, and left out."


def _missing(recorded: Recorded) -> Iterator[str]:
    """Policies that lack seeds, in words; those of which nothing is finished are known by no name."""
    seeds = set(recorded.seeds)
    labels = dict.fromkeys(played.label for played in recorded.all_played)
    for environment, policies in recorded.environments.items():
        for label in labels:
            done = {run.seed for run in policies[label].runs} if label in policies else set()
            if lacking := sorted(seeds - done):
                yield (
                    f"{label} in {environment} (seed {', '.join(map(str, lacking))})"
                    if done
                    else (f"{label} in {environment} (all seeds)")
                )


def _empty(recorded: Recorded) -> Iterator[str]:
    if recorded.n_empty:
        results = "One result is" if recorded.n_empty == 1 else f"{recorded.n_empty} results are"
        yield f"{results} left out because the world showed no round."


def _short(recorded: Recorded) -> Iterator[str]:
    horizon = recorded.head.get("horizon")
    short = [
        f"{played.label} in {environment} ({_span(played)})"
        for environment, policies in recorded.environments.items()
        for played in policies.values()
        if isinstance(horizon, int) and played.n_rounds.min() < horizon
    ]
    if short:
        yield (
            f"Some runs ended before round {horizon}: their worlds had no more to show. Curves go as far as all runs "
            f"of a policy do; tables take each run at its own end. {_named(short)}"
        )


def _alone(recorded: Recorded) -> Iterator[str]:
    if all(played.n_runs == 1 for played in recorded.all_played):
        yield "There is one run of each policy, so there are no intervals: differences may be luck."
    elif any(played.n_runs == 1 for played in recorded.all_played):
        yield "Some policies have one run only, and no interval."


def _no_regret(recorded: Recorded) -> Iterator[str]:
    unknown = [name for name, policies in recorded.environments.items() if not measure_of(policies).is_regret]
    if unknown:
        yield f"Expected rewards, and so regret, are not known in {', '.join(unknown)}: rewards are shown instead."


def _unknown_rewards(recorded: Recorded) -> Iterator[str]:
    unknown = [
        name
        for name, policies in recorded.environments.items()
        if not all(played.knows_rewards for played in policies.values())
    ]
    if unknown:
        yield (
            f"Some rewards are not known in {', '.join(unknown)}, as where a log shows another action: totals grow in "
            "the other rounds only, so a policy that agrees with the log more often has more of them. Mean rewards are "
            "over these rounds, which takes a study that keeps every round."
        )


def _boxes(recorded: Recorded) -> Iterator[str]:
    lacking = unknown_letters([*recorded.environments, *(played.label for played in recorded.all_played)])
    if lacking:
        yield f"Figures show boxes for letters that their font, {FONT}, does not have: {lacking}"


def _named(sentences: list[str]) -> str:
    if not sentences:
        return ""
    more = len(sentences) - MOST_NAMED
    return "; ".join(sentences[:MOST_NAMED]) + (f"; and {more} more." if more > 0 else ".")


def _span(played: Played) -> str:
    low, high = int(played.n_rounds.min()), int(played.n_rounds.max())
    return pluralize(low, "round") if low == high else f"{low:,} to {high:,} rounds"
