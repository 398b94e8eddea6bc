"""Values to try: a grid in place of a value, however deep, and the settings that grids span."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from math import prod
from typing import Any, Final, Protocol, runtime_checkable

import numpy as np

from kernelbandits.errors import InvalidParameter

__all__ = ["Grid", "Recipe", "plain_value", "settings_of", "short_text"]


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
