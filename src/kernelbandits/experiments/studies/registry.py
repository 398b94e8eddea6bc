"""Objects from plain values: `{"class": "Gaussian", "length_scale": 0.1}` becomes a kernel.

Classes are looked up in a fixed registry, made of what the packages of this library publish. Nothing is ever imported
by a name that a file holds.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from functools import cache
from types import ModuleType
from typing import Any, Protocol

import numpy as np

from kernelbandits import environments, kernels, policies, theory
from kernelbandits.errors import InvalidParameter, KernelBanditError
from kernelbandits.experiments.studies.grid import Recipe
from kernelbandits.kernels.kinds import unpack_kind
from kernelbandits.policies import experts
from kernelbandits.policies.base import Policy
from kernelbandits.posterior import posterior_factory

__all__ = ["built", "call_checked", "class_named", "close_to", "takes_seed"]


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
