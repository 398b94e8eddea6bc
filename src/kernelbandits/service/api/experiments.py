"""Experiments, catalogs, similarity tables, policy versions, export and evaluation."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from starlette.background import BackgroundTask
from starlette.responses import FileResponse, StreamingResponse

from kernelbandits.service.api.endpoint import HEADERS, Call, Endpoint
from kernelbandits.service.keys import require
from kernelbandits.service.log import cloud_event
from kernelbandits.service.problems import Problem
from kernelbandits.service.schemas import (
    Action,
    Block,
    EraseRequest,
    EvaluationRequest,
    Experiment,
    ExperimentChange,
    Item,
    Items,
    PolicyRequest,
)
from kernelbandits.service.store import Row

__all__ = ["ENDPOINTS"]


async def create(call: Call) -> Any:
    """Create an experiment; it begins when it is started."""
    require(call.key, "manage", call.body.name)
    return await asyncio.wrap_future(call.service.learner.create(call.body))


async def show_all(call: Call) -> Any:
    """List all experiments."""
    allowed = None if call.key is None or not call.key.experiments else call.key.experiments
    listed = list(call.service.learner.experiments.values())
    return {"experiments": [one.info() for one in listed if allowed is None or one.name in allowed]}


async def show(call: Call) -> Any:
    """Show the settings and the state of an experiment."""
    return call.service.learner.experiment(call.experiment).info()


async def summary(call: Call) -> Any:
    """Summarize the log of an experiment: comparison, learning, actions, rewards, changes."""
    return await call.service.run(lambda: call.service.insights.summary(call.experiment))


async def change(call: Call) -> Any:
    """Change settings of an experiment."""
    return await asyncio.wrap_future(call.service.learner.change(call.experiment, call.body))


async def start(call: Call) -> Any:
    """Start an experiment."""
    return await asyncio.wrap_future(call.service.learner.transition(call.experiment, "start"))


async def pause(call: Call) -> Any:
    """Pause an experiment: decisions are the baseline, and are logged."""
    return await asyncio.wrap_future(call.service.learner.transition(call.experiment, "pause"))


async def resume(call: Call) -> Any:
    """Resume a paused experiment."""
    return await asyncio.wrap_future(call.service.learner.transition(call.experiment, "resume"))


async def end(call: Call) -> Any:
    """End an experiment: it makes no more decisions, and takes rewards until their windows are over."""
    return await asyncio.wrap_future(call.service.learner.transition(call.experiment, "end"))


async def put_item(call: Call) -> Any:
    """Add or replace an item of the catalog."""
    change = Items(put=[Action(call.path("item"), call.body.x)])
    return await asyncio.wrap_future(call.service.learner.change_items(call.experiment, change))


async def change_items(call: Call) -> Any:
    """Add, replace and remove items of the catalog in one step."""
    return await asyncio.wrap_future(call.service.learner.change_items(call.experiment, call.body))


async def delete_item(call: Call) -> Any:
    """Remove an item of the catalog."""
    change = Items(delete=[call.path("item")])
    return await asyncio.wrap_future(call.service.learner.change_items(call.experiment, change))


async def put_similarities(call: Call) -> Any:
    """Extend the similarity table by a block of new items; the answer reports a repair."""
    return await asyncio.wrap_future(call.service.learner.add_similarities(call.experiment, call.body))


async def add_policy(call: Call) -> Any:
    """Add a version of the policy; it is built by a replay of the log in another process, then learns in shadow.

    The same request again is answered with the version that exists, and repeats a replay that failed.
    """
    learner, given = call.service.learner, call.body
    found = await asyncio.wrap_future(learner.add_version(call.experiment, given.policy, given.epsilon, given.note))
    has_failed = call.service.build_errors.pop((call.experiment, found["id"]), None) is not None
    if has_failed or not found["replayed"]:
        call.service.build(call.experiment, found["id"])
    return found


async def show_policy(call: Call) -> Any:
    """Show a version of the policy."""
    experiment = call.service.learner.experiment(call.experiment)
    version = experiment.versions.get(call.path("policy"))
    if version is None:
        raise Problem("not-found", f"Experiment {experiment.name!r} has no policy {call.path('policy')!r}.")
    model = experiment.models.get(version.id)
    seen = {} if model is None else {"policy_seq": model.seq, "n_skipped": model.n_skipped}
    return {**version.to_dict(), **seen, "error": call.service.build_errors.get((experiment.name, version.id))}


async def activate_policy(call: Call) -> Any:
    """Let a version that learns in shadow decide from now on; also to roll back."""
    return await asyncio.wrap_future(call.service.learner.set_version(call.experiment, call.path("policy"), "active"))


async def retire_policy(call: Call) -> Any:
    """Stop a version that learns in shadow."""
    return await asyncio.wrap_future(call.service.learner.set_version(call.experiment, call.path("policy"), "retired"))


async def log(call: Call) -> Any:
    """Stream rows of the log as lines of JSON in CloudEvents envelopes."""
    name = call.service.learner.experiment(call.experiment).name
    after = call.number("from", 1, least=1) - 1
    limit = call.number("limit", 1_000, least=1, most=1_000_000)

    def page(start: int, most: int) -> list[Row]:
        found = []
        for row in call.service.store.rows(name, after=start, is_checked=False):
            found.append(row)
            if len(found) >= most:
                break
        return found

    async def lines() -> AsyncIterator[bytes]:
        start, left = after, limit
        while left:
            rows = await call.service.run(lambda start=start, left=left: page(start, min(left, 500)))  # type: ignore[misc]
            if rows:
                yield b"".join(map(cloud_event, rows))
                start, left = rows[-1].seq, left - len(rows)
            if len(rows) < 500:
                return

    return StreamingResponse(lines(), media_type="application/x-ndjson", headers=HEADERS)


async def export(call: Call) -> Any:
    """Download the decisions as a Parquet file, one row each."""
    name = call.service.learner.experiment(call.experiment).name
    handle = tempfile.NamedTemporaryFile(suffix=".parquet", delete=False)  # noqa: SIM115 – deleted after it was sent
    handle.close()
    path = Path(handle.name)
    try:
        await call.service.offline("export", {"experiment": name, "into": str(path)})
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    return FileResponse(
        path, media_type="application/vnd.apache.parquet", filename=f"{name}.parquet",
        background=BackgroundTask(path.unlink, missing_ok=True),
    )  # fmt: skip


async def evaluate(call: Call) -> Any:
    """Estimate what a policy would have earned on this log, in another process."""
    name = call.service.learner.experiment(call.experiment).name
    given = call.body
    return await call.service.offline(
        "evaluate",
        {
            "experiment": name, "policy": given.policy, "estimator": given.estimator, "confidence": given.confidence,
            "last": given.last, "train": given.train,
        },
    )  # fmt: skip


async def erase(call: Call) -> Any:
    """Erase the decisions of a subject, and what was learned from them."""
    return await asyncio.wrap_future(call.service.learner.erase(call.experiment, call.body.subject))


async def snapshot(call: Call) -> Any:
    """Write snapshots of all models now."""
    return await asyncio.wrap_future(call.service.learner.snapshot())


async def verify(call: Call) -> Any:
    """Check the whole log, and that a replay gives the record of every snapshot, in another process."""
    return await call.service.verify()


async def status(call: Call) -> Any:
    """Show the state of the service: readiness, log, commits, disk, clock, snapshots."""
    return call.service.status()


ONE = "/v1/experiments/{experiment}"

ENDPOINTS = (
    Endpoint("GET", "/v1/status", "read", status),
    Endpoint("POST", "/v1/snapshot", "manage", snapshot),
    Endpoint("POST", "/v1/verify", "manage", verify),
    Endpoint("POST", "/v1/experiments", "manage", create, Experiment, is_filtered=True),
    Endpoint("GET", "/v1/experiments", "read", show_all, is_filtered=True),
    Endpoint("GET", ONE, "read", show),
    Endpoint("GET", f"{ONE}/summary", "read", summary),
    Endpoint("PATCH", ONE, "manage", change, ExperimentChange),
    Endpoint("POST", f"{ONE}/start", "manage", start),
    Endpoint("POST", f"{ONE}/pause", "manage", pause),
    Endpoint("POST", f"{ONE}/resume", "manage", resume),
    Endpoint("POST", f"{ONE}/end", "manage", end),
    Endpoint("POST", f"{ONE}/items/batch", "manage", change_items, Items, is_batch=True),
    Endpoint("PUT", f"{ONE}/items/{{item}}", "manage", put_item, Item),
    Endpoint("DELETE", f"{ONE}/items/{{item}}", "manage", delete_item),
    Endpoint("PUT", f"{ONE}/similarities", "manage", put_similarities, Block, is_batch=True),
    Endpoint("POST", f"{ONE}/policies", "manage", add_policy, PolicyRequest, is_batch=True),
    Endpoint("GET", f"{ONE}/policies/{{policy}}", "read", show_policy),
    Endpoint("POST", f"{ONE}/policies/{{policy}}/activate", "manage", activate_policy),
    Endpoint("POST", f"{ONE}/policies/{{policy}}/retire", "manage", retire_policy),
    Endpoint("GET", f"{ONE}/log", "read", log, media="application/x-ndjson"),
    Endpoint("GET", f"{ONE}/export.parquet", "read", export, media="application/vnd.apache.parquet"),
    Endpoint("POST", f"{ONE}/evaluations", "read", evaluate, EvaluationRequest),
    Endpoint("POST", f"{ONE}/erase", "manage", erase, EraseRequest),
)
