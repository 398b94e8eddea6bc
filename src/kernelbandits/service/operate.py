"""Operation of a data folder: checks, backups, exports and imports."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from kernelbandits._files import atomic_write
from kernelbandits.adapters.vowpal_wabbit import read_dsjson
from kernelbandits.errors import InvalidParameter
from kernelbandits.service.client import Client
from kernelbandits.service.learner import fold_experiments, replay
from kernelbandits.service.log import cloud_event, verify_chain
from kernelbandits.service.offline import export as export_parquet
from kernelbandits.service.schemas import Limits
from kernelbandits.service.serve import NETWORK, SERVER_FILE, file_system, hold_folder
from kernelbandits.service.settings import Settings
from kernelbandits.service.store import SqliteStore, Store

__all__ = ["backup", "doctor", "export_log", "import_log", "replay_into", "restore"]

FASTEST_SYNC: Final = 50e-6
"""Seconds: a disk that flushes faster does not flush."""

LEAST_FREE: Final = 1 << 30

BATCH: Final = 200


def doctor(settings: Settings) -> dict[str, Any]:
    """Check a data folder; `findings` says what is wrong, in sentences."""
    findings: list[str] = []
    data = settings.data
    if not settings.database.exists():
        return {
            "data": str(data),
            "findings": [f"There is no database {settings.database}. Make one: kernelbandits init"],
        }
    kind = file_system(data)
    if kind in NETWORK:
        findings.append(f"{data} is on a network file system ({kind}), which does not keep what is promised.")
    sync = sync_seconds(data)
    if sync < FASTEST_SYNC:
        findings.append(
            f"A flush takes {sync * 1e6:.0f} µs: this disk does not flush, and a power cut loses what was acknowledged."
        )
    free = shutil.disk_usage(data).free
    if free < LEAST_FREE:
        findings.append(f"{free / 2**20:.0f} MiB of the disk are free; the service is read-only when it is full.")
    store = SqliteStore(settings.database, is_read_only=True)
    try:
        findings += [f"Database: {text}" for text in store.check()]
        n_rows, broken = verify_chain(store)
        findings += [f"Log: {text}" for text in broken]
        head = store.head()
        if head is not None and head.at > time.time() + 60.0:
            findings.append(f"The last row was logged {head.at - time.time():.0f} s from now: the clock was set back.")
        listed = store.keys()
        for name in fold_experiments(store, Limits()):
            for entry in store.snapshots(name):
                if not (data / entry.file).exists():
                    findings.append(f"Snapshot {entry.file} is missing; a restart replays more of the log.")
    finally:
        store.close()
    return {
        "data": str(data),
        "n_rows": n_rows,
        "n_keys": sum(key.revoked is None for key in listed),
        "sync_seconds": sync,
        "disk_free_bytes": free,
        "file_system": kind,
        "findings": findings,
    }


def sync_seconds(folder: Path, *, n: int = 20) -> float:
    """Median time of writing and flushing one page."""
    path = folder / ".doctor"
    taken = []
    try:
        with path.open("wb", buffering=0) as file:
            for _ in range(n):
                start = time.perf_counter()
                file.write(bytes(4096))
                os.fsync(file.fileno())
                taken.append(time.perf_counter() - start)
    finally:
        path.unlink(missing_ok=True)
    return sorted(taken)[n // 2]


def backup(settings: Settings, into: Path) -> dict[str, Any]:
    """Copy the database, consistently, and the snapshots it names; the service may run."""
    if into.exists():
        raise InvalidParameter(f"{str(into)!r} exists. A backup is written into a new folder.")
    into.mkdir(parents=True)
    store = SqliteStore(settings.database, is_read_only=True)
    try:
        store.backup(into / settings.database.name)
    finally:
        store.close()
    copy = SqliteStore(into / settings.database.name, is_read_only=True)
    try:
        n_rows, findings = verify_chain(copy)
        names = [entry.file for name in fold_experiments(copy, Limits()) for entry in copy.snapshots(name)]
    finally:
        copy.close()
    if findings:
        raise InvalidParameter(f"The log is not sound: {findings[0]}. See: kernelbandits verify")
    for name in names:
        if (settings.data / name).exists():  # an older one may have been removed meanwhile
            shutil.copy2(settings.data / name, into / name)
    return {"backup": str(into), "n_rows": n_rows}


def restore(source: Path, settings: Settings) -> dict[str, Any]:
    """Make a data folder from a backup."""
    database = source / settings.database.name
    if not database.exists():
        raise InvalidParameter(f"{str(source)!r} is no backup: it has no {settings.database.name}.")
    if settings.database.exists():
        raise InvalidParameter(f"{str(settings.data)!r} has a database already. Name a new folder: --data FOLDER")
    with hold_folder(settings):
        for path in sorted(source.iterdir()):
            if path.is_file() and path.name != SERVER_FILE and not path.name.startswith("."):
                shutil.copy2(path, settings.data / path.name)
        store = SqliteStore(settings.database)
        try:
            n_rows, findings = verify_chain(store)
        finally:
            store.close()
    if findings:
        raise InvalidParameter(f"The backup is not sound: {findings[0]}.")
    return {"data": str(settings.data), "n_rows": n_rows}


def replay_into(store: Store, name: str, version: str | None, upto: int | None, into: str | None) -> dict[str, Any]:
    """Replay the log for a version, and write the policy into a file if one is named."""
    experiment = fold_experiments(store, Limits()).get(name)
    if experiment is None:
        raise InvalidParameter(f"There is no experiment {name!r}.")
    chosen = experiment.versions.get(version or experiment.active)
    if chosen is None:
        raise InvalidParameter(f"Experiment {name!r} has no policy {version!r}.")
    model = replay(store, experiment, chosen, upto=upto, use_snapshots=False)
    if into is not None:
        model.save(Path(into))
    return {
        "experiment": name,
        "policy": chosen.id,
        "seq": model.seq,
        "n_learned": model.n_learned,
        "n_pending": model.pending,
        "n_skipped": model.n_skipped,
        "record": model.record,
        "into": into,
    }


def export_log(store: Store, name: str, into: Path) -> dict[str, Any]:
    """Write the decisions of an experiment as Parquet, or all of its rows as CloudEvents."""
    if into.suffix == ".parquet":
        return export_parquet(store, {"experiment": name, "into": str(into)})
    if into.suffix not in (".ndjson", ".jsonl"):
        raise InvalidParameter(f"An export is a file .parquet or .ndjson, got {into.name!r}.")
    if name not in fold_experiments(store, Limits(), name=name):
        raise InvalidParameter(f"There is no experiment {name!r}.")
    n_rows = 0
    with atomic_write(into) as file:
        for row in store.rows(name):
            file.write(cloud_event(row))
            n_rows += 1
    return {"n_rows": n_rows}


def import_log(client: Client, experiment: str, path: Path) -> dict[str, Any]:
    """Send decisions that were made elsewhere, with their rewards, to a running experiment, which learns from them.

    Ids follow from the file and the line, so that an import can be repeated.
    """
    readers = {".ndjson": _from_lines, ".jsonl": _from_lines, ".csv": _from_csv, ".dsjson": _from_dsjson}
    if path.suffix not in readers:
        raise InvalidParameter(f"An import is a file {', '.join(sorted(readers))}, got {path.name!r}.")
    name = re.sub(r"[^A-Za-z0-9._~-]", "-", path.name)[-60:]
    n_sent = 0
    problems: list[str] = []
    batch: list[tuple[str, dict[str, Any], float]] = []
    for number, (request, reward) in enumerate(readers[path.suffix](path)):
        batch.append((f"{name}-{number}", request, reward))
        if len(batch) == BATCH:
            n_sent, problems = n_sent + BATCH, problems + _send(client, experiment, batch)
            batch = []
    if batch:
        n_sent, problems = n_sent + len(batch), problems + _send(client, experiment, batch)
    return {"n_sent": n_sent, "n_rejected": len(problems), **({"first_problem": problems[0]} if problems else {})}


def _send(client: Client, experiment: str, batch: list[tuple[str, dict[str, Any], float]]) -> list[str]:
    """Send decisions and rewards; return why some of them were rejected."""
    decisions = [{"id": id, **action} for id, action, _ in batch]
    path = f"/v1/experiments/{experiment}/decisions/batch"
    answers = client.request("POST", path, {"decisions": decisions})["results"]
    known = {answer["decision_id"] for answer in answers if "decision_id" in answer}
    rewards = [
        {"decision_id": id, "id": "import", "reward": reward, "final": True} for id, _, reward in batch if id in known
    ]
    ids = [*(id for id, *_ in batch), *(one["decision_id"] for one in rewards)]
    answered = zip(ids, [*answers, *client.rewards(experiment, rewards)], strict=True)
    return [f"{id}: {answer['detail']}" for id, answer in answered if "detail" in answer]


def _from_lines(path: Path) -> Iterator[tuple[dict[str, Any], float]]:
    """Lines {"actions": […], "taken": {"action_id": …, "propensity": …}, "reward": …}, with "context" if there is one.

    A line {"id": …, "x": …, "reward": …} is a decision with one action.
    """
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                given = json.loads(line)
                reward = float(given.pop("reward"))
                if "actions" not in given:
                    given = {"actions": [{"id": str(given.get("id", "a")), "x": given["x"]}]}
                    given["taken"] = {"action_id": given["actions"][0]["id"], "propensity": 1.0}
                yield {"taken": given.pop("taken"), **given}, reward
            except (ValueError, LookupError, TypeError, AttributeError) as error:
                raise InvalidParameter(
                    f"{path.name}, line {number}: {type(error).__name__}: {error}. A line has reward and "
                    "x, or reward, actions and taken."
                ) from error


def _from_csv(path: Path) -> Iterator[tuple[dict[str, Any], float]]:
    """Columns reward and id (optional), and x (text) or numbers; each line is a decision with one action."""
    with path.open(encoding="utf-8", newline="") as file:
        for number, row in enumerate(csv.DictReader(file), start=2):
            try:
                reward = float(row.pop("reward"))
                id = row.pop("id", None) or "a"
                x: Any = row["x"] if set(row) == {"x"} else [float(value) for value in row.values()]
            except (ValueError, LookupError, TypeError) as error:
                raise InvalidParameter(f"{path.name}, line {number}: {type(error).__name__}: {error}.") from error
            yield _taken({"actions": [{"id": id, "x": x}]}, id, 1.0), reward


def _from_dsjson(path: Path) -> Iterator[tuple[dict[str, Any], float]]:
    """Vowpal Wabbit's decision-service lines, with the features of context and action in one row."""
    log = read_dsjson(path, layout="joined", sparse=False)
    for t, rows in enumerate(log.rounds):
        ids = [str(id) for id in log.ids_of(t) or range(len(rows))]
        actions = [{"id": id, "x": row.tolist()} for id, row in zip(ids, rows, strict=True)]
        yield _taken({"actions": actions}, ids[int(log.actions[t])], float(log.propensities[t])), float(log.rewards[t])


def _taken(request: dict[str, Any], id: str, propensity: float) -> dict[str, Any]:
    """The request of a decision that was made elsewhere."""
    return {"taken": {"action_id": id, "propensity": propensity}, **request}
