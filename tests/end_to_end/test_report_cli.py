import json
import subprocess
import sys

import numpy as np
import pytest

from kernelbandits.cli.main import main
from study_folders import simple_columns, write_head, write_job


@pytest.fixture
def results(tmp_path):
    folder = tmp_path / "results"
    jobs = [
        write_job(folder, environment="w", policy="p", seed=seed, columns=simple_columns(np.arange(1.0, 4.0)))
        for seed in (0, 1)
    ]
    write_head(folder, jobs, horizon=3)
    return folder


def test_it_prints_the_table_and_where_things_are(results, tmp_path, capsys):
    assert main(["report", str(results), "--into", str(tmp_path / "out"), "--formats", "svg"]) == 0

    out, err = capsys.readouterr()
    assert "| **p** " in out
    assert str(tmp_path / "out" / "index.html") in out
    assert err == ""
    assert {path.suffix for path in (tmp_path / "out" / "figures").iterdir()} == {".svg"}


def test_json_is_json_and_nothing_else(results, tmp_path, capsys):
    assert main(["report", str(results), "--into", str(tmp_path / "out"), "--formats", "svg", "--json"]) == 0

    found = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert found["environments"]["w"][0]["regret"] == 3.0
    assert found["environments"]["w"][0]["seconds_per_round"] is None
    assert found["files"]["page"] == str(tmp_path / "out" / "index.html")


def test_what_is_no_result_folder_is_one_clean_line(tmp_path, capsys):
    for folder, message in ((tmp_path / "nowhere", "There is no folder"), (tmp_path, "is not a result folder")):
        assert main(["report", str(folder), "--into", str(tmp_path / "out")]) == 2

        out, err = capsys.readouterr()
        assert out == ""
        assert message in err
        assert err.count("\n") == 1
    write_head(tmp_path, ["a"])
    assert main(["report", str(tmp_path), "--into", str(tmp_path / "out")]) == 2
    assert "finished yet" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_help_gives_examples(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")

    with pytest.raises(SystemExit):
        main(["report", "--help"])

    out = capsys.readouterr().out
    assert "examples:" in out
    assert max(map(len, out.splitlines())) <= 88


def test_help_does_not_wait_for_experiments():
    code = (
        "import sys\nfrom kernelbandits.cli.main import main\n"
        "try: main(['report', '--help'])\nexcept SystemExit: pass\n"
        "assert not {'matplotlib', 'pyarrow', 'kernelbandits.experiments'} & set(sys.modules)"
    )

    subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
