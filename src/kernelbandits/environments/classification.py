"""Classification as a bandit: guess the class of a row, and learn only whether the guess was right."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass, field
from typing import Final, get_args

import numpy as np
from numpy.typing import ArrayLike

from kernelbandits.checks import a_flag, is_one_of, shown
from kernelbandits.environments.base import DrawnRounds, Round, World
from kernelbandits.environments.class_encodings import Encoding, encoded, of_length_one
from kernelbandits.environments.classification_sources import ClassificationSources
from kernelbandits.environments.columns import encode_columns
from kernelbandits.environments.frames import columns_of, is_frame
from kernelbandits.environments.items import Items, described_numbers
from kernelbandits.environments.labels import coded_labels
from kernelbandits.errors import InvalidContexts, InvalidParameter
from kernelbandits.types import Indices, ItemId, Parameters, Point, Points, Vector

__all__ = ["Classification"]

MANY_NUMBERS: Final = 10_000
"""Numbers of a round from which on rounds are shown one by one: thousands at once would take hundreds of megabytes."""


@dataclass(frozen=True, eq=False)
class Classification(ClassificationSources):
    """A row a round, a class an action: reward 1 for the row's class and 0 for any other.

    Each run shows the rows in an order of its own and ends after the last; the first so many rows in random order are
    `simulate(..., horizon=so_many)`. A reward has no luck beside the order of rows, so its expectation is known: the
    regret is the number of wrong guesses.

    Parameters
    ----------
    features
        A matrix of finite numbers, or a data frame (see `from_frame`, which has options for it). With
        encoding="pairs", whatever a kernel takes: strings, sparse rows, sets.
    labels
        The class of each row: strings, numbers or truth values. Actions are the classes in sorted order, and these
        are their ids.
    encoding
        What a policy sees of row x and class a. "disjoint": x in the a-th of N blocks of an N·d vector, zero elsewhere,
        so that any kernel over rows will do; a round is an N × N·d matrix. "pairs": `Pairs(x, classes)` for a pair
        kernel, N times smaller. "shared": x for every class, for policies that tell actions apart by their ids, such
        as LinUCB(model="disjoint").
    normalise_rows
        Divide each row by its length ‖x‖; rows of zeros stay as they are.
    shuffle
        False: rows in the order given, in every run.

    Notes
    -----
    The linear kernel over blocks is PairProduct(Linear(), Delta()) over pairs. A kernel of the distance, f(‖u − v‖), is
    f(‖x − z‖) over blocks of one class and f(sqrt(‖x‖² + ‖z‖²)) over blocks of two. On rows of length 1 the latter is a
    constant c = f(√2), for exp(−‖u − v‖) 0.243: the kernel over blocks is then (k − c)·Delta + c over pairs, which is
    not PairProduct(k, Delta()); that one believes that a class tells nothing of another.

    Examples
    --------
    >>> world = Classification([[0.5, 2.0], [1.0, 0.0]], ["cat", "dog"], shuffle=False).start(np.random.default_rng(0))
    >>> shown = world.show()
    >>> shown.ids, world.pay(0), world.pay(1)
    (('cat', 'dog'), 1.0, 0.0)
    >>> shown.contexts
    array([[0.5, 2. , 0. , 0. ],
           [0. , 0. , 0.5, 2. ]])

    References
    ----------
    Zhang, Zhou, Li and Gu (2021), Neural Thompson sampling, for the disjoint encoding of normalised rows.
    """

    features: Points
    labels: ArrayLike
    _: KW_ONLY
    encoding: Encoding = "disjoint"
    normalise_rows: bool = False
    shuffle: bool = True
    classes: tuple[ItemId, ...] = field(init=False, repr=False)
    """The labels that occur, sorted: class a is action a."""

    _items: Items = field(init=False, repr=False)
    _codes: Indices = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not is_one_of(self.encoding, get_args(Encoding)):
            raise InvalidParameter(f"The encoding is one of {list(get_args(Encoding))}, got {shown(self.encoding)}.")
        for name in ("normalise_rows", "shuffle"):
            object.__setattr__(self, name, a_flag(getattr(self, name), f"`{name}`"))
        items = _checked_features(self.features, self.encoding)
        if self.normalise_rows and not items.are_dense_rows:
            raise InvalidParameter(
                "Only rows of numbers in one array have a length to divide by. Leave normalise_rows out, or normalise "
                "with the kernel: kernels.Normalised."
            )
        classes, codes = coded_labels(self.labels)
        if len(codes) != len(items):
            raise InvalidParameter(f"There has to be one label a row: {len(items)} rows, {len(codes)} labels.")
        own = {"features": items.points, "labels": np.array(classes)[codes], "classes": tuple(classes)}
        for name, value in (*own.items(), ("_items", items), ("_codes", codes)):
            object.__setattr__(self, name, value)

    @property
    def n_rows(self) -> int:
        """Rows, and so rounds of a run."""
        return len(self._codes)

    @property
    def reward_range(self) -> tuple[float, float]:
        """Rewards are 0 or 1."""
        return 0.0, 1.0

    def start(self, rng: np.random.Generator) -> World:
        """Draw an order of rows and begin with the first."""
        order = rng.permutation(self.n_rows) if self.shuffle else np.arange(self.n_rows)
        rounds = DrawnRounds(self._rounds(order))
        n_blocks = len(self.classes) if self.encoding == "disjoint" else 1
        n_numbers = n_blocks * len(self.classes) * (self.features.shape[1] if self._items.are_rows else 1)
        return rounds if n_numbers <= MANY_NUMBERS else _OneByOne(rounds)

    def describe(self) -> Parameters:
        """Class and parameters as plain values, the data as digests."""
        return {
            "class": type(self).__name__,
            "features": self._items.describe(),
            "labels": described_numbers(self._codes.astype(np.float64)),
            "classes": list(self.classes),
            "encoding": self.encoding,
            "normalise_rows": self.normalise_rows,
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
        return of_length_one(point) if self.normalise_rows else point


class _OneByOne:
    """A world that does not foresee."""

    def __init__(self, rounds: DrawnRounds) -> None:
        self.show, self.pay = rounds.show, rounds.pay


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
            f"{type(items.kind).__name__.lower()}. Take encoding='pairs', or turn them into such rows."
        )
    return items
