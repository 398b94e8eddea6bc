"""Looks the built site over: `python -m scripts.site.look_over build/site`.

Four things that a strict build does not see: a page that would fetch something from another host, a reference that was
left as it is written, a page that the navigation does not list, and a public name that no page shows.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

from scripts.site.names import public_names

__all__ = ["external_requests", "external_styles", "ids_in", "left_over_references", "problems"]

LOADING = {
    "audio": ("src",), "embed": ("src",), "iframe": ("src",), "image": ("href", "xlink:href"), "img": ("src", "srcset"),
    "input": ("src",), "link": ("href", "imagesrcset"), "object": ("data",), "script": ("src",),
    "source": ("src", "srcset"), "track": ("src",), "use": ("href", "xlink:href"), "video": ("src", "poster"),
}  # fmt: skip
"""Attributes whose address a browser fetches by itself, by element. That of an <a> is fetched by those who click it."""

NEVER_FETCHED = {"alternate", "author", "canonical", "license", "next", "prev"}
"""Relations of a <link> that only tell."""

ELSEWHERE = re.compile(r"(^|[\s,])(https?:)?//", re.IGNORECASE)
STYLE_ELSEWHERE = re.compile(r"""(?:url\(|@import)\s*['"]?((?:https?:)?//[^'")\s;]+)""", re.IGNORECASE)
UNRESOLVED = re.compile(r"\]\[(kernelbandits[\w.]*)\]")


class _Page(HTMLParser):
    """Collects what would be fetched from elsewhere, and all ids."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[str] = []
        self.ids: set[str] = set()
        self.links: set[str] = set()
        self._in_style = False

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attributes}
        self.ids.add(given.get("id", ""))
        self._in_style = tag == "style"
        if tag == "a":
            self.links.add(given.get("href", "").partition("#")[0].removeprefix("./"))
        self.requests.extend(STYLE_ELSEWHERE.findall(given.get("style", "")))
        if tag == "link" and set(given.get("rel", "").split()) <= NEVER_FETCHED:
            return
        self.requests.extend(given[name] for name in LOADING.get(tag, ()) if ELSEWHERE.search(given.get(name, "")))
        if tag == "meta" and given.get("http-equiv", "").lower() == "refresh" and "//" in given.get("content", ""):
            self.requests.append(given["content"])
        # The theme's script fetches a diagram renderer for the one and counts of stars for the other.
        if "mermaid" in given.get("class", "").split() or given.get("data-md-component") == "source":
            self.requests.append(f"what the theme fetches for <{tag} class={given.get('class')!r}>")

    def handle_data(self, data: str) -> None:
        if self._in_style:
            self.requests.extend(STYLE_ELSEWHERE.findall(data))

    def handle_endtag(self, tag: str) -> None:
        self._in_style = False


def external_requests(html: str) -> list[str]:
    """Addresses elsewhere that a browser would fetch by itself to show this page."""
    return _read(html).requests


def external_styles(css: str) -> list[str]:
    """Addresses elsewhere that a style sheet fetches."""
    return STYLE_ELSEWHERE.findall(css)


def ids_in(html: str) -> set[str]:
    """Every id of a page."""
    return _read(html).ids


def left_over_references(html: str) -> list[str]:
    """References to names that stand on the page as they were written, because nothing by this name was found."""
    return UNRESOLVED.findall(html)


def problems(site: Path) -> Iterator[str]:
    """All that is wrong with a built site, a sentence each."""
    ids: set[str] = set()
    listed = _read((site / "index.html").read_text(encoding="utf-8")).links | {"index.html", "404.html"}
    for path in sorted(site.rglob("*.html")):
        html, name = path.read_text(encoding="utf-8"), path.relative_to(site)
        ids |= ids_in(html)
        if name.as_posix() not in listed:
            yield f"{name} is not in the navigation of zensical.toml."
        yield from (f"{name} fetches {address}." for address in external_requests(html))
        yield from (f"{name} refers to {target}, which no page shows." for target in left_over_references(html))
    for path in sorted(site.rglob("*.css")):
        styles = path.read_text(encoding="utf-8")
        yield from (f"{path.relative_to(site)} fetches {address}." for address in external_styles(styles))
    for paths in public_names().values():
        if not ids.intersection(paths):
            yield f"No page shows {paths[-1]}."


def _read(html: str) -> _Page:
    page = _Page()
    page.feed(html)
    return page


def main(arguments: list[str]) -> int:
    """Print what is wrong; 1 if anything is."""
    site = Path(arguments[0])
    if not (site / "index.html").exists():
        print(f"There is no site in {site}. Build it first: python -m zensical build --clean --strict")
        return 1
    found = list(problems(site))
    print("\n".join(found) or f"The site shows {len(public_names())} public names and fetches nothing from elsewhere.")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
