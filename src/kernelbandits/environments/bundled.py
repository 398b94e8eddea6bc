"""Data that scikit-learn brings or fetches."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kernelbandits.errors import DataUnavailable, InvalidParameter, MissingExtra
from kernelbandits.types import Matrix

__all__ = ["BUNDLED_CLASSES", "BUNDLED_VALUES", "bundled", "fetched"]

BUNDLED_CLASSES: Final = ("digits", "breast_cancer", "wine", "iris")
"""Sets with classes that come with scikit-learn."""

BUNDLED_VALUES: Final = ("diabetes",)
"""Sets with a value a row that come with scikit-learn."""


def bundled(name: str, known: tuple[str, ...]) -> tuple[Matrix, NDArray[Any]]:
    """Features and targets of a set that comes with scikit-learn; classes go by their names where they have some."""
    if name not in known:
        raise InvalidParameter(f"scikit-learn brings {', '.join(known)} for this, got {name!r}.")
    bunch = getattr(_scikit_learn(), f"load_{name}")()
    features, target = np.asarray(bunch.data, dtype=np.float64), np.asarray(bunch.target)
    names = getattr(bunch, "target_names", None)
    if names is None or np.asarray(names).dtype.kind not in "US":
        return features, target
    return features, np.asarray(names)[target]


def fetched(name: str, *, version: int | str, data_home: str | None) -> tuple[Any, list[str]]:
    """Data frame and label columns of a set on openml.org, fetched now or, where it was fetched before, from disk."""
    try:
        bunch = _scikit_learn().fetch_openml(name, version=version, data_home=data_home, as_frame=True, parser="auto")
    except OSError as error:  # URLError and HTTPError are such
        raise DataUnavailable(
            f"The set {name!r} could not be fetched from openml.org: {error}. Ask again with a connection, name a "
            "`data_home` where it was kept before, or give the table yourself: Classification.from_frame."
        ) from error
    except ValueError as error:
        raise InvalidParameter(
            f"openml.org has no such set, or none that scikit-learn takes: {name!r}, version {version!r}. {error}"
        ) from error
    return bunch.frame, list(bunch.target_names)


def _scikit_learn() -> Any:
    try:
        from sklearn import datasets
    except ImportError as missing:
        raise MissingExtra(
            "These data sets come with scikit-learn, which is not installed. Add it with: "
            'pip install "kernelbandits[experiments]"'
        ) from missing
    return datasets
