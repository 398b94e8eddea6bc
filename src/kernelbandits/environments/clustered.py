"""A world of groups: what one action pays, all others of its group pay too."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kernelbandits.checks import a_count, a_flag, a_size, an_array, not_negative, shown
from kernelbandits.environments.base import DrawnRounds, Round
from kernelbandits.errors import InvalidParameter
from kernelbandits.types import Matrix, Parameters, Vector

__all__ = ["Clustered"]


@dataclass(frozen=True, kw_only=True)
class Clustered:
    """Actions in a few tight groups in the unit cube; the chance of a reward of 1 is the same throughout a group.

    Neither linear nor smooth: values jump from group to group, and within a group every action tells all about the
    others. Each run draws its own groups: centres uniform in the cube, values uniform in `values`.

    Parameters
    ----------
    n_actions, n_features
        Actions in each round, and numbers in the context of each.
    n_clusters
        Groups; every action belongs to one of them at random.
    spread
        Standard deviation, in each column, of an action around the centre of its group.
    values
        Lowest and highest chance of a reward.
    fixed_actions
        True: one set of contexts, shown in every round. False: a fresh set each round.

    Examples
    --------
    >>> world = Clustered(n_actions=6, n_clusters=2).start(np.random.default_rng(0))
    >>> shown = world.show()
    >>> shown.contexts.shape, len(set(shown.expected.tolist())) <= 2
    ((6, 2), True)
    """

    n_actions: int
    n_features: int = 2
    n_clusters: int = 5
    spread: float = 0.02
    values: tuple[float, float] = (0.05, 0.95)
    fixed_actions: bool = False

    def __post_init__(self) -> None:
        for name in ("n_actions", "n_features", "n_clusters"):
            object.__setattr__(self, name, a_count(getattr(self, name), name))
        object.__setattr__(self, "spread", not_negative(self.spread, "The spread"))
        object.__setattr__(self, "fixed_actions", a_flag(self.fixed_actions, "`fixed_actions`"))
        values = an_array(self.values, "Values")
        if values.shape != (2,) or not 0.0 <= values[0] <= values[1] <= 1.0:
            raise InvalidParameter(f"Values are two probabilities, the lower one first, got {shown(self.values)}.")
        object.__setattr__(self, "values", tuple(values.tolist()))
        a_size("The contexts of a round", self.n_actions, self.n_features)
        a_size("The centres of the clusters", self.n_clusters, self.n_features)

    @property
    def reward_range(self) -> tuple[float, float]:
        """Rewards are 0 or 1."""
        return 0.0, 1.0

    def start(self, rng: np.random.Generator) -> DrawnRounds:
        """Draw the groups and begin a run; groups, contexts and luck have a generator each."""
        group_rng, context_rng, luck_rng = rng.spawn(3)
        centres = group_rng.random((self.n_clusters, self.n_features))
        values = group_rng.uniform(*self.values, size=self.n_clusters)
        return DrawnRounds(self._rounds(centres, values, context_rng, luck_rng))

    def describe(self) -> Parameters:
        """Class and parameters as plain values."""
        return {"class": type(self).__name__, **vars(self), "values": list(self.values)}

    def _rounds(
        self, centres: Matrix, values: Vector, context_rng: np.random.Generator, luck_rng: np.random.Generator
    ) -> Iterator[tuple[Round, Vector]]:
        shown: Round | None = None
        while True:
            if shown is None or not self.fixed_actions:
                groups = context_rng.integers(self.n_clusters, size=self.n_actions)
                noise = context_rng.standard_normal((self.n_actions, self.n_features))
                contexts = centres[groups] + self.spread * noise
                contexts.setflags(write=False)  # shown again and again where actions are fixed
                shown = Round(contexts, expected=values[groups])
            assert shown.expected is not None
            yield shown, (luck_rng.random(self.n_actions) < shown.expected).astype(np.float64)
