import numpy as np
import pytest
from scipy.optimize import linprog
from studies import budgets
from studies.budgets import WORLDS, best_feasible

import kernelbandits as kb


@pytest.mark.parametrize("share", [0.05, 0.4, 1.5])
@pytest.mark.parametrize("world", WORLDS)
def test_the_best_feasible_is_the_optimum_of_the_linear_program(world, share):
    run = WORLDS[world](3, 40)
    best = run.expected.argmax(axis=1)
    allowance = share * float(run.costs[np.arange(40), best].sum())
    n_actions = run.costs.shape[1]

    value, price = best_feasible(run, allowance)

    found = linprog(
        -run.expected.ravel(),
        A_ub=run.costs.ravel()[None],
        b_ub=[allowance],
        A_eq=np.kron(np.eye(40), np.ones(n_actions)),
        b_eq=np.ones(40),
    )
    assert value == pytest.approx(-found.fun, rel=1e-6)
    if share > 1.0:
        assert price == 0.0
    else:
        assert price == pytest.approx(-found.ineqlin.marginals[0], rel=0.2)


def test_costs_that_are_observed_stay_below_their_limits():
    run = budgets.metered(0, 200)

    assert (run.costs <= run.limits).all()
    assert not run.costs[:, 0].any()
    assert np.corrcoef(run.contexts[:, 3, 0], run.costs[:, 3])[0, 1] > 0.8


def test_a_policy_is_judged_by_expected_rewards_and_real_costs():
    run = budgets.helpers(1, 60)
    policy = kb.Paced(kb.UniformRandom(seed=0), allowance=8.0)

    reward, spent = budgets.play(policy, run)

    assert spent == pytest.approx(policy.spent)
    assert spent <= 8.0
    assert 0.0 < reward < run.expected.max(axis=1).sum()


def test_means_and_the_most_spent_are_over_seeds():
    rows = [
        {"world": "w", "share": 0.1, "horizon": 5, "policy": "p", "reward": value, "spent": value / 2.0, "regret": 1.0}
        for value in (0.4, 0.6, 0.8)
    ]

    (row,) = budgets._means(rows)

    assert row["reward"] == pytest.approx(0.6)
    assert row["reward_error"] == pytest.approx(0.2 / np.sqrt(3))
    assert row["most_spent"] == 0.4
