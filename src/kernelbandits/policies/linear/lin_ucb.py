"""LinUCB."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Literal

from kernelbandits.checks import MOST_IN_MEMORY, a_count, a_list, is_one_of, shown
from kernelbandits.errors import InvalidParameter
from kernelbandits.kernels import Ids, LabelledLinear, Linear, Rows
from kernelbandits.kernels.pairs import PairRows
from kernelbandits.policies.action_set import one_id_per_action
from kernelbandits.policies.ties import Ties
from kernelbandits.policies.upper_confidence import UpperConfidencePolicy
from kernelbandits.posterior import PerActionPosterior, Posterior, PrimalPosterior
from kernelbandits.selection import CatalogueView
from kernelbandits.theory.widths import Exploration, as_exploration
from kernelbandits.types import Decision, ItemId, Parameters, Point, Points, Seed

__all__ = ["LinUCB"]


KEPT: Final = 100_000
"""Contexts that are kept, so that their rewards can be amended, unlearnt and explained."""


class LinUCB(UpperConfidencePolicy):
    """Ridge regression on features, highest mean + exploration · width (Li et al. 2010).

    shared: one weight vector for all actions; KernelUCB with the linear kernel. disjoint: a weight vector per action.
    hybrid: the shared columns have one weight vector for all, the other columns one per action. For the last two,
    `ids` (or the row numbers, where there are none) say which action is which. A round costs the same however much was
    learnt: O(N d² + d³) shared, O(N d³) otherwise. The last 100,000 distinct contexts are kept, so that their rewards
    can be amended, unlearnt and explained; of older ones only sums, in which every reward goes on to count.

    Parameters
    ----------
    model
        "shared", "disjoint" or "hybrid".
    shared_columns
        hybrid only: columns whose weights all actions share. A column that should count both ways is given twice.
    regularisation, exploration, reward_range, ties, seed
        As in KernelUCB. Li et al. suggest exploration 1 + sqrt(ln(2/δ)/2); 0.1 to 2 is usual.

    Examples
    --------
    >>> import numpy as np
    >>> policy = LinUCB(regularisation=1.0, exploration=0.5)
    >>> contexts = np.array([[1.0, 0.0], [0.0, 2.0]])
    >>> decision = policy.choose(contexts)
    >>> decision.action
    1
    >>> policy.learn(decision, reward=-1.0)
    >>> policy.choose(contexts).action
    0
    """

    def __init__(
        self,
        *,
        model: Literal["shared", "disjoint", "hybrid"] = "shared",
        shared_columns: Sequence[int] | None = None,
        regularisation: float = 1.0,
        exploration: float | Exploration = 1.0,
        reward_range: tuple[float, float] | None = None,
        ties: Ties = "lowest",
        seed: Seed = None,
    ) -> None:
        if not is_one_of(model, ("shared", "disjoint", "hybrid")):
            raise InvalidParameter(f"The model has to be 'shared', 'disjoint' or 'hybrid', got {shown(model)}.")
        if shared_columns is not None and not isinstance(shared_columns, Iterable):
            raise InvalidParameter(f"`shared_columns` is a list of column numbers, got {shown(shared_columns)}.")
        listed = [] if shared_columns is None else a_list(shared_columns, "`shared_columns`")
        columns = [a_count(column, "A shared column", least=0, most=MOST_IN_MEMORY) for column in listed]
        if (model == "hybrid") != bool(columns):
            raise InvalidParameter(
                f"`shared_columns` names the columns that a hybrid model shares, and only there; got model={model!r}, "
                f"shared_columns={shown(shared_columns)}."
            )
        posterior: Posterior
        if model == "shared":
            posterior = PrimalPosterior(Linear(), regularisation=regularisation, keep=KEPT)
        else:
            posterior = PerActionPosterior(LabelledLinear(tuple(columns)), regularisation=regularisation, keep=KEPT)
        super().__init__(posterior, as_exploration(exploration), reward_range=reward_range, ties=ties, seed=seed)
        self._model = model
        self._has_plain_rows = model == "shared"
        self._uses_engines = model == "shared"  # labels are no part of a catalogue's items
        self._shared_columns = columns or None

    def _points(self, contexts: Points, ids: Sequence[ItemId] | None) -> Points:
        if self._model == "shared":
            return super()._points(contexts, ids)
        rows = Rows().check(contexts)
        n_actions = Rows().count(rows)
        labels = list(range(n_actions)) if ids is None else list(ids)
        one_id_per_action(labels, n_actions)
        return PairRows(labels, rows, is_shared=False)

    def _catalogue_points(self, view: CatalogueView) -> Points:
        if self._model == "shared":
            return super()._catalogue_points(view)
        return PairRows(list(view.ids), view.points(Rows()), is_shared=False)

    def _context(self, points: Points, row: int) -> Point:
        return super()._context(points, row) if self._model == "shared" else Rows().one(points.actions, row)

    def _point(self, decision: Decision) -> Points:
        if self._model == "shared":
            return super()._point(decision)
        return PairRows([Ids().check_one(decision.item)], Rows().single(decision.context), is_shared=False)

    def _parameters(self) -> Parameters:
        return {
            "model": self._model,
            "shared_columns": self._shared_columns,
            "regularisation": self.posterior.regularisation,
            "exploration": self.exploration.describe(),
            "reward_range": self.reward_range,
            "ties": self._ties,
        }
