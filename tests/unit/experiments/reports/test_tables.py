import csv
import re
from io import StringIO

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from kernelbandits.experiments.reports.tables import (
    csv_table,
    environment_table,
    latex_escaped,
    latex_tables,
    markdown_tables,
    number_with_interval,
    overview_table,
)
from kernelbandits.experiments.results import read_results, report_warnings
from study_folders import simple_columns, write_head, write_job

UGLY = r"A&B_1 50% #3 {x}$ ~^\ γ"
FINAL = {UGLY: [3.0, 7.5, 4.2], "bad": [30.0, 41.0, 36.5], "chance": [60.0, 66.0, 63.5]}


@pytest.fixture
def folder(tmp_path):
    jobs = [
        write_job(
            tmp_path, environment="R&D_1", policy=label, seed=seed, columns=simple_columns([value / 2, value]),
            seconds=[0.25, 0.75], described={"policy": {"class": "UniformRandom" if label == "chance" else "Other"}},
        )
        for label, finals in FINAL.items()
        for seed, value in enumerate(finals)
    ]  # fmt: skip
    write_head(tmp_path, jobs, seeds=[0, 1, 2], horizon=2)
    return tmp_path


def test_numbers_are_those_computed_by_hand(folder):
    rows = {entry.policy: entry for entry in read_results(folder).ranking()["R&D_1"]}

    for label, finals in FINAL.items():
        low, high = stats.t.interval(0.95, df=2, loc=np.mean(finals), scale=stats.sem(finals))
        assert_allclose(rows[label].final.mean, np.mean(finals))
        assert_allclose(rows[label].final.half_width, (high - low) / 2)
        assert_allclose(rows[label].relative_regret, np.mean(finals) / np.mean(FINAL["chance"]))
        assert_allclose(rows[label].mean_reward.mean, np.mean([(2 - value) / 2 for value in finals]))
        assert_allclose(rows[label].seconds_per_round, 0.5)


def test_the_best_stands_first_and_alone(folder):
    rows = read_results(folder).ranking()["R&D_1"]

    assert [entry.policy for entry in rows] == [UGLY, "bad", "chance"]
    assert [entry.is_best for entry in rows] == [True, False, False]


def test_csv_keeps_every_digit(folder):
    entries = read_results(folder).ranking()

    rows = list(csv.DictReader(StringIO(csv_table(entries))))

    assert [float(row["regret"]) for row in rows] == [entry.regret.mean for entry in entries["R&D_1"]]
    assert rows[0]["policy"] == UGLY


def test_markdown_has_a_caption_and_one_row_in_bold(folder):
    text = markdown_tables(tables(folder))

    assert "After 2 rounds, mean over 3 seeds, ± half the length of 95 % intervals (Student's t over seeds)." in text
    assert text.count(f"**{UGLY}**") == 1
    assert len({len(line) for line in text.splitlines() if line.startswith("|")}) == 1


def tables(folder):
    return [environment_table(rows) for rows in read_results(folder).ranking().values()]


def test_the_overview_has_a_row_per_policy_and_a_column_per_environment(folder):
    entries = read_results(folder).ranking()
    groups = {"chance": "baseline", UGLY: "good", "bad": "other"}

    table = overview_table({"first": entries["R&D_1"]} | entries, title="all", groups=groups)

    assert list(table.headings) == ["Policy", "Family", "first", "R&D_1", "Time per round"]
    assert [row[:2] for row in table.rows] == [list(pair) for pair in groups.items()]
    assert table.rows[0][3] == "63 ± 7"
    assert table.rows[0][2] == "–"


def balanced(latex):
    """Depth of braces never falls below zero and ends there; escaped ones do not count."""
    depth = 0
    for brace in re.findall(r"(?<!\\)[{}]", latex.replace(r"\\", "")):
        depth += 1 if brace == "{" else -1
        if depth < 0:
            return False
    return depth == 0


def test_latex_is_escaped_balanced_and_rectangular(folder):
    latex = latex_tables(tables(folder))

    assert balanced(latex)
    assert r"A\&B\_1 50\% \#3 \{x\}\$ \textasciitilde{}\textasciicircum{}\textbackslash{} $\gamma$" in latex
    (columns,) = re.findall(r"\\begin\{tabular\}\{(l?r+)\}", latex)
    rows = re.findall(r"(?m)^ {4}(.*) \\\\$", latex)
    assert len(rows) == 4
    assert all(len(re.findall(r"(?<!\\)&", row)) == len(columns) - 1 for row in rows)
    assert [r"\bfseries" in row for row in rows] == [False, True, False, False]
    assert latex.count(r"\toprule") == latex.count(r"\bottomrule") == 1
    assert "mean over 3 seeds" in latex
    assert latex.isascii()


def test_unbalanced_latex_would_be_noticed():
    assert not balanced(r"\caption{a}}")
    assert not balanced(r"\caption{a")


@pytest.mark.parametrize("sign", "&_%#$")
def test_signs_of_latex_never_stand_bare(sign):
    assert latex_escaped(f"a{sign}b") == f"a\\{sign}b"


def test_unknown_regret_gives_way_to_reward(tmp_path):
    jobs = [
        write_job(
            tmp_path, environment="w", policy=label, seed=seed,
            columns=simple_columns([np.nan, np.nan], total_reward=[1.0, total + seed]),
        )
        for label, total in (("poor", 2.0), ("rich", 5.0))
        for seed in (0, 1)
    ]  # fmt: skip
    write_head(tmp_path, jobs)

    rows = read_results(tmp_path).ranking()["w"]

    assert [entry.policy for entry in rows] == ["rich", "poor"]
    assert [entry.final.mean for entry in rows] == [5.5, 2.5]
    assert environment_table(rows).headings == ["Policy", "Total reward", "Mean reward"]


def test_one_run_has_no_interval_and_unequal_numbers_of_runs_are_reported(tmp_path):
    jobs = [
        write_job(tmp_path, environment="w", policy=label, seed=seed, columns=simple_columns([1.0, 3.0]))
        for label, seeds in (("one", 1), ("two", 2))
        for seed in range(seeds)
    ]
    write_head(tmp_path, jobs)

    table = environment_table(read_results(tmp_path).ranking()["w"])

    assert table.headings[-1] == "Runs"
    assert {row[0]: row[1] for row in table.rows} == {"one": "3.00", "two": "3.00 ± 0.00"}


def test_numbers_have_as_many_places_as_their_interval_makes_sense_of():
    assert number_with_interval(0.123456, 0.00789) == "0.1235 ± 0.0079"
    assert number_with_interval(float("nan"), float("nan")) == "–"
    assert number_with_interval(1234.6, float("nan")) == "1235"
    assert number_with_interval(0.0, float("nan")) == "0.00"


def test_nothing_is_not_below_zero():
    assert number_with_interval(-0.01, 2.5) == "0.0 ± 2.5"
    assert number_with_interval(-0.06, 2.5) == "−0.1 ± 2.5"


def test_tables_of_like_names_have_labels_of_their_own(folder):
    rows = read_results(folder).ranking()["R&D_1"]

    latex = latex_tables([environment_table(rows, title=title) for title in ("чан", "机会", "A b", "a-b")])

    labels = re.findall(r"\\label\{(.*)\}", latex)
    assert labels == ["tab:unnamed", "tab:unnamed-2", "tab:a-b", "tab:a-b-2"]


@pytest.mark.parametrize(("every", "mean"), [(1, 1.5), (2, np.nan)])
def test_rewards_that_are_unknown_are_no_nothings(tmp_path, every, mean):
    rewards = np.array([1.0, np.nan, np.nan, 2.0, np.nan, np.nan])
    columns = {**simple_columns([np.nan] * 6), "reward": rewards, "total_reward": np.nancumsum(rewards)}
    kept = {name: column[every - 1 :: every] for name, column in columns.items()}
    job = write_job(tmp_path, environment="log", policy="A", seed=0, columns=kept)
    write_head(tmp_path, [job], seeds=[0], horizon=6)

    results = read_results(tmp_path)

    (entry,) = results.ranking()["log"]
    assert_allclose(entry.mean_reward.mean, mean)
    assert any("Some rewards are not known in log" in sentence for sentence in report_warnings(results))
