"""Centres of the states that a round can be in."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import ArrayLike

from kernelbandits.checks import a_count, a_generator, an_array
from kernelbandits.errors import InvalidParameter
from kernelbandits.types import Matrix, Seed

__all__ = ["checked_centres", "k_means_centres"]


def k_means_centres(contexts: ArrayLike, *, n_centres: int, seed: Seed = None) -> Matrix:
    """Centres of k-means cells, for contexts that are no states by themselves; fewer where cells would be empty.

    >>> k_means_centres([[0.0], [0.2], [5.0], [5.2]], n_centres=2, seed=0).ravel().round(3).tolist()
    [0.1, 5.1]
    """
    from scipy.cluster.vq import kmeans2

    rows = checked_centres(contexts)
    unit = float(np.abs(rows).max()) or 1.0  # squares of what is far from 1 overflow, or vanish
    rows = rows / unit
    distinct = np.unique(rows, axis=0)
    n_centres = min(a_count(n_centres, "The number of centres"), len(distinct))
    start = distinct[a_generator(seed).permutation(len(distinct))[:n_centres]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of empty cells, which are left out here
        centres, cells = kmeans2(rows, start, minit="matrix", iter=50)
    kept: Matrix = unit * np.unique(centres[np.unique(cells)], axis=0)
    return kept


def checked_centres(centres: ArrayLike) -> Matrix:
    """Rows of finite numbers, or InvalidParameter."""
    rows = an_array(centres, "Centres")
    if rows.ndim != 2 or not rows.size or not np.isfinite(rows).all():
        raise InvalidParameter(
            f"Centres are at least one row of finite numbers each (states × columns), got shape {rows.shape}."
        )
    return rows
