"""Environment wrappers: delayed feedback and drift."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass
from itertools import chain, groupby, islice, repeat
from sys import maxsize
from typing import Any, TypeAlias

import numpy as np

from kernelbandits.environments.base import BatchWorld, Environment, Round, World
from kernelbandits.errors import DecisionError, InvalidParameter
from kernelbandits.kernels.wrappers import function_name
from kernelbandits.types import Parameters, Vector
from kernelbandits.validation import check_has_methods, check_int, short_repr

__all__ = ["Delay", "Delayed", "DelayedWorld", "Drifting", "DriftingWorld"]

Delay: TypeAlias = int | tuple[int, int] | Callable[[np.random.Generator], int]


@dataclass(frozen=True)
class Delayed:
    """Wrapper with delayed rewards.

    A reward of round t with delay d > 0 is reported at the start of round t + d, before that round's choice; with delay
    0 it is reported at once. So a delay of 1 does not affect any choice, and with a delay of d, d − 1 choices are made
    without the reward. Delays do not depend on the choices. Contexts, noise and expected rewards are those of the
    wrapped environment under the same seed. Use it as the outermost wrapper: `Drifting` rejects it, since it would not
    forward delays.

    Parameters
    ----------
    environment
        The environment whose rewards are delayed.
    delay
        Number of rounds: one number for all; (low, high), both included, for uniform draws; or a function from a random
        generator to a number, described by its name. A study requires a function defined at module level, or an object
        with `describe()`.

    Examples
    --------
    >>> from kernelbandits.environments import Clustered
    >>> world = Delayed(Clustered(n_actions=3), delay=(2, 5)).start(np.random.default_rng(0))
    >>> observed = world.observe()
    >>> world.delay() in (2, 3, 4, 5)
    True
    """

    environment: Environment
    _: KW_ONLY
    delay: Delay

    def __post_init__(self) -> None:
        check_has_methods(
            self.environment, "The environment", "start", "describe", hint="Clustered(n_actions=3) is one."
        )
        if isinstance(self.environment, Delayed):
            raise InvalidParameter("This environment is delayed already. Use one wrapper with the sum of both delays.")
        if not callable(self.delay):
            object.__setattr__(self, "delay", _checked(self.delay))

    @property
    def reward_range(self) -> tuple[float, float] | None:
        """Reward range of the wrapped environment."""
        return self.environment.reward_range

    def start(self, rng: np.random.Generator) -> DelayedWorld:
        """Start a run of the wrapped environment, as it would start alone; delays have a separate generator."""
        world = self.environment.start(rng)
        (delay_rng,) = rng.spawn(1)
        return DelayedWorld(world, lambda: self._draw(delay_rng))

    def describe(self) -> Parameters:
        """Return class and parameters as plain values."""
        described = {"class": type(self).__name__, "environment": self.environment.describe()}
        return {**described, "delay": _described(self.delay)}

    def _draw(self, rng: np.random.Generator) -> int:
        if callable(self.delay):
            return check_int(self.delay(rng), "A delay", least=0)
        if isinstance(self.delay, tuple):
            return int(rng.integers(*self.delay, endpoint=True))
        return self.delay


class DelayedWorld:
    """One run of `Delayed`."""

    def __init__(self, world: World, draw: Callable[[], int]) -> None:
        self.world = world
        """Run of the wrapped environment."""
        self._draw = draw
        self._delay: int | None = None

    def observe(self) -> Round:
        """Return the next round, and draw the delay of its reward."""
        observed = self.world.observe()
        self._delay = self._draw()
        return observed

    def reward(self, action: int) -> float:
        """Return the reward of an action in the last observed round."""
        return self.world.reward(action)

    def delay(self) -> int:
        """Return the delay of the reward of the last observed round, in rounds."""
        if self._delay is None:
            raise DecisionError("There is no delayed reward yet. Call observe() first.")
        return self._delay


def _described(delay: Any) -> Any:
    """Return the delay as plain values."""
    if hasattr(delay, "describe"):
        return delay.describe()
    if callable(delay):
        return function_name(delay)
    return list(delay) if isinstance(delay, tuple) else delay


def _checked(delay: Any) -> int | tuple[int, int]:
    if not isinstance(delay, tuple | list):
        return check_int(delay, "A delay", least=0)
    if len(delay) != 2:
        raise InvalidParameter(f"A range of delays is two numbers, (low, high), got {short_repr(delay)}.")
    low, high = (check_int(end, "An end of the range of delays", least=0) for end in delay)
    if low > high:
        raise InvalidParameter(f"A range of delays is given lower end first, got {short_repr(delay)}.")
    return low, high


@dataclass(frozen=True)
class Drifting:
    """One environment for the first `change_at` rounds, another one afterwards, with an abrupt or gradual change.

    Every round belongs to one of the two as a whole: contexts, expected rewards and noise. During a gradual change,
    each of the next `gradual` rounds is taken from `after` with a probability that grows linearly, i/(gradual + 1) in
    the i-th of them. Nothing is interpolated, so any two environments can be combined. The assignment of rounds is
    drawn from the seed and does not depend on actions. A world does not advance while the other one is shown; when the
    active one ends, the run ends.

    Parameters
    ----------
    before, after
        The two environments; by default they are independent. For the same contexts with another reward function, use
        two `SyntheticRKHS` with contexts redrawn each round; or with `fixed_actions` and the same `action_seed`.
    change_at
        Number of rounds before the change; 0 for none.
    gradual
        Number of rounds of the transition; 0 for an abrupt change.

    Examples
    --------
    >>> from kernelbandits.environments import SyntheticRKHS
    >>> from kernelbandits.kernels import Gaussian
    >>> half = SyntheticRKHS(Gaussian(length_scale=0.3), n_actions=5, n_features=1, fixed_actions=True, action_seed=7)
    >>> world = Drifting(half, half, change_at=2).start(np.random.default_rng(1))
    >>> first, second, third = (world.observe() for _ in range(3))
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
            check_has_methods(environment, name, "start", "describe", hint="Clustered(n_actions=3) is one.")
        if isinstance(self.before, Delayed) or isinstance(self.after, Delayed):
            raise InvalidParameter(
                "A world that changes does not pass on how late a reward is. Wrap the delay around the change: "
                "Delayed(Drifting(...), delay=...)."
            )
        object.__setattr__(
            self, "change_at", check_int(self.change_at, "The round of the change", least=0, most=maxsize)
        )
        object.__setattr__(
            self, "gradual", check_int(self.gradual, "The length of a gradual change", least=0, most=maxsize)
        )

    @property
    def reward_range(self) -> tuple[float, float] | None:
        """Range of rewards of both environments; None if one of them is unbounded."""
        first, second = self.before.reward_range, self.after.reward_range
        if first is None or second is None:
            return None
        return min(first[0], second[0]), max(first[1], second[1])

    def start(self, rng: np.random.Generator) -> DriftingWorld:
        """Start a run of both environments, with separate generators; it has look-ahead if both have it."""
        before_rng, after_rng, turn_rng = rng.spawn(3)
        before, after = self.before.start(before_rng), self.after.start(after_rng)
        turns = self._turns(turn_rng)
        if isinstance(before, BatchWorld) and isinstance(after, BatchWorld):
            return _ForeseeableDriftingWorld(before, after, turns)
        return DriftingWorld(before, after, turns)

    def _turns(self, rng: np.random.Generator) -> Iterator[bool]:
        """Yield, for every round, whether it belongs to the later world."""
        mixed = (bool(rng.random() < i / (self.gradual + 1)) for i in range(1, self.gradual + 1))
        return chain(repeat(False, self.change_at), mixed, repeat(True))

    def describe(self) -> Parameters:
        """Return class and parameters as plain values."""
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
        """Runs of the two environments."""
        self._turns = turns
        self._observed: World | None = None

    def observe(self) -> Round:
        """Return the next round of the active world."""
        world = self._world(next(self._turns))
        observed = world.observe()
        self._observed = world
        return observed

    def reward(self, action: int) -> float:
        """Return the reward of an action in the last observed round."""
        if self._observed is None:
            raise DecisionError("There is no round to reward yet. Call observe() first.")
        return self._observed.reward(action)

    def _world(self, is_after: bool) -> World:
        return self.after if is_after else self.before


class _ForeseeableDriftingWorld(DriftingWorld):
    before: BatchWorld
    after: BatchWorld

    def peek_rounds(self, n_rounds: int) -> list[tuple[Round, Vector]]:
        """Return the next rounds with the rewards of all actions; they count as observed."""
        rounds: list[tuple[Round, Vector]] = []
        for is_after, turns in groupby(islice(self._turns, n_rounds)):
            world = self.after if is_after else self.before
            n_needed = len(list(turns))
            seen = world.peek_rounds(n_needed)
            rounds += seen
            if seen:
                self._observed = world
            if len(seen) < n_needed:
                break
        return rounds
