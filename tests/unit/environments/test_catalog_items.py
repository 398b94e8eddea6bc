import numpy as np
import pytest
from scipy.sparse import csr_array

from kernelbandits.environments.catalog import Items, described_numbers
from kernelbandits.errors import InvalidContexts

ROWS = np.array([[0.5, -1.0], [2.0, 0.0], [0.25, 3.0]])


class Tree:
    def __init__(self, size):
        self.size = size

    def __repr__(self):
        return f"Tree({self.size})"


@pytest.mark.parametrize(
    "points",
    [ROWS, csr_array(ROWS), ["ab", "b", ""], [1, "one", 3], [{1, 2}, {"x"}, set()], [Tree(1), Tree(2), Tree(3)]],
)
def test_points_of_every_kind_are_taken_by_number(points):
    items = Items.of(points)

    taken = items.take(np.array([2, 0]))

    assert len(items) == 3
    for place, row in enumerate([2, 0]):
        expected, found = points[[row]] if hasattr(points, "tocsr") else points[row], items.kind.one(taken, place)
        same = expected.toarray() == found.toarray() if hasattr(points, "tocsr") else expected == found
        assert np.all(same)


@pytest.mark.parametrize("points", [ROWS, csr_array(ROWS), ["ab", "b", ""], [1, "one", 3], [Tree(1), Tree(2), Tree(3)]])
def test_equal_points_have_equal_descriptions_and_others_do_not(points):
    rows = [1, 0, 2]
    reordered = points[rows] if hasattr(points, "shape") else [points[row] for row in rows]

    description = Items.of(points).describe()

    assert Items.of(points).describe() == description
    assert Items.of(reordered).describe() != description


def test_what_the_caller_does_with_an_array_does_not_matter():
    rows = ROWS.copy()
    items = Items.of(rows)

    rows[0, 0] = 99.0

    assert items.points[0, 0] == 0.5
    with pytest.raises(ValueError, match="read-only"):
        items.points[0, 0] = 1.0


@pytest.mark.parametrize("points", [[[1.0, np.nan]], [[1.0], [2.0, 3.0]], np.empty((0, 2)), []])
def test_what_is_no_collection_of_points_is_rejected(points):
    with pytest.raises(InvalidContexts):
        Items.of(points)


def test_numbers_are_described_by_length_and_content():
    description = described_numbers(np.array([1.0, 2.5]))

    assert description["shape"] == [2]
    assert described_numbers(np.array([1.0, 2.5])) == description
    assert described_numbers(np.array([2.5, 1.0])) != description
