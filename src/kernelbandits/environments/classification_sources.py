"""Where classification gets its rows and classes from: tables, scikit-learn, openml.org."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Literal, Self

from numpy.typing import ArrayLike

from kernelbandits.environments.bundled import BUNDLED_CLASSES, bundled, fetched
from kernelbandits.environments.class_encodings import Encoding
from kernelbandits.environments.columns import Categories, Scaling, encode_columns, scaled
from kernelbandits.environments.frames import columns_of, without_column
from kernelbandits.errors import InvalidParameter
from kernelbandits.types import Points

__all__ = ["ClassificationSources"]


class ClassificationSources:
    """Ways to make a world of rows and their classes."""

    if TYPE_CHECKING:

        def __init__(
            self,
            features: Points,
            labels: ArrayLike,
            *,
            encoding: Encoding = "disjoint",
            normalise_rows: bool = False,
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
        normalise_rows: bool = False,
        shuffle: bool = True,
    ) -> Self:
        """Rows of a table: pandas, polars, Arrow or a dictionary of columns.

        Parameters
        ----------
        frame
            The table.
        label, drop
            The column of classes, and columns to leave out.
        categorical, categories, scaling, missing
            How columns become numbers: see `encode_columns`.
        encoding, normalise_rows, shuffle
            As of `Classification`; rows are normalised after columns were scaled.

        Examples
        --------
        >>> from kernelbandits.environments import Classification
        >>> table = {"size": [1.0, 3.0, 2.0], "colour": ["red", None, "blue"], "kind": ["pear", "plum", "plum"]}
        >>> Classification.from_frame(table, label="kind", scaling="minmax").features
        array([[ 0. ,  1. ],
               [ 1. , -1. ],
               [ 0.5,  0. ]])
        """
        labels, columns = without_column(columns_of(frame), label, drop)
        features = encode_columns(
            columns, categorical=categorical, categories=categories, scaling=scaling, missing=missing
        )
        return cls(features, labels, encoding=encoding, normalise_rows=normalise_rows, shuffle=shuffle)

    @classmethod
    def from_scikit_learn(
        cls,
        name: Literal["digits", "breast_cancer", "wine", "iris"],
        *,
        scaling: Scaling = "none",
        encoding: Encoding = "disjoint",
        normalise_rows: bool = False,
        shuffle: bool = True,
    ) -> Self:
        """A set that comes with scikit-learn (extra `experiments`), without a download.

        >>> from kernelbandits.environments import Classification
        >>> Classification.from_scikit_learn("iris").classes
        ('setosa', 'versicolor', 'virginica')
        """
        features, labels = bundled(name, BUNDLED_CLASSES)
        return cls(scaled(features, scaling), labels, encoding=encoding, normalise_rows=normalise_rows, shuffle=shuffle)

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
        """A set of openml.org by its name (extra `adapters`): fetched on the first call, then kept in `data_home`.

        Parameters
        ----------
        name, version
            As openml.org lists it; "active" is the version that is current there, so name a number to get the same
            rows always.
        data_home
            Folder for what was fetched; None is scikit-learn's own.
        label
            The column of classes; None takes the one that openml.org names.
        **options
            As of `from_frame`.
        """
        frame, targets = fetched(name, version=version, data_home=data_home)
        if label is None and len(targets) != 1:
            raise InvalidParameter(f"The set {name!r} has the label columns {targets!r}. Name one: label=...")
        return cls.from_frame(frame, label=targets[0] if label is None else label, **options)
