"""Tables with a class in each row, as worlds of classification."""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kernelbandits.environments.classification import Classification
from kernelbandits.environments.columns import one_of
from kernelbandits.environments.datasets.files import Path, read_arrays, read_table
from kernelbandits.errors import ForeignFile, InvalidParameter

__all__ = ["adult", "covertype", "mnist", "mushroom", "shuttle"]

Pixels: TypeAlias = Literal["raw", "unit", "standard"]

MNIST_MEAN: Final = 0.1307
"""Mean of all pixels of the 60,000 training images, in [0, 1]."""

MNIST_STANDARD_DEVIATION: Final = 0.3081
"""Standard deviation of the same pixels."""

MUSHROOM_COLUMNS: Final = (
    "cap-shape", "cap-surface", "cap-color", "bruises", "odor", "gill-attachment", "gill-spacing", "gill-size",
    "gill-color", "stalk-shape", "stalk-root", "stalk-surface-above-ring", "stalk-surface-below-ring",
    "stalk-color-above-ring", "stalk-color-below-ring", "veil-type", "veil-color", "ring-number", "ring-type",
    "spore-print-color", "population", "habitat",
)  # fmt: skip
SHUTTLE_COLUMNS: Final = tuple(f"a{place}" for place in range(1, 10))
COVERTYPE_NUMBERS: Final = (
    "Elevation", "Aspect", "Slope", "Horizontal_Distance_To_Hydrology", "Vertical_Distance_To_Hydrology",
    "Horizontal_Distance_To_Roadways", "Hillshade_9am", "Hillshade_Noon", "Hillshade_3pm",
    "Horizontal_Distance_To_Fire_Points",
)  # fmt: skip
COVERTYPE_CATEGORIES: Final = ("wilderness_area", "soil_type")
ADULT_NUMBERS: Final = ("age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week")
ADULT_WORDS: Final = (
    "workclass", "education", "marital-status", "occupation", "relationship", "race", "sex", "native-country",
)  # fmt: skip


def mushroom(path: Path, **options: Any) -> Classification:
    """Gilled mushrooms, edible ("e") or poisonous ("p"), by 22 categories; one of them is partly missing.

    Parameters
    ----------
    path
        CSV file with the column `class` and the 22 names of the UCI documentation.
    **options
        As of `Classification.from_frame`. Ordinal codes with missing = −1 unless told.

    References
    ----------
    Schlimmer (1987), Mushroom, UCI Machine Learning Repository.
    """
    columns = read_table(path, name="mushroom", words=("class", *MUSHROOM_COLUMNS))
    return Classification.from_frame(columns, label="class", **options)


def shuttle(path: Path, *, part: Literal["all", "trn", "tst"] = "all", **options: Any) -> Classification:
    """States of radiators of the space shuttle, 7 classes by 9 numbers.

    Parameters
    ----------
    path
        CSV file with the columns a1 to a9, `class` and, where a part is asked for, `part`.
    part
        Rows of the published training ("trn") or test part ("tst") only.
    **options
        As of `Classification.from_frame`.

    References
    ----------
    Statlog (Shuttle), UCI Machine Learning Repository.
    """
    columns = _part_of(path, "shuttle", part, words=(), numbers=(*SHUTTLE_COLUMNS, "class"))
    return Classification.from_frame(columns, label="class", **options)


def covertype(path: Path, *, binary: bool = False, **options: Any) -> Classification:
    """Cover of forest patches, 7 types by 10 numbers, the wilderness area and the soil type.

    Parameters
    ----------
    path
        CSV file with the ten numeric columns of the UCI documentation, `wilderness_area`, `soil_type`, `cover_type`.
    binary
        True: type 2, about half of all rows, against the rest.
    **options
        As of `Classification.from_frame`; categories="drop" leaves the ten numbers.

    References
    ----------
    Blackard and Dean (1999), Covertype, UCI Machine Learning Repository.
    """
    columns = read_table(path, name="covertype", numbers=(*COVERTYPE_NUMBERS, *COVERTYPE_CATEGORIES, "cover_type"))
    if binary:
        columns["cover_type"] = (columns["cover_type"] == 2).astype(np.float64)
    return Classification.from_frame(columns, label="cover_type", **{"categorical": COVERTYPE_CATEGORIES, **options})


def adult(path: Path, *, part: Literal["all", "train", "test"] = "all", **options: Any) -> Classification:
    """Income above 50,000 dollars or not, of persons in the 1994 census, by 6 numbers and 8 categories.

    Parameters
    ----------
    path
        CSV file with the 14 columns of the UCI documentation, `income` and, where a part is asked for, `part`.
    part
        Rows of the published "train" or "test" part only.
    **options
        As of `Classification.from_frame`. Ordinal codes with missing = −1 unless told.

    References
    ----------
    Kohavi and Becker (1996), Adult, UCI Machine Learning Repository.
    """
    columns = _part_of(path, "adult", part, words=(*ADULT_WORDS, "income"), numbers=ADULT_NUMBERS)
    return Classification.from_frame(columns, label="income", **options)


def mnist(path: Path, *, pixels: Pixels = "raw", **options: Any) -> Classification:
    """Images of handwritten digits, 28 × 28 pixels.

    Parameters
    ----------
    path
        NumPy archive (.npz) with the images `X`, shape (n, 784), uint8, and their digits `y`.
    pixels
        "raw": 0 to 255. "unit": 0 to 1. "standard": (p/255 − 0.1307) / 0.3081, with mean and deviation of the
        published training images.
    **options
        `encoding`, `normalise_rows`, `shuffle` of `Classification`. Blocks take 0.6 MB a round, pairs 6 KB.

    References
    ----------
    LeCun, Cortes and Burges, The MNIST database of handwritten digits.
    """
    one_of(pixels, Pixels, "The scale of pixels")
    images, digits = read_arrays(path, name="mnist", arrays=("X", "y"))
    if images.ndim != 2 or images.dtype != np.uint8 or digits.shape != (len(images),):
        raise ForeignFile(
            f"The images of MNIST are uint8 of shape (n, 784) with a digit each, got {images.dtype} of shape "
            f"{images.shape} and digits of shape {digits.shape}."
        )
    features = images.astype(np.float64)
    if pixels != "raw":
        features /= 255.0
    if pixels == "standard":
        features = (features - MNIST_MEAN) / MNIST_STANDARD_DEVIATION
    return Classification(features, digits, **options)


def _part_of(
    path: Path, name: str, part: str, *, words: tuple[str, ...], numbers: tuple[str, ...]
) -> dict[str, NDArray[Any]]:
    """A table, or those of its rows whose column `part` says so."""
    if part == "all":
        return read_table(path, name=name, words=words, numbers=numbers)
    columns = read_table(path, name=name, words=(*words, "part"), numbers=numbers)
    is_wanted = columns.pop("part") == part
    if not is_wanted.any():
        raise InvalidParameter(f"No row of the {name!r} table belongs to a part {part!r}. part='all' takes every row.")
    return {column: entries[is_wanted] for column, entries in columns.items()}
