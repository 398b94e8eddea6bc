"""Policy specifications: a class with its arguments and grids, from Python objects or from plain values.

Classes in plain values are looked up in a fixed registry of what the packages of this library publish. Nothing is
imported by a name that a file holds. A class of a user's own stands in the values itself, in place of its name.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache, cached_property
from itertools import product
from math import prod
from types import ModuleType
from typing import Any, Final, Protocol, TypeAlias

import numpy as np

from kernelbandits import environments, kernels, policies, theory
from kernelbandits.environments.base import Environment
from kernelbandits.errors import InvalidParameter, KernelBanditError
from kernelbandits.evaluation import start_world
from kernelbandits.kernels.kinds import unpack_kind
from kernelbandits.policies import experts
from kernelbandits.policies.base import Policy
from kernelbandits.posterior import posterior_factory
from kernelbandits.types import Parameters
from kernelbandits.validation import MOST_ROUNDS, check_has_methods, check_int

__all__ = [
    "Grid",
    "MakePolicy",
    "PolicySpec",
    "PolicyVariant",
    "RunInfo",
    "all_variants",
    "build_value",
    "construct",
    "expand_grids",
    "find_class",
    "known_classes",
    "needs_run",
    "plain_value",
    "short_text",
    "suggest",
    "takes_seed",
]


MOST_SETTINGS: Final = 100_000
"""Largest number of combinations of the grid values of one specification."""


class Grid:
    """Values to try in place of one; every combination with other grids is a policy variant.

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


def expand_grids(arguments: Mapping[str, Any]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Every combination of grid values, by dotted name, with the resulting arguments.

    >>> for chosen, made in expand_grids({"kernel": {"class": "Gaussian", "length_scale": Grid(0.1, 0.2)}}):
    ...     print(chosen, made)
    {'kernel.length_scale': 0.1} {'kernel': {'class': 'Gaussian', 'length_scale': 0.1}}
    {'kernel.length_scale': 0.2} {'kernel': {'class': 'Gaussian', 'length_scale': 0.2}}
    """
    grids = dict(_find_grids(arguments, ""))
    n_settings = prod(len(grid.values) for grid in grids.values())
    if n_settings > MOST_SETTINGS:
        raise InvalidParameter(
            f"Grids make at most {MOST_SETTINGS:,} combinations, got {n_settings:,}. Give fewer values, or fewer grids."
        )
    for values in product(*(grid.values for grid in grids.values())):
        chosen = dict(zip(grids, values, strict=True))
        yield chosen, _replace_grids(arguments, "", chosen)


def _find_grids(value: Any, place: str) -> Iterator[tuple[str, Grid]]:
    if isinstance(value, Grid):
        yield place, value
    for name, inner in _parts(value):
        yield from _find_grids(inner, _join(place, name))


def _replace_grids(value: Any, place: str, chosen: Mapping[str, Any]) -> Any:
    """Replace grids by the chosen values."""
    if isinstance(value, Grid):
        return chosen[place]
    made = {name: _replace_grids(inner, _join(place, name), chosen) for name, inner in _parts(value)}
    if isinstance(value, PolicySpec):
        return value.with_arguments(made)
    if isinstance(value, Mapping):
        return made
    return list(made.values()) if isinstance(value, list) else value


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """Parts of a value that may contain a grid, by name: entries of tables, lists and specifications."""
    if isinstance(value, PolicySpec):
        value = value.arguments
    if isinstance(value, Mapping):
        yield from value.items()
    elif isinstance(value, list):
        yield from ((str(place), part) for place, part in enumerate(value))


def _join(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name


def short_text(value: Any) -> str:
    """A value as text in a label.

    >>> short_text({"class": "Gaussian", "length_scale": 0.1}), short_text("lowest"), short_text(1e-05)
    ('Gaussian(length_scale=0.1)', 'lowest', '1e-05')
    """
    if isinstance(value, Mapping):
        if set(value) == {"function"}:
            return short_text(value["function"])
        name = short_text(value.get("class", value.get("name", "")))
        inner = ", ".join(f"{key}={short_text(part)}" for key, part in value.items() if key not in ("class", "name"))
        return f"{name}({inner})" if inner else str(name)
    if inspect.isclass(value) or inspect.isroutine(value):
        return str(value.__name__)
    return value if isinstance(value, str) else repr(value)


def plain_value(value: Any) -> Any:
    """A value as stored in files: its `describe()`, or the value itself if it is plain."""
    if hasattr(value, "describe") and not inspect.isclass(value):
        return value.describe()
    if isinstance(value, Mapping):
        return {str(name): plain_value(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain_value(part) for part in value]
    if hasattr(value, "item"):  # a NumPy number
        return value.item()
    return value if value is None or isinstance(value, bool | int | float | str) else short_text(value)


@cache
def _registry() -> dict[str, dict[str, type]]:
    """Classes that a description can name, by family."""
    schedules = _published(theory, lambda kind: hasattr(kind, "violated_assumption"))
    worlds = _published(environments, lambda kind: hasattr(kind, "start") and hasattr(kind, "describe"))
    parts = _published(policies, lambda kind: not issubclass(kind, Policy) and not issubclass(kind, tuple))
    advice = _published(experts, lambda kind: not issubclass(kind, Policy))
    return {
        "kernel": _published(kernels, lambda kind: issubclass(kind, kernels.Kernel)),
        "exploration": schedules,
        "policy": _published(policies, lambda kind: issubclass(kind, Policy)),
        "environment": worlds,
        "part": {**parts, **advice},
    }


def _published(package: ModuleType, belongs: Callable[[type], bool]) -> dict[str, type]:
    """Concrete classes that a package publishes and that belong to a family."""
    published = ((name, getattr(package, name)) for name in package.__all__)
    return {
        name: kind
        for name, kind in published
        if inspect.isclass(kind) and not inspect.isabstract(kind) and Protocol not in kind.__bases__ and belongs(kind)
    }


def known_classes() -> dict[str, type]:
    """All classes of the library that a study can name."""
    return {name: kind for family in _registry().values() for name, kind in family.items()}


NEEDED: Final = {
    "policy": ("choose", "An own policy inherits kernelbandits.policies.Policy."),
    "environment": ("start", "An own environment has start(rng) and describe()."),
}
"""Method by which a class of a user's own is recognized, and the remedy, by family."""


def _check_own(kind: Callable[..., Any], place: str, family: str | None) -> Callable[..., Any]:
    """Check a class of a user's own; what a function builds is checked when it is built."""
    method, remedy = NEEDED.get(family or "", ("__init__", ""))
    if inspect.isclass(kind) and not hasattr(kind, method):
        raise InvalidParameter(
            f"{place}: every {family} has {method}(), and the class {kind.__name__} has not. {remedy}"
        )
    return kind


def find_class(name: Any, place: str, family: str | None = None) -> Callable[..., Any]:
    """Return the class of this name, in one family or in any; errors name the place and close matches.

    A class or function of a user's own, in place of its name, is returned as it is.
    """
    if callable(name):
        return _check_own(name, place, family)
    known = _registry()
    searched = list(known) if family not in known else [family]
    for kind in searched:
        if isinstance(name, str) and name in known[kind]:
            return known[kind][name]
    names = [known_name for kind in searched for known_name in known[kind]]
    what = f"{family} class" if family in known else "class"
    if name is None:
        raise InvalidParameter(f'{place}: the name of a {what} is missing: class = "…".{suggest(name, names)}')
    raise InvalidParameter(
        f"{place}: no {what} {name!r} is known.{suggest(name, names)} A class of your own needs its file: "
        "--with FILE.py, or classes=[...] in Python."
    )


def suggest(name: Any, names: Iterable[str]) -> str:
    """Close matches as the end of a message; all names if none is close."""
    known = sorted(set(names))
    lowered = {known_name.lower(): known_name for known_name in known}
    close = [lowered[found] for found in get_close_matches(str(name).lower(), lowered)]
    if close:
        return f" Did you mean {' or '.join(map(repr, close))}?"
    return f" There are: {', '.join(known) or 'none'}."


def build_value(value: Any, place: str, rng: np.random.Generator | None = None) -> Any:
    """Build every object that a value describes.

    A table with `class` is an object of that class, built from its other entries; one under the name `posterior` names
    a form of posterior (`{"name": "windowed", "length": 200}`); `kind` names a kind of points. Randomized policies
    inside get a separate generator, spawned from `rng`.
    """
    name = place.rpartition(".")[2]
    if isinstance(value, Mapping) and name == "posterior" and set(value) != {"function"}:
        return _build_posterior(value, place)
    if isinstance(value, Mapping) and set(value) == {"function"} and callable(value["function"]):
        return value["function"]
    if name == "kind" and isinstance(value, str | dict):
        return _located(place, unpack_kind, value)
    if isinstance(value, Mapping):
        if "class" not in value:
            raise InvalidParameter(
                f'{place}: a table needs its class, such as class = "Gaussian", got {dict(value)!r}.'
            )
        kind = find_class(value["class"], place, name if name == "exploration" else None)
        if rng is not None and "seed" in value and _builds_policy(kind):
            raise InvalidParameter(
                f"{place}: {_name_of(kind)} is seeded by the run, so that results depend on the study's seeds only. "
                "Leave `seed` out."
            )
        return construct(kind, {key: part for key, part in value.items() if key != "class"}, place, rng)
    if isinstance(value, list):
        return [build_value(part, f"{place}.{row}", rng) for row, part in enumerate(value)]
    if isinstance(value, PolicySpec):
        return value.build(place, None if rng is None else rng.spawn(1)[0])
    return value


def construct(
    make: Callable[..., Any],
    arguments: Mapping[str, Any],
    place: str,
    rng: np.random.Generator | None = None,
    *,
    gets_seed: bool | None = None,
) -> Any:
    """Build the arguments and call `make`; errors name the place and close matches."""
    check_arguments(make, arguments, place)
    values = {key: build_value(part, f"{place}.{key}", rng) for key, part in arguments.items()}
    if gets_seed is None:
        gets_seed = _builds_policy(make) and takes_seed(make)
    if gets_seed and "seed" not in values and rng is not None:
        values["seed"] = rng.spawn(1)[0]
    if "reward_range" in values and values["reward_range"] is not None:
        values["reward_range"] = tuple(values["reward_range"])
    return _located(place, make, **values)


def check_arguments(make: Callable[..., Any], arguments: Mapping[str, Any], place: str) -> None:
    """Raise InvalidParameter for an unknown or a missing argument; a seed comes from the run."""
    signature = inspect.signature(make)
    if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in signature.parameters.values()):
        for name in arguments:
            if name not in signature.parameters:
                raise InvalidParameter(
                    f"{place}: {_name_of(make)} takes no {name!r}.{suggest(name, signature.parameters)}"
                )
    from_run = {"seed": None} if "seed" in signature.parameters and _builds_policy(make) else {}
    try:
        signature.bind(**{**from_run, **arguments})
    except TypeError as error:
        raise InvalidParameter(f"{place}: {_name_of(make)} is {error}.") from error


def _builds_policy(make: Callable[..., Any]) -> bool:
    """Whether it is a class of policies, or a function of a user's own, which gets a generator if it takes a seed."""
    return issubclass(make, Policy) if inspect.isclass(make) else inspect.isfunction(make)


def takes_seed(make: Callable[..., Any]) -> bool:
    """Whether it has a parameter `seed`."""
    return "seed" in inspect.signature(make).parameters


@dataclass(frozen=True)
class _OwnPosterior:
    """Function (kernel, regularization) → posterior of a user's own class, with its options."""

    kind: Callable[..., Any]
    options: Mapping[str, Any]

    def __call__(self, kernel: kernels.Kernel, regularization: float) -> Any:
        return self.kind(kernel, regularization=regularization, **self.options)

    def describe(self) -> Parameters:
        """Class and options as plain values."""
        return {"class": _name_of(self.kind), **plain_value(self.options)}


def _build_posterior(value: Mapping[str, Any], place: str) -> Any:
    if "class" in value:
        options = {key: part for key, part in value.items() if key != "class"}
        return _OwnPosterior(find_class(value["class"], place), options)
    options = {key: part for key, part in value.items() if key != "name"}
    return _located(place, posterior_factory, value.get("name", ""), **options)


def _located(place: str, make: Callable[..., Any], /, *given: Any, **named: Any) -> Any:
    try:
        return make(*given, **named)
    except (KernelBanditError, TypeError, ValueError) as error:
        raise InvalidParameter(f"{place}: {error}") from error


def _name_of(make: Callable[..., Any]) -> str:
    return getattr(make, "__name__", type(make).__name__)


@dataclass(frozen=True, eq=False)
class RunInfo:
    """What a policy may know of a run before its first round."""

    environment: Environment
    horizon: int
    seed: int

    @cached_property
    def contexts(self) -> Any:
        """Contexts of the first round, which are those of every round if the actions are fixed."""
        return start_world(self.environment, self.seed).observe().contexts


MakePolicy: TypeAlias = Callable[[np.random.Generator], Policy] | Callable[[RunInfo], Policy]
"""A function of a random generator, or of a `RunInfo` if its parameter is named `run`."""


def needs_run(make: Callable[..., Any]) -> bool:
    """Whether a function builds a policy for the actions of a run, so that its description depends on the run."""
    return not isinstance(make, PolicySpec) and "run" in inspect.signature(make).parameters


class PolicySpec:
    """A class of policies with its arguments, any of which may be a `Grid`: one variant per combination.

    Every run builds a new policy. An argument `seed` is set by the run, so that results depend on the study and its
    seeds only; it cannot be given here. Objects can be described in plain values that contain grids:
    `{"class": "Gaussian", "length_scale": Grid(0.1, 0.2)}`. A policy inside another one is a specification too.

    Parameters
    ----------
    make
        A class of policies, or a function that builds one; a module-level function if other processes call it.
    *arguments, **named
        Arguments of the call.
    learn_rounds
        Learn from the first `learn_rounds` rounds only, and only choose in all others; None learns from all.

    Examples
    --------
    >>> import kernelbandits as kb
    >>> kernel = kb.kernels.Gaussian(length_scale=0.2)
    >>> spec = PolicySpec(kb.KernelUCB, kernel, exploration=0.1, regularization=Grid(1, 10))
    >>> [variant.label for variant in spec.variants("KernelUCB")]
    ['KernelUCB, regularization=1', 'KernelUCB, regularization=10']
    >>> mixed = PolicySpec(kb.Mixed, spec, epsilon=0.05)
    >>> [variant.label for variant in mixed.variants("Mixed")]
    ['Mixed, policy.regularization=1', 'Mixed, policy.regularization=10']
    """

    def __init__(
        self, make: Callable[..., Policy], *arguments: Any, learn_rounds: int | None = None, **named: Any
    ) -> None:
        if not callable(make):
            raise InvalidParameter(
                f"A PolicySpec needs a class of policies or a function that builds one, got {make!r}."
            )
        if learn_rounds is not None:
            learn_rounds = check_int(learn_rounds, "The number of rounds to learn from", least=0, most=MOST_ROUNDS)
        self.make, self.learn_rounds = make, learn_rounds
        self.arguments: Mapping[str, Any] = _named_arguments(make, arguments, named)
        for value in self.arguments.values():
            for part in value.values if isinstance(value, Grid) else (value,):
                _check_not_built(part)

    def with_arguments(self, arguments: Mapping[str, Any]) -> PolicySpec:
        """Return the same class with other arguments."""
        return PolicySpec(self.make, learn_rounds=self.learn_rounds, **arguments)

    def variants(self, name: str) -> Iterator[PolicyVariant]:
        """One variant per combination of grid values, labeled by it."""
        for chosen, arguments in expand_grids(self.arguments):
            label = ", ".join([name, *(f"{place}={short_text(value)}" for place, value in chosen.items())])
            yield PolicyVariant(
                label=label,
                spec_name=name,
                parameters={place: plain_value(value) for place, value in chosen.items()},
                make=self.with_arguments(arguments),
                learn_rounds=self.learn_rounds,
            )

    def build(self, place: str, rng: np.random.Generator | None) -> Policy:
        """Build a new policy; an error names the place in the study."""
        fresh = copy.deepcopy(dict(self.arguments))  # an expert may learn: runs must not share it
        policy: Policy = construct(self.make, fresh, place, rng, gets_seed=takes_seed(self.make))
        return policy

    def __call__(self, rng: np.random.Generator) -> Policy:
        return self.build(getattr(self.make, "__name__", "policy"), rng)

    def __repr__(self) -> str:
        given = "".join(f", {name}={value!r}" for name, value in self.arguments.items())
        return f"PolicySpec({getattr(self.make, '__name__', self.make)}{given})"


@dataclass(frozen=True, kw_only=True, eq=False)
class PolicyVariant:
    """One policy of a study, without grids."""

    label: str
    spec_name: str
    """Name of its specification: the label without grid values."""

    parameters: Parameters = field(default_factory=dict)
    """The grid values, by dotted name."""

    make: MakePolicy
    learn_rounds: int | None = None

    def build(self, seed: int, run: RunInfo | None = None) -> Policy:
        """Build a new policy for the run with this seed; an error names the policy.

        Its random state is the second child of the seed; the first is that of the environment.
        """
        rng = np.random.default_rng(np.random.SeedSequence(seed).spawn(2)[1])
        make = self.make
        policy: Any
        if isinstance(make, PolicySpec):
            policy = make.build(f"policies.{self.label}", rng)
        elif needs_run(make):
            if run is None:
                raise InvalidParameter(
                    f"policies.{self.label} is built for the actions of a run, so only a study can build it."
                )
            policy = make(run)  # type: ignore[arg-type]
        else:
            policy = make(rng)  # type: ignore[arg-type]
        built: Policy = check_has_methods(policy, f"The policy of policies.{self.label}", "choose", "describe")
        return built


def all_variants(policies: Mapping[str, PolicySpec | MakePolicy]) -> tuple[PolicyVariant, ...]:
    """All policies of a study: specifications with every combination of their grids, functions as they are."""
    variants: list[PolicyVariant] = []
    for name, given in policies.items():
        if isinstance(given, PolicySpec):
            variants += given.variants(name)
        elif callable(given) and not inspect.isclass(given):
            variants.append(PolicyVariant(label=name, spec_name=name, make=given))
        else:
            raise InvalidParameter(
                f"policies.{name}: every run builds a new policy, so a study needs PolicySpec(KernelUCB, kernel, "
                f"exploration=0.1) or a function of a random generator, got {given!r:.80}."
            )
    _check_labels(variants)
    return tuple(variants)


def _check_labels(variants: Sequence[PolicyVariant]) -> None:
    seen = set()
    for variant in variants:
        if variant.label in seen:
            raise InvalidParameter(
                f"Two policies would be called {variant.label!r}. Give every grid different values, and every policy "
                "its own name."
            )
        seen.add(variant.label)


def _named_arguments(
    make: Callable[..., Policy], arguments: tuple[Any, ...], named: Mapping[str, Any]
) -> dict[str, Any]:
    """All arguments by name, or InvalidParameter."""
    name = _name_of(make)
    if "seed" in named:
        raise InvalidParameter(
            f"{name} is seeded by the run, so that results depend on the study's seeds only. Leave `seed` out."
        )
    signature = inspect.signature(make)
    unknown = [key for key in named if key not in signature.parameters]
    if unknown and not any(part.kind is part.VAR_KEYWORD for part in signature.parameters.values()):
        raise InvalidParameter(f"{name} takes no {unknown[0]!r}.{suggest(unknown[0], signature.parameters)}")
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


def _check_not_built(value: Any) -> None:
    if isinstance(value, Policy):
        raise InvalidParameter(
            f"An existing {type(value).__name__} would learn in every run of the study. Give a specification: "
            f"PolicySpec({type(value).__name__}, ...)."
        )
