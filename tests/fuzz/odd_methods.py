"""Methods of living policies and posteriors, called with odd values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import Any

import numpy as np

import kernelbandits as kb
from fuzz.baselines import TARGETS, WORDS, callable_of, folder, gaussian, rows
from fuzz.odd_calls import TAKE_FUNCTIONS, RawError, raises_when_called, raw_error
from fuzz.odd_values import ODD
from kernelbandits.errors import KernelBanditError
from kernelbandits.kernels import Linear
from kernelbandits.posterior import posterior_factory
from kernelbandits.types import Decision

__all__ = ["method_calls", "method_outcome"]

LEARNED = 3
"""Rounds that a living policy has learned."""


def round_of(name: str, seed: int = 0) -> Any:
    """Contexts that the policy of this name takes."""
    if name == "policies.CGPUCB":
        return kb.Pairs(rows(seed=seed)[0, :2], list(WORDS))
    fixed = ("ConfidenceBall", "GridGP", "PEGE", "PhasedElimination", "UncertaintyEllipsoid")
    return rows() if name.rpartition(".")[2] in fixed else rows(seed=seed)


class Living:
    """A policy that has learned a little, with one decision that is learned and one that is not."""

    def __init__(self, name: str) -> None:
        self.policy = callable_of(name)(**TARGETS[name].arguments())
        self.name = name
        for t in range(LEARNED):
            self.learned = self.policy.choose(round_of(name, t))
            self.policy.learn(self.learned, 0.5)
        self.open = self.policy.choose(round_of(name, 9))
        self.unrewarded = self.policy.choose(round_of(name, 8))
        self.policy.expect(self.unrewarded)
        self.policy.choose_many([round_of(name, 7)])  # no decision is the latest one: None is

    def answers(self) -> tuple[Any, ...]:
        """What a copy says and does next."""
        policy = self.policy.copy()
        result = []
        for t in (20, 21):
            decision = policy.choose(round_of(self.name, t))
            result.append((decision.action, decision.score, decision.propensity, decision.round_index))
            policy.learn(decision, 0.25)
        return tuple(result), tuple(policy.pending)

    def methods(self) -> dict[str, dict[str, Any]]:
        """Valid arguments of every method."""
        contexts = round_of(self.name, 5)
        return {
            "choose": {
                "contexts": contexts,
                "ids": ["a", "b", "c", "d"],
                "eligible": np.ones(4, dtype=bool),
                "id": "x",
            },
            "choose a slate": {"contexts": contexts, "k": 2, "diverse": False, "ids": None, "eligible": None},
            "choose_many": {"rounds": [contexts, contexts], "ids": None, "eligible": None},
            "probabilities": {"contexts": contexts, "ids": None, "eligible": None},
            "probabilities_many": {"rounds": [contexts, contexts], "ids": None, "eligible": None},
            "slate_probabilities": {"contexts": contexts, "actions": [2, 0], "ids": None, "eligible": None},
            "place_probabilities": {"contexts": contexts, "k": 2, "ids": None, "eligible": None},
            "explain": {"decision": self.open, "most": 3},
            "learn": {"decision": self.open, "reward": 0.5},
            "learn_many": {"decisions": [self.open], "rewards": [0.5]},
            "play": {
                "rounds": [contexts],
                "rewards": [[0.1, 0.2, 0.3, 0.4]],
                "ids": [["a", "b", "c", "d"]],
                "eligible": [np.ones(4, dtype=bool)],
            },
            "warm_start": {"contexts": contexts, "rewards": [0.1, 0.2, 0.3, 0.4], "times": 1, "ids": None},
            "expect": {"decision": self.open},
            "withdraw": {"decision": self.unrewarded},
            "expire": {"now": 1.0},
            "refit": self.policy.get_params(),
            "amend": {"decision": self.learned, "was": 0.5, "now": 0.25},
            "unlearn": {"decision": self.learned, "reward": 0.5},
            "save": {"path": folder() / "living.kb"},
            "reseed": {"seed": 3},
            **({"charge": {"decision": self.open, "cost": 0.01}} if hasattr(self.policy, "charge") else {}),
        }


POLICIES = tuple(
    name
    for name in TARGETS
    if name.startswith("policies.")
    and name.count(".") == 1
    and isinstance(callable_of(name), type)
    and issubclass(callable_of(name), kb.Policy)
)

ATTRIBUTES = ("exploration", "gap_weight", "remember")
"""Public attributes that a user may assign."""

DECISION_METHODS = ("learn", "learn_many", "explain", "expect", "withdraw", "amend", "unlearn")

POSTERIORS: dict[str, Callable[[], Any]] = {
    "auto": lambda: posterior_factory("auto")(gaussian(), 0.5),
    "exact": lambda: posterior_factory("exact")(gaussian(), 0.5),
    "primal": lambda: posterior_factory("primal")(Linear(), 0.5),
    "logistic": lambda: posterior_factory("logistic")(gaussian(), 0.5),
    "windowed": lambda: posterior_factory("windowed", length=5)(gaussian(), 0.5),
    "forgetting": lambda: posterior_factory("forgetting", rate=0.9)(gaussian(), 0.5),
    "compressed": lambda: kb.posterior.LowRankPosterior(gaussian(), regularization=0.5),
    "with a budget": lambda: kb.posterior.AutoPosterior(gaussian(), regularization=0.5, budget=3),
    "resampled": lambda: kb.posterior.NystroemPosterior(
        gaussian(), regularization=0.5, dictionary=kb.posterior.BatchedResampling()
    ),
}

POSTERIOR_METHODS: dict[str, Callable[[], dict[str, Any]]] = {
    "observe": lambda: {"points": rows(), "rewards": [0.1, 0.2, 0.3, 0.4], "times": 1},
    "amend": lambda: {"points": rows(), "was": [0.1, 0.2, 0.3, 0.4], "now": [0.4, 0.3, 0.2, 0.1]},
    "remove": lambda: {"points": rows(), "rewards": [0.1, 0.2, 0.3, 0.4], "numbers": (None, None, None, None)},
    "predict": lambda: {"points": rows(), "pending": None},
    "covariance": lambda: {"points": rows(), "others": None},
    "covariance_of_sum": lambda: {"points": rows(), "weights": [0.1, 0.2, 0.3, 0.4], "others": rows(seed=1)},
    "gradient": lambda: {"points": rows(), "others": rows(3, 1), "weights": np.ones((4, 3))},
}


def method_calls() -> Iterator[tuple[str, str, str, str]]:
    """All (owner, method, parameter or decision field, odd value)."""
    for name in POLICIES:
        for method, arguments in Living(name).methods().items():
            yield from (
                (name, method, parameter, odd)
                for parameter in arguments
                for odd in ODD
                if not (parameter in TAKE_FUNCTIONS and raises_when_called(odd))
            )
        for method in DECISION_METHODS:
            yield from ((name, method, f"decision.{part.name}", odd) for part in fields(Decision) for odd in ODD)
        yield from ((name, "assign", attribute, odd) for attribute in ATTRIBUTES for odd in ODD)
    for name in POSTERIORS:
        for method, made in POSTERIOR_METHODS.items():
            yield from ((f"posterior {name}", method, parameter, odd) for parameter in made() for odd in ODD)


def method_outcome(owner: str, method: str, parameter: str, odd: str) -> list[RawError]:
    """Raw errors of the call and of what follows, and anything that a rejected call has changed."""
    if owner.startswith("posterior "):
        return _posterior_outcome(owner, method, parameter, odd)
    living = Living(owner)
    call = f"{owner}.{method}({parameter}={odd})"
    before = living.answers()
    rejected: list[KernelBanditError] = []

    def step() -> None:
        try:
            _call(living, method, parameter, ODD[odd]())
        except KernelBanditError as error:
            rejected.append(error)

    found = [raw_error(call, step)]
    after: list[Any] = []
    found.append(raw_error(f"use after {call}", lambda: after.append(living.answers())))
    if (rejected or found[0]) and after and not _same(after[0], before):
        found.append(RawError(call, f"a rejected call has moved the policy: {before} to {after[0]}", "nothing raised"))
    return [error for error in found if error is not None]


def _call(living: Living, method: str, parameter: str, value: Any) -> None:
    if method == "assign":
        if getattr(getattr(type(living.policy), parameter, None), "fset", None) is not None:
            setattr(living.policy, parameter, value)
        return
    arguments = living.methods()[method]
    if parameter.startswith("decision."):
        decision = living.learned if method in ("amend", "unlearn") else living.open
        decision = living.unrewarded if method == "withdraw" else decision
        odd = replace(decision, **{parameter.partition(".")[2]: value})
        arguments["decisions" if method == "learn_many" else "decision"] = [odd] if method == "learn_many" else odd
    else:
        arguments = {parameter: value} if method == "refit" else {**arguments, parameter: value}
    getattr(living.policy, method.partition(" ")[0])(**arguments)


def _same(first: Any, second: Any) -> bool:
    """Equal up to rounding: after a refusal some models are computed again from what they have learned."""
    (decisions, pending), (others, unrewarded) = first, second
    return pending == unrewarded and np.allclose(decisions, others, rtol=1e-9, atol=0.0, equal_nan=True)


def _posterior_outcome(owner: str, method: str, parameter: str, odd: str) -> list[RawError]:
    posterior = POSTERIORS[owner.partition(" ")[2]]()
    posterior.observe(rows(), [0.1, 0.2, 0.3, 0.4])
    before = posterior.predict(rows(seed=1))
    call = f"{owner}.{method}({parameter}={odd})"
    arguments = {**POSTERIOR_METHODS[method](), parameter: ODD[odd]()}
    rejected: list[KernelBanditError] = []

    def step() -> None:
        try:
            getattr(posterior, method)(**arguments)
        except KernelBanditError as error:
            rejected.append(error)

    found = [raw_error(call, step)]
    after: list[Any] = []
    found.append(raw_error(f"use after {call}", lambda: after.append(posterior.predict(rows(seed=1)))))
    if (rejected or found[0]) and after and not np.allclose(after[0].mean, before.mean, rtol=1e-9):
        found.append(RawError(call, "a rejected call has moved the posterior", "nothing raised"))
    return [error for error in found if error is not None]
