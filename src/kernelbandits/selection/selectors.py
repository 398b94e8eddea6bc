"""Cache of catalog engines per policy, and the choice of a round's selector."""

from __future__ import annotations

from typing import Final, NamedTuple
from weakref import WeakKeyDictionary, ref

import numpy as np

from kernelbandits.posterior import Posterior
from kernelbandits.posterior.base import SMALLEST_REGULARIZATION
from kernelbandits.posterior.observations import Observations
from kernelbandits.selection._catalog_loops import loops
from kernelbandits.selection.actions import Actions
from kernelbandits.selection.catalog import Catalog
from kernelbandits.selection.catalog_engine import CatalogEngine
from kernelbandits.selection.screening import Screening, screened
from kernelbandits.selection.selector import Selector
from kernelbandits.types import Points, Selection

__all__ = ["Selectors"]

MOST_BYTES: Final = 1_000_000_000
"""Largest memory in bytes of the engines that a policy caches besides the one used last."""


class OwnSearch(Selector):
    """Search by the posterior itself, in a finite feature space."""

    def select(self, actions: Actions, exploration: float) -> Selection | None:
        selection: Selection | None = self.posterior._best(actions.points, exploration)
        return selection

    def take(self, actions: Actions, row: int) -> tuple[float, float]:
        posterior: Posterior = self.posterior
        prediction = posterior._estimate(posterior.kernel.kind.take(actions.points, np.array([row])))
        return prediction.mean.item(), prediction.width.item()


class Selectors:
    """Selectors of a policy: one engine per catalog, and screening for all other actions.

    An engine is cached as long as its catalog exists and the engines used after it take at most `MOST_BYTES`. An engine
    in which a query or an update did not complete, because of an interrupt or an error, is never used again.
    """

    def __init__(self) -> None:
        self._kept: WeakKeyDictionary[Catalog, _Kept] = WeakKeyDictionary()  # most recently used last
        self._latest: tuple[ref[Catalog], CatalogEngine] | None = None
        self.screening = Screening()
        self._own_search = OwnSearch()

    def __reduce__(self) -> tuple[type[Selectors], tuple[()]]:
        """Copy as an empty cache."""
        return Selectors, ()

    def of(self, posterior: Posterior, actions: Actions) -> Selector | None:
        """Pick the selector for these actions; no other component picks one. None: all actions must be scored."""
        if actions.catalog is not None and actions.context is None:
            engine = self.engine(actions.catalog, posterior)
            if engine is not None:
                return engine
        if posterior.changes_form:
            posterior = posterior._current_form(actions.points)
        selector: Selector
        if posterior.capabilities.finds_best:
            selector = self._own_search
        elif screened(posterior, actions.n_actions) is not None:
            selector = self.screening
            if not selector.is_finished:
                selector = self.screening = Screening()
        else:
            return None
        selector.posterior = posterior
        return selector

    def __len__(self) -> int:
        return len(self._kept)

    def engine(self, catalog: Catalog, posterior: Posterior) -> CatalogEngine | None:
        """Engine for this catalog, synchronized with the posterior; None if exhaustive scoring is required.

        Requires a posterior with a record, a PSD-certified kernel, and items that are not too large for the
        regularization: exhaustive scoring computes every width, so it detects indefinite similarities and overflow.
        """
        if posterior.changes_form:
            posterior = posterior._current_form()
        if not posterior.capabilities.has_record or posterior.n_merged or not posterior.is_well_posed:
            return None
        record: Observations = posterior.record  # type: ignore[attr-defined]  # by the capability
        if not loops.is_compiled:
            loops.record_work(catalog.n_items * (1 + record.size))
            return None
        latest = self._latest  # usually the same as before
        is_latest = latest is not None and latest[0]() is catalog and latest[1].is_finished
        engine = latest[1] if is_latest and latest is not None else self._of(catalog)
        if engine is None or engine.n_items < catalog.n_items:
            points = catalog.points(posterior.kernel.kind)
            if not _fits(posterior, points):
                return None
            if engine is None:
                engine = CatalogEngine(points, posterior.kernel, posterior.regularization)
            else:
                engine.grow(points)
        if not is_latest:
            self._use(catalog, engine)
        engine.synchronize(record)
        return engine

    def _of(self, catalog: Catalog) -> CatalogEngine | None:
        """Cached engine of a catalog, unless an update of it is incomplete."""
        kept = self._kept.get(catalog)
        return kept.engine if kept is not None and kept.engine.is_finished else None

    def _use(self, catalog: Catalog, engine: CatalogEngine) -> None:
        """Mark an engine as used last, and drop the least recently used ones that exceed the memory limit."""
        before, self._latest = self._latest, None
        last = None if before is None else before[0]()
        if before is not None and last is not None and last in self._kept:
            self._kept[last] = _Kept(before[1], before[1].n_bytes)  # it may have grown since
        self._kept.pop(catalog, None)
        n_bytes = sum(kept.n_bytes for kept in self._kept.values())
        while n_bytes > MOST_BYTES:
            oldest = next(iter(self._kept))
            n_bytes -= self._kept.pop(oldest).n_bytes
        self._kept[catalog] = _Kept(engine, 0)
        self._latest = (ref(catalog), engine)


class _Kept(NamedTuple):
    """Cached engine, with its memory in bytes when another engine was used after it."""

    engine: CatalogEngine
    n_bytes: int


def _fits(posterior: Posterior, points: Points) -> bool:
    """Whether the widths of these points are accurate at this regularization."""
    with np.errstate(over="ignore", invalid="ignore"):
        largest = float(posterior.kernel.diagonal(points).max())
    return SMALLEST_REGULARIZATION * largest <= posterior.regularization  # False for NaN, too
