"""Validation of SciPy-sparse matrices passed by users: SciPy does not check their index arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from numpy.typing import NDArray

from kernelbandits.errors import InvalidContexts

__all__ = ["sound"]


def sound(points: Any) -> Any:
    """Sparse rows with valid index arrays; raises InvalidContexts. One pass over the entries.

    The format (CSR, CSC, BSR, COO) is preserved; formats without index arrays are converted to COO.
    """
    from scipy.sparse import issparse

    is_of_scipy: bool = issparse(points)
    if not is_of_scipy:
        raise InvalidContexts(
            f"Sparse contexts must be a SciPy matrix or array, got {type(points).__name__}. Convert them: "
            "scipy.sparse.csr_array(rows)."
        )
    if points.ndim != 2:
        raise InvalidContexts(f"Sparse contexts must be 2-d, one row per action, got shape {points.shape}.")
    checked = points
    try:
        is_sound = CHECKS[points.format](points)
        if is_sound and points.format in ("dia", "dok", "lil"):
            checked = points.tocoo(copy=False)
            is_sound = _is_sound_coo(checked)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise _broken(points) from error
    if not is_sound:
        raise _broken(points)
    return checked


def _broken(points: Any) -> InvalidContexts:
    return InvalidContexts(
        f"The index arrays of these sparse contexts (format {points.format}) are not those of a matrix of shape "
        f"{points.shape}: an index lies outside, the rows' beginnings do not rise, or arrays differ in length. Build "
        "the matrix again: scipy.sparse.csr_array((data, (rows, columns)), shape=...)."
    )


def _is_sound_compressed(points: Any) -> bool:
    """Whether CSR, CSC or BSR index arrays are valid; BSR indices count blocks."""
    starts, indices, data = points.indptr, points.indices, points.data
    n_rows, n_columns = points.shape
    if points.format == "csc":
        n_rows, n_columns = n_columns, n_rows
    if points.format == "bsr":
        _, height, width = data.shape
        n_rows, rows_left = divmod(n_rows, height)
        n_columns, columns_left = divmod(n_columns, width)
        if rows_left or columns_left:
            return False
    elif data.ndim != 1:
        return False
    return (
        starts.shape == (n_rows + 1,)
        and starts.dtype.kind == indices.dtype.kind == "i"
        and indices.shape == data.shape[:1]
        and starts[0] == 0
        and starts[-1] <= len(indices)
        and bool((starts[1:] >= starts[:-1]).all())
        and _all_below(indices[: starts[-1]], n_columns)
    )


def _is_sound_coo(points: Any) -> bool:
    rows, columns, data = points.row, points.col, points.data
    n_rows, n_columns = points.shape
    return (
        data.ndim == 1
        and rows.shape == columns.shape == data.shape
        and _all_below(rows, n_rows)
        and _all_below(columns, n_columns)
    )


def _is_sound_dia(points: Any) -> bool:
    offsets, data = points.offsets, points.data
    n_rows, n_columns = points.shape
    return (
        data.ndim == 2
        and offsets.shape == data.shape[:1]
        and offsets.dtype.kind == "i"
        and bool(((offsets > -n_rows) & (offsets < n_columns)).all())
    )


def _is_sound_lil(points: Any) -> bool:
    """Whether there are as many numbers as columns; the columns themselves are checked after conversion to COO."""
    return points.rows.shape == points.data.shape == points.shape[:1] and all(
        len(columns) == len(numbers) for columns, numbers in zip(points.rows, points.data, strict=True)
    )


def _all_below(indices: NDArray[Any], size: int) -> bool:
    """Whether all indices are in [0, size), in one pass: as unsigned integers, negative ones are large."""
    if not indices.size:
        return True
    return indices.dtype.kind == "i" and int(indices.view(indices.dtype.str.replace("i", "u")).max()) < size


CHECKS: Final[dict[str, Callable[[Any], bool]]] = {
    "bsr": _is_sound_compressed,
    "coo": _is_sound_coo,
    "csc": _is_sound_compressed,
    "csr": _is_sound_compressed,
    "dia": _is_sound_dia,
    "dok": lambda _: True,  # SciPy checks every key itself
    "lil": _is_sound_lil,
}
"""Checks per format of the properties that SciPy relies on; violating them can crash it."""
