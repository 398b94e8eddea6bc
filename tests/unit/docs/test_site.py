"""What is looked for in the built site is found where it is wrong."""

import pkgutil
from importlib import import_module
from pathlib import Path

import griffe
import pytest
from scripts.site.docstrings import readable, separated
from scripts.site.look_over import external_requests, external_styles, ids_in, left_over_references, problems
from scripts.site.names import documented_packages, linked, public_names

import kernelbandits

ROOT = Path(__file__).parents[3]
EXTENSIONS = griffe.load_extensions(str(ROOT / "scripts" / "site" / "docstrings.py"))


@pytest.mark.parametrize(
    "html",
    [
        '<script src="https://cdn.example/mathjax.js"></script>',
        '<script src="//cdn.example/mathjax.js"></script>',
        '<link rel="stylesheet" href="https://fonts.example/css?family=Roboto">',
        '<link rel="preconnect" href="https://fonts.example" crossorigin>',
        '<img alt="badge" src="HTTP://badges.example/build.svg">',
        '<img src="here.png" srcset="here.png 1x, https://elsewhere.example/large.png 2x">',
        '<iframe src="https://video.example/1"></iframe>',
        '<svg><use href="https://icons.example/all.svg#one"/></svg>',
        '<div style="background: url(https://elsewhere.example/paper.png)"></div>',
        "<style>@import 'https://fonts.example/a.css';</style>",
        '<meta http-equiv="refresh" content="0; url=https://elsewhere.example/">',
        '<pre class="mermaid">graph</pre>',
        '<a class="md-source" href="https://forge.example/repo" data-md-component="source">repo</a>',
    ],
)
def test_what_a_browser_fetches_from_elsewhere_is_found(html):
    assert len(external_requests(f"<html><body>{html}</body></html>")) == 1


@pytest.mark.parametrize(
    "html",
    [
        '<a href="https://example.org/paper.pdf">the paper</a>',
        '<link rel="canonical" href="https://example.org/">',
        '<link rel="stylesheet" href="../assets/main.css">',
        '<script src="assets/bundle.js"></script>',
        '<img src="policies/policies.png">',
        "<p>Read https://example.org for more, or url(https://example.org).</p>",
        "<pre>src=https://example.org</pre>",
    ],
)
def test_links_and_files_of_our_own_are_no_requests(html):
    assert external_requests(html) == []


def test_style_sheets_are_read_too():
    assert external_styles(
        "a{src:url('https://fonts.example/a.woff2')} b{background:url(data:image/png;base64,x)}"
    ) == ["https://fonts.example/a.woff2"]


def test_a_site_with_something_wrong_is_reported(tmp_path):
    (tmp_path / "index.html").write_text("<p>[<code>x</code>][kernelbandits.nowhere.x]</p>", encoding="utf-8")

    found = list(problems(tmp_path))

    assert found[0] == "index.html refers to kernelbandits.nowhere.x, which no page shows."
    assert "No page shows kernelbandits.selection.Catalog." in found


def test_a_page_that_the_navigation_does_not_list_is_found(tmp_path):
    (tmp_path / "index.html").write_text('<a href="./listed.html#part">one</a>', encoding="utf-8")
    for name in ("listed", "forgotten"):
        (tmp_path / f"{name}.html").write_text("<p>text</p>", encoding="utf-8")

    found = list(problems(tmp_path))

    assert "forgotten.html is not in the navigation of zensical.toml." in found
    assert not any("listed.html" in sentence for sentence in found)


def test_references_and_ids_are_read():
    assert left_over_references("after [<code>repair</code>][kernelbandits.kernels.repair] if") == [
        "kernelbandits.kernels.repair"
    ]
    assert "kernelbandits.KernelUCB" in ids_in('<h2 id="kernelbandits.KernelUCB">KernelUCB</h2>')


def test_every_package_has_a_page_in_the_reference():
    packages = {
        f"kernelbandits.{module.name}" for module in pkgutil.iter_modules(kernelbandits.__path__) if module.ispkg
    }

    shown = set(documented_packages()) | {"kernelbandits.cli"}  # whose commands are shown, not its functions

    assert packages - shown == set()


def test_every_public_name_of_the_package_itself_is_among_those_shown():
    packages = {package.rsplit(".", 1)[-1] for package in documented_packages()}

    for name in kernelbandits.__all__:
        assert name in public_names() or name in packages, name
    for package in documented_packages():
        assert all(hasattr(import_module(package), name) for name in getattr(import_module(package), "__all__", ()))


class TestLinks:
    def test_a_public_name_in_back_ticks_becomes_a_link(self):
        assert linked("Take `kb.Catalog`.") == "Take [`kb.Catalog`][kernelbandits.selection.Catalog]."

    def test_the_most_detailed_page_is_the_one_linked(self):
        assert linked("`UCB1`") == "[`UCB1`][kernelbandits.policies.comparators.UCB1]"

    def test_a_name_of_two_packages_is_taken_from_where_the_text_belongs(self):
        assert linked("`Constant`") == "`Constant`"
        assert linked("`Constant`", within="theory") == "[`Constant`][kernelbandits.theory.Constant]"
        assert linked("`KernelUCB`", within="theory") == "[`KernelUCB`][kernelbandits.policies.KernelUCB]"
        assert linked("`kernels.Constant`") == "[`kernels.Constant`][kernelbandits.kernels.Constant]"

    @pytest.mark.parametrize(
        "text",
        [
            "`choose`",
            "## `KernelUCB`",
            "[`KernelUCB`](policies.md)",
            "    `KernelUCB`",
            "```\n`KernelUCB`\n```",
            "`theory.KernelUCB`",
        ],
    )
    def test_other_words_headings_links_and_code_stay_as_they_are(self, text):
        assert linked(text) == text


class TestDocstrings:
    def test_examples_are_fenced_wherever_they_stand(self):
        assert readable("One.\n\n>>> 1\n1\n\nReference: me.") == "One.\n\n```pycon\n>>> 1\n1\n```\n\nReference: me."

    def test_what_follows_parameters_gets_a_heading(self):
        text = "Parameters\n----------\nn\n    Length.\n\n>>> 1\n1\n\nReference: me."

        assert readable(text) == (
            "Parameters\n----------\nn\n    Length.\n\nExamples\n--------\n```pycon\n>>> 1\n1\n```\n\n"
            "References\n----------\nme."
        )

    def test_examples_with_a_heading_keep_it(self):
        assert readable("Examples\n--------\n>>> 1\n1") == "Examples\n--------\n```pycon\n>>> 1\n1\n```"

    def test_parameters_that_are_documented_together_get_an_entry_each(self):
        text = "One\n\nParameters\n----------\nfirst, second\n    Of both.\n\n    More.\nthird\n    Alone.\n\nOne, two"

        assert separated(text) == (
            "One\n\nParameters\n----------\nfirst\n    Of both.\n\n    More.\nsecond\n    Of both.\n\n    More.\n"
            "third\n    Alone.\n\nOne, two"
        )

    def test_each_of_them_has_its_own_type_and_default(self):
        package = griffe.load("kernelbandits.policies", search_paths=[str(ROOT / "src")], extensions=EXTENSIONS)
        sections = package["SupKernelUCB"].docstring.parse("numpy")
        (entries,) = (one.value for one in sections if one.kind is griffe.DocstringSectionKind.parameters)

        found = {entry.name: (str(entry.annotation), entry.default) for entry in entries}

        assert found["kernel"][0] != found["regularization"][0]
        assert found["regularization"] == ("float", "1.0")
        assert "kernel, regularization" not in found

    def test_lists_of_attributes_show_whole_sentences(self):
        types = griffe.load("kernelbandits.types", search_paths=[str(ROOT / "src")], extensions=EXTENSIONS)

        shown = types["TIE_TOLERANCE"].docstring.value.split("\n")[0]

        assert shown.startswith("Relative tolerance")
        assert shown.endswith("difference.")

    def test_every_value_and_field_is_described(self):
        types = griffe.load("kernelbandits.types", search_paths=[str(ROOT / "src")], extensions=EXTENSIONS)
        public = [types[name] for name in import_module("kernelbandits.types").__all__]
        fields = [one for value in public if value.is_class for one in value.attributes.values()]

        missing = [one.path for one in (*public, *fields) if not one.docstring and not one.name.startswith("_")]

        assert missing == []

    def test_the_star_of_theta_is_a_star(self):
        assert readable("‖θ*‖ and ‖θ*‖\n\n    θ* in a formula") == "‖θ\\*‖ and ‖θ\\*‖\n\n    θ* in a formula"
