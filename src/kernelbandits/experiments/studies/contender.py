"""Who plays: a recipe for policies, fresh in every run."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from kernelbandits.errors import InvalidParameter
from kernelbandits.experiments.studies.grid import Grid, plain_value, settings_of, short_text
from kernelbandits.experiments.studies.registry import call_checked, close_to, takes_seed
from kernelbandits.policies.base import Policy
from kernelbandits.types import Parameters
from kernelbandits.validation import MOST_ROUNDS, check_has_methods, check_int

__all__ = ["Contender", "Entrant", "MakePolicy", "entrants_of"]

MakePolicy: TypeAlias = Callable[[np.random.Generator], Policy]


class Contender:
    """A class of policies with its arguments, any of which may be a `Grid`: one policy for each combination.

    Every run gets a fresh policy. What draws (an argument `seed`) is seeded by the run, so that results depend on the
    study and its seeds only: `seed` cannot be given here. Objects can be described in plain values, and grids may stand
    inside: `{"class": "Gaussian", "length_scale": Grid(0.1, 0.2)}`. A policy inside another one is a contender too.

    Parameters
    ----------
    make
        A class of policies, or a function that makes one; a function of a module, where processes are to call it.
    *arguments, **named
        What it is called with.
    learn_rounds
        Learn from the first so many rounds only, then just choose; None: from all.

    Examples
    --------
    >>> import kernelbandits as kb
    >>> kernel = kb.kernels.Gaussian(length_scale=0.2)
    >>> contender = Contender(kb.KernelUCB, kernel, exploration=0.1, regularization=Grid(1, 10))
    >>> [entrant.label for entrant in contender.entrants("KernelUCB")]
    ['KernelUCB, regularization=1', 'KernelUCB, regularization=10']
    >>> mixed = Contender(kb.Mixed, contender, epsilon=0.05)
    >>> [entrant.label for entrant in mixed.entrants("Mixed")]
    ['Mixed, policy.regularization=1', 'Mixed, policy.regularization=10']
    """

    def __init__(
        self, make: Callable[..., Policy], *arguments: Any, learn_rounds: int | None = None, **named: Any
    ) -> None:
        if not callable(make):
            raise InvalidParameter(f"A contender is a class of policies or a function that makes one, got {make!r}.")
        if learn_rounds is not None:
            learn_rounds = check_int(learn_rounds, "The number of rounds to learn from", least=0, most=MOST_ROUNDS)
        self.make, self.learn_rounds = make, learn_rounds
        self.arguments: Mapping[str, Any] = _by_name(make, arguments, named)
        for value in self.arguments.values():
            for part in value.values if isinstance(value, Grid) else (value,):
                _refuse_policy(part)

    def with_arguments(self, arguments: Mapping[str, Any]) -> Contender:
        """The same class with other arguments."""
        return Contender(self.make, learn_rounds=self.learn_rounds, **arguments)

    def entrants(self, name: str) -> Iterator[Entrant]:
        """A policy for each combination of grid values, labeled by it."""
        for chosen, arguments in settings_of(self.arguments):
            label = ", ".join([name, *(f"{place}={short_text(value)}" for place, value in chosen.items())])
            yield Entrant(
                label=label,
                contender=name,
                parameters={place: plain_value(value) for place, value in chosen.items()},
                make=self.with_arguments(arguments),
                learn_rounds=self.learn_rounds,
            )

    def made(self, place: str, rng: np.random.Generator | None) -> Policy:
        """A fresh policy, or InvalidParameter that names the place in the study."""
        fresh = copy.deepcopy(dict(self.arguments))  # an expert may learn: what one run taught it is no other's
        policy: Policy = call_checked(self.make, fresh, place, rng, gets_seed=takes_seed(self.make))
        return policy

    def __call__(self, rng: np.random.Generator) -> Policy:
        return self.made(getattr(self.make, "__name__", "policy"), rng)

    def __repr__(self) -> str:
        given = "".join(f", {name}={value!r}" for name, value in self.arguments.items())
        return f"Contender({getattr(self.make, '__name__', self.make)}{given})"


@dataclass(frozen=True, kw_only=True, eq=False)
class Entrant:
    """One policy of a study, with nothing left to choose."""

    label: str
    contender: str
    """Its name without grid values."""

    parameters: Parameters = field(default_factory=dict)
    """The grid values, by dotted name."""

    make: MakePolicy
    learn_rounds: int | None = None

    def fresh(self, seed: int) -> Policy:
        """A new policy for the run with this seed: its chance is the second child of the seed, the world's the first.

        An error names the policy.
        """
        rng = np.random.default_rng(np.random.SeedSequence(seed).spawn(2)[1])
        make = self.make
        policy = make.made(f"policies.{self.label}", rng) if isinstance(make, Contender) else make(rng)
        return check_has_methods(policy, f"What policies.{self.label} makes", "choose", "describe")


def entrants_of(policies: Mapping[str, Contender | MakePolicy]) -> tuple[Entrant, ...]:
    """All policies of a study: contenders with every combination of their grids, functions as they are."""
    entrants: list[Entrant] = []
    for name, given in policies.items():
        if isinstance(given, Contender):
            entrants += given.entrants(name)
        elif callable(given) and not inspect.isclass(given):
            entrants.append(Entrant(label=name, contender=name, make=given))
        else:
            raise InvalidParameter(
                f"policies.{name}: a policy of a study is a recipe, so that every run gets a fresh one: "
                f"Contender(KernelUCB, kernel, exploration=0.1) or a function of a random generator, got {given!r:.80}."
            )
    _refuse_equal_labels(entrants)
    return tuple(entrants)


def _refuse_equal_labels(entrants: Sequence[Entrant]) -> None:
    seen = set()
    for entrant in entrants:
        if entrant.label in seen:
            raise InvalidParameter(
                f"Two policies would be called {entrant.label!r}. Give every grid different values, and every policy a "
                "name of its own."
            )
        seen.add(entrant.label)


def _by_name(make: Callable[..., Policy], arguments: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
    """All arguments by name, or InvalidParameter."""
    name = getattr(make, "__name__", type(make).__name__)
    if "seed" in named:
        raise InvalidParameter(
            f"{name} is seeded by the run, so that results depend on the study's seeds only. Leave `seed` out."
        )
    signature = inspect.signature(make)
    unknown = [key for key in named if key not in signature.parameters]
    if unknown and not any(part.kind is part.VAR_KEYWORD for part in signature.parameters.values()):
        raise InvalidParameter(f"{name} takes no {unknown[0]!r}.{close_to(unknown[0], signature.parameters)}")
    try:
        bound = signature.bind_partial(*arguments)
    except TypeError as error:
        raise InvalidParameter(f"{name}: {error}. Give the arguments by name.") from error
    if any(signature.parameters[key].kind is inspect.Parameter.VAR_POSITIONAL for key in bound.arguments):
        raise InvalidParameter(f"{name} has no names for some of its arguments. Give them by name.")
    twice = bound.arguments.keys() & named.keys()
    if twice:
        raise InvalidParameter(f"{name} was given {min(twice)!r} twice.")
    return {**bound.arguments, **named}


def _refuse_policy(value: Any) -> None:
    if isinstance(value, Policy):
        raise InvalidParameter(
            f"A {type(value).__name__} that exists already would learn in every run of the study. Give a recipe: "
            f"Contender({type(value).__name__}, ...)."
        )
