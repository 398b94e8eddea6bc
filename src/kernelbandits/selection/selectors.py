"""Cache of catalog engines per policy, and the choice of a round's selector."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf
from typing import Final, NamedTuple, TypeAlias
from weakref import WeakKeyDictionary, ref

import numpy as np

from kernelbandits.posterior import Pending, Posterior
from kernelbandits.posterior.base import SMALLEST_REGULARIZATION
from kernelbandits.posterior.observations import Observations
from kernelbandits.selection._catalog_loops import loops
from kernelbandits.selection.actions import Actions, CatalogActions
from kernelbandits.selection.box import BoxActions, GradientSearch
from kernelbandits.selection.catalog import Catalog, _Moment
from kernelbandits.selection.catalog_engine import CatalogEngine
from kernelbandits.selection.device_engine import DeviceEngine
from kernelbandits.selection.screening import Screening, screened, tied_in_each
from kernelbandits.selection.selector import Selector
from kernelbandits.selection.ties import TieBreaker, lowered, worst_tied
from kernelbandits.types import Indices, Points, Prediction, Selection, SelectionCost, Vector

__all__ = ["Selectors"]

Engine: TypeAlias = CatalogEngine | DeviceEngine

FIRST_SCORED: Final = 128
"""Items of a catalog that are scored first while decisions are pending: at first, these are mostly the pending ones."""

FEW_ACTIONS: Final = 8
"""Number of actions below which a round is scored exhaustively, in a batch with other rounds."""


class OwnSearch(Selector):
    """Search by the posterior itself, in a finite feature space."""

    def select(self, actions: Actions, exploration: float, break_tie: TieBreaker) -> Selection | None:
        posterior: Posterior = self.posterior
        selection = posterior._best(actions.points, exploration)
        if selection is None or selection.tied is None:
            return selection
        row, propensity = break_tie(selection.tied)
        prediction = posterior._estimate(posterior.kernel.kind.take(actions.points, np.array([row])))
        mean, width = prediction.mean.item(), prediction.width.item()
        return Selection(row, mean, width, mean + exploration * width, propensity, cost=selection.cost)


class PendingSearch(Selector):
    """Search of a catalog while decisions are pending.

    These only reduce widths, so the scores without them, which the engine of the catalog knows, are upper bounds. Items
    are scored in batches, those with the largest bounds first, until no bound of the others reaches the best score.
    """

    def __init__(self, engine: Engine, posterior: Posterior, waiting: Pending, *, n_first: int = FIRST_SCORED) -> None:
        super().__init__()
        self.posterior = posterior
        self._engine, self._waiting, self._n_first = engine, waiting, n_first

    def log_det_gain(self) -> float | None:
        return self._engine.log_det_gain()

    def select(self, actions: Actions, exploration: float, break_tie: TieBreaker) -> Selection | None:
        if not isinstance(actions, CatalogActions) or not exploration >= 0.0:
            return None
        # Another thread may have added items to the catalog since this round began.
        rows = actions.view.rows if self._engine.n_items > actions.n_rows else actions.rows
        bounds = self._engine.estimate(rows).upper(exploration)
        found: list[tuple[Indices, Prediction]] = []
        best, n_scored, left, n_next = -inf, 0, np.arange(len(bounds)), self._n_first
        while left.size:
            first = left if left.size <= n_next else left[np.argpartition(bounds[left], -n_next)[-n_next:]]
            places = np.sort(first)
            prediction = self._waiting.estimate(actions.at(places, self.posterior.kernel.kind).points)
            found.append((places, prediction))
            best, n_scored = max(best, float(prediction.upper(exploration).max())), n_scored + len(places)
            bounds[places] = -inf
            left, n_next = np.flatnonzero(bounds >= lowered(best)), 2 * n_next
        tied = np.sort(
            np.concatenate([places[prediction.upper(exploration) >= worst_tied(best)] for places, prediction in found])
        )
        if not tied.size:  # a score that is not a number
            return None
        row, propensity = break_tie(tied)
        places, prediction = next(part for part in found if row in part[0])
        at = int(np.searchsorted(places, row))
        mean, width = prediction.mean.item(at), prediction.width.item(at)
        cost = SelectionCost("pending search", len(bounds), n_scored, n_scored, len(bounds))
        return Selection(row, mean, width, mean + exploration * width, propensity, cost=cost)


class Selectors:
    """Selectors of a policy: one engine per catalog, and screening for all other actions.

    An engine is cached as long as its catalog exists and the engines used after it take at most `most_bytes`. An engine
    in which a query or an update did not complete, because of an interrupt or an error, is never used again.
    """

    most_bytes: int = 1_000_000_000
    """Largest memory of the cached engines besides the one used last."""

    def __init__(self) -> None:
        self._stored: WeakKeyDictionary[Catalog, _Stored] = WeakKeyDictionary()  # most recently used last
        self._latest: tuple[ref[Catalog], Engine] | None = None
        self.screening = Screening()
        self._own_search = OwnSearch()

    def __reduce__(self) -> tuple[type[Selectors], tuple[()]]:
        """Copy as an empty cache."""
        return Selectors, ()

    def of(self, posterior: Posterior, actions: Actions, waiting: Pending | None = None) -> Selector | None:
        """Pick the selector for these actions; no other component picks one. None: all actions must be scored."""
        if isinstance(actions, BoxActions):
            return GradientSearch(posterior, waiting)
        if actions.catalog is not None and actions.context is None:
            engine = self.engine(actions.catalog, posterior, actions._moment)
            if engine is not None:
                return engine if waiting is None else PendingSearch(engine, posterior, waiting)
        if waiting is not None:
            return None
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

    def are_selective(self, posterior: Posterior, rounds: Sequence[Actions], *, uses_search: bool) -> Iterator[bool]:
        """Per round, whether it is better queried separately, because few of its widths will be computed."""
        for actions in rounds:
            if isinstance(actions, CatalogActions | BoxActions):
                yield True
            else:
                is_searched = uses_search and actions.n_actions >= FEW_ACTIONS
                yield is_searched and (
                    posterior.supports_batch_play or screened(posterior, actions.n_actions) is not None
                )

    def tied_in_each(
        self, posterior: Posterior, rounds: Sequence[Actions], exploration: Vector
    ) -> list[Indices] | None:
        """Rows tied for the best score of each round, searched together; None if all actions must be scored."""
        exact = screened(posterior, len(rounds))
        if exact is None:
            return None
        points = posterior.kernel.kind.stack(*(actions.points for actions in rounds))
        return tied_in_each(exact, points, np.array([actions.n_actions for actions in rounds]), exploration)

    def __len__(self) -> int:
        return len(self._stored)

    def engine(self, catalog: Catalog, posterior: Posterior, moment: _Moment | None = None) -> Engine | None:
        """Engine for this catalog, synchronized with the posterior; None if exhaustive scoring is required.

        It covers the items of a snapshot (None: the current one) and possibly items added since. An earlier snapshot
        whose items were removed since has no engine.

        Requires a posterior with a record, a PSD-certified kernel, and items that are not too large for the
        regularization: exhaustive scoring computes every width, so it detects indefinite similarities and overflow.
        """
        if posterior.changes_form:
            posterior = posterior._current_form()
        if not posterior.capabilities.has_record or posterior.n_merged or not posterior.is_well_posed:
            return None
        record: Observations = posterior.record  # type: ignore[attr-defined]  # by the capability
        if not (loops.is_compiled or _is_on_device(posterior)):
            loops.record_work(catalog.n_items * (1 + record.size))
            return None
        latest = self._latest  # usually the same as before
        is_latest = latest is not None and latest[0]() is catalog and latest[1].is_finished
        engine = latest[1] if is_latest and latest is not None else self._of(catalog)
        now = catalog._now if moment is None else moment
        if engine is None or engine.n_items < now.n_items or engine.generation is not now.generation:
            if engine is not None and engine.generation.number > now.generation.number:
                return None
            points = now.points(posterior.kernel.kind)
            if not _fits(posterior, points):
                return None
            if engine is None or not engine.follow(now.generation, points):
                engine, is_latest = _new_engine(posterior, points), False
                engine.generation = now.generation
            engine.grow(points)
        if not is_latest:
            self._use(catalog, engine)
        engine.synchronize(record)
        return engine

    def _of(self, catalog: Catalog) -> Engine | None:
        """Cached engine of a catalog, unless an update of it is incomplete."""
        stored = self._stored.get(catalog)
        return stored.engine if stored is not None and stored.engine.is_finished else None

    def _use(self, catalog: Catalog, engine: Engine) -> None:
        """Mark an engine as used last, and drop the least recently used ones that exceed the memory limit."""
        before, self._latest = self._latest, None
        last = None if before is None else before[0]()
        if before is not None and last is not None and last in self._stored:
            self._stored[last] = _Stored(before[1], before[1].n_bytes)  # it may have grown since
        self._stored.pop(catalog, None)
        n_bytes = sum(stored.n_bytes for stored in self._stored.values())
        while n_bytes > self.most_bytes:
            oldest = next(iter(self._stored))
            n_bytes -= self._stored.pop(oldest).n_bytes
        self._stored[catalog] = _Stored(engine, 0)
        self._latest = (ref(catalog), engine)


def _is_on_device(posterior: Posterior) -> bool:
    return posterior.capabilities.array_library != "numpy"


def _new_engine(posterior: Posterior, points: Points) -> Engine:
    if not _is_on_device(posterior):
        return CatalogEngine(points, posterior.kernel, posterior.regularization)
    device = posterior.arrays  # type: ignore[attr-defined]  # by the capability
    return DeviceEngine(points, posterior.kernel, posterior.regularization, device)


class _Stored(NamedTuple):
    """Cached engine, with its memory in bytes when another engine was used after it."""

    engine: Engine
    n_bytes: int


def _fits(posterior: Posterior, points: Points) -> bool:
    """Whether the widths of these points are accurate at this regularization."""
    with np.errstate(over="ignore", invalid="ignore"):
        largest = float(posterior.kernel.diagonal(points).max())
    return SMALLEST_REGULARIZATION * largest <= posterior.regularization  # False for NaN, too
