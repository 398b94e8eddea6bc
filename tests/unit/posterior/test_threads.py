import subprocess
import sys

import pytest

CODE = """
import numpy, scipy.linalg.blas
from threadpoolctl import threadpool_info
from kernelbandits.posterior.threads import few_threads

def most():
    return max(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas")

print(most())
for work in (10.0, 1e6, 1e12):
    with few_threads(work):
        print(most())
print(most())
"""


@pytest.mark.parametrize("threads", ["1", "2"])
def test_only_small_work_is_kept_to_one_thread(threads):
    done = subprocess.run(
        [sys.executable, "-c", CODE],
        capture_output=True,
        text=True,
        check=True,
        env={"OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads, "PATH": ""},
    )

    before, tiny, small, large, after = done.stdout.split()
    assert before == tiny == large == after
    assert small == "1"
