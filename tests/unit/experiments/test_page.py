import re
from base64 import b64decode
from dataclasses import replace
from html.parser import HTMLParser

from kernelbandits.experiments.page import Page, render

A_PAGE = Page(
    title="A < B",
    introduction="What & why.",
    light_figure="<svg>light</svg>",
    dark_figure="<svg>dark</svg>",
    description='Curves, "drawn"',
    caption="Mean over 3 seeds.",
    headings=("Policy", "Regret"),
    rows=[("KernelUCB", "1.0"), ("Random", "9.0")],
    remarks=["True & short."],
    parameters={"Environment": {"kernel": {"class": "Gaussian", "length_scale": 0.2}, "norm": None}},
)

VOID = {"meta", "img", "source"}


class Balance(HTMLParser):
    """Fails on a tag that is closed without having been opened."""

    def __init__(self):
        super().__init__()
        self.open = []

    def handle_starttag(self, tag, attrs):
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_tags_are_balanced():
    reader = Balance()
    reader.feed(render(A_PAGE))

    assert reader.open == []


def test_text_is_escaped():
    html = render(replace(A_PAGE, rows=[("<script>alert(1)</script>", "1")]))

    assert "<script" not in html
    assert "A &lt; B" in html
    assert 'alt="Curves, &quot;drawn&quot;"' in html


def test_it_asks_the_network_for_nothing():
    html = render(A_PAGE)

    assert not re.search(r"https?://|<script|<link|@import|url\(", html)
    assert all(address.startswith("data:") for address in re.findall(r'(?:src|srcset)="([^"]*)"', html))


def test_each_appearance_has_its_figure():
    html = render(A_PAGE)

    dark = re.search(
        r'<source media="\(prefers-color-scheme: dark\)" srcset="data:image/svg\+xml;base64,([^"]*)"', html
    )
    light = re.search(r'<img src="data:image/svg\+xml;base64,([^"]*)"', html)
    assert b64decode(dark.group(1)) == b"<svg>dark</svg>"
    assert b64decode(light.group(1)) == b"<svg>light</svg>"
    assert "prefers-color-scheme: dark" in html.split("</style>")[0]


def test_parameters_are_flat_and_leave_out_what_was_not_set():
    html = render(A_PAGE)

    assert "<td>kernel.length_scale</td><td><code>0.2</code></td>" in html
    assert "<td>norm</td>" not in html
