"""Observations count rate^age, in every form, as the definition says."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.sparse import csr_array

from kernelbandits.errors import InvalidReward, KernelBanditError, NotLearnt, NotPositiveSemidefinite
from kernelbandits.kernels import Gaussian, Linear, Polynomial, Precomputed, Spectrum, as_kernel
from kernelbandits.posterior import AutoPosterior, ForgettingPosterior
from weighted import Slow, definition, observe_one

ROWS = np.random.default_rng(0).normal(size=(10, 3))
ROWS[7] = ROWS[2]
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


def fading(world, rate, regularization=0.3):
    kernel, points = WORLDS[world]
    posterior = ForgettingPosterior(kernel, regularization=regularization, rate=rate)
    return Slow(posterior, points, lambda age: rate**age)


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("rate", [0.2, 0.7, 0.95, 1.0])
def test_an_observation_counts_rate_to_the_power_of_its_age(world, rate):
    slow, rng = fading(world, rate, 0.7), np.random.default_rng(7)

    for t in range(60):
        slow.observe_one(int(rng.integers(10)), float(rng.normal()))
        if t % 4 == 0:
            slow.check(1e-6 if world == "huge" else 2e-7)  # 1e-8/(1 − rate) may be dropped


def test_the_check_itself_notices_a_regularization_that_fades_too():
    slow = fading("exact", 0.9)
    slow.observe(list(range(9)), np.linspace(-1.0, 1.0, 9).tolist())
    slow.posterior.regularization *= 0.9

    with pytest.raises(AssertionError):
        slow.check()


@pytest.mark.parametrize("wrong", [lambda age: 0.9 ** (age + 1), lambda age: 0.9 ** (age / 2)])
def test_the_check_itself_notices_other_weights(wrong):
    slow = fading("primal", 0.9)
    slow.observe(list(range(9)), np.linspace(-1.0, 1.0, 9).tolist())
    slow.check()

    slow.weight = wrong

    with pytest.raises(AssertionError):
        slow.check()


@settings(max_examples=40)
@given(
    world=st.sampled_from(["exact", "primal", "table"]),
    rate=st.sampled_from([0.05, 0.5, 0.9, 1.0]),
    batches=st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=12), min_size=1, max_size=6),
    seed=st.integers(0, 99),
)
def test_batches_of_any_size_are_the_same_as_one_after_the_other(world, rate, batches, seed):
    slow, rng = fading(world, rate), np.random.default_rng(seed)

    for rows in batches:
        slow.observe(rows, rng.normal(size=len(rows)).tolist())

    slow.check(3e-7)


def test_a_batch_longer_than_the_memory_leaves_nothing_else():
    slow, rng = fading("exact", 0.1), np.random.default_rng(1)  # remembers 9
    slow.observe([1, 2, 3], [1.0, 2.0, 3.0])

    slow.observe(rng.integers(4, 10, size=30).tolist(), rng.normal(size=30).tolist())
    slow.posterior.observe(slow.take([4]), [0.5], times=1_000_000)
    slow.entries += [(4, 0.5)] * 40

    slow.check()
    assert slow.posterior.n_observations == 9
    assert slow.posterior.size == 1


def test_widths_grow_back_to_the_prior_and_the_mean_to_zero():
    slow = fading("exact", 0.6)
    slow.observe_one(0, 1.0)

    slow.observe([5] * 60, [0.0] * 60)

    far = slow.posterior.predict(slow.take([0]))
    alone = definition(slow.posterior.kernel, 0.3, slow.take([5]), np.zeros(1), np.array([2.5]), slow.take([0]))
    assert_allclose(far.mean, 0.0, atol=1e-7)
    assert_allclose(far.width, alone[1], rtol=1e-6)


@pytest.mark.parametrize("world", ["exact", "primal"])
@pytest.mark.parametrize("regularization", [5e-7, 4e-5])  # small, so that it shows
def test_what_is_dropped_changes_no_more_than_the_class_says(world, regularization):
    rate, rng = 0.3, np.random.default_rng(2)
    slow = fading(world, rate, regularization)
    rows, rewards = rng.integers(10, size=80), rng.normal(size=80)

    for row, reward in zip(rows.tolist(), rewards.tolist(), strict=True):
        slow.observe_one(row, reward)

    kernel = slow.posterior.kernel
    weights = rate ** np.arange(79, -1, -1.0)
    mean, width, _ = definition(kernel, regularization, slow.take(rows), rewards, weights, slow.points)
    prediction = slow.posterior.predict(slow.points)
    largest = kernel.diagonal(slow.points).max()
    share = 1e-8 / (1.0 - rate) * largest / regularization
    assert (prediction.width**2 <= width**2 * (1 + share) * (1 + 1e-7)).all()
    assert (prediction.width**2 >= width**2 * (1 - 1e-7)).all()
    residual = np.abs(rewards - slow.posterior.predict(slow.take(rows)).mean).max()
    assert (np.abs(prediction.mean - mean) <= share * residual).all()
    if world == "exact":
        assert np.abs(prediction.mean - mean).max() > 1e-7  # something was dropped, and it shows


def test_it_remembers_what_counts_at_least_a_hundred_millionth():
    slow, rng = fading("exact", 0.5), np.random.default_rng(0)

    slow.posterior.observe(rng.normal(size=(100, 3)), np.zeros(100))

    assert slow.posterior.n_observations == slow.posterior.size == 27  # 2^-26 > 1e-8 > 2^-27
    assert len(slow.posterior._inner.record.counts) <= 40


@pytest.mark.parametrize("form", ["exact", "primal", "compressed"])
def test_every_form_fades_alike(form):
    kernels = {"exact": Gaussian(length_scale=0.003), "primal": Linear(), "compressed": Gaussian(length_scale=2.0)}
    rng = np.random.default_rng(4)
    points = rng.uniform(size=(60, 1))
    posterior = ForgettingPosterior(kernels[form], regularization=0.5, rate=0.93)
    posterior._inner._next_measurement = 20
    slow = Slow(posterior, points, lambda age: 0.93**age)

    for t in range(200):
        slow.observe_one(int(rng.integers(60)), float(rng.normal()))
        if t % 7 == 0:
            slow.check(1e-6)

    assert posterior._inner.form == form


@pytest.mark.parametrize("world", ["exact", "primal", "strings"])
def test_a_long_run_keeps_its_digits(world):
    slow, rng = fading(world, 0.8, 0.01), np.random.default_rng(3)

    for _ in range(1500):
        slow.observe_one(int(rng.integers(10)), float(rng.normal()))

    slow.entries = slow.entries[-150:]
    slow.check(1e-5 if world == "primal" else 1e-6)


def test_an_amendment_counts_as_much_as_the_observation_that_it_corrects():
    slow = fading("exact", 0.7)
    slow.observe([0, 1, 0, 2, 3], [1.0, 2.0, 3.0, 4.0, 5.0])

    slow.posterior.amend(slow.take([0, 2]), was=[3.0, 4.0], now=[3.5, 3.0])

    slow.entries = [(0, 1.0), (1, 2.0), (0, 3.5), (2, 3.0), (3, 5.0)]
    slow.check()
    slow.observe([5, 6], [0.0, 0.0])
    slow.check()


@pytest.mark.parametrize("world", ["exact", "primal"])
def test_what_is_removed_was_never_there_so_older_observations_are_younger(world):
    slow = fading(world, 0.7)
    slow.observe([3, 0, 1, 0, 0], [9.0, 1.0, 2.0, 3.0, 1.0])

    slow.posterior.remove(slow.take([0, 0]), [3.0, 1.0])

    slow.entries = [(3, 9.0), (0, 1.0), (1, 2.0)]
    slow.check()
    slow.observe([5, 6, 8], [0.1, 0.2, 0.3])
    slow.check()


@pytest.mark.parametrize("world", ["exact", "primal", "table"])
def test_what_was_dropped_cannot_be_changed_and_a_rejection_changes_nothing(world):
    slow = fading(world, 0.01)  # remembers 5
    slow.observe([0, 1, 2, 3, 4, 5, 6], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0])
    posterior, before = slow.posterior, slow.posterior.state()

    for call in (
        lambda: posterior.amend(slow.take([0]), was=[1.0], now=[2.0]),
        lambda: posterior.remove(slow.take([0]), [1.0]),
        lambda: posterior.remove(slow.take([6, 0]), [7.0, 1.0]),
        lambda: posterior.remove(slow.take([6]), [7.5]),
    ):
        with pytest.raises(NotLearnt, match="remembered"):
            call()
    with pytest.raises(InvalidReward):
        posterior.amend(slow.take([6]), was=[7.0], now=[np.inf])
    with pytest.raises(InvalidReward):
        posterior.observe(slow.take([5] * 3), [1.79e308] * 3)
    with pytest.raises(KernelBanditError):
        posterior.observe(slow.take([5, 6]), [1.0, np.nan])

    assert {name: array.tolist() for name, array in posterior.state().items()} == {
        name: array.tolist() for name, array in before.items()
    }
    slow.check()
    slow.observe([5, 6], [1.0, 2.0])
    slow.check()


def test_a_similarity_that_is_not_a_kernel_is_rejected_and_makes_nothing_older():
    table = np.array([[1.0, 0.1, 0.9, 0.0], [0.1, 1.0, 0.9, 0.0], [0.9, 0.9, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]])
    kernel = as_kernel(lambda first, second: table[np.ix_(first[:, 0].astype(int), second[:, 0].astype(int))])
    slow = Slow(ForgettingPosterior(kernel, regularization=1e-3, rate=0.9), np.arange(4.0)[:, None], lambda a: 0.9**a)
    slow.observe([3, 0, 1], [1.0, 2.0, 3.0])
    before = slow.posterior.predict(slow.take([0, 1, 3]))

    with pytest.raises(NotPositiveSemidefinite):
        observe_one(slow.posterior, slow.take([2]), 1.0)

    after = slow.posterior.predict(slow.take([0, 1, 3]))
    assert_allclose(after.mean, before.mean, rtol=1e-12)
    assert_allclose(after.width, before.width, rtol=1e-9)
    assert slow.posterior.n_observations == 3


def test_a_rejection_after_a_change_of_form_goes_back_to_the_form_before():
    slow = fading("primal", 0.9)  # four features: exact up to four points
    slow.observe([0, 1, 2, 3], [1.0, 2.0, 3.0, 4.0])

    with pytest.raises(InvalidReward):
        slow.posterior.observe(slow.take([4, 5, 5]), [1.0, 1.7e308, 1.7e308])

    slow.check()
    slow.observe([5, 6], [1.0, 2.0])
    slow.check()


@pytest.mark.parametrize("world", ["exact", "primal", "sparse", "strings", "table"])
def test_a_restored_state_goes_on_as_the_original(world):
    slow, rng = fading(world, 0.6), np.random.default_rng(5)
    slow.observe(rng.integers(10, size=15).tolist(), rng.normal(size=15).tolist())
    fresh = ForgettingPosterior(slow.posterior.kernel, regularization=0.3, rate=0.6)

    fresh.restore(slow.posterior.state())

    again = Slow(fresh, slow.points, slow.weight)
    again.entries = list(slow.entries)
    again.check()
    assert fresh.state().keys() == slow.posterior.state().keys()
    for row in (2, 4, 4):
        again.observe_one(row, 0.5)
        again.check()
    fresh.remove(again.take([4]), [0.5])
    again.entries.pop()
    again.check()


def test_with_rate_one_it_is_the_posterior_that_forgets_nothing():
    slow, rng = fading("exact", 1.0), np.random.default_rng(6)
    plain = AutoPosterior(slow.posterior.kernel, regularization=0.3)

    for row, reward in zip(rng.integers(10, size=50).tolist(), rng.normal(size=50).tolist(), strict=True):
        slow.observe_one(row, reward)
        observe_one(plain, slow.take([row]), reward)

    assert_allclose(slow.posterior.predict(ROWS).mean, plain.predict(ROWS).mean, rtol=1e-12)
    assert slow.posterior.n_observations == 50


def test_the_support_gives_back_mean_and_norm():
    slow, rng = fading("exact", 0.8), np.random.default_rng(8)
    slow.observe(rng.integers(10, size=40).tolist(), rng.normal(size=40).tolist())

    past, weights, counts, sums = slow.posterior.support()

    kernel = slow.posterior.kernel
    assert_allclose(kernel.gram(ROWS, past) @ weights, slow.posterior.predict(ROWS).mean, rtol=1e-8, atol=1e-12)
    assert_allclose(slow.posterior.norm**2, weights @ kernel.gram(past) @ weights, rtol=1e-6)
    assert_allclose(counts.sum(), (1 - 0.8**40) / 0.2, rtol=1e-6)
    assert_allclose(sums.sum(), sum(reward * weight for _, reward, weight in slow.counting), rtol=1e-6)


@pytest.mark.parametrize("world", ["primal", "exact"])
def test_memory_is_that_of_what_is_remembered(world):
    """Slots of dropped points are given back: at most a quarter of them is empty."""
    kernel, _ = WORLDS[world]
    posterior = ForgettingPosterior(kernel, regularization=0.3, rate=0.5)
    rng = np.random.default_rng(0)

    for _ in range(400):
        posterior.observe(rng.normal(size=(1, 3)), [0.5])

    record = posterior._inner.record
    assert 20 < record.size < 40  # 0.5^27 is about 1e-8
    assert record.n_slots <= record.size / 0.75 + 1.0
