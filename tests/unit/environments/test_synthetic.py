from dataclasses import FrozenInstanceError, replace
from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from kernelbandits.environments import SyntheticRKHS
from kernelbandits.errors import InvalidContexts, InvalidParameter
from kernelbandits.kernels import Constant, Cosine, Gaussian, Laplacian, Linear, Matern, Polynomial, Strings
from kernelbandits.testing.environments import EnvironmentContract

KERNEL = Gaussian(length_scale=0.3)
PLAIN = SyntheticRKHS(KERNEL, n_actions=6, n_features=2)
CLICKS = replace(PLAIN, noise="bernoulli", noise_scale=None)


def start(environment, seed=1):
    return environment.start(np.random.default_rng(seed))


def pay_all(world):
    return [world.reward(action) for action in range(len(world.observe().contexts))]


@pytest.mark.parametrize("noise", ["gaussian", "bernoulli"])
@pytest.mark.parametrize("fixed_actions", [False, True])
class TestSyntheticRKHS(EnvironmentContract):
    @pytest.fixture
    def environment(self, noise, fixed_actions):
        return replace(PLAIN, noise=noise, noise_scale=None, fixed_actions=fixed_actions)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("norm", [0.2, 1.0, 7.0])
@pytest.mark.parametrize("kernel", [KERNEL, Matern(smoothness=1.5, length_scale=0.2), Polynomial(degree=3)])
def test_the_norm_is_exactly_the_one_requested(kernel, norm, seed):
    world = start(SyntheticRKHS(kernel, n_actions=4, n_features=2, norm=norm), seed)

    c, K = world.function.coefficients, kernel.gram(world.function.centers)

    assert_allclose(np.sqrt(c @ K @ c), norm)
    assert_allclose(world.norm, norm)


def test_expectations_shown_are_those_of_the_function():
    world = start(PLAIN)

    observed = world.observe()

    assert_array_equal(observed.expected, world.expected(observed.contexts))


def test_contexts_fill_the_unit_cube():
    world = start(PLAIN)

    contexts = np.concatenate([world.observe().contexts for _ in range(200)])

    assert contexts.min() >= 0
    assert contexts.max() <= 1
    assert_allclose(contexts.mean(axis=0), 0.5, atol=5 / np.sqrt(12 * len(contexts)))


@pytest.mark.parametrize("noise_scale", [0.05, 0.4])
def test_gaussian_noise_has_the_scale_requested(noise_scale):
    world = start(replace(PLAIN, noise_scale=noise_scale))

    surprises = [world.reward(0) - observed.expected[0] for observed in (world.observe() for _ in range(3000))]

    assert np.mean(surprises) == pytest.approx(0.0, abs=5 * noise_scale / np.sqrt(3000))
    assert np.std(surprises) == pytest.approx(noise_scale, abs=5 * noise_scale / np.sqrt(2 * 3000))


def test_without_noise_the_expectation_is_paid():
    world = start(replace(PLAIN, noise_scale=0))

    observed = world.observe()

    assert [world.reward(action) for action in range(6)] == observed.expected.tolist()


def test_bernoulli_rewards_are_zero_or_one_as_often_as_expected():
    world = start(replace(CLICKS, fixed_actions=True))
    rewards = np.array([pay_all(world) for _ in range(3000)])

    expected = world.observe().expected
    error = np.sqrt(expected * (1 - expected) / 3000)

    assert set(rewards.ravel()) == {0.0, 1.0}
    assert np.all(np.abs(rewards.mean(axis=0) - expected) <= 5 * error)


def test_the_noise_of_different_actions_is_independent():
    world = start(replace(PLAIN, fixed_actions=True))
    rewards = np.array([pay_all(world) for _ in range(3000)])

    correlation = np.corrcoef(rewards.T)[np.triu_indices(6, k=1)]

    assert np.all(np.abs(correlation) <= 5 / np.sqrt(3000))


@pytest.mark.parametrize("n_features", [1, 3])
@pytest.mark.parametrize(
    "kernel", [KERNEL, Laplacian(length_scale=0.5), Linear(), Cosine(), Polynomial(degree=2) + Linear(), KERNEL * 3.0]
)
def test_bernoulli_expectations_are_probabilities_over_the_whole_cube(kernel, n_features):
    environment = SyntheticRKHS(kernel, n_actions=4, n_features=n_features, noise="bernoulli")
    corners = np.array(list(product([0.0, 0.5, 1.0], repeat=n_features)))[1:]  # Cosine knows nothing of the origin
    points = np.vstack([corners, np.random.default_rng(2).random((500, n_features))])

    for seed in range(5):
        expected = start(environment, seed).expected(points)
        assert expected.min() >= 0.0
        assert expected.max() <= 0.95 + 1e-12


def test_bernoulli_over_fixed_actions_makes_the_best_one_good():
    for seed in range(5):
        assert start(replace(CLICKS, fixed_actions=True), seed).observe().expected.max() == pytest.approx(0.95)


def test_a_norm_that_would_exceed_a_probability_is_rejected_at_once():
    with pytest.raises(InvalidParameter, match=r"norm may be at most 1/sqrt\(k_max\) = 1;"):
        replace(CLICKS, norm=1.1)
    with pytest.raises(InvalidParameter, match=r"norm may be at most 1/sqrt\(k_max\) = 0.5;"):
        replace(CLICKS, kernel=KERNEL * 4.0, norm=0.6)

    assert start(replace(CLICKS, norm=1.0)).norm == pytest.approx(1.0)


def test_over_fixed_actions_a_larger_norm_is_rejected_when_an_action_passes_one():
    with pytest.raises(InvalidParameter, match=r"are probabilities, .* for norm 9\. Choose a smaller norm"):
        start(replace(CLICKS, fixed_actions=True, norm=9.0))


def test_a_kernel_that_goes_negative_is_rejected_for_bernoulli_rewards():
    class Signed(Linear):
        def gram(self, first, second=None):
            return super().gram(np.asarray(first) - 0.5, None if second is None else np.asarray(second) - 0.5)

        def diagonal(self, points):
            return super().diagonal(np.asarray(points) - 0.5)

    world = start(replace(CLICKS, kernel=Signed(), n_centers=1))

    with pytest.raises(InvalidParameter, match="a kernel that is nowhere negative"):
        [world.observe() for _ in range(50)]


def test_fixed_actions_stay_and_cannot_be_written_on():
    world = start(replace(PLAIN, fixed_actions=True))

    first, second = world.observe().contexts, world.observe().contexts

    assert_array_equal(first, second)
    with pytest.raises(ValueError, match="read-only"):
        first[0] = 0.0


def test_fresh_actions_differ_from_round_to_round():
    world = start(PLAIN)

    assert not np.array_equal(world.observe().contexts, world.observe().contexts)


def test_without_a_seed_each_run_draws_its_own_function():
    assert not np.array_equal(start(PLAIN, 1).function.centers, start(PLAIN, 2).function.centers)


@pytest.mark.parametrize("fixed_actions", [False, True])
def test_with_a_seed_the_function_is_the_same_and_the_noise_is_not(fixed_actions):
    environment = replace(PLAIN, seed=5, fixed_actions=fixed_actions)

    first, second = start(environment, 1), start(environment, 2)

    assert_array_equal(first.function.centers, second.function.centers)
    assert_array_equal(first.function.coefficients, second.function.coefficients)
    assert np.array_equal(first.observe().contexts, second.observe().contexts) == fixed_actions
    assert first.reward(0) != second.reward(0)


def test_rewards_have_a_range_only_where_they_are_bounded():
    assert PLAIN.reward_range is None
    assert CLICKS.reward_range == (0.0, 1.0)


def test_the_noise_scale_is_what_a_width_needs():
    assert PLAIN.noise_scale == 0.1
    assert CLICKS.noise_scale == 0.5
    with pytest.raises(InvalidParameter, match=r"Bernoulli rewards have their own noise, got noise_scale=0\.1"):
        replace(PLAIN, noise="bernoulli")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"n_actions": 0}, "n_actions must be a whole number"),
        ({"n_features": 1.5}, "n_features must be a whole number"),
        ({"n_centers": 0}, "n_centers must be a whole number"),
        ({"norm": 0.0}, "The norm must be a finite number above zero"),
        ({"norm": float("nan")}, "The norm must be a finite number above zero"),
        ({"noise": "uniform"}, 'The noise must be "gaussian" or "bernoulli"'),
        ({"noise_scale": -1.0}, "The noise scale must be a finite number"),
        ({"seed": -1}, "The seed of the function must be a whole number of at least 0"),
        ({"kernel": "gaussian"}, "A kernel is needed, got the string"),
    ],
)
def test_a_description_checks_itself(wrong, message):
    with pytest.raises(InvalidParameter, match=message):
        replace(PLAIN, **wrong)


def test_a_kernel_of_other_points_is_rejected():
    with pytest.raises(InvalidContexts):
        replace(PLAIN, kernel=Constant(1.0, kind=Strings()))


def test_a_kernel_that_is_zero_everywhere_is_rejected():
    with pytest.raises(InvalidParameter, match="may not be zero all over the unit cube"):
        replace(PLAIN, kernel=Constant(0.0))


def test_a_description_is_frozen():
    with pytest.raises(FrozenInstanceError):
        PLAIN.n_actions = 3


def test_actions_of_their_own_seed_stay_while_functions_differ():
    environment = SyntheticRKHS(KERNEL, n_actions=5, n_features=2, fixed_actions=True, action_seed=8)

    first, second = (environment.start(np.random.default_rng(run)).observe() for run in (1, 2))

    np.testing.assert_array_equal(first.contexts, second.contexts)
    assert np.abs(first.expected - second.expected).max() > 0.1
    assert environment.describe()["action_seed"] == 8


@pytest.mark.parametrize(("fixed", "seed"), [(False, 8), (True, -1), (True, "eight")])
def test_a_seed_of_actions_that_cannot_be_used_is_rejected(fixed, seed):
    with pytest.raises(InvalidParameter):
        SyntheticRKHS(KERNEL, n_actions=5, n_features=2, fixed_actions=fixed, action_seed=seed)


def test_centers_whose_similarities_do_not_fit_into_memory_are_rejected():
    with pytest.raises(InvalidParameter, match=r"The similarities of the centers must be at most 500,000,000 numbers"):
        SyntheticRKHS(KERNEL, n_actions=5, n_features=2, n_centers=30_000)
