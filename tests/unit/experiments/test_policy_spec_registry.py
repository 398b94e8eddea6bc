import numpy as np
import pytest

import kernelbandits as kb
from kernelbandits.errors import InvalidParameter
from kernelbandits.experiments.policy_spec import build_value, find_class
from kernelbandits.kernels import Constant, Gaussian, Linear, Rows
from kernelbandits.theory import Constant as ConstantExploration
from kernelbandits.theory import Mixture


@pytest.mark.parametrize(
    "kernel",
    [
        Gaussian(length_scale=0.3),
        2.0 * Gaussian(length_scale=0.3) + Linear(),
        kb.kernels.Matern(smoothness=1.5, length_scale=0.2) * Constant(3.0),
        kb.kernels.Delta(kind=Rows()),
        kb.kernels.PairProduct(Linear(), kb.kernels.Delta()),
        kb.kernels.Columns(Linear(), (0, 2)),
    ],
)
def test_a_kernel_is_made_again_from_what_it_says_of_itself(kernel):
    again = build_value(kernel.describe(), "kernel")

    assert again.describe() == kernel.describe()


@pytest.mark.parametrize("schedule", [Mixture(noise_scale=0.2, norm_bound=2.0, failure_probability=0.3)])
def test_a_schedule_is_made_again(schedule):
    assert build_value(schedule.describe(), "policies.a.exploration") == schedule


def test_a_name_that_two_families_share_is_identified_by_its_place():
    assert build_value({"class": "Constant", "value": 0.5}, "policies.a.exploration") == ConstantExploration(0.5)
    assert isinstance(build_value({"class": "Constant", "value": 0.5}, "policies.a.kernel"), Constant)


def test_a_posterior_is_named_with_its_options():
    factory = build_value({"name": "windowed", "length": 20}, "policies.a.posterior")

    assert factory.describe() == {"name": "windowed", "length": 20}


def test_a_policy_inside_gets_a_seed_of_its_own_and_a_kernel_none():
    table = {
        "class": "Mixed",
        "epsilon": 0.5,
        "policy": {"class": "KernelThompson", "kernel": {"class": "Linear"}},
    }
    contexts = np.eye(6)

    def draws(seed):
        policy = build_value(table, "policies.a", np.random.default_rng(seed))
        return [policy.choose(contexts).action for _ in range(20)]

    assert draws(1) == draws(1)
    assert draws(1) != draws(2)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"class": "Gausian"}, r"a\.kernel: no class 'Gausian' is known. Did you mean 'Gaussian'\?"),
        ({"class": "Gaussian"}, r"a\.kernel: Gaussian is missing a required .*argument: 'length_scale'"),
        ({"class": "Gaussian", "length": 1}, r"Gaussian takes no 'length'. Did you mean 'length_scale'\?"),
        ({"class": "Gaussian", "length_scale": -1}, r"a\.kernel: The length scale must be"),
        ({"length_scale": 1}, "a table needs its class"),
        ({"class": "Scaled", "factor": 2.0, "kernel": {"class": "os.system"}}, r"a\.kernel\.kernel: no class"),
        ({"class": "Kernel"}, "no class 'Kernel'"),
        ({"class": ["Gaussian"]}, "no class"),
    ],
)
def test_what_is_wrong_is_reported_with_its_place(table, message):
    with pytest.raises(InvalidParameter, match=message):
        build_value(table, "a.kernel")


def test_a_family_knows_only_its_own():
    assert find_class("KernelUCB", "here", "policy") is kb.KernelUCB
    with pytest.raises(InvalidParameter, match="no environment class 'KernelUCB'"):
        find_class("KernelUCB", "here", "environment")
