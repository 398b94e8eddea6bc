from dataclasses import replace

import numpy as np
import pytest
from matplotlib.figure import Figure
from numpy.testing import assert_allclose
from scipy import stats

from kernelbandits.experiments.plotting.figures import (
    Dot,
    _coverage,
    _curve,
    _mean_reward,
    _responses,
    _seconds,
    assign_styles,
    draw_dots,
    list_figures,
)
from kernelbandits.experiments.plotting.style import DARK, LIGHT, CurveStyle, pdf, png, svg
from kernelbandits.experiments.results import REGRET, PolicyRuns, read_results
from kernelbandits.experiments.store import JobResult
from study_folders import simple_columns, write_head, write_job

CLAIMS = {"assumes": "noise", "failure_probability": 0.1}


def make_study(folder, labels, *, n_seeds=2, environments=("w",), horizon=6, **options):
    rng = np.random.default_rng(3)
    jobs = [
        write_job(
            folder, environment=environment, policy=label, seed=seed, seconds=rng.random(horizon) / 100,
            columns=simple_columns(np.cumsum(rng.random(horizon) * (place + 1)), n_covered=np.arange(1, horizon + 1)),
            **({"claims": CLAIMS} if place == 0 else {}), **options.get(label, {}),
        )
        for environment in environments
        for place, label in enumerate(labels)
        for seed in range(n_seeds)
    ]  # fmt: skip
    write_head(folder, jobs, horizon=horizon, seeds=list(range(n_seeds)))
    return read_results(folder)


def run(**values):
    usual = {
        "environment": "w", "policy": "p", "spec_name": "p", "parameters": {}, "seed": 0, "claims": None,
        "described": {}, "columns": simple_columns([1.0, 2.0, 4.0]),
    }  # fmt: skip
    values = usual | values
    parts = {name: values.pop(name) for name in ("columns", "seconds") if name in values}
    return JobResult(metadata=values, **parts)


def legend_of(figure):
    (legend,) = figure.legends
    return {text.get_text() for text in legend.get_texts()}


def drawing(results, name):
    return next(drawing for drawing in list_figures(results) if drawing.name == name)


def test_every_figure_has_its_name_and_tells_repeats_and_interval(tmp_path):
    drawings = list_figures(make_study(tmp_path, ["a", "b"]))

    names = [drawing.name for drawing in drawings]
    assert names == ["regret", "reward", "coverage", "information-gain", "effective-dimension", "time"]
    for one in drawings:
        assert "Mean over 2 seeds" in one.caption
        assert "95 % intervals (Student's t over seeds)" in one.caption
        assert one.alt_text


def test_certificates_are_shown_where_a_posterior_is_approximate(tmp_path):
    inflation = {"exact": np.ones(4), "budget": np.array([1.0, 1.0, 2.0, 3.0]), "chance": np.full(4, np.nan)}
    jobs = [
        write_job(
            tmp_path, environment="w", policy=label, seed=0,
            columns=simple_columns([1.0, 2.0, 3.0, 4.0], inflation=values),
        )
        for label, values in inflation.items()
    ]  # fmt: skip
    write_head(tmp_path, jobs, horizon=4, seeds=[0])
    shown = drawing(read_results(tmp_path), "certificate")

    assert shown.section == "Information"
    assert "Certified inflation in w: budget 3." in shown.alt_text
    assert "exact" not in shown.alt_text
    assert svg(shown.draw("", LIGHT))


def test_one_seed_has_no_interval(tmp_path):
    assert "no interval" in drawing(make_study(tmp_path, ["a"], n_seeds=1), "reward").caption


@pytest.mark.parametrize(("name", "form"), [("regret", svg), ("reward", svg), ("coverage", pdf)])
def test_equal_results_give_equal_pictures(tmp_path, name, form):
    make_study(tmp_path, ["a", "b"])

    first, second = (drawing(read_results(tmp_path), name) for _ in range(2))

    assert form(first.draw("", LIGHT)) == form(second.draw("", LIGHT))


def test_other_results_give_other_pictures(tmp_path):
    first, second = (drawing(make_study(tmp_path / label, [label]), "reward") for label in ("a", "b"))

    assert len({svg(first.draw("", LIGHT)), svg(second.draw("", LIGHT)), svg(first.draw("", DARK))}) == 3


def test_bounds_are_drawn_only_of_policies_that_claim_something(tmp_path):
    results = make_study(tmp_path, ["proved", "tuned"])

    _, right = drawing(results, "regret").draw("", LIGHT).axes

    dashed = [line for line in right.lines if line.is_dashed()]
    assert len(dashed) == 1
    expected = 2 * results.environments["w"]["proved"].curves("potential").mean(axis=0)
    assert_allclose(dashed[0].get_ydata(), expected)


def test_several_environments_stand_side_by_side_and_have_files_of_their_own(tmp_path):
    results = make_study(tmp_path, ["a", "b"], environments=("One & two", "One_two", "Three"))

    names = [one.name for one in list_figures(results) if one.section == "Regret"]
    figure = drawing(results, "regret").draw("", LIGHT)

    assert names == ["regret", "regret-one-two", "regret-one-two-2", "regret-three"]
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["One & two", "One_two", "Three"]


def test_many_policies_keep_few_colors(tmp_path):
    labels = [f"policy {n}" for n in range(12)] + ["chance"]
    results = make_study(tmp_path, labels, chance={"described": {"policy": {"class": "UniformRandom"}}})

    looks = assign_styles(results)
    figure = drawing(results, "regret").draw("", LIGHT)

    colored = {label: look.color for label, look in looks.items() if not look.is_background}
    assert len(colored) == len(set(colored.values())) == 7
    assert colored["chance"] == "gray"
    final = {label: runs.final("regret").mean() for label, runs in results.environments["w"].items()}
    best = sorted((label for label in final if label != "chance"), key=final.__getitem__)[:6]
    assert set(best) == set(colored) - {"chance"}
    assert legend_of(figure) == set(colored)
    assert "Thin and gray: 6 other policies" in drawing(results, "regret").caption


def test_few_policies_all_have_colors(tmp_path):
    looks = assign_styles(make_study(tmp_path, [f"p{n}" for n in range(7)]))

    assert len({look.color for look in looks.values()}) == 7
    assert not any(look.is_background for look in looks.values())


@pytest.mark.parametrize("labels", [["$x_1$ & #"], ["a" * 90, "b"]])
def test_any_label_can_be_drawn(tmp_path, labels):
    for one in list_figures(make_study(tmp_path, labels)):
        assert png(one.draw(one.caption, LIGHT), dots_per_inch=20).startswith(b"\x89PNG")


def test_every_policy_is_in_the_legend_once(tmp_path):
    results = make_study(tmp_path, [f"policy {n}" for n in range(7)], environments=("a", "b"))

    (legend,) = drawing(results, "regret").draw("", LIGHT).legends

    assert sorted(text.get_text() for text in legend.get_texts()) == [f"policy {n}" for n in range(7)]


def test_final_results_of_all_policies_are_drawn_if_some_have_no_color(tmp_path):
    labels = [f"policy {n}" for n in range(9)]
    results = make_study(tmp_path, labels, environments=("a", "b"))

    first, second = drawing(results, "final-regret").draw("", LIGHT).axes

    final = {label: runs.final("regret").mean() for label, runs in results.environments["a"].items()}
    drawn = {round(float(line.get_xdata()[0]), 9) for line in first.lines if len(line.get_xdata()) == 1}
    assert drawn == {round(float(value), 9) for value in final.values()}
    assert {tick.get_text() for tick in first.get_yticklabels()} == set(labels)
    assert (first.get_title(loc="left"), second.get_title(loc="left")) == ("a", "b")


def test_groups_color_the_final_results(tmp_path):
    results = make_study(tmp_path, ["a", "b", "c"])
    found = {one.name: one for one in list_figures(results, groups={"a": "x", "b": "y", "c": "x"})}

    (legend,) = found["final-regret"].draw("", LIGHT).legends

    assert [text.get_text() for text in legend.get_texts()] == ["x", "y"]


def test_a_grid_is_drawn_against_its_parameters(tmp_path):
    options = {
        f"k {value}": {"spec_name": "k", "parameters": {"exploration": value, "kind": kind}}
        for value, kind in ((0.1, "x"), (1.0, "x"), (10.0, "y"), (1.5, "y"))
    }
    one = drawing(make_study(tmp_path, list(options), **options), "sensitivity-k")

    first, second = one.draw("", LIGHT).axes

    assert (first.get_xscale(), second.get_xscale()) == ("log", "linear")
    assert [label.get_text() for label in second.get_xticklabels()] == ["x", "y"]
    assert {text.get_text() for text in first.get_legend().get_texts()} <= {"kind=x", "kind=y"}


def test_a_grid_of_kernels_is_drawn_by_name(tmp_path):
    kernels = ({"class": "Gaussian", "length_scale": 0.2}, {"class": "Linear"})
    options = {
        f"k {place}": {"spec_name": "k", "parameters": {"kernel": kernel}} for place, kernel in enumerate(kernels)
    }
    one = drawing(make_study(tmp_path, list(options), **options), "sensitivity-k")

    (panel,) = one.draw("", LIGHT).axes

    assert [label.get_text() for label in panel.get_xticklabels()] == ["Gaussian(length_scale=0.2)", "Linear"]
    assert "kernel: best Gaussian(length_scale=0.2)." in one.alt_text or "best Linear." in one.alt_text


def test_responses_are_means_and_intervals_by_value():
    finals = {(0.1, 1): [3.0, 5.0], (0.3, 1): [2.0, 9.0], (0.1, 2): [4.0, 4.5]}
    policies = [
        PolicyRuns(
            [run(seed=s, parameters={"a": a, "b": b}, columns=simple_columns([v])) for s, v in enumerate(values)]
        )
        for (a, b), values in reversed(finals.items())
    ]

    found = {response.others: response for response in _responses(policies, "a", REGRET)}

    assert found["b=1"].values == [0.1, 0.3]
    assert_allclose(found["b=1"].means, [4.0, 5.5])
    assert_allclose(found["b=1"].half_widths[0], stats.t.ppf(0.975, 1) * np.std([3, 5], ddof=1) / np.sqrt(2))
    assert found["b=2"].values == [0.1]


def test_coverage_counts_rounds_and_runs():
    held, failed = simple_columns([1.0] * 4, n_covered=[1, 2, 3, 4]), simple_columns([1.0] * 4, n_covered=[1, 1, 2, 3])

    found = _coverage(PolicyRuns([run(columns=held, claims=CLAIMS), run(columns=failed, seed=1)]), CurveStyle("blue"))

    assert found.rounds_covered == (1.0 + 0.75) / 2
    assert (found.n_failed, found.n_runs, found.failure_probability) == (1, 2, 0.1)
    assert _coverage(PolicyRuns([run(columns=held), run()]), CurveStyle("blue")) is None


def test_mean_reward_is_total_over_rounds():
    runs = PolicyRuns([run(columns=simple_columns([0.0, 1.0], rounds=[4, 10], total_reward=[2.0, 7.0]))])

    assert_allclose(_curve(runs, CurveStyle("blue"), _mean_reward).band.mean, [0.5, 0.7])


def test_times_are_means_over_stretches_that_lose_nothing():
    rounds = np.arange(3, 301, 3)
    spent = np.random.default_rng(1).random(len(rounds))
    runs = PolicyRuns([run(seconds={"round": rounds, "seconds": spent})])

    ends, values = _seconds(runs)

    assert len(ends) <= 24
    assert ends[-1] == 300
    assert_allclose(np.sum(values[0] * np.diff(ends, prepend=0)), np.sum(3 * spent))


def test_without_any_time_there_is_no_figure_of_it():
    assert _curve(PolicyRuns([run()]), CurveStyle("blue"), _seconds) is None


def test_runs_without_a_common_round_have_no_curve_and_still_a_table(tmp_path):
    jobs = [
        write_job(tmp_path, environment="w", policy="p", seed=0, columns=simple_columns([1.0, 2.0], rounds=[5, 10])),
        write_job(tmp_path, environment="w", policy="p", seed=1, columns=simple_columns([1.0], rounds=[3])),
    ]
    write_head(tmp_path, jobs)

    assert list_figures(read_results(tmp_path)) == ()


DOTS = [
    Dot(label="IPS", color="blue", value=0.3, low=0.1, high=0.4, nominal=0.0),
    Dot(label="direct method", color="red", value=-2.0, low=-2.5, high=-1.0, is_hollow=True),
]


def drawn(dots):
    axes = Figure(figsize=(6.0, 3.0)).add_subplot()
    draw_dots(axes, DARK, dots=dots)
    return axes


def test_bars_reach_from_low_to_high_and_the_first_dot_is_at_the_top():
    axes = drawn(DOTS)

    lines = [line.get_xydata() for line in axes.lines]
    assert_allclose(lines[0], [[-2.5, 0.0], [-1.0, 0.0]])
    assert_allclose(lines[1], [[-2.0, 0.0]])
    assert_allclose(lines[2], [[0.1, 1.0], [0.4, 1.0]])
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["direct method", "IPS"]


def test_a_nominal_value_is_a_vertical_mark():
    claimed, bare = drawn(DOTS), drawn([replace(DOTS[0], nominal=None), DOTS[1]])

    assert_allclose(np.unique(claimed.lines[-1].get_xdata()), [0.0])
    assert len(claimed.lines) == len(bare.lines) + 1


def test_hollow_dots_show_the_background():
    hollow, filled = (drawn(DOTS).lines[place] for place in (1, 3))

    assert hollow.get_markerfacecolor() == DARK.background
    assert filled.get_markerfacecolor() == DARK.colors["blue"]
