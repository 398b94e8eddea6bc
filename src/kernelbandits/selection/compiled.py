"""How a loop is compiled. Imports Numba, so it is itself imported only by what compiles in the background.

Importing compiles nothing: a fork may come between two loops, and not while modules are imported.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar, cast

import numpy as np

from kernelbandits import _compile
from kernelbandits.types import Matrix

__all__ = ["IN_ANY_ORDER", "compiled", "finished", "matrix_at", "part"]

numba: Any = _compile.numba()  # its types are not for those who write loops in plain Python
Loop = TypeVar("Loop", bound=Callable[..., Any])

FUSED: Final = frozenset({"contract"})
"""A product and a sum may become one operation, which rounds once instead of twice."""

IN_ANY_ORDER: Final = frozenset({"reassoc", "contract"})
"""For sums: their terms may be added in any order, which is what vector instructions need."""


def compiled(signature: str) -> Callable[[Loop], Loop]:
    """Declare the one signature of a loop, as a decorator; `finished` compiles it."""

    def decorate(loop: Loop) -> Loop:
        ready = _compile.dispatcher(loop, FUSED)
        ready.declared = signature
        return cast("Loop", ready)

    return decorate


def finished(loop: Any) -> Callable[..., Any]:
    """A loop compiled for the signature that was declared."""
    return _compile.compiled(loop.py_func, loop.declared, FUSED)


def part(flags: frozenset[str] = FUSED) -> Callable[[Loop], Loop]:
    """Compile what only other loops call, together with them: nothing of its own to keep and to load."""

    def decorate(loop: Loop) -> Loop:
        ready: Loop = numba.njit(nogil=True, fastmath=set(flags))(loop)
        return ready

    return decorate


def _pointer_to(typing_context: Any, address: Any) -> Any:
    """What stands at an address, in words that Numba understands."""
    del typing_context

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        del context, signature
        return builder.inttoptr(arguments[0], numba.core.cgutils.voidptr_t)

    return numba.types.voidptr(address), code


_pointer: Any = numba.extending.intrinsic(_pointer_to)


@part()
def matrix_at(address: int, n_rows: int, n_columns: int) -> Matrix:
    """The matrix in C order at an address, without a copy: so that one loop can go through many of them.

    Whoever has the address also has to keep the matrix alive.
    """
    matrix: Matrix = numba.carray(_pointer(address), (n_rows, n_columns), np.float64)
    return matrix
