"""Nyström posterior: the formulas computed the slow way, the certificate, freezing, corrections and rolling back."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from kernelbandits.errors import (
    DamagedFile,
    InvalidContexts,
    InvalidParameter,
    InvalidReward,
    NotLearnt,
    NotPositiveSemidefinite,
)
from kernelbandits.kernels import FromCallable, Gaussian, Linear, Matern
from kernelbandits.posterior import (
    BatchedResampling,
    ExactPosterior,
    NystroemPosterior,
    OnlineRowSampling,
    Resampling,
    ResidualDictionary,
)

KERNEL = Gaussian(length_scale=0.7)
RULES = [
    ResidualDictionary(),
    ResidualDictionary(tolerance=0.3),
    ResidualDictionary(size=25),
    ResidualDictionary(size=12, tolerance=0.3),
    ResidualDictionary(accuracy=0.05),
    OnlineRowSampling(),
    Resampling(oversampling=1.0),
    BatchedResampling(oversampling=1.0),
    BatchedResampling(oversampling=1.0, batch="dictionary"),
]


def made(rule, *, regularization=0.3, kernel=KERNEL):
    return NystroemPosterior(kernel, regularization=regularization, dictionary=rule, seed=3)


def history(n, *, seed=0, repeats=True):
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(n, 2))
    if repeats:
        points[n // 2 :: 3] = points[: len(points[n // 2 :: 3])]
    return points, rng.normal(size=n)


def learn(posterior, points, rewards):
    """In single observations and in batches, with queries in between."""
    for row in range(len(points) // 2):
        posterior.predict(points[row : row + 3])
        posterior.observe(points[row : row + 1], rewards[row : row + 1])
    posterior.observe(points[len(points) // 2 :], rewards[len(points) // 2 :])


def atoms_of(posterior):
    projection = posterior._projection
    return projection.points if projection.size else np.zeros((0, 2))


def defined(kernel, gamma, atoms, points, rewards, queries):
    """Mean, DTC width and what the formulas of the certificate need, from the whole history."""
    lower = np.linalg.cholesky(kernel.gram(atoms))
    seen, queried = (
        np.linalg.solve(lower, kernel.gram(atoms, points)),
        np.linalg.solve(lower, kernel.gram(atoms, queries)),
    )
    precision = gamma * np.eye(len(atoms)) + seen @ seen.T
    mean = queried.T @ np.linalg.solve(precision, seen @ rewards)
    sor = np.einsum("mn,mn->n", queried, np.linalg.solve(precision, queried))
    squares = sor + (kernel.diagonal(queries) - np.einsum("mn,mn->n", queried, queried)) / gamma
    residual = float((kernel.diagonal(points) - np.einsum("mn,mn->n", seen, seen)).sum())
    gain = np.linalg.slogdet(precision / gamma)[1]
    return mean, np.sqrt(squares), residual, gain


@pytest.mark.parametrize("gamma", [0.05, 0.3, 4.0])
@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_means_and_widths_are_those_of_the_formulas(rule, gamma):
    points, rewards = history(120)
    queries = history(30, seed=1)[0]
    posterior = made(rule, regularization=gamma)

    learn(posterior, points, rewards)

    if rule.delays_means:
        posterior._rewards_changed()  # ends the batch, whose means are older
    mean, width, residual, gain = defined(KERNEL, gamma, atoms_of(posterior), points, rewards, queries)
    prediction = posterior.predict(queries)
    assert_allclose(prediction.mean, mean, atol=1e-7 * np.abs(mean).max())
    assert_allclose(prediction.width, width, rtol=1e-7)
    assert posterior.residual == pytest.approx(residual, abs=1e-8)
    assert posterior.certificate.log_det_gain[0] == pytest.approx(gain, rel=1e-8)
    assert posterior.log_det_gain == pytest.approx(gain + residual / gamma, rel=1e-7)
    assert posterior.n_observations == len(points)


@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_the_error_of_a_prediction_bounds_its_difference_from_the_exact_posterior(rule):
    points, rewards = history(100)
    queries = history(40, seed=1)[0]
    posterior, exact = made(rule), ExactPosterior(KERNEL, regularization=0.3)

    learn(posterior, points, rewards)
    exact.observe(points, rewards)

    found, true = posterior.predict(queries), exact.predict(queries)
    assert found.certificate == posterior.certificate
    difference = np.maximum(np.abs(found.mean - true.mean), np.abs(found.width - true.width))
    assert (difference <= found.error + 1e-9).all()
    low, high = posterior.certificate.width_ratio
    assert (true.width >= low * found.width * (1 - 1e-9)).all()
    assert (true.width <= high * found.width * (1 + 1e-9)).all()
    low, high = posterior.certificate.log_det_gain
    assert low - 1e-9 <= exact.log_det_gain <= high + 1e-9
    fit = exact.predict(points).mean
    assert posterior.certificate.misfit >= 0.0
    assert np.isfinite(fit).all()


@pytest.mark.parametrize("n_more", [0, 1, 20])
def test_the_error_contains_the_rewards_that_the_means_wait_for(n_more):
    """With the whole dictionary the means differ from the exact ones by the rewards of the batch alone."""
    points, rewards = history(60, repeats=False)
    posterior = made(BatchedResampling(oversampling=1e6, threshold=1e6))
    exact = ExactPosterior(KERNEL, regularization=0.3)
    posterior.observe(points[:40], rewards[:40])
    posterior._rebuild(points)
    for row in range(40, 40 + n_more):
        posterior.observe(points[row : row + 1], rewards[row : row + 1])
    exact.observe(points[: 40 + n_more], rewards[: 40 + n_more])

    found, true = posterior.predict(points), exact.predict(points)

    difference = np.abs(found.mean - true.mean)
    assert (difference <= found.error + 1e-9).all()
    assert found.certificate.residual < 1e-9
    assert (difference.max() > 0.05) == (n_more > 0)


def test_pending_points_leave_the_error_a_bound():
    points, rewards = history(80)
    posterior, exact = made(ResidualDictionary(size=6)), ExactPosterior(KERNEL, regularization=0.3)
    posterior.observe(points, rewards)
    exact.observe(points, rewards)
    pending = history(30, seed=2)[0]

    for n_pending in (1, 5, 30):
        found, true = (one.predict(points, pending=pending[:n_pending]) for one in (posterior, exact))
        assert (np.abs(found.width - true.width) <= found.error + 1e-9).all()


def test_an_error_that_is_too_small_would_be_noticed():
    """Negative control: without the certificate the difference exceeds zero."""
    points, rewards = history(100)
    posterior, exact = made(ResidualDictionary(size=12, tolerance=0.3)), ExactPosterior(KERNEL, regularization=0.3)
    posterior.observe(points, rewards)
    exact.observe(points, rewards)

    assert np.abs(posterior.predict(points).mean - exact.predict(points).mean).max() > 0.05


def test_the_misfit_bounds_the_residuals_of_the_mean():
    points, rewards = history(80, repeats=False)
    posterior = made(ResidualDictionary(tolerance=0.3))

    posterior.observe(points, rewards)

    misfit = float(np.linalg.norm(rewards - posterior.predict(points).mean))
    assert misfit <= posterior.certificate.misfit
    assert misfit > 0.3 * posterior.certificate.misfit


@pytest.mark.parametrize("accuracy", [0.9, 0.1, 0.001])
def test_an_accuracy_bounds_the_residual(accuracy):
    points, rewards = history(150)
    posterior = made(ResidualDictionary(accuracy=accuracy))

    learn(posterior, points, rewards)

    assert posterior.residual <= accuracy * 0.3
    assert posterior.has_history


def test_a_larger_accuracy_needs_fewer_atoms():
    points, rewards = history(200)
    sizes = []
    for accuracy in (0.5, 0.01):
        posterior = made(ResidualDictionary(accuracy=accuracy))
        posterior.observe(points, rewards)
        sizes.append(posterior.certificate.n_atoms)

    assert sizes[0] < 0.8 * sizes[1] < sizes[1] <= 200


def test_at_its_size_the_dictionary_is_fixed_and_the_points_are_dropped():
    points, rewards = history(300, repeats=False)
    posterior = made(ResidualDictionary(size=20))

    posterior.observe(points[:15], rewards[:15])
    before = posterior.has_history, posterior.size
    posterior.observe(points[15:], rewards[15:])

    assert before == (True, 15)
    assert not posterior.has_history
    assert posterior.size == posterior.certificate.n_atoms == 20
    assert (posterior.n_observations, posterior.n_merged) == (300, 300)
    assert posterior.record.n_slots == 0
    atoms = atoms_of(posterior).copy()
    posterior.observe(history(50, seed=9)[0], np.ones(50))
    assert np.array_equal(atoms_of(posterior), atoms)


def test_a_dictionary_that_does_not_fill_is_filled_up_from_the_points_before_they_are_dropped():
    points, rewards = history(400, repeats=False)
    posterior = made(ResidualDictionary(size=40, tolerance=3.0))

    for row in range(319):
        posterior.observe(points[row : row + 1], rewards[row : row + 1])
    before = posterior.certificate
    posterior.observe(points[319:321], rewards[319:321])

    assert before.has_history
    assert before.n_atoms < 30
    after = posterior.certificate
    assert not after.has_history
    assert after.n_atoms == 40
    assert after.residual < 0.2 * before.residual


def test_memory_is_flat_once_the_dictionary_is_fixed():
    rng = np.random.default_rng(0)
    posterior = made(ResidualDictionary(size=16))
    sizes = []
    for _ in range(6):
        for _ in range(150):
            posterior.observe(rng.normal(size=(1, 2)), [rng.normal()])
        sizes.append(_bytes_of(posterior))

    assert max(sizes[1:]) <= 1.02 * min(sizes[1:])


def _bytes_of(posterior):
    import pickle

    return len(pickle.dumps(posterior))


@pytest.mark.parametrize("n_first", [5, 200])
def test_after_the_points_were_dropped_corrections_are_exact_for_all_observations(n_first):
    """Of earlier and of later observations."""
    points, rewards = history(260, repeats=False)
    posterior, other = made(ResidualDictionary(size=20)), made(ResidualDictionary(size=20))
    posterior.observe(points, rewards)
    changed = rewards.copy()
    changed[n_first] += 2.0
    other.observe(points, changed)

    posterior.amend(
        points[n_first : n_first + 1], was=rewards[n_first : n_first + 1], now=changed[n_first : n_first + 1]
    )

    assert_allclose(posterior.predict(points).mean, other.predict(points).mean, atol=1e-9)
    assert_allclose(posterior.predict(points).width, other.predict(points).width, rtol=1e-9)
    assert posterior.certificate.misfit == pytest.approx(other.certificate.misfit)


def test_after_the_points_were_dropped_an_observation_can_be_removed():
    points, rewards = history(260, repeats=False)
    posterior, other = made(ResidualDictionary(size=20)), made(ResidualDictionary(size=20))
    posterior.observe(points, rewards)
    other.observe(points[:-10], rewards[:-10])

    posterior.remove(points[-10:], rewards[-10:])

    assert_allclose(posterior.predict(points).mean, other.predict(points).mean, atol=1e-8)
    assert_allclose(posterior.predict(points).width, other.predict(points).width, rtol=1e-8)
    assert posterior.residual == pytest.approx(other.residual)
    assert posterior.n_observations == 250
    assert posterior.certificate.misfit == pytest.approx(other.certificate.misfit)


@pytest.mark.parametrize("n_removed", [1, 2, 3])
def test_the_misfit_stays_a_bound_when_repeats_of_a_dropped_point_are_removed(n_removed):
    """Of a point with repeats only the sum of its rewards is known: 0, 0, 0 and 10 have the mean 2.5."""
    points, rewards = np.array([[0.0, 0.0]] * 4 + [[9.0, 9.0]]), np.array([0.0, 0.0, 0.0, 10.0, 1.0])
    posterior = made(ResidualDictionary(size=2))
    posterior.observe(points, rewards)
    assert not posterior.has_history

    posterior.remove(points[:n_removed], rewards[:n_removed])
    posterior.amend(points[4:], was=[1.0], now=[3.0])
    posterior.amend(points[4:], was=[3.0], now=[2.0])

    left, means = rewards[n_removed:].copy(), posterior.predict(points[n_removed:]).mean
    left[-1] = 2.0
    size = len(left) - 1
    misfit = np.hypot((left[:-1].mean() - means[0]) * np.sqrt(size), left[-1] - means[-1])
    assert misfit <= posterior.certificate.misfit * (1 + 1e-9)
    restored = made(ResidualDictionary(size=2))
    restored.restore(posterior.state())
    posterior.remove(points[3:4], rewards[3:4])
    restored.remove(points[3:4], rewards[3:4])
    assert restored.certificate.misfit == pytest.approx(posterior.certificate.misfit)


def test_what_was_never_observed_so_often_cannot_be_removed():
    points, rewards = history(100, repeats=False)
    posterior = made(ResidualDictionary(size=20))
    posterior.observe(points, rewards)
    before = posterior.predict(points)

    with pytest.raises(NotLearnt, match="cannot all have been learned"):
        posterior.remove(np.repeat(points[:1], 60, axis=0), np.zeros(60))

    after = posterior.predict(points)
    assert np.array_equal(before.mean, after.mean)
    assert np.array_equal(before.width, after.width)


@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_a_call_that_fails_changes_nothing(rule):
    points, rewards = history(90)
    posterior, other = made(rule), made(rule)
    learn(posterior, points, rewards)
    learn(other, points, rewards)

    with pytest.raises(InvalidReward):
        posterior.observe(np.vstack([points[:2], points[:2]]), [1e308, 1e308, 1e308, 1e308])
    with pytest.raises(InvalidContexts):
        posterior.observe(np.ones((1, 3)), [1.0])

    for more in (history(40, seed=5), history(3, seed=6)):
        posterior.observe(*more)
        other.observe(*more)
    found, expected = posterior.predict(points), other.predict(points)
    assert_allclose(found.mean, expected.mean, atol=1e-9)
    assert_allclose(found.width, expected.width, rtol=1e-9)
    assert np.array_equal(atoms_of(posterior), atoms_of(other))


@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_a_restored_posterior_continues_as_the_saved_one(rule):
    points, rewards = history(90)
    posterior, restored = made(rule), made(rule)
    learn(posterior, points, rewards)

    restored.restore(posterior.state())

    for more in ((points[:0], rewards[:0]), history(30, seed=5), history(1, seed=6)):
        if len(more[0]):
            posterior.observe(*more)
            restored.observe(*more)
        found, expected = restored.predict(points), posterior.predict(points)
        assert_allclose(found.mean, expected.mean, atol=1e-8)
        assert_allclose(found.width, expected.width, rtol=1e-8)
        assert np.array_equal(atoms_of(restored), atoms_of(posterior))
        assert restored.inflation == pytest.approx(posterior.inflation)


@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_rewards_too_large_to_square_leave_no_certificate(rule):
    posterior = made(rule)
    points, rewards = history(20)
    learn(posterior, points, rewards)

    posterior.amend(points[:1], was=rewards[:1], now=[1e200])

    prediction = posterior.predict(points)
    assert np.isfinite(prediction.mean).all()
    assert posterior.certificate.misfit == np.inf


def test_a_count_of_draws_without_a_next_one_is_damaged():
    posterior = made(Resampling())
    learn(posterior, *history(20))
    state = posterior.state()

    drawn = {**state, "dictionary.drawn": np.array([0, 2**63 - 1])}

    with pytest.raises(DamagedFile, match="draws"):
        made(Resampling()).restore(drawn)
    made(Resampling()).restore(state)


def test_nearly_dependent_points_enter_the_certificate_and_not_the_process():
    rng = np.random.default_rng(0)
    base = rng.normal(size=(10, 2))
    points = np.vstack([base + 1e-9 * rng.normal(size=base.shape) for _ in range(30)])
    posterior = made(ResidualDictionary(tolerance=0.0), regularization=1e-4)

    for row in range(len(points)):
        posterior.observe(points[row : row + 1], [1.0])

    assert posterior.certificate.n_atoms == 10
    assert 0.0 <= posterior.residual <= 300 * 1e-10
    assert np.isfinite(posterior.predict(points).width).all()


def test_an_indefinite_similarity_is_rejected():
    kernel = FromCallable(lambda first, second: 1.0 - 2.0 * np.abs(first[:, :1] - second[:, 0]), kind=Linear().kind)
    posterior = NystroemPosterior(kernel, regularization=0.1, dictionary=ResidualDictionary(tolerance=0.0))
    posterior.observe([[0.0], [0.4]], [1.0, 0.0])

    with pytest.raises(NotPositiveSemidefinite, match="explains more than k"):
        posterior.predict([[3.0]])


def test_within_a_batch_means_wait_and_widths_shrink():
    points, rewards = history(60, repeats=False)
    posterior = made(BatchedResampling(threshold=1e9))
    posterior.observe(points[:50], rewards[:50])
    posterior._rebuild(points[:20])  # begins a batch with a dictionary
    before = posterior.predict(points)

    posterior.observe(points[50:], rewards[50:])

    after = posterior.predict(points)
    assert_allclose(after.mean, before.mean, atol=1e-12)
    assert (after.width < before.width).any()
    # Oracle 17: the factor keeps the interval of the start of the batch.
    assert (before.width <= posterior.inflation * after.width * (1 + 1e-9)).all()
    assert posterior.inflation > 1.0


def test_the_inflation_is_needed():
    """Negative control of the batch rule: without the factor the interval would be too narrow."""
    posterior = made(BatchedResampling(threshold=1e9))
    posterior.observe([[0.0, 0.0]], [1.0])
    posterior._rebuild(np.zeros((1, 2)))
    before = posterior.predict([[0.0, 0.0]]).width

    posterior.observe([[0.0, 0.0]] * 5, np.ones(5))

    assert posterior.predict([[0.0, 0.0]]).width < 0.9 * before


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ResidualDictionary(size=0), "size of a dictionary must be a whole number of at least 1, got 0"),
        (lambda: ResidualDictionary(size=10**8), "must fit into memory, got 100,000,000"),
        (lambda: ResidualDictionary(tolerance=-1.0), "tolerance"),
        (lambda: ResidualDictionary(accuracy=1.0), "between 0 and 1, exclusive, got 1.0"),
        (lambda: ResidualDictionary(accuracy=0.1, size=5), "size or an accuracy"),
        (lambda: OnlineRowSampling(oversampling=0.0), "oversampling"),
        (lambda: Resampling(oversampling=np.nan), "oversampling"),
        (lambda: BatchedResampling(threshold=1.0), "above 1"),
        (lambda: BatchedResampling(batch="all"), "'dictionary' is kept, or also the 'mean', got 'all'"),
        (lambda: NystroemPosterior(KERNEL, regularization=1.0, dictionary=100), "rule such as ResidualDictionary"),
        (lambda: NystroemPosterior(KERNEL, regularization=0.0), "regularization"),
    ],
)
def test_bad_parameters_are_rejected(make, message):
    with pytest.raises(InvalidParameter, match=message):
        make()


def test_a_matern_kernel_in_many_dimensions_is_frozen_with_the_promised_size():
    rng = np.random.default_rng(2)
    posterior = made(ResidualDictionary(size=50), kernel=Matern(smoothness=0.5, length_scale=1.0))

    posterior.observe(rng.normal(size=(400, 10)), rng.normal(size=400))

    assert posterior.certificate.n_atoms == 50
    assert posterior.certificate.inflation > 1.0
