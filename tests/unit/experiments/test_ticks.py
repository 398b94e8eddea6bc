from itertools import pairwise

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from kernelbandits.experiments.ticks import tick_logarithmically


def labels(low, high):
    figure = Figure(figsize=(3, 3))
    axes = figure.add_subplot(xscale="log", xlim=(low, high))
    tick_logarithmically(axes.xaxis)
    FigureCanvasAgg(figure).draw()
    ticks = [*axes.xaxis.get_major_ticks(), *axes.xaxis.get_minor_ticks()]
    shown = [tick.label1 for tick in ticks if low <= tick.get_loc() <= high and tick.label1.get_text()]
    return sorted((label.get_window_extent() for label in shown), key=lambda box: box.x0), shown


@pytest.mark.parametrize(
    ("low", "high"), [(5, 60), (1, 2), (0.03, 0.9), (1, 1e5), (6, 70), (1.0, 30.0), (1, 40), (0.2, 2.1)]
)
def test_numbers_of_an_axis_are_there_and_never_overlap(low, high):
    boxes, shown = labels(low, high)

    assert len(shown) >= 2
    assert all(before.x1 < after.x0 for before, after in pairwise(boxes))
