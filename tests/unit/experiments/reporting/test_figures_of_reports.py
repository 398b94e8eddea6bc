from itertools import pairwise

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text
from numpy.testing import assert_allclose
from scipy import stats

from kernelbandits.experiments.figures import DARK, LIGHT, pdf, png, svg
from kernelbandits.experiments.reporting.coverage import coverage_of
from kernelbandits.experiments.reporting.gallery import drawings_of
from kernelbandits.experiments.reporting.looks import Look, looks_of
from kernelbandits.experiments.reporting.sensitivity import responses
from kernelbandits.experiments.reporting.series import mean_reward, seconds, series_curve
from kernelbandits.experiments.results import REGRET, PolicyRuns, read_results
from kernelbandits.experiments.store import JobResult
from study_folders import simple_columns, write_head, write_job

CLAIMS = {"assumes": "noise", "failure_probability": 0.1}


def a_study(folder, labels, *, n_seeds=2, environments=("w",), horizon=6, **options):
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


def drawing(recorded, name):
    return next(drawing for drawing in drawings_of(recorded) if drawing.name == name)


def test_every_figure_has_its_name_and_tells_repeats_and_interval(tmp_path):
    drawings = drawings_of(a_study(tmp_path, ["a", "b"]))

    names = [drawing.name for drawing in drawings]
    assert names == ["regret", "reward", "coverage", "information-gain", "effective-dimension", "time"]
    for one in drawings:
        assert "Mean over 2 seeds" in one.caption
        assert "95 % intervals (Student's t over seeds)" in one.caption
        assert one.description


def test_one_seed_has_no_interval(tmp_path):
    assert "no interval" in drawing(a_study(tmp_path, ["a"], n_seeds=1), "reward").caption


@pytest.mark.parametrize(("name", "form"), [("regret", svg), ("reward", svg), ("coverage", pdf)])
def test_equal_results_give_equal_pictures(tmp_path, name, form):
    a_study(tmp_path, ["a", "b"])

    first, second = (drawing(read_results(tmp_path), name) for _ in range(2))

    assert form(first.draw("", LIGHT)) == form(second.draw("", LIGHT))


def test_other_results_give_other_pictures(tmp_path):
    first, second = (drawing(a_study(tmp_path / label, [label]), "reward") for label in ("a", "b"))

    assert len({svg(first.draw("", LIGHT)), svg(second.draw("", LIGHT)), svg(first.draw("", DARK))}) == 3


def test_bounds_are_drawn_only_of_policies_that_claim_something(tmp_path):
    recorded = a_study(tmp_path, ["proved", "tuned"])

    _, right = drawing(recorded, "regret").draw("", LIGHT).axes

    dashed = [line for line in right.lines if line.is_dashed()]
    assert len(dashed) == 1
    expected = 2 * recorded.environments["w"]["proved"].curves("potential").mean(axis=0)
    assert_allclose(dashed[0].get_ydata(), expected)


def test_several_environments_stand_side_by_side_and_have_files_of_their_own(tmp_path):
    recorded = a_study(tmp_path, ["a", "b"], environments=("One & two", "One_two", "Three"))

    names = [one.name for one in drawings_of(recorded) if one.section == "Regret"]
    figure = drawing(recorded, "regret").draw("", LIGHT)

    assert names == ["regret", "regret-one-two", "regret-one-two-2", "regret-three"]
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["One & two", "One_two", "Three"]


def test_many_policies_keep_few_colors(tmp_path):
    labels = [f"policy {n}" for n in range(12)] + ["chance"]
    recorded = a_study(tmp_path, labels, chance={"described": {"policy": {"class": "UniformRandom"}}})

    looks = looks_of(recorded)
    left, _ = drawing(recorded, "regret").draw("", LIGHT).axes

    colored = {label: look.color for label, look in looks.items() if not look.is_quiet}
    assert len(colored) == len(set(colored.values())) == 7
    assert colored["chance"] == "gray"
    final = {label: played.final("regret").mean() for label, played in recorded.environments["w"].items()}
    best = sorted((label for label in final if label != "chance"), key=final.__getitem__)[:6]
    assert set(best) == set(colored) - {"chance"}
    assert {text.get_text() for text in left.texts} == set(colored)
    assert "Thin and gray: 6 other policies" in drawing(recorded, "regret").caption


def test_few_policies_all_have_colors(tmp_path):
    looks = looks_of(a_study(tmp_path, [f"p{n}" for n in range(7)]))

    assert len({look.color for look in looks.values()}) == 7
    assert not any(look.is_quiet for look in looks.values())


@pytest.mark.parametrize("labels", [["$x_1$ & #"], ["a" * 90, "b"]])
def test_any_label_can_be_drawn(tmp_path, labels):
    for one in drawings_of(a_study(tmp_path, labels)):
        assert png(one.draw(one.caption, LIGHT), dots_per_inch=20).startswith(b"\x89PNG")


def test_names_beside_a_panel_never_lie_on_one_another(tmp_path):
    figure = drawing(a_study(tmp_path, [f"policy {n}" for n in range(7)]), "regret").draw("", LIGHT)
    renderer = FigureCanvasAgg(figure).get_renderer()
    for text in figure.axes[0].texts:
        text.update_positions(renderer)

    # Of the letters alone: the box of a note also holds its leader.
    boxes = sorted((Text.get_window_extent(text, renderer) for text in figure.axes[0].texts), key=lambda box: box.y0)

    assert len(boxes) == 7
    assert all(lower.y1 <= upper.y0 + 0.5 for lower, upper in pairwise(boxes))


def test_a_grid_is_drawn_against_its_parameters(tmp_path):
    options = {
        f"k {value}": {"spec_name": "k", "parameters": {"exploration": value, "kind": kind}}
        for value, kind in ((0.1, "x"), (1.0, "x"), (10.0, "y"), (1.5, "y"))
    }
    one = drawing(a_study(tmp_path, list(options), **options), "sensitivity-k")

    first, second = one.draw("", LIGHT).axes

    assert (first.get_xscale(), second.get_xscale()) == ("log", "linear")
    assert [label.get_text() for label in second.get_xticklabels()] == ["x", "y"]
    assert {text.get_text() for text in first.texts} <= {"kind=x", "kind=y"}


def test_a_grid_of_kernels_is_drawn_by_name(tmp_path):
    kernels = ({"class": "Gaussian", "length_scale": 0.2}, {"class": "Linear"})
    options = {
        f"k {place}": {"spec_name": "k", "parameters": {"kernel": kernel}} for place, kernel in enumerate(kernels)
    }
    one = drawing(a_study(tmp_path, list(options), **options), "sensitivity-k")

    (panel,) = one.draw("", LIGHT).axes

    assert [label.get_text() for label in panel.get_xticklabels()] == ["Gaussian(length_scale=0.2)", "Linear"]
    assert "kernel: best Gaussian(length_scale=0.2)." in one.description or "best Linear." in one.description


def test_responses_are_means_and_intervals_by_value():
    finals = {(0.1, 1): [3.0, 5.0], (0.3, 1): [2.0, 9.0], (0.1, 2): [4.0, 4.5]}
    policies = [
        PolicyRuns(
            [run(seed=s, parameters={"a": a, "b": b}, columns=simple_columns([v])) for s, v in enumerate(values)]
        )
        for (a, b), values in reversed(finals.items())
    ]

    found = {response.others: response for response in responses(policies, "a", REGRET)}

    assert found["b=1"].values == [0.1, 0.3]
    assert_allclose(found["b=1"].means, [4.0, 5.5])
    assert_allclose(found["b=1"].half_widths[0], stats.t.ppf(0.975, 1) * np.std([3, 5], ddof=1) / np.sqrt(2))
    assert found["b=2"].values == [0.1]


def test_coverage_counts_rounds_and_runs():
    held, failed = simple_columns([1.0] * 4, n_covered=[1, 2, 3, 4]), simple_columns([1.0] * 4, n_covered=[1, 1, 2, 3])

    found = coverage_of(PolicyRuns([run(columns=held, claims=CLAIMS), run(columns=failed, seed=1)]), Look("blue"))

    assert found.rounds_held == (1.0 + 0.75) / 2
    assert (found.n_failed, found.n_runs, found.claimed) == (1, 2, 0.1)
    assert coverage_of(PolicyRuns([run(columns=held), run()]), Look("blue")) is None


def test_mean_reward_is_total_over_rounds():
    played = PolicyRuns([run(columns=simple_columns([0.0, 1.0], rounds=[4, 10], total_reward=[2.0, 7.0]))])

    assert_allclose(series_curve(played, Look("blue"), mean_reward).band.mean, [0.5, 0.7])


def test_times_are_means_over_stretches_that_lose_nothing():
    rounds = np.arange(3, 301, 3)
    spent = np.random.default_rng(1).random(len(rounds))
    played = PolicyRuns([run(seconds={"round": rounds, "seconds": spent})])

    ends, values = seconds(played)

    assert len(ends) <= 24
    assert ends[-1] == 300
    assert_allclose(np.sum(values[0] * np.diff(ends, prepend=0)), np.sum(3 * spent))


def test_without_any_time_there_is_no_figure_of_it():
    assert series_curve(PolicyRuns([run()]), Look("blue"), seconds) is None


def test_runs_without_a_common_round_have_no_curve_and_still_a_table(tmp_path):
    jobs = [
        write_job(tmp_path, environment="w", policy="p", seed=0, columns=simple_columns([1.0, 2.0], rounds=[5, 10])),
        write_job(tmp_path, environment="w", policy="p", seed=1, columns=simple_columns([1.0], rounds=[3])),
    ]
    write_head(tmp_path, jobs)

    assert drawings_of(read_results(tmp_path)) == ()
