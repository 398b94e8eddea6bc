"""The axes of a feature space as points."""

from __future__ import annotations

import numpy as np

from kernelbandits.kernels.rows import is_sparse
from kernelbandits.types import Points

__all__ = ["unit_rows"]


def unit_rows(like: Points) -> Points:
    """One row an axis, dense or sparse as the rows `like`: what a posterior of theirs says of the axes is C⁻¹ and θ̂.

    >>> unit_rows(np.array([[3.0, 4.0]]))
    array([[1., 0.],
           [0., 1.]])
    """
    axes = np.eye(like.shape[1])
    if not is_sparse(like):
        return axes
    from scipy.sparse import csr_array

    return csr_array(axes)
