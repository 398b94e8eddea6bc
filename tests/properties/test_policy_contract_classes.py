"""Every policy over a class of policies keeps every promise."""

import pytest

import kernelbandits as kb
from kernelbandits.policies.experts import ConstantExpert, linear_experts
from kernelbandits.testing import PolicyContract

CONSTANT = [ConstantExpert(0), ConstantExpert(3), ConstantExpert(1), ConstantExpert(6), ConstantExpert(3)]
LINEAR = linear_experts(3, n_experts=6, seed=1)  # what these pick depends on the round


class _OverAClass(PolicyContract):
    is_random = True
    has_amendments = False

    @pytest.fixture(params=[CONSTANT, LINEAR], ids=["constant", "linear"])
    def experts(self, request):
        return request.param

    @pytest.fixture
    def make_round(self):
        return lambda rng, n_actions: rng.normal(size=(n_actions, 3))


class TestPolicyElimination(_OverAClass):
    @pytest.fixture
    def make_policy(self, experts):
        return lambda: kb.PolicyElimination(experts, n_actions=7, failure_probability=0.1, exploration=0.05, seed=2)


class TestRandomizedUCB(_OverAClass):
    @pytest.fixture(params=["doubling", "every"])
    def make_policy(self, request, experts):
        return lambda: kb.RandomizedUCB(
            experts, n_actions=7, failure_probability=0.9, regret_factor=0.1, schedule=request.param, seed=2
        )


class TestILOVETOCONBANDITS(_OverAClass):
    @pytest.fixture
    def make_policy(self, experts):
        return lambda: kb.ILOVETOCONBANDITS(experts, n_actions=7, failure_probability=0.9, regret_factor=2.0, seed=2)


class TestOverStrings(PolicyContract):
    """Contexts are whatever the experts understand."""

    is_random = True
    has_amendments = False

    @pytest.fixture
    def make_policy(self):
        return lambda: kb.ILOVETOCONBANDITS(CONSTANT, n_actions=7, failure_probability=0.9, seed=2)

    @pytest.fixture
    def make_round(self):
        return lambda rng, n_actions: [f"text {row}" for row in rng.integers(0, 99, size=n_actions)]
