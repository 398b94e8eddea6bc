import subprocess
import sys
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


def test_a_pool_without_threads_raises_at_once(monkeypatch):
    def no_thread(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("threading.Thread.start", no_thread)
    pool = _threads.Pool()
    pool.grow(2)

    with pytest.raises(RuntimeError, match="No thread"):
        pool.submit(int)


INTERRUPTS = """
import os, sys, threading
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from kernelbandits._threads import Pool

def new_pool():
    pool = Pool()
    pool.grow(1)
    return pool

def is_interrupted(call, place):
    passed = 0
    def trace(*_):
        nonlocal passed
        passed += 1
        if passed == place:
            sys.settrace(None)
            raise KeyboardInterrupt
        return trace
    sys.settrace(trace)
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(None)
    return False

make = {"ours": new_pool, "executor": lambda: ThreadPoolExecutor(1)}[sys.argv[1]]
for place in count(1):
    pool = make()
    pool.submit(int).result()
    if not is_interrupted(lambda: pool.submit(int), place):
        break
    done = threading.Event()
    threading.Thread(target=lambda: (pool.submit(int).result(), done.set()), daemon=True).start()
    if not done.wait(float(sys.argv[2])):
        print("stuck")
        break
print(place)
sys.stdout.flush()
os._exit(0)
"""
"""Interrupts `submit` at every line, and says whether a later call is still run, and how many places there were."""


@pytest.mark.parametrize(  # the second is the negative control: it waits for what never comes
    ("pool", "patience", "is_stuck"), [("ours", "100", False), ("executor", "1", True)]
)
def test_an_interrupt_while_a_call_is_passed_on_stops_no_later_call(pool, patience, is_stuck):
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTS, pool, patience], capture_output=True, text=True, check=True, timeout=300
    )

    *said, n_places = done.stdout.split()
    assert said == (["stuck"] if is_stuck else [])
    assert int(n_places) > 5
