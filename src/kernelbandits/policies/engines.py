"""The engines that a policy keeps for the catalogues it is asked about."""

from __future__ import annotations

from weakref import WeakKeyDictionary, ref

import numpy as np

from kernelbandits.posterior import Posterior
from kernelbandits.posterior.base import SMALLEST_REGULARISATION
from kernelbandits.posterior.observations import Observations
from kernelbandits.selection import Catalogue, CatalogueEngine
from kernelbandits.types import Points

__all__ = ["Engines"]


class Engines:
    """One engine a catalogue: derived state, made anew when it is missing, never saved and never copied.

    An engine lives as long as its catalogue does.
    """

    def __init__(self) -> None:
        self._engines: WeakKeyDictionary[Catalogue, CatalogueEngine] = WeakKeyDictionary()
        self._latest: tuple[ref[Catalogue], CatalogueEngine] | None = None

    def __reduce__(self) -> tuple[type[Engines], tuple[()]]:
        """A copy begins without any."""
        return Engines, ()

    def engine(self, catalogue: Catalogue, posterior: Posterior) -> CatalogueEngine | None:
        """The engine for this catalogue, up to date with the posterior; None where brute force has to do.

        It is for posteriors that keep a record, kernels beyond doubt and items that are not too large for the
        regularisation: brute force looks at every width, so it notices similarities that are no kernel or overflow.
        """
        record = getattr(posterior, "record", None)
        if not isinstance(record, Observations) or not posterior.is_sure:
            return None
        latest = self._latest  # mostly it is the same again
        engine = latest[1] if latest and latest[0]() is catalogue else self._engines.get(catalogue)
        if engine is None or len(engine) < catalogue.n_items:
            points = catalogue.points(posterior.kernel.kind)
            if not _fits(posterior, points):
                return None
            if engine is None:
                engine = self._engines[catalogue] = CatalogueEngine(points, posterior.kernel, posterior.regularisation)
            else:
                engine.grow(points)
        if latest is None or latest[1] is not engine:
            self._latest = (ref(catalogue), engine)
        engine.catch_up(record)
        return engine


def _fits(posterior: Posterior, points: Points) -> bool:
    """Whether the widths of these points keep their digits."""
    with np.errstate(over="ignore", invalid="ignore"):
        largest = float(posterior.kernel.diagonal(points).max())
    return SMALLEST_REGULARISATION * largest <= posterior.regularisation  # not for NaN either
