import numpy as np
import pytest

from kernelbandits.environments import Clustered
from kernelbandits.errors import InvalidParameter
from kernelbandits.testing import EnvironmentContract


class TestClustered(EnvironmentContract):
    @pytest.fixture(params=[True, False])
    def environment(self, request):
        return Clustered(n_actions=6, n_features=3, n_clusters=2, fixed_actions=request.param)


def test_actions_of_a_group_lie_together_and_pay_alike():
    world = Clustered(n_actions=200, n_clusters=4, spread=0.001).start(np.random.default_rng(3))

    observed = world.observe()

    assert len(set(observed.expected.tolist())) == 4
    for value in set(observed.expected.tolist()):
        group = observed.contexts[observed.expected == value]
        assert np.abs(group - group.mean(axis=0)).max() < 0.01


def test_fixed_actions_stay_and_noise_changes():
    world = Clustered(n_actions=50, fixed_actions=True).start(np.random.default_rng(4))

    first, second = world.observe(), world.observe()

    assert first.contexts is second.contexts
    pays = [[world.reward(row) for row in range(50)] for _ in range(3) if world.observe() is not None]
    assert pays[0] != pays[1]


@pytest.mark.parametrize("values", [(-0.1, 0.5), (0.5, 1.1), (0.6, 0.4), (np.nan, 0.5)])
def test_values_have_to_be_probabilities(values):
    with pytest.raises(InvalidParameter, match="two probabilities"):
        Clustered(n_actions=3, values=values)
