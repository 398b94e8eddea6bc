import numpy as np
import pytest

from kernelbandits.environments import Clustered, SyntheticRKHS
from kernelbandits.evaluation import simulate, start_world
from kernelbandits.experiments.policy_problems import (
    PROBLEMS,
    CenteredLinear,
    ContextAction,
    InUnitBall,
    SimilarityTableOnly,
)
from kernelbandits.experiments.policy_spec import RunInfo
from kernelbandits.kernels import Gaussian, PairProduct
from kernelbandits.policies import KernelUCB
from kernelbandits.testing import EnvironmentContract
from kernelbandits.types import Pairs

N_RUNS = 200
WITH_ROWS = [name for name, problem in PROBLEMS.items() if problem.rows is not None]


class TestCenteredLinear(EnvironmentContract):
    @pytest.fixture
    def environment(self):
        return CenteredLinear(n_actions=7, n_features=3)


class TestInUnitBall(EnvironmentContract):
    @pytest.fixture
    def environment(self):
        kernel = Gaussian(length_scale=0.3)
        return InUnitBall(SyntheticRKHS(kernel, n_actions=4, n_features=3, noise="bernoulli"), 3)


@pytest.mark.parametrize("encoding", ["pairs", "rows"])
class TestContextAction(EnvironmentContract):
    @pytest.fixture
    def environment(self, encoding):
        return ContextAction(encoding, n_actions=5, n_centers=4)


class TestSimilarityTableOnly(EnvironmentContract):
    @pytest.fixture
    def environment(self):
        return SimilarityTableOnly(n_actions=9, n_centers=2)


def _regret_shares(problem, rule):
    """Regret of a rule that does not learn, as a share of the uniform policy's, over many runs."""
    world_of = problem.rows or problem.environment
    lost = uniform = 0.0
    for seed in range(N_RUNS):
        shown = start_world(world_of, seed).observe()
        lost += shown.expected.max() - shown.expected[rule(shown)]
        uniform += shown.expected.max() - shown.expected.mean()
    return lost / uniform


@pytest.mark.parametrize("problem", PROBLEMS)
def test_always_the_first_or_the_last_action_is_no_better_than_a_random_one(problem):
    assert _regret_shares(PROBLEMS[problem], lambda _: 0) > 0.85
    assert _regret_shares(PROBLEMS[problem], lambda _: -1) > 0.85


@pytest.mark.parametrize("problem", WITH_ROWS)
def test_always_the_longest_or_the_shortest_row_is_no_better_than_a_random_one(problem):
    def lengths(shown):
        return np.linalg.norm(shown.contexts, axis=1).round(9)

    assert _regret_shares(PROBLEMS[problem], lambda shown: lengths(shown).argmax()) > 0.85
    assert _regret_shares(PROBLEMS[problem], lambda shown: lengths(shown).argmin()) > 0.85


def test_the_controls_notice_rows_of_unequal_length():
    """On a linear function with positive weights the longest row is nearly the best."""
    from kernelbandits.kernels import Linear

    inner = SyntheticRKHS(Linear(), n_actions=100, n_features=5, fixed_actions=True, noise="bernoulli")
    old = PROBLEMS["linear"].__class__(
        InUnitBall(inner, 5), None, InUnitBall(inner, 5), has_fixed_contexts=True, has_fixed_actions=True
    )

    assert _regret_shares(old, lambda shown: np.linalg.norm(shown.contexts, axis=1).argmax()) < 0.2


@pytest.mark.parametrize("problem", PROBLEMS)
def test_greed_loses_clearly_more_than_exploration(problem):
    environment, kernel = PROBLEMS[problem].environment, PROBLEMS[problem].kernel

    def regrets(exploration):
        found = []
        for seed in range(12):
            run = RunInfo(environment, 400, seed)
            policy = KernelUCB(kernel(run), regularization=0.25, exploration=exploration)
            found.append(simulate(environment, policy, horizon=400, seed=seed).regret[-1])
        return np.mean(found)

    assert regrets(0.0) > 1.3 * regrets(0.5)


def test_one_fixed_action_is_poor_where_the_best_depends_on_the_context():
    fixed, uniform = [], []
    for seed in range(10):
        world = start_world(PROBLEMS["context × action"].environment, seed)
        gaps = np.array([(e := world.observe().expected).max() - e for _ in range(300)])
        fixed.append(gaps.mean(axis=0).min())
        uniform.append(gaps.mean())

    assert np.mean(fixed) > 0.3 * np.mean(uniform)


@pytest.mark.parametrize("problem", PROBLEMS)
def test_every_problem_keeps_what_it_says_of_its_actions(problem):
    problem = PROBLEMS[problem]
    for environment in {problem.environment, problem.rows or problem.environment}:
        world = start_world(environment, 2)
        first, second = world.observe(), world.observe()

        def same(left, right):
            if isinstance(left, Pairs):
                return np.array_equal(left.context, right.context) and np.array_equal(left.actions, right.actions)
            return np.array_equal(left, right)

        assert same(first.contexts, second.contexts) == problem.has_fixed_contexts
        assert {world.reward(row) for row in range(len(second.expected))} <= {0.0, 1.0}
        assert 0.0 <= first.expected.min() < first.expected.max() - 0.05
        assert first.expected.max() <= 1.0
        if problem.rows is environment:
            assert np.linalg.norm(first.contexts, axis=1).max() <= 1.0 + 1e-12


def test_probabilities_of_the_linear_problem_are_linear_in_rows_of_length_one():
    shown = start_world(CenteredLinear(), 3).observe()
    weights, *_ = np.linalg.lstsq(shown.contexts, shown.expected, rcond=None)

    np.testing.assert_allclose(shown.contexts @ weights, shown.expected, atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(shown.contexts, axis=1), 1.0)


def test_both_encodings_of_context_and_action_are_the_same_run():
    pairs, rows = (start_world(ContextAction(encoding), 4) for encoding in ("pairs", "rows"))
    for _ in range(3):
        left, right = pairs.observe(), rows.observe()
        np.testing.assert_array_equal(left.expected, right.expected)
        assert [pairs.reward(a) for a in range(20)] == [rows.reward(a) for a in range(20)]
        x, a = np.append(1.0, left.contexts.context), np.append(1.0, left.contexts.actions[7])
        np.testing.assert_allclose(right.contexts[7], np.outer(a, x).ravel() / 3.0)


def test_the_function_over_the_table_is_the_sum_of_bumps_it_says():
    problem = SimilarityTableOnly(n_actions=12, n_centers=3)
    expected = start_world(problem, 5).observe().expected
    coefficients = np.linalg.solve(problem.kernel.table.values, expected)

    assert (coefficients > 1e-6).sum() == 3
    assert np.abs(np.sort(coefficients)[:-3]).max() < 1e-9
    assert expected.max() == pytest.approx(0.95)


def test_kernels_have_half_the_median_distance_as_length_scale():
    run = RunInfo(PROBLEMS["context × action"].environment, 10, 1)
    kernel = PROBLEMS["context × action"].kernel(run)
    actions = run.contexts.actions
    apart = np.linalg.norm(actions[:, None] - actions, axis=2)[np.triu_indices(20, k=1)]

    assert isinstance(kernel, PairProduct)
    assert kernel.action.length_scale == pytest.approx(0.5 * np.median(apart))
    assert 0.2 < kernel.context.length_scale < 0.32  # the median distance of two points of the square is 0.51


def test_actions_stand_in_a_random_order_and_that_of_a_run_stays():
    inner = Clustered(n_actions=30, n_features=2, n_clusters=5, fixed_actions=True)
    plain = start_world(inner, 0).observe()
    world = start_world(InUnitBall(inner, 2), 0)
    first, second = world.observe(), world.observe()

    np.testing.assert_array_equal(first.contexts, second.contexts)
    assert not np.array_equal(first.expected, plain.expected)
    np.testing.assert_array_equal(np.sort(first.expected), np.sort(plain.expected))
