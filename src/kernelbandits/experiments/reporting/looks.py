"""One color a policy, the same in every figure of a report."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from kernelbandits.experiments.results import Results, measure_of

__all__ = ["Look", "looks_of"]

COLORS: Final = ("blue", "orange", "green", "red", "purple", "sky", "ink")

BEST_FEW: Final = 6
"""Policies that keep a color where there are more of them than colors."""


class Look(NamedTuple):
    """A color, and whether the policy stays in the background."""

    color: str
    is_quiet: bool = False


def looks_of(recorded: Results) -> dict[str, Look]:
    """Colors by policy: in the study's order where they suffice, otherwise for the best few, the others quiet.

    The best are those with the smallest mean rank over the environments. Choosing at random is always gray.
    """
    random = {played.label for played in recorded.all_runs if played.is_random}
    others = [label for label in _labels(recorded) if label not in random]
    if len(others) > len(COLORS):
        rank = _mean_ranks(recorded)
        colored = sorted(others, key=rank.__getitem__)[:BEST_FEW]
    else:
        colored = others
    looks = dict.fromkeys(_labels(recorded), Look("quiet", True))
    looks |= {label: Look(color) for label, color in zip(colored, COLORS, strict=False)}
    return looks | {label: Look("gray", place > 0) for place, label in enumerate(sorted(random))}


def _labels(recorded: Results) -> list[str]:
    return list(dict.fromkeys(played.label for played in recorded.all_runs))


def _mean_ranks(recorded: Results) -> dict[str, float]:
    ranks: dict[str, list[int]] = {label: [] for label in _labels(recorded)}
    for policies in recorded.environments.values():
        for rank, label in enumerate(measure_of(policies).best_first(policies)):
            ranks[label].append(rank)
    return {label: float(np.mean(places)) for label, places in ranks.items()}
