from itertools import pairwise

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from kernelbandits.experiments.plotting.style import DARK, LIGHT, abbreviate, set_log_ticks


def test_both_themes_have_the_same_colors():
    assert LIGHT.colors.keys() == DARK.colors.keys()


def test_a_long_text_loses_its_middle():
    short = abbreviate("KernelUCB exploration=0.1 regularization=10", 20)

    assert len(short) <= 20
    assert short.startswith("KernelUCB")
    assert short.endswith("=10")
    assert "…" in short


def test_a_short_text_stays():
    assert abbreviate("KernelUCB", 9) == "KernelUCB"


def labels(low, high):
    figure = Figure(figsize=(3, 3))
    axes = figure.add_subplot(xscale="log", xlim=(low, high))
    set_log_ticks(axes.xaxis)
    FigureCanvasAgg(figure).draw()
    ticks = [*axes.xaxis.get_major_ticks(), *axes.xaxis.get_minor_ticks()]
    shown = [tick.label1 for tick in ticks if low <= tick.get_loc() <= high and tick.label1.get_text()]
    return sorted((label.get_window_extent() for label in shown), key=lambda box: box.x0), shown


@pytest.mark.parametrize(
    ("low", "high"), [(5, 60), (1, 2), (0.03, 0.9), (1, 1e5), (6, 70), (1.0, 30.0), (1, 40), (0.2, 2.1)]
)
def test_labels_of_a_logarithmic_axis_exist_and_do_not_overlap(low, high):
    boxes, shown = labels(low, high)

    assert len(shown) >= 2
    assert all(before.x1 < after.x0 for before, after in pairwise(boxes))
