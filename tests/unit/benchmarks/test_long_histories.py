import json

import pytest
from benchmarks import long_histories


@pytest.fixture
def run(tmp_path):
    def call(*arguments):
        status = long_histories.main([*arguments, "--data", str(tmp_path), "--into", str(tmp_path / "page.md")])
        return status, (tmp_path / "page.md").read_text(encoding="utf-8"), tmp_path / "page.json"

    return call


def test_parts_are_measured_merged_and_shown_beside_the_exact_policy(run):
    run("--only", "Chess", "--methods", "exact", "--rounds", "30")

    status, page, store = run("--only", "Chess", "--methods", "budget 500", "EKUCB 2", "--rounds", "30")

    runs = json.loads(store.read_text(encoding="utf-8"))["runs"]
    assert status == 0
    assert {one["method"] for one in runs} == {"exact", "budget 500", "EKUCB 2"}
    assert len(runs) == 3
    row = next(line for line in page.splitlines() if line.startswith("| Chessboard | budget 500"))
    assert "| 30 |" in row
    assert "| 1.000 |" in row  # within the budget it is the exact policy
    again = run("--page")[1]
    assert again == page


def test_what_was_measured_again_replaces_what_was_there(run):
    run("--only", "Chess", "--methods", "exact", "--rounds", "5")
    _, page, store = run("--only", "Chess", "--methods", "exact", "--rounds", "8")

    assert len(json.loads(store.read_text(encoding="utf-8"))["runs"]) == 1
    assert "| 8 |" in page


def test_growth_is_fitted_from_the_checkpoints():
    rows = [
        {"round": t, "regret": 3.0 * t**0.5, "seconds": 2.0 * t, "bytes": 1_000_000, "resident": 500_000_000}
        for t in (2_000, 4_000, 10_000)
    ]
    run = {"part": "scaling", "problem": "p", "method": "budget 500", "seed": 0, "rows": rows, "atoms": 500}

    (line,) = long_histories._growth([run])

    assert "time grows as T^1.00, regret as T^0.50; a copy of the model takes 1.0 to 1.0 MB" in line
    assert "1.0 MB, the process 500 to 500 MB." in line


def test_stored_budgets_and_exact_runs_are_of_the_same_streams():
    """Up to its budget a policy is the exact one, so regrets that differ there were measured with other streams."""
    runs = json.loads(long_histories.PAGE.with_suffix(".json").read_text(encoding="utf-8"))["runs"]
    exact = {
        (run["problem"], run["seed"], row["round"]): row["regret"]
        for run in runs
        if run["method"] == "exact"
        for row in run["rows"]
    }
    compared = 0
    for run in runs:
        name, _, budget = run["method"].partition(" ")
        for row in run["rows"]:
            key = (run["problem"], run["seed"], row["round"])
            if name == "budget" and row["round"] <= int(budget) and key in exact:
                assert row["regret"] == pytest.approx(exact[key]), (key, budget)
                compared += 1

    assert compared > 10


def test_the_telescope_is_read(tmp_path):
    path = tmp_path / "magic04.data"
    path.write_text("1,2,3,4,5,6,7,8,9,10,g\n2,3,4,5,6,7,8,9,10,11,h\n", encoding="utf-8")

    rows, labels = long_histories._telescope(path)

    assert rows.shape == (2, 10)
    assert labels == ["g", "h"]


def test_rows_that_are_certified_are_compared_with_the_exact_policy():
    def run(method, regret, inflation, seed=0):
        rows = [{"round": 10, "regret": regret, "seconds": 1.0, "bytes": 0}]
        return {
            "part": "published",
            "problem": "p",
            "method": method,
            "seed": seed,
            "rows": rows,
            "atoms": 1,
        } | inflation

    runs = [
        run("exact", 10.0, {"inflation": 1.0}), run("BKB 2", 10.2, {"inflation": 1.04}),
        run("EKUCB 2", 9.9, {"inflation": 1.0}), run("BBKB 3", 20.0, {"inflation": 3.0}), run("budget 5", 20.0, {}),
    ]  # fmt: skip

    (line,) = long_histories._certified(runs)

    assert "2 rows (p, BKB 2; p, EKUCB 2), with 0.990 to 1.020 times the exact regret" in line
    assert long_histories._certified(runs[:1]) == []


def test_ratios_of_several_seeds_have_their_range():
    def run(method, seed, regret):
        rows = [{"round": 10, "regret": regret, "seconds": 1.0, "bytes": 0}]
        return {"problem": "p", "method": method, "seed": seed, "rows": rows}

    runs = [run("exact", 0, 10.0), run("exact", 1, 20.0), run("budget 5", 0, 12.0), run("budget 5", 1, 21.0)]

    assert long_histories._ratio(runs, "p", runs[2:], 10) == "1.100"
    assert long_histories._spread(runs, "p", runs[2:], 10) == " (1.050 to 1.200)"
    assert long_histories._spread(runs, "p", runs[2:3], 10) == ""


def test_what_is_stored_is_not_measured_again(run):
    run("--only", "Chess", "--methods", "exact", "--rounds", "9")
    store = run("--only", "Chess", "--methods", "exact", "EKUCB 2", "--rounds", "8", "--missing")[2]

    rounds = {one["method"]: one["rows"][-1]["round"] for one in json.loads(store.read_text(encoding="utf-8"))["runs"]}
    assert rounds == {"exact": 9, "EKUCB 2": 8}
