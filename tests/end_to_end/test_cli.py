import json
import re
import subprocess
import sys

import pytest

import kernelbandits
from kernelbandits.cli import demo
from kernelbandits.cli.main import main
from kernelbandits.errors import InvalidParameter

SMALL = ["demo", "--rounds", "12", "--seeds", "2", "--workers", "1"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    into = tmp_path_factory.mktemp("demo") / "new" / "folder"
    assert main([*SMALL, "--into", str(into)]) == 0
    return into


def test_the_demo_writes_a_figure(folder):
    assert (folder / "figures" / "regret-light.png").read_bytes().startswith(b"\x89PNG")


def test_the_demo_writes_a_page_that_needs_no_network(folder):
    html = (folder / "index.html").read_text(encoding="utf-8")

    assert not re.search(r"https?://|<script|<link|@import|url\(", html)
    assert "Mean over 2 seeds" in html
    assert "SupKernelUCB, proved" in html


def test_the_demo_writes_its_numbers(folder):
    results = json.loads((folder / "results.json").read_text(encoding="utf-8"))

    assert {row["policy"] for row in results["policies"]} >= {"KernelUCB, tuned", "GP-UCB", "Random"}
    assert (results["horizon"], results["n_seeds"]) == (12, 2)
    assert results["versions"]["kernelbandits"] == kernelbandits.__version__


def test_the_table_is_printed_where_there_is_no_terminal(tmp_path, capsys):
    assert main([*SMALL, "--into", str(tmp_path)]) == 0

    out, err = capsys.readouterr()
    assert "After 12 rounds, mean over 2 seeds" in out
    assert "vacuous" in out
    assert str(tmp_path / "index.html") in out
    assert err == ""


def test_json_is_json_and_nothing_else(tmp_path, capsys):
    assert main(["demo", "--rounds", "6", "--seeds", "1", "--workers", "1", "--json", "--into", str(tmp_path)]) == 0

    results = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert results["policies"][0]["regret_low"] is None
    assert results["files"]["page"] == str(tmp_path / "index.html")


@pytest.mark.parametrize("arguments", [["--help"], ["demo", "--help"], ["compare", "--help"], []])
def test_help_gives_examples(arguments, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    try:
        status = main(arguments)
    except SystemExit as stop:
        status = stop.code

    assert status == 0
    out = capsys.readouterr().out
    assert "examples:" in out
    assert max(map(len, out.splitlines())) <= 88


def test_the_version_is_reported(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["--version"])

    assert stop.value.code == 0
    assert capsys.readouterr().out == f"kernelbandits {kernelbandits.__version__}\n"


@pytest.mark.parametrize("arguments", [["demo", "--rounds", "many"], ["demo", "--color"], ["dance"]])
def test_unknown_arguments_are_rejected(arguments, capsys):
    with pytest.raises(SystemExit) as stop:
        main(arguments)

    assert stop.value.code == 2
    assert "usage:" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--rounds", "1"], "The number of rounds must be a whole number of at least 2, got 1."),
        (["--seeds", "0"], "The number of seeds must be a whole number of at least 1, got 0."),
    ],
)
def test_a_bad_number_is_one_clean_line(arguments, message, capsys):
    assert main(["demo", *arguments]) == 2

    assert capsys.readouterr() == ("", f"kernelbandits: {message}\n")


def test_a_folder_that_cannot_be_made_is_one_clean_line(tmp_path, capsys):
    (tmp_path / "file").write_text("not a folder")

    assert main([*SMALL, "--into", str(tmp_path / "file")]) == 2

    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("kernelbandits: The folder ")
    assert err.count("\n") == 1


@pytest.mark.parametrize("package", ["matplotlib", "rich"])
def test_a_missing_extra_is_one_clean_line(monkeypatch, tmp_path, capsys, package):
    monkeypatch.setitem(sys.modules, package, None)

    assert main([*SMALL, "--into", str(tmp_path)]) == 2

    assert 'pip install "kernelbandits[experiments]"' in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_ends_quietly(monkeypatch, capsys):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("kernelbandits.experiments.demo.run_demo", interrupted)

    assert main(["demo"]) == 130
    assert capsys.readouterr().err == "kernelbandits: interrupted.\n"


def test_an_error_of_ours_keeps_to_one_line(monkeypatch, capsys):
    def fail(*_, **__):
        raise InvalidParameter("Two\nlines.")

    monkeypatch.setattr("kernelbandits.experiments.demo.run_demo", fail)

    assert main(["demo"]) == 2
    assert capsys.readouterr().err == "kernelbandits: Two lines.\n"


def test_quick_means_few_rounds_unless_specified_otherwise(monkeypatch):
    calls = []

    def note(into, *, horizon, n_seeds, workers, progress):
        calls.append((into, horizon, n_seeds))
        raise InvalidParameter("seen enough")

    monkeypatch.setattr("kernelbandits.experiments.demo.run_demo", note)
    main(["demo", "--quick"])
    main(["demo", "--quick", "--seeds", "5", "--into", "there"])

    assert calls == [("demo", demo.QUICK.rounds, demo.QUICK.seeds), ("there", demo.QUICK.rounds, 5)]


def test_it_runs_as_a_module():
    done = subprocess.run(
        [sys.executable, "-m", "kernelbandits", "--version"], capture_output=True, text=True, check=True
    )

    assert done.stdout == f"kernelbandits {kernelbandits.__version__}\n"


def test_help_does_not_wait_for_experiments():
    code = (
        "import sys\nfrom kernelbandits.cli.main import main\n"
        "try: main(['demo', '--help'])\nexcept SystemExit: pass\n"
        "assert not {'matplotlib', 'rich', 'kernelbandits.experiments'} & set(sys.modules)"
    )

    subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)


def test_compare_writes_tables_and_updates_a_page(tmp_path, capsys):
    page = tmp_path / "policies.md"
    page.write_text("before\n<!-- table -->\n<!-- end of table -->\nafter\n", encoding="utf-8")
    into = tmp_path / "new"

    size = ["--rounds", "15", "--seeds", "2", "--workers", "1"]
    assert main(["compare", *size, "--only", "UCB1", "Random", "--into", str(into), "--page", str(page)]) == 0

    out = capsys.readouterr().out
    assert "After 15 rounds, mean over 2 seeds" in out
    assert "| UCB1 " in out
    assert "| UCB1 " in page.read_text(encoding="utf-8")
    for folder in (into, tmp_path / "policies"):
        assert "<svg" in (folder / "policies-light.svg").read_text(encoding="utf-8")
        rows = json.loads((folder / "policies.json").read_text(encoding="utf-8"))["rows"]
        assert {row["name"] for row in rows} == {"UCB1", "Random"}
    assert (into / "results" / "smooth" / "study.json").exists()
    written = page.read_text(encoding="utf-8")

    page.write_text("<!-- table -->\n<!-- end of table -->\n", encoding="utf-8")
    numbers = str(into / "policies.json")
    assert main(["compare", "--from", numbers, "--into", str(tmp_path / "again"), "--page", str(page)]) == 0

    assert page.read_text(encoding="utf-8") in written
    assert not (tmp_path / "again" / "results").exists()


def test_compare_tunes_and_uses_its_constants(tmp_path, capsys):
    size = ["--rounds", "15", "--workers", "1", "--only", "UCB1", "--into", str(tmp_path)]

    assert main(["compare", "--tune", *size]) == 0
    constants = json.loads((tmp_path / "constants.json").read_text(encoding="utf-8"))["constants"]
    size = ["--rounds", "15", "--seeds", "1", "--workers", "1", "--only", "UCB1", "Random", "--into", str(tmp_path)]
    assert main(["compare", "--constants", str(tmp_path / "constants.json"), *size]) == 0

    rows = json.loads((tmp_path / "policies.json").read_text(encoding="utf-8"))["rows"]
    tuned = next(row for row in rows if row["setting"] == "tuned")
    assert tuned["values"]["smooth"]["exploration"] == str(constants["UCB1"]["smooth"]["exploration"])
    capsys.readouterr()


def test_a_page_without_marks_is_rejected_before_anything_is_run(tmp_path, capsys):
    page = tmp_path / "page.md"
    page.write_text("nothing here", encoding="utf-8")

    assert main(["compare", "--into", str(tmp_path / "new"), "--page", str(page)]) == 2

    assert "has no place for a table" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()
