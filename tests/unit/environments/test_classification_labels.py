import numpy as np
import pytest

from kernelbandits.environments.classification import coded_labels
from kernelbandits.errors import InvalidParameter


@pytest.mark.parametrize(
    ("labels", "classes", "codes"),
    [
        (["b", "a", "b"], ["a", "b"], [1, 0, 1]),
        (np.array(["b", "a"]), ["a", "b"], [1, 0]),
        (np.array([10, 2, 10], dtype=np.uint8), [2, 10], [1, 0, 1]),
        ([10.0, 2.0], [2, 10], [1, 0]),
        ([True, False], [0, 1], [1, 0]),
        ((0.5, -1.5), ["-1.5", "0.5"], [1, 0]),
        (np.array(["x", 3], dtype=object), ["3", "x"], [1, 0]),
    ],
)
def test_labels_become_sorted_classes_and_their_places(labels, classes, codes):
    found, places = coded_labels(labels)

    assert found == classes
    assert [type(label) for label in found] == [type(label) for label in classes]
    assert places.tolist() == codes


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_series_are_labels_too(library):
    series = pytest.importorskip(library).Series(["b", "a"])

    assert coded_labels(series)[0] == ["a", "b"]


def test_an_arrow_column_is_labels_too():
    column = pytest.importorskip("pyarrow").chunked_array([[2, 1], [2]])

    assert coded_labels(column)[1].tolist() == [1, 0, 1]


@pytest.mark.parametrize("missing", [None, np.nan])
def test_a_missing_label_is_rejected_and_named(missing):
    with pytest.raises(InvalidParameter, match="label of row 1 is missing"):
        coded_labels(["a", missing, "b"])


@pytest.mark.parametrize("labels", [["a", "a"], []])
def test_one_class_is_no_choice(labels):
    with pytest.raises(InvalidParameter, match="at least two classes"):
        coded_labels(labels)


@pytest.mark.parametrize(("labels", "message"), [("ab", "sequence"), (7, "sequence"), (np.eye(2), "one column")])
def test_what_is_no_column_of_labels_is_rejected(labels, message):
    with pytest.raises(InvalidParameter, match=message):
        coded_labels(labels)
