from math import log, sqrt

import numpy as np
import pytest
from numpy.testing import assert_allclose

import kernelbandits as kb
from kernelbandits.policies.experts.policy_elimination import balanced_weights
from kernelbandits.policies.experts.randomized_ucb import VarianceProgram, least_regret, upper_hull
from policy_classes import is_concave, random_rounds, scorers, slow_variances, table_of, two_policy_mixtures


def slow_excess(rounds, weights, program):
    """Largest Σ Q V − max(floor, curvature (Σ Q Δ)²) over a grid of mixtures of two, and over random ones of all."""
    variances = slow_variances(rounds, weights, program.mixing)
    mixtures = [
        *two_policy_mixtures(len(weights)),
        *np.random.default_rng(0).dirichlet(np.full(len(weights), 0.3), size=300),
    ]
    return max(
        mixture @ variances - max(program.floor, program.curvature * (mixture @ program.regrets) ** 2)
        for mixture in mixtures
    )


def make_program(seed, n_policies=8, n_actions=4, mixing=0.01, curvature=40.0, floor_factor=1.4):
    """The floor is lower than 4N, so that the constraint binds on few rounds."""
    rng = np.random.default_rng(seed)
    rounds = random_rounds(rng, 30, n_policies, n_actions)
    regrets = rng.uniform(size=n_policies)
    table = table_of(rounds, n_policies, n_actions)
    return rounds, VarianceProgram(table, regrets - regrets.min(), mixing, floor_factor * n_actions, curvature)


def solved(program, tolerance=1e-4):
    inner = balanced_weights(program.table, np.arange(len(program.regrets)), program.mixing).weights
    for _ in range(200):  # the best inner point there is: the floor of these programs is low
        inner = inner * program.table.variances(program.table.probabilities(inner, program.mixing))
        inner /= inner.sum()
    return least_regret(program, inner, tolerance=tolerance, most_steps=400)


def test_the_upper_hull_is_above_all_points():
    rng = np.random.default_rng(0)
    for across in (rng.uniform(size=50), rng.integers(0, 4, size=50).astype(float), np.zeros(5), np.ones(1)):
        up = rng.normal(size=len(across))

        corners = upper_hull(across, up)

        assert is_concave(across[corners], up[corners])
        assert (np.interp(across, across[corners], up[corners]) >= up - 1e-12).all()


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("curvature", [0.0, 3.0, 40.0])
def test_the_worst_mixture_is_the_worst_of_all(seed, curvature):
    rounds, program = make_program(seed, curvature=curvature)
    weights = np.random.default_rng(seed).dirichlet(np.full(8, 0.4))

    breach = program.breach(program.table.variances(program.table.probabilities(weights, program.mixing)))

    slow = slow_excess(rounds, weights, program)
    assert slow <= breach.excess + 1e-9
    assert slow == pytest.approx(breach.excess, abs=0.3)  # the grid is coarse
    variances = slow_variances(rounds, weights, program.mixing)
    limit = max(program.floor, curvature * (breach.mixture @ program.regrets) ** 2)
    assert breach.mixture @ variances - limit == pytest.approx(breach.excess)
    assert np.count_nonzero(breach.mixture) <= 2


def test_a_mixture_of_two_can_be_worse_than_each():
    """Why corners alone are not enough."""
    _, program = make_program(0)
    program = VarianceProgram(program.table, np.array([0.0, 1.0, *[0.5] * 6]), 0.01, 5.0, 10.0)

    breach = program.breach(np.array([5.0, 10.0, *[0.0] * 6]))

    assert np.count_nonzero(breach.mixture) == 2
    assert breach.excess > 1.0


@pytest.mark.parametrize("seed", range(5))
def test_weights_of_least_regret_meet_the_constraint(seed):
    rounds, program = make_program(seed)

    solution = solved(program)

    assert slow_excess(rounds, solution.weights, program) <= 1e-9
    assert solution.weights.sum() == pytest.approx(1.0)
    assert (solution.weights >= 0.0).all()
    assert solution.bound <= solution.regret <= solution.bound + 1e-4


@pytest.mark.parametrize("seed", range(5))
def test_weights_of_less_regret_break_the_constraint(seed):
    """Negative control: all weight on the best breaks it, and so does a step from the solution towards that."""
    rounds, program = make_program(seed)
    solution = solved(program)
    best = (program.regrets == 0.0).astype(float)

    assert slow_excess(rounds, best, program) > 0.1
    assert slow_excess(rounds, 0.9 * solution.weights + 0.1 * best, program) > 0.0


@pytest.mark.parametrize("seed", range(3))
def test_no_weights_of_three_policies_on_a_grid_do_better(seed):
    _, program = make_program(seed, n_policies=3, n_actions=3, curvature=8.0)
    solution = solved(program)
    n_steps, least = 30, np.inf

    for first in range(n_steps + 1):
        for second in range(n_steps + 1 - first):
            weights = np.array([first, second, n_steps - first - second]) / n_steps
            variances = program.table.variances(program.table.probabilities(weights, program.mixing))
            if program.breach(variances).excess <= 0.0:
                least = min(least, float(weights @ program.regrets))

    assert solution.bound - 1e-9 <= least
    assert solution.regret <= least + 1e-4


def test_a_search_cut_short_still_meets_the_constraint():
    rounds, program = make_program(1)
    inner = balanced_weights(program.table, np.arange(8), program.mixing).weights
    relaxed = VarianceProgram(program.table, program.regrets, program.mixing, 2 * 4 * 1.01, 40.0)

    solution = least_regret(relaxed, inner, tolerance=1e-12, most_steps=1)

    assert solution.n_steps == 1
    assert slow_excess(rounds, solution.weights, relaxed) <= 1e-9
    assert solution.bound <= solution.regret


@pytest.mark.parametrize("schedule", ["doubling", "every"])
def test_a_run_solves_the_program_of_the_authors(schedule):
    n_actions, delta, factor = 3, 0.3, 0.5
    rng = np.random.default_rng(3)
    experts = scorers(rng, 6)
    policy = kb.RandomizedUCB(
        experts,
        n_actions=n_actions,
        failure_probability=delta,
        regret_factor=factor,
        uniform_factor=1.0,
        schedule=schedule,
        seed=0,
    )
    sums, rounds = np.zeros(6), []
    assert policy.mixing == pytest.approx(1 / 6)
    assert_allclose(policy.weights, 1 / 6)

    for n_learned in range(1, 65):
        contexts = rng.normal(size=(n_actions, 3))
        picks = np.array([np.argmax(contexts @ np.array(expert.direction)) for expert in experts])
        decision, before = policy.choose(contexts), policy.weights
        reward = float(rng.uniform())
        policy.learn(decision, reward)

        rounds.append((picks, n_actions))
        sums += reward * (picks == decision.action) / decision.propensity
        if schedule == "doubling" and n_learned not in (1, 2, 4, 8, 16, 32, 64):
            assert_allclose(policy.weights, before)
            continue
        t = n_learned + 1
        confidence = [2 * log(6 * s / delta) for s in (n_learned, t)]
        program = policy.program()
        assert policy.mixing == program.mixing == pytest.approx(min(1 / 6, sqrt(confidence[1] / (6 * t))))
        assert (program.floor, program.curvature) == (12.0, pytest.approx(n_learned / (factor * confidence[0])))
        assert_allclose(program.regrets, (sums.max() - sums) / n_learned, atol=1e-12)
        if n_learned % 8 == 0:
            assert slow_excess(rounds, policy.weights, program) <= 1e-9
            assert policy.gap <= policy.tolerance


def test_where_the_constraint_binds_policies_besides_the_best_are_played():
    """One that nearly all agree against is needed to be estimated, however bad it looks, unless it looks very bad."""
    rounds = [(np.array([0, 0, 0, 1]), 2)] * 2000
    regrets = np.array([0.0, 0.1, 0.1, 0.3])
    table = table_of(rounds, 4, 2)

    lenient = solved(VarianceProgram(table, regrets, 0.02, 8.0, 1e4))
    strict = solved(VarianceProgram(table, regrets, 0.02, 8.0, 1.0))

    assert lenient.weights[3] == pytest.approx(0.0, abs=1e-9)
    assert (1 - 2 * 0.02) * strict.weights[3] + 0.02 == pytest.approx(1 / 8, rel=1e-3)


def test_the_gap_of_a_policy_is_within_the_tolerance():
    """After 512 rounds the variance constraint binds, and the regret is far above its distance from a bound."""
    experts, tolerance = scorers(np.random.default_rng(5), 6), 1e-5
    policy = kb.RandomizedUCB(
        experts,
        n_actions=2,
        failure_probability=0.2,
        regret_factor=1e6,
        uniform_factor=1.0,
        tolerance=tolerance,
        seed=1,
    )
    rng = np.random.default_rng(0)
    for _ in range(512):
        decision = policy.choose(rng.normal(size=(2, 3)))
        policy.learn(decision, float(np.clip(0.5 + 0.3 * decision.context[0], 0.0, 1.0)))

    assert policy.weights @ (policy.values.max() - policy.values) > 20 * tolerance
    assert 0.0 <= policy.gap <= tolerance
    confidence = 2.0 * log(6 * 513 / 0.2)  # C_t of the next round
    assert policy.program().mixing == pytest.approx(min(0.25, sqrt(confidence / (2 * 2 * 513))), rel=1e-12)
