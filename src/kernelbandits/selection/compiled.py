"""Decorators of compiled kernels. Imports Numba, so it is itself imported only by background compilation.

Importing compiles nothing: a fork may happen between two compilations, and must not happen during an import.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar, cast

import numpy as np

from kernelbandits import _compile
from kernelbandits.types import Matrix

__all__ = ["IN_ANY_ORDER", "compiled", "finished", "matrix_at", "part"]

numba: Any = _compile.numba()  # Numba's types are not usable for kernels in plain Python
Loop = TypeVar("Loop", bound=Callable[..., Any])

FUSED: Final = frozenset({"contract"})
"""Fast-math flags that allow fusing a product and a sum into one operation, which rounds once instead of twice."""

IN_ANY_ORDER: Final = frozenset({"reassoc", "contract"})
"""Fast-math flags that allow adding the terms of a sum in any order, which vector instructions need."""


def compiled(signature: str) -> Callable[[Loop], Loop]:
    """Decorator that declares the one signature of a kernel; `finished` compiles it."""

    def decorate(loop: Loop) -> Loop:
        ready = _compile.dispatcher(loop, FUSED)
        ready.declared = signature
        return cast("Loop", ready)

    return decorate


def finished(loop: Any) -> Callable[..., Any]:
    """Kernel compiled for its declared signature."""
    return _compile.compiled(loop.py_func, loop.declared, FUSED)


def part(flags: frozenset[str] = FUSED) -> Callable[[Loop], Loop]:
    """Decorator for functions called only by other kernels and compiled with them: no cache file of their own."""

    def decorate(loop: Loop) -> Loop:
        ready: Loop = numba.njit(nogil=True, fastmath=set(flags))(loop)
        return ready

    return decorate


def _pointer_to(typing_context: Any, address: Any) -> Any:
    """Numba intrinsic that casts an integer address to a pointer."""
    del typing_context

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        del context, signature
        return builder.inttoptr(arguments[0], numba.core.cgutils.voidptr_t)

    return numba.types.voidptr(address), code


_pointer: Any = numba.extending.intrinsic(_pointer_to)


@part()
def matrix_at(address: int, n_rows: int, n_columns: int) -> Matrix:
    """View of the C-ordered matrix at an address, without a copy, so that one kernel can process many of them.

    The owner of the address must keep the matrix alive.
    """
    matrix: Matrix = numba.carray(_pointer(address), (n_rows, n_columns), np.float64)
    return matrix
