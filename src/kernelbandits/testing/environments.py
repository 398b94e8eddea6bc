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
        for (observed, paid), (observed_again, paid_again) in zip(first, second, strict=True):
            assert _same_points(observed.contexts, observed_again.contexts)
            assert observed.ids == observed_again.ids
            assert _same_points(observed.expected, observed_again.expected)
            assert _same_rewards(paid, paid_again)

    def test_noise_does_not_depend_on_the_action(self, environment: Environment) -> None:
        """Rewards are the same if only the first action is queried, or all of them in reverse order."""
        patient = environment.start(np.random.default_rng(12))
        curious = environment.start(np.random.default_rng(12))

        for observed, again in zip(_rounds(patient, self.n_rounds), _rounds(curious, self.n_rounds), strict=True):
            rewards = [curious.reward(action) for action in reversed(_actions(again))]
            assert _same_points(observed.contexts, again.contexts)
            assert _same_rewards([patient.reward(_actions(observed)[0])], rewards[-1:])

    def test_reading_a_reward_twice_changes_nothing(self, environment: Environment) -> None:
        world = environment.start(np.random.default_rng(13))
        observed = world.observe()

        assert _same_rewards(_pay_all(world, observed), _pay_all(world, observed))

    def test_expectations_match_rewards(self, environment: Environment) -> None:
        world = environment.start(np.random.default_rng(14))
        chooser = np.random.default_rng(15)
        surprises = []
        for observed in _rounds(world, self.n_payments):
            if observed.expected is None:
                pytest.skip("this world does not know its expectations")
            place = int(chooser.integers(len(observed.expected)))
            surprises.append(world.reward(row_of(observed.contexts, place)) - observed.expected[place])

        error = np.std(surprises) / np.sqrt(len(surprises))
        assert abs(np.mean(surprises)) <= self.standard_errors * error + 1e-12

    def test_rewards_are_finite_and_in_range(self, environment: Environment) -> None:
        low, high = environment.reward_range or (-np.inf, np.inf)

        for _, paid in _play(environment.start(np.random.default_rng(16)), self.n_rounds):
            known = [reward for reward in paid if not (self.pays_unknown and isnan(reward))]
            assert all(isfinite(reward) and low <= reward <= high for reward in known)

    def test_expectations_are_one_per_action(self, environment: Environment) -> None:
        for observed in _rounds(environment.start(np.random.default_rng(17)), self.n_rounds):
            n_actions = n_points(observed.contexts)
            assert observed.ids is None or len(observed.ids) == n_actions
            assert observed.expected is None or observed.expected.shape == (n_actions,)

    def test_a_reward_before_the_first_round_is_rejected(self, environment: Environment) -> None:
        world = environment.start(np.random.default_rng(18))

        with pytest.raises(ValueError, match="observe"):
            world.reward(0)

    @pytest.mark.parametrize("beyond", ["below", "above"])
    def test_an_action_that_was_not_observed_is_rejected(self, environment: Environment, beyond: str) -> None:
        world = environment.start(np.random.default_rng(19))
        observed = world.observe()

        with pytest.raises(ValueError, match="action"):
            world.reward(-1 if beyond == "below" else _actions(observed)[-1] + 1)

    def test_two_runs_do_not_disturb_each_other(self, environment: Environment) -> None:
        alone = _play(environment.start(np.random.default_rng(20)), self.n_rounds)
        ours = environment.start(np.random.default_rng(20))
        other = environment.start(np.random.default_rng(21))

        for (observed, paid), again in zip(alone, _rounds(ours, self.n_rounds), strict=True):
            next(_rounds(other, 1), None)
            assert _same_points(observed.contexts, again.contexts)
            assert _same_rewards(paid, _pay_all(ours, again))

    def test_peeked_rounds_are_those_that_would_be_observed(self, environment: Environment) -> None:
        world = environment.start(np.random.default_rng(22))
        if not isinstance(world, BatchWorld):
            pytest.skip("this world has no look-ahead")
        observed_one_by_one = _play(environment.start(np.random.default_rng(22)), self.n_rounds + 2)

        peeked = world.peek_rounds(self.n_rounds)
        latest = _pay_all(world, peeked[-1][0])
        peeked += [(observed, np.array(paid)) for observed, paid in _play(world, 2)]

        assert len(peeked) == len(observed_one_by_one)
        assert _same_rewards(latest, observed_one_by_one[min(self.n_rounds, len(peeked)) - 1][1])
        for (observed, paid), (observed_again, paid_again) in zip(peeked, observed_one_by_one, strict=True):
            assert _same_points(observed.contexts, observed_again.contexts)
            assert observed.ids == observed_again.ids
            assert _same_points(observed.expected, observed_again.expected)
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
    return [(observed, _pay_all(world, observed)) for observed in _rounds(world, most)]


def _pay_all(world: World, observed: Round) -> list[float]:
    return [world.reward(action) for action in _actions(observed)]


def _same_rewards(first: list[float], second: list[float]) -> bool:
    """Whether both are equal, with nan equal to nan."""
    return np.array_equal(first, second, equal_nan=True)


def _actions(observed: Round) -> list[int]:
    """Return the actions of a round, in the form of `Decision.action`."""
    return [row_of(observed.contexts, place) for place in range(n_points(observed.contexts))]


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
