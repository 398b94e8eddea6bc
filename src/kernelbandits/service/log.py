"""The log: verification of its chain, its records and its snapshots, and its rows as CloudEvents."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import msgspec

from kernelbandits.errors import KernelBanditError
from kernelbandits.service.clock import timestamp
from kernelbandits.service.experiment import LiveExperiment, PolicyVersion, ids_of
from kernelbandits.service.learner import first_model, fold_experiments, replay
from kernelbandits.service.model import MODEL_ROWS, Fold, Model
from kernelbandits.service.schemas import DecisionBody, Limits, decode_body
from kernelbandits.service.store import Row, Store, chained, digest_of
from kernelbandits.service.store.base import ZERO

__all__ = ["audit_choices", "cloud_event", "verify_chain", "verify_log"]

MOST_FINDINGS: Final = 20


def verify_chain(store: Store, *, upto: int | None = None) -> tuple[int, list[str]]:
    """Check numbers, digests and the chain of all rows; return how many there are, and what is wrong."""
    chain, seq, findings = ZERO, 0, []
    for row in store.rows(upto=upto, is_checked=False):
        seq += 1
        if row.seq != seq:
            findings.append(f"row {seq} is missing")
            seq = row.seq
        elif row.body is not None and digest_of(row.body) != row.digest:
            findings.append(f"row {row.seq} ({row.type} {row.id}) has another body than was written")
        elif chained(chain, row.seq, row, row.digest) != row.chain:
            findings.append(f"row {row.seq} ({row.type} {row.id}) does not follow the row before it")
        chain = row.chain
        if len(findings) >= MOST_FINDINGS:
            break
    return seq, findings


def verify_log(store: Store, folder: Path, *, upto: int | None = None) -> dict[str, Any]:
    """Check the database, the chain, and that a replay from nothing gives the record of every snapshot.

    The choices of each version are recomputed too; `choices` says how many differ, which is no finding: in another
    numeric environment, scores that are equal up to rounding may be ordered otherwise.
    """
    findings = [f"database: {text}" for text in store.check()]
    n_rows, broken = verify_chain(store, upto=upto)
    findings += broken
    records: dict[str, str] = {}
    choices: dict[str, dict[str, int]] = {}
    if not broken:
        for name, experiment in fold_experiments(store, Limits()).items():
            for version in experiment.versions.values():
                if version.status not in ("active", "shadow"):
                    continue
                model = replay(store, experiment, version, upto=upto, use_snapshots=False)
                records[f"{name}/{version.id}"] = model.record
                choices[f"{name}/{version.id}"] = audit_choices(store, experiment, version, upto)
                findings += _compare_snapshots(store, folder, experiment, version, upto)
    return {
        "n_rows": n_rows,
        "findings": findings,
        "records": records,
        "choices": choices,
        "is_sound": not findings,
    }


def audit_choices(store: Store, experiment: LiveExperiment, version: PolicyVersion, upto: int | None) -> dict[str, int]:
    """Recompute the recorded choices of a version; within one numeric environment none differs."""
    model = first_model(store, experiment, version)
    found = {"n_checked": 0, "n_differ": 0}
    past = LiveExperiment(model.spec, store, experiment.limits, experiment.created_seq)

    def compare(row: Row, body: DecisionBody) -> None:
        if body.mode != "policy" or body.policy != version.id or body.request is None:
            return
        contexts, ids, eligible = past.actions_of(body.request)
        chosen = model.choose(row.id, contexts, ids=ids_of(contexts, ids), eligible=eligible, k=body.request.k)
        found["n_checked"] += 1
        found["n_differ"] += [int(one.action) for one in chosen] != [place.row for place in body.places]

    fold = Fold(model, experiment.find, decided=compare)
    for row in store.rows(experiment.name, upto=upto, types=(*MODEL_ROWS, "items")):
        if row.type == "items" and row.body is not None:
            fold.flush(row.seq)
            past.apply_items(decode_body(row), row.seq)
        fold.feed(row)
    return found


def _compare_snapshots(store: Store, folder: Path, experiment: Any, version: Any, upto: int | None) -> list[str]:
    findings = []
    for entry in store.snapshots(experiment.name, version.id):
        if upto is not None and entry.seq > upto:
            continue
        replayed = replay(store, experiment, version, upto=entry.seq, use_snapshots=False).record
        if replayed != entry.record:
            findings.append(f"snapshot {entry.file}: a replay up to row {entry.seq} gives another record")
        try:
            stored = Model.load(folder / entry.file, version.id, experiment.spec, seq=entry.seq).record
        except (KernelBanditError, OSError) as error:
            findings.append(f"snapshot {entry.file}: {error}")
            continue
        if stored != entry.record:
            findings.append(f"snapshot {entry.file}: the file holds another record than was written")
    return findings


def cloud_event(row: Row) -> bytes:
    """A row as one line of JSON, in a CloudEvents 1.0 envelope."""
    event = {
        "specversion": "1.0",
        "id": str(row.seq),
        "source": f"/v1/experiments/{row.experiment}" if row.experiment else "/v1",
        "type": f"kernelbandits.{row.type}",
        **({"subject": row.id} if row.id else {}),  # the standard forbids an empty one
        "time": timestamp(row.at),
        "datacontenttype": "application/json",
        "data": None if row.body is None else msgspec.Raw(row.body),
    }
    return msgspec.json.encode(event) + b"\n"
