import numpy as np
import pytest

from kernelbandits.environments import DrawnRounds, Round
from kernelbandits.errors import DecisionError

ROUNDS = [
    (Round(np.eye(3)), np.array([0.1, 0.2, 0.3])),
    (Round(["left", "right"], ids=["l", "r"]), np.array([1.0, -1.0])),
]


def test_it_pays_what_was_drawn_for_the_last_observed_round():
    world = DrawnRounds(iter(ROUNDS))

    assert world.observe() is ROUNDS[0][0]
    assert world.reward(2) == 0.3
    assert world.observe().ids == ["l", "r"]
    assert world.reward(np.int64(1)) == -1.0


def test_it_stops_when_there_are_no_more_rounds():
    world = DrawnRounds(iter(ROUNDS))
    world.observe()
    world.observe()

    with pytest.raises(StopIteration):
        world.observe()


def test_nothing_is_paid_before_a_round_is_observed():
    with pytest.raises(DecisionError, match=r"Call observe\(\) first"):
        DrawnRounds(iter(ROUNDS)).reward(0)


@pytest.mark.parametrize("action", [-1, 3])
def test_an_action_that_was_not_observed_is_rejected(action):
    world = DrawnRounds(iter(ROUNDS))
    world.observe()

    with pytest.raises(DecisionError, match=f"actions 0 to 2, got action {action}"):
        world.reward(action)


def test_an_action_is_a_whole_number():
    world = DrawnRounds(iter(ROUNDS))
    world.observe()

    with pytest.raises(TypeError):
        world.reward(0.5)
