"""One colour a policy, the same in every figure of a report."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from kernelbandits.experiments.reporting.measure import measure_of
from kernelbandits.experiments.reporting.reading import Recorded

__all__ = ["Look", "looks_of"]

COLOURS: Final = ("blue", "orange", "green", "red", "purple", "sky", "ink")

BEST_FEW: Final = 6
"""Policies that keep a colour where there are more of them than colours."""


class Look(NamedTuple):
    """A colour, and whether the policy stays in the background."""

    colour: str
    is_quiet: bool = False


def looks_of(recorded: Recorded) -> dict[str, Look]:
    """Colours by policy: in the study's order where they suffice, otherwise for the best few, the others quiet.

    The best are those with the smallest mean rank over the environments. Choosing at random is always grey.
    """
    random = {played.label for played in recorded.all_played if played.is_random}
    others = [label for label in _labels(recorded) if label not in random]
    if len(others) > len(COLOURS):
        rank = _mean_ranks(recorded)
        coloured = sorted(others, key=rank.__getitem__)[:BEST_FEW]
    else:
        coloured = others
    looks = dict.fromkeys(_labels(recorded), Look("quiet", True))
    looks |= {label: Look(colour) for label, colour in zip(coloured, COLOURS, strict=False)}
    return looks | {label: Look("grey", place > 0) for place, label in enumerate(sorted(random))}


def _labels(recorded: Recorded) -> list[str]:
    return list(dict.fromkeys(played.label for played in recorded.all_played))


def _mean_ranks(recorded: Recorded) -> dict[str, float]:
    ranks: dict[str, list[int]] = {label: [] for label in _labels(recorded)}
    for policies in recorded.environments.values():
        for rank, label in enumerate(measure_of(policies).best_first(policies)):
            ranks[label].append(rank)
    return {label: float(np.mean(places)) for label, places in ranks.items()}
