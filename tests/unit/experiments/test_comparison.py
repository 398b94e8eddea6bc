import json

import numpy as np
import pytest

from kernelbandits.environments import SyntheticRKHS
from kernelbandits.errors import InvalidParameter
from kernelbandits.experiments import Comparison
from kernelbandits.kernels import Gaussian
from kernelbandits.policies import KernelUCB, UniformRandom

KERNEL = Gaussian(length_scale=0.3)
WORLD = SyntheticRKHS(KERNEL, n_actions=4, n_features=2, noise="bernoulli")
POLICIES = {"kernel": lambda _: KernelUCB(KERNEL), "chance": lambda seed: UniformRandom(seed=seed)}


def test_every_policy_plays_every_seed_in_the_same_worlds():
    told = []
    comparison = Comparison(environment=WORLD, policies=POLICIES, horizon=5, seeds=[3, 9])

    traces = comparison.run(lambda: told.append(1))

    assert list(traces) == ["kernel", "chance"]
    assert [run.spec["seed"] for run in traces["kernel"]] == [3, 9]
    for ours, theirs in zip(traces["kernel"], traces["chance"], strict=True):
        np.testing.assert_array_equal(ours.best, theirs.best)
    assert len(told) == comparison.n_rounds == 20


def test_it_describes_what_it_plays_in_plain_values():
    described = Comparison(environment=WORLD, policies=POLICIES, horizon=5, seeds=[3]).describe()

    assert list(described) == ["Environment", "kernel", "chance"]
    assert json.dumps(described)


@pytest.mark.parametrize("wrong", [{"policies": {}}, {"seeds": []}, {"horizon": 0}])
def test_an_empty_comparison_is_refused(wrong):
    with pytest.raises(InvalidParameter):
        Comparison(**({"environment": WORLD, "policies": POLICIES, "horizon": 5, "seeds": [3]} | wrong))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"horizon": 10**23}, "The horizon has to be a whole number of at most 100000000"),
        ({"seeds": range(10**23)}, r"at most 1,000,000 seeds, got range\(0, "),
    ],
)
def test_a_comparison_without_end_is_refused(wrong, message):
    with pytest.raises(InvalidParameter, match=message):
        Comparison(**({"environment": WORLD, "policies": POLICIES, "horizon": 5, "seeds": [3]} | wrong))
