import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from kernelbandits.environments import Wheel
from kernelbandits.errors import InvalidParameter
from kernelbandits.evaluation import simulate
from kernelbandits.kernels import Delta, Gaussian, PairProduct
from kernelbandits.policies import KernelUCB, LinUCB, UniformRandom
from kernelbandits.testing import EnvironmentContract
from kernelbandits.types import Pairs


class TestWheel(EnvironmentContract):
    @pytest.fixture(params=["pairs", "rows", "disjoint"])
    def environment(self, request):
        return Wheel(0.6, scale=0.1, noise_scale=0.7, encoding=request.param)


def test_the_rim_pays_in_the_quadrant_of_the_context_and_the_fifth_action_everywhere():
    world = Wheel(0.7, scale=0.5)

    quadrants = [(0.6, 0.6), (0.6, -0.6), (-0.6, 0.6), (-0.6, -0.6)]
    for row, context in enumerate(quadrants):
        expected = np.array([0.5, 0.5, 0.5, 0.5, 0.6])
        expected[row] = 25.0
        assert_allclose(world.value(np.array(context)), expected)
    assert_allclose(world.value(np.array([0.3, -0.2])), [0.5, 0.5, 0.5, 0.5, 0.6])
    assert world.value(np.array([0.0, 0.7]))[0] == 25.0  # the rim begins at the radius itself


def test_contexts_are_uniform_in_the_disc():
    world = Wheel(0.5).start(np.random.default_rng(3))
    contexts = np.array([world.observe().contexts.context for _ in range(4_000)])

    squares = np.sum(contexts**2, axis=1)

    assert squares.max() <= 1.0
    assert_allclose(np.quantile(squares, [0.25, 0.5, 0.75]), [0.25, 0.5, 0.75], atol=0.04)  # 5 standard errors
    assert_allclose(contexts.mean(axis=0), 0.0, atol=0.04)


def test_the_encodings_show_the_same_context():
    pairs, rows, disjoint = (
        Wheel(0.5, encoding=encoding).start(np.random.default_rng(4)).observe()
        for encoding in ("pairs", "rows", "disjoint")
    )

    assert isinstance(pairs.contexts, Pairs)
    x = pairs.contexts.context
    assert pairs.contexts.actions == rows.ids == [1, 2, 3, 4, 5]
    assert_array_equal(rows.contexts, [x] * 5)
    assert disjoint.contexts.shape == (5, 10)
    for action in range(5):
        assert_array_equal(disjoint.contexts[action, 2 * action : 2 * action + 2], x)
    assert_array_equal(np.count_nonzero(disjoint.contexts, axis=1), 2)


@pytest.mark.parametrize(
    ("encoding", "policy"),
    [
        ("pairs", lambda: KernelUCB(PairProduct(context=Gaussian(length_scale=0.3), action=Delta()), exploration=0.1)),
        ("rows", lambda: LinUCB(model="disjoint", exploration=0.1)),
        ("disjoint", lambda: KernelUCB(Gaussian(length_scale=0.3), exploration=0.1)),
    ],
)
def test_every_encoding_can_be_learned(encoding, policy):
    world = Wheel(0.5, scale=1 / 50, encoding=encoding)

    learned = simulate(world, policy(), horizon=150, seed=1).regret[-1]

    assert learned < 0.8 * simulate(world, UniformRandom(seed=2), horizon=150, seed=1).regret[-1]


@pytest.mark.parametrize("radius", [-0.1, 1.0, 2.0, np.nan])
def test_the_radius_has_to_lie_in_the_disc(radius):
    with pytest.raises(InvalidParameter, match=r"The radius must be (below 1|a finite number, zero or above)"):
        Wheel(radius)


def test_bad_parameters_are_rejected():
    with pytest.raises(InvalidParameter, match='"pairs", "rows" or "disjoint", got \'dense\''):
        Wheel(0.5, encoding="dense")
    with pytest.raises(InvalidParameter, match="The scale must be a finite number above zero"):
        Wheel(0.5, scale=0.0)
