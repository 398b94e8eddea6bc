"""The learner: one thread that owns every policy, and the writer beside it.

Requests queue up for the learner. It scores, draws and queues rows for the writer; the writer commits and answers; the
learner then applies the committed rows. After a full disk it reads its state from the log again; after any other
failure of the store, or of a thread, the process has to end.
"""

from __future__ import annotations

import logging
import re
import threading
import warnings
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any, Final

import msgspec

from kernelbandits.errors import KernelBanditError, SavedFileError
from kernelbandits.service.clock import JUMP, Clock
from kernelbandits.service.experiment import LiveExperiment, Outcome, PolicyVersion, answer_of, constant
from kernelbandits.service.model import MODEL_ROWS, Fold, Model, build_policy
from kernelbandits.service.problems import Problem, problem_of
from kernelbandits.service.schemas import (
    DecisionRequest,
    Experiment,
    ExperimentChange,
    Items,
    LearnBody,
    Limits,
    RewardRequest,
    decode_body,
    encode,
)
from kernelbandits.service.store import (
    Draft,
    MarkExtended,
    MarkStatus,
    Row,
    SnapshotEntry,
    Store,
    StoreDamaged,
    StoreError,
    StoreFull,
)
from kernelbandits.service.writer import Batch, Writer

__all__ = ["Job", "Learner", "first_model", "fold_experiments", "replay"]

logger = logging.getLogger("kernelbandits.service")

PROBE_SECONDS: Final = 1.0
"""Time between attempts to write after the disk was full."""

SNAPSHOT_ROWS: Final = 5_000
"""Rows of the log after which a snapshot is written: a restart replays at most about that many."""

SNAPSHOTS_KEPT: Final = 2

TRANSITIONS: Final = {
    "start": (("draft",), "running"),
    "pause": (("running",), "paused"),
    "resume": (("paused",), "running"),
    "end": (("draft", "running", "paused"), "ended"),
}


class Job:
    """A call for the learner's thread, which either the learner claims or, if it is late, the caller."""

    def __init__(self, work: Callable[[], Outcome], *, is_exclusive: bool = False) -> None:
        self.work, self.is_exclusive = work, is_exclusive
        self.future: Future[Any] = Future()
        self.future.set_running_or_notify_cancel()
        self._claim = threading.Lock()

    def claim(self) -> bool:
        """Take the job; False if it was taken."""
        return self._claim.acquire(blocking=False)


def fold_experiments(store: Store, limits: Limits, *, name: str | None = None) -> dict[str, LiveExperiment]:
    """Settings, catalogs and versions of experiments, from the rows that are not decisions, rewards or learning."""
    found: dict[str, LiveExperiment] = {}
    types = ("experiment", "settings", "state", "items", "policy")
    for row in store.rows(name, types=types):
        if row.body is None:
            continue
        body = decode_body(row)
        if row.type == "experiment":
            found[row.experiment] = LiveExperiment(body, store, limits, row.seq)
            found[row.experiment].created_at = row.at
        else:
            apply_setting(found[row.experiment], row, body)
    return found


def apply_setting(experiment: LiveExperiment, row: Row, body: Any) -> None:
    """Apply a row that is about an experiment itself."""
    match row.type:
        case "settings":
            experiment.spec = msgspec.convert({**msgspec.to_builtins(experiment.spec), **body}, Experiment)
            for model in experiment.models.values():
                model.pending_limit = experiment.spec.pending_limit
        case "state":
            experiment.state = body["state"]
        case "items":
            experiment.apply_items(body, row.seq)
        case "policy":
            _apply_policy(experiment, row, body)


def _apply_policy(experiment: LiveExperiment, row: Row, body: dict[str, Any]) -> None:
    id = row.id
    if "policy" in body:
        experiment.versions[id] = PolicyVersion(id, body["policy"], body["epsilon"], row.seq, body.get("note", ""))
    version = experiment.versions[id]
    version.status = body.get("status", version.status)
    if version.status == "active":
        for other in experiment.versions.values():
            if other.status == "active" and other is not version:
                other.status = "shadow"
        experiment.active = id
    elif version.status == "retired":
        experiment.models.pop(id, None)


def replay(
    store: Store, experiment: LiveExperiment, version: PolicyVersion, *, upto: int | None = None, use_snapshots: bool,
    folder: Path | None = None,
) -> Model:  # fmt: skip
    """The model of a version after the rows of the log up to one, from the latest sound snapshot or from nothing."""
    model = None
    if use_snapshots and folder is not None:
        for entry in store.snapshots(experiment.name, version.id):
            if upto is not None and entry.seq > upto:
                continue
            model = _from_snapshot(folder, entry, experiment.spec)
            if model is not None:
                break
    if model is None:
        model = first_model(store, experiment, version)
    fold = Fold(model, experiment.find)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for row in store.rows(experiment.name, after=model.seq, upto=upto, types=MODEL_ROWS):
            fold.feed(row)
        fold.flush()
    return model


def first_model(store: Store, experiment: LiveExperiment, version: PolicyVersion) -> Model:
    """The model of a version before any row of the log."""
    first = _first_spec(store, experiment)
    return Model(version.id, build_policy(version.description, first, version.epsilon), first)


def _first_spec(store: Store, experiment: LiveExperiment) -> Experiment:
    """The settings with which the experiment was created."""
    row = store.row(experiment.created_seq)
    assert row is not None
    found: Experiment = decode_body(row)
    return found


def _from_snapshot(folder: Path, entry: SnapshotEntry, spec: Experiment) -> Model | None:
    """The model of a snapshot, or None if its file is missing, damaged or not what it was."""
    try:
        model = Model.load(folder / entry.file, entry.policy, spec, seq=entry.seq)
    except (SavedFileError, OSError, KernelBanditError) as error:
        logger.warning("snapshot %s cannot be used: %s", entry.file, error)
        return None
    if model.record != entry.record:
        logger.warning("snapshot %s does not hold the record that it had", entry.file)
        return None
    return model


class Learner:
    """Owns the experiments of a store.

    Parameters
    ----------
    store
        The store; the learner's writer is the only one that appends to it.
    folder
        Folder of the snapshots.
    clock, limits
        As their classes say.
    fatal
        Called with the error after which the process has to end. By default nothing is called and `is_ready` is False.
    at
        Called with the name of each point at which a crash is tested.
    snapshot_rows
        Rows of the log between two snapshots.
    """

    def __init__(
        self,
        store: Store,
        folder: Path,
        *,
        clock: Clock | None = None,
        limits: Limits | None = None,
        fatal: Callable[[BaseException], None] = lambda error: None,
        at: Callable[[str], None] = lambda point: None,
        snapshot_rows: int = SNAPSHOT_ROWS,
    ) -> None:
        self.store, self.folder = store, folder
        self.clock, self.limits = clock or Clock(), limits or Limits()
        self._fatal, self._at, self._snapshot_rows = fatal, at, snapshot_rows
        self.experiments: dict[str, LiveExperiment] = {}
        self.writer = Writer(store, self._on_commit, self._on_failure, at=at)
        self._inbox: SimpleQueue[Job | None] = SimpleQueue()
        self._rows: deque[list[Row]] = deque()
        self._thread = threading.Thread(target=self._run, name="kernelbandits-learner", daemon=True)
        self.state = "recovering"
        """"recovering", "ready", "read-only", "stopped" or "failed"."""
        self.error: BaseException | None = None
        self.applied_seq = 0
        self.last_snapshot_at: float | None = None
        self._since_snapshot = 0
        self._alarm_at: float | None = None
        self._is_stopping = False
        self._pace = 0.0  # seconds that the last requests took, on average
        self._next_probe = 0.0
        self._next_check = 0.0
        self.recovered: dict[str, Any] = {}
        """Up to which row the last recovery went, and its duration."""

    # -- life --------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Recover from the log, and start both threads; a damaged log is not learned from, and can be read."""
        head = self.store.head()
        downtime = self.clock.resume(None if head is None else head.at)
        try:
            self._recover()
        except StoreDamaged as error:
            self._freeze(error)
            return
        self.writer.start()
        self._announce_start(downtime)
        self._thread.start()

    def _announce_start(self, downtime: float) -> None:
        """Log the start, and extend open windows by the time that the service was down."""
        now = self.clock.now()
        drafts = [Draft("", "started", "", now, encode({"downtime": downtime}))]
        for experiment in self.experiments.values():
            if downtime > 0.0 and experiment.entries:
                body = encode({"seconds": downtime})
                drafts.append(Draft(experiment.name, "extended", "", now, body, (MarkExtended(downtime),)))
                experiment.extend(downtime)
        done = _new_future()
        self.writer.put(Batch(drafts, lambda rows: None, done))
        with suppress(Problem):  # the disk is full: the learner tries again
            done.result()

    def _recover(self) -> None:
        """Read the state from the log."""
        start = monotonic()
        self.state = "recovering"
        self._rows.clear()
        head = self.store.head()
        self.applied_seq = 0 if head is None else head.seq
        experiments = fold_experiments(self.store, self.limits)
        self.experiments = self.experiments or experiments  # to be read if the rest is damaged
        for experiment in experiments.values():
            self._remove_stale_snapshots(experiment.name)
            for version in experiment.versions.values():
                if version.status in ("active", "shadow"):
                    experiment.models[version.id] = replay(
                        self.store, experiment, version, use_snapshots=True, folder=self.folder
                    )
                    experiment.models[version.id].pending_limit = experiment.spec.pending_limit
            self._at("recovery")
            experiment.restore_entries()
            experiment.restore_shape()
            experiment.counts = Counter(self.store.counts(experiment.name))
        self.last_snapshot_at = self._latest_snapshot(experiments)
        self.experiments = experiments
        self.recovered = {"seq": self.applied_seq, "seconds": monotonic() - start}
        self.state = "ready"

    def _latest_snapshot(self, experiments: dict[str, LiveExperiment]) -> float | None:
        """Logged time of the latest snapshot."""
        latest = max((entry.seq for name in experiments for entry in self.store.snapshots(name)), default=0)
        rows = self.store.rows(after=latest - 1, upto=latest, is_checked=False)
        return next((row.at for row in rows), None)

    def _remove_stale_snapshots(self, name: str) -> None:
        """Remove snapshots from before the last erasure, which hold what was erased, and files that a crash left."""
        last = max((row.seq for row in self.store.rows(name, types=("erased",))), default=0)
        self.store.remove_snapshots(name, upto=last)
        listed = {entry.file for entry in self.store.snapshots(name)}
        file = rf"{re.escape(name)}-p\d+-\d+\.kb"
        for path in self.folder.iterdir():
            if path.name not in listed and re.fullmatch(rf"{file}|\.{file}\.\w+\.partial", path.name):
                path.unlink(missing_ok=True)

    def stop(self, *, snapshot: bool = True) -> None:
        """Answer what is queued, write snapshots and end both threads."""
        if self._thread.is_alive():
            self._is_stopping = True
            self._inbox.put(None)
            self._thread.join()
            if self.error is None and self.writer.error is None:  # from here on the time counts as downtime
                self.writer.put(
                    Batch([Draft("", "stopped", "", self.clock.now(), b"{}")], lambda rows: None, _new_future())
                )
        self.writer.stop()
        if snapshot and self.error is None and self.writer.error is None:
            with suppress(OSError, KernelBanditError):
                self._apply_committed()
                self._snapshot_all()
        self.state = "stopped" if self.error is None else "failed"

    @property
    def is_alive(self) -> bool:
        """Whether both threads run."""
        return self._thread.is_alive() and self.writer.is_alive

    @property
    def is_ready(self) -> bool:
        """Whether decisions can be made."""
        return self.state == "ready" and self.is_alive

    @property
    def n_waiting(self) -> int:
        """Number of requests that the learner has not begun."""
        return self._inbox.qsize()

    @property
    def backlog(self) -> float:
        """Seconds until the learner begins a request that is queued now, as far as the last ones tell."""
        return self._inbox.qsize() * self._pace

    @property
    def lag(self) -> int:
        """Number of committed rows that are not applied."""
        return sum(map(len, tuple(self._rows)))

    @property
    def alarm(self) -> str | None:
        """What is wrong with the clock."""
        return None if self._alarm_at is None else "The wall clock has jumped; closing of windows is held."

    # -- calls -------------------------------------------------------------------------------------------------------

    def submit(self, job: Job) -> Job:
        """Queue a job."""
        if self.state in ("failed", "stopped") or self._is_stopping:
            job.future.set_exception(Problem("recovering", "The service is stopping or restarting.", retry_after=2))
        elif self.state == "read-only":
            job.future.set_exception(self._read_only())
        else:
            self._inbox.put(job)
        return job

    def call(self, work: Callable[[], Outcome], *, is_exclusive: bool = False) -> Future[Any]:
        """Run something on the learner's thread; an exclusive call sees every earlier row applied."""
        return self.submit(Job(work, is_exclusive=is_exclusive)).future

    def experiment(self, name: str) -> LiveExperiment:
        """A running experiment, or a Problem."""
        found = self.experiments.get(name)
        if found is None:
            raise Problem("not-found", f"There is no experiment {name!r:.140}.")
        return found

    def decide(self, name: str, id: str, request: DecisionRequest, digest: str | None = None) -> Job:
        """Queue a decision; `digest` is that of the request, if it is known."""

        def work() -> Outcome:
            self._at("decide")
            found = self.experiment(name).decide(id, request, self.clock.now(), digest)
            self._at("scored")
            return found

        return self.submit(Job(work))

    def fall_back(self, name: str, id: str, request: DecisionRequest, digest: str) -> Future[Any]:
        """Decide without the learner, whose job was claimed by the caller."""
        if self.state == "read-only":
            raise self._read_only()
        experiment = self.experiment(name)
        if experiment.shape is None:
            raise Problem("overloaded", "The first decision of an experiment needs the learner, which is busy.")
        body, draft = experiment.fallback(id, request, self.clock.now(), digest)
        future: Future[Any] = Future()
        self.writer.put(Batch([draft], lambda rows: answer_of(id, body, rows[0].seq), future))
        return future

    def reward(self, name: str, decision: str, id: str, request: RewardRequest) -> Future[Any]:
        """Queue a reward."""
        return self.call(lambda: self.experiment(name).reward(decision, id, request, self.clock.now()))

    def rewards(self, name: str, requests: list[tuple[str, str, RewardRequest]]) -> Future[Any]:
        """Queue several rewards; each is answered, or rejected with its own problem."""
        return self.call(lambda: self._each(name, requests))

    def _each(self, name: str, requests: list[tuple[str, str, RewardRequest]]) -> Outcome:
        experiment = self.experiment(name)
        now = self.clock.now()
        drafts: list[Draft] = []
        replies: list[tuple[Callable[[list[Row]], Any], int, int]] = []
        learn = LearnBody()
        marks: list[Any] = []
        for decision, id, request in requests:
            try:
                outcome = experiment.reward(decision, id, request, now)
            except KernelBanditError as error:
                replies.append((_raising(problem_of(error)), 0, 0))
                continue
            start = len(drafts)
            for draft in outcome.drafts:
                if draft.type == "learn":  # one row for the whole batch
                    body: LearnBody = msgspec.json.decode(draft.body, type=LearnBody)
                    for field in LearnBody.__struct_fields__:
                        getattr(learn, field).extend(getattr(body, field))
                    marks.extend(draft.marks)
                else:
                    drafts.append(draft)
            replies.append((outcome.reply, start, len(drafts)))
        if learn.learn or learn.amend:
            drafts.append(Draft(experiment.name, "learn", "", now, encode(learn), tuple(marks)))
        return Outcome(drafts, lambda rows: [_answered(reply, rows[start:end]) for reply, start, end in replies])

    # -- settings ----------------------------------------------------------------------------------------------------

    def create(self, spec: Experiment) -> Future[Any]:
        """Create an experiment, in state "draft"."""

        def work() -> Outcome:
            if spec.name in self.experiments:
                if msgspec.to_builtins(self._first(spec.name)) == msgspec.to_builtins(spec):
                    return Outcome([], lambda rows: self.experiments[spec.name].info())
                raise Problem("wrong-state", f"There is an experiment {spec.name!r} already. Choose another name.")
            _check_spec(spec)
            policy = build_policy(spec.policy, spec)
            now = self.clock.now()
            first = {"policy": spec.policy, "epsilon": spec.epsilon, "status": "active"}
            drafts = [
                Draft(spec.name, "experiment", "", now, encode(spec)),
                Draft(spec.name, "policy", "p1", now, encode(first)),
            ]

            def reply(rows: list[Row]) -> Any:
                experiment = LiveExperiment(spec, self.store, self.limits, rows[0].seq)
                experiment.created_at = now
                experiment.counts.update(row.type for row in rows)
                apply_setting(experiment, rows[1], first)
                experiment.models["p1"] = Model("p1", policy, spec, seq=rows[1].seq)
                self.experiments = {**self.experiments, spec.name: experiment}
                return experiment.info()

            return Outcome(drafts, reply)

        return self.call(work, is_exclusive=True)

    def _first(self, name: str) -> Experiment:
        return _first_spec(self.store, self.experiments[name])

    def _set(self, name: str, make: Callable[[LiveExperiment], tuple[str, str, dict[str, Any]]]) -> Future[Any]:
        """Append a row about an experiment, and apply it."""

        def work() -> Outcome:
            experiment = self.experiment(name)
            type, id, body = make(experiment)
            draft = Draft(name, type, id, self.clock.now(), encode(body))

            def reply(rows: list[Row]) -> Any:
                apply_setting(experiment, rows[0], body)
                for model in experiment.models.values():
                    model.seq = max(model.seq, rows[0].seq)
                return {**experiment.info(), "seq": rows[0].seq}

            return Outcome([draft], reply)

        return self.call(work, is_exclusive=True)

    def change(self, name: str, change: ExperimentChange) -> Future[Any]:
        """Change settings of an experiment."""

        def make(experiment: LiveExperiment) -> tuple[str, str, dict[str, Any]]:
            given = msgspec.to_builtins(change)
            _check_spec(msgspec.convert({**msgspec.to_builtins(experiment.spec), **given}, Experiment))
            return "settings", "", given

        return self._set(name, make)

    def transition(self, name: str, action: str) -> Future[Any]:
        """Start, pause, resume or end an experiment."""
        allowed, state = TRANSITIONS[action]

        def make(experiment: LiveExperiment) -> tuple[str, str, dict[str, Any]]:
            if experiment.state not in (*allowed, state):
                raise Problem("wrong-state", f"Experiment {name!r} is {experiment.state}; it cannot {action}.")
            return "state", "", {"state": state}

        return self._set(name, make)

    def change_items(self, name: str, change: Items) -> Future[Any]:
        """Change the catalog."""

        def work() -> Outcome:
            experiment = self.experiment(name)
            outcome = experiment.change_items(change, self.clock.now())

            def reply(rows: list[Row]) -> Any:
                experiment.apply_items(change, rows[0].seq)
                return outcome.reply(rows)

            return outcome._replace(reply=reply)

        return self.call(work, is_exclusive=True)

    def add_similarities(self, name: str, block: Any) -> Future[Any]:
        """Extend a similarity table."""

        def work() -> Outcome:
            experiment = self.experiment(name)
            outcome = experiment.add_similarities(block, self.clock.now())
            if not outcome.drafts:
                return outcome

            def reply(rows: list[Row]) -> Any:
                for model in experiment.models.values():
                    model.add_similarities(block)
                    model.seq = rows[0].seq
                return outcome.reply(rows)

            return outcome._replace(reply=reply)

        return self.call(work, is_exclusive=True)

    # -- policy versions ---------------------------------------------------------------------------------------------

    def add_version(self, name: str, description: dict[str, Any], epsilon: float | None, note: str) -> Future[Any]:
        """Register a version; it is then built by a replay in another process (`adopt`).

        The same request again is answered with the version that exists, unless that is retired.
        """

        def work() -> Outcome:
            experiment = self.experiment(name)
            share = experiment.spec.epsilon if epsilon is None else epsilon
            wanted = (description, share, note)
            for version in experiment.versions.values():
                if (version.description, version.epsilon, version.note) == wanted and version.status != "retired":
                    return Outcome([], constant({**version.to_dict(), "replayed": True}))
            policy = build_policy(description, experiment.spec, share)
            if not policy.learns_from_any_action:
                raise Problem(
                    "invalid",
                    f"{type(policy).__name__} learns only from its own choices, so it cannot be built from a log.",
                    pointer="/policy/class",
                )
            id = f"p{len(experiment.versions) + 1}"
            body = {"policy": description, "epsilon": share, "status": "building", "note": note}
            draft = Draft(name, "policy", id, self.clock.now(), encode(body))

            def reply(rows: list[Row]) -> Any:
                apply_setting(experiment, rows[0], body)
                return {**experiment.versions[id].to_dict(), "seq": rows[0].seq, "replayed": False}

            return Outcome([draft], reply)

        return self.call(work, is_exclusive=True)

    def adopt(self, name: str, id: str, path: Path, seq: int) -> Future[Any]:
        """Take a version that was replayed up to a row, and replay the rest; it then learns in shadow."""

        def work() -> Outcome:
            experiment = self.experiment(name)
            spec = _first_spec(self.store, experiment)
            if any(self.store.rows(name, after=seq, types=("erased",))):  # the file holds what was erased meanwhile
                model = replay(self.store, experiment, experiment.versions[id], use_snapshots=False)
            else:
                model = Model.load(path, id, spec, seq=seq)
                fold = Fold(model, experiment.find)
                for row in self.store.rows(name, after=seq, types=MODEL_ROWS):
                    fold.feed(row)
                fold.flush()
            body = {"status": "shadow"}
            draft = Draft(name, "policy", id, self.clock.now(), encode(body))

            def reply(rows: list[Row]) -> Any:
                experiment.models[id] = model
                apply_setting(experiment, rows[0], body)
                return experiment.versions[id].to_dict()

            return Outcome([draft], reply)

        return self.call(work, is_exclusive=True)

    def set_version(self, name: str, id: str, status: str) -> Future[Any]:
        """Activate or retire a version."""

        def make(experiment: LiveExperiment) -> tuple[str, str, dict[str, Any]]:
            version = experiment.versions.get(id)
            if version is None:
                raise Problem("not-found", f"Experiment {name!r} has no policy {id!r}.")
            if status == "active" and id not in experiment.models:
                raise Problem("wrong-state", f"Policy {id!r} is {version.status}; a version in shadow is activated.")
            if status == "retired" and experiment.active == id:
                raise Problem("wrong-state", f"Policy {id!r} is active. Activate another one first.")
            return "policy", id, {"status": status}

        return self._set(name, make)

    # -- erasure -----------------------------------------------------------------------------------------------------

    def erase(self, name: str, subject: str) -> Future[Any]:
        """Erase the decisions of a subject: contexts, choices and what was learned from them."""

        def work() -> Outcome:
            experiment = self.experiment(name)
            known = list(self.store.decisions(name, subject=subject))
            if not known:
                return Outcome([], lambda rows: {"n_erased": 0, "seq": None})
            ids = [entry.id for entry in known]
            learn = LearnBody()
            for entry in known:
                state = experiment.entry(entry.id)
                body = experiment.find(entry.id)
                if state is None or body is None:
                    continue
                experiment.hold(entry.id, body)  # until the unlearning is applied
                for model in experiment.models.values():
                    model.withdraw(entry.id, len(body.places))
                learn.unlearn.extend(
                    (entry.id, place, value) for place, value in enumerate(state.learned) if value is not None
                )
            now = self.clock.now()
            drafts = [
                Draft(
                    name, "erased", "", now, encode({"decisions": ids}), tuple(MarkStatus(id, "erased") for id in ids)
                ),
                Draft(name, "learn", "", now, encode(learn)),
            ]

            def reply(rows: list[Row]) -> Any:
                experiment.forget(ids)
                self._at("erased")
                self._remove_stale_snapshots(name)
                with suppress(OSError, StoreFull):  # without room, a restart replays more of the log
                    self._snapshot(experiment)
                return {"n_erased": len(ids), "seq": rows[0].seq}

            return Outcome(drafts, reply, erase=[entry.seq for entry in known])

        return self.call(work, is_exclusive=True)

    # -- snapshots ---------------------------------------------------------------------------------------------------

    def snapshot(self) -> Future[Any]:
        """Write snapshots of all models."""

        def work() -> Outcome:
            self._snapshot_all()
            return Outcome([], lambda rows: {"seq": self.applied_seq})

        return self.call(work, is_exclusive=True)

    def _snapshot_all(self) -> None:
        for experiment in self.experiments.values():
            self._snapshot(experiment)
        self._since_snapshot = 0
        self.last_snapshot_at = self.clock.now()

    def _snapshot(self, experiment: LiveExperiment) -> None:
        """Write the models of an experiment to files; every committed row must have been applied."""
        head = self.store.head()
        if head is None:
            return
        for id, model in experiment.models.items():
            latest = self.store.snapshots(experiment.name, id)
            if latest and latest[0].seq >= model.seq:
                continue
            model.seq = max(model.seq, 0)
            file = f"{experiment.name}-{id}-{head.seq}.kb"
            self._at("snapshot")
            model.save(self.folder / file)
            self._at("snapshot written")
            self.store.add_snapshot(SnapshotEntry(experiment.name, id, head.seq, file, model.record))
            for old in self.store.snapshots(experiment.name, id)[SNAPSHOTS_KEPT:]:
                self.store.remove_snapshots(experiment.name, upto=old.seq, policy=id)
                (self.folder / old.file).unlink(missing_ok=True)

    # -- the thread --------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                while self._step():
                    pass
        except StoreDamaged as error:
            self._freeze(error)
            self._reject(self._read_only)
        except BaseException as error:
            self._die(error)

    def _step(self) -> bool:
        """One job, the committed rows and what is due; False when the learner ends."""
        self._apply_committed()
        job = self._next_job()
        if job is not None and job.claim():
            self._do(job)
        if self._is_stopping and self._inbox.empty():
            self.writer.drain()
            self._apply_committed()
            return False
        self._maintain()
        return True

    def _next_job(self) -> Job | None:
        if self._rows:
            with suppress(Empty):
                return self._inbox.get_nowait()
            return None
        with suppress(Empty):
            return self._inbox.get(timeout=self._patience())
        return None

    def _patience(self) -> float:
        """Seconds until something is due."""
        due = [experiment.next_close for experiment in self.experiments.values()]
        soonest = min((time for time in due if time is not None), default=float("inf"))
        return min(0.5, max(0.0, soonest - self.clock.now())) if self._alarm_at is None else 0.5

    def _do(self, job: Job) -> None:
        try:
            if job.is_exclusive:
                self._quiesce()
            start = monotonic()
            outcome = job.work()
            self._pace += 0.1 * (monotonic() - start - self._pace)
        except Problem as problem:
            job.future.set_exception(problem)
        except StoreDamaged as error:
            self._freeze(error)
            job.future.set_exception(self._read_only())
        except StoreError as error:
            job.future.set_exception(self._read_only())
            raise error
        except KernelBanditError as error:
            job.future.set_exception(problem_of(error))
        except Exception as error:
            job.future.set_exception(Problem("failed", "The service failed."))
            if not job.is_exclusive:  # these change nothing before their rows are committed
                raise error
            logger.exception("a request failed")
        else:
            self._commit(job, outcome)

    def _commit(self, job: Job, outcome: Outcome) -> None:
        if not job.is_exclusive:
            self.writer.put(Batch(outcome.drafts, outcome.reply, _relayed(job.future), outcome.erase))
            return
        done: Future[Any] = Future()
        self.writer.put(Batch(outcome.drafts, lambda rows: rows, done, outcome.erase))
        try:
            rows = done.result()
        except KernelBanditError as error:
            job.future.set_exception(error)
            return
        self._apply_committed()
        job.future.set_result(outcome.reply(rows))

    def _quiesce(self) -> None:
        """Wait until all queued rows are committed, and apply them."""
        self.writer.drain()
        self._apply_committed()

    def _on_commit(self, rows: list[Row]) -> None:
        """Called by the writer."""
        self._rows.append(rows)
        if self._inbox.empty():
            self._inbox.put(None)  # wakes the learner

    def _apply_committed(self) -> None:
        while self._rows:
            rows = self._rows[0]
            for row in rows:
                experiment = self.experiments.get(row.experiment)
                if experiment is not None:
                    self._at("apply")
                    experiment.committed(row)
                self.applied_seq = row.seq
            self._since_snapshot += len(rows)
            self._rows.popleft()

    def _maintain(self) -> None:
        """Close windows, write snapshots, look at the clock; or try to write again after the disk was full."""
        if self.error is not None:
            return
        if self.writer.error is not None:
            self._try_to_resume()
            return
        now = monotonic()
        if now >= self._next_check:
            self._next_check = now + 1.0
            self._check_clock()
            if getattr(self.store, "is_replaced", bool)():
                raise RuntimeError("The file of the store was deleted or replaced.")
        if self._alarm_at is None:
            for experiment in list(self.experiments.values()):
                outcome = experiment.sweep(self.clock.now())
                if outcome is not None:
                    self.writer.put(Batch(outcome.drafts, outcome.reply, _new_future()))
        if self._since_snapshot >= self._snapshot_rows:
            self._quiesce()
            if self.writer.error is None:
                self._snapshot_if_there_is_room()

    def _snapshot_if_there_is_room(self) -> None:
        """Write snapshots, or try again after as many rows: without them, a restart replays more of the log."""
        try:
            self._snapshot_all()
        except (OSError, StoreFull) as error:
            self._since_snapshot = 0
            logger.warning("no snapshot could be written: %s", error)

    def _check_clock(self) -> None:
        """Hold the closing of windows for a minute after the wall clock has jumped, then extend the windows."""
        drift = self.clock.drift
        if self._alarm_at is None:
            if abs(drift) > JUMP:
                self._alarm_at = monotonic()
                logger.error("the wall clock has jumped by %.0f s; closing of windows is held", drift)
                body = encode({"alarm": "clock", "drift": drift})
                self.writer.put(
                    Batch([Draft("", "alarm", "", self.clock.now(), body)], lambda rows: None, _new_future())
                )
        elif monotonic() - self._alarm_at > JUMP:
            self._alarm_at = None
            self.clock.accept_drift()

    # -- failure -----------------------------------------------------------------------------------------------------

    def _read_only(self) -> Problem:
        why = "The disk is full" if self.error is None else "The log is damaged"
        return Problem("read-only", f"{why}: nothing can be stored. Reads go on.", retry_after=5)

    def _freeze(self, error: StoreDamaged) -> None:
        """Read-only for good: what follows a damaged row must not be learned, or answered."""
        self.error, self.state = error, "read-only"
        logger.critical("read-only: %s", error)

    def _on_failure(self, error: BaseException) -> None:
        """Called by the writer when nothing can be committed any more."""
        if isinstance(error, StoreFull):
            self.state = "read-only"
            logger.error("the disk is full: read-only until it has room")
            self._inbox.put(None)
        else:
            self._die(error)

    def _try_to_resume(self) -> None:
        """Reject what is queued; when the disk has room, read the state from the log and go on."""
        if not isinstance(self.writer.error, StoreFull) or monotonic() < self._next_probe:
            return
        self._next_probe = monotonic() + PROBE_SECONDS
        self.writer.drain()
        self._reject(self._read_only)
        try:
            self.store.probe()
        except StoreFull:
            return
        self._recover()
        self.writer.reset()
        logger.warning("the disk has room: the service goes on")

    def _reject(self, problem: Callable[[], Problem]) -> None:
        """Answer what is queued with a problem."""
        with suppress(Empty):
            while True:
                job = self._inbox.get_nowait()
                if job is not None and job.claim():
                    job.future.set_exception(problem())

    def fail(self, error: BaseException) -> None:
        """Note an error outside of the threads after which the process has to end, such as one of recovery."""
        self._die(error)

    def _die(self, error: BaseException) -> None:
        """Note an error after which the process has to end."""
        if self.error is None:
            self.error, self.state = error, "failed"
            logger.critical("the service ends: %s: %s", type(error).__name__, error, exc_info=error)
            self._reject(lambda: Problem("recovering", "The service failed and restarts.", retry_after=2))
            self._fatal(error)


def _check_spec(spec: Experiment) -> None:
    """Raise a Problem for settings that do not fit together."""
    low, high = spec.reward_range
    if not low < high:
        raise Problem(
            "invalid", f"The reward range has a lower and a higher end, got {low:g}, {high:g}.", pointer="/reward_range"
        )
    if spec.default_reward is not None and not low <= spec.default_reward <= high:
        raise Problem("invalid", "The default reward lies in the reward range.", pointer="/default_reward")


def _answered(reply: Callable[[list[Row]], Any], rows: list[Row]) -> Any:
    try:
        return reply(rows)
    except Problem as problem:
        return problem.body()


def _raising(problem: Problem) -> Callable[[list[Row]], Any]:
    return lambda rows: problem.body()


def _new_future() -> Future[Any]:
    return Future()


def _relayed(target: Future[Any]) -> Future[Any]:
    """A future for the writer that passes its outcome on to one that is running already."""
    made: Future[Any] = Future()

    def pass_on(done: Future[Any]) -> None:
        error = done.exception()
        if error is None:
            target.set_result(done.result())
        else:
            target.set_exception(error)

    made.add_done_callback(pass_on)
    return made
