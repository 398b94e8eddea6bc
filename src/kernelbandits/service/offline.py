"""Work on the log outside of the serving process: replays, evaluations and exports.

Run as `python -m kernelbandits.service.offline` with one JSON object on standard input; it prints one JSON object. It
opens the database for reading only.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from kernelbandits import evaluation
from kernelbandits._optional import import_optional
from kernelbandits.environments import Log
from kernelbandits.errors import KernelBanditError, MissingExtra
from kernelbandits.service.experiment import LiveExperiment, PolicyVersion
from kernelbandits.service.learner import fold_experiments, replay
from kernelbandits.service.model import Model, build_policy, points_of
from kernelbandits.service.problems import Problem, problem_of
from kernelbandits.service.schemas import Action, DecisionBody, Items, Limits, decode_body
from kernelbandits.service.store import SqliteStore, Store

__all__ = ["TASKS", "logged_rounds", "main", "run_offline"]

COLUMNS: Final = (
    "seq", "id", "at", "mode", "policy", "policy_seq", "action", "propensity", "mean", "width", "score", "n_actions",
    "reward", "learned", "context", "actions",
)  # fmt: skip


def _experiment(store: Store, name: str) -> LiveExperiment:
    found = fold_experiments(store, Limits(), name=name).get(name)
    if found is None:
        raise Problem("not-found", f"There is no experiment {name!r}.")
    return found


def build(store: Store, given: Mapping[str, Any]) -> dict[str, Any]:
    """Replay the log for a version of the policy, up to the row that registered it, into a file."""
    experiment = _experiment(store, given["experiment"])
    version = experiment.versions[given["version"]]
    model = replay(store, experiment, version, upto=version.seq, use_snapshots=False)
    model.save(Path(given["into"]))
    return {"seq": version.seq, "record": model.record, "n_skipped": model.n_skipped}


def verify(store: Store, given: Mapping[str, Any]) -> dict[str, Any]:
    """Check the database, the chain of the log, every snapshot, and that a replay gives the same records."""
    from kernelbandits.service.log import verify_log

    return verify_log(store, Path(given["folder"]), upto=given.get("upto"))


def logged_rounds(
    store: Store, experiment: LiveExperiment, *, last: int | None = None
) -> tuple[Log, list[tuple[int, str, DecisionBody]]]:
    """The decisions of an experiment whose rewards are known, as a log of single actions, with their rows."""
    items: dict[str, Any] = {}
    rounds, actions, shares, rewards, ids, kept = [], [], [], [], [], []
    for row in store.rows(experiment.name, types=("decision", "items")):
        if row.body is None:
            continue
        body = decode_body(row)
        if isinstance(body, Items):
            items = {**items, **{action.id: action.x for action in body.put}}
            for id in body.delete:
                items.pop(id, None)
            continue
        entry = store.decision(experiment.name, row.id)
        learned = [None] if entry is None or entry.learned is None else json.loads(entry.learned)
        if learned[0] is None or body.request is None or len(body.places) != 1:
            continue
        request = body.request
        listed = request.actions if request.actions is not None else [Action(id, x) for id, x in items.items()]
        eligible = set(request.eligible or (one.id for one in listed)) - set(request.exclude or ())
        offered = [one for one in listed if one.id in eligible]
        names = [one.id for one in offered]
        if body.places[0].id not in names:
            continue
        rounds.append(points_of(offered, request.context))
        actions.append(names.index(body.places[0].id))
        shares.append(body.places[0].p)
        rewards.append(float(learned[0]))
        ids.append(names)
        kept.append((row.seq, row.id, body))
    part = slice(max(0, len(rounds) - last) if last else 0, None)
    log = Log(
        rounds[part], np.array(actions[part], dtype=np.intp), np.array(shares[part]), np.array(rewards[part]), ids[part]
    )
    return log, kept[part]


def evaluate(store: Store, given: Mapping[str, Any]) -> dict[str, Any]:
    """Estimate the value of a policy on the later part of the log; it learns the earlier part.

    A version or description is built by a replay up to the first round that it is judged on, so that it is judged on
    rounds from which it has not learned.
    """
    experiment = _experiment(store, given["experiment"])
    log, rows = logged_rounds(store, experiment, last=given["last"])
    if len(log) < 10:
        raise Problem("wrong-state", f"An evaluation needs at least 10 rewarded decisions, got {len(log)}.")
    n_train = min(len(log) - 2, int(given["train"] * len(log)))
    judged, first = log[n_train:], rows[n_train][0]
    version = _version(experiment, given["policy"])
    model = replay(store, experiment, version, upto=first - 1, use_snapshots=False)
    kind = getattr(evaluation, ESTIMATORS[given["estimator"]])
    level = {"confidence": given["confidence"]}
    if given["estimator"] in ("IPS", "SNIPS"):
        made: Any = kind(**level)
    else:
        kernel = _reward_kernel(model)
        made = kind(kernel if given["estimator"] == "DM" else evaluation.DirectMethod(kernel), **level)
    estimate, lift = made.estimate(judged, model.policy), made.lift(judged, model.policy)
    return {
        "estimator": given["estimator"],
        "policy": version.id,
        "n_rounds": len(judged),
        "n_train": n_train,
        "from_seq": first,
        "estimate": estimate.to_dict(),
        "lift": lift.to_dict(),
        "logged_mean": float(judged.rewards.mean()),
    }


ESTIMATORS: Final = {"IPS": "IPS", "SNIPS": "SelfNormalizedIPS", "DM": "DirectMethod", "DR": "DoublyRobust"}


def _reward_kernel(model: Model) -> Any:
    kernel = model.policy.kernel
    if kernel is None:
        raise Problem("invalid", f"{type(model.inner).__name__} has no kernel for a reward model. Use SNIPS.")
    return kernel


def _version(experiment: LiveExperiment, policy: Any) -> PolicyVersion:
    if isinstance(policy, str):
        version = experiment.versions.get(policy)
        if version is None:
            raise Problem("not-found", f"Experiment {experiment.name!r} has no policy {policy!r}.")
        return version
    build_policy(policy, experiment.spec)
    return PolicyVersion("evaluated", policy, experiment.spec.epsilon, 0)


def export(store: Store, given: Mapping[str, Any]) -> dict[str, Any]:
    """Write the decisions of an experiment as a Parquet file, one row each."""
    arrow = import_optional("pyarrow", "Parquet export", extra="experiments")
    parquet = import_optional("pyarrow.parquet", "Parquet export", extra="experiments")
    _experiment(store, given["experiment"])
    columns: dict[str, list[Any]] = {name: [] for name in COLUMNS}
    schema = arrow.schema(
        [(name, _arrow_type(arrow, name)) for name in COLUMNS],
        metadata={"kernelbandits.experiment": given["experiment"]},
    )
    n_rows = 0
    with parquet.ParquetWriter(given["into"], schema) as writer:
        for row in store.rows(given["experiment"], types=("decision",)):
            if row.body is None:
                continue
            _add_row(columns, store, row, decode_body(row))
            n_rows += 1
            if n_rows % 10_000 == 0:
                writer.write_table(arrow.table(columns, schema=schema))
                columns = {name: [] for name in COLUMNS}
        writer.write_table(arrow.table(columns, schema=schema))
    return {"n_rows": n_rows}


def _arrow_type(arrow: Any, name: str) -> Any:
    if name in ("seq", "policy_seq", "n_actions"):
        return arrow.int64()
    if name in ("id", "mode", "policy", "action", "context", "actions"):
        return arrow.string()
    return arrow.float64()


def _add_row(columns: dict[str, list[Any]], store: Store, row: Any, body: DecisionBody) -> None:
    entry = store.decision(row.experiment, row.id)
    learned = [None] if entry is None or entry.learned is None else json.loads(entry.learned)
    rewards = store.rewards(row.experiment, row.id)
    request = body.request
    chosen = body.places[0]
    actions = None if request is None or request.actions is None else [[one.id, one.x] for one in request.actions]
    values = {
        "seq": row.seq, "id": row.id, "at": row.at, "mode": body.mode, "policy": body.policy,
        "policy_seq": body.policy_seq, "action": chosen.id, "propensity": chosen.p, "mean": chosen.mean,
        "width": chosen.width, "score": chosen.score, "n_actions": body.n_actions,
        "reward": rewards[-1].value if rewards else None, "learned": learned[0],
        "context": json.dumps(chosen.point), "actions": None if actions is None else json.dumps(actions),
    }  # fmt: skip
    for name, value in values.items():
        columns[name].append(value)


TASKS: Final[dict[str, Callable[[Store, Mapping[str, Any]], dict[str, Any]]]] = {
    "build": build,
    "verify": verify,
    "evaluate": evaluate,
    "export": export,
}


async def run_offline(task: str, database: Path, given: Mapping[str, Any]) -> dict[str, Any]:
    """Run a task in a process of its own; raise its Problem."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "kernelbandits.service.offline",
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        said = json.dumps({"task": task, "database": str(database), **given}).encode()
        answer, errors = await process.communicate(said)
    except BaseException:
        process.kill()
        await process.wait()
        raise
    if process.returncode != 0 or not answer:
        last = errors.decode(errors="replace").strip().rpartition("\n")[2]
        raise Problem("failed", f"The task {task!r} failed: {last:.300}")
    found: dict[str, Any] = json.loads(answer)
    if "problem" in found:
        problem = found["problem"]
        raise Problem(problem["code"], problem["detail"], pointer=problem.get("pointer"))
    return found


def main() -> None:
    """Run the task on standard input."""
    given = json.load(sys.stdin)
    try:
        store = SqliteStore(given["database"], is_read_only=True)
        found = TASKS[given["task"]](store, given)
    except MissingExtra as error:
        found = {"problem": Problem("extra-missing", str(error)).body()}
    except KernelBanditError as error:
        found = {"problem": problem_of(error).body()}
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
