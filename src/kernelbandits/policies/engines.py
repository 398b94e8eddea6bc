"""The engines that a policy keeps for the catalogues it is asked about."""

from __future__ import annotations

from weakref import WeakKeyDictionary, ref

from kernelbandits.posterior import Posterior
from kernelbandits.posterior.observations import Observations
from kernelbandits.selection import Catalogue, CatalogueEngine

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

        It is for posteriors that keep a record and kernels beyond doubt: brute force looks at every width, so it
        notices similarities that are no kernel.
        """
        record = getattr(posterior, "record", None)
        if not isinstance(record, Observations):
            return None
        latest = self._latest  # mostly it is the same again
        engine = latest[1] if latest and latest[0]() is catalogue else self._engines.get(catalogue)
        if engine is None:
            if not posterior.kernel.is_certified:
                return None
            points = catalogue.points(posterior.kernel.kind)
            engine = CatalogueEngine(points, posterior.kernel, posterior.regularisation)
            self._engines[catalogue] = engine
        elif len(engine) < catalogue.n_items:
            engine.grow(catalogue.points(posterior.kernel.kind))
        if latest is None or latest[1] is not engine:
            self._latest = (ref(catalogue), engine)
        engine.catch_up(record)
        return engine
