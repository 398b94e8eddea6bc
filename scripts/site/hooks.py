"""What the site adds to the pages as they stand in the repository, where they are read too."""

from __future__ import annotations

import argparse
import os
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from scripts.site.names import linked

from kernelbandits.cli.main import _parser

__all__ = ["on_files", "on_page_markdown"]

ROOT = Path(__file__).parents[2]
BENCHMARKS = ("results.md", "results-rounds.png", "results-actions.png")
PICTURE = re.compile(
    r'<picture>\s*<source media="\(prefers-color-scheme: dark\)" srcset="(?P<dark>[^"]+)">\s*'
    r'<img src="(?P<light>[^"]+)"(?P<rest>[^>]*>)\s*</picture>'
)
"""A picture that asks the reader's system which appearance it has; the site has a switch of its own."""

HELP_MARK = "<!-- help of every command -->"


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add what lies outside of the docs and is linked from them."""
    for name in BENCHMARKS:
        files.append(File.generated(config, f"benchmarks/{name}", abs_src_path=str(ROOT / "benchmarks" / name)))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Color examples as sessions, link names to the reference, and fill in the help of the commands."""
    markdown = markdown.replace("](../benchmarks/", "](benchmarks/")
    markdown = markdown.replace(HELP_MARK, _help())
    markdown = PICTURE.sub(r'<img src="\g<light>#only-light"\g<rest>\n<img src="\g<dark>#only-dark"\g<rest>', markdown)
    markdown = re.sub(r"^```python\n(?=>>> )", "```pycon\n", markdown, flags=re.MULTILINE)
    return linked(markdown)


def _help() -> str:
    """What `--help` says of the whole and of each command."""
    os.environ["COLUMNS"] = "100"  # argparse breaks lines where the terminal ends
    parser = _parser()
    commands = next(action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    parts = [f"```text\n{parser.format_help()}```"]
    for name, command in commands.choices.items():
        parts.append(f"## {name}\n\n```text\n{command.format_help()}```")
    return "\n\n".join(parts)
