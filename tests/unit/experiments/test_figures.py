import subprocess
import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose

from kernelbandits.experiments import Bound, Curve, mean_band, regret_figure
from kernelbandits.experiments.figures import DARK, LIGHT, png, spread, svg


def some_curves(n_seeds=3, horizon=50):
    rng = np.random.default_rng(1)
    return [
        Curve(label=name, color=color, band=mean_band(np.cumsum(rng.random((n_seeds, horizon)), axis=1)))
        for name, color in [("first", "blue"), ("second", "red")]
    ]


A_BOUND = Bound(label="proved", color="red", rounds=np.array([1, 50]), values=np.array([90.0, 90.0]))


def texts(axes):
    return [text.get_text() for text in axes.texts]


def test_every_curve_is_labeled_directly_and_every_bound_too():
    figure = regret_figure(some_curves(), bounds=[A_BOUND], caption="Mean over 3 seeds.")

    left, right = figure.axes
    assert texts(left) == ["first", "second"]
    assert "proved" in texts(right)
    assert [text.get_text() for text in figure.texts] == ["Mean over 3 seeds."]


def test_intervals_are_drawn_around_each_mean():
    left, _ = regret_figure(some_curves()).axes

    assert len(left.collections) == 2


@pytest.mark.parametrize("theme", [LIGHT, DARK])
def test_both_appearances_give_a_png_and_an_svg(theme):
    figure = regret_figure(some_curves(), bounds=[A_BOUND], theme=theme)

    assert png(figure, dots_per_inch=50).startswith(b"\x89PNG")
    assert theme.paper in svg(figure)


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
        "from kernelbandits.experiments.figures import png, svg\n"
        "figure = regret_figure([Curve(label='a', color='blue', band=mean_band(np.ones((2, 5))))])\n"
        "png(figure, dots_per_inch=40), svg(figure)\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
    )

    subprocess.run([sys.executable, "-c", code], check=True)


def test_labels_keep_their_distance_and_their_order():
    placed = spread([5.0, 1.0, 1.1, 1.2], 0.5)

    assert np.all(np.diff(np.sort(placed)) >= 0.5 - 1e-12)
    assert np.argsort(placed).tolist() == [1, 2, 3, 0]
    assert_allclose(placed[1:].mean(), 1.1)


def test_labels_that_are_far_apart_stay_where_they_are():
    assert_allclose(spread([3.0, 1.0, 2.0], 0.5), [3.0, 1.0, 2.0])
    assert spread([], 0.5).shape == (0,)


def test_an_svg_says_of_what_it_is_made_when_told():
    figure = regret_figure(some_curves())

    assert "numbers 12ab &amp; more" in svg(figure, source="numbers 12ab & more")
    assert "<dc:source>" not in svg(figure)
