import subprocess
import sys

import numpy as np
import pytest
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure
from numpy.testing import assert_allclose

from kernelbandits.experiments import Bound, mean_band, regret_figure
from kernelbandits.experiments.plotting.curves import MAX_POINTS, Curve, Markers, curve_grid, draw_curves, thinned
from kernelbandits.experiments.plotting.style import DARK, LIGHT, NARROW_WIDTH, png, svg
from kernelbandits.experiments.results import Band

ROUNDS = np.array([7, 50, 210, 3_000])
BAND = Band(np.array([2.0, 3.5, 9.0, 31.0]), np.array([0.5, 0.25, 4.0, 6.0]))


def drawn(*curves, **options):
    axes = Figure(figsize=(6.0, 4.0)).add_subplot()
    draw_curves(axes, curves, LIGHT, **options)
    return axes


def test_points_have_bars_and_no_line_between_them():
    axes = drawn(Curve(label="published", color="red", band=BAND, rounds=ROUNDS, markers=Markers(shape="s")))

    (container,) = [one for one in axes.containers if isinstance(one, ErrorbarContainer)]
    points, _, (bars,) = container.lines
    assert points.get_linestyle() == "None"
    assert points.get_marker() == "s"
    assert_allclose(points.get_xydata(), np.column_stack([ROUNDS, BAND.mean]))
    heights = np.array([segment[:, 1] for segment in bars.get_segments()])
    assert_allclose(heights, np.column_stack([BAND.mean - BAND.half_width, BAND.mean + BAND.half_width]))


def test_a_curve_without_points_has_a_line_and_a_band():
    axes = drawn(Curve(label="ours", color="blue", band=BAND, rounds=ROUNDS))

    assert not axes.containers
    assert len(axes.collections) == 1


def test_points_aside_move_in_print_and_keep_their_rounds():
    axes = drawn(Curve(label="published", color="red", band=BAND, rounds=ROUNDS, markers=Markers(offset=9.0)))

    points = axes.containers[0].lines[0]
    moved = points.get_transform().transform([[7.0, 2.0]]) - axes.transData.transform([[7.0, 2.0]])
    assert_allclose(moved, [[9.0 / 72 * axes.figure.dpi, 0.0]])


def test_a_logarithmic_axis_of_rounds_begins_at_the_first():
    curve = Curve(label="ours", color="blue", band=BAND, rounds=ROUNDS)

    assert drawn(curve, log_x=True).get_xscale() == "log"
    assert drawn(curve, log_x=True).get_xlim() == (7.0, 3_000.0)
    assert drawn(curve).get_xlim() == (0.0, 3_000.0)


@pytest.mark.parametrize(("top", "expected"), [(None, 1.05 * 37.0), (64.0, 64.0)])
def test_the_axis_ends_above_what_is_drawn_or_where_it_is_set(top, expected):
    curve = Curve(label="ours", color="blue", band=BAND, rounds=ROUNDS)

    assert drawn(curve, top=top).get_ylim()[1] == pytest.approx(expected)


@pytest.mark.parametrize("n_rounds", [25, MAX_POINTS, 1_000])
def test_few_numbers_are_all_drawn_and_many_thinned(n_rounds):
    rounds = np.unique(np.geomspace(1, 1e6, n_rounds).astype(int))
    band = Band(np.sqrt(rounds), np.ones(len(rounds)))

    kept, mean, _ = thinned(Curve(label="ours", color="blue", band=band, rounds=rounds))

    assert kept[-1] == rounds[-1]
    assert_allclose(mean, np.sqrt(kept))
    assert len(kept) == len(rounds) if len(rounds) <= MAX_POINTS else len(kept) <= MAX_POINTS


def some_curves(n_seeds=3, horizon=50):
    rng = np.random.default_rng(1)
    return [
        Curve(label=name, color=color, band=mean_band(np.cumsum(rng.random((n_seeds, horizon)), axis=1)))
        for name, color in [("first", "blue"), ("second", "red")]
    ]


A_BOUND = Bound(label="proved", color="red", rounds=np.array([1, 50]), values=np.array([90.0, 90.0]))


def legend_of(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_the_legend_names_every_curve_in_the_order_of_their_ends_and_every_bound():
    curves = some_curves()
    figure = regret_figure(curves, bounds=[A_BOUND], caption="Mean over 3 seeds.")

    ends = sorted(curves, key=lambda curve: -curve.band.mean[-1])
    assert legend_of(figure) == [*(curve.label for curve in ends), "proved"]
    assert figure.get_supxlabel() == "Mean over 3 seeds."


@pytest.mark.parametrize("label", ["_hidden", "$x_1$", "KernelUCB, exploration=0.1, regularization=10"])
def test_any_label_is_in_the_legend(label):
    curve = some_curves()[0]

    (text,) = legend_of(regret_figure([Curve(label=label, color="blue", band=curve.band)]))

    assert text.replace("\n", " ") == label


def test_a_bound_without_label_has_no_entry():
    bound = Bound(label="", color="red", rounds=np.array([1, 50]), values=np.array([90.0, 90.0]))

    assert len(legend_of(regret_figure(some_curves(), bounds=[bound]))) == 2


def test_intervals_are_drawn_around_each_mean():
    left, _ = regret_figure(some_curves()).axes

    assert len(left.collections) == 2


@pytest.mark.parametrize("theme", [LIGHT, DARK])
def test_both_appearances_give_a_png_and_an_svg(theme):
    figure = regret_figure(some_curves(), bounds=[A_BOUND], theme=theme)

    assert png(figure, dots_per_inch=50).startswith(b"\x89PNG")
    assert theme.background in svg(figure)


def test_equal_figures_give_equal_svg():
    assert svg(regret_figure(some_curves())) == svg(regret_figure(some_curves()))


@pytest.mark.parametrize(("n_seeds", "horizon"), [(1, 50), (2, 2)])
def test_one_seed_or_two_rounds_are_enough(n_seeds, horizon):
    assert png(regret_figure(some_curves(n_seeds, horizon)), dots_per_inch=50)


def test_the_users_settings_are_left_alone_and_do_not_matter():
    import matplotlib as mpl

    usual = svg(regret_figure(some_curves()))
    with mpl.rc_context({"axes.facecolor": "pink", "lines.linewidth": 9.0}):
        before = mpl.rcParams.copy()

        assert svg(regret_figure(some_curves())) == usual
        assert mpl.rcParams.copy() == before


def test_pyplot_and_its_global_state_are_never_touched():
    code = (
        "import sys, numpy as np\n"
        "from kernelbandits.experiments import Curve, mean_band, regret_figure\n"
        "from kernelbandits.experiments.plotting.style import png, svg\n"
        "figure = regret_figure([Curve(label='a', color='blue', band=mean_band(np.ones((2, 5))))])\n"
        "png(figure, dots_per_inch=40), svg(figure)\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
    )

    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_svg_says_of_what_it_is_made_on_request():
    figure = regret_figure(some_curves())

    assert "numbers 12ab &amp; more" in svg(figure, source="numbers 12ab & more")
    assert "<dc:source>" not in svg(figure)


def test_a_figure_for_a_phone_stacks_its_panels_with_the_legend_below():
    curves = [
        Curve(label=label, color=color, band=BAND, rounds=ROUNDS) for label, color in (("a", "blue"), ("b", "red"))
    ]

    for figure in (curve_grid({"one": curves, "two": curves}, "", LIGHT.narrow(), y_label="Regret"),
                   regret_figure(curves, theme=LIGHT.narrow())):  # fmt: skip
        figure.draw_without_rendering()
        upper, lower = (axes.get_window_extent() for axes in figure.axes)
        (legend,) = figure.legends

        assert figure.get_figwidth() == NARROW_WIDTH
        assert lower.y1 < upper.y0
        assert legend.get_window_extent().y1 <= lower.y0
        assert "smallest text: 8.5 pt" in svg(figure)


def test_wide_figures_have_their_panels_side_by_side():
    curves = [Curve(label="a", color="blue", band=BAND, rounds=ROUNDS)]

    left, right = (
        axes.get_window_extent() for axes in curve_grid({"one": curves, "two": curves}, "", LIGHT, y_label="").axes
    )

    assert left.x1 < right.x0
