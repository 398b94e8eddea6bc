"""A matrix below C: the bound on widths that it gives."""

import numpy as np
import pytest

from kernelbandits.posterior.minorant import minorant_of


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
    asked = np.vstack([rng.normal(size=(300, 7)), rows, np.eye(7), np.linalg.eigh(precision)[1].T])
    squared = np.einsum("nd,nd->n", asked @ np.linalg.inv(precision), asked)
    above = bound.flat * np.square(asked).sum(axis=1) - bound.peak * (asked @ bound.direction) ** 2
    assert (above >= squared * (1.0 - 1e-9)).all()


def test_it_is_tight_along_its_direction():
    rng = np.random.default_rng(1)
    rows = rng.uniform(size=(400, 5))
    precision = np.eye(5) + rows.T @ rows
    bound = minorant_of(precision, 1.0)
    along = bound.flat - bound.peak
    assert along == pytest.approx(bound.direction @ np.linalg.inv(precision) @ bound.direction, rel=1e-4)
