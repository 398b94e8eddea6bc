"""Blocks of code on the pages of the docs."""

from __future__ import annotations

import re
from typing import NamedTuple

BLOCK = re.compile(r"^```(?P<language>[^\n`]*)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    language: str
    code: str


def blocks_of(page):
    return [Block(match["language"].strip(), match["code"]) for match in BLOCK.finditer(page)]
