"""Docstrings as the site's reader of them wants them; in the source they stay as people want them."""

from __future__ import annotations

import re
from typing import Any

import griffe
from scripts.site.names import linked

__all__ = ["ReadableDocstrings", "readable"]

PARAGRAPHS = re.compile(r"\n\s*\n")
SECTION = re.compile(r"\A\w[\w ]*\n-{3,}(\n|\Z)")


class ReadableDocstrings(griffe.Extension):
    """Examples become blocks of code, references a section, and names in back-ticks links."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite one docstring, once it was read."""
        if obj.docstring is not None:
            package = obj.path.split(".")[1] if "." in obj.path else ""
            obj.docstring.value = linked(readable(obj.docstring.value), within=package)


def readable(docstring: str) -> str:
    """The docstring with fenced examples, and with a heading over whatever follows a list of parameters."""
    paragraphs, section = [], ""
    for paragraph in PARAGRAPHS.split(docstring):
        heading = SECTION.match(paragraph)
        if heading:
            section = heading[0].split("\n")[0]
        elif section and paragraph.startswith(">>> ") and section != "Examples":
            section, paragraph = "Examples", f"Examples\n--------\n{paragraph}"
        elif section and paragraph.startswith("Reference: "):
            section, paragraph = "References", f"References\n----------\n{paragraph.removeprefix('Reference: ')}"
        paragraphs.append(_fenced(_with_plain_stars(paragraph)))
    return "\n\n".join(paragraphs)


def _with_plain_stars(paragraph: str) -> str:
    """The star of θ* is no emphasis; in formulas, which are indented, it is none anyway."""
    return paragraph if paragraph.startswith("    ") else paragraph.replace("θ*", r"θ\*")


def _fenced(paragraph: str) -> str:
    """A fence around the part that begins with a prompt: it goes on to the end of the paragraph."""
    start = re.search(r"^>>> ", paragraph, re.MULTILINE)
    if start is None:
        return paragraph
    return f"{paragraph[: start.start()]}```pycon\n{paragraph[start.start() :]}\n```"
