import numpy as np
import pytest

from kernelbandits.policies.ties import pick_tied, tie_probabilities


@pytest.mark.parametrize(
    ("tied", "ties", "expected"),
    [
        ([1, 3], "lowest", [0.0, 1.0, 0.0, 0.0]),
        ([1, 3], "random", [0.0, 0.5, 0.0, 0.5]),
        ([2], "random", [0.0, 0.0, 1.0, 0.0]),
    ],
)
def test_probabilities_are_the_propensities_of_what_is_picked(tied, ties, expected):
    rng, rows = np.random.default_rng(0), np.array(tied)

    probabilities = tie_probabilities(rows, ties, n_actions=4)

    assert probabilities.tolist() == expected
    for _ in range(10):
        row, propensity = pick_tied(rows, ties, rng)
        assert probabilities[row] == propensity
