"""Loaders of published data sets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kernelbandits.environments.base import Environment
from kernelbandits.environments.catalog import Candidates, FixedCatalog, ValueScale, scaled_values
from kernelbandits.environments.classification import Classification
from kernelbandits.environments.datasets.files import Path, read_arrays, read_header, read_table
from kernelbandits.environments.logged import Log
from kernelbandits.environments.tabular import encode_columns, one_of
from kernelbandits.errors import ForeignFile, InvalidParameter
from kernelbandits.types import Matrix, Pairs, Points

__all__ = [
    "abalone",
    "adult",
    "agnews",
    "covertype",
    "mnist",
    "mushroom",
    "newsfeeds",
    "onlinenews",
    "open_bandit",
    "shuttle",
    "splice",
]

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
    """Gilled mushrooms, edible ("e") or poisonous ("p"), described by 22 categories; one of them is partly missing.

    Parameters
    ----------
    path
        CSV file with the column `class` and the 22 names of the UCI documentation.
    **options
        As in `Classification.from_frame`. Defaults: ordinal codes with missing = −1.

    References
    ----------
    Schlimmer (1987), Mushroom, UCI Machine Learning Repository.
    """
    columns = read_table(path, name="mushroom", words=("class", *MUSHROOM_COLUMNS))
    return Classification.from_frame(columns, label="class", **options)


def shuttle(path: Path, *, part: Literal["all", "trn", "tst"] = "all", **options: Any) -> Classification:
    """States of radiators of the space shuttle, 7 classes described by 9 numbers.

    Parameters
    ----------
    path
        CSV file with the columns a1 to a9, `class` and, if `part` is not "all", `part`.
    part
        Rows of the published training ("trn") or test part ("tst") only.
    **options
        As in `Classification.from_frame`.

    References
    ----------
    Statlog (Shuttle), UCI Machine Learning Repository.
    """
    columns = _part_of(path, "shuttle", part, words=(), numbers=(*SHUTTLE_COLUMNS, "class"))
    return Classification.from_frame(columns, label="class", **options)


def covertype(path: Path, *, binary: bool = False, **options: Any) -> Classification:
    """Forest cover types, 7 classes described by 10 numbers, the wilderness area and the soil type.

    Parameters
    ----------
    path
        CSV file with the ten numeric columns of the UCI documentation, `wilderness_area`, `soil_type`, `cover_type`.
    binary
        True: type 2, about half of all rows, against the rest.
    **options
        As in `Classification.from_frame`; categories="drop" retains the ten numbers only.

    References
    ----------
    Blackard and Dean (1999), Covertype, UCI Machine Learning Repository.
    """
    columns = read_table(path, name="covertype", numbers=(*COVERTYPE_NUMBERS, *COVERTYPE_CATEGORIES, "cover_type"))
    if binary:
        columns["cover_type"] = (columns["cover_type"] == 2).astype(np.float64)
    return Classification.from_frame(columns, label="cover_type", **{"categorical": COVERTYPE_CATEGORIES, **options})


def adult(path: Path, *, part: Literal["all", "train", "test"] = "all", **options: Any) -> Classification:
    """Income above 50,000 dollars or not, of persons in the 1994 census, described by 6 numbers and 8 categories.

    Parameters
    ----------
    path
        CSV file with the 14 columns of the UCI documentation, `income` and, if `part` is not "all", `part`.
    part
        Rows of the published "train" or "test" part only.
    **options
        As in `Classification.from_frame`. Defaults: ordinal codes with missing = −1.

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
        "raw": 0 to 255. "unit": 0 to 1. "standard": (p/255 − 0.1307) / 0.3081, with mean and standard deviation of the
        published training images.
    **options
        `encoding`, `normalize_rows`, `shuffle` of `Classification`. Blocks take 0.6 MB per round, pairs 6 KB.

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
    """Return a table, or its rows with the given value in the column `part`."""
    if part == "all":
        return read_table(path, name=name, words=words, numbers=numbers)
    columns = read_table(path, name=name, words=(*words, "part"), numbers=numbers)
    is_wanted = columns.pop("part") == part
    if not is_wanted.any():
        raise InvalidParameter(f"No row of the {name!r} table belongs to a part {part!r}. part='all' uses every row.")
    return {column: entries[is_wanted] for column, entries in columns.items()}


ABALONE_NUMBERS: Final = (
    "length", "diameter", "height", "whole_weight", "shucked_weight", "viscera_weight", "shell_weight", "rings",
)  # fmt: skip

FeatureSet: TypeAlias = Literal["numbers", "url", "words"]

NO_FEATURES: Final = frozenset({"url", "timedelta", "shares"})
"""Columns of onlinenews that are not features: the URL, the age of the article when counted, and the target."""


def abalone(path: Path, **options: Any) -> FixedCatalog:
    """Find the oldest of 4,177 abalones by sex and 7 measures; the value is the number of rings, scaled to [0, 1].

    Parameters
    ----------
    path
        CSV file with the columns sex, length, diameter, height, whole_weight, shucked_weight, viscera_weight,
        shell_weight, rings.
    **options
        As in `FixedCatalog.from_frame`. Defaults: standardized columns, including the code of the sex, and noise 0.1.

    References
    ----------
    Nash, Sellers, Talbot, Cawthorn and Ford (1994), Abalone, UCI Machine Learning Repository. Calandriello et al.
    (2020), BBKB, for the bandit.
    """
    columns = read_table(path, name="abalone", words=("sex",), numbers=ABALONE_NUMBERS)
    return FixedCatalog.from_frame(columns, value="rings", **options)


def onlinenews(
    path: Path,
    *,
    features: FeatureSet = "numbers",
    values: ValueScale = "rank",
    noise_scale: float = 0.1,
    **options: Any,
) -> FixedCatalog:
    """News articles: find those with the most shares.

    Parameters
    ----------
    path
        CSV file with the columns url, timedelta, shares and the 58 numbers of the UCI documentation.
    features
        "numbers": the 58 numbers. "url": the link as a string. "words": the words of the title, taken from the last
        part of the link.
    values
        Conversion of shares to rewards: see `FixedCatalog.from_frame`. Ranks by default, since a few articles have most
        shares.
    noise_scale
        As in `FixedCatalog`.
    **options
        For numbers, as in `FixedCatalog.from_frame`.

    References
    ----------
    Fernandes, Vinagre and Cortez (2015), Online News Popularity, UCI Machine Learning Repository.
    """
    one_of(features, FeatureSet, "The features of an article")
    if features == "numbers":
        names = [name.strip() for name in read_header(path, name="onlinenews")]
        numbers = ["shares", *(name for name in names if name not in NO_FEATURES)]
        columns = read_table(path, name="onlinenews", words=("url",), numbers=numbers)
        return FixedCatalog.from_frame(
            columns, value="shares", drop=["url"], values=values, noise_scale=noise_scale, **options
        )
    columns = read_table(path, name="onlinenews", words=("url",), numbers=("shares",))
    links = [str(link) for link in columns["url"]]
    items = links if features == "url" else [_title(link) for link in links]
    return FixedCatalog(items, scaled_values(columns["shares"], values), noise_scale=noise_scale, **options)


def _title(link: str) -> str:
    """Return the words of the last part of a link."""
    return link.rstrip("/").rpartition("/")[2].replace("-", " ")


Task: TypeAlias = Literal["candidates", "catalog", "classification"]


def newsfeeds(
    path: Path,
    *,
    wanted: str = "tech",
    column: Literal["topic", "language"] = "topic",
    task: Task = "candidates",
    n_actions: int = 20,
    **options: Any,
) -> Environment:
    """News feeds, described by their links before they are fetched: find those on the wanted topic.

    Parameters
    ----------
    path
        CSV file with the columns feed_url, topic, language.
    wanted, column
        Feeds with this entry in this column have reward 1, all others 0.
    task, n_actions, **options
        As in `agnews`.

    References
    ----------
    The table of feeds in the Python package newscatcher 0.2.0.
    """
    one_of(column, Literal["topic", "language"], "The column of the wanted feeds")
    columns = read_table(path, name="newsfeeds", words=("feed_url", column))
    return _as_task(columns["feed_url"].tolist(), columns[column].tolist(), task, [wanted], n_actions, options)


def agnews(
    path: Path,
    *,
    wanted: str = "Sports",
    text: Literal["title", "description"] = "title",
    task: Task = "candidates",
    n_actions: int = 10,
    **options: Any,
) -> Environment:
    """News in four classes (World, Sports, Business, Sci/Tech): find those of the wanted class by their titles.

    Parameters
    ----------
    path
        CSV file with the columns class, title, description.
    wanted
        Class with reward 1; all others have reward 0.
    text
        The text passed to the policy.
    task
        "candidates": a few texts per round (`Candidates`). "catalog": all of them in every round (`FixedCatalog`,
        without noise by default). "classification": one text per round, one action per class (`Classification`, pairs).
    n_actions
        Number of candidates per round.
    **options
        Further parameters of the environment class of the task.

    References
    ----------
    Zhang, Zhao and LeCun (2015), AG News.
    """
    one_of(text, Literal["title", "description"], "The text of an article")
    columns = read_table(path, name="agnews", words=("class", text))
    return _as_task(columns[text].tolist(), columns["class"].tolist(), task, [wanted], n_actions, options)


def splice(
    path: Path,
    *,
    wanted: Literal["junction", "EI", "IE", "N"] = "junction",
    task: Task = "classification",
    n_actions: int = 20,
    **options: Any,
) -> Environment:
    """DNA sequences of 60 letters: a splice junction of either kind (EI, IE) in their middle, or none (N).

    Parameters
    ----------
    path
        CSV file with the columns class, sequence.
    wanted
        Class with reward 1 if sequences are candidates or a catalog; "junction" is EI or IE.
    task, n_actions, **options
        As in `agnews`.

    References
    ----------
    Molecular Biology (Splice-junction Gene Sequences), UCI Machine Learning Repository.
    """
    columns = read_table(path, name="splice", words=("class", "sequence"))
    good = ["EI", "IE"] if wanted == "junction" else [wanted]
    return _as_task(columns["sequence"].tolist(), columns["class"].tolist(), task, good, n_actions, options)


def _as_task(
    texts: Sequence[str], classes: Sequence[str], task: Task, wanted: Sequence[str], n_actions: int, options: Any
) -> Environment:
    one_of(task, Task, "The task")
    if task == "classification":
        return Classification(texts, classes, **{"encoding": "pairs", **options})
    unknown = sorted(set(wanted) - set(classes))
    if unknown:
        raise InvalidParameter(f"Nothing here is of class {unknown[0]!r}. There are {sorted(set(classes))}.")
    values = np.isin(np.array(classes), wanted).astype(np.float64)
    if task == "catalog":
        return FixedCatalog(texts, values, **{"noise_scale": 0.0, **options})
    return Candidates(texts, values, n_actions=n_actions, **options)


AFFINITY: Final = "user-item_affinity_"
USER_COLUMNS: Final = tuple(f"user_feature_{place}" for place in range(4))
ITEM_WORDS: Final = tuple(f"item_feature_{place}" for place in range(1, 4))
ITEM_NUMBERS: Final = ("item_id", "item_feature_0")
POSITIONS: Final = (1, 2, 3)


def open_bandit(
    path: Path, *, item_context: Path | None = None, user_context: bool = False, position: int | None = None
) -> Log:
    """Logged decisions of the Open Bandit Dataset: the item shown, its propensity, and whether it was clicked.

    Every round has the same items, identified by their ids; their number is that of the affinity columns. A page had
    three positions, and each is a separate decision here. The propensity is that of the item at that position, so an
    estimate over all positions is about a policy that chooses for each position in the same way.

    Parameters
    ----------
    path
        CSV file with the columns item_id, position, click, propensity_score, user_feature_0 to 3 and
        user-item_affinity_0, …
    item_context
        CSV file that describes the items: item_id, item_feature_0 to 3. Items become rows: the first feature
        standardized, and an indicator per value of the others. None: items are their ids. Features are hashed,
        differently for each logging policy: use the file that belongs to the log.
    user_context
        True: rounds are `Pairs(user, items)`, the user as indicators of the hashed features.
    position
        1, 2 or 3: only decisions at this position.

    Examples
    --------
    `log = open_bandit("obd/random_men.csv.gz", item_context="obd/item_context_men_random.csv")`

    References
    ----------
    Saito, Aihara, Matsutani and Narita (2021), Open Bandit Dataset and Pipeline.
    """
    if position is not None and position not in POSITIONS:
        raise InvalidParameter(f"The position must be one of {list(POSITIONS)}, got {position!r}. None uses all.")
    n_items = sum(column.startswith(AFFINITY) for column in read_header(path, name="obd"))
    numbers = ("item_id", "position", "click", "propensity_score", f"{AFFINITY}{max(n_items - 1, 0)}")
    columns = read_table(path, name="obd", words=USER_COLUMNS, numbers=numbers)
    items: Points = list(range(n_items)) if item_context is None else _item_rows(item_context, n_items)
    users = encode_columns({name: columns[name] for name in USER_COLUMNS}, categories="one_hot")
    rows = np.flatnonzero(np.full(len(users), True) if position is None else columns["position"] == position)
    rounds: list[Any] = [Pairs(users[row], items) if user_context else items for row in rows]
    ids = list(range(n_items))
    return Log(
        rounds,
        columns["item_id"][rows].astype(np.intp),
        columns["propensity_score"][rows],
        columns["click"][rows],
        [ids] * len(rows),
    )


def _item_rows(path: Path, n_items: int) -> Matrix:
    columns = read_table(path, name="obd items", words=ITEM_WORDS, numbers=ITEM_NUMBERS)
    order = np.argsort(columns["item_id"])
    if not np.array_equal(columns["item_id"][order], np.arange(n_items)):
        raise ForeignFile(
            f"The log has items 0 to {n_items - 1}, and the file of items describes {len(order)} others. Take the one "
            "of the same campaign."
        )
    rows = encode_columns(
        {name: columns[name][order] for name in columns if name != "item_id"}, categories="one_hot", scaling="standard"
    )
    rows.setflags(write=False)  # shared by all rounds
    return rows
