import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from kernelbandits.environments import CosineWave, InnerSquare, QuadraticForm
from kernelbandits.errors import InvalidParameter
from kernelbandits.testing import EnvironmentContract

WORLDS = [InnerSquare, QuadraticForm, CosineWave]


class TestSpherical(EnvironmentContract):
    @pytest.fixture(params=WORLDS)
    def environment(self, request):
        return request.param(n_actions=3, n_features=5, noise_scale=0.4)


@pytest.mark.parametrize("world", WORLDS)
def test_the_published_size_is_the_usual_one(world):
    observed = world().start(np.random.default_rng(1)).observe()

    assert observed.contexts.shape == (4, 20)
    assert_allclose(np.linalg.norm(observed.contexts, axis=1), 1.0)
    assert world().noise_scale == 1.0


def test_the_functions_are_those_of_the_paper():
    rows = np.random.default_rng(2).standard_normal((6, 3))
    normal = np.random.default_rng(8).standard_normal(3)
    a = normal / np.sqrt(sum(normal**2))
    matrix = np.random.default_rng(8).standard_normal((3, 3))

    inner, form, wave = (world(n_features=3).function(np.random.default_rng(8))(rows) for world in WORLDS)

    assert_allclose(inner, [10 * (x @ a) ** 2 for x in rows])
    assert_allclose(form, [x @ matrix.T @ matrix @ x for x in rows])
    assert_allclose(wave, [np.cos(3 * (x @ a)) for x in rows])


@pytest.mark.parametrize("world", WORLDS)
def test_a_seed_keeps_the_function_and_draws_new_contexts(world):
    kept = world(n_features=3, seed=4)

    first, second = (kept.start(np.random.default_rng(s)).observe() for s in (1, 2))

    function = kept.function(np.random.default_rng(4))
    assert not np.array_equal(first.contexts, second.contexts)
    assert_array_equal(second.expected, function(second.contexts))
    assert not np.allclose(world(n_features=3).start(np.random.default_rng(2)).observe().expected, second.expected)


def test_bad_parameters_are_rejected():
    with pytest.raises(InvalidParameter, match="n_features must be a whole number"):
        CosineWave(n_features=0)
    with pytest.raises(InvalidParameter, match="noise scale"):
        InnerSquare(noise_scale=np.inf)
    with pytest.raises(InvalidParameter, match="seed of the function"):
        QuadraticForm(seed=-1)


def test_a_matrix_that_does_not_fit_into_memory_is_rejected():
    with pytest.raises(InvalidParameter, match=r"The entries of A must be at most 500,000,000 numbers, got 30,000 ×"):
        QuadraticForm(n_features=30_000)
    InnerSquare(n_features=30_000)
