import os
import subprocess
import sys
import time
from concurrent.futures.process import BrokenProcessPool

import pytest

from kernelbandits.errors import InvalidParameter
from kernelbandits.experiments.backends import (
    THREAD_VARIABLES,
    Failure,
    n_workers_for,
    one_thread_each,
    run_processes,
    worker_pool,
)
from small_studies import LastJobKills

MARKS = []


def mark(value):
    MARKS.append(value)


def found():
    from threadpoolctl import threadpool_info

    return MARKS, os.environ.get("OPENBLAS_NUM_THREADS"), {pool["num_threads"] for pool in threadpool_info()}


def test_workers_are_prepared_and_keep_to_one_thread():
    with worker_pool(1, prepare=mark, arguments=("ready",)) as pool:
        marks, variable, threads = pool.submit(found).result()

    assert (marks, variable) == (["ready"], "1")
    assert threads <= {1}


def test_an_error_ends_workers_at_once():
    waiting = []

    def interrupted():
        with worker_pool(1) as pool:
            pool.submit(os.getpid).result()  # it is at work
            waiting.append(pool.submit(time.sleep, 600))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()

    assert waiting[0].cancelled() or isinstance(waiting[0].exception(), BrokenProcessPool)


def test_the_environment_is_as_it_was(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)

    with one_thread_each():
        inside = [os.environ[name] for name in THREAD_VARIABLES]

    assert set(inside) == {"1"}
    assert os.environ["OMP_NUM_THREADS"] == "3"
    assert "MKL_NUM_THREADS" not in os.environ


@pytest.mark.parametrize(("n_jobs", "workers", "n"), [(5, 2, 2), (1, 8, 1), (0, 3, 1), (99, None, os.cpu_count())])
def test_there_are_no_more_workers_than_jobs(n_jobs, workers, n):
    assert n_workers_for(n_jobs, workers) == n


def test_no_workers_are_rejected():
    with pytest.raises(InvalidParameter, match="The number of workers"):
        n_workers_for(5, 0)
    with pytest.raises(InvalidParameter, match="The number of workers must be a whole number of at most 1024"):
        n_workers_for(5, 10**23)


ORPHANS = """
import os, signal, time
from kernelbandits.experiments.backends import worker_pool
if __name__ == "__main__":
    with worker_pool(1) as pool:
        print(pool.submit(os.getpid).result(), flush=True)
        pool.submit(time.sleep, 600)
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_workers_end_when_their_master_is_killed(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(ORPHANS)
    done = subprocess.run([sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    worker = int(done.stdout)

    deadline = time.monotonic() + 300  # half of what it would sleep
    while is_alive(worker) and time.monotonic() < deadline:
        time.sleep(0.05)

    assert not is_alive(worker)


def is_alive(number):
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    try:  # its exit status may not have been read yet
        with open(f"/proc/{number}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return True


def test_progress_is_complete_when_the_last_job_kills_its_process(tmp_path):
    file, reported, outcomes = tmp_path / "first job is finished", [], {}

    for number, outcome in run_processes(LastJobKills(str(file)), reported.append, n_workers=2):
        outcomes[number] = outcome
        file.touch()

    assert outcomes[0] == "done"
    assert isinstance(outcomes[1], Failure)
    assert list(reported[-1]) == [5, 5]
