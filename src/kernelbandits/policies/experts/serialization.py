"""Saving and loading of experts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, Final

from kernelbandits.errors import CannotSave, ForeignFile
from kernelbandits.policies.experts.base import Expert
from kernelbandits.policies.experts.library import (
    ConstantExpert,
    FiniteClass,
    GreedyRidge,
    LinearScorer,
    PolicyClass,
    Stump,
    StumpClass,
    UniformExpert,
)

__all__ = ["packed_class", "packed_experts", "unpacked_class", "unpacked_experts"]

KNOWN: Final[Mapping[str, type[Any]]] = {
    expert.__name__: expert for expert in (ConstantExpert, GreedyRidge, LinearScorer, Stump, UniformExpert)
}
"""Classes that a file may name. Nothing is imported by a name found in a file."""


def packed_experts(experts: Sequence[Expert]) -> list[dict[str, Any]]:
    """Return the experts' fields; raise CannotSave if one of them is not an expert of the library."""
    packed = []
    for expert in experts:
        name = type(expert).__name__
        if KNOWN.get(name) is not type(expert):
            raise CannotSave(f"An expert of your own ({name}) cannot be saved; those of the library can.")
        packed.append({"class": name, **_content(expert)})
    return packed


def unpacked_experts(packed: Sequence[Mapping[str, Any]]) -> list[Expert]:
    """Inverse of `packed_experts`."""
    experts: list[Expert] = []
    for values in packed:
        arguments = dict(values)
        name = arguments.pop("class")
        if name not in KNOWN:
            raise ForeignFile(f"The file holds an expert {name!r}, which is not known here.")
        kind = KNOWN[name]
        experts.append(kind.unpack(arguments) if hasattr(kind, "unpack") else kind(**arguments))
    return experts


def packed_class(policies: PolicyClass) -> dict[str, Any]:
    """Return the content of a policy class; raise CannotSave if it is not one of the library."""
    if isinstance(policies, FiniteClass):
        return {"class": "FiniteClass", "experts": packed_experts(policies.panel.experts)}
    if isinstance(policies, StumpClass):
        return policies.describe()
    raise CannotSave(
        f"A class of policies of your own ({type(policies).__name__}) cannot be saved; those of the library can."
    )


def unpacked_class(packed: Mapping[str, Any]) -> PolicyClass:
    """Inverse of `packed_class`."""
    if packed["class"] == "FiniteClass":
        return FiniteClass(unpacked_experts(packed["experts"]))
    if packed["class"] == "StumpClass":
        return StumpClass(packed["columns"], n_actions=packed["n_actions"])
    raise ForeignFile(f"The file holds a class of policies {packed['class']!r}, which is not known here.")


def _content(expert: Any) -> dict[str, Any]:
    """Return the fields of an expert, or the result of its `pack` if they are not plain values."""
    if hasattr(expert, "pack"):
        return dict(expert.pack())
    return {part.name: getattr(expert, part.name) for part in fields(expert)}
