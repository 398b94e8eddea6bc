"""The demo in sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from kernelbandits.evaluation import NO_STAGE, Trace
from kernelbandits.experiments.comparison import Comparison
from kernelbandits.experiments.demo_study import FAILURE_PROBABILITY, KERNEL, NORM, RANDOM, SUP_PROVED, WORLD
from kernelbandits.experiments.results import CONFIDENCE
from kernelbandits.validation import pluralize

__all__ = ["INTRODUCTION", "TITLE", "caption", "remarks"]

TITLE: Final = "KernelUCB beside its relatives"

INTRODUCTION: Final = (
    f"Each round shows {WORLD.n_actions} places; the policy picks one and sees a click or none. How often a place is "
    "clicked is a smooth function with a few hills, which no policy knows. Regret is what the best place of each round "
    "would have brought more, in expectation, added up."
)


def caption(comparison: Comparison) -> str:
    """What the figure shows: repeats, intervals, world, bounds."""
    n_seeds = len(comparison.seeds)
    repeats = (
        f"Mean over {n_seeds} seeds, each with a function of its own; bands are {CONFIDENCE * 100:.0f} % intervals "
        "(Student's t over seeds)."
        if n_seeds > 1
        else "One seed, so there is no interval."
    )
    return (
        f"{repeats} Rewards are 0 or 1: a click or none at one of {WORLD.n_actions} places of the unit square, "
        f"drawn anew each round. The chance of a click has RKHS norm {NORM:g} in the Gaussian kernel of length scale "
        f"{KERNEL.length_scale:g}. Dashed: what is proved of the two policies called proved, each with probability "
        f"{1 - FAILURE_PROBABILITY:g}, mean over seeds."
    )


def remarks(traces: Mapping[str, Sequence[Trace]], bounds: Mapping[str, float]) -> tuple[str, ...]:
    """What a reader should know before quoting the figure, in sentences made of this run's numbers."""
    horizon = len(traces[RANDOM][0])
    explored = float(np.mean([np.mean(run.stage != NO_STAGE) for run in traces[SUP_PROVED]]))
    return (
        "Tuned policies explore by a constant that did best after 500 rounds of ten other seeds, the proved ones by "
        "the width that their theorem needs, GP-UCB by its own schedule. The difference is the price of a guarantee "
        "in a short run.",
        f"SupKernelUCB at its proved scale spent {explored:.0%} of its rounds exploring. It is the method with the "
        "square-root proof, and not the one with the best curve.",
        *(_verdict(name, bound, horizon) for name, bound in bounds.items()),
        "LinUCB sees the two coordinates and an intercept. It does what a linear rule can on a function with hills.",
    )


def _verdict(name: str, bound: float, horizon: int) -> str:
    after = f"{name}: the bound after {pluralize(horizon, 'round')}"
    if bound > horizon:
        return (
            f"{after} is {bound:,.0f}. No policy can lose more than {horizon}, one a "
            "round, so at this horizon the bound is true and says nothing; it grows more slowly than the horizon does."
        )
    return f"{after} is {bound:,.0f}, below the {horizon} that any policy is sure of."
