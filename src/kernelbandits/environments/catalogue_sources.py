"""Where a fixed catalogue gets its items and values from: tables, scikit-learn."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from kernelbandits.checks import a_vector
from kernelbandits.environments.bundled import BUNDLED_VALUES, bundled
from kernelbandits.environments.columns import Categories, Scaling, encode_columns, scaled
from kernelbandits.environments.frames import columns_of, without_column
from kernelbandits.environments.values import ValueScale, scaled_values
from kernelbandits.types import Points

__all__ = ["CatalogueSources"]


class CatalogueSources:
    """Ways to make a world of items and their values."""

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
        """Rows of a table: pandas, polars, Arrow or a dictionary of columns.

        Parameters
        ----------
        frame
            The table.
        value, drop
            The column of values, and columns to leave out.
        categorical, categories, scaling, missing
            How the other columns become numbers: see `encode_columns`.
        values
            "unit": scaled so that the lowest is 0 and the highest 1; "rank": the share of other rows with a lower
            value, ties in the middle; "none": as they are.
        noise_scale
            As of `FixedCatalogue`.

        Examples
        --------
        >>> from kernelbandits.environments import FixedCatalogue
        >>> table = {"weight": [1.0, 3.0, 2.0], "sex": ["f", "m", "f"], "age": [4, 12, 6]}
        >>> FixedCatalogue.from_frame(table, value="age").values
        array([0.  , 1.  , 0.25])
        """
        found, columns = without_column(columns_of(frame), value, drop)
        features = encode_columns(
            columns, categorical=categorical, categories=categories, scaling=scaling, missing=missing
        )
        return cls(
            features, scaled_values(a_vector(found, f"The values in column {value!r}"), values), noise_scale=noise_scale
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
        """A set that comes with scikit-learn (extra `experiments`), without a download.

        >>> from kernelbandits.environments import FixedCatalogue
        >>> len(FixedCatalogue.from_scikit_learn("diabetes").catalogue)
        442
        """
        features, found = bundled(name, BUNDLED_VALUES)
        target = scaled_values(found.astype(np.float64), values)
        return cls(scaled(features, scaling), target, noise_scale=noise_scale)
