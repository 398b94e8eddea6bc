"""Policy specifications: a class with arguments and grids, built anew in every run."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from itertools import product
from math import prod
from types import ModuleType
from typing import Any, Final, Protocol, TypeAlias, runtime_checkable

import numpy as np

from kernelbandits import environments, kernels, policies, theory
from kernelbandits.errors import InvalidParameter, KernelBanditError
from kernelbandits.kernels.kinds import unpack_kind
from kernelbandits.policies import experts
from kernelbandits.policies.base import Policy
from kernelbandits.posterior import posterior_factory
from kernelbandits.types import Parameters
from kernelbandits.validation import MOST_ROUNDS, check_has_methods, check_int

__all__ = [
    "Contender",
    "Entrant",
    "Grid",
    "MakePolicy",
    "Recipe",
    "built",
    "call_checked",
    "class_named",
    "close_to",
    "entrants_of",
    "plain_value",
    "settings_of",
    "short_text",
    "takes_seed",
]


@runtime_checkable
class Recipe(Protocol):
    """Something to be made of arguments, later."""

    arguments: Mapping[str, Any]

    def with_arguments(self, arguments: Mapping[str, Any]) -> Recipe:
        """The same with other arguments."""

    def made(self, place: str, rng: np.random.Generator | None) -> Any:
        """What it makes; an error names the place."""


MOST_SETTINGS: Final = 100_000
"""Combinations of the values of a contender's grids; each is a policy of the study."""


class Grid:
    """Values to try in place of one; every combination with other grids becomes a policy of its own.

    >>> Grid(1, 10, 100)
    Grid(1, 10, 100)
    """

    __slots__ = ("values",)

    def __init__(self, *values: Any) -> None:
        if not values:
            raise InvalidParameter("A grid holds at least one value: Grid(0.1, 1.0).")
        self.values = values

    def __repr__(self) -> str:
        return f"Grid({', '.join(map(repr, self.values))})"


def settings_of(arguments: Mapping[str, Any]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Every combination of grid values, by dotted name, with the arguments that it makes.

    >>> for chosen, made in settings_of({"kernel": {"class": "Gaussian", "length_scale": Grid(0.1, 0.2)}}):
    ...     print(chosen, made)
    {'kernel.length_scale': 0.1} {'kernel': {'class': 'Gaussian', 'length_scale': 0.1}}
    {'kernel.length_scale': 0.2} {'kernel': {'class': 'Gaussian', 'length_scale': 0.2}}
    """
    grids = dict(_grids(arguments, ""))
    n_settings = prod(len(grid.values) for grid in grids.values())
    if n_settings > MOST_SETTINGS:
        raise InvalidParameter(
            f"Grids make at most {MOST_SETTINGS:,} combinations, got {n_settings:,}. Give fewer values, or fewer grids."
        )
    for values in product(*(grid.values for grid in grids.values())):
        chosen = dict(zip(grids, values, strict=True))
        yield chosen, _with_values(arguments, "", chosen)


def _grids(value: Any, place: str) -> Iterator[tuple[str, Grid]]:
    if isinstance(value, Grid):
        yield place, value
    for name, inner in _inside(value):
        yield from _grids(inner, _below(place, name))


def _with_values(value: Any, place: str, chosen: Mapping[str, Any]) -> Any:
    """The same with the chosen values in place of grids."""
    if isinstance(value, Grid):
        return chosen[place]
    made = {name: _with_values(inner, _below(place, name), chosen) for name, inner in _inside(value)}
    if isinstance(value, Recipe):
        return value.with_arguments(made)
    if isinstance(value, Mapping):
        return made
    return list(made.values()) if isinstance(value, list) else value


def _inside(value: Any) -> Iterator[tuple[str, Any]]:
    """What a value is made of, by name, where a grid could stand in it: tables, lists, recipes."""
    if isinstance(value, Recipe):
        value = value.arguments
    if isinstance(value, Mapping):
        yield from value.items()
    elif isinstance(value, list):
        yield from ((str(place), part) for place, part in enumerate(value))


def _below(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name


def short_text(value: Any) -> str:
    """A value as it stands in a label.

    >>> short_text({"class": "Gaussian", "length_scale": 0.1}), short_text("lowest"), short_text(1e-05)
    ('Gaussian(length_scale=0.1)', 'lowest', '1e-05')
    """
    if isinstance(value, Mapping):
        name = value.get("class", value.get("name", ""))
        inner = ", ".join(f"{key}={short_text(part)}" for key, part in value.items() if key not in ("class", "name"))
        return f"{name}({inner})" if inner else str(name)
    return value if isinstance(value, str) else repr(value)


def plain_value(value: Any) -> Any:
    """A value as files keep it: what `describe()` says of it, or the value itself where that is plain already."""
    if hasattr(value, "describe"):
        return value.describe()
    if isinstance(value, Mapping):
        return {str(name): plain_value(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain_value(part) for part in value]
    if hasattr(value, "item"):  # a NumPy number
        return value.item()
    return value if value is None or isinstance(value, bool | int | float | str) else short_text(value)


@cache
def _families() -> dict[str, dict[str, type]]:
    """Classes that a description can name, by what they are."""
    schedules = _classes(theory, lambda kind: hasattr(kind, "violated_assumption"))
    worlds = _classes(environments, lambda kind: hasattr(kind, "start") and hasattr(kind, "describe"))
    parts = _classes(policies, lambda kind: not issubclass(kind, Policy) and not issubclass(kind, tuple))
    advice = _classes(experts, lambda kind: not issubclass(kind, Policy))
    return {
        "kernel": _classes(kernels, lambda kind: issubclass(kind, kernels.Kernel)),
        "exploration": schedules,
        "policy": _classes(policies, lambda kind: issubclass(kind, Policy)),
        "environment": worlds,
        "part": {**parts, **advice},
    }


def _classes(package: ModuleType, belongs: Callable[[type], bool]) -> dict[str, type]:
    """Those that a package publishes, that can be made, and that belong."""
    published = ((name, getattr(package, name)) for name in package.__all__)
    return {
        name: kind
        for name, kind in published
        if inspect.isclass(kind) and not inspect.isabstract(kind) and Protocol not in kind.__bases__ and belongs(kind)
    }


def class_named(name: Any, place: str, family: str | None = None) -> type:
    """The class of that name, of one family or of any; InvalidParameter that names the place and close matches."""
    known = _families()
    searched = list(known) if family not in known else [family]
    for kind in searched:
        if isinstance(name, str) and name in known[kind]:
            return known[kind][name]
    names = [known_name for kind in searched for known_name in known[kind]]
    what = f"{family} class" if family in known else "class"
    raise InvalidParameter(f"{place}: no {what} {name!r} is known.{close_to(name, names)}")


def close_to(name: Any, names: Iterable[str]) -> str:
    """Names like this one, as the end of a message; all of them where none is close and they are few."""
    known = sorted(set(names))
    lowered = {known_name.lower(): known_name for known_name in known}
    close = [lowered[found] for found in get_close_matches(str(name).lower(), lowered)]
    if close:
        return f" Did you mean {' or '.join(map(repr, close))}?"
    return f" There are: {', '.join(known) or 'none'}."


def built(value: Any, place: str, rng: np.random.Generator | None = None) -> Any:
    """The value with every description in it made into what it describes.

    A table with `class` is an object of that class, made of its other entries; one under the name `posterior` names a
    form of posterior (`{"name": "windowed", "length": 200}`); `kind` names a kind of points. Policies inside that draw
    get a generator of their own, spawned from `rng`.
    """
    name = place.rpartition(".")[2]
    if isinstance(value, Mapping) and "class" not in value and name == "posterior":
        return _named_posterior(value, place)
    if name == "kind" and isinstance(value, str | dict):
        return _reporting(place, unpack_kind, value)
    if isinstance(value, Mapping):
        if "class" not in value:
            raise InvalidParameter(
                f'{place}: a table needs its class, such as class = "Gaussian", got {dict(value)!r}.'
            )
        kind = class_named(value["class"], place, name if name == "exploration" else None)
        return call_checked(kind, {key: part for key, part in value.items() if key != "class"}, place, rng)
    if isinstance(value, list):
        return [built(part, f"{place}.{row}", rng) for row, part in enumerate(value)]
    if isinstance(value, Recipe):
        return value.made(place, None if rng is None else rng.spawn(1)[0])
    return value


def call_checked(
    make: Callable[..., Any],
    arguments: Mapping[str, Any],
    place: str,
    rng: np.random.Generator | None = None,
    *,
    gets_seed: bool | None = None,
) -> Any:
    """Call with the arguments built; what is wrong with them is said with the place, and with close matches."""
    refuse_unknown(make, arguments, place)
    values = {key: built(part, f"{place}.{key}", rng) for key, part in arguments.items()}
    if gets_seed is None:
        gets_seed = inspect.isclass(make) and issubclass(make, Policy) and takes_seed(make)
    if gets_seed and "seed" not in values and rng is not None:
        values["seed"] = rng.spawn(1)[0]
    if "reward_range" in values and values["reward_range"] is not None:
        values["reward_range"] = tuple(values["reward_range"])
    return _reporting(place, make, **values)


def refuse_unknown(make: Callable[..., Any], arguments: Mapping[str, Any], place: str) -> None:
    """InvalidParameter for an argument that is not taken, or one that is missing."""
    signature = inspect.signature(make)
    if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in signature.parameters.values()):
        for name in arguments:
            if name not in signature.parameters:
                raise InvalidParameter(
                    f"{place}: {_name_of(make)} takes no {name!r}.{close_to(name, signature.parameters)}"
                )
    try:
        signature.bind(**arguments)
    except TypeError as error:
        raise InvalidParameter(f"{place}: {_name_of(make)} is {error}.") from error


def takes_seed(make: Callable[..., Any]) -> bool:
    """Whether it has an argument called `seed`."""
    return "seed" in inspect.signature(make).parameters


def _named_posterior(value: Mapping[str, Any], place: str) -> Any:
    options = {key: part for key, part in value.items() if key != "name"}
    return _reporting(place, posterior_factory, value.get("name", ""), **options)


def _reporting(place: str, make: Callable[..., Any], *given: Any, **named: Any) -> Any:
    try:
        return make(*given, **named)
    except (KernelBanditError, TypeError, ValueError) as error:
        raise InvalidParameter(f"{place}: {error}") from error


def _name_of(make: Callable[..., Any]) -> str:
    return getattr(make, "__name__", type(make).__name__)


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
