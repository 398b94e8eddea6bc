import re

import numpy as np
import pytest
from numpy.testing import assert_allclose

from kernelbandits import Catalog, KernelUCB
from kernelbandits.errors import NumericalError
from kernelbandits.kernels import Gaussian
from kernelbandits.selection import batch_updates, set_threads
from kernelbandits.selection._catalog_loops import loops
from kernelbandits.selection.column_log import ColumnLog

N_ACTIONS, N_SLOTS = 9_000, 12


class Scene:
    """A log of points on a line; slot i is action 7 i."""

    def __init__(self):
        self.points = np.linspace(0.0, 3.0, N_ACTIONS)[:, None]
        self.log = ColumnLog(np.ones(N_ACTIONS), 0.2)
        self.log.meet(7 * np.arange(N_SLOTS))

    def similarities(self, slots, out):
        out[:] = Gaussian(length_scale=0.4).gram(self.points[7 * slots], self.points)

    def pull(self, slot, count, total):
        self.log.pull(slot, count, total, self.similarities)

    def pull_many(self, slots, counts, totals):
        batch_updates.pull_many(self.log, np.array(slots), np.array(counts), np.array(totals), self.similarities)

    def estimates(self):
        return np.vstack([self.log.mean, self.log.variance])


@pytest.fixture(autouse=True)
def as_it_was():
    yield
    set_threads(None)


def begun():
    scene = Scene()
    for slot in (3, 1, 4, 1, 5):
        scene.pull(slot, scene.log.applied[0, slot] + 1.0, scene.log.applied[1, slot] + 0.3 * slot)
    return scene


@pytest.mark.parametrize("slots", [[3, 1], [0, 2, 6], [5, 0, 3, 9, 1, 2]])
def test_many_pulls_at_once_are_the_same_as_one_by_one(slots):
    together, apart = begun(), begun()
    counts = [together.log.applied[0, slot] + 1.0 + slot for slot in slots]
    totals = [together.log.applied[1, slot] + 0.5 for slot in slots]

    together.pull_many(slots, counts, totals)
    for slot, count, total in zip(slots, counts, totals, strict=True):
        apart.pull(slot, count, total)

    assert_allclose(together.estimates(), apart.estimates(), rtol=0, atol=1e-13)
    for scene in (together, apart):  # and so is what comes after
        scene.pull(1, 20.0, 3.0)
        scene.pull(11, 1.0, 3.0)
    assert_allclose(together.estimates(), apart.estimates(), rtol=0, atol=1e-13)
    assert together.log.n_points == apart.log.n_points


def test_a_log_that_is_rebuilt_has_the_same_estimates():
    scene = begun()
    before, taken = scene.estimates(), scene.log.applied.copy()
    slots = np.flatnonzero(taken[0])

    batch_updates.rebuild(scene.log, slots, taken[0, slots], taken[1, slots], scene.similarities)

    assert_allclose(scene.estimates(), before, rtol=0, atol=1e-13)
    assert np.array_equal(scene.log.applied, taken)


def test_the_number_of_threads_changes_nothing():
    loops.ensure()  # that compiling ends in between would change a last digit
    outcomes = []
    for n_threads in (1, 2, 3):
        set_threads(n_threads, bytes_per_thread=1000)
        scene = begun()
        scene.pull_many([0, 3, 6, 7], [1.0, 5.0, 2.0, 3.0], [0.1, 0.2, 0.3, 0.4])
        outcomes.append((scene.estimates(), batch_updates.mixed(scene.log, np.ones(scene.log.n_runs), N_ACTIONS)))

    for estimates, mixture in outcomes[1:]:
        assert np.array_equal(estimates, outcomes[0][0])
        assert np.array_equal(mixture, outcomes[0][1])


@pytest.mark.parametrize("at_once", [False, True])
def test_a_scale_that_rounding_has_pushed_below_zero_is_rejected_in_words(at_once):
    scene = begun()
    scene.log.variance[:] = -1.0

    with pytest.raises(
        NumericalError, match=r"The regularization 0.2 is too small .* Take a regularization of at least"
    ):
        scene.pull_many([2, 6], [1.0, 1.0], [0.5, 0.5]) if at_once else scene.pull(2, 1.0, 0.5)


def test_a_catalog_whose_repeats_are_lost_in_rounding_error_names_the_smallest_regularization_that_works():
    points = np.random.default_rng(0).uniform(size=(64, 2))

    def play(regularization):
        policy, catalog = KernelUCB(Gaussian(length_scale=5.0), regularization=regularization), Catalog(points)
        policy.choose(catalog)
        policy.warm_start(points, np.ones(64), times=10**9)
        policy.choose(catalog)

    with pytest.raises(NumericalError, match=r"1e-07 is too small .* Take a regularization of at least") as rejected:
        play(1e-7)
    play(float(re.search(r"at least (\S+)\.$", str(rejected.value))[1]))
