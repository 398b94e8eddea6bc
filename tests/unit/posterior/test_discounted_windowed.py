"""A window is exactly the posterior of the last observations, whatever came before."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.sparse import csr_array

from kernelbandits.errors import InvalidContexts, InvalidReward, KernelBanditError, NotLearnt, NotPositiveSemidefinite
from kernelbandits.kernels import Gaussian, Linear, Polynomial, Precomputed, Spectrum
from kernelbandits.posterior import ExactPosterior, PrimalPosterior, WindowedPosterior
from weighted import Slow, observe_one

ROWS = np.random.default_rng(0).normal(size=(10, 3))
ROWS[7] = ROWS[2]  # the same point twice
WORDS = [f"{first} {second}" for first in ("red", "green") for second in ("boat", "coat", "goat", "ship", "tie")]

WORLDS = {
    "exact": (Gaussian(length_scale=0.8), ROWS),
    "primal": (Linear() + 0.5, ROWS),
    "many features": (Polynomial(degree=3, offset=0.5), ROWS),
    "sparse": (Gaussian(length_scale=2.0), csr_array(np.where(np.abs(ROWS) > 0.7, ROWS, 0.0) + np.eye(10, 3))),
    "strings": (Spectrum(n=2), WORDS),
    "table": (Precomputed(Gaussian(length_scale=1.5).gram(ROWS), ids=list(range(10))), list(range(10))),
    "huge": (1e6 * Gaussian(length_scale=0.8), 1e-3 * ROWS),
}


def window(world, length, regularization=0.3):
    kernel, points = WORLDS[world]
    posterior = WindowedPosterior(kernel, regularization=regularization, length=length)
    return Slow(posterior, points, lambda age: float(age < length))


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("length", [1, 2, 7, 40])
def test_it_is_the_posterior_of_the_last_observations(world, length):
    slow, rng = window(world, length, 0.7), np.random.default_rng(length)

    for t in range(60):
        slow.observe_one(int(rng.integers(10)), float(rng.normal()))
        if t % 3 == 0:
            slow.check(1e-6 if world == "huge" else 1e-7)

    assert slow.posterior.n_observations == min(length, 60)
    kind = slow.posterior.kernel.kind
    assert slow.posterior.size == len(set(kind.keys(slow.take([row for row, _, _ in slow.counting]))))


def test_the_check_itself_notices_a_window_that_is_one_too_long():
    kernel, points = WORLDS["exact"]
    slow = Slow(WindowedPosterior(kernel, regularization=0.3, length=6), points, lambda age: float(age < 5))
    slow.observe(list(range(9)), np.linspace(-1.0, 1.0, 9).tolist())

    with pytest.raises(AssertionError):
        slow.check()


@settings(max_examples=40)
@given(
    world=st.sampled_from(["exact", "primal", "table"]),
    length=st.integers(1, 12),
    batches=st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=9), min_size=1, max_size=8),
    seed=st.integers(0, 99),
)
def test_batches_of_any_size_are_the_same_as_one_after_the_other(world, length, batches, seed):
    slow, rng = window(world, length), np.random.default_rng(seed)

    for rows in batches:
        slow.observe(rows, rng.normal(size=len(rows)).tolist())

    slow.check()


def test_many_repeats_of_a_reward_fill_the_window():
    slow = window("exact", 5)
    slow.observe([1, 2, 3], [1.0, 2.0, 3.0])

    slow.posterior.observe(slow.take([4, 6]), [0.5, -0.5], times=[1_000_000, 3])

    slow.entries = [(4, 0.5)] * 2 + [(6, -0.5)] * 3
    slow.check()
    assert slow.posterior.n_observations == 5


def test_widths_grow_back_where_nothing_was_observed_lately():
    slow = window("exact", 3)
    slow.observe_one(0, 1.0)
    known = slow.posterior.predict(slow.take([0])).width

    slow.observe([5, 6, 8], [0.0, 0.0, 0.0])

    assert slow.posterior.predict(slow.take([0])).width > 1.5 * known


@pytest.mark.parametrize("world", ["exact", "primal"])
def test_an_enormous_reward_that_has_left_leaves_no_trace(world):
    slow = window(world, 4)
    slow.observe([0, 0, 1], [1e15, 0.25, 0.5])

    slow.observe([0, 0, 1], [0.125, 0.75, 0.5])

    slow.check(1e-9)


@pytest.mark.parametrize("world", ["exact", "primal", "strings"])
def test_a_long_run_keeps_its_digits(world):
    slow, rng = window(world, 8, 0.01), np.random.default_rng(3)

    for _ in range(1500):
        slow.observe_one(int(rng.integers(10)), float(rng.normal()))

    slow.entries = slow.entries[-8:]
    slow.check(1e-8)


def test_the_form_is_primal_only_for_few_features():
    assert isinstance(window_after(Linear(), 7)._inner, PrimalPosterior)
    assert isinstance(window_after(Linear(), 2)._inner, ExactPosterior)
    assert isinstance(window_after(Polynomial(degree=5), 50)._inner, ExactPosterior)
    assert isinstance(window_after(Gaussian(length_scale=1.0), 50)._inner, ExactPosterior)


def window_after(kernel, length):
    posterior = WindowedPosterior(kernel, regularization=1.0, length=length)
    posterior.observe(ROWS, np.zeros(10))
    return posterior


def test_an_amendment_concerns_the_latest_observation_of_the_point_and_reward():
    slow = window("exact", 4)
    slow.observe([0, 1, 0, 2], [1.0, 2.0, 3.0, 4.0])

    slow.posterior.amend(slow.take([0, 2]), was=[3.0, 4.0], now=[3.5, 3.0])

    slow.entries = [(0, 1.0), (1, 2.0), (0, 3.5), (2, 3.0)]
    slow.check()
    slow.observe([5, 6], [0.0, 0.0])  # the other observation of row 0 leaves, not the amended one
    slow.check()


def test_what_is_removed_is_known_by_its_reward_and_leaves_a_place_free():
    slow = window("exact", 4)
    slow.observe([3, 0, 1, 0, 0], [9.0, 1.0, 2.0, 3.0, 1.0])

    slow.posterior.remove(slow.take([0, 0]), [3.0, 1.0])

    slow.entries = [(0, 1.0), (1, 2.0)]
    slow.check()
    slow.observe([5, 6, 8], [0.1, 0.2, 0.3])
    slow.check()


def test_a_reward_that_was_amended_can_be_taken_back_in_spite_of_rounding():
    slow = window("exact", 4)
    slow.observe([0, 1], [0.1, 0.2])
    slow.posterior.amend(slow.take([0]), was=[0.1], now=[0.1 + (0.7 - 0.1)])

    slow.posterior.remove(slow.take([0]), [0.7])

    slow.entries = [(1, 0.2)]
    slow.check()


@pytest.mark.parametrize("world", ["exact", "primal", "table"])
def test_what_has_left_the_window_cannot_be_changed_and_a_rejection_changes_nothing(world):
    slow = window(world, 3)
    slow.observe([0, 1, 2, 3], [1.0, 2.0, 3.0, 4.0])
    posterior, before = slow.posterior, slow.posterior.state()

    for call in (
        lambda: posterior.amend(slow.take([0]), was=[1.0], now=[2.0]),
        lambda: posterior.amend(slow.take([1, 0]), was=[2.0, 1.0], now=[3.0, 2.0]),
        lambda: posterior.remove(slow.take([0]), [1.0]),
        lambda: posterior.remove(slow.take([3, 0]), [4.0, 1.0]),
        lambda: posterior.remove(slow.take([3]), [4.5]),
        lambda: posterior.remove(slow.take([3, 3]), [4.0, 4.0]),
    ):
        with pytest.raises(NotLearnt, match="remembered"):
            call()
    with pytest.raises(InvalidReward):
        posterior.amend(slow.take([1]), was=[2.0], now=[np.inf])
    with pytest.raises(InvalidReward):
        posterior.observe(slow.take([5, 5]), [1.5e308, 1.5e308])
    with pytest.raises(KernelBanditError):
        posterior.observe(slow.take([5, 6]), [1.0, np.nan])

    assert {name: array.tolist() for name, array in posterior.state().items()} == {
        name: array.tolist() for name, array in before.items()
    }
    slow.check()
    slow.observe([5, 6], [1.0, 2.0])
    slow.check()


def test_a_similarity_that_is_not_a_kernel_is_rejected_and_pushes_nothing_out():
    table = np.array([[1.0, 0.1, 0.9, 0.0], [0.1, 1.0, 0.9, 0.0], [0.9, 0.9, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]])
    posterior = WindowedPosterior(lambda_kernel(table), regularization=1e-3, length=3)
    slow = Slow(posterior, np.arange(4.0)[:, None], lambda age: float(age < 3))
    slow.observe([3, 0, 1], [1.0, 2.0, 3.0])

    with pytest.raises(NotPositiveSemidefinite):
        observe_one(posterior, slow.take([2]), 1.0)
    with pytest.raises(NotPositiveSemidefinite):
        posterior.observe(slow.take([2]), [1.0])

    assert posterior.n_observations == 3
    assert_allclose(posterior.predict(slow.take([0, 1, 3])).mean, [2.0, 3.0, 1.0], atol=0.01)
    slow.observe([0, 0], [2.0, 2.0])
    assert posterior.n_observations == 3


def lambda_kernel(table):
    from kernelbandits.kernels import as_kernel

    return as_kernel(lambda first, second: table[np.ix_(first[:, 0].astype(int), second[:, 0].astype(int))])


def test_contexts_of_another_length_are_rejected():
    slow = window("exact", 3)
    slow.observe([0, 1, 2, 3], [1.0, 2.0, 3.0, 4.0])

    with pytest.raises(InvalidContexts):
        slow.posterior.observe(np.zeros((1, 2)), [1.0])

    slow.check()


@pytest.mark.parametrize("world", ["exact", "primal", "sparse", "strings", "table"])
def test_a_restored_window_forgets_in_the_same_order(world):
    slow, rng = window(world, 6), np.random.default_rng(5)
    slow.observe(rng.integers(10, size=15).tolist(), rng.normal(size=15).tolist())
    fresh = WindowedPosterior(slow.posterior.kernel, regularization=0.3, length=6)

    fresh.restore(slow.posterior.state())

    again = Slow(fresh, slow.points, slow.weight)
    again.entries = list(slow.entries)
    again.check()
    for row in (2, 4, 4):
        again.observe_one(row, 0.5)
        again.check()


def test_an_empty_window_saves_no_point_and_starts_over():
    slow = window("primal", 3)
    slow.observe([0, 1], [1.0, 2.0])
    slow.posterior.remove(slow.take([0, 1]), [1.0, 2.0])

    assert set(slow.posterior.state()) == {"numbers", "order", "rewards", "last"}
    assert slow.posterior.log_det_gain == slow.posterior.norm == 0.0
    slow.posterior.observe(np.ones((1, 5)), [1.0])  # other columns: nothing is left to compare with
    assert slow.posterior.n_observations == 1


def test_learning_costs_the_same_however_much_was_learned():
    slow, rng = window("exact", 5), np.random.default_rng(0)
    slow.posterior.observe(rng.normal(size=(400, 3)), np.zeros(400))
    for row in rng.normal(size=(300, 3)):
        observe_one(slow.posterior, row[None], 0.0)
        slow.posterior.predict(ROWS)

    record = slow.posterior._inner.record
    assert record.n_slots <= 2 * 5
    assert slow.posterior._inner._factor.size <= 2 * 5
