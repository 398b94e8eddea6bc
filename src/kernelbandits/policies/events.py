"""Events: the changes that a policy announces to listeners, such as a store of decisions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, get_args

from kernelbandits._text import brief
from kernelbandits.errors import InvalidParameter
from kernelbandits.types import Decision
from kernelbandits.validation import check_has_methods, check_instance, is_one_of, short_repr

if TYPE_CHECKING:
    from kernelbandits.policies.base import Policy

__all__ = ["Event", "Listener", "Listeners"]

EventKind: TypeAlias = Literal[
    "learn", "expect", "withdraw", "amend", "unlearn", "charge", "warm_start", "play", "refit"
]

KINDS: Final = get_args(EventKind)

WITHOUT_DECISION: Final = ("warm_start", "play", "refit")


@dataclass(frozen=True, slots=True, eq=False, repr=False)  # arrays have no single truth value
class Event:
    """One change of a policy. `apply` repeats it on another policy with the same parameters.

    Rewards of one `learn_many` are announced one by one. A policy that draws its dictionary once per call (BKB, BBKB,
    EKUCB, CBBKB) is rebuilt up to these draws, and a rarely switching OFUL up to the moment of its last refit.

    >>> from kernelbandits.policies import LinUCB
    >>> policy, events = LinUCB(), []
    >>> unsubscribe = policy.subscribe(events.extend)
    >>> policy.learn(policy.choose([[0.0], [1.0]]), 0.5)
    >>> events[0].kind, events[0].reward
    ('learn', 0.5)
    >>> copy = LinUCB()
    >>> events[0].apply(copy)
    >>> copy.round_index
    2
    """

    kind: EventKind
    """Name of the method that made the change; `expire` announces each decision as "withdraw", and an assignment of a
    parameter and `set_params` are announced as "refit"."""

    decision: Decision | None = None
    """The decision; None for "warm_start", "play" and "refit"."""

    reward: Any = None
    """Reward after the change ("learn", "amend"), or rewards ("warm_start", "play")."""

    was: float | None = None
    """Reward before the change ("amend", "unlearn"), or cost ("charge")."""

    cost: float | None = None
    """Cost of the decision ("charge")."""

    expires: float | None = None
    """Time at which a pending decision expires ("expect"), if it does."""

    contexts: Any = None
    """Contexts or rounds as they were passed ("warm_start", "play"). A store has to copy what it keeps."""

    times: Any = 1
    """Number of times that each reward counts ("warm_start")."""

    ids: Any = None
    """Ids of the actions, if they were passed ("warm_start", "play")."""

    eligible: Any = None
    """Which actions could be chosen, if that was passed ("play")."""

    parameters: Any = None
    """Parameters that changed, by name, with their new values ("refit")."""

    def __post_init__(self) -> None:
        if not is_one_of(self.kind, KINDS):
            raise InvalidParameter(
                f"The kind of an event must be one of {', '.join(map(repr, KINDS))}, got {short_repr(self.kind)}."
            )
        if self.kind not in WITHOUT_DECISION:
            check_instance(self.decision, Decision, f"The decision of a {self.kind!r} event")

    def apply(self, policy: Policy) -> None:
        """Repeat the change on another policy. A randomized policy needs the same random state to repeat a "play"."""
        check_has_methods(policy, "The policy", "learn", "expect", "withdraw", "amend", "unlearn")
        match self.kind:
            case "learn":
                policy.learn(self._decision, self.reward)
            case "expect":
                policy.expect(self._decision, expires=self.expires)
            case "withdraw":
                policy.withdraw(self._decision)
            case "amend":
                policy.amend(self._decision, was=self.was, now=self.reward)
            case "unlearn":
                policy.unlearn(self._decision, self.was)
            case "charge":
                charging: Any = check_has_methods(policy, "The policy", "charge", hint="`Paced` has it.")
                charging.charge(self._decision, self.cost, was=self.was)
            case "warm_start":
                policy.warm_start(self.contexts, self.reward, times=self.times, ids=self.ids)
            case "play":
                policy.play(self.contexts, self.reward, ids=self.ids, eligible=self.eligible)
            case "refit":
                policy.refit(**self.parameters)

    @property
    def _decision(self) -> Decision:
        assert self.decision is not None
        return self.decision

    def __repr__(self) -> str:
        values = {part.name: getattr(self, part.name) for part in fields(self)}
        shown = [f"{name}={brief(value)}" for name, value in values.items() if value is not None and name != "times"]
        return f"Event({', '.join(shown)})"


Listener: TypeAlias = Callable[[Sequence[Event]], object]


class Listeners:
    """Listeners of a policy and its wrappers. A copy of a policy has none."""

    __slots__ = ("listed",)

    def __init__(self) -> None:
        self.listed: tuple[Listener, ...] = ()

    def __reduce__(self) -> tuple[type[Listeners], tuple[()]]:
        """Copy as an empty list."""
        return Listeners, ()

    def __bool__(self) -> bool:
        return bool(self.listed)

    def add(self, listener: Listener) -> Callable[[], None]:
        """Add a listener; return a function that removes it."""
        if not callable(listener):
            raise InvalidParameter(f"A listener is a function of a sequence of events, got {type(listener).__name__}.")
        entry: Listener = lambda events: listener(events)  # noqa: E731 – a new object: a listener may be added twice
        self.listed = (*self.listed, entry)

        def unsubscribe() -> None:
            self.listed = tuple(other for other in self.listed if other is not entry)

        return unsubscribe

    def announce(self, *events: Event) -> None:
        """Pass the events of one call to every listener, in the order in which they subscribed."""
        for listener in self.listed:
            listener(events)
