"""Every randomized policy and every wrapper keeps every promise."""

import numpy as np
import pytest

import kernelbandits as kb
from kernelbandits.kernels import Delta, Gaussian, Linear, Matern
from kernelbandits.testing import PolicyContract
from kernelbandits.theory import exploration as schedules


class _OverRows(PolicyContract):
    is_random = True

    @pytest.fixture
    def make_round(self):
        return lambda rng, n: rng.normal(size=(n, 3))


class TestKernelThompson(_OverRows):
    @pytest.fixture(
        params=[
            {"posterior": "exact", "exploration": 0.4},
            {"draws": "features", "n_features": 40},
            {"exploration": schedules.Mixture(noise_scale=0.5, norm_bound=2.0, failure_probability=0.1)},
        ],
        ids=str,
    )
    def make_policy(self, request):
        options = {"propensity_draws": 40, "seed": 5, **request.param}
        return lambda: kb.KernelThompson(2.0 * Gaussian(length_scale=0.7), regularization=0.3, **options)


class TestKernelThompsonLinear(_OverRows):
    @pytest.fixture
    def make_policy(self):
        return lambda: kb.KernelThompson(
            Linear(), regularization=0.3, draws="features", propensity_draws=30, reward_range=(0, 1), seed=5
        )


class TestKernelThompsonOneDraw(_OverRows):
    @pytest.fixture
    def make_policy(self):
        return lambda: kb.KernelThompson(Matern(smoothness=1.5, length_scale=0.7), propensity_draws=1, seed=5)


class TestKernelThompsonOverStrings(_OverRows):
    @pytest.fixture
    def make_policy(self):
        return lambda: kb.KernelThompson(Delta(), regularization=0.3, propensity_draws=30, ties="random", seed=5)

    @pytest.fixture
    def make_round(self):
        return lambda rng, n: [f"text {row}" for row in rng.integers(0, 9, size=n)]


class TestKernelSquareCB(_OverRows):
    @pytest.fixture(params=[None, 7.0], ids=str)
    def make_policy(self, request):
        return lambda: kb.KernelSquareCB(
            Gaussian(length_scale=0.7), regularization=0.3, gap_weight=request.param, seed=2
        )


INSIDE = {
    "KernelUCB": lambda: kb.KernelUCB(Gaussian(length_scale=0.7), regularization=0.3, exploration=0.4),
    "KernelUCB with a schedule": lambda: kb.KernelUCB(
        Gaussian(length_scale=0.7),
        regularization=0.3,
        exploration=schedules.Mixture(noise_scale=0.5, norm_bound=2.0, failure_probability=0.1),
        reward_range=(0, 1),
    ),
    "KernelUCB with random ties": lambda: kb.KernelUCB(Delta(kind=kb.kernels.Rows()), ties="random", seed=4),
    "LinUCB": lambda: kb.LinUCB(regularization=0.6, exploration=0.5),
    "LinUCB disjoint": lambda: kb.LinUCB(model="disjoint", regularization=0.6, exploration=0.5),
}
ANYTHING = {
    **{name: INSIDE[name] for name in ("KernelUCB with random ties", "LinUCB disjoint")},
    "SupKernelUCB": lambda: kb.SupKernelUCB(Gaussian(length_scale=1.5), exploration=0.1, unknown_horizon="doubling"),
    "KernelThompson": lambda: kb.KernelThompson(Gaussian(length_scale=0.7), propensity_draws=20, seed=3),
    "Guarded": lambda: kb.Guarded(kb.LinUCB(exploration=0.1), baseline=1, absent="free"),
    "UniformRandom": lambda: kb.UniformRandom(seed=3),
}


class TestMixed(_OverRows):
    @pytest.fixture(params=ANYTHING)
    def make_policy(self, request):
        return lambda: kb.Mixed(ANYTHING[request.param](), epsilon=0.3, seed=8)


class TestSoftmax(_OverRows):
    @pytest.fixture(params=["KernelUCB with a schedule", "LinUCB"])
    def make_policy(self, request):
        return lambda: kb.Softmax(INSIDE[request.param](), temperature=0.3, seed=8)


class TestGuarded(_OverRows):
    is_random = False

    @pytest.fixture(params=[name for name in INSIDE if "random" not in name])
    def make_policy(self, request):
        return lambda: kb.Guarded(INSIDE[request.param](), baseline=2, margin=0.01, absent="free")


class TestGuardedWithRandomTies(_OverRows):
    @pytest.fixture
    def make_policy(self):
        return lambda: kb.Guarded(INSIDE["KernelUCB with random ties"](), baseline="not there", absent="free")


COSTS = {**{row: (0.0, 0.3, 1.0)[row % 3] for row in range(9)}, **{f"item {row}": row / 4.0 for row in range(9)}}
SCORED = {**{name: ANYTHING[name] for name in ("KernelThompson", "Guarded", "UniformRandom")}, **INSIDE}


class TestPaced(_OverRows):
    @pytest.fixture(params=["KernelThompson", "UniformRandom", "KernelUCB with random ties"])
    def make_policy(self, request):
        return lambda: kb.Paced(SCORED[request.param](), allowance=400.0, horizon=900, price=0.4, costs=COSTS)


class TestPacedWithoutDraws(_OverRows):
    is_random = False

    @pytest.fixture(params=["KernelUCB with a schedule", "LinUCB disjoint", "Guarded"])
    def make_policy(self, request):
        return lambda: kb.Paced(
            SCORED[request.param](), allowance=400.0, price=0.4, costs=COSTS, observed_costs=request.param != "Guarded"
        )


class TestPacedMixed(_OverRows):
    @pytest.fixture
    def make_policy(self):
        return lambda: kb.Paced(kb.Mixed(INSIDE["KernelUCB"](), epsilon=0.3, seed=8), allowance=400.0, costs=COSTS)


def test_the_contract_finds_propensities_that_leave_the_policy_inside_out():
    class Wrong(kb.Mixed):
        def _total(self, own, n_actions):
            return self._epsilon / n_actions

    contract, rows = TestMixed(), lambda rng, n: rng.normal(size=(n, 3))

    with pytest.raises(AssertionError):
        contract.test_probabilities_sum_to_one_and_contain_the_propensity(
            lambda: Wrong(INSIDE["KernelUCB"](), epsilon=0.3, seed=8), rows
        )


def test_the_contract_finds_draws_that_differ_from_the_stated_shares():
    class Wrong(kb.KernelThompson):
        def _pick(self, actions):
            return super()._pick(actions)._replace(row=0)

    contract, rows = TestKernelThompson(), lambda rng, n: rng.normal(size=(n, 3))

    with pytest.raises(AssertionError):
        contract.test_actions_are_drawn_as_often_as_stated(
            lambda: Wrong(Gaussian(length_scale=0.7), propensity_draws=40, seed=1), rows
        )


def test_what_is_pending_counts_inside_a_wrapper():
    contexts = np.random.default_rng(0).normal(size=(4, 3))
    plain, wrapped = INSIDE["KernelUCB"](), kb.Guarded(INSIDE["KernelUCB"](), baseline="none", absent="free")

    for policy in (plain, wrapped):
        policy.expect(policy.choose(contexts))
    first, second = plain.choose(contexts), wrapped.choose(contexts)

    assert (first.action, first.width, first.round_index) == (second.action, second.width, second.round_index)
    assert wrapped.policy.round_index == wrapped.round_index == 2
