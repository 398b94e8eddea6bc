"""Barycentric spanners: few actions of which every action is a combination with small coefficients."""

from __future__ import annotations

import numpy as np

from kernelbandits.checks import positive
from kernelbandits.errors import InvalidParameter
from kernelbandits.policies.linear.spanning import coordinates_of, spanning_rows
from kernelbandits.types import Indices, Matrix

__all__ = ["barycentric_spanner"]


def barycentric_spanner(points: Matrix, *, factor: float = 2.0) -> Indices:
    """Rows of independent points of which every point is a combination with coefficients in [−factor, factor].

    By determinant swaps: a coefficient z_i of x is the factor by which the volume of the spanner changes when x takes
    the place of its i-th point. So while some coefficient is larger than `factor`, that point takes that place, which
    makes the volume more than `factor` times as large. Starting from greedy volume there are O(r log r / log factor)
    swaps for rank r, of O(N r) each. Points that span only a part of the space have the spanner of that part.

    Reference: Awerbuch and Kleinberg (2004), approximate barycentric spanners.

    >>> barycentric_spanner(np.array([[1.0, 0.0], [1.0, 0.1], [0.0, 5.0], [0.3, 0.3]])).tolist()
    [2, 0]
    """
    if not positive(factor, "The factor of a barycentric spanner") > 1.0:
        raise InvalidParameter(
            f"The factor of a barycentric spanner has to be above 1, got {factor!r}: a spanner with factor 1 exists, "
            "but finding it can take exponentially many swaps. 2.0 is usual."
        )
    rows = spanning_rows(points)
    coordinates = coordinates_of(points, rows)
    while True:
        row, place = np.unravel_index(int(np.abs(coordinates).argmax()), coordinates.shape)
        if abs(coordinates[row, place]) <= factor:
            return rows
        rows[place] = row
        share = coordinates[:, place] / coordinates[row, place]  # of the new point in every point
        coordinates = coordinates - np.outer(share, coordinates[row])
        coordinates[:, place] = share
