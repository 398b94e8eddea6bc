import numpy as np
import pytest
from numpy.testing import assert_allclose

import kernelbandits as kb
from kernelbandits.kernels import Gaussian
from kernelbandits.posterior.observations import Observations
from kernelbandits.selection import _catalog_loops, column_log, ties
from kernelbandits.selection._catalog_loops import BEST, LARGEST, LEADER, LogArrays, loops, make_loops
from kernelbandits.selection.column_log import FALL, ColumnLog, Screen
from kernelbandits.selection.synchronized_columns import SynchronizedColumns

N_ACTIONS, BETA, REGULARIZATION = 1_500, 0.9, 0.3
PULLS = [0, 1, 1, 2, 0, 3, 3, 3, 1, 4, 0]


@pytest.fixture(scope="module")
def compiled():
    chosen = make_loops()
    chosen.compile()
    return chosen


class Scene:
    """Slots 0 to 4 are the actions 100 i; rewards are pulled one by one."""

    def __init__(self):
        self.points = np.random.default_rng(7).uniform(size=(N_ACTIONS, 2))
        self.log = ColumnLog(np.ones(N_ACTIONS), REGULARIZATION)
        self.log.meet(100 * np.arange(5))
        self.counts, self.sums = np.zeros(5), np.zeros(5)

    def similarities(self, slots, out):
        out[:] = Gaussian(length_scale=0.3).gram(self.points[100 * slots], self.points)

    def observe(self, slot):
        self.counts[slot] += 1.0
        self.sums[slot] += 0.3 * slot - 0.2

    def round(self):
        return self.log.round(self.counts, self.sums, self.similarities, BETA, N_ACTIONS)

    def by_passes(self, slot):
        count, total = self.counts.item(slot), self.sums.item(slot)
        bar = ties.lowered(self.log.score_after(slot, count, total, BETA))
        self.log.pull(slot, count, total, self.similarities, Screen(BETA**2, bar))


@pytest.mark.parametrize("form", ["compiled", "interpreted"])
def test_a_round_in_one_call_is_a_pull_and_a_search(form, compiled, monkeypatch):
    monkeypatch.setattr(loops, "round", compiled.round if form == "compiled" else _catalog_loops.round_loop)
    one_call, by_passes = Scene(), Scene()

    for slot in PULLS:
        for scene in (one_call, by_passes):
            scene.observe(slot)
        by_passes.by_passes(slot)

        assert one_call.round() == 1
        ours, theirs = one_call.log, by_passes.log
        scores = theirs.mean + BETA * np.sqrt(np.maximum(theirs.variance, 0.0))
        assert ours.tied[0] == ours.state[LEADER] == scores.argmax()
        assert ours.state[BEST] == pytest.approx(scores.max(), rel=1e-13)
        assert (ours.n_runs, ours.n_points) == (theirs.n_runs, theirs.n_points)
        assert_allclose(ours.items, theirs.items, rtol=0, atol=1e-13)
        assert_allclose(ours.runs[:6], theirs.runs[:6], rtol=0, atol=1e-13)
        assert_allclose(ours.state[:4], theirs.state[:4], rtol=0, atol=1e-13)
        assert ours.state[column_log.INNOVATION] == pytest.approx(theirs.state[column_log.INNOVATION], rel=1e-12)
        assert np.array_equal(ours.marks, theirs.marks)
        assert np.array_equal(ours.applied, theirs.applied)
        assert one_call.round() == 1  # nothing has changed since
        assert ours.tied[0] == scores.argmax()


def test_what_takes_more_than_one_call_is_left_undone(compiled, monkeypatch):
    monkeypatch.setattr(loops, "round", compiled.round)
    scene = Scene()
    scene.observe(0)
    scene.round()
    before = scene.log.items.copy()

    scene.observe(1)
    scene.observe(2)
    assert scene.round() == -1  # two changes
    scene.counts[1:3], scene.sums[1:3] = 0.0, 0.0
    scene.counts[0] -= 1.0
    assert scene.round() == -1  # a count that fell
    scene.counts[0] += 1.0
    scene.sums[0] += 1.0
    assert scene.round() == -1  # a sum alone
    scene.sums[0] -= 1.0
    scene.log.slots[0, 3] = -1
    scene.observe(3)
    assert scene.round() == -1  # an action that is none of the log's

    assert np.array_equal(scene.log.items, before)


def test_a_changed_sum_moves_the_means_alone():
    scene, other = Scene(), Scene()
    for slot in PULLS:
        scene.observe(slot)
        scene.by_passes(slot)
        other.observe(slot)
        other.sums[1] += 0.25 * (slot == 1)
        other.by_passes(slot)

    scene.log.change_sum(1, other.sums.item(1))

    assert_allclose(scene.log.items, other.log.items, rtol=0, atol=1e-13)


@pytest.mark.parametrize("gamma", [1e-7, 1e-8])
def test_the_best_is_found_where_variances_cancel(gamma):
    """What is left of the variance of a point pulled first is below the rounding of a difference."""
    loops.ensure()
    for seed in range(40):
        rng = np.random.default_rng(seed)
        items, rewards = rng.uniform(size=(6, 2)), rng.uniform(size=6)
        policy = kb.KernelUCB(kb.kernels.Gaussian(length_scale=0.3), regularization=gamma, exploration=1.0)
        catalog = kb.Catalog(items)
        for _ in range(12):
            decision = policy.choose(catalog)
            scores = policy.posterior.predict(items).upper(1.0)
            assert scores[decision.action] >= scores.max() - 1e-6 * max(1.0, abs(scores.max()))
            policy.learn(decision, float(rewards[decision.action]))


@pytest.mark.parametrize("form", ["compiled", "interpreted"])
@pytest.mark.parametrize("scale", [1.0, 1e6])
def test_a_round_leaves_sums_that_fell_from_far_above_to_a_rebuild(form, scale, compiled, monkeypatch):
    monkeypatch.setattr(loops, "round", compiled.round if form == "compiled" else _catalog_loops.round_loop)
    scene = Scene()
    scene.sums[1] = -scale
    scene.observe(1)
    scene.sums[1] = -scale

    scene.log.state[LARGEST] = 1.01 * FALL * scale
    assert scene.log.has_fallen(scene.sums)
    assert scene.round() == -1
    scene.log.state[LARGEST] = 0.99 * FALL * scale
    assert not scene.log.has_fallen(scene.sums)
    assert scene.round() > 0
    assert scene.log.state[LARGEST] == 0.99 * FALL * scale


@pytest.mark.parametrize(("size", "most"), [(10, 10_000), (900, 400_000)])
def test_a_log_of_few_actions_begins_small(size, most):
    log = ColumnLog(np.ones(size), REGULARIZATION)

    assert log.rows.nbytes + log.marks.nbytes + log.runs.nbytes < most


def test_kernels_get_the_arrays_of_the_log_after_every_replacement():
    log = ColumnLog(np.ones(30), REGULARIZATION)

    def is_current():
        return all(given is getattr(log, name) for given, name in zip(log._arrays, LogArrays._fields, strict=True))

    assert is_current()
    log.meet(np.arange(30).repeat(5))
    assert is_current()
    log.reserve(1000)
    assert is_current()
    column_log.insert(log, 7, np.ones(100), lambda slots: np.zeros((len(slots), 100)))
    assert is_current()
    column_log.keep(log, np.array([*range(30)]))
    assert is_current()
    log.rows = log.rows.copy()
    assert not is_current()


def test_a_score_computed_in_advance_is_the_score_after_the_pull():
    rng = np.random.default_rng(0)
    items, kernel = rng.uniform(size=(40, 2)), Gaussian(length_scale=0.4)
    record, columns = Observations(kernel.kind), SynchronizedColumns(items, kernel, 0.3)
    columns.start(record)
    for row in (3, 3, 7, 3, 11, 7, 3):
        record.add(record.sort(items[[row]], rng.normal(size=1), np.full(1, 2.0)))
        columns.meet(columns.find_new())
        (slot,) = columns.changed(columns.log)

        predicted = columns.log.score_after(slot, record.counts.item(slot), record.sums.item(slot), 0.8)

        columns.update([slot])
        assert predicted == pytest.approx(columns.log.mean[row] + 0.8 * np.sqrt(columns.log.variance[row]), rel=1e-12)


def test_a_log_with_many_runs_per_point_is_rebuilt():
    items, kernel = np.random.default_rng(0).uniform(size=(40, 2)), Gaussian(length_scale=0.4)
    columns = SynchronizedColumns(items, kernel, 0.3)
    columns.start(Observations(kernel.kind))

    assert not columns._must_begin_again()
    columns.log.n_runs = columns.log.n_points + 10**9
    assert columns._must_begin_again()
