import copy
import pickle
import subprocess
import sys
from dataclasses import dataclass, replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from kernelbandits.errors import CannotSave, NotSupported
from kernelbandits.kernels import Constant, Delta, Gaussian, Kernel, Linear, Product, Rows, Scaled, Sum


@dataclass(frozen=True)
class Mine(Kernel):
    """What a user would write: two methods."""

    weight: float = 2.0

    def gram(self, first, second=None):
        return self.weight * Linear().gram(first, second)

    def diagonal(self, points):
        return self.weight * Linear().diagonal(points)


class Bare(Kernel):
    gram = Linear.gram
    diagonal = Linear.diagonal


def test_a_kernel_of_ones_own_needs_two_methods():
    kernel = Mine() + 1.0

    assert_allclose(kernel.gram([[1.0, 2.0]], [[3.0, 4.0]]), [[23.0]])
    assert kernel.describe()["parts"][0] == {"class": "Mine", "weight": 2.0}
    assert Bare().describe() == {"class": "Bare"}


def test_a_kernel_of_ones_own_has_no_features_unless_it_says_so():
    assert Mine().n_features(np.eye(2)) is None
    with pytest.raises(NotSupported, match="Mine has no finite feature map; use the exact posterior"):
        Mine().features(np.eye(2))


def test_a_kernel_of_ones_own_is_not_saved():
    with pytest.raises(CannotSave, match="Mine is a kernel of your own"):
        (2.0 * Mine() + Linear()).pack()


def test_sums_and_products_are_kept_flat():
    kernel = Linear() + Gaussian(length_scale=2.0) + 1.5
    product = Linear() * Gaussian(length_scale=2.0) * Linear()

    assert kernel == Sum((Linear(), Gaussian(length_scale=2.0), Constant(1.5)))
    assert product == Product((Linear(), Gaussian(length_scale=2.0), Linear()))


@pytest.mark.parametrize("number", [3, 3.0, np.float64(3.0), np.float32(3.0), np.int64(3)])
def test_any_real_number_scales_from_either_side(number):
    assert number * Linear() == Linear() * number == Scaled(Linear(), 3.0)
    assert number + Linear() == Linear() + number == Sum((Linear(), Constant(3.0)))


def test_sum_adds_kernels_up():
    assert sum([Linear(), Gaussian(length_scale=2.0)]) == Linear() + Gaussian(length_scale=2.0)


@pytest.mark.parametrize("other", ["2", None, [1.0], np.ones(2), 1j])
def test_a_kernel_meets_kernels_and_real_numbers_only(other):
    with pytest.raises(TypeError):
        Linear() + other
    with pytest.raises(TypeError):
        other * Linear()


def test_kernels_are_frozen_values():
    kernel = Gaussian(length_scale=2.0)

    assert kernel == Gaussian(length_scale=2)
    assert hash(kernel) == hash(Gaussian(length_scale=2))
    assert kernel != replace(kernel, length_scale=3.0)
    with pytest.raises(AttributeError):
        kernel.length_scale = 3.0


def test_kernels_can_be_copied_and_sent_to_another_process():
    kernel = 2 * Gaussian(length_scale=[1.0, 2.0]) + Delta(kind=Rows())

    assert copy.deepcopy(kernel) == kernel
    assert pickle.loads(pickle.dumps(kernel)) == kernel


def test_importing_the_kernels_imports_neither_scipy_nor_pytest():
    code = "import sys, kernelbandits.kernels; print([name for name in ('scipy', 'pytest') if name in sys.modules])"

    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert printed.strip() == "[]"
