"""Which decisions were made here, which were learnt, and which are awaited."""

from __future__ import annotations

from collections.abc import Sequence

from kernelbandits.checks import shown
from kernelbandits.errors import AlreadyLearnt, DecisionError, ForeignDecision, InvalidParameter, NotLearnt
from kernelbandits.policies.decision_fields import check_decision
from kernelbandits.policies.identity import IdIssuer, LearntIds
from kernelbandits.types import Decision

__all__ = ["Ledger"]


class Ledger:
    """Gives decisions their names, and admits each to be learnt once.

    `fingerprint` is that of the policy that keeps the ledger; a decision with another one is foreign.
    """

    def __init__(self) -> None:
        self.n_learnt = 0
        self.learnt = LearntIds()
        self.pending: dict[str, Decision] = {}
        """Decisions expected and not yet learnt, by id."""
        self._issuer = IdIssuer()
        self.latest: Decision | None = None
        """The decision made last under a name of ours, while it is not learnt: it needs no second look."""

    @property
    def round_index(self) -> int:
        """1 + decisions learnt + decisions pending."""
        return 1 + self.n_learnt + len(self.pending)

    def new_name(self) -> str:
        """A name that no other decision has."""
        self.latest = None
        return self._issuer.next()

    def free_name(self, name: str) -> str:
        """A name that the caller chose, if it can be given."""
        if not isinstance(name, str) or not name:
            raise InvalidParameter(f"A decision's id has to be a string that is not empty, got {shown(name)}.")
        if name in self.learnt or name in self.pending:
            raise AlreadyLearnt(f"A decision {name!r} was learnt or is awaited already; ids are used once.")
        return name

    def admit(self, decision: Decision, fingerprint: str) -> None:
        """Refuse what is no decision of such a policy, or was learnt."""
        self.require_own(decision, fingerprint)
        if decision.id and decision.id in self.learnt:
            raise AlreadyLearnt(
                f"The reward of decision {decision.id!r} was learnt before. Correct it: amend(decision, was=…, now=…)."
            )

    def admit_all(self, decisions: Sequence[Decision], fingerprint: str) -> tuple[Decision, ...]:
        """Likewise many, and none of them twice."""
        if isinstance(decisions, Decision):
            raise DecisionError("Several decisions are needed, got a single one. For one: learn(decision, reward).")
        try:
            listed = tuple(decisions)
        except TypeError as error:
            raise DecisionError(f"A sequence of decisions is needed, got {type(decisions).__name__}.") from error
        names: set[str] = set()
        for decision in listed:
            self.admit(decision, fingerprint)
            if decision.id in names:
                raise AlreadyLearnt(f"Decision {decision.id!r} is among these twice; a reward is learnt once.")
            if decision.id:
                names.add(decision.id)
        return listed

    def require_own(self, decision: Decision, fingerprint: str) -> None:
        """Refuse what is no decision of such a policy."""
        check_decision(decision)
        if decision.policy and decision.policy != fingerprint:
            raise ForeignDecision(
                f"Decision {decision.id!r} was made by a policy with other parameters (fingerprint {decision.policy}, "
                f"this one is {fingerprint}). To learn from it all the same: warm_start(contexts, rewards)."
            )

    def require_learnt(self, decision: Decision, fingerprint: str) -> None:
        """Refuse what was never learnt."""
        self.require_own(decision, fingerprint)
        if decision.id and decision.id not in self.learnt:
            raise NotLearnt(f"Decision {decision.id!r} was never learnt, so there is nothing to correct or take back.")

    def require_new_to_await(self, decision: Decision) -> None:
        """Refuse what cannot be told apart, or is awaited already."""
        if not decision.id:
            raise DecisionError("A decision without an id cannot be awaited: nothing would say whose reward has come.")
        if decision.id in self.pending:
            raise DecisionError(f"Decision {decision.id!r} is awaited already. Learn its reward, or withdraw it.")

    def withdraw(self, decision: Decision, fingerprint: str) -> None:
        """Await it no longer."""
        self.require_own(decision, fingerprint)
        if decision.id not in self.pending:
            raise DecisionError(f"Decision {decision.id!r} is not awaited, so it cannot be withdrawn.")
        del self.pending[decision.id]

    def settle(self, decision: Decision) -> bool:
        """It was learnt; whether it was awaited."""
        self.n_learnt += 1
        if decision.id:
            self.learnt.add(decision.id, self._issuer.latest if decision is self.latest else None)
        self.latest = None
        return bool(self.pending) and self.pending.pop(decision.id, None) is not None

    def take_back(self, decision: Decision) -> None:
        """It may be learnt again."""
        self.learnt.discard(decision.id)
        self.n_learnt -= 1
