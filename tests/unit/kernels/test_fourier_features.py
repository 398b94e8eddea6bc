import pickle
from math import exp, lgamma, log

import numpy as np
import pytest
from scipy.sparse import csr_array

import kernelbandits as kb
from kernelbandits.errors import DamagedFile, ForeignFile, InvalidContexts, InvalidParameter, NotSupported
from kernelbandits.kernels import (
    Columns,
    Gaussian,
    Laplacian,
    Linear,
    Matern,
    Polynomial,
    QuadratureFourier,
    RandomFourier,
    RationalQuadratic,
    Scaled,
    unpack_kernel,
)
from kernelbandits.kernels.fourier_features import has_random_features
from kernelbandits.posterior import ExactPosterior, PrimalPosterior

KERNELS = [
    Gaussian(length_scale=0.7),
    Gaussian(length_scale=[0.3, 1.4, 5.0]),
    3.0 * Gaussian(length_scale=0.7),
    0.5 * (2.5 * Matern(smoothness=1.5, length_scale=[0.3, 1.4, 5.0])),
    *(Matern(smoothness=smoothness, length_scale=0.9) for smoothness in (0.5, 1.5, 2.5)),
    RationalQuadratic(length_scale=[0.7, 1.0, 3.0], mixture=0.6),
    Laplacian(length_scale=[0.9, 2.0, 4.0]),
]
ROTATIONS = [kernel for kernel in KERNELS if not isinstance(kernel, Laplacian)]


def points(n_points=7):
    rng = np.random.default_rng(3)
    return np.vstack([rng.normal(size=(n_points, 3)), np.zeros((2, 3)), [[40.0, -3.0, 2.0]]])


def squares(n_points=60, n_columns=2):
    return np.random.default_rng(4).uniform(size=(n_points, n_columns))


def worst_in_standard_errors(kernel, drawn_for, n_frequencies=20_001, *, orthogonal=False):
    """Largest error of the estimated Gram matrix: blocks of three are independent, so their spread says its error."""
    approximation = RandomFourier(drawn_for, n_columns=3, n_frequencies=n_frequencies, orthogonal=orthogonal, seed=11)
    rows = points()
    values = approximation.features(rows) * np.sqrt(n_frequencies)
    waves = np.einsum("nw,mw->nmw", values[:, :n_frequencies], values[:, :n_frequencies])
    waves += np.einsum("nw,mw->nmw", values[:, n_frequencies:], values[:, n_frequencies:])
    blocks = waves.reshape(len(rows), len(rows), -1, 3).mean(axis=3)
    error = np.abs(blocks.mean(axis=2) - kernel.gram(rows))
    return (error / (blocks.std(axis=2) / np.sqrt(blocks.shape[2]) + 1e-9)).max()


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_the_expectation_of_the_features_is_the_kernel(kernel):
    assert worst_in_standard_errors(kernel, kernel) < 5.0


@pytest.mark.parametrize("kernel", ROTATIONS, ids=repr)
def test_the_expectation_of_orthogonal_features_is_the_kernel(kernel):
    assert worst_in_standard_errors(kernel, kernel, orthogonal=True) < 5.0


@pytest.mark.parametrize("orthogonal", [False, True])
@pytest.mark.parametrize(
    ("kernel", "drawn_for"),
    [
        (Gaussian(length_scale=0.7), Gaussian(length_scale=0.75)),
        (Matern(smoothness=0.5, length_scale=0.9), Matern(smoothness=1.5, length_scale=0.9)),
        (Gaussian(length_scale=[0.3, 1.4, 5.0]), Gaussian(length_scale=[1.4, 0.3, 5.0])),
        (Gaussian(length_scale=0.7), 1.01 * Gaussian(length_scale=0.7)),
        (RationalQuadratic(length_scale=0.7, mixture=0.6), RationalQuadratic(length_scale=0.7, mixture=0.8)),
    ],
    ids=repr,
)
def test_features_of_another_kernel_are_noticed(kernel, drawn_for, orthogonal):
    assert worst_in_standard_errors(kernel, drawn_for, orthogonal=orthogonal) > 10.0


def errors(kernel, n_frequencies, n_draws=300, *, orthogonal=False, rows=None):
    rows = points() if rows is None else rows
    drawn = (
        RandomFourier(kernel, n_columns=3, n_frequencies=n_frequencies, orthogonal=orthogonal, seed=seed)
        for seed in range(n_draws)
    )
    return (np.array([approximation.gram(rows) for approximation in drawn]) - kernel.gram(rows)) / kernel.diagonal(rows)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_the_diagonal_is_met_exactly_and_the_error_is_within_its_standard_error(kernel):
    found = errors(kernel, 200)

    np.testing.assert_allclose(np.einsum("snn->sn", found), 0.0, atol=1e-12)
    assert (found**2).mean() < 1.0 / 400


@pytest.mark.parametrize("orthogonal", [False, True])
def test_the_squared_error_falls_with_the_number_of_frequencies(orthogonal):
    few, many = ((errors(KERNELS[0], n, orthogonal=orthogonal) ** 2).mean() for n in (30, 480))

    assert 12.0 < few / many < 21.0  # 16, and the sampling error of 300 draws


@pytest.mark.parametrize("kernel", ROTATIONS, ids=repr)
def test_orthogonal_features_have_a_smaller_error_for_near_points(kernel):
    plain_kernel = kernel
    while isinstance(plain_kernel, Scaled):
        plain_kernel = plain_kernel.kernel
    rows = np.random.default_rng(5).normal(size=(8, 3)) * 0.7 * np.array(plain_kernel.length_scale)

    plain, orthogonal = ((errors(kernel, 30, orthogonal=choice, rows=rows) ** 2).mean() for choice in (False, True))

    assert orthogonal < 0.9 * plain


def test_frequencies_are_orthogonal_in_blocks_and_as_long_as_independent_ones():
    approximation = RandomFourier(Gaussian(length_scale=[0.5, 2.0, 1.0]), n_columns=3, n_frequencies=8, orthogonal=True)

    rows = approximation.waves.frequencies * [0.5, 2.0, 1.0]
    directions = rows / np.linalg.norm(rows, axis=1, keepdims=True)

    for block in (slice(0, 3), slice(3, 6), slice(6, 8)):
        gram = directions[block] @ directions[block].T
        np.testing.assert_allclose(gram, np.eye(len(gram)), atol=1e-12)
    assert not np.isclose(directions[0] @ directions[3], 0.0)


@pytest.mark.parametrize("orthogonal", [False, True])
@pytest.mark.parametrize(
    "kernel", [2.0 * Gaussian(length_scale=0.4), Matern(smoothness=0.5, length_scale=1.0)], ids=repr
)
def test_the_error_is_within_the_bound(kernel, orthogonal):
    rows, bounds, worst = squares(), [], []
    for seed in range(20):
        approximation = RandomFourier(kernel, n_columns=2, n_frequencies=3_000, orthogonal=orthogonal, seed=seed)
        bounds.append(approximation.error_bound(1.0))
        worst.append(np.abs(approximation.gram(rows) - kernel.gram(rows)).max())

    assert np.all(np.array(worst) < bounds)
    assert max(bounds) < 0.4 * kernel.diagonal(rows)[0]
    # A negative control: the worst error is far above that of one pair, which a bound without the union would give.
    assert max(worst) > kernel.diagonal(rows)[0] * np.sqrt(1.0 / 6_000)


def test_the_bound_is_that_of_its_formula():
    approximation = RandomFourier(3.0 * Gaussian(length_scale=[0.5, 2.0]), n_columns=2, n_frequencies=50, seed=4)

    found = approximation.error_bound([1.5, 0.5], failure_probability=0.2)

    speeds = np.abs(approximation.waves.frequencies).mean(axis=0)
    expected = 2.0
    for j in range(1, 50):
        half = np.array([1.5, 0.5]) / 2.0**j
        points_error = np.sqrt(2.0 * log(2.0 * 4.0**j * j * (j + 1) / 0.2) / 50)
        within = half @ speeds + np.sqrt(2.0 - 2.0 * exp(-0.5 * ((half / [0.5, 2.0]) ** 2).sum()))
        expected = min(expected, points_error + within)
    assert found == pytest.approx(3.0 * expected, rel=1e-6)
    assert approximation.error_bound(1e140) == 6.0


def test_equal_seeds_give_equal_features():
    first, second, other = (
        RandomFourier(Matern(smoothness=2.5, length_scale=0.4), n_columns=2, n_frequencies=5, seed=seed)
        for seed in (5, 5, 6)
    )

    np.testing.assert_array_equal(first.features(np.eye(2)), second.features(np.eye(2)))
    assert first == second
    assert first != other
    assert not np.allclose(first.features(np.eye(2)), other.features(np.eye(2)))


MAPS = [
    RandomFourier(Gaussian(length_scale=0.7), n_columns=3, n_frequencies=5, orthogonal=True, seed=1),
    QuadratureFourier(2.0 * Gaussian(length_scale=[3.0, 4.0, 5.0]), extent=[1.0, 2.0, 1.0], accuracy=0.01),
]


@pytest.mark.parametrize("kernel", MAPS, ids=repr)
def test_sparse_rows_have_the_same_features(kernel):
    np.testing.assert_allclose(kernel.features(csr_array(points())), kernel.features(points()))


@pytest.mark.parametrize("kernel", MAPS, ids=repr)
def test_a_pickled_or_saved_map_is_the_same_map(kernel):
    restored = [pickle.loads(pickle.dumps(kernel)), unpack_kernel(*(kernel + 1.0).pack()).parts[0]]

    for other in restored:
        assert other == kernel
        np.testing.assert_array_equal(other.features(points()), kernel.features(points()))


def test_a_saved_map_keeps_its_frequencies_whatever_the_generator_draws():
    parameters, arrays = MAPS[0].pack()

    restored = unpack_kernel(parameters, {"frequencies": arrays["frequencies"] + 1.0})

    np.testing.assert_array_equal(restored.waves.frequencies, MAPS[0].waves.frequencies + 1.0)
    with pytest.raises((DamagedFile, ForeignFile), match="frequencies"):
        unpack_kernel(parameters, {"frequencies": arrays["frequencies"][:-1]})


@pytest.mark.parametrize("kernel", [Linear(), Gaussian(length_scale=1.0) + 1.0, Polynomial(degree=2)], ids=repr)
def test_other_kernels_are_rejected(kernel):
    assert not has_random_features(kernel)
    with pytest.raises(
        NotSupported, match=r"need a kernel with a spectral density .*Gaussian.* got .*posterior='exact'"
    ):
        RandomFourier(kernel, n_columns=3)
    with pytest.raises(NotSupported, match=r"Quadrature features are those of Gaussian.* got .*posterior='exact'"):
        QuadratureFourier(kernel, extent=[1.0])


def test_a_subclass_with_another_formula_has_no_random_features():
    class Own(Gaussian):
        def gram(self, first, second=None):
            return super().gram(first, second) ** 2

    with pytest.raises(NotSupported, match="spectral density"):
        RandomFourier(Own(length_scale=1.0), n_columns=3)
    with pytest.raises(NotSupported, match="those of Gaussian"):
        QuadratureFourier(Own(length_scale=1.0), extent=[1.0])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_columns": 0}, "number of columns"),
        ({"n_columns": 3, "n_frequencies": 0}, "number of frequencies"),
        ({"n_columns": 3, "n_frequencies": 500_001}, "number of frequencies"),
        ({"n_columns": 3, "seed": -1}, "seed"),
        ({"n_columns": 3, "seed": None}, "seed"),
        ({"n_columns": 3, "orthogonal": 1}, "True or False"),
        ({"n_columns": 100_000, "n_frequencies": 1, "orthogonal": True}, "A rotation must be at most"),
        ({"n_columns": 10_000, "n_frequencies": 500_000}, "Random frequencies must be at most"),
    ],
)
def test_bad_arguments_of_random_features_are_rejected(arguments, message):
    with pytest.raises(InvalidParameter, match=message):
        RandomFourier(Gaussian(length_scale=1.0), **arguments)


def test_what_does_not_fit_is_rejected():
    with pytest.raises(NotSupported, match=r"Orthogonal features .*orthogonal=False"):
        RandomFourier(Laplacian(length_scale=1.0), n_columns=3, orthogonal=True)
    with pytest.raises(InvalidContexts, match="2 length scales for 3 columns"):
        RandomFourier(Gaussian(length_scale=[1.0, 2.0]), n_columns=3)
    with pytest.raises(InvalidContexts, match="for 3 columns, and the points have 2"):
        MAPS[0].features(np.eye(2))
    with pytest.raises(InvalidParameter, match="for each of the 3 columns"):
        MAPS[0].error_bound([1.0, 2.0])
    with pytest.raises(InvalidParameter, match="above zero"):
        MAPS[1].error_bound(0.0)


def test_contexts_whose_phases_overflow_are_rejected_before_they_are_learned():
    policy = kb.KernelUCB(RandomFourier(Gaussian(length_scale=0.5), n_columns=2, n_frequencies=5))
    policy.learn(policy.choose(np.eye(2)), 1.0)

    with pytest.raises(InvalidContexts, match="Fourier features of these contexts overflow"):
        policy.posterior.observe([[1e300, -1e300]], [1.0])

    assert policy.posterior.n_observations == 1


# -- quadrature --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kernel", "extent"),
    [
        (Gaussian(length_scale=0.3), [1.0]),
        (5.0 * Gaussian(length_scale=0.05), [1.0]),
        (Gaussian(length_scale=[0.3, 1.0]), [1.0, 2.0]),
        (Gaussian(length_scale=0.3), [1.0, 1.0]),
        (Gaussian(length_scale=0.8), [1.0, 1.0, 1.0]),
    ],
    ids=repr,
)
def test_quadrature_is_accurate_to_rounding(kernel, extent):
    approximation = QuadratureFourier(kernel, extent=extent)
    rows = np.vstack([squares(200, len(extent)), np.zeros(len(extent)), np.ones(len(extent))]) * extent - 7.0
    variance = kernel.diagonal(rows)[0]

    error = np.abs(approximation.gram(rows) - kernel.gram(rows)).max()

    assert error < 1e-12 * variance
    assert approximation.error_bound() <= 1.01e-12 * variance


@pytest.mark.parametrize("n_columns", [1, 2])
@pytest.mark.parametrize("accuracy", [0.5, 1e-2, 1e-4, 1e-8])
def test_quadrature_keeps_its_accuracy_and_wastes_little(accuracy, n_columns):
    kernel = 2.0 * Gaussian(length_scale=0.4)
    approximation = QuadratureFourier(kernel, extent=[1.0] * n_columns, accuracy=accuracy)
    rows = np.vstack([squares(100, n_columns), np.zeros(n_columns), np.ones(n_columns)])

    error = np.abs(approximation.gram(rows) - kernel.gram(rows)).max()

    assert error <= approximation.error_bound() <= 2.0 * accuracy * 1.0001
    assert error > 1e-4 * 2.0 * accuracy


def test_quadrature_error_grows_beyond_its_extent_as_its_bound_says():
    kernel = Gaussian(length_scale=0.4)
    approximation = QuadratureFourier(kernel, extent=[1.0], accuracy=1e-6)

    for reach in (1.3, 2.0, 3.0):
        rows = np.linspace(0.0, reach, 200)[:, None]
        error = np.abs(approximation.gram(rows) - kernel.gram(rows)).max()
        assert 1e-6 < error <= approximation.error_bound(reach)
    n_nodes = approximation.n_nodes[0]
    remainder = exp(lgamma(n_nodes + 1) - lgamma(2 * n_nodes + 1)) * (1.1 / 0.4) ** (2 * n_nodes)
    assert approximation.error_bound([1.1]) == pytest.approx(remainder, rel=1e-6)


@pytest.mark.parametrize("n_columns", [1, 2, 3])
def test_quadrature_is_the_product_of_gauss_hermite_rules(n_columns):
    approximation = QuadratureFourier(Gaussian(length_scale=0.7), extent=[1.0] * n_columns, accuracy=0.05)
    nodes, weights = np.polynomial.hermite.hermgauss(approximation.n_nodes[0])
    first, second = squares(4, n_columns), squares(6, n_columns)[::-1]

    waves = np.cos(np.sqrt(2.0) * nodes * (first[:, None, :, None] - second[None, :, :, None]) / 0.7)
    by_column = (weights / np.sqrt(np.pi) * waves).sum(axis=3)

    np.testing.assert_allclose(approximation.gram(first, second), by_column.prod(axis=2), rtol=1e-12)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"extent": []}, "got none"),
        ({"extent": [1.0, -1.0]}, "above zero"),
        ({"extent": "ab"}, "must be a list|one number"),
        ({"extent": [1.0], "accuracy": 0.0}, "between 1e-13 and 1, got 0.0"),
        ({"extent": [1.0], "accuracy": 1.0}, "between 1e-13 and 1, got 1.0"),
        ({"extent": [1.0], "accuracy": np.nan}, "between 1e-13 and 1, got nan"),
        ({"extent": [1e6]}, "needs more than 1000 nodes"),
        ({"extent": [1.0] * 4}, "too many for a posterior"),
        ({"extent": [10.0] * 40}, "too many for a posterior"),
    ],
)
def test_bad_arguments_of_quadrature_features_are_rejected(arguments, message):
    with pytest.raises(InvalidParameter, match=message):
        QuadratureFourier(Gaussian(length_scale=0.3), **arguments)


# -- posteriors and policies -------------------------------------------------------------------------------------------


def observed(posterior, seed=0):
    rng = np.random.default_rng(seed)
    rows = squares(40)[rng.integers(40, size=120)]
    posterior.observe(rows, np.sin(5.0 * rows[:, 0]) + rng.normal(size=120))
    return posterior


@pytest.mark.parametrize("regularization", [0.1, 1.0, 7.0])
def test_the_posterior_of_quadrature_features_is_the_exact_one(regularization):
    kernel = 2.0 * Gaussian(length_scale=0.4)
    exact = observed(ExactPosterior(kernel, regularization=regularization)).predict(squares(70))

    found = observed(
        PrimalPosterior(QuadratureFourier(kernel, extent=[1.0, 1.0]), regularization=regularization)
    ).predict(squares(70))

    np.testing.assert_allclose(found.mean, exact.mean, atol=1e-9)
    np.testing.assert_allclose(found.width, exact.width, rtol=1e-8)


def test_the_posterior_of_polynomial_features_is_the_exact_one():
    kernel = 0.5 * Polynomial(degree=3, offset=0.7)
    exact = observed(ExactPosterior(kernel, regularization=0.3)).predict(squares(70))

    found = observed(PrimalPosterior(kernel, regularization=0.3)).predict(squares(70))

    np.testing.assert_allclose(found.mean, exact.mean, atol=1e-9)
    np.testing.assert_allclose(found.width, exact.width, rtol=1e-8)


def test_the_posterior_comes_nearer_with_the_number_of_frequencies():
    kernel = Gaussian(length_scale=0.4)
    exact = observed(ExactPosterior(kernel, regularization=0.3)).predict(squares(70))

    def error(n_frequencies):
        found = [
            observed(
                PrimalPosterior(
                    RandomFourier(kernel, n_columns=2, n_frequencies=n_frequencies, seed=seed), regularization=0.3
                )
            ).predict(squares(70))
            for seed in range(20)
        ]
        return np.mean([(one.mean - exact.mean) ** 2 for one in found])

    assert error(400) < error(25) / 6.0


def rounds(n_rounds=60):
    rng = np.random.default_rng(8)
    return rng.uniform(size=(n_rounds, 12, 2)), rng.normal(size=n_rounds)


def play(policy):
    chosen = []
    for contexts, noise in zip(*rounds(), strict=True):
        decision = policy.choose(contexts)
        chosen.append(decision.action)
        policy.learn(decision, float(np.sin(5.0 * contexts[decision.action, 0]) + 0.1 * noise))
    return chosen


def test_a_policy_on_quadrature_features_chooses_what_the_exact_one_does():
    kernel = Gaussian(length_scale=0.4)

    exact = play(kb.KernelUCB(kernel, regularization=0.2))
    additive = Columns(kernel, [0]) + Columns(kernel, [1])

    assert play(kb.KernelUCB(QuadratureFourier(kernel, extent=[1.0, 1.0]), regularization=0.2)) == exact
    by_column = QuadratureFourier(kernel, extent=[1.0])
    on_features = kb.KernelUCB(Columns(by_column, [0]) + Columns(by_column, [1]), regularization=0.2)
    assert play(on_features) == play(kb.KernelUCB(additive, regularization=0.2)) != exact


@pytest.mark.parametrize(
    "kernel",
    [
        RandomFourier(Gaussian(length_scale=0.4), n_columns=2, n_frequencies=10),
        Scaled(QuadratureFourier(Gaussian(length_scale=0.4), extent=[1.0, 1.0], accuracy=0.1), 2.0),
    ],
    ids=repr,
)
@pytest.mark.parametrize("make", [kb.KernelUCB, kb.KernelThompson, kb.KernelSquareCB])
def test_a_policy_on_features_is_saved_and_loaded(make, kernel, tmp_path):
    policy = make(kernel, regularization=0.2)
    play(policy)
    policy.save(tmp_path / "policy.kb")

    loaded = kb.load(tmp_path / "policy.kb")

    contexts = rounds()[0][0]
    assert loaded.kernel == policy.kernel
    assert loaded.posterior.form == "primal"
    np.testing.assert_allclose(loaded.posterior.predict(contexts).width, policy.posterior.predict(contexts).width)
    assert loaded.choose(contexts).action == policy.choose(contexts).action
