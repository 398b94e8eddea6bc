"""Costs of actions and an allowance for them: rewards minus a price, paced over a number of rounds, with a hard cap."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from math import fsum, inf, sqrt
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelbandits._parameters import ValueType, parameter
from kernelbandits._saved_state import below, saved_array, saved_count, saved_number, saved_part
from kernelbandits.errors import (
    AllowanceSpent,
    DamagedFile,
    DecisionError,
    InvalidContexts,
    InvalidParameter,
    NotLearnt,
    NotSupported,
)
from kernelbandits.kernels.sequences import pack_strings, unpack_strings
from kernelbandits.policies.base import HORIZON, LEARNING_FACTOR
from kernelbandits.policies.events import Event
from kernelbandits.policies.posterior_policy import PosteriorPolicy
from kernelbandits.policies.rounds import KnownRounds
from kernelbandits.policies.wrappers import WrappedPolicy
from kernelbandits.posterior import Posterior
from kernelbandits.selection import CatalogView
from kernelbandits.selection.actions import Actions, checked_ids
from kernelbandits.types import Decision, ItemId, Parameters, Points, Selection, Vector, WithCosts
from kernelbandits.validation import LARGEST, check_bool, check_nonnegative, check_positive, check_vector, short_repr

__all__ = ["Paced"]

PriceList: TypeAlias = float | tuple[tuple[ItemId, float], ...]

ROUNDING: Final = 1e-9
"""Share of the allowance by which sums of costs may exceed it: rounding errors of a billion additions."""

PART: Final = 0.25
"""Z as a share of one reward range per average allowance of a round, which no sensible price exceeds."""

COST: Final = "cost"
"""Name of the most that a decision can cost, in its memo."""


def _price_list(costs: float | Mapping[ItemId, float] | Sequence[tuple[ItemId, float]] | None) -> PriceList | None:
    if costs is None:
        return None
    if isinstance(costs, Mapping | tuple | list):
        try:
            items, amounts = zip(*(costs.items() if isinstance(costs, Mapping) else costs), strict=True)
        except (TypeError, ValueError) as error:
            raise InvalidParameter(
                f"Costs are a number or a mapping of ids to numbers, got {short_repr(costs)}."
            ) from error
        names = checked_ids(items) or []
        return tuple(
            (name, check_nonnegative(amount, f"The cost of {short_repr(name)}"))
            for name, amount in zip(names, amounts, strict=True)
        )
    return check_nonnegative(costs, "The cost of an action")  # type: ignore[arg-type]  # anything else is rejected


def _described_costs(costs: PriceList) -> Any:
    return [list(pair) for pair in costs] if isinstance(costs, tuple) else costs


COSTS: Final = ValueType(_price_list, _described_costs)


class _Sums(NamedTuple):
    """Sums over the decisions whose costs are known. The price is a function of these, so their order is irrelevant."""

    n_charged: int = 0
    spent: float = 0.0
    squares: float = 0.0
    limits: float = 0.0
    """Sum of the most that these decisions could cost."""

    def plus(self, sign: int, cost: float, limit: float) -> _Sums:
        """Add (1) or remove (−1) one decision."""
        n_charged = self.n_charged + sign
        if not n_charged:
            return _Sums()  # nothing is left of the rounding errors
        return _Sums(
            n_charged,
            self.spent + sign * cost,
            self.squares + sign * cost * cost,
            self.limits + sign * limit,
        )


class Paced(WrappedPolicy):
    """Choose by reward minus price · cost, so that an allowance lasts for a number of rounds and is never exceeded.

    Bandits with knapsacks, one resource (Badanidiyuru et al. 2013; Agrawal and Devanur 2016). With allowance B, horizon
    T and ρ = B / T, the wrapped policy sees the score of each action minus its cost times a price, the dual variable of
    the constraint:

        λ_t = max(0, price + learning_factor · Z (S_t − (1 − T^(-1/2)) ρ (t − 1)) / (G sqrt(T))),      Z = range / (4ρ).

    S_t is what rounds 1 … t − 1 have cost, G² the mean square of c − ρ over their costs c, at least ρ², and `range` the
    length of the reward range, 1 if none is declared. This is online gradient descent on the dual with lazy projection
    (dual averaging), so the price is a function of sums: costs may arrive late and in any order, and a corrected cost
    gives the price that the right one would have given. Aiming at (1 − T^(-1/2)) B leaves room for its deviations.

    The cap is hard. An action that may cost more than what is left is not eligible, also for a random action of `Mixed`
    inside; an action that costs nothing always is. If no action is left, `choose` raises AllowanceSpent. Left is the
    allowance minus the costs of learned decisions minus the most that pending ones may cost: announce decisions by
    `expect` if you choose again before you learn. Rounds of one `choose_many` do not count for each other. A decision
    that is withdrawn or expires costs nothing any more; if its action was taken, `charge` its cost: that stays.

    A round's costs are known before the choice: `choose(WithCosts(contexts, costs))`, or `costs` of this policy by id.
    `learn` charges them, and `charge(decision, cost)` states another cost. With `observed_costs=True` the given costs
    are the most that an action may cost, and the actual ones are known only from `charge`, before or after the reward.
    They are then estimated as shares of the most, with a second posterior of the form of the wrapped policy's and lower
    confidence bounds: share = mean − exploration · width, in [0, 1].

    Propensities are exact: the wrapped policy computes them from the reduced scores of the eligible actions. Costs and
    the model of costs are saved, copied and rolled back with the policy. With a price above zero every action of a
    round is scored: O(N m²) after m distinct contexts.

    Parameters
    ----------
    policy
        KernelUCB, LinUCB, GP-UCB, KernelThompson, KernelSquareCB, or one of these in Mixed, Softmax or Guarded;
        adopted, not copied. Paced is the outermost policy.
    allowance
        B: the sum of costs that is never exceeded. May be assigned at any time: the next period's is added. None: no
        cap.
    horizon
        T: number of rounds for which the allowance is. May be assigned at any time. None: the price does not change.
    price
        Reward that one unit of cost must be worth: fixed without a horizon, the first one with a horizon.
    costs
        Cost of each action in rounds that bring none: a number, or a mapping of ids to numbers. None: every round
        brings its own.
    observed_costs
        Whether the actual cost is known only after the choice, by `charge`.
    learning_factor
        Multiplier of the changes of the price.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelbandits.kernels import Delta
    >>> from kernelbandits.policies import KernelUCB
    >>> costs = {"small": 0.0, "large": 1.0}
    >>> policy = Paced(KernelUCB(Delta(), exploration=0.1), allowance=10.0, horizon=100, costs=costs)
    >>> for _ in range(100):
    ...     decision = policy.choose(["small", "large"], ids=["small", "large"])
    ...     policy.learn(decision, 0.6 if decision.item == "large" else 0.5)
    >>> policy.spent <= 10.0
    True
    """

    _is_outermost = True

    allowance: float | None = parameter(
        partial(check_positive, name="The allowance", hint="None is no cap."), default=None, is_assignable=True
    )
    horizon: int | None = parameter(HORIZON, default=None, is_assignable=True)
    price: float = parameter(partial(check_nonnegative, name="The price"), default=0.0, is_assignable=True)
    costs: float | Mapping[ItemId, float] | None = parameter(COSTS, default=None)
    observed_costs: bool = parameter(partial(check_bool, name="`observed_costs`"), default=False)
    learning_factor: float = parameter(LEARNING_FACTOR, default=1.0, is_assignable=True)

    def _setup(self) -> None:
        self._cost_posterior: Posterior | None = None
        super()._setup()
        policy = self.policy
        if not policy.accepts_offsets:
            raise NotSupported(
                f"{type(policy).__name__} has no scores from which a price could be subtracted. Take KernelUCB, "
                "LinUCB, GPUCB, KernelThompson or KernelSquareCB."
            )
        if self.horizon is not None and self.allowance is None:
            raise InvalidParameter(
                f"A horizon is the number of rounds of an allowance, got horizon={self.horizon} without one: "
                "allowance=…."
            )
        self._sums = _Sums()
        self._open: dict[str, float] = {}  # most that decisions whose cost is not known may cost, by id
        self._charged: dict[str, float] = {}  # costs by id; a full one becomes `_charged_before`
        self._charged_before: dict[str, float] = {}
        self._cost_of = dict(self.costs) if isinstance(self.costs, tuple) else None

    def _adopt_model(self) -> None:
        super()._adopt_model()
        self._has_notes_to_make = True
        if not self.observed_costs:
            return
        inside: Any = self.policy
        while isinstance(inside, WrappedPolicy):
            inside = inside.policy
        before = self._cost_posterior
        if not isinstance(inside, PosteriorPolicy) or inside.posterior.capabilities.forgets:
            raise NotSupported(
                "Observed costs are estimated by a posterior like that of the wrapped policy, and "
                f"{type(inside).__name__} has none that remembers all. Take one that has, or observed_costs=False."
            )
        if inside.posterior.capabilities.predicts_log_odds:
            raise NotSupported("Observed costs are no binary rewards, so posterior='logistic' cannot estimate them.")
        self._scored_by = inside
        self._cost_posterior = self._own_posterior(inside._new_posterior())
        if before is not None and before.size:
            self._cost_posterior.restore(before.state())

    # -- what is left ----------------------------------------------------------------------------------------------

    @property
    def spent(self) -> float:
        """Sum of the known costs of decisions."""
        return self._sums.spent

    @property
    def reserved(self) -> float:
        """Sum of the most that pending decisions and decisions without a known cost may cost."""
        return fsum(self._open.values())  # whatever the order

    @property
    def left(self) -> float:
        """Allowance minus `spent` and `reserved`; infinite without an allowance."""
        return inf if self.allowance is None else self.allowance - self.spent - self.reserved

    @property
    def current_price(self) -> float:
        """Reward that one unit of cost must be worth in the next round."""
        allowance, horizon, sums = self.allowance, self.horizon, self._sums
        if allowance is None or horizon is None:
            return self.price
        rate, n_rounds = allowance / horizon, min(self._ledger.round_index - 1, horizon)
        share = sums.spent / sums.limits if sums.limits > 0.0 else 1.0  # of what a decision may cost
        spent = sums.spent + share * self.reserved
        deviation = rate
        if sums.n_charged:
            square = (sums.squares - 2.0 * rate * sums.spent) / sums.n_charged + rate * rate
            deviation = max(rate, sqrt(max(square, 0.0)))
        low, high = self.reward_range or (0.0, 1.0)
        step = self.learning_factor * PART * (high - low) / (rate * deviation * sqrt(horizon))
        return max(0.0, self.price + step * (spent - (1.0 - 1.0 / sqrt(horizon)) * rate * n_rounds))

    # -- choosing --------------------------------------------------------------------------------------------------

    def _actions(
        self, contexts: Points, ids: Sequence[ItemId] | None, eligible: NDArray[np.bool_] | None = None
    ) -> Actions:
        costs = None
        if isinstance(contexts, WithCosts):
            contexts, costs = contexts.contexts, contexts.costs
        given = super()._actions(contexts, ids, eligible)
        rows = given.rows
        if costs is not None and isinstance(contexts, CatalogView):
            rows = np.searchsorted(contexts.rows, np.arange(given.n_rows) if rows is None else rows)
        n_costs = len(contexts.rows) if isinstance(contexts, CatalogView) else given.n_rows
        return self._affordable(given, self._known_costs(given) if costs is None else _at(costs, rows, n_costs))

    def _known_actions(self, known: KnownRounds, t: int) -> Actions:
        given = super()._known_actions(known, t)
        return self._affordable(given, self._known_costs(given))

    def _points(self, contexts: Points, ids: Sequence[ItemId] | None) -> Points:
        if isinstance(contexts, WithCosts):
            raise NotSupported(
                "Costs of rounds are read by choose, choose_many and the methods of probabilities, not by play and "
                "warm_start: pass the contexts alone, and the costs by id as `costs` of the policy."
            )
        return super()._points(contexts, ids)

    def _known_costs(self, given: Actions) -> Vector:
        """Return the costs of the eligible actions of a round that brings none."""
        costs, table = self.costs, self._cost_of
        if costs is None:
            raise InvalidContexts(
                "The costs of this round are missing. Pass them: choose(WithCosts(contexts, costs)), or give the "
                "policy those of every id: costs={…}."
            )
        if table is None:
            return np.full(given.n_actions, costs, dtype=np.float64)
        items = [given.item(given.row(place)) for place in range(given.n_actions)]
        for item in items:
            if item not in table:
                raise InvalidContexts(f"The policy has no cost of {short_repr(item)}. Add it to costs={{…}}.")
        return np.array([table[item] for item in items], dtype=np.float64)

    def _affordable(self, given: Actions, costs: Vector) -> Actions:
        """Return the actions that what is left pays for, with the price of their costs as the offset."""
        if self.horizon is not None:
            self._warn_beyond(self.horizon)
        if self.allowance is not None:
            left = self.left
            places = np.flatnonzero((costs <= left + ROUNDING * self.allowance) | (costs == 0.0))
            if not len(places):
                raise AllowanceSpent(
                    f"No action of this round is affordable: {max(left, 0.0):g} of {self.allowance:g} is left, with "
                    f"{self.reserved:g} reserved, and the cheapest costs {costs.min():g}. Add an action that costs "
                    "nothing, or assign a larger allowance."
                )
            if len(places) < len(costs):
                given, costs = given.at(places, self._kind(given.points)), costs[places]
        price = self.current_price
        if price > 0.0:
            given.offset = -price * self._expected_costs(given, costs)
        given.costs = costs
        return given

    def _expected_costs(self, given: Actions, costs: Vector) -> Vector:
        """Return the costs, or lower confidence bounds on those that are observed."""
        posterior = self._cost_posterior
        if posterior is None:
            return costs
        inside, n_actions = self._scored_by, given.n_actions
        exploration = inside._exploration_now(n_actions, inside._waiting(), self._ledger.round_index)
        return costs * np.clip(posterior.predict(given.points).lower(exploration), 0.0, 1.0)

    def _pick(self, actions: Actions) -> Selection:
        return self.policy._pick(actions)

    def _pick_batch(self, rounds: Sequence[Actions]) -> list[Selection]:
        return self.policy._pick_batch(rounds)

    def _probabilities(self, actions: Actions) -> Vector:
        return self.policy._probabilities(actions)

    def _probabilities_batch(self, rounds: Sequence[Actions]) -> list[Vector]:
        return self.policy._probabilities_batch(rounds)

    def _decision(self, given: Actions, selection: Selection, id: str) -> Decision:
        assert given.costs is not None
        memo = {**selection.memo, COST: given.costs[selection.row]}
        return super()._decision(given, selection._replace(memo=memo), id)

    # -- costs of decisions ----------------------------------------------------------------------------------------

    def charge(self, decision: Decision, cost: float, *, was: float | None = None) -> None:
        """State what a decision has cost: before or after its reward, and again to correct it. Idempotent.

        Parameters
        ----------
        decision
            A decision of this policy.
        cost
            Its cost, zero or above. A cost above what the decision could cost counts in full.
        was
            The cost that was stated or learned before. Required only if the decision is not among the last `remember`
            ones; for those the policy uses its stored value and ignores this argument.
        """
        self._require_own(decision)
        if not decision.id:
            raise DecisionError("A decision without an id cannot be charged: its cost could not be assigned to it.")
        self._mark(decision)
        self._validate_decision(decision)
        paid = check_nonnegative(cost, "The cost of a decision")
        before = self._known_charge(decision)
        if before is None and decision.id not in self._open and self._ledger.is_learned(decision.id):
            if was is None:
                raise NotLearnt(
                    f"The cost of decision {decision.id!r} is not remembered: a policy remembers those of the last "
                    f"{self.remember} decisions. Say which cost was charged: charge(decision, cost, was=…)."
                )
            before = check_nonnegative(was, "The cost that was charged")
        if paid == before:
            return
        if self._cost_posterior is not None:
            self._cost_posterior._note_change()
        self._uncount(decision, before)
        self._count(decision, paid)
        self._ledger.listeners.announce(Event("charge", decision, cost=paid, was=before))

    def _known_charge(self, decision: Decision) -> float | None:
        """Return the cost of a decision, if it is stored."""
        return self._charged.get(decision.id, self._charged_before.get(decision.id))

    def _count(self, decision: Decision, cost: float) -> None:
        """Add the cost of a decision to the sums and to the model of costs."""
        limit = _limit(decision)
        self._note_references("_sums")
        self._sums = self._sums.plus(1, cost, limit)
        if decision.id:
            if len(self._charged) >= max(1, self.remember):
                self._make_room()
            self._put_entry(self._open, decision.id, None)
            self._put_entry(self._charged, decision.id, cost)
        if self._cost_posterior is not None and limit > 0.0 and decision.id:
            self._cost_posterior.observe(self._point(decision), [cost / limit])

    def _uncount(self, decision: Decision, cost: float | None) -> None:
        """Inverse of `_count`; None for a decision whose cost was not known."""
        limit = _limit(decision)
        self._put_entry(self._open, decision.id, None)
        if cost is None:
            return
        self._note_references("_sums")
        self._sums = self._sums.plus(-1, cost, limit)
        for charged in (self._charged, self._charged_before):
            self._put_entry(charged, decision.id, None)
        if self._cost_posterior is not None and limit > 0.0 and decision.id:
            self._cost_posterior.remove(self._point(decision), [cost / limit])

    def _make_room(self) -> None:
        """Forget the oldest costs, except those of decisions that are not learned."""
        self._note_references("_charged", "_charged_before")
        is_learned = self._ledger.is_learned
        kept = {name: cost for name, cost in self._charged_before.items() if not is_learned(name)}
        self._charged_before, self._charged = {**kept, **self._charged}, {}

    def _put_entry(self, entries: dict[str, float], id: str, value: float | None) -> None:
        """Put an entry, or remove it (None), so that it can be undone."""
        before = entries.get(id)
        if before != value:
            self._journal.note(_put, entries, id, before)
            _put(entries, id, value)

    def _settle(self, decision: Decision) -> None:
        """Charge a decision that is being learned, unless its cost is known already or will be stated later."""
        if self._known_charge(decision) is not None:
            return
        if self.observed_costs and decision.id:
            self._put_entry(self._open, decision.id, _limit(decision))
        else:
            self._count(decision, _limit(decision))

    # -- learning --------------------------------------------------------------------------------------------------

    def _validate_decision(self, decision: Decision) -> None:
        super()._validate_decision(decision)
        _limit(decision)

    def _note_model(self) -> None:
        super()._note_model()
        if self._cost_posterior is not None:
            self._cost_posterior._note_change()

    def _update(self, decision: Decision, reward: float) -> None:
        super()._update(decision, reward)
        self._settle(decision)

    def _update_many(self, decisions: Sequence[Decision], rewards: Vector) -> None:
        super()._update_many(decisions, rewards)
        for decision in decisions:
            self._settle(decision)

    def _remove_reward(self, decision: Decision, reward: float, number: int | None) -> None:
        cost = self._known_charge(decision) if decision.id else _limit(decision)
        if cost is None and decision.id not in self._open:
            raise NotLearnt(
                f"The cost of decision {decision.id!r} is not remembered: a policy remembers those of the last "
                f"{self.remember} decisions. State it first: charge(decision, 0.0, was=…)."
            )
        super()._remove_reward(decision, reward, number)
        self._uncount(decision, cost)

    def _pending_changed(self, decision: Decision, change: int) -> None:
        super()._pending_changed(decision, change)
        if change > 0:
            if self._known_charge(decision) is None:
                self._put_entry(self._open, decision.id, _limit(decision))
        elif not self._ledger.is_learned(decision.id):
            self._put_entry(self._open, decision.id, None)

    def _check_refit(self, values: Mapping[str, Any]) -> None:
        super()._check_refit(values)
        if values.get("observed_costs", self.observed_costs) is not self.observed_costs:
            raise NotSupported(
                "Whether costs are observed cannot change now. Take a new policy: policy.clone(observed_costs=…)."
            )

    # -- serialization ---------------------------------------------------------------------------------------------

    def _state(self) -> Parameters:
        known = {**self._charged_before, **self._charged}
        state: Parameters = {
            **{name: float(value) for name, value in self._sums._asdict().items()},
            "n_charged": self._sums.n_charged,
            "open": _packed(self._open),
            "charged": _packed(known),
            "n_recent": len(self._charged),
        }
        if self._cost_posterior is not None:
            state["cost_posterior"] = self._cost_posterior.state()
        return state

    def _restore(self, state: Mapping[str, Any]) -> None:
        n_charged, most = saved_count(state, "n_charged"), 1e300
        sums = [saved_number(state, name, least=-most, most=most) for name in ("spent", "squares", "limits")]
        open_costs, known = (_unpacked(saved_part(state, name)) for name in ("open", "charged"))
        n_before = len(known) - saved_count(state, "n_recent", most=len(known))
        if "" in open_costs or "" in known or open_costs.keys() & known.keys():
            raise DamagedFile("The file has a cost without a decision, or of one whose cost is not known.")
        self._sums, self._open = _Sums(n_charged, *sums), open_costs
        entries = list(known.items())
        self._charged_before, self._charged = dict(entries[:n_before]), dict(entries[n_before:])
        if self._cost_posterior is not None:
            self._cost_posterior.restore(saved_part(state, "cost_posterior"))


def _at(costs: ArrayLike, rows: NDArray[np.intp] | None, n_actions: int) -> Vector:
    """Return the costs of these rows, of a round with this many actions."""
    try:
        amounts = check_vector(costs, "The costs of a round")
    except InvalidParameter as error:
        raise InvalidContexts(str(error)) from error
    if len(amounts) != n_actions or (amounts < 0.0).any() or (amounts > LARGEST).any():
        extremes = f", from {amounts.min():g} to {amounts.max():g}" if len(amounts) else ""
        raise InvalidContexts(
            f"The costs of a round are one number from 0 to {LARGEST:g} per action ({n_actions}), got "
            f"{len(amounts)}{extremes}."
        )
    return amounts if rows is None else amounts[rows]


def _limit(decision: Decision) -> float:
    """Return the most that a decision can cost."""
    cost = np.asarray(decision.memo.get(COST, -1.0))
    if cost.ndim or cost.dtype.kind not in "iuf" or not 0.0 <= cost <= LARGEST:
        raise DecisionError(
            f"A decision of Paced holds its cost, memo[{COST!r}], a number from zero, got {short_repr(cost.tolist())}. "
            "Learn from decisions as `choose` gives them."
        )
    return float(cost)


def _put(entries: dict[str, float], id: str, value: float | None) -> None:
    if value is None:
        entries.pop(id, None)
    else:
        entries[id] = value


def _packed(costs: Mapping[str, float]) -> Parameters:
    return {**pack_strings(list(costs)), "costs": np.array(list(costs.values()), dtype=np.float64)}


def _unpacked(state: Mapping[str, Any]) -> dict[str, float]:
    ids = unpack_strings(below("", state))
    return dict(zip(ids, saved_array(state, "costs", "f", (len(ids),), least=0.0, most=LARGEST).tolist(), strict=True))
