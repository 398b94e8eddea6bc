"""The commands around a service, its client, and the guide that says how to use both."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

import kernelbandits as kb
from kernelbandits.cli.main import main
from kernelbandits.service import Client, ServiceError, operate, serve
from kernelbandits.service.schemas import Action, DecisionRequest
from kernelbandits.service.settings import Settings
from services import PATIENCE, STRINGS, PatientClient, check, decide, experiment, running, served, stretched

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "guides" / "service.md").read_text(encoding="utf-8")


@pytest.fixture
def any_disk(monkeypatch):
    """A folder for tests in memory, where a flush takes no time, is as good as a disk."""
    honest = operate.sync_seconds
    monkeypatch.setattr(operate, "sync_seconds", lambda folder: max(honest(folder), 1e-3))


@pytest.fixture
def service(tmp_path):
    with served(tmp_path / "data") if (tmp_path / "data").mkdir() is None else None as found:
        found.client.create("first", STRINGS, default_reward=0.0)
        found.client.act("first", "start")
        yield found


def run(capsys, *arguments, status=0):
    """Run a command with --json; return what it printed."""
    capsys.readouterr()
    try:
        ended = main([*arguments, "--json"])
    except SystemExit as leaving:
        ended = leaving.code
    found = capsys.readouterr()
    assert ended == status, found.err
    return json.loads(found.out) if status == 0 else found.err + found.out


def test_decide_reward_show_tail_and_erase(service, capsys):
    remote = ["--url", service.url]
    made = run(capsys, "decide", "first", "a=Cheap flights to Rome", "b=Rome wins", "--id", "d1", *remote)
    assert made["decision_id"] == "d1"
    assert run(capsys, "reward", "first", "d1", "0.5", *remote)["learned"] == 0.5
    assert run(capsys, "experiment", "show", "first", *remote)["state"] == "running"
    assert run(capsys, "experiment", "pause", "first", *remote)["state"] == "paused"
    assert run(capsys, "experiment", "resume", "first", *remote)["state"] == "running"
    assert main(["tail", "first", "-n", "3", *remote]) == 0
    assert "learn" in capsys.readouterr().out
    assert run(capsys, "snapshot", *remote)["seq"] > 3
    service.client.decide("first", [{"id": "a", "x": "secret"}], id="d2", subject="anna")
    assert run(capsys, "erase", "first", "--subject", "anna", *remote)["n_erased"] == 1
    assert "not-found" in run(capsys, "reward", "first", "none", "1", *remote, status=2)
    assert "unreachable" in run(capsys, "reward", "first", "none", "1", "--url", "http://127.0.0.1:9", status=2)


def test_experiments_are_created_from_a_file(service, capsys, tmp_path):
    text = next(block for block in re.findall(r"```text\n(.*?)```", GUIDE, re.DOTALL) if '"name": "news"' in block)
    (tmp_path / "news.json").write_text(text)

    made = run(capsys, "experiment", "create", str(tmp_path / "news.json"), "--url", service.url)

    assert (made["name"], made["state"]) == ("news", "running")
    (tmp_path / "bad.json").write_text("[1]")
    assert "no JSON object" in run(
        capsys, "experiment", "create", str(tmp_path / "bad.json"), "--url", service.url, status=2
    )


def test_logs_are_verified_replayed_exported_backed_up_and_restored(service, any_disk, capsys, tmp_path):
    client, data = service.client, ["--data", str(tmp_path / "data")]
    for number in range(12):
        client.decide("first", [{"id": "a", "x": "one"}, {"id": "b", "x": f"two {number % 3}"}], id=f"d{number}")
        client.reward("first", f"d{number}", number / 12)
    client.request("POST", "/v1/snapshot")

    found = run(capsys, "verify", *data)
    assert (found["is_sound"], found["findings"]) == (True, [])
    record = service.learner.experiments["first"].model.record
    assert found["records"] == {"first/p1": record}
    assert found["choices"] == {"first/p1": {"n_checked": 12, "n_differ": 0}}

    into = tmp_path / "then.kb"
    replayed = run(capsys, "replay", "first", "--into", str(into), *data)
    assert (replayed["record"], replayed["n_learned"]) == (record, 12)
    assert kb.load(into).round_index == 13
    earlier = run(capsys, "replay", "first", "--to", "15", *data)
    assert 0 < earlier["n_learned"] < 12

    assert run(capsys, "export", "first", str(tmp_path / "log.ndjson"), *data)["n_rows"] == found["n_rows"] - 1
    assert len((tmp_path / "log.ndjson").read_text().splitlines()) == found["n_rows"] - 1
    assert "file .parquet or .ndjson" in run(capsys, "export", "first", str(tmp_path / "log.txt"), *data, status=2)

    assert run(capsys, "backup", str(tmp_path / "copy"), *data)["n_rows"] == found["n_rows"]
    restored = ["--data", str(tmp_path / "restored")]
    assert run(capsys, "restore", str(tmp_path / "copy"), *restored)["n_rows"] == found["n_rows"]
    assert run(capsys, "verify", *restored)["records"] == {"first/p1": record}
    assert "has a database already" in run(capsys, "restore", str(tmp_path / "copy"), *restored, status=2)
    assert "is no backup" in run(capsys, "restore", str(tmp_path), *restored, status=2)
    doctor = run(capsys, "doctor", *restored)
    assert (doctor["n_rows"], doctor["sync_seconds"] > 0.0) == (found["n_rows"], True)


def test_verify_and_doctor_end_with_3_where_something_is_wrong(service, any_disk, capsys, tmp_path, monkeypatch):
    import sqlite3

    service.client.decide("first", [{"id": "a", "x": "one"}], id="d1")
    assert run(capsys, "backup", str(tmp_path / "copy"), "--data", str(tmp_path / "data"))["n_rows"]
    with sqlite3.connect(tmp_path / "copy" / "log.db") as other:
        other.execute("UPDATE log SET body = '{}' WHERE type = 'decision'")
    other.close()

    assert "has another body" in run(capsys, "verify", "--data", str(tmp_path / "copy"), status=3)
    assert "has another body" in run(capsys, "doctor", "--data", str(tmp_path / "copy"), status=3)
    assert "kernelbandits init" in run(capsys, "doctor", "--data", str(tmp_path / "none"), status=3)
    assert run(capsys, "init", "--data", str(tmp_path / "new"))["database"].endswith("log.db")
    assert main(["doctor", "--data", str(tmp_path / "new")]) in (0, None)
    monkeypatch.setattr(operate, "sync_seconds", lambda folder: 1e-6)
    assert "this disk does not flush" in run(capsys, "doctor", "--data", str(tmp_path / "new"), status=3)


def test_keys_are_created_listed_and_revoked(service, capsys, tmp_path):
    data = ["--data", str(tmp_path / "data")]
    made = run(capsys, "keys", "create", "--scope", "read", "--scope", "decide", "--experiment", "first", *data)
    assert [one["id"] for one in run(capsys, "keys", "list", *data)] == [made["id"]]
    with PatientClient(service.url, key=made["key"], retries=0) as client:
        assert client.show("first")["name"] == "first"
        assert run(capsys, "keys", "revoke", made["id"], *data)["revoked"]
        with pytest.raises(ServiceError, match="revoked"):
            client.show("first")
    assert run(capsys, "keys", "list", *data)[0]["revoked"]
    assert "no key" in run(capsys, "keys", "revoke", "none", *data, status=2)
    new = ["--data", str(tmp_path / "new" / "folder")]
    assert "kernelbandits init" in run(capsys, "keys", "list", *new, status=2)
    assert run(capsys, "keys", "create", "--scope", "read", *new)["scopes"] == ["read"]  # before the service is there
    assert len(run(capsys, "keys", "list", *new)) == 1


@pytest.mark.parametrize("ending", ["ndjson", "csv", "dsjson"])
def test_decisions_that_were_made_elsewhere_are_imported(service, capsys, tmp_path, ending):
    rows = {"class": "KernelUCB", "kernel": {"class": "Gaussian", "length_scale": 1.0}, "exploration": 0.5}
    service.client.create("rows", rows)
    service.client.act("rows", "start")
    path = tmp_path / f"history.{ending}"
    if ending == "ndjson":
        actions = [{"id": "a", "x": [1.0, 0.0]}, {"id": "b", "x": [0.0, 1.0]}]
        taken = {"action_id": "b", "propensity": 0.25}
        path.write_text(
            "".join(json.dumps({"actions": actions, "taken": taken, "reward": 0.5}) + "\n" for _ in range(3))
        )
    elif ending == "csv":
        path.write_text("reward,first,second\n0.5,1,0\n0.25,0,1\n1,1,1\n")
    else:
        from kernelbandits.adapters.vowpal_wabbit import write_dsjson
        from kernelbandits.environments import Log

        sets = [[[0.5, 2.0], [1.0, 0.0]]] * 3
        write_dsjson(
            Log([kb.kernels.Rows().check(one) for one in sets], [1, 0, 1], [0.25, 0.5, 0.25], [1.0, 0.0, 0.5]), path
        )

    found = run(capsys, "import", "rows", str(path), "--url", service.url)
    again = run(capsys, "import", "rows", str(path), "--url", service.url)

    assert found == again == {"n_sent": 3, "n_rejected": 0}
    service.learner.snapshot().result(PATIENCE)
    assert service.learner.experiments["rows"].info()["n_learned"] == 3
    shown = service.client.request("GET", f"/v1/experiments/rows/decisions/history.{ending}-0")
    assert shown["mode"] == "imported"
    assert shown["propensity"] == {"ndjson": 0.25, "csv": 1.0, "dsjson": 0.25}[ending]
    check(service.learner)


@pytest.mark.parametrize(
    "command", ["serve", "doctor", "tail", "erase", "keys create", "keys list", "experiment pause"]
)
def test_every_command_has_an_example_its_exit_status_and_json(capsys, command):
    with pytest.raises(SystemExit):
        main([*command.split(), "--help"])

    text = capsys.readouterr().out
    assert f"\n  kernelbandits {command}" in text
    assert "exit status: 0" in text
    assert "--json" in text


def test_an_import_names_the_line_that_is_wrong(service, capsys, tmp_path):
    several = '{"actions": [{"id": "a", "x": "one"}, {"id": "b", "x": "two"}], "reward": 1}'
    for wrong, what in (('{"x": "text"}', "reward"), (several, "taken")):  # none of several was taken by itself
        (tmp_path / "bad.ndjson").write_text('{"x": "text", "reward": 1}\n' + wrong)
        assert f"bad.ndjson, line 2: KeyError: '{what}'" in run(
            capsys, "import", "first", str(tmp_path / "bad.ndjson"), "--url", service.url, status=2
        )
    assert "An import is a file" in run(
        capsys, "import", "first", str(tmp_path / "bad.txt"), "--url", service.url, status=2
    )


def test_an_import_says_why_something_was_rejected(service, capsys, tmp_path):
    for name, text in (
        ("hist\u00f6ry.csv", "x,reward\none,1\ntwo,7\n"),
        ("hist\u00f6ry.ndjson", '{"x": "one", "reward": 1}'),
    ):
        (tmp_path / name).write_text(text)
    remote = ["--url", service.url]

    found = run(capsys, "import", "first", str(tmp_path / "hist\u00f6ry.csv"), *remote)
    assert (found["n_sent"], found["n_rejected"]) == (2, 1)
    assert found["first_problem"].startswith("hist-ry.csv-1: Rewards lie in reward_range")
    assert run(capsys, "import", "first", str(tmp_path / "hist\u00f6ry.ndjson"), *remote)["n_rejected"] == 0
    (tmp_path / "hist\u00f6ry.csv").write_text("x,reward\nanother,1\n")
    assert (
        "belongs to another request"
        in run(capsys, "import", "first", str(tmp_path / "hist\u00f6ry.csv"), *remote)["first_problem"]
    )


def test_many_rewards_are_sent_in_parts(service):
    found = service.client.rewards("first", [{"decision_id": "none", "id": f"r{n}", "reward": 1.0} for n in range(600)])

    assert [one["status"] for one in found] == [404] * 600


def test_events_without_a_subject_have_none(service):
    events = list(service.client.log("first"))

    assert {event["type"]: event.get("subject") for event in events} == {
        "kernelbandits.experiment": None, "kernelbandits.policy": "p1", "kernelbandits.state": None,
    }  # fmt: skip


def test_the_client_sends_again_until_it_is_answered(tmp_path):
    (tmp_path / "data").mkdir()
    with served(tmp_path / "data") as service:
        service.client.create("first", STRINGS)
        service.client.act("first", "start")
        with PatientClient(service.url, retries=3) as client:
            client.decide("first", [{"id": "a", "x": "one"}], id="d1")
            client._connection.sock.close()  # the connection breaks
            assert client.decide("first", [{"id": "a", "x": "one"}], id="d1")["replayed"]
    with Client(service.url, retries=1, timeout=0.2) as client, pytest.raises(ServiceError, match="unreachable"):
        client.decide("first", [{"id": "a", "x": "one"}])


def test_addresses_that_are_none_are_rejected():
    with pytest.raises(kb.errors.InvalidParameter, match=r"like http://127\.0\.0\.1:8090"):
        Client("ftp://somewhere")


def test_the_client_needs_the_standard_library_only():
    code = (
        "import sys\nfor name in ('msgspec', 'starlette', 'uvicorn', 'apsw'): sys.modules[name] = None\n"
        "from kernelbandits.service import Client\nClient()\n"
        "from kernelbandits.errors import MissingExtra\n"
        "try:\n    from kernelbandits.service import Learner\nexcept MissingExtra as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 'pip install "kernelbandits[service]"' in done.stdout


@pytest.mark.skipif(shutil.which("curl") is None, reason="the lines that are printed are for curl, which is not there")
def test_from_nothing_to_a_durable_decision_as_the_service_prints_it(tmp_path):
    """`kernelbandits serve` on an empty folder, then the lines that it prints, run by a shell."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    start = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "kernelbandits", "serve", "--port", "0", "--data", str(tmp_path / "data")],
        stdout=subprocess.PIPE, text=True, env=environment,
    )  # fmt: skip
    lines = []
    try:
        for line in process.stdout:
            lines.append(line)
            if "/rewards/" in line:
                break
        answers = []
        for line in lines:
            if line.strip().startswith("curl"):
                done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=True)
                answers.append(json.loads(done.stdout))
        assert [one["durable"] for one in answers] == ["disk", "disk"]
        assert time.monotonic() - start < stretched(300.0)
        url = re.search(r"at (http://\S+)", lines[0])[1]
        python = next(block for block in re.findall(r"```text\n(.*?)```", GUIDE, re.DOTALL) if "import Client" in block)
        script = python.replace("http://127.0.0.1:8090", url) + "print(client.show('first')['rows']['decision'])\n"
        assert len(python.splitlines()) <= 10
        done = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment
        )
        assert done.stdout == "2\n"
    finally:
        process.terminate()
        status = process.wait(PATIENCE)
        process.stdout.close()
    assert status == 0


def test_the_lines_that_are_printed_work_at_every_start(tmp_path):
    settings, strings = Settings(data=tmp_path), DecisionRequest(actions=[Action("a", "one")])
    with running(tmp_path) as learner:
        experiment(learner, "rows")  # which takes no strings
        assert serve._announcement(settings, learner)["examples"] == []
        experiment(learner, "first", **serve.FIRST)
        for number in (1, 2):
            decision, reward = serve._announcement(settings, learner)["examples"]
            assert f"/first/decisions/d{number} " in decision
            assert f"/first/decisions/d{number}/rewards/r1 " in reward
            decide(learner, f"d{number}", strings, "first")  # another request under this id


def test_an_address_that_is_taken_is_named(service, tmp_path, capsys):
    port = str(service.port)

    assert main(["serve", "--port", port, "--data", str(tmp_path / "other")]) == 2
    assert f"cannot listen at http://127.0.0.1:{port}" in capsys.readouterr().err
    assert not (tmp_path / "other" / "log.db").exists()


def test_beyond_this_machine_a_service_needs_a_key(tmp_path, capsys):
    assert main(["serve", "--host", "0.0.0.0", "--port", "0", "--data", str(tmp_path)]) == 2
    assert "needs a key" in capsys.readouterr().err
    assert not (tmp_path / "server.json").exists()
