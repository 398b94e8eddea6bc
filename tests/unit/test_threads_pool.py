from concurrent.futures import ThreadPoolExecutor
from threading import Event, get_ident

import numpy as np
import pytest

from kernelbandits import _threads
from kernelbandits.errors import InvalidParameter
from kernelbandits.selection import set_threads


@pytest.fixture(autouse=True)
def as_it_was():
    yield
    set_threads(None)


def test_small_work_stays_in_one_thread():
    set_threads(8)

    assert _threads.threads_for(100_000) == 1
    assert _threads.threads_for(4 * _threads.BYTES_PER_THREAD) == 4
    assert _threads.threads_for(10**9) == 8
    assert _threads.threads_for(10**9, 3) == 1
    assert _threads.threads_for(10**9, 10) == 5


def test_a_worker_process_keeps_to_what_was_configured(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")

    assert _threads.threads_for(10**9) == 1


@pytest.mark.parametrize("n_threads", [1, 2, 3])
def test_every_part_is_done_once(n_threads):
    set_threads(n_threads)
    done = np.zeros(10_000, dtype=int)

    def work(start, stop):
        assert start % 1024 == 0
        done[start:stop] += 1

    _threads.for_each_part(work, 10_000, align=1024, n_bytes=10**9)

    assert (done == 1).all()


def test_a_thread_that_is_kept_from_its_work_is_not_waited_for(monkeypatch):
    set_threads(2)
    pool = ThreadPoolExecutor(1)
    gate = Event()
    pool.submit(gate.wait)  # the only thread of the pool is busy with something else
    monkeypatch.setattr(_threads, "_shared_pool", lambda _: pool)
    done = np.zeros(10_000, dtype=int)

    def work(start, stop):
        done[start:stop] += 1

    _threads.for_each_part(work, 10_000, align=1024, n_bytes=10**9)
    gate.set()
    pool.shutdown()

    assert (done == 1).all()


def test_an_error_in_a_part_comes_out():
    set_threads(2)

    def work(start, stop):
        if start:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        _threads.for_each_part(work, 10_000, align=1024, n_bytes=10**9)


@pytest.mark.parametrize("n", [0, -1, 1.5, "two"])
def test_the_number_of_threads_is_checked(n):
    with pytest.raises(InvalidParameter, match="number of threads"):
        set_threads(n)


def test_where_threads_cannot_be_had_the_callers_does_all(monkeypatch):
    set_threads(3)
    pool, submitted = ThreadPoolExecutor(2), []

    class Exhausted:
        def submit(self, work):
            submitted.append(pool.submit(work))  # a pool may keep what it could start no thread for
            if len(submitted) == 2:
                raise RuntimeError("can't start new thread")
            return submitted[-1]

    monkeypatch.setattr(_threads, "_shared_pool", lambda _: Exhausted())
    done, workers = np.zeros(10_000, dtype=int), set()

    def work(start, stop):
        workers.add(get_ident())
        done[start:stop] += 1

    _threads.for_each_part(work, 10_000, align=1024, n_bytes=10**9)
    pool.shutdown()

    assert len(submitted) == 2
    assert (done == 1).all()
    assert workers == {get_ident()}


def test_threads_that_ask_at_once_all_get_a_pool():
    with ThreadPoolExecutor(4) as callers:
        pools = list(callers.map(_threads._shared_pool, [2, 3, 4, 5] * 5))

    assert all(pool.submit(int).result() == 0 for pool in pools)
