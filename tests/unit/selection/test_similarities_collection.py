import numpy as np
import pytest
from numpy.testing import assert_allclose

from kernelbandits import _compile
from kernelbandits.kernels import Gaussian, Laplacian, Matern, Spectrum
from kernelbandits.selection import similarities as collection_module
from kernelbandits.selection._screening_loops import WORK_BEFORE_COMPILE, screening_loops
from kernelbandits.selection.similarities import FixedPoints

ITEMS = np.random.default_rng(0).normal(size=(700, 5))
KERNELS = [
    Gaussian(length_scale=0.8),
    Gaussian(length_scale=[0.5, 1.0, 2.0, 0.3, 1.5]),
    3.0 * Matern(smoothness=0.5, length_scale=1.2),
    Matern(smoothness=1.5, length_scale=1.2),
    0.5 * Matern(smoothness=2.5, length_scale=0.7),
    Laplacian(length_scale=1.0),
]


@pytest.fixture(params=["plain", "compiled"])
def form(request, monkeypatch):
    if request.param == "compiled":
        screening_loops.ensure()
    else:
        monkeypatch.setattr(screening_loops, "is_compiled", False)
    return request.param


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_similarities_are_those_of_the_kernel(kernel, form):
    points = np.vstack([ITEMS[:2], np.random.default_rng(1).normal(size=(2, 5))])
    collection, out = FixedPoints(kernel, ITEMS, items_at_once=256), np.zeros((4, 720))

    collection.write(points, out[:, :700])

    assert_allclose(out[:, :700], kernel.gram(points, ITEMS), rtol=1e-12, atol=1e-14)
    assert (out[:, 700:] == 0.0).all()
    assert (collection.n_bytes > 0) == (form == "compiled" and not isinstance(kernel, Laplacian))


def test_items_far_away_are_left_to_the_kernel():
    screening_loops.ensure()
    kernel, out = Gaussian(length_scale=1e-6), np.zeros((1, 700))

    FixedPoints(kernel, ITEMS).write(ITEMS[3:4], out)

    assert_allclose(out, kernel.gram(ITEMS[3:4], ITEMS))


def test_other_points_than_rows():
    words, out = ["red boat", "blue boat", "goat"], np.zeros((1, 3))

    FixedPoints(Spectrum(n=2), words).write(["boat"], out)

    assert_allclose(out, Spectrum(n=2).gram(["boat"], words))


def test_much_work_begins_the_compiling(monkeypatch):
    chosen = _compile.Loops(work_before_compile=WORK_BEFORE_COMPILE)
    _compile.groups.remove(chosen)
    begun = []
    monkeypatch.setattr(chosen, "compile", lambda: begun.append(1))
    monkeypatch.setattr(collection_module, "screening_loops", chosen)
    collection, out = FixedPoints(Gaussian(length_scale=1.0), ITEMS), np.zeros((1, 700))

    collection.write(ITEMS[:1], out)
    assert not begun

    chosen._work = 10**9
    collection.write(ITEMS[:1], out)
    chosen._thread.join()
    assert begun
