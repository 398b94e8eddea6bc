import sys

import pytest

from kernelbandits._threads import one_blas_thread


def test_every_blas_that_is_loaded_keeps_to_one_thread_and_is_let_go_again():
    threadpoolctl = pytest.importorskip("threadpoolctl")
    with one_blas_thread():
        inside = [pool["num_threads"] for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "blas"]

    assert inside
    assert set(inside) == {1}


def test_without_threadpoolctl_nothing_changes(monkeypatch):
    monkeypatch.setitem(sys.modules, "threadpoolctl", None)

    with one_blas_thread():
        reached = True

    assert reached
