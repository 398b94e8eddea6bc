"""Figures for papers: their size in print, and the size of every text in them."""

import re
from dataclasses import replace

import numpy as np
import pytest

from kernelbandits.errors import InvalidParameter
from kernelbandits.experiments.plotting.figures import list_figures
from kernelbandits.experiments.plotting.style import LIGHT, PAPER, Layout
from kernelbandits.experiments.reports import write_report
from kernelbandits.experiments.results import read_results
from study_folders import simple_columns, write_head, write_job

WIDTHS = {"single": 3.25, "double": 6.75}
PROVED = {"claims": {"assumes": "noise", "failure_probability": 0.1}}


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Every kind of figure: bounds, coverage, grids with negative values and decades, times, gray policies."""
    folder, rng = tmp_path_factory.mktemp("results"), np.random.default_rng(0)
    grids = [("p", {"scale": value, "shift": shift}) for value in (0.01, 1.0, 100.0) for shift in (-1, 2)]
    policies = [(f"p, scale={grid['scale']}, shift={grid['shift']}", name, grid) for name, grid in grids]
    policies += [(f"a policy with a long name, number {place}", "", {}) for place in range(4)]
    jobs = [
        write_job(
            folder, environment=environment, policy=label, seed=seed, seconds=rng.random(2000) / 100,
            columns=simple_columns(np.cumsum(rng.random(2000)), n_covered=np.arange(1, 2001)), parameters=grid,
            spec_name=name or label, **(PROVED if place == 0 else {}),
        )
        for environment in ("smooth", "a world with a name that is long")
        for place, (label, name, grid) in enumerate(policies)
        for seed in (0, 1)
    ]  # fmt: skip
    write_head(folder, jobs, horizon=2000)
    return read_results(folder)


def drawn(results, layout):
    return {figure.name: figure.draw("", replace(LIGHT, layout=layout)) for figure in list_figures(results)}


def texts_of(figure):
    from matplotlib.text import Text

    figure.draw_without_rendering()
    return [text for text in figure.findobj(Text) if text.get_visible() and text.get_text().strip()]


@pytest.mark.parametrize("paper", PAPER)
def test_every_text_has_seven_points_at_the_printed_size(results, paper):
    figures = drawn(results, PAPER[paper])

    assert {"regret", "final-regret", "coverage", "sensitivity-p", "time", "reward"} <= set(figures)
    for name, figure in figures.items():
        texts = texts_of(figure)
        assert figure.get_figwidth() == WIDTHS[paper]
        assert min(text.get_fontsize() for text in texts) >= 7.0, name
        assert not any(re.search(r"\$.*[\^_].*\$", text.get_text()) for text in texts), (
            name
        )  # raised or lowered: smaller


@pytest.mark.parametrize("paper", PAPER)
def test_nothing_leaves_the_figure(results, paper):
    for name, figure in drawn(results, PAPER[paper]).items():
        figure.draw_without_rendering()
        box, size = figure.get_tightbbox(), figure.get_size_inches()

        assert min(box.min) >= -0.02, name
        assert (box.max <= size + 0.02).all(), name


def test_figures_of_the_page_would_be_noticed(results):
    """Scaled to a column, their text is too small."""
    figure = drawn(results, Layout())["regret"]

    assert min(text.get_fontsize() for text in texts_of(figure)) * 6.75 / figure.get_figwidth() < 7.0


def test_numbers_at_axes_have_true_minus_signs(results):
    labels = [text.get_text() for text in texts_of(drawn(results, PAPER["single"])["sensitivity-p"])]

    assert "shift=−1" in labels
    assert not any(re.search(r"(^|=)-\d", label) for label in labels)


def test_the_report_writes_them_beside_those_of_the_page(results, tmp_path):
    made = write_report(results, tmp_path, formats=["pdf"], paper="double")

    names = {path.name for path in made.figures}
    assert {"coverage-light.pdf", "coverage-dark.pdf", "coverage-double.pdf"} <= names
    content = (tmp_path / "figures" / "coverage-double.pdf").read_bytes()
    (box,) = re.findall(rb"/MediaBox \[ 0 0 ([\d.]+) [\d.]+ \]", content)
    assert float(box) == 72 * 6.75
    captions = (tmp_path / "figures.tex").read_text(encoding="utf-8")
    assert r"\begin{figure*}" in captions
    assert r"\includegraphics{figures/coverage-double.pdf}" in captions
    with pytest.raises(InvalidParameter, match="has a 'single' or a 'double' column, got 'triple'"):
        write_report(results, tmp_path, paper="triple")


def test_without_a_paper_nothing_changes(results, tmp_path):
    made = write_report(results, tmp_path, formats=["svg"])

    assert {path.stem.rpartition("-")[2] for path in made.figures} == {"light", "dark"}
    assert r"\includegraphics[width=\linewidth]{figures/coverage-light.pdf}" in (tmp_path / "figures.tex").read_text()
