"""Values that every part of the house passes on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from math import isnan, nan, prod
from typing import Any, Final, Literal, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

from kernelbandits.errors import CannotSave, DecisionError

__all__ = [
    "TIE_TOLERANCE",
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
    "Slate",
    "StageStep",
    "Vector",
]

Vector: TypeAlias = NDArray[np.float64]
Matrix: TypeAlias = NDArray[np.float64]
Indices: TypeAlias = NDArray[np.intp]
Point: TypeAlias = Any  # one thing a kernel understands; opaque outside `kernels`
Points: TypeAlias = Any  # many of them: rows, sparse rows, strings, ids, pairs
ItemId: TypeAlias = int | str
Seed: TypeAlias = int | np.random.SeedSequence | np.random.Generator | None
Parameters: TypeAlias = dict[str, Any]  # plain values only, as `describe()` gives them

TIE_TOLERANCE: Final = 1e-10
"""Scores within this times max(1, |best|) of the best are tied: more than the rounding by which the equivalent
forms of the estimator differ at ordinary regularisation, less than anything a user could mean."""

EMPTY: Final[Mapping[str, Any]] = {}


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """One shared context joined with many actions: points of pair kernels, never expanded to rows."""

    context: Point
    actions: Points


@dataclass(frozen=True, slots=True, eq=False)
class Decision:
    """One action chosen in one round, with all that learning, audit or off-policy evaluation will need."""

    action: int
    """Row of the contexts that was chosen."""

    context: Point
    """A copy of that row, so a decision can be learnt from without the round it came from."""

    mean: float = nan
    """Estimated reward; nan where a policy has no such estimate (likewise `width` and `score`)."""

    width: float = nan
    """Confidence width of the mean; carries γ^(-1/2) and is never a variance."""

    score: float = nan
    """What the chosen action was ranked by."""

    propensity: float = 1.0
    """Probability of this action, 1.0 when the rule is deterministic; in a slate, given those above it."""

    stage: int | None = None
    """SupKernelUCB level that learns from this decision; None when none does."""

    item: ItemId | None = None
    """The id given for the chosen row, or the row itself when there were no ids."""

    n_actions: int = 0
    """Eligible actions of the round."""

    round_index: int = 0
    """The round this choice belongs to, from 1."""

    id: str = ""
    """Unique; empty only when the decision was built by hand."""

    policy: str = ""
    """Fingerprint of the policy's configuration."""

    memo: Mapping[str, Any] = field(default_factory=dict)
    """What this policy's `learn` needs besides: arrays by name."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON or a table row."""
        values = {part.name: getattr(self, part.name) for part in fields(self)}
        for name in ("mean", "width", "score"):
            values[name] = None if isnan(values[name]) else float(values[name])
        values["context"] = _to_plain(self.context)
        values["memo"] = {name: np.asarray(array).tolist() for name, array in self.memo.items()}
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Decision:
        """Inverse of `to_dict`; DecisionError for anything else.

        >>> decision = Decision(action=2, context=np.array([0.5, 1.0]), mean=0.25)
        >>> Decision.from_dict(decision.to_dict()).context
        array([0.5, 1. ])
        """
        if not isinstance(values, Mapping):
            raise DecisionError(f"These values are no decision as `to_dict` gives it: {type(values).__name__}.")
        try:
            known = dict(values)
            for name in ("mean", "width", "score"):
                known[name] = nan if known.get(name) is None else float(known[name])
            known["context"] = _from_plain(known["context"])
            known["memo"] = {name: np.asarray(array) for name, array in known.get("memo", EMPTY).items()}
            return cls(**known)
        except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
            raise DecisionError(f"These values are no decision as `to_dict` gives it: {error!r}.") from error


class _OpenDecision:
    """A decision that is being made: the same slots, and they can be set."""

    __slots__ = tuple(part.name for part in fields(Decision))

    def __init__(
        self,
        action: int,
        context: Point,
        mean: float,
        width: float,
        score: float,
        propensity: float,
        stage: int | None,
        item: ItemId | None,
        n_actions: int,
        round_index: int,
        id: str,
        policy: str,
        memo: Mapping[str, Any],
    ) -> None:
        self.action, self.context = action, context
        self.mean, self.width, self.score, self.propensity = mean, width, score, propensity
        self.stage, self.item, self.n_actions, self.round_index = stage, item, n_actions, round_index
        self.id, self.policy, self.memo = id, policy, memo


def new_decision(*values: Any) -> Decision:
    """A decision from all its fields in order, at a third of the cost: a frozen class sets each through a call.

    >>> new_decision(2, None, 0.5, 0.1, 0.6, 1.0, None, "blue", 3, 1, "d-1", "", EMPTY).item
    'blue'
    """
    made: Any = _OpenDecision(*values)
    made.__class__ = Decision  # the slots are the same, so the object is one from now on
    return made  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True, eq=False)
class Slate(Sequence[Decision]):
    """Several decisions of one round, best first; learn from each on its own."""

    decisions: tuple[Decision, ...]

    @property
    def actions(self) -> Indices:
        """Rows in order."""
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


@dataclass(frozen=True, slots=True, eq=False)
class Plays:
    """Many rounds that were chosen and learnt in one call, as columns: a `Decision` each would cost more than they."""

    action: Indices
    """Row of the round's contexts that was chosen."""

    reward: Vector
    """What it paid, and what was learnt."""

    mean: Vector
    """Reward that was estimated; nan where a policy makes no estimate (likewise `width`)."""

    width: Vector
    """Confidence width of the mean."""

    score: Vector
    """What the chosen action was ranked by."""

    propensity: Vector
    """Probability of the choice."""

    def __len__(self) -> int:
        return len(self.action)


@dataclass(frozen=True, slots=True, eq=False)
class Prediction:
    """Mean reward and confidence width of each point; width carries γ^(-1/2) and is never a variance."""

    mean: Vector
    width: Vector

    def upper(self, exploration: float) -> Vector:
        """Mean + exploration · width."""
        return self.mean + exploration * self.width

    def lower(self, exploration: float) -> Vector:
        """Mean − exploration · width."""
        return self.mean - exploration * self.width


@dataclass(frozen=True, slots=True, eq=False)
class StageStep:
    """One level of a SupKernelUCB round; here, because both `theory` and `policies` speak of it."""

    stage: int
    active: Indices
    """Rows still active when the level was entered."""

    prediction: Prediction
    """Of the active actions, from this level's rounds only."""

    scaled_width: Vector
    """scale · width: what the thresholds are compared with."""

    outcome: Literal["explore", "narrow", "exploit"]


def _to_plain(context: Point) -> Any:
    """Wrap one context in plain values, tagged with what it was."""
    if isinstance(context, str) or (isinstance(context, int) and not isinstance(context, bool)):
        return context
    if isinstance(context, np.ndarray):
        return {"row": context.tolist()}
    if isinstance(context, Pairs):
        return {"pair": [_to_plain(context.context), _to_plain(context.actions)]}
    if isinstance(context, frozenset):
        return {"set": sorted((_to_plain(member) for member in context), key=repr)}
    if hasattr(context, "tocsr"):
        row = context.tocsr()
        return {"sparse_row": [row.indices.tolist(), row.data.tolist(), int(row.shape[1])]}
    raise CannotSave(
        f"A context of type {type(context).__name__} has no plain form. Rows, sparse rows, strings, ids, sets and "
        "pairs of these have one."
    )


def _from_plain(value: Any) -> Point:
    """Inverse of `_to_plain`."""
    if not isinstance(value, Mapping):
        return value
    ((tag, content),) = value.items()
    if tag == "row":
        return np.asarray(content, dtype=np.float64)
    if tag == "pair":
        return Pairs(_from_plain(content[0]), _from_plain(content[1]))
    if tag == "set":
        return frozenset(_from_plain(member) for member in content)
    from scipy.sparse import csr_array  # SciPy only when a sparse row asks for it

    indices, data, length = content
    return csr_array((data, indices, [0, len(indices)]), shape=(1, length), dtype=np.float64)
