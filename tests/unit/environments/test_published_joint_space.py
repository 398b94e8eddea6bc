import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from kernelbandits.environments import Bump, Chessboard, StepDiagonal
from kernelbandits.errors import InvalidParameter
from kernelbandits.evaluation import simulate, start_world
from kernelbandits.kernels import Gaussian
from kernelbandits.policies import KernelUCB, SupKernelUCB, UniformRandom
from kernelbandits.testing import EnvironmentContract

WORLDS = [Bump, Chessboard, StepDiagonal]
TEN_ACTIONS = [0.08, 0.70, 0.82, 0.28, 0.63, 0.00, 0.05, 0.50, 0.81, 0.04]


class TestJointSpace(EnvironmentContract):
    @pytest.fixture(params=WORLDS)
    def environment(self, request):
        return request.param(noise_scale=0.3)


class TestPublishedStream(EnvironmentContract):
    @pytest.fixture(params=WORLDS)
    def environment(self, request):
        return request.param(published=True)


@pytest.mark.parametrize("world", WORLDS)
def test_the_ten_actions_are_the_published_ones_and_stand_in_the_last_column(world):
    observed = world().start(np.random.default_rng(1)).observe()

    assert_allclose(world().actions, TEN_ACTIONS, atol=1e-12)
    assert_array_equal(observed.contexts[:, -1], world().actions)
    assert observed.contexts.shape == (10, 1 + world.n_columns)
    assert np.ptp(observed.contexts[:, :-1], axis=0).max() == 0.0


def test_the_bump_is_drawn_after_the_actions_from_the_same_stream():
    state = np.random.RandomState(123)
    actions = state.choice(np.arange(0, 1, 0.01), 10, replace=False)
    peak, center, slope = actions[state.choice(10)], state.uniform(0, 1, 5), state.uniform(-1, 1, 5)
    contexts = np.random.default_rng(3).random((200, 5))

    for context in contexts:
        by_hand = [max(0.0, 1.0 - abs(a - peak) - sum(slope * (context - center))) for a in actions]
        assert_allclose(Bump().value(context, actions), by_hand, atol=1e-12)
        assert_allclose(Bump().claimed_best(context), max(by_hand), atol=1e-12)


def test_the_chessboard_pays_on_its_squares():
    ones = [((0.25, 0.5), (0.0, 0.25)), ((0.25, 0.5), (0.5, 0.75)), ((0.75, 1.01), (0.5, 0.75))]
    halves = [((0.0, 0.25), (0.25, 0.5)), ((0.5, 0.75), (0.25, 0.5)), ((0.5, 0.75), (0.75, 1.01))]

    def by_hand(x, a):
        for value, squares in ((1.0, ones), (0.5, halves)):
            if any(low <= x < high and left <= a < right for (low, high), (left, right) in squares):
                return value
        return 0.0

    grid = np.linspace(0, 1, 41)  # with all edges, 1 among them
    for x in grid:
        assert_array_equal(Chessboard().value(np.array([x]), grid), [by_hand(x, a) for a in grid])


def test_the_step_diagonal_pays_along_its_stripes():
    rng = np.random.default_rng(4)

    for x in rng.random(300):
        actions = rng.random(7)
        by_hand = [1.0 if abs(x - (a + 0.15)) < 0.1 else 0.5 if abs(x - (a - 0.15)) < 0.1 else 0.0 for a in actions]
        assert_array_equal(StepDiagonal().value(np.array([x]), actions), by_hand)


@pytest.mark.parametrize(("world", "attainable"), [(Chessboard, 0.750), (StepDiagonal, 0.965)])
def test_the_best_action_attains_less_than_the_claimed_best(world, attainable):
    grid = (np.arange(2_000) + 0.5) / 2_000

    best = np.mean([world().value(np.array([x]), world().actions).max() for x in grid])

    assert_allclose(best, attainable, atol=1e-3)
    assert world().claimed_best(grid[:1]) == 1.0


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("seed", [0, 7])
def test_the_published_stream_draws_context_then_noise_then_a_noise_for_the_best(world, seed):
    environment = world(published=True)
    state = np.random.RandomState(seed)
    first_context, first_noise = state.uniform(size=world.n_columns), state.normal(scale=0.1)

    trace = simulate(environment, UniformRandom(seed=5), horizon=50, seed=seed)
    point, reward = start_world(environment, seed).initial_history()
    printed = environment.printed_regret(trace.reward, seed=seed)

    chosen = np.random.RandomState(123).choice(10)
    assert_array_equal(point, [[*first_context, environment.actions[chosen]]])
    assert reward == environment.value(first_context, environment.actions)[chosen] + first_noise
    regret = 0.0
    for t in range(50):
        context = state.uniform(size=world.n_columns)
        expected = environment.value(context, environment.actions)
        paid = expected[trace.action[t]] + state.normal(scale=0.1)
        regret += environment.claimed_best(context) + state.normal(scale=0.1) - paid
        assert (trace.reward[t], trace.best[t]) == (paid, expected.max())
        assert_allclose(printed[t], regret, atol=1e-12)


def test_a_policy_starts_from_the_first_round_of_the_stream():
    policy = KernelUCB(Gaussian(length_scale=0.1), regularization=0.5)

    simulate(Chessboard(published=True), policy, horizon=3, seed=4)

    assert policy.posterior.n_observations == 4
    assert policy.round_index == 4


def test_a_policy_that_takes_no_history_starts_without_it():
    policy = SupKernelUCB(Gaussian(length_scale=0.1), exploration=0.1, reward_range=(-1.0, 2.0))

    trace = simulate(Chessboard(published=True), policy, horizon=3, seed=4)

    assert len(trace) == 3


def test_a_stream_without_a_seed_of_its_own_is_rejected():
    with pytest.raises(InvalidParameter, match=r"seed from 0 to 4,294,967,295.*authors' seeds are 0, 1 and 2"):
        Bump(published=True).start(np.random.default_rng())


def test_bad_parameters_are_rejected():
    with pytest.raises(InvalidParameter, match="noise scale must be a finite number"):
        Chessboard(noise_scale=-0.1)
    with pytest.raises(InvalidParameter, match="seed must be a whole number"):
        StepDiagonal().claimed_total(3, seed=1.5)
