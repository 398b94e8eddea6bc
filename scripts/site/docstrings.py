"""Docstrings as the site's reader of them wants them; in the source they stay as people want them."""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from typing import Any

import griffe
from scripts.site.names import linked

from kernelbandits._parameters import Parametrized

__all__ = ["ReadableDocstrings", "readable"]

PARAGRAPHS = re.compile(r"\n\s*\n")
LISTS = {"Parameters", "Other Parameters", "Attributes", "Returns"}
TOGETHER = re.compile(r"\w+(?:, \w+)+")
SECTION = re.compile(r"\A\w[\w ]*\n-{3,}(\n|\Z)")


class ReadableDocstrings(griffe.Extension):
    """Examples become blocks of code, references a section, names in back-ticks links, and parameters a signature."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite one docstring, once it was read; add the constructor that follows from declared parameters."""
        if obj.is_class and "policies" in obj.path and "__init__" not in obj.members:
            _add_constructor(obj)
        if obj.docstring is not None:
            package = obj.path.split(".")[1] if "." in obj.path else ""
            text = readable(obj.docstring.value)
            obj.docstring.value = linked(in_one_line(text) if obj.is_attribute else text, within=package)


def _add_constructor(obj: griffe.Object) -> None:
    """Give a class with declared parameters the constructor that it has at run time."""
    found = getattr(import_module(obj.module.path), obj.name, None)
    if not (isinstance(found, type) and issubclass(found, Parametrized)):
        return
    parameters = griffe.Parameters(griffe.Parameter("self", kind=griffe.ParameterKind.positional_or_keyword))
    for one in inspect.signature(found).parameters.values():
        is_named = one.kind is inspect.Parameter.KEYWORD_ONLY
        kind = griffe.ParameterKind.keyword_only if is_named else griffe.ParameterKind.positional_or_keyword
        default = None if one.default is inspect.Parameter.empty else repr(one.default)
        annotation = None if one.annotation is inspect.Parameter.empty else str(one.annotation)
        parameters.add(griffe.Parameter(one.name, kind=kind, default=default, annotation=annotation))
    obj.set_member("__init__", griffe.Function("__init__", parameters=parameters))


def in_one_line(docstring: str) -> str:
    """The docstring with its first paragraph on one line: a list of attributes shows the first line of each."""
    first, *rest = PARAGRAPHS.split(docstring, maxsplit=1)
    return "\n\n".join([" ".join(first.split()), *rest])


def readable(docstring: str) -> str:
    """The docstring with fenced examples, an entry per parameter, and a heading over what follows the parameters."""
    paragraphs, section = [], ""
    for paragraph in PARAGRAPHS.split(separated(docstring)):
        heading = SECTION.match(paragraph)
        if heading:
            section = heading[0].split("\n")[0]
        elif section and paragraph.startswith(">>> ") and section != "Examples":
            section, paragraph = "Examples", f"Examples\n--------\n{paragraph}"
        elif section and paragraph.startswith("Reference: "):
            section, paragraph = "References", f"References\n----------\n{paragraph.removeprefix('Reference: ')}"
        paragraphs.append(_fenced(_with_plain_stars(paragraph)))
    return "\n\n".join(paragraphs)


def separated(docstring: str) -> str:
    """The docstring with one entry for each of the parameters that are documented together.

    The reader of docstrings would give all of them the type and the default of the first.
    """
    lines = docstring.split("\n")
    found: list[str] = []
    place, is_list = 0, False
    while place < len(lines):
        if place + 1 < len(lines) and SECTION.match(f"{lines[place]}\n{lines[place + 1]}"):
            is_list = lines[place] in LISTS
        if not (
            is_list and TOGETHER.fullmatch(lines[place]) and "".join(lines[place + 1 : place + 2]).startswith("    ")
        ):
            found.append(lines[place])
            place += 1
            continue
        end = place + 1
        while end < len(lines) and (lines[end].startswith("    ") or not lines[end]):
            end += 1
        text = "\n".join(lines[place + 1 : end]).rstrip("\n").split("\n")
        for name in lines[place].split(", "):
            found += [name, *text]
        found += [""] * (end - place - 1 - len(text))
        place = end
    return "\n".join(found)


def _with_plain_stars(paragraph: str) -> str:
    """The star of θ* is no emphasis; in formulas, which are indented, it is none anyway."""
    return paragraph if paragraph.startswith("    ") else paragraph.replace("θ*", r"θ\*")


def _fenced(paragraph: str) -> str:
    """A fence around the part that begins with a prompt: it goes on to the end of the paragraph."""
    start = re.search(r"^>>> ", paragraph, re.MULTILINE)
    if start is None:
        return paragraph
    return f"{paragraph[: start.start()]}```pycon\n{paragraph[start.start() :]}\n```"
