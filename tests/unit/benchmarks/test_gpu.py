"""The benchmark of devices plays what it says and reports what it measured."""

import importlib.util
from dataclasses import replace

import numpy as np
import pytest
from benchmarks import gpu
from benchmarks.workloads import GAUSSIAN, FixedSet, FreshContexts

needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")


@needs_torch
@pytest.mark.parametrize("world", [FreshContexts(3, GAUSSIAN), FixedSet(300)])
def test_a_case_is_played_on_both_and_compared(world):
    case = gpu.Case("small", world, "B", 20, is_compared=True)

    run = gpu.play(case, "cpu")

    assert (run["rounds"], run["differs_at"]) == (20, None)
    assert run["seconds"] > 0.0
    assert run["processor"] > 0.0
    distinct = run["distinct"]
    expected = 4.0 * 20**3 / 3.0 if isinstance(world, FreshContexts) else 300 * (16 * 20 + distinct**2 / 16)
    assert run["bytes"] == pytest.approx(expected)


@needs_torch
def test_a_budget_and_real_rows_are_played_on_the_device(tmp_path):
    rows = np.random.default_rng(0).normal(size=(40, 10))
    lines = [",".join([*(f"{value:.3f}" for value in row), "g" if row[0] > 0 else "h"]) for row in rows]
    (tmp_path / "magic04.data").write_text("\n".join(lines), encoding="utf-8")
    real = replace(gpu.telescope_cases(tmp_path / "magic04.data")[0], horizon=30)
    budget = gpu.Case("budget", FreshContexts(90, GAUSSIAN), "C", 25, is_compared=True, budget=10)

    runs = [gpu.play(case, "cpu") for case in (real, budget)]

    assert [run["differs_at"] for run in runs] == [None, None]
    assert runs[0]["distinct"] == 30
    assert runs[1]["distinct"] == 10
    assert "bytes" not in runs[1]


def test_short_cases_have_no_target():
    assert any(case.target for case in gpu.CASES)
    assert not any(case.short().target for case in gpu.CASES)


@needs_torch
def test_other_choices_are_found(monkeypatch):
    decisions = gpu._decisions
    monkeypatch.setattr(
        gpu, "_decisions", lambda case, policy, n: (1.0, [*decisions(case, policy, n)[1][:-1], object()])
    )

    run = gpu.play(gpu.Case("small", FixedSet(50), "B", 5, is_compared=True), "cpu")

    assert run["differs_at"] == 5


def test_the_page_shows_what_was_measured():
    stored = {
        "command": "python -m benchmarks.gpu", "device": "a device", "bandwidth": 4e12, "machine": {"memory": "1 GiB"},
        "versions": {"python": "3"},
        "runs": [
            {"case": "one", "rounds": 1_000, "seconds": 2.0, "distinct": 7, "bytes": 4.2e12, "target": 1.5},
            {"case": "two", "rounds": 10, "seconds": 1.0, "distinct": 9, "processor": 3.0, "differs_at": 4},
        ],
    }  # fmt: skip

    page = gpu.markdown(stored)

    cells = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines() if line.startswith("|")
    ]
    assert cells[2] == ["one", "1,000", "7", "2 s", "1.5 s, missed", "2 ms", "50%", ""]
    assert cells[3] == ["two", "10", "9", "1 s", "", "100 ms", "", "3 s"]
    assert "Not measured: changing, 2 actions, compared; " in page
    assert "- two: **other choices from round 4 on.**" in page
