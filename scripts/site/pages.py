"""Markdown extension of the site: links, sessions, pictures, help texts and typeset formulas."""

from __future__ import annotations

import argparse
import os
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from html import unescape
from typing import Any

from markdown import Extension, Markdown
from markdown.preprocessors import Preprocessor
from markdown.treeprocessors import Treeprocessor
from scripts.site.formulas import block, pieces, spans
from scripts.site.names import linked

from kernelbandits.cli.main import _parser

__all__ = ["Pages", "makeExtension", "prepared"]

PICTURE = re.compile(r"<picture>\s*(?P<sources>(?:<source [^>]+>\s*)+)<img (?P<image>[^>]+>)\s*</picture>")
"""A picture that follows the setting of the reader's system; the site has a switch of its own."""

SOURCE = re.compile(r'<source media="([^"]+)" srcset="([^"]+)">')
DARK = "(prefers-color-scheme: dark)"

HELP_MARK = "<!-- help of every command -->"


def prepared(markdown: str) -> str:
    """The Markdown of a page with sessions colored, names linked to the reference and the help of the commands."""
    markdown = markdown.replace(HELP_MARK, _help()) if HELP_MARK in markdown else markdown
    markdown = PICTURE.sub(_both_modes, markdown)
    markdown = re.sub(r"^```python\n(?=>>> )", "```pycon\n", markdown, flags=re.MULTILINE)
    return linked(markdown)


def _both_modes(picture: re.Match[str]) -> str:
    """A picture for light and one for dark mode; each has the form for the width of the window."""
    sources = dict(SOURCE.findall(picture["sources"]))
    shown = []
    for mode in ("light", "dark"):
        narrow = [(m, to) for m, to in sources.items() if "max-width" in m and (DARK in m) == (mode == "dark")]
        lines = [f'<source media="{media.removesuffix(f" and {DARK}")}" srcset="{to}">' for media, to in narrow]
        image = (
            picture["image"] if mode == "light" else re.sub(r'src="[^"]+"', f'src="{sources[DARK]}"', picture["image"])
        )
        image = re.sub(r'src="([^"]+)"', rf'src="\1#only-{mode}"', image, count=1)
        shown.append(f"<picture>{''.join(lines)}<img {image}</picture>")
    return "\n".join(shown)


def _help() -> str:
    """Output of `--help` for the program and for each command."""
    os.environ["COLUMNS"] = "100"  # argparse breaks lines where the terminal ends
    parser = _parser()
    commands = next(action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    parts = [f"```text\n{parser.format_help()}```"]
    for name, command in commands.choices.items():
        parts.append(f"## {name}\n\n```text\n{command.format_help()}```")
    return "\n\n".join(parts)


class Pages(Extension):
    """Prepares the Markdown of every page before it is parsed."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802, the name that Python-Markdown calls
        """Register before everything that reads blocks of code."""
        md.preprocessors.register(_Prepare(md), "prepare_page", 100)
        md.treeprocessors.register(_Blocks(md), "formula_blocks", 100)
        md.treeprocessors.register(_Sentences(md), "formulas_in_sentences", 8)


class _Prepare(Preprocessor):
    def run(self, lines: list[str]) -> list[str]:
        return prepared("\n".join(lines)).split("\n")


class _Blocks(Treeprocessor):
    """Typesets indented blocks that are formulas; fenced ones are code."""

    def run(self, root: ET.Element) -> None:
        for parent in root.iter():
            for place, child in enumerate(parent):
                typeset = block(unescape(child[0].text or "")) if child.tag == "pre" and len(child) else None
                if typeset is not None:
                    shown = ET.Element("div", {"class": "formula"})
                    shown.append(ET.fromstring(typeset))
                    shown.tail = child.tail
                    parent[place] = shown


class _Sentences(Treeprocessor):
    """Typesets formulas in sentences and tables, and keeps a number on one line with its ±."""

    def run(self, root: ET.Element) -> None:
        for element in list(_prose(root)):
            self._typeset(element)

    def _typeset(self, element: ET.Element) -> None:
        children = list(element)
        for place, child in reversed(list(enumerate(children))):
            child.tail, found = _with_formulas(child.tail or "")
            element[place + 1 : place + 1] = found
        element.text, found = _with_formulas(element.text or "")
        element[0:0] = found


NOT_PROSE = {"code", "h1", "h2", "h3", "h4", "h5", "h6", "math", "pre", "script", "style", "svg"}
LONGEST_ON_A_PHONE = 26
PLUS_MINUS = re.compile(r"(?<=[0-9%]) ?± ?(?=[0-9])")
ESCAPED = re.compile("\x02([0-9]{2,3})\x03")


def _prose(element: ET.Element) -> Iterator[ET.Element]:
    """Elements whose text is prose, outermost first."""
    if element.tag in NOT_PROSE:
        return
    yield element
    for child in element:
        yield from _prose(child)


def _with_formulas(text: str) -> tuple[str, list[ET.Element]]:
    """The text before the first formula, and the formulas, each with the text after it."""
    text = PLUS_MINUS.sub("\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}", text)
    plain = ESCAPED.sub(lambda match: chr(int(match[1])), text)
    found: list[ET.Element] = []
    before, done = plain, 0
    for start, end in spans(plain):
        typeset = pieces(plain[start:end])
        if typeset is None:
            continue
        if found:
            found[-1].tail = plain[done:start]
        else:
            before = plain[:start]
        for part in typeset:
            found.append(_inline(ET.fromstring(part)))
            found[-1].tail = "\N{ZERO WIDTH SPACE}"
        done = end
    if not found:
        return text, []
    found[-1].tail = plain[done:]
    return before, found


def _inline(typeset: ET.Element) -> ET.Element:
    """A part of a formula in a sentence; one that is wider than a phone scrolls by itself."""
    if len("".join(typeset.itertext())) <= LONGEST_ON_A_PHONE:
        return typeset
    scrolling = ET.Element("span", {"class": "long-formula"})
    scrolling.append(typeset)
    return scrolling


def makeExtension(**options: Any) -> Pages:  # noqa: N802
    """The extension, by the name that Python-Markdown looks for."""
    return Pages(**options)
