"""Experts to plain values and arrays, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, Final

from kernelbandits.errors import CannotSave, ForeignFile
from kernelbandits.policies.experts.advice import Constant, Expert, Uniform

__all__ = ["packed_experts", "unpacked_experts"]

KNOWN: Final[Mapping[str, type[Any]]] = {expert.__name__: expert for expert in (Constant, Uniform)}
"""What a file may name. Nothing is imported by a name found in a file."""


def packed_experts(experts: Sequence[Expert]) -> list[dict[str, Any]]:
    """The experts' fields, or CannotSave where one of them is no expert of the library."""
    packed = []
    for expert in experts:
        name = type(expert).__name__
        if KNOWN.get(name) is not type(expert):
            raise CannotSave(f"An expert of your own ({name}) cannot be saved; those of the library can.")
        packed.append({"class": name, **{part.name: getattr(expert, part.name) for part in fields(expert)}})  # type: ignore[arg-type]
    return packed


def unpacked_experts(packed: Sequence[Mapping[str, Any]]) -> list[Expert]:
    """Inverse of `packed_experts`."""
    experts: list[Expert] = []
    for values in packed:
        arguments = dict(values)
        name = arguments.pop("class")
        if name not in KNOWN:
            raise ForeignFile(f"The file holds an expert {name!r}, which is not known here.")
        experts.append(KNOWN[name](**arguments))
    return experts
