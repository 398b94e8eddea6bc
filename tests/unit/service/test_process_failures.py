"""Kills at named points and random times, the end of a process, two processes, dead threads and odd clocks."""

import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

from kernelbandits.errors import FolderInUse
from kernelbandits.service.client import Client, ServiceError
from kernelbandits.service.model import MODEL_ROWS
from kernelbandits.service.problems import Problem
from kernelbandits.service.serve import hold_folder
from kernelbandits.service.settings import Settings
from service_process import later_store
from services import (
    PATIENCE,
    Time,
    check,
    decide,
    drive,
    eventually,
    experiment,
    learner_at,
    request,
    reward,
    running,
    settle,
)

SCRIPT = Path(__file__).parents[2] / "service_process.py"
POINTS = (
    "decide", "scored", "before commit", "inside commit", "after commit", "apply", "checkpoint", "snapshot",
    "snapshot written", "recovery",
)  # fmt: skip


class Process:
    """A service in a process of its own."""

    def __init__(self, folder, point="none", count=0):
        arguments = [sys.executable, str(SCRIPT), str(folder), point, str(count)]
        self.process = subprocess.Popen(
            arguments,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        self.url = None
        for line in self.process.stdout:
            found = re.search(r"at (http://\S+)", line)
            if found:
                self.url = found[1]
                break

    def end(self, number=signal.SIGTERM):
        """Send a signal; return the exit status."""
        self.process.send_signal(number)
        return self.wait()

    def wait(self):
        status = self.process.wait(PATIENCE)
        self.errors = self.process.stderr.read()
        self.process.stdout.close()
        self.process.stderr.close()
        return status


def answer_of(found):
    """An answer in the form that `check` takes."""
    return SimpleNamespace(**found)


def drive_over_http(url, worker, acknowledged, unanswered, n=60):
    """Decide and reward until the service is gone; return whether it is."""
    draw = random.Random(worker)
    with Client(url, retries=0, timeout=PATIENCE) as client:
        for number in range(n):
            name = f"w{worker}-{number}"
            texts = [{"id": f"a{i}", "x": f"headline {draw.randrange(9)} of {draw.randrange(9)}"} for i in range(4)]
            try:
                unanswered[name] = texts
                acknowledged.append(client.decide("first", texts, id=name))
                del unanswered[name]
                if draw.random() < 0.8:
                    acknowledged.append(client.reward("first", name, draw.randrange(2)))
            except ServiceError as error:
                if error.problem["code"] == "unreachable":
                    return True
                if error.status < 500:  # nothing was acknowledged: it stops, is too busy, or a thread of it failed
                    raise
    return False


def killed(folder, point, count, *, n_clients=4, after=None):
    """Run a service under load until it is killed, recover it, and check; return whether it was killed.

    It is killed at the point, or when so many answers have come; a client sends 60 decisions.
    """
    process = Process(folder, point, count)
    acknowledged, unanswered = [], {}
    is_gone = process.url is None
    if not is_gone:
        with ThreadPoolExecutor(n_clients) as pool:
            workers = [
                pool.submit(drive_over_http, process.url, worker, acknowledged, unanswered)
                for worker in range(n_clients)
            ]
            if after is not None:
                eventually(lambda: len(acknowledged) >= after or all(worker.done() for worker in workers))
                process.process.kill()
        is_gone = any(worker.result() for worker in workers)
    if not is_gone:
        process.process.kill()
    was_killed = process.wait() == -signal.SIGKILL and is_gone
    with running(folder) as learner:
        settle(learner)
        check(learner, [answer_of(one) for one in acknowledged])
        for name, texts in unanswered.items():
            first = decide(learner, name, texts_request(texts), "first")
            again = decide(learner, name, texts_request(texts), "first")
            assert (first.seq, first.action_id, first.propensity) == (again.seq, again.action_id, again.propensity)
            assert again.replayed
        settle(learner)
        check(learner, [answer_of(one) for one in acknowledged])
    return was_killed


def texts_request(texts):
    from kernelbandits.service.schemas import Action, DecisionRequest

    return DecisionRequest(actions=[Action(one["id"], one["x"]) for one in texts])


@pytest.mark.parametrize("point", ["inside commit", "after commit", "apply", "checkpoint"])
def test_a_kill_loses_nothing_that_was_acknowledged(tmp_path, point):
    assert killed(tmp_path, point, 23)


def test_a_kill_inside_a_migration_leaves_the_database_as_it_was(tmp_path):
    with running(tmp_path) as learner:
        experiment(learner)
        acknowledged = drive(learner, 5)

    assert Process(tmp_path, "migration", 1).wait() == -signal.SIGKILL

    with running(tmp_path) as learner:  # this version reads it
        check(learner, acknowledged)
        assert learner.store._read("SELECT name FROM sqlite_schema WHERE name = 'later'") == []
    later = later_store(tmp_path / "log.db", lambda point: 0)  # and the later one upgrades it
    with running(tmp_path, store=later) as learner:
        check(learner, acknowledged)
        assert learner.store._read("SELECT count(*) > 0 FROM later") == [(1,)]


@pytest.mark.long
def test_two_hundred_kills_lose_nothing(tmp_path):
    draw = random.Random(0)
    n_killed = 0
    for number in range(200):
        folder = tmp_path / str(number % 20)  # ten kills of each data folder, one after the other
        folder.mkdir(exist_ok=True)
        if number % 3 == 0:
            n_killed += killed(folder, "none", 0, n_clients=8, after=draw.randrange(200))
        else:
            n_killed += killed(folder, POINTS[number % len(POINTS)], draw.randrange(1, 60), n_clients=8)
    assert n_killed > 120


def test_sigterm_under_load_answers_what_it_took_writes_snapshots_and_exits_with_0(tmp_path):
    process = Process(tmp_path)
    acknowledged = []
    worker = threading.Thread(target=drive_over_http, args=(process.url, 0, acknowledged, {}, 10_000))
    worker.start()
    eventually(lambda: len(acknowledged) >= 30 or not worker.is_alive())

    status = process.end()

    assert status == 0, process.errors
    worker.join()
    assert len(acknowledged) >= 30
    assert not (tmp_path / "server.json").exists()
    with running(tmp_path) as learner:
        (latest, *_) = learner.store.snapshots("first")
        assert list(learner.store.rows("first", after=0, types=MODEL_ROWS))
        assert not list(learner.store.rows("first", after=latest.seq, types=MODEL_ROWS))  # a restart replays nothing
        check(learner, [answer_of(one) for one in acknowledged])


def test_a_second_server_rejects_and_names_the_first(tmp_path):
    settings = Settings(data=tmp_path)
    with hold_folder(settings):
        code = (
            "import sys; from pathlib import Path\n"
            "from kernelbandits.service.serve import serve\nfrom kernelbandits.service.settings import Settings\n"
            "serve(Settings(data=Path(sys.argv[1]), port=0))"
        )
        done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True)
    assert f"belongs to the server with process id {os.getpid()} at http://127.0.0.1:8090" in done.stderr
    with hold_folder(settings):  # the lock ends with its holder
        pass
    with hold_folder(settings), pytest.raises(FolderInUse, match=str(os.getpid())), hold_folder(settings):
        pass


@pytest.mark.parametrize("what", ["deleted", "replaced"])
def test_a_file_that_is_deleted_or_replaced_is_noticed(tmp_path, what):
    ended = []
    learner = learner_at(tmp_path, fatal=ended.append)
    learner.start()
    experiment(learner)

    (tmp_path / "log.db").rename(tmp_path / "moved.db")
    if what == "replaced":
        (tmp_path / "log.db").write_bytes((tmp_path / "moved.db").read_bytes())

    eventually(lambda: ended)
    assert "deleted or replaced" in str(ended[0])
    assert (learner.state, learner.is_ready) == ("failed", False)
    learner.stop(snapshot=False)
    learner.store.close()


@pytest.mark.parametrize("point", ["scored", "before commit", "apply"])
def test_an_exception_in_a_thread_ends_the_service(tmp_path, point):
    def at(name):
        if name == point and broken:
            raise ZeroDivisionError("a mistake")

    broken, ended = False, []
    learner = learner_at(tmp_path, fatal=ended.append, at=at)
    learner.start()
    experiment(learner)
    acknowledged = [decide(learner, "d1")]
    broken = True

    for number in range(3):
        with suppress(Problem, TimeoutError):
            acknowledged.append(learner.decide("e", f"x{number}", request(number)).future.result(2))

    eventually(lambda: ended)
    assert isinstance(ended[0], ZeroDivisionError)
    assert (learner.is_ready, learner.state) == (False, "failed")
    with pytest.raises(Problem, match="stopping or restarting"):
        decide(learner, "later")
    broken = False
    learner.stop()
    learner.store.close()
    with running(tmp_path) as recovered:
        check(recovered, acknowledged)


@pytest.mark.parametrize("point", ["scored", "before commit", "apply"])
def test_a_process_in_which_a_thread_fails_ends_with_74_and_loses_nothing(tmp_path, point):
    process = Process(tmp_path, f"fail at {point}", 20)
    acknowledged = []

    assert drive_over_http(process.url, 0, acknowledged, {}, 1_000)

    assert process.wait() == 74
    assert "the service ends: RuntimeError: a fault" in process.errors
    assert len(acknowledged) > 5
    with running(tmp_path) as learner:
        check(learner, [answer_of(one) for one in acknowledged])


@pytest.mark.parametrize("jump", [-3_600.0, 365 * 86_400.0])
def test_a_clock_that_jumps_while_running_closes_nothing_and_raises_an_alarm(tmp_path, jump):
    clock = Time()
    with running(tmp_path, clock=clock.clock()) as learner:
        experiment(learner, default_reward=0.0)
        drive(learner, 5)
        before = learner.clock.now()

        clock.wall += jump

        assert "jumped" in eventually(lambda: learner.alarm)
        assert learner.clock.now() >= before
        settle(learner)
        assert learner.experiments["e"].info()["n_open"] == 5
        assert [row.type for row in learner.store.rows()][-1] == "alarm"
        check(learner)


@pytest.mark.parametrize("jump", [-3_600.0, 365 * 86_400.0])
def test_a_clock_that_jumps_while_the_service_is_down_closes_nothing(tmp_path, jump):
    clock = Time()
    with running(tmp_path, clock=clock.clock()) as learner:
        experiment(learner, default_reward=0.0)
        drive(learner, 5)
        last = learner.store.head().at
    clock.wall += jump

    with running(tmp_path, clock=clock.clock()) as learner:
        settle(learner)
        assert learner.experiments["e"].info()["n_open"] == 5
        assert learner.store.head().at >= last
        times = [row.at for row in learner.store.rows()]
        assert times == sorted(times)
        check(learner)


def test_without_the_extension_downtime_would_close_everything(tmp_path, monkeypatch):
    """Negative control of the tests above."""
    clock = Time()
    with running(tmp_path, clock=clock.clock()) as learner:
        experiment(learner, default_reward=0.0)
        drive(learner, 5)
    clock.pass_(10_000.0)
    monkeypatch.setattr("kernelbandits.service.experiment.LiveExperiment.extend", lambda self, seconds: None)

    with running(tmp_path, clock=clock.clock()) as learner:
        eventually(lambda: not learner.experiments["e"].entries, "the end of the windows")
        settle(learner)
        assert learner.experiments["e"].info()["n_learned"] > 0


def test_the_checker_notices_a_lost_row_a_repeated_id_and_another_record(tmp_path):
    """Negative controls of `check`."""
    with running(tmp_path) as learner:
        live = experiment(learner)
        acknowledged = drive(learner, 5)
        settle(learner)
        check(learner, acknowledged)

        lost = SimpleNamespace(seq=10_000, decision_id="none", action_id="a", propensity=1.0)
        with pytest.raises(AssertionError, match="is lost"):
            check(learner, [lost])
        live.model.policy.learn(live.model.policy.choose([[0.0, 0.0, 0.0]]), 0.5)  # behind the back of the log
        with pytest.raises(AssertionError):
            check(learner, acknowledged)


def test_answers_are_what_was_stored(tmp_path):
    with running(tmp_path) as learner:
        experiment(learner)
        answer = decide(learner, "d1", request(1, explain=True))
        reward(learner, "d1", 0.5)
        stored = json.loads(learner.store.row(answer.seq).body)

    assert stored["places"][0]["p"] == answer.propensity
    assert [one["id"] for one in stored["candidates"]] == [one.id for one in answer.candidates]
