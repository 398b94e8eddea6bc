"""Every policy of the linear family keeps every promise."""

import numpy as np
import pytest

import kernelbandits as kb
from kernelbandits.testing import PolicyContract

ACTIONS = np.random.default_rng(5).normal(size=(6, 3))
IN_A_PLANE = ACTIONS[:, :2] @ np.array([[1.0, 0.5, -0.3, 0.0], [0.2, -1.0, 0.0, 0.4]])


def rows(rng, n_actions):
    return rng.normal(size=(n_actions, 3))


class TestOFUL(PolicyContract):
    @pytest.fixture(params=[0.0, 0.1, 0.7, 5.0])
    def make_policy(self, request):
        return lambda: kb.OFUL(
            regularization=0.6, noise_scale=0.5, norm_bound=1.5, failure_probability=0.1, switching=request.param
        )

    @pytest.fixture
    def make_round(self):
        return rows


class TestOFULWithRandomTies(PolicyContract):
    is_random = True

    @pytest.fixture
    def make_policy(self):
        return lambda: kb.OFUL(
            regularization=0.6, noise_scale=0.5, norm_bound=1.5, switching=0.7, ties="random", seed=3
        )

    @pytest.fixture
    def make_round(self):
        return lambda rng, n: np.repeat(rng.normal(size=(1, 3)), n, axis=0)


class _OverAFixedSet(PolicyContract):
    n_fixed = 6

    @pytest.fixture(params=["of full rank", "in a plane"])
    def actions(self, request):
        return ACTIONS if request.param == "of full rank" else IN_A_PLANE

    @pytest.fixture
    def make_round(self, actions):
        return lambda _rng, _n: actions


class TestConfidenceBall(_OverAFixedSet):
    @pytest.fixture(params=[1, 2])
    def make_policy(self, request, actions):
        return lambda: kb.ConfidenceBall(actions, norm=request.param, failure_probability=0.2, exploration=0.045)


class TestUncertaintyEllipsoid(_OverAFixedSet):
    @pytest.fixture
    def make_policy(self, actions):
        return lambda: kb.UncertaintyEllipsoid(actions, exploration=0.3, reward_range=(0.0, 1.0))


class TestPEGE(_OverAFixedSet):
    @pytest.fixture
    def make_policy(self, actions):
        return lambda: kb.PEGE(actions)


class TestSupLinRel(PolicyContract):
    @pytest.fixture(
        params=[{}, {"exploration": 0.05}, {"exploration": 0.2, "explore": "lowest", "norm_bound": 0.3}], ids=str
    )
    def make_policy(self, request):
        return lambda: kb.SupLinRel(horizon=80, n_actions=7, failure_probability=0.1, **request.param)

    @pytest.fixture
    def make_round(self):
        return lambda rng, n: rng.uniform(-1.0, 1.0, size=(n, 3)) / np.sqrt(3.0)
