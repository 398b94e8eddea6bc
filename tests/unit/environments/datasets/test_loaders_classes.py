import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from kernelbandits.environments.datasets import adult, covertype, mnist, mushroom, shuttle
from kernelbandits.environments.datasets.loaders import (
    ADULT_NUMBERS,
    ADULT_WORDS,
    COVERTYPE_CATEGORIES,
    COVERTYPE_NUMBERS,
    MUSHROOM_COLUMNS,
    SHUTTLE_COLUMNS,
)
from kernelbandits.errors import ForeignFile, InvalidParameter


def written(folder, header, *rows):
    path = folder / "table.csv"
    path.write_text("\n".join(",".join(map(str, row)) for row in (header, *rows)))
    return path


def test_mushrooms_are_ordinal_codes_with_missing_entries_as_minus_one(tmp_path):
    rows = [["p", *"abcdefghijklmnopqrstuv"], ["e", *"bbcdefghij?lmnopqrstuv"]]
    path = written(tmp_path, ["class", *MUSHROOM_COLUMNS], *rows)

    environment = mushroom(path, normalize_rows=True)

    expected = np.zeros((2, 22))
    expected[1, [0, 10]] = 1, -1
    assert_array_equal(environment.features, expected)
    assert environment.classes == ("e", "p")
    assert environment.normalize_rows


def test_parts_of_the_shuttle_table_can_be_requested(tmp_path):
    rows = [[*range(row, row + 9), 1 + row % 2, "trn" if row < 4 else "tst"] for row in range(6)]
    path = written(tmp_path, [*SHUTTLE_COLUMNS, "class", "part"], *rows)

    assert shuttle(path).n_rows == 6
    assert_array_equal(shuttle(path, part="tst").features[:, 0], [4, 5])
    assert shuttle(path).classes == (1, 2)
    with pytest.raises(InvalidParameter, match="part 'test'"):
        shuttle(path, part="test")


def test_soil_and_area_are_categories_and_may_be_dropped(tmp_path):
    rows = [[9, *range(10), 2, 10, 2], [7, *range(1, 11), 4, 9, 5], [5, *range(10), 2, 40, 7]]
    path = written(tmp_path, ["row", *COVERTYPE_NUMBERS, *COVERTYPE_CATEGORIES, "cover_type"], *rows)

    environment = covertype(path)

    assert_array_equal(environment.features[:, 10:], [[0, 1], [1, 0], [0, 2]])
    assert environment.classes == (2, 5, 7)
    assert covertype(path, binary=True).labels.tolist() == [1, 0, 0]
    assert covertype(path, categories="drop", scaling="minmax").features.shape == (3, 10)
    assert covertype(path, categories="one_hot").features.shape == (3, 15)


def test_adult_mixes_numbers_and_categories_in_the_order_of_the_file(tmp_path):
    header = ["age", *ADULT_WORDS, *ADULT_NUMBERS[1:], "income", "part"]
    rows = [[30, "?", *"bcdefgh", *range(5), ">50K", "test"], [40, "x", *"bcdefgh", *range(5), "<=50K", "train"]]
    path = written(tmp_path, header, *rows)

    environment = adult(path)

    assert_array_equal(environment.features[:, :3], [[30, -1, 0], [40, 0, 0]])
    assert environment.features.shape == (2, 14)
    assert environment.classes == ("<=50K", ">50K")


@pytest.fixture
def images():
    return np.random.default_rng(3).integers(256, size=(20, 784), dtype=np.uint8)


@pytest.mark.parametrize(
    ("pixels", "scale"),
    [("raw", lambda p: p), ("unit", lambda p: p / 255), ("standard", lambda p: (p / 255 - 0.1307) / 0.3081)],
)
def test_pixels_come_on_the_scale_that_is_requested(tmp_path, images, pixels, scale):
    np.savez(tmp_path / "mnist.npz", X=images, y=np.arange(20, dtype=np.uint8) % 10)

    environment = mnist(tmp_path / "mnist.npz", pixels=pixels, encoding="pairs")

    assert_allclose(environment.features, scale(images.astype(float)))
    assert environment.classes == tuple(range(10))


def test_images_that_are_none_are_rejected(tmp_path, images):
    np.savez(tmp_path / "floats.npz", X=images / 255, y=np.arange(20))
    np.savez(tmp_path / "short.npz", X=images, y=np.arange(19))

    for name in ("floats", "short"):
        with pytest.raises(ForeignFile, match="uint8 of shape"):
            mnist(tmp_path / f"{name}.npz")


def test_another_table_is_rejected(tmp_path):
    path = written(tmp_path, ["class", "a1"], [1, 2])

    for loader in (mushroom, shuttle, covertype, adult):
        with pytest.raises(ForeignFile, match=f"not the '{loader.__name__}' table"):
            loader(path)
