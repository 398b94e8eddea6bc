"""Core value types."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, make_dataclass
from functools import partial
from math import inf, isnan, nan, prod, sqrt
from typing import Any, Final, Literal, NamedTuple, TypeAlias, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelbandits._sparse import sound
from kernelbandits._text import html_table, listed_briefly, repr_of_fields, short_repr
from kernelbandits.errors import CannotSave, DecisionError

__all__ = [
    "TIE_SLACK",
    "TIE_TOLERANCE",
    "Certificate",
    "Decision",
    "Indices",
    "ItemId",
    "Matrix",
    "Pairs",
    "Parameters",
    "Plays",
    "Point",
    "Points",
    "Prediction",
    "Seed",
    "Selection",
    "SelectionCost",
    "Slate",
    "StageStep",
    "Vector",
    "WithCosts",
]

Vector: TypeAlias = NDArray[np.float64]
"""Array of numbers with one axis."""

Matrix: TypeAlias = NDArray[np.float64]
"""Array of numbers with two axes."""

Indices: TypeAlias = NDArray[np.intp]
"""Array of row indices."""

Point: TypeAlias = Any
"""One point of a kernel: a row, a string, a set, an id, a pair, an object. Its meaning is known to the kernel only."""

Points: TypeAlias = Any
"""A collection of points: rows, sparse rows, strings, ids, pairs."""

ItemId: TypeAlias = int | str
"""Id of an action."""

Seed: TypeAlias = int | np.random.SeedSequence | np.random.Generator | None
"""What random numbers start from; None: unpredictable numbers of the operating system."""

Parameters: TypeAlias = dict[str, Any]
"""Plain values by name, as returned by `describe()`."""

TIE_TOLERANCE: Final = 1e-10
"""Relative tolerance of ties: scores within this times max(1, |best|) of the best are tied. It exceeds the rounding
by which the equivalent forms of the estimator differ at ordinary regularization, and is below any meaningful
difference."""

TIE_SLACK: Final = 1e-12
"""Fraction of a score, far above its rounding error, by which a threshold for scores tied with it is lowered."""

SMALLEST_PROPENSITY: Final = 1e-12
"""Smallest valid propensity of a decision: a smaller one would take 10¹² draws."""

EMPTY: Final[Mapping[str, Any]] = {}

MOST_ROWS: Final = 20
"""Places of a slate that a notebook shows."""

MOST_COLUMNS: Final = 2**62
"""Largest number of columns of sparse rows; an index of one more still fits into 64 bits."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Pairs:
    """One shared context joined with many actions: points of pair kernels, never expanded to rows."""

    __repr__ = repr_of_fields

    context: Point
    """The context that all actions share."""

    actions: Points
    """The actions, one point each."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class WithCosts:
    """The actions of a round with the cost of each, in the order of `ids` and `eligible`; `Paced` chooses from them."""

    __repr__ = repr_of_fields

    contexts: Points
    """The actions of the round."""

    costs: ArrayLike
    """Cost of each."""


class SelectionCost(NamedTuple):
    """Work done to find an action: for documentation and tests, never needed to use the library."""

    engine: str
    """Name of the algorithm used."""

    n_actions: int
    """Number of eligible actions."""

    means_computed: int
    """Number of actions whose mean was updated since the previous choice."""

    widths_computed: int
    """Number of actions whose width was updated since the previous choice."""

    bounds_scanned: int
    """Number of upper bounds read instead; 0 for an engine that updates everything."""


new_cost: Final[Callable[[tuple[str, int, int, int, int]], SelectionCost]] = partial(tuple.__new__, SelectionCost)
"""Constructor of a cost from its fields in order, at a third of the cost of the class."""


class Selection(NamedTuple):
    """The selected action, its estimate, and the cost of finding it."""

    row: int
    """Row among the searched points, the lowest of the tied ones."""

    mean: float = nan
    """Estimated reward."""

    width: float = nan
    """Confidence width of the mean."""

    score: float = nan
    """Score by which the row was selected."""

    propensity: float = 1.0
    """Probability of this row."""

    stage: int | None = None
    """SupKernelUCB level that learns from it; None if none does."""

    memo: Mapping[str, Any] = EMPTY
    """Arrays needed for learning."""

    cost: SelectionCost | None = None
    """Work done to find it."""

    tied: Indices | None = None
    """All rows tied for the best score, lowest first; None if it is unique or the tie is already broken."""

    error: float = 0.0
    """Certified bound on the difference between this score and the exact one; 0 if it is exact."""


new_selection: Final[Callable[[tuple[Any, ...]], Selection]] = partial(tuple.__new__, Selection)
"""Constructor of a selection from all ten fields in order, at a third of the cost of the class."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Decision:
    """One action chosen in one round, with all data needed for learning, audit and off-policy evaluation."""

    __repr__ = repr_of_fields

    action: int
    """Chosen row of the contexts."""

    context: Point
    """Copy of that row, so that learning does not need the round it came from."""

    mean: float = nan
    """Estimated reward; nan if the policy has no such estimate (the same for `width` and `score`)."""

    width: float = nan
    """Confidence width of the mean; includes γ^(-1/2) and is never a variance."""

    score: float = nan
    """Score by which the chosen action was ranked."""

    propensity: float = 1.0
    """Probability of this action, 1.0 for a deterministic rule; in a slate, given those above it. Nan if the actions
    were a box: a point of it has at most a density."""

    stage: int | None = None
    """SupKernelUCB level that learns from this decision; None if none does."""

    item: ItemId | None = None
    """Id of the chosen row, or the row itself if there were no ids."""

    n_actions: int = 0
    """Number of eligible actions of the round; 0 if they were a box."""

    round_index: int = 0
    """Index of the round, from 1."""

    id: str = ""
    """Unique id; empty only if the decision was built by hand."""

    policy: str = ""
    """Fingerprint of the policy's configuration."""

    memo: Mapping[str, Any] = field(default_factory=dict)
    """Further arrays by name that the policy's `learn` needs."""

    cost: SelectionCost | None = None
    """Cost of finding this action, if the policy reports it; not part of `to_dict`."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON or a table row."""
        values = {part.name: getattr(self, part.name) for part in fields(self) if part.name != "cost"}
        for name in ("mean", "width", "score", "propensity"):
            values[name] = None if isnan(values[name]) else float(values[name])
        values["context"] = _to_plain(self.context)
        values["memo"] = {name: np.asarray(array).tolist() for name, array in self.memo.items()}
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Decision:
        """Inverse of `to_dict`; raises DecisionError for anything else.

        >>> decision = Decision(action=2, context=np.array([0.5, 1.0]), mean=0.25)
        >>> Decision.from_dict(decision.to_dict()).context
        array([0.5, 1. ])
        """
        if not isinstance(values, Mapping):
            raise DecisionError(f"These values are not a decision as `to_dict` gives it: {type(values).__name__}.")
        try:
            known = dict(values)
            for name in ("mean", "width", "score", "propensity"):
                if name in known or name != "propensity":  # without a propensity, the action was the only one possible
                    known[name] = nan if known.get(name) is None else float(known[name])
            known["context"] = _from_plain(known["context"])
            known["memo"] = {name: np.asarray(array) for name, array in known.get("memo", EMPTY).items()}
            decision = cls(**known)
            check_decision(decision)
        except (AttributeError, LookupError, OverflowError, RecursionError, TypeError, ValueError) as error:
            raise DecisionError(f"These values are not a decision as `to_dict` gives it: {error!r:.200}.") from error
        return decision


def check_decision(decision: Decision) -> None:
    """Raise DecisionError if this is not a decision, or a field has a value that no choice yields."""
    if not isinstance(decision, Decision):
        raise DecisionError(f"A decision as `choose` gives it is needed, got {type(decision).__name__}.")
    for name, rule, is_right in (
        ("id", "a string", isinstance(decision.id, str)),
        ("policy", "a string", isinstance(decision.policy, str)),
        ("action", "a whole number from 0", _is_count(decision.action)),
        ("n_actions", "a whole number from 0", _is_count(decision.n_actions)),
        ("round_index", "a whole number from 0", _is_count(decision.round_index)),
        ("stage", "a whole number from 0, or None", decision.stage is None or _is_count(decision.stage)),
        ("item", "a whole number, a string or None", decision.item is None or _is_id(decision.item)),
        ("mean", "one number", _is_number(decision.mean)),
        ("width", "one number", _is_number(decision.width)),
        ("score", "one number", _is_number(decision.score)),
        (
            "propensity",
            f"a probability of at least {SMALLEST_PROPENSITY:g}, or nan for a point of a box",
            _is_propensity(decision.propensity)
            or (
                _is_number(decision.propensity)
                and isnan(decision.propensity)
                and _is_count(decision.n_actions)
                and decision.n_actions == 0
            ),
        ),
        ("cost", "a SelectionCost or None", decision.cost is None or isinstance(decision.cost, SelectionCost)),
        ("memo", "a mapping of names to arrays of finite numbers", _is_memo(decision.memo)),
    ):
        if not is_right:
            raise DecisionError(
                f"`{name}` of a decision must be {rule}, got {_excerpt(getattr(decision, name))}. Learn from decisions "
                "as `choose` gives them, or as `Decision.from_dict` reads them."
            )


def _is_whole(value: Any) -> bool:
    """Whether a value is a 64-bit integer."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool | np.timedelta64):
        return False
    return -(2**63) <= int(value) < 2**63


def _is_count(value: Any) -> bool:
    return _is_whole(value) and value >= 0


def _is_id(value: Any) -> bool:
    return isinstance(value, str) or (
        isinstance(value, int | np.integer) and not isinstance(value, bool | np.timedelta64)
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, float | np.floating) or _is_whole(value)


def _is_propensity(value: Any) -> bool:
    return _is_number(value) and bool(SMALLEST_PROPENSITY <= value <= 1.0 + 1e-9)


def _is_memo(memo: Any) -> bool:
    if not isinstance(memo, Mapping):
        return False
    arrays = [np.asarray(values) for values in memo.values()]
    return all(array.dtype.kind in "biuf" and np.isfinite(array).all() for array in arrays)


def _excerpt(value: Any) -> str:
    """Short repr, if there is one."""
    try:
        return f"{value!r:.80}"
    except Exception:
        return f"a {type(value).__name__}"


OpenDecision: Final[Any] = make_dataclass(
    "OpenDecision", [part.name for part in fields(Decision)], slots=True, eq=False, repr=False
)
"""Mutable decision under construction, with the same slots."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Slate(Sequence[Decision]):
    """Several decisions of one round, best first; learn from each separately."""

    decisions: tuple[Decision, ...]
    """The decisions, best first."""

    @property
    def actions(self) -> Indices:
        """Chosen rows in order."""
        return np.array([decision.action for decision in self.decisions], dtype=np.intp)

    @property
    def propensity(self) -> float:
        """Probability of the whole slate: the product of its members'."""
        return prod(decision.propensity for decision in self.decisions)

    @overload
    def __getitem__(self, place: int) -> Decision: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Decision, ...]: ...
    def __getitem__(self, place: int | slice) -> Decision | tuple[Decision, ...]:
        return self.decisions[place]

    def __len__(self) -> int:
        return len(self.decisions)

    def __iter__(self) -> Iterator[Decision]:
        return iter(self.decisions)

    def __repr__(self) -> str:
        items = listed_briefly((decision.item for decision in self.decisions), len(self), most=5)
        return f"Slate({len(self)} decisions: {items})"

    def _repr_html_(self) -> str:
        names = ("mean", "width", "score", "propensity")
        rows = [
            [place, short_repr(one.item), *(f"{getattr(one, name):.4g}" for name in names)]
            for place, one in enumerate(self.decisions[:MOST_ROWS], start=1)
        ]
        return html_table(f"Slate of {len(self)}", rows, ["place", "item", *names])


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Plays:
    """Many rounds that were chosen and learned in one call, as columns; cheaper than one `Decision` per round."""

    __repr__ = repr_of_fields

    action: Indices
    """Chosen row of the round's contexts."""

    reward: Vector
    """Observed and learned reward."""

    mean: Vector
    """Estimated reward; nan if the policy has no estimate (the same for `width`)."""

    width: Vector
    """Confidence width of the mean."""

    score: Vector
    """Score by which the chosen action was ranked."""

    propensity: Vector
    """Probability of the choice."""

    def __len__(self) -> int:
        return len(self.action)


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """Bounds on the difference between a Nyström posterior and the exact one, computed from the dictionary.

    With K the Gram matrix of all observations, K̃ that of their projections and y the rewards.
    """

    n_atoms: int
    """Size of the dictionary."""

    residual: float
    """Σ k(x, x) − ‖z(x)‖² over all observations: an upper bound on ‖K − K̃‖."""

    regularization: float
    """γ of the posterior."""

    log_det_gain: tuple[float, float]
    """Lower and upper bound on ln det(I + K/γ)."""

    misfit: float
    """Upper bound on ‖y − mean‖ over the observations."""

    has_history: bool
    """Whether the observed points are stored. If not, the dictionary is fixed."""

    @property
    def width_ratio(self) -> tuple[float, float]:
        """Bounds on exact width / width at every point.

        With r = residual/γ, C lies within (1 ± (2 sqrt(r) + r)) C̃, because ‖C̃^(-½) P Φᵀ‖ ≤ 1 and ‖Φ(I − P)‖² ≤ rγ.
        """
        share = self.residual / self.regularization
        spread = 2.0 * sqrt(share) + share
        return 1.0 / sqrt(1.0 + spread), inf if spread >= 1.0 else 1.0 / sqrt(1.0 - spread)

    @property
    def inflation(self) -> float:
        """Factor on the term sqrt(γ) B of an interval that holds for the exact posterior: 1 + sqrt(residual/γ)."""
        return 1.0 + sqrt(self.residual / self.regularization)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Prediction:
    """Mean reward and confidence width of each point; width includes γ^(-1/2) and is never a variance."""

    __repr__ = repr_of_fields

    mean: Vector
    """Estimated reward of each point."""

    width: Vector
    """Confidence width of each mean."""

    error: Vector | None = None
    """Certified bound, per point, on the difference of mean and width from their exact values; None if these differ by
    rounding only."""

    certificate: Certificate | None = None
    """The terms of `error`, which hold for all points; None where `error` is."""

    def at(self, part: slice) -> Prediction:
        """Prediction of some of the points."""
        error = None if self.error is None else self.error[part]
        return Prediction(self.mean[part], self.width[part], error, self.certificate)

    def upper(self, exploration: float) -> Vector:
        """Mean + exploration · width."""
        return self.mean + exploration * self.width

    def lower(self, exploration: float) -> Vector:
        """Mean − exploration · width."""
        return self.mean - exploration * self.width


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class StageStep:
    """One level of a SupKernelUCB round; defined here because `theory` and `policies` both use it."""

    __repr__ = repr_of_fields

    stage: int
    """Level, from 1."""

    active: Indices
    """Rows active when the level was entered."""

    prediction: Prediction
    """Prediction of the active actions, from this level's rounds only."""

    scaled_width: Vector
    """scale · width, which is compared with the thresholds."""

    outcome: Literal["explore", "narrow", "exploit"]
    """What the level did: chose an uncertain action, passed on fewer actions, or chose the best one."""


def _to_plain(context: Point) -> Any:
    """One context as plain values, tagged with its type."""
    if isinstance(context, str) or (isinstance(context, int) and not isinstance(context, bool)):
        return context
    if isinstance(context, np.ndarray):
        return {"row": context.tolist()}
    if isinstance(context, Pairs):
        return {"pair": [_to_plain(context.context), _to_plain(context.actions)]}
    if isinstance(context, frozenset):
        return {"set": sorted((_to_plain(member) for member in context), key=repr)}
    if hasattr(context, "tocsr"):
        row = sound(context).tocsr()
        return {"sparse_row": [row.indices.tolist(), row.data.tolist(), int(row.shape[1])]}
    raise CannotSave(
        f"A context of type {type(context).__name__} has no plain form. Rows, sparse rows, strings, ids, sets and "
        "pairs of these have one."
    )


def _from_plain(value: Any) -> Point:
    """Inverse of `_to_plain`; raises ValueError or TypeError for anything else."""
    if not isinstance(value, Mapping):
        if not _is_id(value):
            raise ValueError(f"a context is a string, a whole number or a tagged value, got {type(value).__name__}")
        return value
    ((tag, content),) = value.items()
    if tag not in ("row", "pair", "set", "sparse_row"):
        raise ValueError(f"no context is tagged {tag!r:.60}")
    if not isinstance(content, list | tuple):
        raise ValueError(f"what is tagged {tag!r} must be a list, got {type(content).__name__}")
    if tag == "row":
        return _numbers(content)
    if tag == "pair":
        context, action = content
        return Pairs(_from_plain(context), _from_plain(action))
    if tag == "set":
        return frozenset(_from_plain(member) for member in content)
    indices, data, length = content
    columns, entries = np.asarray(indices), _numbers(data)
    if columns.ndim != 1 or columns.shape != entries.shape or not _is_whole(length) or not 0 < length <= MOST_COLUMNS:
        raise ValueError("a sparse row has as many numbers as columns, and a length")
    if columns.size and (columns.dtype.kind not in "iu" or not 0 <= columns.min() <= columns.max() < length):
        raise ValueError(f"the columns of a sparse row of length {length} must be whole numbers from 0 below it")
    from scipy.sparse import csr_array  # SciPy is imported only for sparse rows

    return csr_array((entries, columns.astype(np.int64), [0, len(columns)]), shape=(1, length))


def _numbers(values: Any) -> Vector:
    """Numbers as float64; raises ValueError for text or missing values, which NumPy would convert."""
    given = np.asarray(values)
    are_large = given.dtype.kind == "O" and all(isinstance(value, int | float) for value in given.flat)
    if given.dtype.kind not in "buif" and not are_large:
        raise ValueError("a row must be numbers")
    return given.astype(np.float64)
