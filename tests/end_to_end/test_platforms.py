"""The main paths in processes that lack what some systems and some installations do not have."""

import os
import subprocess
import sys

import pytest

HANG = 300
"""Seconds after which a process hangs; none takes more than a few."""

WITHOUT_NUMBA = """
sys.modules["numba"] = None
"""

BROKEN_NUMBA = """
class Broken:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "numba":
            raise OSError("libllvmlite.so: cannot open shared object file")
sys.meta_path.insert(0, Broken())
"""

LIKE_WINDOWS = """
import multiprocessing.util, concurrent.futures.process, random, logging, tempfile, uuid, subprocess
import numpy, scipy.linalg.blas  # they know their own system
for name in ("fcntl", "resource", "termios", "pwd", "grp"):
    sys.modules[name] = None
for name in ("fork", "forkpty", "register_at_fork", "sched_getaffinity", "sched_setaffinity", "uname", "O_DIRECTORY"):
    if hasattr(os, name):
        delattr(os, name)
whole = os.open
def no_folders(path, flags, *more, **options):
    if os.path.isdir(path):
        raise PermissionError(13, "Permission denied", str(path))
    return whole(path, flags, *more, **options)
os.open = no_folders
"""

PATHS = """
import kernelbandits as kb
from kernelbandits._compile import groups
from kernelbandits._threads import threads_for

rng = np.random.default_rng(0)
kernel = kb.kernels.Gaussian(length_scale=1.0)
policies = {
    "rows": (kb.KernelUCB(kernel, regularization=0.1, exploration=0.5, seed=0), lambda: rng.normal(size=(30, 3))),
    "linear": (kb.LinUCB(regularization=0.1, exploration=0.5, seed=0), lambda: rng.normal(size=(30, 3))),
    "catalog": (
        kb.KernelUCB(kernel, regularization=0.1, exploration=0.5, seed=0),
        lambda items=kb.Catalog(rng.normal(size=(300, 3))): items,
    ),
}
for name, (policy, contexts) in policies.items():
    for _ in range(40):
        decision = policy.choose(contexts())
        policy.learn(decision, float(decision.context[0]))
    decision = policy.choose(contexts())
    policy.expect(decision)
    policy.learn(policy.choose(contexts()), 0.5)
    policy.learn(decision, 1.0)
    policy.save(f"{name}.kb")
    again = kb.load(f"{name}.kb")
    actions = contexts()
    assert again.choose(actions).action == policy.choose(actions).action
policy = kb.LinUCB(regularization=0.1, exploration=0.5)
policy.play(rng.normal(size=(50, 4, 3)), rng.normal(size=(50, 4)))
for group in groups:
    group.record_work(10**9)  # enough to begin compiling
for group in groups:
    group._thread.join()
kb.compile_ahead()
assert threads_for(10**9) >= 1
policies["rows"][0].choose(rng.normal(size=(30, 3)))
print([group.is_compiled for group in groups])
"""


def run(absent, folder):
    code = "import os, sys\nimport numpy as np\n" + absent + PATHS
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        timeout=HANG,
        cwd=folder,
        env=dict(os.environ),
    )


N_GROUPS = 4
"""Groups of compiled loops: of features, catalogs, screening and dictionaries."""

LOGGED = "import logging; logging.basicConfig(level=logging.WARNING)\n"


@pytest.mark.parametrize(
    ("absent", "n_lines"),
    [(WITHOUT_NUMBA, 0), (BROKEN_NUMBA + LOGGED, N_GROUPS)],
    ids=["not installed", "cannot be loaded"],
)
def test_everything_works_without_numba_and_only_the_log_says_so(absent, n_lines, tmp_path):
    """Once for each group of loops, where the program listens; otherwise there is silence."""
    done = run(absent, tmp_path)

    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str([False] * N_GROUPS)
    result = done.stderr.splitlines()
    assert len(result) == n_lines
    assert all("NumPy is used instead of" in line for line in result)


def test_no_path_needs_forks_locks_or_open_folders(tmp_path):
    """As on Windows. Numba is there, so everything is compiled: the negative control of the test above."""
    done = run(LIKE_WINDOWS, tmp_path)

    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert done.stdout.strip() == str([True] * N_GROUPS)
