import errno
import json
import os
import re
import signal
import subprocess
import sys

import pytest

from kernelbandits.cli.main import main
from kernelbandits.experiments import runner
from small_studies import bytes_of

STUDY = """
name = "first"
horizon = {horizon}
seeds = {seeds}
every = 7
[environments.groups]
class = "Clustered"
n_actions = 5
[policies.KernelUCB]
class = "KernelUCB"
kernel = {{ class = "Gaussian", length_scale = 0.2 }}
exploration = 0.2
grid = {{ regularization = [0.5, 2.0] }}
[policies.Random]
class = "UniformRandom"
"""


@pytest.fixture
def study(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "study.toml"
    path.write_text(STUDY.format(horizon=20, seeds=2), encoding="utf-8")
    return str(path)


def test_a_study_is_played_and_summed_up(study, tmp_path, capsys):
    assert main(["run", study, "--workers", "1"]) == 0

    out, err = capsys.readouterr()
    assert "After 20 rounds, mean over 2 seeds" in out
    assert "Random" in out
    assert "Total reward" in out
    assert err == ""
    assert len(bytes_of(tmp_path / "results" / "first")) == 6


def test_json_is_json_and_nothing_else(study, tmp_path, capsys):
    assert main(["run", study, "--workers", "1", "--json", "--into", str(tmp_path / "there")]) == 0

    result = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert [row["policy"] for row in result["results"]][-1] == "Random"
    assert result["results"][0]["n_runs"] == 2
    assert result["folder"] == str(tmp_path / "there")


def test_one_round_and_one_job_are_singular(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "one.toml").write_text(
        'name = "one"\nhorizon = 1\nseeds = 1\n[environments.groups]\nclass = "Clustered"\nn_actions = 3\n'
        '[policies.chance]\nclass = "UniformRandom"\n',
        encoding="utf-8",
    )

    result = []
    for command in ("run one.toml --dry-run", "run one.toml --workers 1", "report results/one"):
        assert main(command.split()) == 0
        result.append(capsys.readouterr().out)

    assert "1 job of 1 round, 1 of them to run." in result[0]
    assert "After 1 round, one seed" in result[1]
    assert "After 1 round, one seed" in (tmp_path / "report" / "table.md").read_text(encoding="utf-8")
    page = (tmp_path / "report" / "index.html").read_text(encoding="utf-8")
    assert "1 policy in 1 environment, 1 seed, 1 round." in page
    assert not re.search(r"\b1 (rounds|seeds|jobs|runs)\b", "".join(result) + page)


def test_a_failed_job_leaves_its_traceback_where_the_message_says(study, tmp_path, capsys, monkeypatch):
    def fails(study, job, progress=None):
        raise ZeroDivisionError("by nought")

    with monkeypatch.context() as broken:
        broken.setattr(runner, "run_job", fails)
        assert main(["run", study, "--workers", "1"]) == 2

    err = capsys.readouterr().err
    (name,) = re.findall(r"traceback in '([^']+)'", err)
    assert err.count("\n") == 1
    assert 'raise ZeroDivisionError("by nought")' in (tmp_path / name).read_text(encoding="utf-8")
    assert main(["run", study, "--workers", "1"]) == 0
    assert not (tmp_path / name).exists()


@pytest.mark.parametrize("name", ["../out", "..", ".", "a/b"])
def test_a_name_that_is_a_path_does_not_lead_out_of_the_folder(study, tmp_path, capsys, name):
    text = (tmp_path / "study.toml").read_text(encoding="utf-8")
    (tmp_path / "study.toml").write_text(text.replace('"first"', f'"{name}"'), encoding="utf-8")

    assert main(["run", study, "--workers", "1"]) == 2

    assert f"The name '{name}' is not a valid folder name. Give a folder: --into FOLDER" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["study.toml"]


def test_a_full_disk_is_reported_in_a_line(study, tmp_path, capsys, monkeypatch):
    def full(number):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)

    assert main(["run", study, "--workers", "1"]) == 2
    assert capsys.readouterr().err == "kernelbandits: results/first/study.toml: No space left on device.\n"


def test_labels_are_whole_without_a_set_width(study, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "30")

    assert main(["run", study, "--workers", "1"]) == 0
    assert "KernelUCB, regularization=0.5 " in capsys.readouterr().out


def test_a_dry_run_says_that_a_damaged_job_is_to_be_played(study, tmp_path, capsys):
    assert main(["run", study, "--workers", "1"]) == 0
    next((tmp_path / "results" / "first" / "jobs").iterdir()).write_bytes(b"half")

    assert main(["run", study, "--dry-run"]) == 0
    assert "6 jobs of 20 rounds, 1 of them to run." in capsys.readouterr().out


def test_a_dry_run_lists_the_jobs_and_writes_nothing(study, tmp_path, capsys):
    assert main(["run", study, "--dry-run"]) == 0

    out = capsys.readouterr().out
    assert "KernelUCB, regularization=0.5  seed 1" in out
    assert "6 jobs of 20 rounds, 6 of them to run." in out
    assert not (tmp_path / "results").exists()


def test_a_dry_run_knows_what_is_finished(study, capsys):
    main(["run", study, "--workers", "1"])
    capsys.readouterr()

    assert main(["run", study, "--dry-run", "--json"]) == 0

    assert all(row["is_finished"] for row in json.loads(capsys.readouterr().out))


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("Clustered", "Clusterd", "Did you mean 'Clustered'?"),
        ("horizon = 20", "horizon = 0", "The horizon must be a whole number"),
    ],
)
def test_a_mistake_in_the_file_is_one_clean_line(study, capsys, before, after, message):
    with open(study, encoding="utf-8") as file:
        text = file.read()
    with open(study, "w", encoding="utf-8") as file:
        file.write(text.replace(before, after))

    assert main(["run", study]) == 2

    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert err.startswith(f"kernelbandits: {study}: ")
    assert err.count("\n") == 1


def test_help_gives_examples_and_a_study(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["run", "--help"])

    out = capsys.readouterr().out
    assert stop.value.code == 0
    assert "kernelbandits run study.toml --dry-run" in out
    assert max(map(len, out.splitlines())) <= 88


def test_the_study_in_the_help_can_be_read(tmp_path, capsys):
    from kernelbandits.cli.run import EXAMPLES

    path = tmp_path / "help.toml"
    path.write_text(EXAMPLES.partition("a study:\n")[2], encoding="utf-8")

    assert main(["run", str(path), "--dry-run"]) == 0
    assert "30 jobs of 1,000 rounds" in capsys.readouterr().out


KILLED = """
import os, signal, sys
from kernelbandits.cli.main import main
from kernelbandits.experiments import runner

if __name__ == "__main__":
    number, name, flush = int(sys.argv.pop(1)), sys.argv.pop(1), os.fsync

    def counted(file):
        global number
        flush(file)
        number -= 1
        if number == 0:
            os.killpg(0, signal.Signals[name])

    os.fsync = counted
    signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs inherit that it is ignored
    sys.exit(main(sys.argv[1:]))
"""
"""Runs the command line, and sends a signal to itself and all its processes when the n-th flush to the disk is done:
one is of a file before it gets its name, the next of its folder after that."""


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize("workers", [1, 2])
def test_a_run_that_was_killed_twenty_times_ends_with_the_same_bytes(tmp_path, workers):
    path, program = tmp_path / "study.toml", tmp_path / "killed.py"
    path.write_text(STUDY.format(horizon=100, seeds=20), encoding="utf-8")
    program.write_text(KILLED, encoding="utf-8")
    arguments = ["run", str(path), "--workers", str(workers), "--into"]
    command = [sys.executable, "-m", "kernelbandits", *arguments]
    subprocess.run([*command, str(tmp_path / "whole")], check=True, stdout=subprocess.DEVNULL)

    killed, n_partial = tmp_path / "killed", 0
    for flush in range(1, 21):  # each run makes four flushes a job and two before; 60 jobs take 240
        ended = subprocess.run(
            [sys.executable, str(program), str(flush), "SIGKILL", *arguments, str(killed)],
            start_new_session=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        )
        assert ended.returncode == -signal.SIGKILL
        n_partial += len(list(killed.rglob("*.partial")))
    n_before = len(list((killed / "jobs").glob("*.parquet")))
    subprocess.run([*command, str(killed)], check=True, stdout=subprocess.DEVNULL)

    assert 20 <= n_before < 60
    assert n_partial == 10  # every other kill, and each is cleaned up by the next run
    assert bytes_of(killed) == bytes_of(tmp_path / "whole")
    assert len(bytes_of(killed)) == 60
    timings = {path.name for path in (killed / "timings").iterdir()}
    assert timings == set(bytes_of(killed))


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_an_interrupt_ends_all_processes_and_keeps_what_is_finished(tmp_path):
    path, program, into = tmp_path / "study.toml", tmp_path / "interrupted.py", tmp_path / "results"
    path.write_text(STUDY.format(horizon=100, seeds=20), encoding="utf-8")
    program.write_text(KILLED, encoding="utf-8")
    arguments = ["21", "SIGINT", "run", str(path), "--workers", "2", "--into", str(into)]

    process = subprocess.run(
        [sys.executable, str(program), *arguments],
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        check=False,
    )

    result = process.stderr
    assert (process.returncode, result) == (130, b"kernelbandits: interrupted.\n")
    assert 0 < len(bytes_of(into)) < 60
    assert all(name.endswith(".parquet") and not name.startswith(".") for name in bytes_of(into))


def test_a_dry_run_says_which_extra_is_missing(study, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)

    assert main(["run", study, "--dry-run"]) == 2

    assert "experiments" in capsys.readouterr().err
