"""A world that tells its rewards later."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, TypeAlias

import numpy as np

from kernelbandits.checks import a_count, an_object, shown
from kernelbandits.environments.base import Environment, Round, World
from kernelbandits.errors import DecisionError, InvalidParameter
from kernelbandits.kernels.wrap import function_name
from kernelbandits.types import Parameters

__all__ = ["Delay", "Delayed", "DelayedWorld"]

Delay: TypeAlias = int | tuple[int, int] | Callable[[np.random.Generator], int]


@dataclass(frozen=True)
class Delayed:
    """Another world, whose rewards are told some rounds after the choice.

    A reward of round t with delay d > 0 is told at the start of round t + d, before that round's choice; 0 tells it at
    once. So a delay of 1 keeps no choice waiting, and with a delay of d, d − 1 choices are made without the reward.
    Delays do not depend on what is chosen. Contexts, luck and expected rewards are those of the other world under the
    same seed. Wrap it around all others: `Drifting` refuses it inside, since it would not pass delays on.

    Parameters
    ----------
    environment
        The world whose rewards come late.
    delay
        Rounds: one number for all; (low, high), both included, for uniform draws; or a function from a random generator
        to a number, described by its name: a study takes one that is defined at the top of a module, or an object with
        `describe()`.

    Examples
    --------
    >>> from kernelbandits.environments import Clustered
    >>> world = Delayed(Clustered(n_actions=3), delay=(2, 5)).start(np.random.default_rng(0))
    >>> shown = world.show()
    >>> world.delay() in (2, 3, 4, 5)
    True
    """

    environment: Environment
    _: KW_ONLY
    delay: Delay

    def __post_init__(self) -> None:
        an_object(self.environment, "The environment", "start", "describe", way_out="Clustered(n_actions=3) is one.")
        if isinstance(self.environment, Delayed):
            raise InvalidParameter("This world tells its rewards late already. Give the sum of both delays once.")
        if not callable(self.delay):
            object.__setattr__(self, "delay", _checked(self.delay))

    @property
    def reward_range(self) -> tuple[float, float] | None:
        """What the other world pays."""
        return self.environment.reward_range

    def start(self, rng: np.random.Generator) -> DelayedWorld:
        """Begin a run of the other world, as it would begin alone; delays have a generator of their own."""
        world = self.environment.start(rng)
        (delay_rng,) = rng.spawn(1)
        return DelayedWorld(world, lambda: self._draw(delay_rng))

    def describe(self) -> Parameters:
        """Class and parameters as plain values."""
        described = {"class": type(self).__name__, "environment": self.environment.describe()}
        return {**described, "delay": _described(self.delay)}

    def _draw(self, rng: np.random.Generator) -> int:
        if callable(self.delay):
            return a_count(self.delay(rng), "A delay", least=0)
        if isinstance(self.delay, tuple):
            return int(rng.integers(*self.delay, endpoint=True))
        return self.delay


class DelayedWorld:
    """One run of `Delayed`."""

    def __init__(self, world: World, draw: Callable[[], int]) -> None:
        self.world = world
        """Run of the other world, for what it can tell."""
        self._draw = draw
        self._delay: int | None = None

    def show(self) -> Round:
        """Show the next round, and draw how late its reward will be."""
        shown = self.world.show()
        self._delay = self._draw()
        return shown

    def pay(self, action: int) -> float:
        """Reward of that action in the round last shown."""
        return self.world.pay(action)

    def delay(self) -> int:
        """In how many rounds the reward of the round last shown is told."""
        if self._delay is None:
            raise DecisionError("No round has been shown yet, so no reward is on its way. Call show() first.")
        return self._delay


def _described(delay: Any) -> Any:
    """The delay as plain values."""
    if hasattr(delay, "describe"):
        return delay.describe()
    if callable(delay):
        return function_name(delay)
    return list(delay) if isinstance(delay, tuple) else delay


def _checked(delay: Any) -> int | tuple[int, int]:
    if not isinstance(delay, tuple | list):
        return a_count(delay, "A delay", least=0)
    if len(delay) != 2:
        raise InvalidParameter(f"A range of delays is two numbers, (low, high), got {shown(delay)}.")
    low, high = (a_count(end, "An end of the range of delays", least=0) for end in delay)
    if low > high:
        raise InvalidParameter(f"A range of delays is given lower end first, got {shown(delay)}.")
    return low, high
