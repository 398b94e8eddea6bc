"""Looks at built pages in Chromium: `python -m scripts.site.browser build/site`.

Every page is loaded at the width of a phone and of a small laptop, in light and in dark mode, in a frame that
`checks.js` measures. Nothing is installed or fetched: an installed Chromium shows what a local server sends, and it
resolves no other host.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Any
from urllib.request import urlopen

__all__ = ["NoBrowser", "find_browser", "look_at"]

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
WIDTHS = (390, 1280)
SECONDS_PER_VIEW = 100
"""Much more than a view takes, also on a machine that does other work; a browser that hangs is ended."""

FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run", "--mute-audio",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)  # fmt: skip

CHECKS = Path(__file__).with_name("checks.js")


class NoBrowser(RuntimeError):
    """No Chromium is installed."""


def find_browser() -> str:
    """Path of an installed Chromium; the environment variable CHROMIUM comes first."""
    for name in (os.environ.get("CHROMIUM", ""), *NAMES):
        path = shutil.which(name) if name else None
        if path is not None:
            return path
    raise NoBrowser("No Chromium was found. Install it (apt-get install chromium) or set CHROMIUM to its path.")


class _Handler(SimpleHTTPRequestHandler):
    """Files of the site, the page that checks them, and what it finds."""

    def __init__(self, *arguments: Any, state: dict[str, Any], **options: Any) -> None:
        self._state = state
        super().__init__(*arguments, **options)

    def do_GET(self) -> None:
        if self.path == "/check":
            self._send(self._state["page"].encode(), {"Content-Type": "text/html; charset=utf-8"})
        elif self._state["origin"] is not None:
            with urlopen(self._state["origin"] + self.path) as response:
                kept = ("Content-Type", "Content-Security-Policy")
                self._send(response.read(), {name: response.headers[name] for name in kept if response.headers[name]})
        else:
            super().do_GET()

    def _send(self, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(200)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/found":
            self._state["found"] = json.loads(body)
        self._state["heard"].set()
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Requests are not printed."""


def look_at(
    site: Path | str, pages: Sequence[str], *, widths: Sequence[int] = WIDTHS, needs_names: bool = False
) -> list[str]:
    """All that is wrong with pages of a folder, or of a server on this machine, a sentence each.

    `needs_names` asks for the name by which assistive technology calls each control.
    """
    program = find_browser()
    call = f"all({json.dumps(list(pages))}, {json.dumps(list(widths))}, {json.dumps(needs_names)})"
    head = '<!doctype html><meta charset="utf-8"><meta name="color-scheme" content="light dark">'
    page = f"{head}<body style='margin: 0'></body><script>{CHECKS.read_text(encoding='utf-8')}\n{call};</script>"
    origin = site if isinstance(site, str) else None
    state: dict[str, Any] = {"page": page, "origin": origin, "found": None, "heard": Event()}
    server = ThreadingHTTPServer(
        ("127.0.0.1", 0), partial(_Handler, state=state, directory=None if origin else str(site))
    )
    Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        address = f"http://127.0.0.1:{server.server_port}/check"
        command = [program, *FLAGS, f"--user-data-dir={profile}", f"--window-size={max(widths)},900", address]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            while state["found"] is None:
                if not state["heard"].wait(3 * SECONDS_PER_VIEW):
                    raise TimeoutError(f"{program} showed no page in {3 * SECONDS_PER_VIEW} seconds.")
                state["heard"].clear()
        finally:
            process.terminate()
            process.wait()
            server.shutdown()
            server.server_close()
    return list(state["found"])


def main(arguments: list[str]) -> int:
    """Print what is wrong; 1 if anything is."""
    site = Path(arguments[0])
    pages = arguments[1:] or sorted(path.relative_to(site).as_posix() for path in site.rglob("*.html"))
    found = look_at(site, pages)
    print("\n".join(found) or f"{len(pages)} pages look as they should at {WIDTHS} pixels, light and dark.")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
