"""Linear algebra on one thread."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

from threadpoolctl import threadpool_limits

__all__ = ["one_blas_thread"]


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Keep BLAS to one thread while this lasts.

    A bandit's matrices are small: threads that wait for each other cost more than they save, many times over where
    something else is running.
    """
    import_module("scipy.linalg.blas")  # SciPy brings a BLAS of its own, and only what is loaded can be told
    with threadpool_limits(limits=1, user_api="blas"):
        yield
