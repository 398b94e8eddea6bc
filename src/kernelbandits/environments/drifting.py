"""A world that turns into another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from itertools import chain, groupby, islice, repeat
from sys import maxsize

import numpy as np

from kernelbandits.checks import a_count, an_object
from kernelbandits.environments.base import Environment, ForeseeableWorld, Round, World
from kernelbandits.environments.delayed import Delayed
from kernelbandits.errors import DecisionError, InvalidParameter
from kernelbandits.types import Parameters, Vector

__all__ = ["Drifting", "DriftingWorld"]


@dataclass(frozen=True)
class Drifting:
    """One world for the first `change_at` rounds, another one from then on: at once, or gradually.

    Every round belongs to one of the two as a whole: contexts, expected rewards and luck. A gradual change takes each
    of the next `gradual` rounds from `after` with a probability that grows linearly, i/(gradual + 1) in the i-th of
    them; nothing is interpolated, so that any two worlds can be joined. Which round is whose is drawn from the seed and
    does not depend on actions. A world stands still while the other one is shown; when the one whose turn it is ends,
    all ends.

    Parameters
    ----------
    before, after
        The two worlds; they have nothing to do with each other unless you see to it. The same contexts with another
        reward function: two `SyntheticRKHS` with fresh contexts; or with `fixed_actions` and the same `action_seed`.
    change_at
        Rounds before the change; 0 for none.
    gradual
        Rounds that the change takes; 0 changes all at once.

    Examples
    --------
    >>> from kernelbandits.environments import SyntheticRKHS
    >>> from kernelbandits.kernels import Gaussian
    >>> half = SyntheticRKHS(Gaussian(length_scale=0.3), n_actions=5, n_features=1, fixed_actions=True, action_seed=7)
    >>> world = Drifting(half, half, change_at=2).start(np.random.default_rng(1))
    >>> first, second, third = (world.show() for _ in range(3))
    >>> bool((first.contexts == third.contexts).all()), bool((first.expected == third.expected).all())
    (True, False)
    """

    before: Environment
    after: Environment
    _: KW_ONLY
    change_at: int
    gradual: int = 0

    def __post_init__(self) -> None:
        for environment, name in ((self.before, "The environment before"), (self.after, "The environment after")):
            an_object(environment, name, "start", "describe", way_out="Clustered(n_actions=3) is one.")
        if isinstance(self.before, Delayed) or isinstance(self.after, Delayed):
            raise InvalidParameter(
                "A world that changes does not pass on how late a reward is. Wrap the delay around the change: "
                "Delayed(Drifting(...), delay=...)."
            )
        object.__setattr__(self, "change_at", a_count(self.change_at, "The round of the change", least=0, most=maxsize))
        object.__setattr__(
            self, "gradual", a_count(self.gradual, "The length of a gradual change", least=0, most=maxsize)
        )

    @property
    def reward_range(self) -> tuple[float, float] | None:
        """What either world can pay; None where one of them has no bounds."""
        first, second = self.before.reward_range, self.after.reward_range
        if first is None or second is None:
            return None
        return min(first[0], second[0]), max(first[1], second[1])

    def start(self, rng: np.random.Generator) -> DriftingWorld:
        """Begin a run of both worlds; they and the turns have a generator each. It foresees what both foresee."""
        before_rng, after_rng, turn_rng = rng.spawn(3)
        before, after = self.before.start(before_rng), self.after.start(after_rng)
        turns = self._turns(turn_rng)
        if isinstance(before, ForeseeableWorld) and isinstance(after, ForeseeableWorld):
            return _ForeseeableDriftingWorld(before, after, turns)
        return DriftingWorld(before, after, turns)

    def _turns(self, rng: np.random.Generator) -> Iterator[bool]:
        """Whether a round is the later world's, round after round."""
        mixed = (bool(rng.random() < i / (self.gradual + 1)) for i in range(1, self.gradual + 1))
        return chain(repeat(False, self.change_at), mixed, repeat(True))

    def describe(self) -> Parameters:
        """Class and parameters as plain values."""
        return {
            "class": type(self).__name__,
            "before": self.before.describe(),
            "after": self.after.describe(),
            "change_at": self.change_at,
            "gradual": self.gradual,
        }


class DriftingWorld:
    """One run of `Drifting`."""

    def __init__(self, before: World, after: World, turns: Iterator[bool]) -> None:
        self.before, self.after = before, after
        """Runs of the two worlds, for what these can tell."""
        self._turns = turns
        self._shown: World | None = None

    def show(self) -> Round:
        """Show the next round, of whichever world it is."""
        world = self._world(next(self._turns))
        shown = world.show()
        self._shown = world
        return shown

    def pay(self, action: int) -> float:
        """Reward of that action in the round last shown."""
        if self._shown is None:
            raise DecisionError("No round has been shown yet, so there is nothing to pay for. Call show() first.")
        return self._shown.pay(action)

    def _world(self, is_after: bool) -> World:
        return self.after if is_after else self.before


class _ForeseeableDriftingWorld(DriftingWorld):
    before: ForeseeableWorld
    after: ForeseeableWorld

    def foresee(self, n_rounds: int) -> list[tuple[Round, Vector]]:
        """The next rounds with what every action pays, as if each had been shown."""
        foreseen: list[tuple[Round, Vector]] = []
        for is_after, turns in groupby(islice(self._turns, n_rounds)):
            world = self.after if is_after else self.before
            asked = len(list(turns))
            seen = world.foresee(asked)
            foreseen += seen
            if seen:
                self._shown = world
            if len(seen) < asked:
                break
        return foreseen
