import numpy as np
import pytest
from studies import large_actions
from studies.large_actions import best_in_words


def test_a_case_is_a_log_with_all_probabilities_and_the_true_value():
    log, target, truth = large_actions._case(3, 0.5, 20)

    (shares,) = target.probabilities_many(log.rounds[:1])
    assert shares.sum() == pytest.approx(1.0)
    assert log.probabilities[0][log.actions[0]] == log.propensities[0]
    means = [log.rewards[log.actions == action].mean() for action in np.unique(log.actions)]
    assert min(means) - 0.5 < truth < max(means) + 0.5


def test_functions_have_mean_0_and_variance_1_and_the_length_scale():
    rng = np.random.default_rng(0)
    ends = np.array([[0.0, 0.0], [0.3, 0.4]])
    values = np.array([large_actions._function(rng, 0.5)(ends) for _ in range(4_000)])

    assert abs(values.mean()) < 0.06
    assert abs(values.var() - 1.0) < 0.08
    assert abs(np.corrcoef(values.T)[0, 1] - np.exp(-0.5)) < 0.05


def test_a_row_holds_bias_and_error():
    row = large_actions._row("smooth rewards", 10, "IPS", np.array([1.0, -1.0, 3.0]))

    assert row["bias"] == 1.0
    assert row["rmse"] == pytest.approx(np.sqrt(11 / 3))
    assert row["rmse_error"] == pytest.approx(np.std([1.0, 1.0, 9.0], ddof=1) / np.sqrt(3) / 2 / np.sqrt(11 / 3))


def test_the_best_is_named_for_the_fewest_and_the_most_actions():
    errors = {"IPS": (0.1, 0.9), "direct method": (0.2, 0.3)}
    rows = [
        {"rewards": name, "n_actions": n_actions, "estimator": label, "rmse": errors[label][n_actions > 10]}
        for name in large_actions.SMOOTHNESS
        for n_actions in (min(large_actions.N_ACTIONS), max(large_actions.N_ACTIONS))
        for label in errors
    ]

    assert (
        "smooth rewards, 10 actions: IPS (0.100); smooth rewards, 1,000 actions: direct method (0.300)"
        in best_in_words(rows)
    )
