import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from kernelbandits import _threads
from kernelbandits._threads import limit_blas, limit_blas_threads

CODE = """
import numpy, scipy.linalg.blas
from threadpoolctl import threadpool_info
from kernelbandits._threads import limit_blas_threads

def most():
    return max(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas")

print(most())
for work in (10.0, 1e6, 1e12):
    with limit_blas_threads(work):
        print(most())
print(most())
"""


def run(code, n_threads, *arguments):
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": n_threads, "OPENBLAS_NUM_THREADS": n_threads},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("n_threads", ["1", "2"])
def test_only_small_work_is_kept_to_one_thread(n_threads):
    before, tiny, small, large, after = run(CODE, n_threads).split()

    assert before == tiny == large == after
    assert small == "1"


# -- with libraries that only count --------------------------------------------------------------------------------


class Counted:
    """A library of linear algebra that does nothing but remember its number of threads."""

    def __init__(self, n_threads):
        self.n_threads = n_threads

    def get(self):
        return self.n_threads

    def set(self, n_threads):
        self.n_threads = n_threads


@pytest.fixture
def library(monkeypatch):
    counted = Counted(8)
    monkeypatch.setattr(_threads, "_defaults", [])  # a limit that another test left belongs to other libraries
    monkeypatch.setattr(_threads, "_outside", [])
    monkeypatch.setattr(_threads, "_libraries", lambda: (_threads._Library(counted.get, counted.set, False),))
    return counted


def test_the_limit_ends_where_it_began_when_threads_enter_and_leave_in_any_order(library):
    """The first to enter is the first to leave, and the other is still inside."""
    both_inside, first_left = Barrier(2, timeout=300), Barrier(2, timeout=300)

    def first():
        with limit_blas_threads(1e6):
            both_inside.wait()
        seen = library.n_threads
        first_left.wait()
        return seen

    def second():
        with limit_blas_threads(1e6):
            both_inside.wait()
            first_left.wait()
            return library.n_threads

    with ThreadPoolExecutor(2) as pool:
        seen = [future.result() for future in (pool.submit(first), pool.submit(second))]

    assert seen == [1, 1]
    assert library.n_threads == 8


def test_a_nested_entry_changes_nothing(library):
    with limit_blas_threads(1e6):
        with limit_blas_threads(1e6):
            assert library.n_threads == 1
        assert library.n_threads == 1
    assert library.n_threads == 8


def test_the_limit_is_lifted_where_an_interrupt_comes_before_it_is_left(library):
    def interrupted():
        entry = limit_blas_threads(1e6)
        entry.__enter__()
        assert library.n_threads == 1
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()

    assert library.n_threads == 8
    assert not _threads._inside


def test_an_error_inside_lifts_the_limit(library):
    with pytest.raises(ZeroDivisionError), limit_blas_threads(1e6):
        raise ZeroDivisionError

    assert library.n_threads == 8


def test_a_library_that_counts_for_each_thread_is_given_back_by_each(monkeypatch):
    """As OpenMP does: with one number for all threads, the one that leaves first would keep the limit."""
    from threading import local

    own = local()
    monkeypatch.setattr(
        _threads,
        "_libraries",
        lambda: (_threads._Library(lambda: getattr(own, "n", 8), lambda n: setattr(own, "n", n), True),),
    )
    both_inside, first_left = Barrier(2, timeout=300), Barrier(2, timeout=300)

    def first():
        with limit_blas_threads(1e6):
            both_inside.wait()
            assert own.n == 1
        first_left.wait()
        return own.n

    def second():
        with limit_blas_threads(1e6):
            both_inside.wait()
            first_left.wait()
            assert own.n == 1
        return own.n

    with ThreadPoolExecutor(2) as pool:
        assert [future.result() for future in (pool.submit(first), pool.submit(second))] == [8, 8]


def test_a_limit_for_the_process_holds_until_it_is_lifted(library):
    limit_blas(4)
    assert library.n_threads == 4
    with limit_blas_threads(1e6):
        assert library.n_threads == 1
        limit_blas(2)
        assert library.n_threads == 1
    assert library.n_threads == 2
    limit_blas(64)
    assert library.n_threads == 8

    limit_blas(None)
    assert library.n_threads == 8


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_process_is_not_inside_because_another_thread_was():
    code = """
import os, threading
from kernelbandits import _threads as threads
entered, left = threading.Event(), threading.Event()
def work():
    with threads.limit_blas_threads(1e6):
        entered.set()
        left.wait()
threading.Thread(target=work).start()
entered.wait()
child = os.fork()
if not child:
    print(len(threads._inside), {library.get() for library in threads._libraries()}, flush=True)
    os._exit(0)
os.waitpid(child, 0)
left.set()
"""
    assert run(code, "2").split() == ["0", "{2}"]


# -- every path ----------------------------------------------------------------------------------------------------

PATHS = """
import json, sys
import numpy as np, scipy.linalg, scipy.linalg.blas
import kernelbandits as kb
from kernelbandits import _threads as threads

if "unlimited" in sys.argv:
    threads.LARGEST = 0.0
if "one" in sys.argv:
    kb.set_threads(1)
seen, path = {}, "none"

def spied(function):
    def spy(*given, **options):
        limit = max(library.get() for library in threads._libraries())
        size = max(np.asarray(array).size for array in given if isinstance(array, np.ndarray))
        if size > 10_000:
            seen.setdefault(path, set()).add(limit)
        return function(*given, **options)
    return spy

for module, name in ((scipy.linalg.blas, "dtrsm"), (scipy.linalg, "cho_solve"), (scipy.linalg, "cholesky"),
                     (np.linalg, "cholesky"), (np.linalg, "eigh"), (np.linalg, "solve")):
    setattr(module, name, spied(getattr(module, name)))

class Spy(kb.kernels.Gaussian):
    def gram(self, first, second=None):
        if len(first) * len(first if second is None else second) > 10_000:
            seen.setdefault(path, set()).add(max(library.get() for library in threads._libraries()))
        return super().gram(first, second)

rng = np.random.default_rng(0)
points, rewards = rng.normal(size=(300, 40)), rng.normal(size=300)
def ucb(kernel=None):
    policy = kb.KernelUCB(kernel or Spy(length_scale=3.0), regularization=0.1, exploration=0.5, posterior="exact")
    policy.posterior.observe(points, rewards)
    return policy

path = "catch-up and screening"
policy = ucb()
decision = policy.choose(rng.normal(size=(60, 40)))
path = "pending"
policy.expect(decision)
policy.choose(rng.normal(size=(60, 40)))
path = "slate"
policy.choose(rng.normal(size=(60, 40)), k=5, diverse=True)
path = "many rounds"
policy = ucb()
policy.probabilities_many([rng.normal(size=(9, 40)) for _ in range(9)])
path = "catalog"
policy = ucb(kb.kernels.Gaussian(length_scale=3.0))
catalog = kb.Catalog(rng.normal(size=(400, 40)))
for _ in range(3):
    policy.learn(policy.choose(catalog), 1.0)
path = "primal"
policy = kb.LinUCB(regularization=0.1, exploration=0.5)
for _ in range(50):
    policy.learn(policy.choose(rng.normal(size=(30, 120))), 1.0)
path = "compressed"
from kernelbandits.posterior import AutoPosterior
posterior = AutoPosterior(kb.kernels.Gaussian(length_scale=30.0), regularization=1.0)
posterior.observe(points[:, :2], rewards)
posterior.predict(points[:60, :2])
posterior.covariance(points[:60, :2])
path = "draws"
from kernelbandits.posterior.sampling import draw_jointly
draw_jointly(np.zeros(120), np.eye(120), 5, rng)
after = max(library.get() for library in threads._libraries())
print(json.dumps([{path: sorted(limits) for path, limits in seen.items()}, after]))
"""

ALL_PATHS = {
    "catch-up and screening",
    "pending",
    "slate",
    "many rounds",
    "catalog",
    "primal",
    "compressed",
    "draws",
}


def test_small_work_takes_one_thread_on_every_path():
    seen, after = json.loads(run(PATHS, "2"))

    assert seen == {path: [1] for path in ALL_PATHS}
    assert after == 2


def test_without_a_limit_every_path_would_take_all_threads():
    """Negative control."""
    seen, after = json.loads(run(PATHS, "2", "unlimited"))

    assert seen == {path: [2] for path in ALL_PATHS}
    assert after == 2


def test_a_limit_of_one_thread_holds_everywhere_also_for_large_work():
    seen, after = json.loads(run(PATHS, "2", "unlimited", "one"))

    assert seen == {path: [1] for path in ALL_PATHS}
    assert after == 1
