import numpy as np

from kernelbandits.kernels import Rows, Strings
from kernelbandits.kernels.points import digest_of


def test_equal_points_have_equal_digests_and_others_have_not():
    points = np.array([[0.5, 1.0], [2.0, -1.0]])

    digest = digest_of(Rows(), points)

    assert digest == digest_of(Rows(), points.copy())
    assert digest != digest_of(Rows(), points[::-1])
    assert digest != digest_of(Rows(), points.reshape(4, 1))
    assert digest_of(Strings(), ["ab", "c"]) != digest_of(Strings(), ["a", "bc"])
