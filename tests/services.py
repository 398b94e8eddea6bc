"""Services for tests: a learner over a store in a folder, requests, and the one check of everything."""

from __future__ import annotations

import json
import random
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import msgspec

from kernelbandits.service.client import Client
from kernelbandits.service.clock import Clock
from kernelbandits.service.experiment import Outcome
from kernelbandits.service.learner import Learner, replay
from kernelbandits.service.log import verify_chain
from kernelbandits.service.schemas import Action, DecisionRequest, Experiment, RewardRequest
from kernelbandits.service.settings import Settings
from kernelbandits.service.store import SqliteStore

ROWS = {"class": "KernelUCB", "kernel": {"class": "Gaussian", "length_scale": 1.0}, "exploration": 0.5}
STRINGS = {"class": "KernelUCB", "kernel": {"class": "Spectrum", "n": 3}, "exploration": 0.5}
TABLE = {
    "class": "KernelUCB",
    "kernel": {"class": "SimilarityTable", "ids": ["a", "b"], "values": [[1.0, 0.5], [0.5, 1.0]]},
    "exploration": 0.5,
}


PATIENCE = 300.0
"""Seconds to wait for what has to come: much more than it takes, also on a machine that does other work."""


def eventually(condition, what="it"):
    """Wait until something is true, and return it."""
    end = time.monotonic() + PATIENCE
    while not (found := condition()):
        assert time.monotonic() < end, f"{what} did not come within {PATIENCE:g} s"
        time.sleep(0.005)
    return found


def stretched(seconds):
    """A limit in seconds, longer by the factor by which other work slows this machine down just now."""
    start, used = time.perf_counter(), time.process_time()
    while time.process_time() - used < 0.05:
        pass
    return seconds * max(1.0, (time.perf_counter() - start) / 0.05)


class Time:
    """A wall clock and a monotonic clock that a test moves."""

    def __init__(self, start=1_700_000_000.0):
        self.wall = start
        self.monotonic = 100.0

    def clock(self):
        return Clock(lambda: self.wall, lambda: self.monotonic)

    def pass_(self, seconds):
        self.wall += seconds
        self.monotonic += seconds


def learner_at(folder: Path, **options):
    """A learner that has not started."""
    store = options.pop("store", None) or SqliteStore(Path(folder) / "log.db")
    return Learner(store, Path(folder), **options)


@contextmanager
def running(folder, **options):
    """A learner that runs, and stops without a snapshot."""
    learner = learner_at(folder, **options)
    learner.start()
    try:
        yield learner
    finally:
        learner.stop(snapshot=False)
        learner.store.close()


def experiment(learner, name="e", *, policy=ROWS, **settings):
    """Create and start an experiment."""
    learner.create(Experiment(name=name, policy=policy, **{"wait": 60.0, **settings})).result(PATIENCE)
    learner.transition(name, "start").result(PATIENCE)
    return learner.experiments[name]


def request(seed=0, n=5, columns=3, **more):
    """A request with rows on a grid, so that contexts occur again."""
    draw = random.Random(seed)
    rows = [Action(f"a{i}", [float(round(draw.gauss(0, 1))) for _ in range(columns)]) for i in range(n)]
    return DecisionRequest(actions=rows, **more)


def decide(learner, id, given=None, name="e", **more):
    return learner.decide(name, id, given or request(id, **more)).future.result(PATIENCE)


def reward(learner, decision, value, id="r1", name="e", **more):
    return learner.reward(name, decision, id, RewardRequest(reward=value, **more)).result(PATIENCE)


def settle(learner):
    """Wait until everything queued is committed and applied."""
    learner.snapshot().result(PATIENCE)


def drive(learner, n, *, name="e", start=0, seed=0):
    """Decisions with rewards: some twice, some late to come, some never; returns what was acknowledged."""
    draw = random.Random(seed)
    answers = []
    for number in range(start, start + n):
        name_of = f"d{number}"
        answers.append(decide(learner, name_of, request(number % 7), name))
        if draw.random() < 0.7:
            answers.append(reward(learner, name_of, round(draw.random(), 3), name=name))
        if draw.random() < 0.2:
            answers.append(reward(learner, name_of, round(draw.random(), 3), "r2", name=name))
        if number > 3 and draw.random() < 0.2:
            answers.append(reward(learner, f"d{number - 3}", round(draw.random(), 3), f"l{number}", name=name))
    return answers


def check(learner, acknowledged=()):
    """The invariant of section 8: acknowledged ⊆ log, every id once, no gap, replayed record = live record."""
    store = learner.store
    n_rows, findings = verify_chain(store)
    assert not findings, findings
    seen: set[tuple[str, str, str]] = set()
    for row in store.rows():
        if row.type in ("decision", "reward"):
            body = json.loads(row.body) if row.body is not None else {}
            key = (row.experiment, row.type, row.id if row.type == "decision" else f"{body['decision']}/{row.id}")
            assert key not in seen, f"{key} occurs twice"
            seen.add(key)
    for answer in acknowledged:
        row = store.row(answer.seq)
        assert row is not None, f"acknowledged row {answer.seq} of {n_rows} is lost"
        body = msgspec.json.decode(row.body)
        if hasattr(answer, "action_id"):
            assert (row.type, row.id) == ("decision", answer.decision_id)
            assert (body["places"][0]["id"], body["places"][0]["p"]) == (answer.action_id, answer.propensity)
        else:
            assert (row.type, row.id, body["decision"]) == ("reward", answer.reward_id, answer.decision_id)
    for live in learner.experiments.values():
        for version in live.versions.values():
            if version.id in live.models:
                again = replay(store, live, version, use_snapshots=False)
                assert again.record == live.models[version.id].record
    return n_rows


@contextmanager
def busy(learner):
    """A learner that does nothing else meanwhile, so that decisions fall back."""
    begun, done = threading.Event(), threading.Event()

    def work():
        begun.set()
        done.wait(PATIENCE)
        return Outcome([], lambda rows: None)

    learner.call(work)
    assert begun.wait(PATIENCE)
    try:
        yield
    finally:
        done.set()


TOPICS = {"sport": 0.6, "politics": 0.2, "food": 0.4, "travel": 0.3}
WORDS = ("today", "explained", "in pictures", "live", "in numbers", "again")


def read_news(learner, n, time, *, name="e", seed=0, every=8.0):
    """Decisions over changing sets of headlines, on a clock that the test moves; rewards late, twice and never."""
    draw = random.Random(seed)
    for number in range(n):
        time.pass_(every)
        topics = draw.sample(sorted(TOPICS), 3)
        actions = [Action(f"{topic}-{word}".replace(" ", "-"), f"{topic} news {word}")
                   for topic, word in ((topic, draw.choice(WORDS)) for topic in topics)]  # fmt: skip
        given = DecisionRequest(actions=actions, baseline=actions[0].id, explain=number % 10 == 0)
        answer = decide(learner, f"d{number}", given, name)
        if draw.random() < 0.8:
            time.pass_(draw.random() * every)
            reward(learner, f"d{number}", float(draw.random() < TOPICS[answer.action_id.partition("-")[0]]), name=name)
        if number > 60 and draw.random() < 0.05:
            old = number - draw.randrange(1, 60)
            reward(learner, f"d{old}", float(draw.random() < 0.5), f"again-{number}", name=name)


class PatientClient(Client):
    """A client that waits, and whose experiments wait for the learner, so that a slow machine changes no answer."""

    def __init__(self, url, **options):
        super().__init__(url, **{"timeout": PATIENCE, **options})

    def create(self, name, policy, **settings):
        return super().create(name, policy, **{"deadline": 60.0, **settings})


@contextmanager
def served(folder, *, settings=None, **options):
    """A service over HTTP in this process: its URL, a client, the learner and the application."""
    import uvicorn

    from kernelbandits.service.api import create_app
    from kernelbandits.service.dashboard import routes

    settings = settings or Settings(data=Path(folder), port=0)
    learner = learner_at(folder, limits=settings.limits, **options)
    app = create_app(learner, settings, routes=routes)
    config = uvicorn.Config(
        app, host="127.0.0.1", port=0, log_level="critical", lifespan="on", timeout_keep_alive=int(PATIENCE)
    )  # a connection that a slow test leaves idle is not closed
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        eventually(lambda: (server.started and learner.state != "recovering") or not thread.is_alive(), "the server")
        assert thread.is_alive(), "the server did not start"
        port = server.servers[0].sockets[0].getsockname()[1]
        url = f"http://127.0.0.1:{port}"
        with PatientClient(url, retries=0) as client:
            yield SimpleNamespace(url=url, port=port, client=client, learner=learner, app=app)
    finally:
        server.should_exit = True
        thread.join(PATIENCE)
        assert not thread.is_alive()
        learner.store.close()
