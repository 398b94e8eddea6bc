import numpy as np
import pytest

from kernelbandits.environments import DrawnRounds, Round
from kernelbandits.errors import DecisionError

ROUNDS = [
    (Round(np.eye(3)), np.array([0.1, 0.2, 0.3])),
    (Round(["left", "right"], ids=["l", "r"]), np.array([1.0, -1.0])),
]


def test_it_pays_what_was_drawn_for_the_round_last_shown():
    world = DrawnRounds(iter(ROUNDS))

    assert world.show() is ROUNDS[0][0]
    assert world.pay(2) == 0.3
    assert world.show().ids == ["l", "r"]
    assert world.pay(np.int64(1)) == -1.0


def test_it_stops_when_there_are_no_more_rounds():
    world = DrawnRounds(iter(ROUNDS))
    world.show()
    world.show()

    with pytest.raises(StopIteration):
        world.show()


def test_nothing_is_paid_before_a_round_is_shown():
    with pytest.raises(DecisionError, match=r"Call show\(\) first"):
        DrawnRounds(iter(ROUNDS)).pay(0)


@pytest.mark.parametrize("action", [-1, 3])
def test_an_action_that_was_not_shown_is_refused(action):
    world = DrawnRounds(iter(ROUNDS))
    world.show()

    with pytest.raises(DecisionError, match=f"actions 0 to 2, got action {action}"):
        world.pay(action)


def test_an_action_is_a_whole_number():
    world = DrawnRounds(iter(ROUNDS))
    world.show()

    with pytest.raises(TypeError):
        world.pay(0.5)
