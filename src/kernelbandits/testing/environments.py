"""Contract tests of environments."""

from __future__ import annotations

import json
from collections.abc import Iterator
from math import isfinite, isnan
from typing import ClassVar

import numpy as np
import pytest

from kernelbandits.environments.base import BatchWorld, Environment, Round, World, n_points, row_of
from kernelbandits.selection import Catalog, CatalogView
from kernelbandits.types import Pairs, Points

__all__ = ["EnvironmentContract"]


class EnvironmentContract:
    """Contract of environments: reproducible runs, rewards that match expectations, noise independent of actions.

    Derive a test class from it, and supply the `environment` fixture:

    ```python
    class TestMyWorld(EnvironmentContract):
        @pytest.fixture
        def environment(self):
            return MyWorld()
    ```
    """

    n_rounds: ClassVar[int] = 20
    """Number of rounds over which two runs are compared; fewer if the world ends earlier."""

    n_payments: ClassVar[int] = 2_000
    """Number of rounds whose rewards are compared with their expectation; fewer if the world ends earlier."""

    standard_errors: ClassVar[float] = 5.0
    """Tolerance of a mean in standard errors: a correct world fails for one in two million seeds, which are fixed."""

    pays_unknown: ClassVar[bool] = False
    """Whether a reward may be nan (unknown); True for environments from logged data."""

    def test_the_same_seed_gives_the_same_world(self, environment: Environment) -> None:
        first = _play(environment.start(np.random.default_rng(11)), self.n_rounds)
        second = _play(environment.start(np.random.default_rng(11)), self.n_rounds)

        assert len(first) == len(second) > 0
        for (shown, paid), (shown_again, paid_again) in zip(first, second, strict=True):
            assert _same_points(shown.contexts, shown_again.contexts)
            assert shown.ids == shown_again.ids
            assert _same_points(shown.expected, shown_again.expected)
            assert _same_rewards(paid, paid_again)

    def test_luck_does_not_depend_on_the_action(self, environment: Environment) -> None:
        """Rewards are the same if only the first action is queried, or all of them in reverse order."""
        patient = environment.start(np.random.default_rng(12))
        curious = environment.start(np.random.default_rng(12))

        for shown, again in zip(_rounds(patient, self.n_rounds), _rounds(curious, self.n_rounds), strict=True):
            rewards = [curious.reward(action) for action in reversed(_actions(again))]
            assert _same_points(shown.contexts, again.contexts)
            assert _same_rewards([patient.reward(_actions(shown)[0])], rewards[-1:])

    def test_paying_twice_changes_nothing(self, environment: Environment) -> None:
        world = environment.start(np.random.default_rng(13))
        shown = world.observe()

        assert _same_rewards(_pay_all(world, shown), _pay_all(world, shown))

    def test_expectations_match_payments(self, environment: Environment) -> None:
        world = environment.start(np.random.default_rng(14))
        chooser = np.random.default_rng(15)
        surprises = []
        for shown in _rounds(world, self.n_payments):
            if shown.expected is None:
                pytest.skip("this world does not know its expectations")
            place = int(chooser.integers(len(shown.expected)))
            surprises.append(world.reward(row_of(shown.contexts, place)) - shown.expected[place])

        error = np.std(surprises) / np.sqrt(len(surprises))
        assert abs(np.mean(surprises)) <= self.standard_errors * error + 1e-12

    def test_rewards_are_finite_and_in_range(self, environment: Environment) -> None:
        low, high = environment.reward_range or (-np.inf, np.inf)

        for _, paid in _play(environment.start(np.random.default_rng(16)), self.n_rounds):
            known = [reward for reward in paid if not (self.pays_unknown and isnan(reward))]
            assert all(isfinite(reward) and low <= reward <= high for reward in known)

    def test_expectations_are_one_per_action(self, environment: Environment) -> None:
        for shown in _rounds(environment.start(np.random.default_rng(17)), self.n_rounds):
            n_actions = n_points(shown.contexts)
            assert shown.ids is None or len(shown.ids) == n_actions
            assert shown.expected is None or shown.expected.shape == (n_actions,)

    def test_paying_before_a_round_is_shown_is_refused(self, environment: Environment) -> None:
        world = environment.start(np.random.default_rng(18))

        with pytest.raises(ValueError, match="observe"):
            world.reward(0)

    @pytest.mark.parametrize("beyond", ["below", "above"])
    def test_an_action_that_was_not_shown_is_refused(self, environment: Environment, beyond: str) -> None:
        world = environment.start(np.random.default_rng(19))
        shown = world.observe()

        with pytest.raises(ValueError, match="action"):
            world.reward(-1 if beyond == "below" else _actions(shown)[-1] + 1)

    def test_two_runs_do_not_disturb_each_other(self, environment: Environment) -> None:
        alone = _play(environment.start(np.random.default_rng(20)), self.n_rounds)
        ours = environment.start(np.random.default_rng(20))
        other = environment.start(np.random.default_rng(21))

        for (shown, paid), again in zip(alone, _rounds(ours, self.n_rounds), strict=True):
            next(_rounds(other, 1), None)
            assert _same_points(shown.contexts, again.contexts)
            assert _same_rewards(paid, _pay_all(ours, again))

    def test_foreseen_rounds_are_those_that_would_be_shown(self, environment: Environment) -> None:
        world = environment.start(np.random.default_rng(22))
        if not isinstance(world, BatchWorld):
            pytest.skip("this world has no look-ahead")
        shown_one_by_one = _play(environment.start(np.random.default_rng(22)), self.n_rounds + 2)

        peeked = world.peek_rounds(self.n_rounds)
        latest = _pay_all(world, peeked[-1][0])
        peeked += [(shown, np.array(paid)) for shown, paid in _play(world, 2)]

        assert len(peeked) == len(shown_one_by_one)
        assert _same_rewards(latest, shown_one_by_one[min(self.n_rounds, len(peeked)) - 1][1])
        for (shown, paid), (shown_again, paid_again) in zip(peeked, shown_one_by_one, strict=True):
            assert _same_points(shown.contexts, shown_again.contexts)
            assert shown.ids == shown_again.ids
            assert _same_points(shown.expected, shown_again.expected)
            assert _same_rewards(list(paid), paid_again)

    def test_the_description_is_plain(self, environment: Environment) -> None:
        description = environment.describe()

        assert json.loads(json.dumps(description)) == description
        assert description["class"] == type(environment).__name__


def _rounds(world: World, most: int) -> Iterator[Round]:
    """Yield the next rounds of a world, at most `most`."""
    for _ in range(most):
        try:
            yield world.observe()
        except StopIteration:
            return


def _play(world: World, most: int) -> list[tuple[Round, list[float]]]:
    """Return rounds with the rewards of all their actions."""
    return [(shown, _pay_all(world, shown)) for shown in _rounds(world, most)]


def _pay_all(world: World, shown: Round) -> list[float]:
    return [world.reward(action) for action in _actions(shown)]


def _same_rewards(first: list[float], second: list[float]) -> bool:
    """Whether both are equal, with nan equal to nan."""
    return np.array_equal(first, second, equal_nan=True)


def _actions(shown: Round) -> list[int]:
    """Return the actions of a round, in the form of `Decision.action`."""
    return [row_of(shown.contexts, place) for place in range(n_points(shown.contexts))]


def _same_points(first: Points, second: Points) -> bool:
    if isinstance(first, Pairs):
        return _same_points(first.context, second.context) and _same_points(first.actions, second.actions)
    if isinstance(first, CatalogView):
        is_same_part = np.array_equal(first.rows, second.rows) and _same_points(first.context, second.context)
        return is_same_part and _same_points(first.catalog, second.catalog)
    if isinstance(first, Catalog):
        return first.ids == second.ids and _same_points(first.points(first.kind), second.points(first.kind))
    if hasattr(first, "toarray"):
        first, second = first.toarray(), second.toarray()
    return np.array_equal(first, second) if isinstance(first, np.ndarray) else bool(first == second)
