"""Deserialization of kernels."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from typing import Any, Final

from numpy.typing import NDArray

from kernelbandits._saved_state import below
from kernelbandits.errors import DamagedFile, ForeignFile
from kernelbandits.kernels.base import Kernel
from kernelbandits.kernels.kinds import unpack_kind
from kernelbandits.kernels.precomputed import Precomputed
from kernelbandits.kernels.similarity_table import SimilarityTable
from kernelbandits.types import Parameters
from kernelbandits.validation import check_mapping

__all__ = ["known", "unpack_kernel"]

BY_NAME_ONLY: Final = ("FromCallable", "FromScikitLearn")
"""Kernels that a file names and does not contain."""

Arrays = Mapping[str, NDArray[Any]]


def unpack_kernel(parameters: Parameters, arrays: Arrays) -> Kernel:
    """Inverse of `Kernel.pack`; raises ForeignFile if a class is unknown.

    Tables with equal contents were one table and become one again, so that they grow together.

    >>> from kernelbandits.kernels import Gaussian, Linear
    >>> unpack_kernel(*(2.0 * Gaussian(length_scale=0.5) + Linear()).pack())
    Sum(parts=(Scaled(kernel=Gaussian(length_scale=0.5), factor=2.0), Linear()))
    """
    return _unpack(
        check_mapping(parameters, "The parameters of a kernel"), check_mapping(arrays, "The arrays of a kernel"), {}
    )


@cache
def known() -> dict[str, type[Kernel]]:
    """All kernel classes that a file can contain, by name. Nothing is ever imported by a name from a file."""
    from kernelbandits import kernels

    named = {name: getattr(kernels, name) for name in kernels.__all__ if name not in (*BY_NAME_ONLY, "Kernel")}
    return {name: one for name, one in named.items() if isinstance(one, type) and issubclass(one, Kernel)}


def _unpack(parameters: Parameters, arrays: Arrays, tables: dict[bytes, SimilarityTable]) -> Kernel:
    name = parameters.get("class")
    if not isinstance(name, str) or name not in known():
        raise ForeignFile(
            f"The file holds a kernel that this version does not know: {name!r}. It may come from a later version."
        )
    values = {field: _unpack_value(value, field, arrays, tables) for field, value in parameters.items()}
    try:
        kernel = known()[name].unpack(values, arrays)
    except (DamagedFile, KeyError, TypeError) as error:
        raise ForeignFile(
            f"The file describes a {name} kernel in a way this version does not know: {error}."
        ) from error
    if isinstance(kernel, Precomputed):
        return Precomputed(tables.setdefault(_content(kernel.table), kernel.table))
    return kernel


def _unpack_value(value: Any, name: str, arrays: Arrays, tables: dict[bytes, SimilarityTable]) -> Any:
    """A field in the form its class expects: nested kernels as kernels, kinds of points as kinds."""
    if name == "kind":
        return unpack_kind(value)
    if isinstance(value, dict) and "class" in value:
        return _unpack(value, below(f"{name}.", arrays), tables)
    if isinstance(value, list):
        return tuple(_unpack_value(part, f"{name}.{place}", arrays, tables) for place, part in enumerate(value))
    return value


def _content(table: SimilarityTable) -> bytes:
    """Fingerprint of the complete contents of a table."""
    content = sha256(repr((table.origin, table.ids)).encode("utf-8", "surrogatepass"))
    content.update(table.values.tobytes())
    return content.digest()
