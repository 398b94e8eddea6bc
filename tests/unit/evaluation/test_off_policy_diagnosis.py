import numpy as np
import pytest

from kernelbandits.evaluation import Log
from kernelbandits.evaluation.off_policy import weight_warnings


def uniform_log(n_rounds, n_actions=4, propensity=0.25):
    rounds = [[str(item) for item in range(n_actions)]] * n_rounds
    return Log(rounds, [0] * n_rounds, [propensity] * n_rounds, np.linspace(0, 1, n_rounds))


def fair_weights(n_rounds, seed=0):
    return 4.0 * (np.random.default_rng(seed).random(n_rounds) < 0.25)


def test_a_good_log_needs_no_warning():
    assert weight_warnings(uniform_log(1000), fair_weights(1000)) == ()


@pytest.mark.parametrize("seed", range(20))
def test_fair_weights_are_hardly_ever_called_wrong(seed):
    assert weight_warnings(uniform_log(2000), fair_weights(2000, seed)) == ()


def test_few_matched_rounds_are_reported():
    weights = np.zeros(1000)
    weights[:20] = 50.0

    assert "Only 20 of 1,000 rounds had an action" in weight_warnings(uniform_log(1000), weights)[0]


def test_a_few_heavy_weights_are_reported():
    weights = np.full(1000, 0.1)
    weights[0] = 900.0

    assert "effective sample is 1.2 of 1,000 rounds" in weight_warnings(uniform_log(1000), weights)[0]


def test_a_mean_weight_far_from_one_is_reported():
    (result,) = weight_warnings(uniform_log(1000), 0.5 * fair_weights(1000))

    assert result.startswith("The mean weight is 0.462 ± 0.027")
    assert "1 is expected" in result


def test_a_short_log_of_many_actions_is_reported():
    (result,) = weight_warnings(uniform_log(60, n_actions=100), np.ones(60))

    assert result == "The log has 60 rounds and up to 100 actions: most of them were never chosen."


def test_a_deterministic_log_is_reported():
    (result,) = weight_warnings(uniform_log(100, propensity=1.0), np.ones(100))

    assert "was deterministic" in result


def test_one_action_a_round_leaves_no_other_to_judge():
    assert weight_warnings(uniform_log(100, n_actions=1, propensity=1.0), np.ones(100)) == ()


def test_the_share_of_clipped_weights_is_reported():
    result = weight_warnings(uniform_log(1000), fair_weights(1000), clip=2.0)

    share = 100 * np.mean(fair_weights(1000) > 2)
    assert result == (f"{share:.2g} % of the weights were clipped at 2.",)


def test_a_short_log_of_equal_weights_is_called_short_and_not_uneven():
    result = weight_warnings(uniform_log(30), np.ones(30))

    assert "The log has 30 rounds only" in result[0]
    assert not any("heavy" in warning for warning in result)
