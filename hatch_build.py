"""Build hook: the readme of the package page, with absolute links."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


def with_absolute_links(markdown: str, source: str) -> str:
    """Put the address of the repository before every relative link of a page.

    >>> with_absolute_links("[notes](docs/notation.md), [site](https://a.example), [below](#install)", "https://b.example")
    '[notes](https://b.example/docs/notation.md), [site](https://a.example), [below](#install)'
    """
    return re.sub(r"\]\((?![a-z]+:|#)", f"]({source.rstrip('/')}/", markdown)


class ReadmeHook(MetadataHookInterface):
    """Sets `readme`: README.md with links to files of the repository, whose address is `Source` in `[project.urls]`."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Fill in the dynamic field of the metadata."""
        page = Path(self.root, "README.md").read_text(encoding="utf-8")
        text = with_absolute_links(page, metadata["urls"]["Source"])
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
