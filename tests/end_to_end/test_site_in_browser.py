"""Pages as a browser shows them: the built site, and pages with everything wrong that is looked for."""

import subprocess
import sys
from pathlib import Path

import pytest
from scripts.site.browser import NoBrowser, find_browser, look_at

from kernelbandits.experiments import report, run
from small_studies import small_study

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.long

HEAD = "<!doctype html><html><head><style>body{margin:0}%s</style></head>"
RIGHT = "<body><p>plain text</p><pre><code>short</code></pre><table><tr><td>1.5 ± 0.2</td></tr></table></body></html>"
DARK = ":root{color-scheme:light dark} @media (prefers-color-scheme: dark){body{background:#111;color:#eee}}"
SVG = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="600" height="100">'
    "<metadata><description>smallest text: %s pt</description></metadata></svg>"
)


@pytest.fixture(scope="module", autouse=True)
def _browser():
    try:
        find_browser()
    except NoBrowser as missing:
        pytest.skip(str(missing))


def found_on(tmp_path, body, style=DARK, pictures=()):
    (tmp_path / "page.html").write_text(HEAD % style + body, encoding="utf-8")
    for name, points in pictures:
        (tmp_path / name).write_text(SVG % points, encoding="utf-8")
    return look_at(tmp_path, ["page.html"])


def test_a_page_without_mistakes_passes(tmp_path):
    assert found_on(tmp_path, RIGHT) == []


WRONG = {
    "scrolls sideways": ("<body><div style='width: 500px'>wide</div></body>", DARK, 2),
    "fetches https://elsewhere.example/a.png": (
        "<body><img src='https://elsewhere.example/a.png' alt='' width='1'></body>", DARK, 4),
    "has a pre that needs": ("<body><pre style='overflow: auto'>" + "x" * 400 + "</pre></body>", DARK, 2),
    "has a caption that is wider": (
        "<body><div style='overflow: auto'><table style='width: 500px'><caption>wide</caption></table></div></body>",
        DARK, 2),
    "has text with a contrast of": ("<body><p style='color: #888; background: #fff'>pale</p></body>", DARK, 4),
    "(1280 pixels, dark) has text with a contrast of": ("<body><p>dark</p></body>", DARK.replace("#eee", "#333"), 1),
    "breaks a line in": ("<body><p style='width: 3em'>1.2345 ± 0.2345</p></body>", DARK, 4),
}  # fmt: skip


@pytest.mark.parametrize("sentence", WRONG)
def test_each_mistake_is_found(tmp_path, sentence):
    body, style, times = WRONG[sentence]

    assert sum(sentence in one for one in found_on(tmp_path, body, style)) == times


def test_pictures_need_a_dark_form_and_text_that_can_be_read(tmp_path):
    picture = (
        "<picture><source media='(prefers-color-scheme: dark)' srcset='dark.svg'><img src='light.svg' alt=''></picture>"
    )
    style = DARK + "img{max-width:100%}"

    sizes = found_on(tmp_path, f"<body>{picture}</body>", style, [("light.svg", 9), ("dark.svg", 9)])
    alone = found_on(tmp_path, "<body><img src='light.svg' alt=''></body>", style, [("light.svg", 30)])
    silent = found_on(tmp_path, "<body><img src='light.svg' alt=''></body>", style, [("light.svg", "no")])

    assert [one.partition(" in ")[0] for one in sizes] == [
        f"page.html (390 pixels, {scheme}) shows text of 7.8 pixels" for scheme in ("light", "dark")
    ]
    assert sum("shows the same picture in light and dark mode" in one for one in alone) == len(alone) == 2
    assert sum("does not state its smallest text" in one for one in silent) == 4


def test_every_page_of_the_site_looks_as_it_should():
    build = [sys.executable, "-m", "zensical", "build", "--clean", "--strict"]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    site = ROOT / "build" / "site"

    found = look_at(site, sorted(path.relative_to(site).as_posix() for path in site.rglob("*.html")))

    assert found == []


def test_a_report_looks_as_it_should(tmp_path):
    results = run(small_study(), tmp_path / "results", workers=1)

    page = report(results, tmp_path / "report")

    assert look_at(page.parent, [page.name]) == []
