"""What a large exact posterior holds."""

import subprocess
import sys

import pytest

FILL = """
import resource, sys
import numpy as np
from kernelbandits.kernels import Gaussian
from kernelbandits.posterior import ExactPosterior

n_points, batch = int(sys.argv[1]), int(sys.argv[2])
points = np.random.default_rng(0).uniform(size=(n_points, 10))
posterior = ExactPosterior(Gaussian(length_scale=0.5), regularization=0.1)
for start in range(0, n_points, batch):
    posterior.observe(points[start : start + batch], points[start : start + batch, 0])
assert posterior.size == n_points
error = np.abs(posterior.predict(points[:5]).mean - points[:5, 0]).max()
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, error)
"""


def peak_bytes(n_points, batch):
    done = subprocess.run(
        [sys.executable, "-c", FILL, str(n_points), str(batch)], capture_output=True, text=True, check=True
    )
    peak, error = done.stdout.split()
    assert float(error) < 0.2
    return float(peak)


def test_a_factor_takes_half_of_its_square():
    small, large = peak_bytes(500, 500), peak_bytes(4_000, 500)

    assert large - small < 0.75 * 8 * 4_000**2


@pytest.mark.long
def test_twenty_thousand_points_fit_into_five_gigabytes():
    assert peak_bytes(20_000, 1_000) < 5e9
