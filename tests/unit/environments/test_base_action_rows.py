import numpy as np
import pytest
from scipy.sparse import csr_array

from kernelbandits.environments import DrawnRounds, Round
from kernelbandits.environments.base import n_points, place_of, row_of
from kernelbandits.errors import DecisionError
from kernelbandits.selection import Catalog
from kernelbandits.types import Pairs

CATALOG = Catalog(np.eye(12))


@pytest.mark.parametrize(
    ("contexts", "count"),
    [
        (np.eye(3), 3),
        (csr_array(np.eye(3)), 3),
        (["a", "b"], 2),
        (Pairs([0.5], ["a", "b"]), 2),
        (Pairs([0.5], np.eye(4)), 4),
        (CATALOG, 12),
        (CATALOG.only([3, 7]), 2),
        (CATALOG.given([0.5]), 12),
    ],
)
def test_actions_are_counted_whatever_they_are(contexts, count):
    assert n_points(contexts) == count
    assert [place_of(contexts, row_of(contexts, place)) for place in range(count)] == list(range(count))


def test_a_part_of_a_catalog_names_actions_by_their_rows_in_the_whole():
    part = CATALOG.only([7, 3, 10])

    assert [row_of(part, place) for place in range(3)] == [3, 7, 10]
    assert [place_of(part, row) for row in (3, 7, 10)] == [0, 1, 2]


@pytest.mark.parametrize("row", [0, 4, 11, -1])
def test_a_row_that_the_part_leaves_out_is_rejected(row):
    with pytest.raises(DecisionError, match=rf"rows \[3, 7\] of its catalog as actions, got action {row}"):
        place_of(CATALOG.only([3, 7]), row)


def test_a_long_part_is_reported_in_short():
    with pytest.raises(DecisionError, match=r"rows \[1, 2, 3, 4, 5, 6, 7, 8\] and others"):
        place_of(CATALOG.without([0]), 0)


def test_a_drawn_world_pays_the_action_that_a_decision_names():
    part = CATALOG.only([1, 2, 3])
    world = DrawnRounds(iter([(Round(part), np.array([0.1, 0.2, 0.3]))]))
    world.observe()

    assert [world.reward(row) for row in (1, 2, 3)] == [0.1, 0.2, 0.3]
    with pytest.raises(DecisionError, match="got action 0"):
        world.reward(0)
