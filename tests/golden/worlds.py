"""Small worlds for the golden traces, made without the library."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

import kernelbandits as kb

HORIZON = 48
WORDS = ("apple", "apply", "pear", "peach", "plum", "plumber", "fig", "figure", "grape", "grapes")


def in_unit_ball(n_rows: int, n_features: int, seed: int) -> Any:
    """Rows of norm at most one."""
    rows = np.random.default_rng(seed).uniform(-1.0, 1.0, size=(n_rows, n_features))
    return rows / np.maximum(1.0, np.linalg.norm(rows, axis=1, keepdims=True))


@dataclass
class World:
    """Rounds of actions, and a reward in [0, 1] for each."""

    name: str
    horizon: int = HORIZON
    n_features: int = 2
    words: tuple[str, ...] = field(default=WORDS)

    @cached_property
    def actions(self) -> Any:
        """All rows of a world of rows."""
        n_rows = {"fixed": 10, "other fixed": 14, "changing": 30, "catalog": 40}.get(self.name, 8)
        return in_unit_ball(n_rows, self.n_features, seed=len(self.name))

    @cached_property
    def catalog(self) -> Any:
        """The rows of the world "catalog"."""
        return kb.Catalog(self.actions)

    @property
    def n_actions(self) -> int:
        """Actions per round."""
        return {"changing": 8, "words": 4, "pairs": 3}.get(self.name, len(self.actions))

    @property
    def similarities(self) -> Any:
        """A kernel matrix of the words."""
        places = np.arange(float(len(self.words)))
        return np.exp(-np.abs(places[:, None] - places) / 3.0)

    def round(self, t: int) -> tuple[Any, Any]:
        """What `choose` is given in round t, and a row of numbers per action that its reward depends on."""
        rng = np.random.default_rng([7, t])
        if self.name == "words":
            chosen = rng.permutation(len(self.words))[: self.n_actions]
            return [self.words[place] for place in chosen], np.column_stack([chosen / 9.0, chosen % 2])
        if self.name == "pairs":
            context = self.actions[t % 8]
            return kb.Pairs(context, list(self.words[:3])), np.column_stack(
                [np.arange(3) / 3.0, np.tile(context[:1], 3)]
            )
        if self.name == "changing":
            rows = self.actions[rng.permutation(len(self.actions))[: self.n_actions]]
            if t % 5 == 0:
                rows[-1] = rows[0]  # a tie, whatever the policy
            return rows, rows
        return (self.catalog if self.name == "catalog" else self.actions), self.actions

    def rewards(self, t: int, rows: Any, seed: int) -> Any:
        """Rewards of all actions of round t."""
        noise = np.random.default_rng([seed, t]).normal(scale=0.1, size=len(rows))
        return np.clip(0.5 + 0.4 * np.sin(5.0 * rows[:, 0]) * np.cos(3.0 * rows[:, 1]) + noise, 0.0, 1.0)
