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
        {"round": t, "regret": 3.0 * t**0.5, "seconds": 2.0 * t, "bytes": 1_000_000} for t in (2_000, 4_000, 10_000)
    ]
    run = {"part": "scaling", "problem": "p", "method": "budget 500", "seed": 0, "rows": rows, "atoms": 500}

    (line,) = long_histories._growth([run])

    assert "time grows as T^1.00, regret as T^0.50; a copy takes 1.0 to 1.0 MB" in line


def test_the_telescope_is_read(tmp_path):
    path = tmp_path / "magic04.data"
    path.write_text("1,2,3,4,5,6,7,8,9,10,g\n2,3,4,5,6,7,8,9,10,11,h\n", encoding="utf-8")

    rows, labels = long_histories._telescope(path)

    assert rows.shape == (2, 10)
    assert labels == ["g", "h"]
