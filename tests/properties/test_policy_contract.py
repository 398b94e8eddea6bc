"""Every policy keeps every promise."""

import numpy as np
import pytest

import kernelbandits as kb
from kernelbandits.kernels import Delta, FromCallable, Gaussian, Jaccard, Linear, Precomputed, Spectrum
from kernelbandits.testing import PolicyContract
from kernelbandits.testing.policies import _kernel_to_pass
from kernelbandits.theory import exploration as schedules

MIXTURE = schedules.Mixture(noise_scale=0.5, norm_bound=2.0, failure_probability=0.1)


def rows(rng, n_actions):
    return rng.normal(size=(n_actions, 3))


class _OverRows(PolicyContract):
    @pytest.fixture
    def make_round(self):
        return rows


class TestKernelUCB(_OverRows):
    @pytest.fixture(params=["auto", "exact"])
    def make_policy(self, request):
        return lambda: kb.KernelUCB(Gaussian(length_scale=0.7), regularization=0.3, posterior=request.param)


class TestKernelUCBThatLearnsItsKernel(_OverRows):
    """Searches fall into every test: after 6, 12, 18, … rewards."""

    @pytest.fixture(params=["one scale", "per column", "sum"])
    def make_policy(self, request):
        kernels = {
            "one scale": Gaussian(length_scale=7.0),
            "per column": Gaussian(length_scale=[0.7, 7.0, 0.07]),
            "sum": 0.5 * Gaussian(length_scale=0.7) + 0.5 * Linear(),
        }
        return lambda: kb.KernelUCB(kernels[request.param], regularization=0.3, refit=6)


class TestKernelThompsonThatLearnsItsKernel(_OverRows):
    is_random = True

    @pytest.fixture
    def make_policy(self):
        return lambda: kb.KernelThompson(Gaussian(length_scale=7.0), regularization=0.3, seed=4, refit=6)


class TestMixedAroundALearnedKernel(_OverRows):
    is_random = True

    @pytest.fixture
    def make_policy(self):
        return lambda: kb.Mixed(
            kb.KernelUCB(Gaussian(length_scale=7.0), regularization=0.3, refit=6), epsilon=0.3, seed=4
        )


class TestKernelUCBWithBinaryRewards(_OverRows):
    @pytest.fixture
    def make_policy(self):
        kernel = Gaussian(length_scale=0.7) + 1.0
        return lambda: kb.KernelUCB(kernel, regularization=0.3, posterior="logistic", reward_range=(0, 1))


class TestKernelThompsonWithBinaryRewards(_OverRows):
    is_random = True

    @pytest.fixture
    def make_policy(self):
        return lambda: kb.KernelThompson(
            Gaussian(length_scale=0.7),
            regularization=0.3,
            posterior="logistic",
            draws="joint",
            reward_range=(0, 1),
            seed=4,
        )


class TestKernelUCBLinearPrimal(_OverRows):
    @pytest.fixture
    def make_policy(self):
        return lambda: kb.KernelUCB(Linear() + 0.5, regularization=0.3, exploration=0.4, posterior="primal")


class TestKernelUCBWithSchedule(_OverRows):
    @pytest.fixture
    def make_policy(self):
        return lambda: kb.KernelUCB(
            Gaussian(length_scale=0.7), regularization=0.3, exploration=MIXTURE, reward_range=(0, 1)
        )


class TestKernelUCBWithRandomTies(_OverRows):
    is_random = True

    @pytest.fixture
    def make_policy(self):
        return lambda: kb.KernelUCB(Delta(kind=kb.kernels.Rows()), regularization=0.3, ties="random", seed=4)


class TestKernelUCBOverStrings(PolicyContract):
    @pytest.fixture
    def make_policy(self):
        return lambda: kb.KernelUCB(Spectrum(n=(1, 2)), regularization=0.3, exploration=0.5)

    @pytest.fixture
    def make_round(self):
        return lambda rng, n: ["".join(rng.choice(list("abcd"), size=rng.integers(2, 9))) for _ in range(n)]


class TestKernelUCBOverSets(PolicyContract):
    @pytest.fixture
    def make_policy(self):
        return lambda: kb.KernelUCB(Jaccard() + 0.1, regularization=0.3, exploration=0.5)

    @pytest.fixture
    def make_round(self):
        return lambda rng, n: [set(rng.integers(0, 9, size=4).tolist()) | {"x"} for _ in range(n)]


class TestKernelUCBOverTable(PolicyContract):
    @pytest.fixture
    def make_policy(self):
        table = Gaussian(length_scale=1.0).gram(np.random.default_rng(0).normal(size=(40, 3)))
        return lambda: kb.KernelUCB(Precomputed(table, ids=[f"id {row}" for row in range(40)]), regularization=0.3)

    @pytest.fixture
    def make_round(self):
        return lambda rng, n: [f"id {row}" for row in rng.choice(40, size=n, replace=False)]


def inverse_distance(first, second):
    """A similarity that a file can only name."""
    return 1.0 / (1.0 + np.square(first[:, None, :] - second[None, :, :]).sum(axis=2))


class TestKernelUCBWithFunction(_OverRows):
    @pytest.fixture
    def make_policy(self):
        return lambda: kb.KernelUCB(FromCallable(inverse_distance), regularization=0.3, exploration=0.5)


class TestMixedWithFunction(_OverRows):
    is_random = True

    @pytest.fixture
    def make_policy(self):
        inner = FromCallable(inverse_distance)
        return lambda: kb.Mixed(kb.KernelUCB(inner, regularization=0.3, exploration=0.5), epsilon=0.2, seed=3)


@pytest.mark.parametrize(
    ("kernel", "is_passed"),
    [(None, False), (Gaussian(length_scale=0.7), False), (FromCallable(inverse_distance), True)],
)
def test_a_kernel_is_passed_to_load_only_if_a_file_cannot_hold_it(kernel, is_passed):
    assert (_kernel_to_pass(kernel) is not None) == is_passed


class TestGPUCB(_OverRows):
    @pytest.fixture
    def make_policy(self):
        return lambda: kb.GPUCB(Gaussian(length_scale=0.7), noise_variance=0.2)


class TestCGPUCB(PolicyContract):
    @pytest.fixture(params=["product", "sum"])
    def make_policy(self, request):
        return lambda: kb.CGPUCB(
            context_kernel=Gaussian(length_scale=1.0), action_kernel=Delta(), combine=request.param, noise_variance=0.2
        )

    @pytest.fixture
    def make_round(self):
        return lambda rng, n: kb.Pairs(rng.normal(size=2), [f"action {row}" for row in range(n)])


class TestLinUCBShared(_OverRows):
    @pytest.fixture
    def make_policy(self):
        return lambda: kb.LinUCB(regularization=0.6, exploration=0.5)


class TestLinUCBDisjoint(_OverRows):
    @pytest.fixture
    def make_policy(self):
        return lambda: kb.LinUCB(model="disjoint", regularization=0.6, exploration=0.5)


class TestLinUCBHybrid(_OverRows):
    @pytest.fixture
    def make_policy(self):
        return lambda: kb.LinUCB(model="hybrid", shared_columns=[1], regularization=0.6, exploration=0.5)


class TestSupKernelUCB(_OverRows):
    @pytest.fixture(
        params=[
            {"horizon": 60, "n_actions": 7, "norm_bound": 1.0, "exploration": "theory"},
            {"horizon": 60, "n_actions": 7, "mode": "paper", "exploration": "theory"},
            {"horizon": 60, "n_actions": 7, "exploration": 0.1},
            {"norm_bound": 1.0, "exploration": "theory"},
            {"exploration": 0.2, "explore": "lowest"},
            {"norm_bound": 1.0, "unknown_horizon": "doubling", "exploration": "theory"},
            {"exploration": 0.1, "unknown_horizon": "doubling"},
        ],
        ids=str,
    )
    def make_policy(self, request):
        return lambda: kb.SupKernelUCB(Gaussian(length_scale=1.5), regularization=0.5, **request.param)


class TestSupLinUCB(_OverRows):
    @pytest.fixture
    def make_policy(self):
        return lambda: kb.SupLinUCB(horizon=60, n_actions=7, norm_bound=1.0, exploration="theory", regularization=0.5)


class TestUniformRandom(_OverRows):
    is_random = True

    @pytest.fixture
    def make_policy(self):
        return lambda: kb.UniformRandom(seed=3)


class TestUniformRandomOverStrings(PolicyContract):
    is_random = True

    @pytest.fixture
    def make_policy(self):
        return lambda: kb.UniformRandom(seed=3, reward_range=(0, 1))

    @pytest.fixture
    def make_round(self):
        return lambda rng, n: [f"text {row}" for row in rng.integers(0, 99, size=n)]
