import numpy as np
import pytest
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure
from numpy.testing import assert_allclose

from kernelbandits.experiments.curves import MOST_POINTS, Curve, Points, draw_curves, thinned
from kernelbandits.experiments.results import Band
from kernelbandits.experiments.themes import LIGHT

ROUNDS = np.array([7, 50, 210, 3_000])
BAND = Band(np.array([2.0, 3.5, 9.0, 31.0]), np.array([0.5, 0.25, 4.0, 6.0]))


def drawn(*curves, **options):
    axes = Figure(figsize=(6.0, 4.0)).add_subplot()
    draw_curves(axes, curves, LIGHT, **options)
    return axes


def test_points_have_bars_and_no_line_between_them():
    axes = drawn(Curve(label="published", color="red", band=BAND, rounds=ROUNDS, points=Points(shape="s")))

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
    axes = drawn(Curve(label="published", color="red", band=BAND, rounds=ROUNDS, points=Points(aside=9.0)))

    points = axes.containers[0].lines[0]
    moved = points.get_transform().transform([[7.0, 2.0]]) - axes.transData.transform([[7.0, 2.0]])
    assert_allclose(moved, [[9.0 / 72 * axes.figure.dpi, 0.0]])


def test_a_logarithmic_axis_of_rounds_begins_at_the_first():
    curve = Curve(label="ours", color="blue", band=BAND, rounds=ROUNDS)

    assert drawn(curve, logarithmic_rounds=True).get_xscale() == "log"
    assert drawn(curve, logarithmic_rounds=True).get_xlim() == (7.0, 3_000.0)
    assert drawn(curve).get_xlim() == (0.0, 3_000.0)


@pytest.mark.parametrize(("top", "expected"), [(None, 1.05 * 37.0), (64.0, 64.0)])
def test_the_axis_ends_above_what_is_drawn_or_where_it_is_told(top, expected):
    curve = Curve(label="ours", color="blue", band=BAND, rounds=ROUNDS)

    assert drawn(curve, top=top).get_ylim()[1] == pytest.approx(expected)


@pytest.mark.parametrize("n_rounds", [25, MOST_POINTS, 1_000])
def test_few_numbers_are_all_drawn_and_many_thinned(n_rounds):
    rounds = np.unique(np.geomspace(1, 1e6, n_rounds).astype(int))
    band = Band(np.sqrt(rounds), np.ones(len(rounds)))

    kept, mean, _ = thinned(Curve(label="ours", color="blue", band=band, rounds=rounds))

    assert kept[-1] == rounds[-1]
    assert_allclose(mean, np.sqrt(kept))
    assert len(kept) == len(rounds) if len(rounds) <= MOST_POINTS else len(kept) <= MOST_POINTS
