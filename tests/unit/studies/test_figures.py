"""Figures of the page of results are drawn from its numbers, and from nothing else."""

import copy
import json
import re
from importlib.metadata import version

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scripts.site.pages import PICTURE, prepared
from studies.__main__ import NUMBERS, PAGE, SECTIONS, as_json, page, pictures
from studies.curves import N_PLACES, as_curve, curve_numbers, ends_in_words, few_rounds, repeats, values_at
from studies.numbers import spread_of, spread_text
from studies.pictures import file_of, source_of

from kernelbandits.experiments.plotting.style import LIGHT, VARIANTS, svg

FOLDER = NUMBERS.parent
FIGURED = [name for name, section in SECTIONS.items() if hasattr(section, "drawing")]
LARGEST, LARGEST_IN_ALL = 150_000, 1_000_000  # bytes that a reader may have to fetch


@pytest.fixture(scope="module")
def numbers():
    return json.loads(NUMBERS.read_text(encoding="utf-8"))


def files_of(name, numbers):
    drawing = SECTIONS[name].drawing(numbers[name])
    return [FOLDER / file_of(drawing, variant) for variant in VARIANTS]


def one_number_changed(found):
    """The same numbers, but for one that is drawn."""
    changed = copy.deepcopy(found)
    if "curves" in changed:
        changed["curves"][0]["mean"][-1] *= 0.5
    else:
        row = changed["rows"][0]
        for column in {"bias", "rmse", "reward", "regret"} & row.keys():
            row[column] = (
                [value + 50.0 for value in row[column]] if isinstance(row[column], list) else row[column] + 0.1
            )
    return changed


def test_every_picture_on_the_page_exists_and_every_picture_stands_on_it():
    text = PAGE.read_text(encoding="utf-8")

    shown = set(re.findall(r'(?:src|srcset)="results/([^"]+)"', text))

    assert shown == {path.name for path in FOLDER.glob("*.svg")}
    assert len(shown) == len(VARIANTS) * len(FIGURED)


@pytest.mark.parametrize("name", FIGURED)
def test_files_say_that_they_are_made_of_these_numbers(name, numbers):
    digest = source_of(numbers[name]).partition(",")[0]

    for path in files_of(name, numbers):
        assert digest in path.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", FIGURED)
def test_drawing_again_gives_the_same_files(name, numbers):
    if f"matplotlib {version('matplotlib')}" not in files_of(name, numbers)[0].read_text(encoding="utf-8"):
        pytest.skip("another version of matplotlib drew the figures, and places letters a little differently")

    for path, text in pictures({name: numbers[name]}).items():
        assert path.read_text(encoding="utf-8") == text, f"python -m studies --only-write draws {path.name} again"


@pytest.mark.parametrize("name", FIGURED)
def test_another_number_makes_another_picture(name, numbers):
    changed = one_number_changed(numbers[name])

    before = SECTIONS[name].drawing(numbers[name])
    after = SECTIONS[name].drawing(changed)

    assert source_of(changed) != source_of(numbers[name])
    assert svg(before.draw("", LIGHT)) != svg(after.draw("", LIGHT))


def test_versions_are_no_numbers(numbers):
    assert source_of({**numbers["mnist"], "versions": {"python": "4.0"}}) == source_of(numbers["mnist"])


def test_pictures_are_small():
    sizes = {path.name: path.stat().st_size for path in FOLDER.glob("*.svg")}

    assert max(sizes.values()) < LARGEST
    for variant in VARIANTS:  # a window loads one of them
        ending = re.compile(rf"{'' if 'narrow' in variant else '(?<!-narrow)'}-{variant}\.svg$")
        own = [size for name, size in sizes.items() if ending.search(name)]
        assert len(own) == len(FIGURED)
        assert sum(own) < LARGEST_IN_ALL


def test_text_can_be_read_on_a_phone():
    """At 390 pixels a page has 358 for a figure, which is then not scaled down; 8.25 points are 11 pixels."""
    for path in FOLDER.glob("*-narrow-*.svg"):
        text = path.read_text(encoding="utf-8")
        width = float(re.search(r'<svg [^>]*width="([0-9.]+)pt"', text)[1])
        assert width * 4 / 3 <= 358
        assert float(re.search(r"smallest text: ([0-9.]+) pt", text)[1]) >= 8.25


@pytest.mark.parametrize("name", FIGURED)
def test_captions_tell_repeats_and_intervals_and_descriptions_numbers(name, numbers):
    drawing = SECTIONS[name].drawing(numbers[name])

    assert re.search(r"\d+ (runs|logs)|: \d+", drawing.caption)
    assert re.search(r"standard deviation|95 % intervals", drawing.caption)
    assert re.search(r"\d", drawing.alt_text)


@pytest.mark.parametrize("name", FIGURED)
def test_curves_are_short(name, numbers):
    for curve in numbers[name].get("curves", []):
        lengths = {len(curve[part]) for part in ("rounds", "mean", "deviation")}
        assert len(lengths) == 1
        assert lengths.pop() <= N_PLACES


def test_curves_end_where_the_tables_do(numbers):
    ends = {row["policy"]: row["10000"]["mean"] for row in numbers["mnist"]["rows"]}
    ends |= {(row["data"], row["policy"]): row["end"]["mean"] for row in numbers["classification"]["rows"]}
    ends |= {(row["length_scale"], row["exploration"]): row["10000"]["mean"] for row in numbers["abalone"]["rows"]}

    for curve in numbers["mnist"]["curves"]:
        assert_allclose(curve["mean"][-1], ends[curve["policy"]], rtol=1e-3)
    for curve in numbers["classification"]["curves"]:
        assert_allclose(curve["mean"][-1], ends[curve["data"], curve["policy"]], rtol=1e-3)
    for curve in numbers["abalone"]["curves"]:
        assert_allclose(curve["mean"][-1], ends[curve["length_scale"], curve["exploration"]], rtol=1e-3)


@pytest.mark.parametrize("logarithmic", [False, True])
def test_few_rounds_are_known_to_all_runs_and_reach_the_end(logarithmic):
    runs = [dict.fromkeys(range(7, 10_000, 7), 0.0), dict.fromkeys(range(14, 9_000, 14), 0.0)]

    rounds = few_rounds(runs, first=100, logarithmic=logarithmic)

    assert set(rounds) <= set(runs[0]) & set(runs[1])
    assert rounds == sorted(rounds)
    assert rounds[0] >= 100
    assert rounds[-1] == max(runs[1])
    assert 20 < len(rounds) <= N_PLACES
    steps = np.diff(np.log(rounds) if logarithmic else rounds)
    assert steps.max() < 1.6 * steps.min()


def test_a_short_run_keeps_all_its_rounds():
    assert few_rounds([{3: 1.0, 5: 2.0}]) == [3, 5]


def test_numbers_of_a_curve_are_those_of_the_definition():
    runs = [{1: 2.0, 4: 3.0}, {1: 5.0, 4: 3.0}, {1: 11.0, 4: 4.5}]

    found = curve_numbers(values_at(runs, [1, 4]), [1, 4])

    assert found["n_runs"] == 3
    assert_allclose(found["mean"], [6.0, 3.5])
    assert_allclose(found["deviation"], [np.std([2, 5, 11], ddof=1), np.std([3, 3, 4.5], ddof=1)], rtol=1e-3)
    drawn_as = as_curve(found, label="x", color="blue")
    assert_allclose(drawn_as.band.mean, found["mean"])
    assert_allclose(drawn_as.band.half_width, found["deviation"])
    assert drawn_as.at.tolist() == [1, 4]


def test_numbers_keep_four_digits_and_one_run_has_no_spread():
    found = curve_numbers(np.array([[1234.5678, 0.000123456]]), [1, 2])

    assert found["mean"] == [1235.0, 0.0001235]
    assert found["deviation"] == [0.0, 0.0]


def test_repeats_that_differ_are_named():
    found = [{"policy": "a", "n_runs": 3}, {"policy": "b", "n_runs": 6}]

    assert repeats(found, {"a": ("first", "blue"), "b": ("second", "red")}).startswith(
        "Mean over runs (first: 3, second: 6);"
    )


def test_ends_are_identified_by_panel():
    curve = as_curve({"rounds": [1, 2], "mean": [3.0, 1_234.0], "deviation": [0.0, 0.0]}, label="γ = 1", color="blue")

    assert ends_in_words({"bump": [curve], "step": [curve]}) == "bump (γ = 1 at 1,234); step (γ = 1 at 1,234)"


def test_a_printed_spread_can_be_read_again():
    assert spread_of(spread_text({"mean": 1065.44, "deviation": 34.71})) == (1065.4, 34.7)


def test_the_numbers_of_a_curve_take_one_line(numbers):
    text = as_json({"curves": [{"mean": [1.5, -2e-05], "label": "a [1, 2]"}], "rows": [{"x": 1}]})

    assert '"mean": [1.5, -2e-05]' in text
    assert json.loads(text) == {"curves": [{"mean": [1.5, -2e-05], "label": "a [1, 2]"}], "rows": [{"x": 1}]}
    assert json.loads(as_json(numbers)) == numbers


def test_the_site_shows_the_figure_of_its_own_appearance(numbers):
    written = page(numbers)

    shown = prepared(written)

    assert len(PICTURE.findall(written)) == len(FIGURED)
    assert "prefers-color-scheme" not in shown
    for name in FIGURED:
        files = dict(zip(VARIANTS, (path.name for path in files_of(name, numbers)), strict=True))
        for mode in ("light", "dark"):
            source = f'<source media="(max-width: 700px)" srcset="results/{files[f"narrow-{mode}"]}">'
            assert f'{source}<img src="results/{files[mode]}#only-{mode}" alt="' in shown
