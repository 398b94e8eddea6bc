"""Schemas: requests and answers of the HTTP interface and bodies of log rows, decoded strictly.

A number is a JSON number: NaN, infinities, `true` and `"1"` are rejected, and so are unknown fields.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from kernelbandits.service.problems import Problem
from kernelbandits.service.store import Row

__all__ = [
    "ID",
    "ROWS",
    "Action",
    "Batch",
    "Block",
    "ClosedBody",
    "DecisionAnswer",
    "DecisionBody",
    "DecisionRequest",
    "EraseRequest",
    "EvaluationRequest",
    "Experiment",
    "ExperimentChange",
    "Item",
    "Items",
    "LearnBody",
    "Limits",
    "Place",
    "PolicyRequest",
    "Ranked",
    "RewardAnswer",
    "RewardBatch",
    "RewardBody",
    "RewardRequest",
    "Taken",
    "check_id",
    "decode",
    "decode_body",
    "encode",
]

ID: Final = re.compile(r"[A-Za-z0-9._~-]{1,128}")
LARGEST: Final = 1e9
MONTH: Final = 30 * 86_400.0

Id: TypeAlias = Annotated[str, Meta(pattern="^[A-Za-z0-9._~-]{1,128}$", description="Identifier")]
Number: TypeAlias = Annotated[float, Meta(ge=-LARGEST, le=LARGEST)]
Text: TypeAlias = Annotated[str, Meta(max_length=10_000)]
Share: TypeAlias = Annotated[float, Meta(ge=0.0, le=1.0)]
Seconds: TypeAlias = Annotated[float, Meta(ge=0.0, le=MONTH)]


class Strict(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Base class of requests: an unknown field is an error."""


class Limits(Strict):
    """Limits of requests."""

    body: int = 1 << 20
    batch_body: int = 8 << 20
    inline_actions: int = 1_000
    catalog_items: int = 100_000
    columns: int = 4_096
    batch: int = 256
    in_flight: int = 128
    body_seconds: float = 10.0


class Action(Strict):
    """An action: a row of numbers, a string, a set of strings; or only an id, of a similarity table or for `Delta`."""

    id: Id
    x: list[Number | Text] | Text | None = None


class Taken(Strict):
    """A choice that was made elsewhere."""

    action_id: Id
    propensity: Annotated[float, Meta(gt=0.0, le=1.0)]


class DecisionRequest(Strict):
    """What to choose from."""

    id: Id | None = None
    actions: list[Action] | None = None
    context: list[Number | Text] | Text | None = None
    k: Annotated[int, Meta(ge=1, le=1_000)] = 1
    eligible: list[Id] | None = None
    exclude: list[Id] | None = None
    baseline: Id | None = None
    defer: bool = False
    explain: bool = False
    taken: Taken | None = None
    subject: Annotated[str, Meta(max_length=256)] | None = None


class Ranked(Struct):
    """A chosen action with what was known about it; with `explain`, every candidate."""

    id: str
    mean: float | None
    width: float | None
    score: float | None
    p: float


class DecisionAnswer(Struct, omit_defaults=True):
    """The choice, durably stored."""

    decision_id: str
    action_id: str
    propensity: float
    seq: int
    policy: str
    policy_seq: int
    ranking: list[Ranked]
    closes_at: str
    mode: str
    status: str
    durable: str
    replayed: bool
    candidates: list[Ranked] | None = None


class RewardRequest(Strict):
    """A reward."""

    reward: Number
    id: Id | None = None
    decision_id: Id | None = None
    action_id: Id | None = None
    final: bool = False


class RewardBatch(Strict):
    """Rewards of several decisions; each names its decision and has an id."""

    rewards: list[RewardRequest]


class Batch(Strict):
    """Several decisions."""

    decisions: list[DecisionRequest]


class RewardAnswer(Struct):
    """What became of a reward."""

    decision_id: str
    reward_id: str
    seq: int
    status: str
    late: bool
    learned: float | None
    durable: str
    replayed: bool


class Block(Strict):
    """New items of a similarity table, with their similarities to the known items and among each other."""

    ids: list[Id]
    to_known: list[list[Number]]
    among_new: list[list[Number]]


class Item(Strict):
    """An item of a catalog."""

    x: list[Number | Text] | Text | None = None


class Items(Strict):
    """Changes of a catalog in one step."""

    put: list[Action] = []
    delete: list[Id] = []


class Experiment(Strict):
    """An experiment. `policy` is a description as `Policy.describe` gives it; what is left out has its default."""

    name: Annotated[str, Meta(pattern="^[A-Za-z0-9._~-]{1,64}$")]
    policy: dict[str, Any]
    reward_range: tuple[Number, Number] = (0.0, 1.0)
    wait: Seconds = 3600.0
    default_reward: Number | None = None
    aggregate: Literal["earliest", "latest", "sum", "mean", "max", "min"] = "latest"
    learn_on: Literal["reward", "close"] = "reward"
    late: Literal["ignore", "amend"] = "ignore"
    epsilon: Share = 0.02
    holdout: Share = 0.0
    baseline: Id | None = None
    pending_limit: Annotated[int, Meta(ge=0, le=10_000)] = 100
    deadline: Annotated[float, Meta(gt=0.0, le=60.0)] = 0.05
    seed: Annotated[int, Meta(ge=0, le=2**53)] = 0
    description: Annotated[str, Meta(max_length=1_000)] = ""


class ExperimentChange(Strict):
    """Settings that can change while an experiment runs."""

    wait: Seconds | UnsetType = UNSET
    default_reward: Number | UnsetType | None = UNSET
    late: Literal["ignore", "amend"] | UnsetType = UNSET
    holdout: Share | UnsetType = UNSET
    baseline: Id | UnsetType | None = UNSET
    pending_limit: Annotated[int, Meta(ge=0, le=10_000)] | UnsetType = UNSET
    deadline: Annotated[float, Meta(gt=0.0, le=60.0)] | UnsetType = UNSET
    description: Annotated[str, Meta(max_length=1_000)] | UnsetType = UNSET


class PolicyRequest(Strict):
    """A new version of the policy, built by replay of the log."""

    policy: dict[str, Any]
    epsilon: Share | None = None
    note: Annotated[str, Meta(max_length=1_000)] = ""


class EvaluationRequest(Strict):
    """Off-policy evaluation of a policy on the log: a version, or a description."""

    policy: str | dict[str, Any]
    estimator: Literal["IPS", "SNIPS", "DM", "DR"] = "SNIPS"
    confidence: Annotated[float, Meta(gt=0.0, lt=1.0)] = 0.95
    last: Annotated[int, Meta(ge=1, le=10_000_000)] = 100_000
    train: Share = 0.5


class EraseRequest(Strict):
    """Erasure of a subject."""

    subject: Annotated[str, Meta(min_length=1, max_length=256)]


class Place(Struct, omit_defaults=True):
    """A chosen action, as it is logged: everything that learning needs."""

    id: str
    row: int
    p: float
    point: Any
    mean: float | None = None
    width: float | None = None
    score: float | None = None
    stage: int | None = None
    memo: dict[str, Any] = {}


class DecisionBody(Struct, omit_defaults=True):
    """Body of a `decision` row."""

    request: DecisionRequest | None
    digest: str
    mode: str
    policy: str
    policy_seq: int
    n_actions: int
    places: list[Place]
    closes_at: float
    status: str
    catalog: int = 0
    candidates: list[Ranked] | None = None
    epsilon: float = 0.0
    shadows: dict[str, list[Ranked]] = {}


class RewardBody(Struct, omit_defaults=True):
    """Body of a `reward` row."""

    decision: str
    place: int
    value: float
    digest: str
    late: bool
    status: str
    learned: float | None
    final: bool = False


class LearnBody(Struct, omit_defaults=True):
    """Body of a `learn` row: (decision, place, value), and (decision, place, before, after) of corrections."""

    learn: list[tuple[str, int, float]] = []
    amend: list[tuple[str, int, float, float]] = []
    unlearn: list[tuple[str, int, float]] = []


class ClosedBody(Struct, omit_defaults=True):
    """Body of a `closed` row."""

    decisions: list[str]
    reason: str


T = TypeVar("T")

DEEPEST: Final = 32
"""Nesting depth of a request, beyond which it is rejected before it is decoded."""

_encoder = msgspec.json.Encoder()
_decoders: dict[Any, Any] = {}

encode = _encoder.encode


def decode(data: bytes, kind: type[T]) -> T:
    """Decode a request, or raise a Problem that names the bad field."""
    decoder = _decoders.get(kind)
    if decoder is None:
        decoder = _decoders[kind] = msgspec.json.Decoder(kind)
    try:
        found = decoder.decode(data)
        if kind in OPEN or b"\\" in data or data.count(b":") != encode(found).count(b":"):
            _check_keys(data)  # otherwise every colon is that of a field which was decoded
    except msgspec.ValidationError as error:
        text = str(error)
        what, _, place = text.partition(" - at `")
        raise Problem("invalid", what + ".", pointer=_pointer(place.rstrip("`"))) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Problem("malformed", f"The body is not valid JSON: {error!s:.200}.") from None
    return found  # type: ignore[no-any-return]


OPEN: Final[frozenset[Any]] = frozenset({Experiment, PolicyRequest, EvaluationRequest})
"""Requests with fields in which anything may stand, to any depth."""

KEYS: Final = re.compile(rb'"(?:[^"\\]|\\.)*"\s*(:?)', re.DOTALL)
"""A string, and the colon behind it if it is a key."""


def _check_keys(data: bytes) -> None:
    """Reject nesting beyond the limit, and fields that occur twice."""
    n_keys, level, depth = 0, [msgspec.json.decode(data)], 0
    while level:
        depth += 1
        if depth > DEEPEST:
            raise Problem("malformed", f"The body is nested more than {DEEPEST} levels deep.")
        below: list[Any] = []
        for value in level:
            if type(value) is dict:
                n_keys += len(value)
                below.extend(part for part in value.values() if type(part) in (dict, list))
            elif type(value) is list and type(value[0] if value else None) not in (float, int, str):
                below.extend(part for part in value if type(part) in (dict, list))
            elif type(value) is list:
                below.extend(part for part in value[1:] if type(part) in (dict, list))
        level = below
    if data.count(b":") != n_keys and sum(found == b":" for found in KEYS.findall(data)) != n_keys:
        raise Problem("malformed", "A field occurs twice in one object.")


BODIES: Final[dict[str, Any]] = {}


def decode_body(row: Row) -> Any:
    """The body of a row of the log, in the form that its type has."""
    assert row.body is not None
    if not BODIES:
        for name in ROWS:
            BODIES[name] = msgspec.json.Decoder(ROWS[name])
    return BODIES[row.type].decode(row.body)


ROWS: Final[dict[str, Any]] = {
    "experiment": Experiment,
    "settings": dict,
    "state": dict,
    "items": Items,
    "similarities": Block,
    "decision": DecisionBody,
    "activated": dict,
    "reward": RewardBody,
    "learn": LearnBody,
    "closed": ClosedBody,
    "policy": dict,
    "extended": dict,
    "erased": dict,
    "started": dict,
    "stopped": dict,
    "alarm": dict,
}
"""Types of rows, with the form of their bodies."""


def _pointer(path: str) -> str | None:
    """JSON pointer of a path such as `$.actions[0].x`."""
    if not path.startswith("$"):
        return None
    return re.sub(r"\[(\d+|\.\.\.)\]", r"/\1", path[1:].replace(".", "/").replace("[///]", "/…")) or "/"


def check_id(id: str, what: str = "An id") -> str:
    """Return the id of a path, or raise a Problem."""
    if not ID.fullmatch(id):
        raise Problem("invalid", f"{what} has 1 to 128 characters out of A-Z a-z 0-9 . _ ~ -, got {id[:140]!r}.")
    return id
