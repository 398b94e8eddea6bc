"""A matrix below C: the bound on widths that it gives."""

from fractions import Fraction

import numpy as np
import pytest

from kernelbandits.posterior.primal import minorant_of


@pytest.mark.parametrize("shape", ["isotropic", "one direction", "mixed scales", "few", "repeated"])
@pytest.mark.parametrize("gamma", [1e-6, 0.3, 20.0])
def test_it_bounds_every_width(shape, gamma):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(200, 7))
    if shape == "one direction":
        rows = 0.01 * rows + 5.0
    elif shape == "mixed scales":
        rows *= 10.0 ** np.arange(-3, 4)
    elif shape == "few":
        rows = rows[:2]
    elif shape == "repeated":
        rows = np.ones((500, 7))
    precision = gamma * np.eye(7) + rows.T @ rows
    bound = minorant_of(precision, gamma)
    queries = np.vstack([rng.normal(size=(300, 7)), rows, np.eye(7), np.linalg.eigh(precision)[1].T])
    squared = np.einsum("nd,nd->n", queries @ np.linalg.inv(precision), queries)
    above = bound.flat * np.square(queries).sum(axis=1) - bound.peak * (queries @ bound.direction) ** 2
    assert (above >= squared * (1.0 - 1e-9)).all()


def test_it_is_tight_along_its_direction():
    rng = np.random.default_rng(1)
    rows = rng.uniform(size=(400, 5))
    precision = np.eye(5) + rows.T @ rows
    bound = minorant_of(precision, 1.0)
    along = bound.flat - bound.peak
    assert along == pytest.approx(bound.direction @ np.linalg.inv(precision) @ bound.direction, rel=1e-4)


@pytest.mark.parametrize("n_off", [-4, 0, 4])
def test_a_direction_that_is_not_quite_of_length_one_bounds_too(n_off):
    gamma, n_rows, n_features = 1e-6, 500, 7  # C = γI + 500 · 11ᵀ, whose inverse is known in fractions
    bound = minorant_of(gamma * np.eye(n_features) + n_rows, gamma)
    direction = [Fraction(float(part)) for part in bound.direction * (1.0 + n_off * np.finfo(float).eps)]

    along = sum(direction)
    above = n_features * Fraction(bound.flat) - Fraction(bound.peak) * along**2

    exact = (n_features - Fraction(n_rows * n_features**2) / (Fraction(gamma) + n_rows * n_features)) / Fraction(gamma)
    assert exact <= above <= exact * Fraction(1.01)


def test_the_smallest_eigenvalue_of_a_huge_matrix_is_not_believed():
    """Beside 1e12 it is rounding, far above γ; along a direction that no row has, width² is ‖φ‖²/γ exactly."""
    gamma, unseen, n_above = 1e-6, np.array([1.0, 1.0, -2.0]), 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        directions = np.array([[1, 1, 1], [1, -1, 0]])
        rows = 1e5 * rng.integers(1, 9, size=(40, 1)) * directions[rng.integers(2, size=40)]
        precision = gamma * np.eye(3) + rows.T @ rows
        assert np.all(rows @ unseen == 0.0)

        bound = minorant_of(precision, gamma)

        along = sum(Fraction(float(part)) * Fraction(float(q)) for part, q in zip(unseen, bound.direction, strict=True))
        assert 6 * Fraction(bound.flat) - Fraction(bound.peak) * along**2 >= 6 / Fraction(gamma)
        n_above += np.linalg.eigvalsh(precision)[0] > 2 * gamma
    assert n_above > 5  # it would have been believed
