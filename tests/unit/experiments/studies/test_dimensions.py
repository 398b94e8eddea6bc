import numpy as np
import pytest

from kernelbandits.environments import Clustered
from kernelbandits.evaluation import simulate, start_world
from kernelbandits.experiments.studies import dimensions
from kernelbandits.experiments.studies.dimensions import checkpoints, effective_dimensions
from kernelbandits.kernels import Gaussian, Spectrum
from kernelbandits.policies import KernelUCB, UniformRandom
from small_studies import KERNEL, Unknowing, rows_of_gram


@pytest.mark.parametrize("environment", [Clustered(n_actions=6, fixed_actions=True), Clustered(n_actions=6)])
def test_they_are_those_of_the_points_chosen_so_far(environment):
    kernel = Gaussian(length_scale=0.07)
    policy = KernelUCB(kernel, regularisation=0.3, exploration=0.5)
    trace = simulate(environment, policy, horizon=60, seed=4)
    rounds = np.array([2, 9, 60])

    found = effective_dimensions(environment, 4, policy, trace.action, rounds=rounds, horizon=60)

    world = start_world(environment, 4)
    chosen = [world.show().contexts[action] for action in trace.action]
    assert found == {t: rows_of_gram(kernel, chosen[:t], 60, 0.3) for t in rounds.tolist()}
    assert found[60] > found[2]


def test_a_policy_without_a_posterior_has_none():
    policy = UniformRandom(seed=1)
    trace = simulate(Unknowing(), policy, horizon=5, seed=1)

    assert effective_dimensions(Unknowing(), 1, policy, trace.action, rounds=np.array([5]), horizon=5) == {}


def test_points_that_the_kernel_does_not_take_have_none():
    policy = KernelUCB(Spectrum(n=2))

    assert effective_dimensions(Unknowing(), 1, policy, np.zeros(5, int), rounds=np.array([5]), horizon=5) == {}


def test_it_stops_at_so_many_distinct_points(monkeypatch):
    monkeypatch.setattr(dimensions, "MOST_POINTS", 4)
    policy = KernelUCB(KERNEL)

    found = effective_dimensions(Unknowing(), 1, policy, np.zeros(7, int), rounds=np.array([2, 4, 5, 7]), horizon=7)

    assert set(found) == {2, 4}


@pytest.mark.parametrize("rounds", [np.arange(1, 5001), np.arange(7, 5000, 7), np.array([1, 2]), np.array([1])])
def test_checkpoints_are_few_and_end_with_the_last(rounds):
    found = checkpoints(rounds)

    assert len(found) <= 12
    assert np.all(np.isin(found, rounds))
    assert np.all(found >= 2)
    assert rounds[-1] == 1 or found[-1] == rounds[-1]
