from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
from benchmarks import table
from benchmarks.cases import PLAY_NAME, Bar, cases
from benchmarks.results import CaseReport, Outcome, Report, ThreadsReport
from benchmarks.table import duration, ratio, reached

CASE = next(case for case in cases(is_quick=False) if case.name == "w1-b-1e4-500")


def markdown(report, cases):
    """The page without the spaces that align its columns."""
    return re.sub(" +", " ", table.markdown(report, cases))


@pytest.fixture
def report():
    ours = Outcome(name="kernelbandits", how="median of 3 runs", total=0.05, last_round=4e-5, choices="66 distinct")
    peer = Outcome(name="Algorithm 1", how="from checkpoints 100, 300, 498", total=40.0, choices="equal in 203 rounds")
    absent = Outcome(name="BoTorch", how="not installed")
    return Report(
        is_quick=False,
        machine={"processor": "abacus"},
        versions={"numpy": "9.9"},
        date="2013-07-11",
        load=[0.1, 0.2],
        minutes=3.0,
        cases=[
            CaseReport(name=CASE.name, title=CASE.title, n_actions=10_000, horizon=500, outcomes=[ours, peer, absent])
        ],
        threads=[],
    )


def test_the_page_has_ratio_bar_machine_and_what_is_missing(report):
    page = markdown(report, [CASE])

    assert "| faster than Algorithm 1 | ≥ 700× | 800× | met |" in page
    assert "| Algorithm 1 | 40 s | – | 12.5 | 800× | equal in 203 rounds | from checkpoints 100, 300, 498 |" in page
    assert "- BoTorch: not installed" in page
    assert "processor abacus" in page
    assert "numpy 9.9" in page
    assert report.is_sound


def test_a_bar_not_met_is_reported_and_is_no_error(report):
    report.cases[0].outcomes[1].total = 10.0

    assert "| ≥ 700× | 200× | **not met** |" in markdown(report, [CASE])
    assert report.is_sound


def test_a_different_choice_is_reported_and_is_an_error(report):
    report.cases[0].outcomes[1].differs_at = 17

    assert "**different in round 17**" in markdown(report, [CASE])
    assert not report.is_sound


def test_a_failed_case_is_reported_and_is_an_error(report):
    report.cases[0] = replace(report.cases[0], outcomes=[], trouble="ValueError: no")

    assert "**Failed:** ValueError: no" in markdown(report, [CASE])
    assert "| no figure |" in markdown(report, [CASE])
    assert not report.is_sound


def test_the_quick_form_says_that_it_is(report):
    assert "The quick form" not in markdown(report, [])
    assert "The quick form" in markdown(replace(report, is_quick=True), [])


def test_a_machine_that_was_not_idle_is_mentioned(report):
    assert "not idle" not in markdown(report, [CASE])
    assert "not idle" in markdown(replace(report, load=[1.4, 1.0]), [CASE])


def test_a_busy_machine_is_mentioned(report):
    report.cases[0].cpu_share = 0.5

    assert "ours had 50% of a processor" in markdown(report, [CASE])


@pytest.mark.parametrize(
    ("seconds", "bar", "words"),
    [
        ([1.0, 0.5], 1.6, "| 2× | ≥ 1.6× | equal | met |"),
        ([1.0, 0.8], 1.6, "| 1.25× | ≥ 1.6× | equal | **not met** |"),
        ([1.0, 1.02], 1.0, "| 0.98× | never slower | equal | met |"),
        ([1.0, 1.2], 1.0, "| 0.833× | never slower | equal | **not met** |"),
    ],
)
def test_two_threads_are_judged(report, seconds, bar, words):
    one, two = seconds
    report.threads = [ThreadsReport(name="w", title="t", bar=bar, seconds={1: [one], 2: [two]}, is_same=True)]

    assert words in markdown(report, [])


def test_threads_that_change_choices_are_an_error(report):
    report.threads = [ThreadsReport(name="w", title="t", bar=1.0, seconds={1: [1.0], 2: [1.0]}, is_same=False)]

    assert "**different**" in markdown(report, [])
    assert not report.is_sound


def test_every_measure_is_reached(report):
    case = report.cases[0]

    assert reached(Bar("ratio", 1, "Algorithm 1"), case) == pytest.approx(800)
    assert reached(Bar("seconds", 1), case) == 0.05
    assert reached(Bar("last round", 1), case) == 4e-5
    assert reached(Bar("rate", 1), case) == pytest.approx(10_000)
    assert reached(Bar("ratio", 1, "BoTorch"), case) is None
    assert reached(Bar("rate", 1, of=PLAY_NAME), case) is None


def test_durations_and_ratios_are_readable():
    assert [duration(s) for s in (None, 2e-6, 9.996e-4, 0.5, 3.0, 12_345.0)] == [
        "–",
        "2 µs",
        "1 ms",
        "500 ms",
        "3 s",
        "12,345 s",
    ]
    assert [ratio(r) for r in (None, 0.5, 20.04, 1234.5)] == ["–", "0.5×", "20×", "1,234×"]


def test_a_case_survives_its_file(report, tmp_path):
    report.cases[0].write(tmp_path / "case.json")

    assert CaseReport.read(tmp_path / "case.json") == report.cases[0]


def test_the_report_is_written_for_machines_too(report, tmp_path):
    report.write(tmp_path / "results.json")

    assert json.loads((tmp_path / "results.json").read_text())["cases"][0]["outcomes"][0]["total"] == 0.05
