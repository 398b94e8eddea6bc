"""Classification data as a bandit environment."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike

from kernelbandits._text import repr_of_fields
from kernelbandits.environments.base import DrawnRounds, Round, World
from kernelbandits.environments.catalog import Items, described_numbers
from kernelbandits.environments.tabular import (
    BUNDLED_CLASSES,
    Categories,
    Scaling,
    bundled,
    columns_of,
    encode_columns,
    fetched,
    is_absent,
    is_frame,
    rescale_to_avoid_overflow,
    scaled,
    without_column,
)
from kernelbandits.errors import InvalidContexts, InvalidParameter
from kernelbandits.types import Indices, ItemId, Matrix, Pairs, Parameters, Point, Points, Vector
from kernelbandits.validation import check_bool, is_one_of, short_repr

__all__ = ["Classification", "ClassificationSources", "Encoding", "coded_labels", "encoded", "of_length_one"]

Encoding: TypeAlias = Literal["disjoint", "pairs", "shared"]


def encoded(point: Point, classes: tuple[ItemId, ...], encoding: Encoding) -> Points:
    """Return one row per class: see `Classification`.

    >>> encoded(np.array([0.5, 2.0]), ("cat", "dog"), "disjoint")
    array([[0.5, 2. , 0. , 0. ],
           [0. , 0. , 0.5, 2. ]])
    """
    if encoding == "pairs":
        return Pairs(point, classes)
    return np.tile(point, (len(classes), 1)) if encoding == "shared" else _blocks(point, len(classes))


def of_length_one(row: Vector) -> Vector:
    """Divide the row by its length; a zero row is unchanged."""
    within_reach = rescale_to_avoid_overflow(row)
    length = np.linalg.norm(within_reach)
    return np.asarray(within_reach / length) if length > 0.0 else row


def _blocks(row: Vector, n_blocks: int) -> Matrix:
    """Return a matrix whose row a has the given row in block a, and zero elsewhere."""
    blocks = np.zeros((n_blocks, n_blocks, len(row)))
    places = np.arange(n_blocks)
    blocks[places, places] = row
    return blocks.reshape(n_blocks, -1)


class ClassificationSources:
    """Constructors of environments from rows and their classes."""

    if TYPE_CHECKING:

        def __init__(
            self,
            features: Points,
            labels: ArrayLike,
            *,
            encoding: Encoding = "disjoint",
            normalize_rows: bool = False,
            shuffle: bool = True,
        ) -> None: ...

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        label: str,
        drop: Collection[str] = (),
        categorical: Collection[str] = (),
        categories: Categories = "ordinal",
        scaling: Scaling = "none",
        missing: float = -1.0,
        encoding: Encoding = "disjoint",
        normalize_rows: bool = False,
        shuffle: bool = True,
    ) -> Self:
        """Create the environment from a table: pandas, polars, Arrow or a dictionary of columns.

        Parameters
        ----------
        frame
            The table.
        label, drop
            The column of classes, and columns to omit.
        categorical, categories, scaling, missing
            Encoding of columns as numbers: see `encode_columns`.
        encoding, normalize_rows, shuffle
            As in `Classification`; rows are normalized after columns are scaled.

        Examples
        --------
        >>> from kernelbandits.environments import Classification
        >>> table = {"size": [1.0, 3.0, 2.0], "color": ["red", None, "blue"], "kind": ["pear", "plum", "plum"]}
        >>> Classification.from_frame(table, label="kind", scaling="minmax").features
        array([[ 0. ,  1. ],
               [ 1. , -1. ],
               [ 0.5,  0. ]])
        """
        labels, columns = without_column(columns_of(frame), label, drop)
        features = encode_columns(
            columns, categorical=categorical, categories=categories, scaling=scaling, missing=missing
        )
        return cls(features, labels, encoding=encoding, normalize_rows=normalize_rows, shuffle=shuffle)

    @classmethod
    def from_scikit_learn(
        cls,
        name: Literal["digits", "breast_cancer", "wine", "iris"],
        *,
        scaling: Scaling = "none",
        encoding: Encoding = "disjoint",
        normalize_rows: bool = False,
        shuffle: bool = True,
    ) -> Self:
        """Create the environment from a data set included in scikit-learn (extra `experiments`), without a download.

        >>> from kernelbandits.environments import Classification
        >>> Classification.from_scikit_learn("iris").classes
        ('setosa', 'versicolor', 'virginica')
        """
        features, labels = bundled(name, BUNDLED_CLASSES)
        return cls(scaled(features, scaling), labels, encoding=encoding, normalize_rows=normalize_rows, shuffle=shuffle)

    @classmethod
    def from_openml(
        cls,
        name: str,
        *,
        version: int | str = "active",
        data_home: str | None = None,
        label: str | None = None,
        **options: Any,
    ) -> Self:
        """Create the environment from an openml.org data set (extra `adapters`), downloaded once to `data_home`.

        Parameters
        ----------
        name, version
            As listed on openml.org; "active" is the version that is current there, so pass a number for reproducible
            rows.
        data_home
            Cache folder for downloads; None is scikit-learn's own.
        label
            The column of classes; None uses the one that openml.org specifies.
        **options
            As in `from_frame`.
        """
        frame, targets = fetched(name, version=version, data_home=data_home)
        if label is None and len(targets) != 1:
            raise InvalidParameter(f"The set {name!r} has the label columns {targets!r}. Name one: label=...")
        return cls.from_frame(frame, label=targets[0] if label is None else label, **options)


def coded_labels(labels: ArrayLike | Sequence[Any]) -> tuple[list[ItemId], Indices]:
    """Return the sorted classes, and the index of each row's class among them.

    Whole numbers (also as floats, which result from tables with missing values) and booleans become integers;
    everything else is read as text.

    >>> coded_labels(["no", "yes", "no"])
    (['no', 'yes'], array([0, 1, 0]))
    """
    listed = _listed(labels)
    plain = listed if set(map(type, listed)) == {str} else [_plain(label, row) for row, label in enumerate(listed)]
    if any(isinstance(label, str) for label in plain):
        plain = [str(label) for label in plain]
    classes = sorted(set(plain))  # all are text, or all are numbers
    if len(classes) < 2:
        raise InvalidParameter(f"There must be at least two classes, got {classes!r}. Each class is an action.")
    places = {label: place for place, label in enumerate(classes)}
    return classes, np.array([places[label] for label in plain], dtype=np.intp)


def _listed(labels: Any) -> list[Any]:
    for method in ("tolist", "to_pylist", "to_list"):  # NumPy and pandas, Arrow, polars
        if hasattr(labels, method):
            labels = getattr(labels, method)()
            break
    if isinstance(labels, str) or not isinstance(labels, Sequence):
        raise InvalidParameter(f"Labels must be a sequence, one per row, got {type(labels).__name__}.")
    return list(labels)


def _plain(label: Any, row: int) -> ItemId:
    if is_absent(label):
        raise InvalidParameter(
            f"Every row must have a class, and the label of row {row} is missing. Drop such rows first."
        )
    if isinstance(label, str):
        return str(label)
    if isinstance(label, bool | int | np.bool_ | np.integer):
        return int(label)
    if isinstance(label, float | np.floating):
        return int(label) if float(label).is_integer() else repr(float(label))
    raise InvalidParameter(
        f"A label must be a string or a number, got {type(label).__name__}: {label!r:.60} in row {row}. Labels are one "
        "column, not several."
    )


MANY_NUMBERS: Final = 10_000
"""Number of values per round above which look-ahead is disabled: batches would take hundreds of megabytes."""


@dataclass(frozen=True, eq=False)
class Classification(ClassificationSources):
    """One row per round, one action per class: reward 1 for the row's class and 0 for any other.

    Each run shows the rows in a random order and ends after the last; `simulate(..., horizon=n)` uses the first n of
    them. Rewards are random only through the order of rows, so their expectation is known: the regret is the number of
    wrong predictions.

    Parameters
    ----------
    features
        A matrix of finite numbers, or a data frame (see `from_frame`, which has options for it). With encoding="pairs",
        any point type of a kernel: strings, sparse rows, sets.
    labels
        The class of each row: strings, numbers or booleans. Actions are the classes in sorted order, which are also
        their ids.
    encoding
        Encoding of row x and class a for the policy. "disjoint": x in the a-th of N blocks of an N·d vector, zero
        elsewhere, suitable for any kernel over rows; a round is an N × N·d matrix. "pairs": `Pairs(x, classes)` for a
        pair kernel, N times smaller. "shared": x for every class, for policies that distinguish actions by their ids,
        such as LinUCB(model="disjoint").
    normalize_rows
        Divide each row by its length ‖x‖; zero rows are unchanged.
    shuffle
        False: rows in the given order, in every run.

    Notes
    -----
    The linear kernel over blocks is PairProduct(Linear(), Delta()) over pairs. A kernel of the distance, f(‖u − v‖), is
    f(‖x − z‖) over blocks of one class and f(sqrt(‖x‖² + ‖z‖²)) over blocks of two. On rows of length 1 the latter is a
    constant c = f(√2), which is 0.243 for exp(−‖u − v‖): the kernel over blocks is then (k − c)·Delta + c over pairs,
    which is not PairProduct(k, Delta()); under the latter, classes are independent.

    Examples
    --------
    >>> world = Classification([[0.5, 2.0], [1.0, 0.0]], ["cat", "dog"], shuffle=False).start(np.random.default_rng(0))
    >>> observed = world.observe()
    >>> observed.ids, world.reward(0), world.reward(1)
    (('cat', 'dog'), 1.0, 0.0)
    >>> observed.contexts
    array([[0.5, 2. , 0. , 0. ],
           [0. , 0. , 0.5, 2. ]])

    References
    ----------
    Zhang, Zhou, Li and Gu (2021), Neural Thompson sampling, for the disjoint encoding of normalized rows.
    """

    __repr__ = repr_of_fields

    features: Points
    labels: ArrayLike
    _: KW_ONLY
    encoding: Encoding = "disjoint"
    normalize_rows: bool = False
    shuffle: bool = True
    classes: tuple[ItemId, ...] = field(init=False, repr=False)
    """The labels that occur, sorted: class a is action a."""

    _items: Items = field(init=False, repr=False)
    _codes: Indices = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not is_one_of(self.encoding, get_args(Encoding)):
            raise InvalidParameter(
                f"The encoding must be one of {list(get_args(Encoding))}, got {short_repr(self.encoding)}."
            )
        for name in ("normalize_rows", "shuffle"):
            object.__setattr__(self, name, check_bool(getattr(self, name), f"`{name}`"))
        items = _checked_features(self.features, self.encoding)
        if self.normalize_rows and not items.are_dense_rows:
            raise InvalidParameter(
                "Features must be rows of numbers in one array for normalize_rows. Omit it, or normalize "
                "with the kernel: kernels.Normalized."
            )
        classes, codes = coded_labels(self.labels)
        if len(codes) != len(items):
            raise InvalidParameter(f"There must be one label per row, got {len(items)} rows and {len(codes)} labels.")
        own = {"features": items.points, "labels": np.array(classes)[codes], "classes": tuple(classes)}
        for name, value in (*own.items(), ("_items", items), ("_codes", codes)):
            object.__setattr__(self, name, value)

    @property
    def n_rows(self) -> int:
        """Number of rows, which is the number of rounds of a run."""
        return len(self._codes)

    @property
    def reward_range(self) -> tuple[float, float]:
        """Range of rewards, which are 0 or 1."""
        return 0.0, 1.0

    def start(self, rng: np.random.Generator) -> World:
        """Start a run with a random order of rows."""
        order = rng.permutation(self.n_rows) if self.shuffle else np.arange(self.n_rows)
        rounds = DrawnRounds(self._rounds(order))
        n_blocks = len(self.classes) if self.encoding == "disjoint" else 1
        n_numbers = n_blocks * len(self.classes) * (self.features.shape[1] if self._items.are_rows else 1)
        return rounds if n_numbers <= MANY_NUMBERS else _OneByOne(rounds)

    def describe(self) -> Parameters:
        """Return class and parameters as plain values, the data as digests."""
        return {
            "class": type(self).__name__,
            "features": self._items.describe(),
            "labels": described_numbers(self._codes.astype(np.float64)),
            "classes": list(self.classes),
            "encoding": self.encoding,
            "normalize_rows": self.normalize_rows,
            "shuffle": self.shuffle,
        }

    def _rounds(self, order: Indices) -> Iterator[tuple[Round, Vector]]:
        hits = np.eye(len(self.classes))
        hits.setflags(write=False)
        for row in order:
            rewards = hits[self._codes[row]]
            contexts = encoded(self._point(int(row)), self.classes, self.encoding)
            yield Round(contexts, ids=self.classes, expected=rewards), rewards

    def _point(self, row: int) -> Point:
        point = self._items.one(row)
        return of_length_one(point) if self.normalize_rows else point


class _OneByOne:
    """World without look-ahead."""

    def __init__(self, rounds: DrawnRounds) -> None:
        self.observe, self.reward = rounds.observe, rounds.reward


def _checked_features(features: Points, encoding: Encoding) -> Items:
    points = encode_columns(columns_of(features)) if is_frame(features) else features
    try:
        items = Items.of(points)
    except InvalidContexts as error:
        raise InvalidParameter(
            f"These features cannot be used. {error} A table with gaps: Classification.from_frame(..., missing=...)."
        ) from error
    if encoding != "pairs" and not items.are_dense_rows:
        raise InvalidParameter(
            f"The encoding {encoding!r} is for rows of numbers in one array, got {type(points).__name__} of "
            f"{type(items.kind).__name__.lower()}. Use encoding='pairs', or convert them."
        )
    return items
