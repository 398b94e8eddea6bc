from dataclasses import replace

import numpy as np
from matplotlib.figure import Figure
from numpy.testing import assert_allclose

from kernelbandits.experiments.reporting.dots import Dot, draw_dots, names_room
from kernelbandits.experiments.themes import DARK

DOTS = [
    Dot(label="IPS", color="blue", value=0.3, low=0.1, high=0.4, claim=0.0),
    Dot(label="direct method", color="red", value=-2.0, low=-2.5, high=-1.0, is_hollow=True),
]


def drawn(dots):
    axes = Figure(figsize=(6.0, 3.0)).add_subplot()
    draw_dots(axes, DARK, dots=dots, left=2.0)
    return axes


def test_bars_reach_from_low_to_high_and_the_first_dot_is_at_the_top():
    axes = drawn(DOTS)

    lines = [line.get_xydata() for line in axes.lines]
    assert_allclose(lines[0], [[-2.5, 0.0], [-1.0, 0.0]])
    assert_allclose(lines[1], [[-2.0, 0.0]])
    assert_allclose(lines[2], [[0.1, 1.0], [0.4, 1.0]])
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["direct method", "IPS"]


def test_a_claim_is_an_upright_mark_and_no_claim_is_none():
    claimed, bare = drawn(DOTS), drawn([replace(DOTS[0], claim=None), DOTS[1]])

    assert_allclose(np.unique(claimed.lines[-1].get_xdata()), [0.0])
    assert len(claimed.lines) == len(bare.lines) + 1


def test_hollow_dots_show_the_paper():
    hollow, filled = (drawn(DOTS).lines[place] for place in (1, 3))

    assert hollow.get_markerfacecolor() == DARK.paper
    assert filled.get_markerfacecolor() == DARK.colors["blue"]


def test_longer_names_get_more_room_up_to_a_limit():
    rooms = [names_room(["IPS"]), names_room(["IPS", "a longer name"]), names_room(["x" * 500])]

    assert rooms == sorted(rooms)
    assert rooms[-1] == 3.0
