"""Item data as bandit environments: a fixed catalog, or a few candidates per round."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from kernelbandits._text import repr_of_fields
from kernelbandits.environments.base import DrawnRounds, Round, place_of
from kernelbandits.environments.tabular import (
    BUNDLED_VALUES,
    Categories,
    Scaling,
    bundled,
    columns_of,
    encode_columns,
    one_of,
    scaled,
    without_column,
)
from kernelbandits.errors import CannotSave, DecisionError, InvalidContexts, InvalidParameter
from kernelbandits.kernels import Objects, PointKind, Rows, kind_of
from kernelbandits.kernels.points import digest_of
from kernelbandits.kernels.rows import is_sparse
from kernelbandits.selection import Catalog
from kernelbandits.types import Indices, ItemId, Parameters, Point, Points, Vector
from kernelbandits.validation import check_int, check_nonnegative, check_vector

__all__ = [
    "Candidates",
    "CatalogSources",
    "CatalogWorld",
    "FixedCatalog",
    "Items",
    "ValueScale",
    "described_numbers",
    "digest_of_anything",
    "scaled_values",
]

ValueScale: TypeAlias = Literal["unit", "rank", "none"]


def scaled_values(values: Vector, scale: ValueScale) -> Vector:
    """Convert values to rewards.

    Parameters
    ----------
    values
        One number per item.
    scale
        "unit": (v − lowest) / (highest − lowest). "rank": rank among all, scaled to [0, 1], with mean ranks for ties;
        for values so skewed that all but a few would be 0. "none": unchanged.

    Examples
    --------
    >>> scaled_values(np.array([1.0, 5.0, 1.0, 900.0]), "rank").round(3)
    array([0.167, 0.667, 0.167, 1.   ])
    """
    one_of(scale, ValueScale, "The scale of values")
    values = check_vector(values, "Values")
    if scale != "rank" or len(values) < 2:
        return values if scale == "none" else scaled(values, "minmax")
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    first = np.cumsum(counts) - counts
    return np.asarray(((first + (counts - 1) / 2) / (len(values) - 1))[places.reshape(-1)])


class CatalogSources:
    """Constructors of environments from items and their values."""

    if TYPE_CHECKING:

        def __init__(self, items: Points, values: ArrayLike, *, noise_scale: float = 0.1) -> None: ...

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        value: str,
        drop: Collection[str] = (),
        categorical: Collection[str] = (),
        categories: Categories = "ordinal",
        scaling: Scaling = "standard",
        missing: float = 0.0,
        values: ValueScale = "unit",
        noise_scale: float = 0.1,
    ) -> Self:
        """Create the environment from a table: pandas, polars, Arrow or a dictionary of columns.

        Parameters
        ----------
        frame
            The table.
        value, drop
            The column of values, and columns to omit.
        categorical, categories, scaling, missing
            Encoding of the other columns as numbers: see `encode_columns`.
        values
            "unit": scaled so that the lowest is 0 and the highest 1; "rank": the fraction of other rows with a lower
            value, with mean ranks for ties; "none": unchanged.
        noise_scale
            As in `FixedCatalog`.

        Examples
        --------
        >>> from kernelbandits.environments import FixedCatalog
        >>> table = {"weight": [1.0, 3.0, 2.0], "sex": ["f", "m", "f"], "age": [4, 12, 6]}
        >>> FixedCatalog.from_frame(table, value="age").values
        array([0.  , 1.  , 0.25])
        """
        found, columns = without_column(columns_of(frame), value, drop)
        features = encode_columns(
            columns, categorical=categorical, categories=categories, scaling=scaling, missing=missing
        )
        return cls(
            features,
            scaled_values(check_vector(found, f"The values in column {value!r}"), values),
            noise_scale=noise_scale,
        )

    @classmethod
    def from_scikit_learn(
        cls,
        name: Literal["diabetes"],
        *,
        scaling: Scaling = "standard",
        values: ValueScale = "unit",
        noise_scale: float = 0.1,
    ) -> Self:
        """Create the environment from a data set included in scikit-learn (extra `experiments`), without a download.

        >>> from kernelbandits.environments import FixedCatalog
        >>> len(FixedCatalog.from_scikit_learn("diabetes").catalog)
        442
        """
        features, found = bundled(name, BUNDLED_VALUES)
        target = scaled_values(found.astype(np.float64), values)
        return cls(scaled(features, scaling), target, noise_scale=noise_scale)


@dataclass(frozen=True, eq=False)
class Items:
    """Collection of points of one type: rows, sparse rows, strings, ids, sets, or user-defined objects.

    >>> items = Items.of(["apple", "pear", "plum"])
    >>> len(items), items.take(np.array([2, 0]))
    (3, ['plum', 'apple'])
    """

    kind: PointKind
    points: Points
    """Points in the canonical form of the point type; a copy, not shared with the caller."""

    @classmethod
    def of(cls, points: Points) -> Items:
        """Infer the point type, validate the points and store a copy."""
        kind = _kind_by_looks(points)
        checked = kind.check(points)
        copied = kind.take(checked, np.arange(kind.count(checked)))
        if isinstance(copied, np.ndarray):
            copied.setflags(write=False)  # immutable, so that the description stays valid
        return cls(kind, copied)

    def __len__(self) -> int:
        return self.kind.count(self.points)

    @property
    def are_dense_rows(self) -> bool:
        """Whether the points are rows of numbers in one array."""
        return isinstance(self.points, np.ndarray)

    @property
    def are_rows(self) -> bool:
        """Whether the points are rows of numbers, dense or sparse."""
        return isinstance(self.kind, Rows)

    def take(self, rows: Indices) -> Points:
        """Return some of the points, in this order."""
        return self.kind.take(self.points, rows)

    def one(self, row: int) -> Point:
        """Return one point, in the form in which a user would pass it."""
        return self.kind.one(self.points, row)

    @cached_property
    def _description(self) -> Parameters:
        shape = [int(length) for length in self.points.shape] if self.are_rows else [len(self)]
        return {"kind": type(self.kind).__name__, "shape": shape, "digest": digest_of_anything(self.kind, self.points)}

    def describe(self) -> Parameters:
        """Return type, size and digest: equal for equal points in equal order; repr represents user-defined objects."""
        return dict(self._description)


def digest_of_anything(kind: PointKind, points: Points) -> str:
    """Return a short digest, equal for equal points; points without a plain form are represented by their repr."""
    try:
        return digest_of(kind, kind.check(points))
    except (CannotSave, InvalidContexts):
        return hashlib.sha256(repr(points).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def described_numbers(values: Vector) -> Parameters:
    """Return length and digest of a row of numbers."""
    column = np.ascontiguousarray(values, dtype=np.float64)[:, None]
    return {"shape": [len(column)], "digest": digest_of(Rows(), column)}


def _kind_by_looks(points: Points) -> PointKind:
    kind = kind_of(points)
    if not isinstance(kind, Rows) or is_sparse(points):
        return kind
    try:
        is_numbers = np.asarray(points).dtype.kind in "buif"
    except ValueError:  # rows of different lengths
        is_numbers = True
    if is_numbers or isinstance(points, np.ndarray):
        return kind
    if not isinstance(points, list | tuple):
        raise InvalidContexts(
            f"Points must be an array or a sequence, one entry per point, got {type(points).__name__}."
        )
    return Objects()


@dataclass(frozen=True, eq=False)
class FixedCatalog(CatalogSources):
    """The same items in every round, each with its own expected reward: value + noise.

    Every round shows the same `Catalog` object, so that policies can cache computations for it. The noise of a round is
    drawn once for all items, N(0, noise_scale²), independent of the choice: rewards are unbiased, rewards of different
    rounds are independent, and two policies get the same noise. Independent noise for each of a hundred thousand items
    would cost more than the choice.

    Parameters
    ----------
    items
        A `Catalog`, or the items for one, in any form that the kernels of the policies accept: rows, strings.
    values
        Expected reward of each item.
    ids
        Unique ids of the items. None: the row numbers. A catalog has its own ids.
    noise_scale
        Standard deviation of the noise.

    Examples
    --------
    >>> environment = FixedCatalog([[0.0], [0.5], [1.0]], [0.1, 0.7, 0.4], noise_scale=0.05)
    >>> world = environment.start(np.random.default_rng(3))
    >>> observed = world.observe()
    >>> len(observed.contexts), observed.expected
    (3, array([0.1, 0.7, 0.4]))
    >>> abs(world.reward(1) - 0.7) < 0.2
    True

    References
    ----------
    Calandriello, Carratino, Lazaric, Valko and Rosasco (2020), BBKB, for regression data as a fixed set of actions.
    """

    __repr__ = repr_of_fields

    items: Catalog | Points
    values: ArrayLike
    _: KW_ONLY
    ids: Sequence[ItemId] | None = None
    noise_scale: float = 0.1
    catalog: Catalog = field(init=False, repr=False)
    """Catalog shown in every round."""

    _described: Parameters = field(init=False, repr=False)

    def __post_init__(self) -> None:
        catalog = self._catalog()
        values = _values_of(self.values, len(catalog))
        object.__setattr__(self, "noise_scale", check_nonnegative(self.noise_scale, "The noise scale"))
        points = Items.of(catalog.points(catalog.kind) if catalog is self.items else self.items)
        names = None if catalog.ids is None else Items.of(catalog.ids).describe()
        described = {"items": points.describe(), "ids": names, "values": described_numbers(values)}
        items = catalog if catalog is self.items else points.points
        own = {"items": items, "values": values, "catalog": catalog, "_described": described}
        for name, value in own.items():
            object.__setattr__(self, name, value)

    @property
    def reward_range(self) -> tuple[float, float] | None:
        """Lowest and highest value without noise; None with Gaussian noise, which is unbounded."""
        return _range_of(self.values, self.noise_scale)

    def start(self, rng: np.random.Generator) -> CatalogWorld:
        """Start a run; only its noise is random."""
        values: Vector = np.asarray(self.values)
        if len(self.catalog) != len(values):
            raise InvalidParameter(
                f"The catalog has grown to {len(self.catalog)} items since this environment was made for "
                f"{len(values)}. Make a new one, with a value for each item."
            )
        return CatalogWorld(Round(self.catalog, expected=values), self.noise_scale, rng)

    def describe(self) -> Parameters:
        """Return class and parameters as plain values, the data as digests."""
        return {"class": type(self).__name__, **self._described, "noise_scale": self.noise_scale}

    def _catalog(self) -> Catalog:
        if not isinstance(self.items, Catalog):
            return Catalog(self.items, ids=self.ids)
        if self.ids is not None:
            raise InvalidParameter("A catalog has its own ids, so none can be given beside it. Leave `ids` out.")
        return self.items


def _values_of(values: ArrayLike, n_items: int) -> Vector:
    """Validate one value per item; the array is read-only."""
    checked = check_vector(values, "The values of items")
    if len(checked) != n_items:
        raise InvalidParameter(f"There must be one value per item, got {n_items} items and {len(checked)} values.")
    checked.setflags(write=False)
    return checked


def _range_of(values: ArrayLike, noise_scale: float) -> tuple[float, float] | None:
    return None if noise_scale > 0.0 else (float(np.min(values)), float(np.max(values)))


class CatalogWorld:
    """One run of `FixedCatalog`: the same round repeatedly, with new noise each time."""

    def __init__(self, observed: Round, noise_scale: float, rng: np.random.Generator) -> None:
        self._observed, self._noise_scale, self._rng = observed, noise_scale, rng
        self._noise: float | None = None

    def observe(self) -> Round:
        """Return the items, and draw the noise of this round."""
        self._noise = self._noise_scale * float(self._rng.standard_normal())
        return self._observed

    def reward(self, action: int) -> float:
        """Return the value of an item plus the noise of the last observed round."""
        if self._noise is None:
            raise DecisionError("There is no round to reward yet. Call observe() first.")
        values = self._observed.expected
        assert values is not None
        return float(values[place_of(self._observed.contexts, action)] + self._noise)


@dataclass(frozen=True, eq=False)
class Candidates:
    """Each round shows `n_actions` of the items, drawn uniformly without replacement; a reward is the item's value.

    Items may be described by their similarity alone: strings, for instance, such as the links of news feeds of which
    only some are on the wanted topic. Policies must generalize from observed items to the others.

    Parameters
    ----------
    items
        Items in any form that the kernels of the policies accept: rows, sparse rows, strings, ids, sets.
    values
        Expected reward of each item, 0 or 1 or any number.
    n_actions
        Number of distinct items per round.
    ids
        Unique ids of the items; their numbers from 0 by default.
    noise_scale
        Standard deviation of Gaussian noise, drawn independently for each item of a round.

    Examples
    --------
    >>> words = ["goal", "match", "goals", "vote", "votes", "election"]
    >>> world = Candidates(words, [1, 1, 1, 0, 0, 0], n_actions=2).start(np.random.default_rng(0))
    >>> observed = world.observe()
    >>> observed.contexts, observed.ids, [world.reward(0), world.reward(1)]
    (['election', 'votes'], [5, 4], [0.0, 0.0])
    """

    __repr__ = repr_of_fields

    items: Points
    values: ArrayLike
    _: KW_ONLY
    n_actions: int
    ids: Sequence[ItemId] | None = None
    noise_scale: float = 0.0
    _items: Items = field(init=False, repr=False)

    def __post_init__(self) -> None:
        items = Items.of(self.items)
        values = _values_of(self.values, len(items))
        n_actions = check_int(self.n_actions, "The number of actions")
        if n_actions > len(items):
            raise InvalidParameter(
                f"A round shows an item at most once, so {n_actions} actions need as many items, got {len(items)}."
            )
        own = {"items": items.points, "_items": items, "values": values, "n_actions": n_actions}
        own["ids"] = None if self.ids is None else Catalog(np.empty((len(items), 0)), ids=self.ids).ids  # validated
        own["noise_scale"] = check_nonnegative(self.noise_scale, "The noise scale")
        for name, value in own.items():
            object.__setattr__(self, name, value)

    @property
    def reward_range(self) -> tuple[float, float] | None:
        """Lowest and highest value without noise; None with Gaussian noise, which is unbounded."""
        return _range_of(self.values, self.noise_scale)

    def start(self, rng: np.random.Generator) -> DrawnRounds:
        """Start a run; candidates and noise have separate generators."""
        candidate_rng, noise_rng = rng.spawn(2)
        return DrawnRounds(self._rounds(candidate_rng, noise_rng))

    def describe(self) -> Parameters:
        """Return class and parameters as plain values, the data as digests."""
        return {
            "class": type(self).__name__,
            "items": self._items.describe(),
            "ids": None if self.ids is None else Items.of(self.ids).describe(),
            "values": described_numbers(np.asarray(self.values)),
            "n_actions": self.n_actions,
            "noise_scale": self.noise_scale,
        }

    def _rounds(
        self, candidate_rng: np.random.Generator, noise_rng: np.random.Generator
    ) -> Iterator[tuple[Round, Vector]]:
        values: Vector = np.asarray(self.values)
        while True:
            rows = candidate_rng.choice(len(values), size=self.n_actions, replace=False)
            ids = rows.tolist() if self.ids is None else [self.ids[row] for row in rows]
            noise = self.noise_scale * noise_rng.standard_normal(self.n_actions)
            yield Round(self._items.take(rows), ids=ids, expected=values[rows]), values[rows] + noise
