"""Decisions and rewards."""

from __future__ import annotations

import asyncio
import os
import time
from typing import Any

import msgspec

from kernelbandits.errors import KernelBanditError
from kernelbandits.service.api.endpoint import Call, Endpoint
from kernelbandits.service.experiment import LiveExperiment, Outcome, digest_text, id_reused
from kernelbandits.service.keys import require
from kernelbandits.service.problems import Problem, problem_of
from kernelbandits.service.schemas import (
    ID,
    Batch,
    DecisionAnswer,
    DecisionBody,
    DecisionRequest,
    RewardAnswer,
    RewardBatch,
    RewardRequest,
    decode_body,
)

__all__ = ["ENDPOINTS", "InFlight", "audit", "new_id"]

FIRST_SECONDS = 10.0
"""Time that the first decision of an experiment waits for the learner: before it, no fallback is known."""

CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def new_id() -> str:
    """An id that sorts by time: a ULID."""
    number = (int(time.time() * 1000) << 80) | int.from_bytes(os.urandom(10), "big")
    return "".join(CROCKFORD[(number >> (5 * place)) & 31] for place in range(25, -1, -1))


class InFlight:
    """Decisions that are being made, so that the same request sent twice at once is decided once."""

    def __init__(self) -> None:
        self._tasks: dict[tuple[str, str], tuple[str, asyncio.Task[DecisionAnswer]]] = {}

    async def decide(self, call: Call, name: str, id: str, request: DecisionRequest) -> DecisionAnswer:
        """Decide, or wait for the decision that is being made under this id."""
        if request.id is not None:  # in the path, the body or a header: the request is the same
            if request.id != id:
                raise Problem("invalid", f"The body names {request.id!r}, and the request {id!r}.", pointer="/id")
            request = msgspec.structs.replace(request, id=None)
        digest = digest_text(request)
        held = self._tasks.get((name, id))
        if held is not None:
            if held[0] != digest:
                raise id_reused(id)
            answer = await asyncio.shield(held[1])
            return msgspec.structs.replace(answer, replayed=True)
        task = asyncio.create_task(_decide(call, name, id, request, digest))
        self._tasks[name, id] = digest, task
        task.add_done_callback(lambda done: self._forget(name, id))
        return await asyncio.shield(task)  # a client that goes away does not undo it

    def _forget(self, name: str, id: str) -> None:
        self._tasks.pop((name, id), None)


async def _decide(call: Call, name: str, id: str, request: DecisionRequest, digest: str) -> DecisionAnswer:
    """Ask the learner, and fall back to the baseline if it does not begin in time, or cannot be expected to."""
    learner = call.service.learner
    experiment = learner.experiment(name)
    if request.taken is not None:
        require(call.key, "manage", name)
        return await asyncio.wrap_future(learner.decide(name, id, request, digest).future)
    has_fallback = experiment.shape is not None
    if not has_fallback or learner.backlog <= experiment.spec.deadline:
        job = learner.decide(name, id, request, digest)
        answer: asyncio.Future[DecisionAnswer] = asyncio.wrap_future(job.future)
        done, _ = await asyncio.wait({answer}, timeout=experiment.spec.deadline if has_fallback else FIRST_SECONDS)
        if done or not job.claim():
            return await answer
    if learner.store.decision(name, id) is not None:
        return experiment.stored_answer(id, digest)
    return await asyncio.wrap_future(learner.fall_back(name, id, request, digest))


async def decide(call: Call) -> Any:
    """Make a decision under an id; the same request again gets the same answer."""
    return await call.service.in_flight.decide(call, call.experiment, call.path("decision"), call.body)


async def decide_new(call: Call) -> Any:
    """Make a decision under the id of the body or of the header Idempotency-Key, or under a new one."""
    id = call.request.headers.get("idempotency-key") or call.body.id or new_id()
    if not ID.fullmatch(id):
        raise Problem("invalid", "An id has 1 to 128 characters out of A-Z a-z 0-9 . _ ~ -.", pointer="/id")
    return await call.service.in_flight.decide(call, call.experiment, id, call.body)


async def decide_batch(call: Call) -> Any:
    """Make several decisions; each is answered or rejected by itself, in order."""
    most = call.service.settings.limits.batch
    if len(call.body.decisions) > most:
        raise Problem("too-large", f"A batch has at most {most} decisions.", pointer="/decisions")
    call.service.learner.experiment(call.experiment)
    return {"results": await asyncio.gather(*(_one(call, request) for request in call.body.decisions))}


async def _one(call: Call, request: DecisionRequest) -> Any:
    try:
        id = request.id or new_id()
        if not ID.fullmatch(id):
            raise Problem("invalid", f"{id[:140]!r} is no id.", pointer="/id")
        return await call.service.in_flight.decide(call, call.experiment, id, request)
    except KernelBanditError as error:
        return problem_of(error).body()


async def show(call: Call) -> Any:
    """Show one decision: candidates, estimates, propensities, rewards, and the past actions that it resembles."""
    explained = call.request.query_params.get("explain") == "true"
    return await call.service.run(lambda: audit(call, call.path("decision"), is_explained=explained))


def audit(call: Call, id: str, *, is_explained: bool) -> dict[str, Any]:
    """Everything that is known of a decision, as it was stored."""
    store, experiment = call.service.store, call.service.learner.experiment(call.experiment)
    name = experiment.name
    entry = store.decision(name, id)
    row = None if entry is None else store.row(entry.seq)
    if entry is None or row is None:
        raise Problem("not-found", f"There is no decision {id!r} in experiment {name!r}.")
    if row.body is None:
        raise Problem("not-found", f"Decision {id!r} was erased.")
    body: DecisionBody = decode_body(row)
    found: dict[str, Any] = msgspec.to_builtins(experiment.stored_answer(id))
    found["at"] = row.at
    found["learned"] = None if entry.learned is None else msgspec.json.decode(entry.learned)
    found["shadows"] = msgspec.to_builtins(body.shadows)
    found["request"] = None if body.request is None else msgspec.to_builtins(body.request)
    found["rewards"] = [
        {"id": one.id, "seq": one.seq, "value": one.value, "place": one.place, "ignored": one.is_late}
        for one in store.rewards(name, id)
    ]
    if is_explained:
        found["explanation"] = explain(call, experiment, id, body)
    return found


def explain(call: Call, experiment: LiveExperiment, id: str, body: DecisionBody) -> dict[str, Any] | None:
    """Which past actions the score of a decision rests on, under the present model."""

    def work() -> Outcome:
        model = experiment.model
        try:
            found = model.policy.explain(model.decision_of(id, body, 0), most=10)
        except KernelBanditError:
            return Outcome([], lambda rows: None)
        parts = [
            {
                "context": msgspec.to_builtins(_plain(part.context)),
                "similarity": part.similarity,
                "effect": part.effect,
                "share": part.share,
                "times": part.times,
                "mean_reward": part.mean_reward,
            }
            for part in found.contributions
        ]
        answer = {"mean": found.mean, "width": found.width, "bonus": found.bonus, "policy_seq": model.seq}
        return Outcome([], lambda rows: {**answer, "resembles": parts})

    explained: dict[str, Any] | None = call.service.learner.call(work).result()
    return explained


def _plain(context: Any) -> Any:
    from kernelbandits.types import Decision

    return Decision(action=0, context=context).to_dict()["context"]


async def activate(call: Call) -> Any:
    """Open a deferred decision: its action was shown."""
    learner, name, id = call.service.learner, call.experiment, call.path("decision")
    return await asyncio.wrap_future(learner.call(lambda: learner.experiment(name).activate(id, learner.clock.now())))


async def cancel(call: Call) -> Any:
    """Withdraw a decision whose action was not taken."""
    learner, name, id = call.service.learner, call.experiment, call.path("decision")
    return await asyncio.wrap_future(learner.call(lambda: learner.experiment(name).cancel(id, learner.clock.now())))


async def reward(call: Call) -> Any:
    """Report a reward under an id; the same again counts once."""
    learner, decision, id = call.service.learner, call.path("decision"), call.path("reward")
    for name, given, meant in (("id", call.body.id, id), ("decision_id", call.body.decision_id, decision)):
        if given not in (None, meant):
            raise Problem("invalid", f"The body names {given!r}, and the path {meant!r}.", pointer=f"/{name}")
    return await asyncio.wrap_future(learner.reward(call.experiment, decision, id, call.body))


async def reward_batch(call: Call) -> Any:
    """Report several rewards; each is answered or rejected by itself, in order."""
    most = call.service.settings.limits.batch
    if len(call.body.rewards) > most:
        raise Problem("too-large", f"A batch has at most {most} rewards.", pointer="/rewards")
    requests = []
    for place, one in enumerate(call.body.rewards):
        if one.decision_id is None or one.id is None:
            raise Problem("invalid", "A reward of a batch has id and decision_id.", pointer=f"/rewards/{place}")
        requests.append((one.decision_id, one.id, one))
    learner = call.service.learner
    return {"results": await asyncio.wrap_future(learner.rewards(call.experiment, requests))}


DECISION = "/v1/experiments/{experiment}/decisions/{decision}"

ENDPOINTS = (
    Endpoint("PUT", DECISION, "decide", decide, DecisionRequest, DecisionAnswer),
    Endpoint("POST", "/v1/experiments/{experiment}/decisions", "decide", decide_new, DecisionRequest, DecisionAnswer),
    Endpoint("POST", "/v1/experiments/{experiment}/decisions/batch", "decide", decide_batch, Batch, is_batch=True),
    Endpoint("GET", DECISION, "read", show),
    Endpoint("POST", f"{DECISION}/activate", "decide", activate),
    Endpoint("POST", f"{DECISION}/cancel", "decide", cancel),
    Endpoint("PUT", f"{DECISION}/rewards/{{reward}}", "reward", reward, RewardRequest, RewardAnswer),
    Endpoint("POST", "/v1/experiments/{experiment}/rewards/batch", "reward", reward_batch, RewardBatch, is_batch=True),
)
