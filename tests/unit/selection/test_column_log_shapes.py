import numpy as np
from numpy.testing import assert_allclose

from kernelbandits.kernels import Gaussian
from kernelbandits.selection import column_log
from kernelbandits.selection.column_log import ColumnLog

KERNEL = Gaussian(length_scale=0.4)


def make_log(points, slots):
    """A log of these points, some of which were pulled; slot i is slots[i]."""
    log = ColumnLog(np.ones(len(points)), 0.2)
    log.meet(np.asarray(slots))

    def similarities(runs, out):
        out[:] = KERNEL.gram(points[np.asarray(slots)[runs]], points)

    for slot in (0, 1, 0, 2, 2, 1):
        log.pull(slot, log.applied[0, slot] + 1.0, log.applied[1, slot] + 0.4, similarities)
    return log


def test_actions_that_come_late_are_as_if_they_had_been_there():
    points = np.random.default_rng(0).uniform(size=(50, 2))
    whole = make_log(points, [3, 8, 30])
    without = np.r_[0:10, 20:50]
    log = make_log(points[without], [3, 8, 20])

    column_log.insert(
        log, 10, np.ones(10), lambda slots: KERNEL.gram(points[np.array([3, 8, 30])[slots]], points[10:20])
    )

    assert_allclose(log.mean, whole.mean, atol=1e-14)
    assert_allclose(log.variance, whole.variance, atol=1e-14)
    assert_allclose(log.rows[: log.n_runs, : log.size], whole.rows[: whole.n_runs, : whole.size], atol=1e-14)
    assert log.places.tolist() == [3, 8, 30]


def test_many_insertions_copy_the_columns_now_and_then():
    points = np.random.default_rng(1).uniform(size=(50, 2))
    log = make_log(points, [3, 8, 30])
    buffers = []

    for _ in range(100):
        column_log.insert(log, log.size, np.ones(1), lambda slots: np.zeros((len(slots), 1)))
        if not any(log.rows is buffer for buffer in buffers):
            buffers.append(log.rows)

    assert log.size == 150
    assert len(buffers) == 2


def test_a_part_has_what_the_whole_has():
    points = np.random.default_rng(2).uniform(size=(50, 2))
    log = make_log(points, [3, 8, 30])
    positions = np.array([3, 4, 8, 40])

    part = column_log.part_of(log, positions, np.array([0, 2, -1]), 6)

    assert_allclose(part.mean, log.mean[positions])
    assert_allclose(part.rows[: part.n_runs, :4], log.rows[: log.n_runs, positions])
    part.pull(0, 5.0, 1.0, lambda *_: None)
    log.pull(0, 5.0, 1.0, lambda *_: None)
    assert_allclose(part.variance, log.variance[positions], atol=1e-15)
