import re
from base64 import b64decode
from html.parser import HTMLParser
from types import SimpleNamespace

import numpy as np
import pytest

from kernelbandits.errors import InvalidParameter
from kernelbandits.experiments import report
from kernelbandits.experiments.plotting.figures import list_figures
from kernelbandits.experiments.plotting.style import DARK
from kernelbandits.experiments.reports import write_report
from kernelbandits.experiments.reports.html import STYLE
from kernelbandits.experiments.reports.report import _write_images
from kernelbandits.experiments.results import Results
from study_folders import simple_columns, write_head, write_job

VOID = {"meta", "img", "source"}


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    jobs = [
        write_job(folder, environment="<w>", policy=label, seed=0, columns=simple_columns(np.arange(1.0, 5.0) * factor))
        for label, factor in (("<script>alert(1)</script>", 1.0), ("b", 2.0))
    ]
    write_head(folder, [*jobs, "never"], seeds=[0, 1], horizon=4, name="A & B")
    return folder


@pytest.fixture(scope="module")
def made(results, tmp_path_factory):
    given = SimpleNamespace(folder=results)
    return write_report(given, tmp_path_factory.mktemp("out") / "report", formats=("svg",))


@pytest.fixture(scope="module")
def html(made):
    return made.files["page"].read_text(encoding="utf-8")


class Reader(HTMLParser):
    """Notes what a page holds, and fails on a tag that is closed without having been opened."""

    def __init__(self):
        super().__init__()
        self.open, self.found = [], []

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def tags(html):
    reader = Reader()
    reader.feed(html)
    assert reader.open == []
    return reader.found


NO_REQUESTS = r'xmlns(:\w+)?="http[^"]*"|<!DOCTYPE svg[^>]*>|rdf:resource="[^"]*"'
"""Names of SVG's dialects, which are never fetched."""


def references(html):
    """Addresses that a page loads, also those inside its pictures."""
    pictures = [b64decode(data).decode() for data in re.findall(r"data:image/svg\+xml;base64,([^\"]*)", html)]
    text = "\n".join([html, *(re.sub(NO_REQUESTS, "", picture) for picture in pictures)])
    return re.findall(r"https?://[^\"\s]*|<script|<link|@import|url\((?!#)", text)


def test_the_page_needs_no_network_and_runs_nothing(html):
    assert references(html) == []


def test_a_request_would_be_noticed(html):
    assert references(html + '<img src="https://example.org/x.png">') == ["https://example.org/x.png"]
    assert references(html + "<script>") == ["<script"]


def test_every_picture_has_words_and_every_heading_a_scope(tags):
    assert all(attributes["alt"] for tag, attributes in tags if tag == "img")
    assert all(attributes.get("scope") in ("col", "row") for tag, attributes in tags if tag == "th")
    assert any(tag == "img" for tag, _ in tags)


def test_the_contents_lead_to_sections(tags):
    links = [attributes["href"] for tag, attributes in tags if tag == "a"]
    places = {f"#{attributes['id']}" for tag, attributes in tags if "id" in attributes}

    assert links
    assert set(links) <= places


def test_it_says_what_is_missing_and_what_was_run(html):
    assert "The study is not complete: 2 of 3 jobs are finished." in html
    assert "no intervals" in html
    assert "abacus" in html
    assert "kernelbandits report" in html
    assert "\\begin{tabular}" in html


def contrast(one, other):
    """Ratio of the luminances of two sRGB colors, from 1 to 21 (Web Content Accessibility Guidelines 2.2)."""

    def luminance(color):
        channels = (int(color[place : place + 2], 16) / 255 for place in (1, 3, 5))
        linear = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
        return sum(weight * value for weight, value in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def test_contrast_has_known_values():
    assert contrast("#777777", "#ffffff") == contrast("#ffffff", "#777777") == pytest.approx(4.478, abs=1e-3)
    assert contrast("#000000", "#ffffff") == pytest.approx(21.0)


def palettes():
    light, dark = (
        dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", part)) for part in STYLE.split("@media (prefers")[:2]
    )
    return [light, dark]


@pytest.mark.parametrize("palette", palettes())
def test_text_can_be_read(palette):
    pairs = [("text", "background"), ("muted", "background"), ("accent", "background"), ("text", "block")]
    pairs += [("text", "warning-background"), ("warning", "warning-background")]

    assert all(contrast(palette[text], palette[behind]) >= 4.5 for text, behind in pairs)
    assert contrast(palette["line"], palette["background"]) < 4.5


def test_both_appearances_of_every_figure_are_written(made):
    names = {path.name for path in made.figures}

    assert {"regret-light.svg", "regret-dark.svg", "reward-light.svg"} <= names
    assert all(path.stat().st_size for path in made.figures)
    assert r"\includegraphics[width=\linewidth]{figures/regret-light.pdf}" in made.files["captions"].read_text()


@pytest.mark.parametrize(("max_svg_size", "kind"), [(10, "png"), (2**20, "svg+xml")])
def test_large_figures_stand_on_the_page_as_png(results, tmp_path, max_svg_size, kind):
    figure = list_figures(Results(results))[0]

    url, paths = _write_images(figure, tmp_path, "dark", DARK, ["png", "pdf"], max_svg_size=max_svg_size)

    assert url.startswith(f"data:image/{kind};base64,")
    assert paths == [tmp_path / "regret-dark.png", tmp_path / "regret-dark.pdf"]
    assert paths[0].read_bytes().startswith(b"\x89PNG")
    assert paths[1].read_bytes().startswith(b"%PDF")


@pytest.mark.parametrize(("formats", "message"), [(["gif"], "got 'gif'"), ("png", "must be a list")])
def test_unknown_formats_are_rejected_before_anything_is_written(results, tmp_path, formats, message):
    with pytest.raises(InvalidParameter, match=message):
        report(results, tmp_path / "out", formats=formats)

    assert not (tmp_path / "out").exists()


def test_letters_without_a_glyph_are_reported_once(tmp_path):
    job = write_job(tmp_path, environment="机会 γ", policy="机", seed=0, columns=simple_columns([1.0, 2.0]))
    write_head(tmp_path, [job], seeds=[0], horizon=2)

    made = write_report(tmp_path, tmp_path / "report", formats=["svg"])

    reported = [warning for warning in made.warnings if "boxes" in warning]
    assert len(reported) == 1
    assert reported[0].endswith("does not have: 机会")
