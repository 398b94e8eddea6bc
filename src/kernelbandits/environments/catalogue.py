"""Regression as a bandit: a large set of items that never changes, each with a value to find out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from kernelbandits.checks import a_vector, not_negative
from kernelbandits.environments.action_rows import place_of
from kernelbandits.environments.base import Round
from kernelbandits.environments.catalogue_sources import CatalogueSources
from kernelbandits.environments.items import Items, described_numbers
from kernelbandits.errors import DecisionError, InvalidParameter
from kernelbandits.selection import Catalogue
from kernelbandits.types import ItemId, Parameters, Points, Vector

__all__ = ["CatalogueWorld", "FixedCatalogue"]


@dataclass(frozen=True, eq=False)
class FixedCatalogue(CatalogueSources):
    """The same items in every round, each with an expected reward of its own: value + noise.

    Every round shows one and the same `Catalogue`, so that policies keep what they computed for it. The noise of a
    round is drawn once for all items, N(0, noise_scale²), whatever is chosen: a reward is right on average, rewards of
    different rounds are independent, and two policies meet the same luck; a noise for each of a hundred thousand items
    would cost more than the choice.

    Parameters
    ----------
    items
        A `Catalogue`, or the items to make one of: rows, strings, whatever the kernels of the policies take.
    values
        Expected reward of each item.
    ids
        Names of the items, each once. None: they go by their rows. A catalogue brings its own.
    noise_scale
        Standard deviation of the noise.

    Examples
    --------
    >>> environment = FixedCatalogue([[0.0], [0.5], [1.0]], [0.1, 0.7, 0.4], noise_scale=0.05)
    >>> world = environment.start(np.random.default_rng(3))
    >>> shown = world.show()
    >>> len(shown.contexts), shown.expected
    (3, array([0.1, 0.7, 0.4]))
    >>> abs(world.pay(1) - 0.7) < 0.2
    True

    References
    ----------
    Calandriello, Carratino, Lazaric, Valko and Rosasco (2020), BBKB, for regression data as a fixed set of actions.
    """

    items: Catalogue | Points
    values: ArrayLike
    _: KW_ONLY
    ids: Sequence[ItemId] | None = None
    noise_scale: float = 0.1
    catalogue: Catalogue = field(init=False, repr=False)
    """What every round shows."""

    _described: Parameters = field(init=False, repr=False)

    def __post_init__(self) -> None:
        catalogue = self._catalogue()
        values = a_vector(self.values, "The values of items")
        if len(values) != len(catalogue):
            raise InvalidParameter(f"There has to be one value an item: {len(catalogue)} items, {len(values)} values.")
        values.setflags(write=False)
        object.__setattr__(self, "noise_scale", not_negative(self.noise_scale, "The noise scale"))
        points = Items.of(catalogue.points(catalogue.kind) if catalogue is self.items else self.items)
        names = None if catalogue.ids is None else Items.of(catalogue.ids).describe()
        described = {"items": points.describe(), "ids": names, "values": described_numbers(values)}
        items = catalogue if catalogue is self.items else points.points
        own = {"items": items, "values": values, "catalogue": catalogue, "_described": described}
        for name, value in own.items():
            object.__setattr__(self, name, value)

    @property
    def reward_range(self) -> tuple[float, float] | None:
        """Lowest and highest value without noise; Gaussian noise knows no bounds."""
        values: Vector = np.asarray(self.values)
        return None if self.noise_scale > 0.0 else (float(values.min()), float(values.max()))

    def start(self, rng: np.random.Generator) -> CatalogueWorld:
        """Begin a run; only its noise is drawn."""
        values: Vector = np.asarray(self.values)
        if len(self.catalogue) != len(values):
            raise InvalidParameter(
                f"The catalogue has grown to {len(self.catalogue)} items since this environment was made for "
                f"{len(values)}. Make a new one, with a value for each item."
            )
        return CatalogueWorld(Round(self.catalogue, expected=values), self.noise_scale, rng)

    def describe(self) -> Parameters:
        """Class and parameters as plain values, the data as digests."""
        return {"class": type(self).__name__, **self._described, "noise_scale": self.noise_scale}

    def _catalogue(self) -> Catalogue:
        if not isinstance(self.items, Catalogue):
            return Catalogue(self.items, ids=self.ids)
        if self.ids is not None:
            raise InvalidParameter("A catalogue has its own ids, so none can be given beside it. Leave `ids` out.")
        return self.items


class CatalogueWorld:
    """One run of `FixedCatalogue`: the same round again and again, with a noise of its own each time."""

    def __init__(self, shown: Round, noise_scale: float, rng: np.random.Generator) -> None:
        self._shown, self._noise_scale, self._rng = shown, noise_scale, rng
        self._noise: float | None = None

    def show(self) -> Round:
        """Show the items, and draw the noise of this round."""
        self._noise = self._noise_scale * float(self._rng.standard_normal())
        return self._shown

    def pay(self, action: int) -> float:
        """Value of that item, with the noise of the round last shown."""
        if self._noise is None:
            raise DecisionError("No round has been shown yet, so there is nothing to pay for. Call show() first.")
        values = self._shown.expected
        assert values is not None
        return float(values[place_of(self._shown.contexts, action)] + self._noise)
