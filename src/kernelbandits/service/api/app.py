"""The application: a service around a learner, its routes, and their description."""

from __future__ import annotations

import asyncio
import logging
import tempfile
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from time import perf_counter
from typing import Any, Final, TypeVar

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from kernelbandits import __version__
from kernelbandits.service.api import decisions, experiments
from kernelbandits.service.api.decisions import InFlight
from kernelbandits.service.api.endpoint import HEADERS, Call, Endpoint, problem_response
from kernelbandits.service.insight import Insights
from kernelbandits.service.learner import Learner
from kernelbandits.service.metrics import Metrics
from kernelbandits.service.offline import run_offline
from kernelbandits.service.problems import CODES, Problem
from kernelbandits.service.settings import Settings
from kernelbandits.service.store import Store

__all__ = ["Service", "create_app", "endpoints", "route"]

logger = logging.getLogger("kernelbandits.service")

T = TypeVar("T")

SLOW: Final = 0.005
"""Seconds that a turn of the event loop takes when it has too much to do: an answer takes several turns."""

FEWEST: Final = 16
"""Requests in flight that are always allowed, unless `in_flight` is lower."""

OFFLINE: Final = 2
"""Replays, evaluations and exports that run at once."""


class Service:
    """What handlers need: the learner, its store, settings, metrics, and work in other processes."""

    def __init__(self, learner: Learner, settings: Settings) -> None:
        self.learner, self.settings = learner, settings
        self.store: Store = learner.store
        self.metrics = Metrics(learner)
        self.insights = Insights(learner)
        self.verified: dict[str, Any] | None = None
        self.in_flight = InFlight()
        self.build_errors: dict[tuple[str, str], str] = {}
        self.n_active = 0
        """Requests in flight."""
        self._offline = asyncio.Semaphore(OFFLINE)
        self._tasks: set[asyncio.Task[None]] = set()
        self._known_keys: tuple[float, bool] = (0.0, False)

    @property
    def needs_key(self) -> bool:
        """Whether requests need a key: always beyond this machine, and once a key exists."""
        if not self.settings.is_loopback:
            return True
        now = self.learner.clock.now()
        if now >= self._known_keys[0]:
            self._known_keys = now + 1.0, bool(self.store.keys())
        return self._known_keys[1]

    async def run(self, work: Callable[[], T]) -> T:
        """Run blocking work in a thread."""
        return await asyncio.to_thread(work)

    async def offline(self, task: str, given: dict[str, Any]) -> dict[str, Any]:
        """Run a task in another process."""
        async with self._offline:
            return await run_offline(task, self.settings.database, given)

    async def verify(self) -> dict[str, Any]:
        """Check the log up to its present end, and keep what was found for `status`."""
        upto = self.learner.applied_seq
        found = await self.offline("verify", {"folder": str(self.settings.data), "upto": upto})
        known = {"seq": upto, "at": self.learner.clock.now(), "is_sound": found["is_sound"]}
        self.verified = {**known, "findings": found["findings"]}
        return {**found, **known}

    def build(self, experiment: str, version: str) -> None:
        """Build a version by replay in another process, and adopt it."""
        task = asyncio.create_task(self._build(experiment, version))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _build(self, experiment: str, version: str) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "policy.kb"
            try:
                found = await self.offline("build", {"experiment": experiment, "version": version, "into": str(path)})
                await asyncio.wrap_future(self.learner.adopt(experiment, version, path, found["seq"]))
            except Exception as error:
                logger.exception("policy %s of experiment %s could not be built", version, experiment)
                self.build_errors[experiment, version] = str(error)

    def resume_builds(self) -> None:
        """Build again the versions that were being built when the service ended."""
        for experiment in self.learner.experiments.values():
            for version in experiment.versions.values():
                if version.status == "building":
                    self.build(experiment.name, version.id)

    def stop_builds(self) -> None:
        """End work in other processes."""
        for task in self._tasks:
            task.cancel()

    def status(self) -> dict[str, Any]:
        """State of the service."""
        learner, store = self.learner, self.store
        free: Any = getattr(store, "free", lambda: None)
        return {
            "state": learner.state,
            "ready": learner.is_ready,
            "version": __version__,
            "seq": learner.applied_seq,
            "lag": learner.lag,
            "commit_seconds": learner.writer.seconds,
            "alarm": learner.alarm,
            "last_snapshot_at": learner.last_snapshot_at,
            "recovered": learner.recovered,
            "verified": self.verified,
            "store_bytes": store.size(),
            "disk_free_bytes": free(),
            "now": learner.clock.now(),
            "error": None if learner.error is None else type(learner.error).__name__,
        }


async def healthz(call: Call) -> Any:
    """Say whether the process works; it is restarted if not."""
    learner = call.service.learner
    is_running = learner.state in ("ready", "read-only") and learner.error is None
    if learner.state == "failed" or (is_running and not learner.is_alive):
        raise Problem("failed", "A thread of the service has died.")
    return {"status": "alive"}


async def readyz(call: Call) -> Any:
    """Say whether decisions can be made."""
    learner = call.service.learner
    if not learner.is_ready:
        raise Problem("read-only" if learner.state == "read-only" else "recovering", f"The service is {learner.state}.")
    return {"status": "ready", "seq": learner.applied_seq}


async def metrics(call: Call) -> Any:
    """Give metrics in the text format of Prometheus."""
    return Response(call.service.metrics.text(), media_type="text/plain; version=0.0.4", headers=HEADERS)


async def openapi(call: Call) -> Any:
    """Describe this interface as OpenAPI 3.1."""
    return description(endpoints())


OPERATION = (
    Endpoint("GET", "/healthz", None, healthz),
    Endpoint("GET", "/readyz", None, readyz),
    Endpoint("GET", "/metrics", "read", metrics, media="text/plain"),
    Endpoint("GET", "/openapi.json", None, openapi),
)


MONITORED: Final = frozenset(one.path for one in OPERATION)


def endpoints() -> tuple[Endpoint, ...]:
    """All endpoints of the interface."""
    return (*OPERATION, *experiments.ENDPOINTS, *decisions.ENDPOINTS)


def description(listed: Sequence[Endpoint]) -> dict[str, Any]:
    """OpenAPI description of endpoints."""
    kinds = sorted({kind for one in listed for kind in (one.takes, one.gives) if kind is not None}, key=repr)
    schemas, components = msgspec.json.schema_components(kinds, ref_template="#/components/schemas/{name}")
    by_kind = dict(zip(kinds, schemas, strict=True))
    components["Problem"] = PROBLEM_SCHEMA
    paths: dict[str, dict[str, Any]] = {}
    for one in listed:
        paths.setdefault(one.path, {})[one.method.lower()] = _operation(one, by_kind)
    return {
        "openapi": "3.1.0",
        "info": {"title": "kernelbandits decision service", "version": __version__},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


PROBLEM_SCHEMA: Final = {
    "type": "object",
    "description": "RFC 9457 problem details",
    "required": ["type", "title", "status", "code", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "code": {"enum": sorted(CODES)},
        "detail": {"type": "string"},
        "pointer": {"type": "string"},
    },
}

QUERY: Final = {
    "/v1/experiments/{experiment}/log": (("from", 1), ("limit", 1)),
}
"""Whole numbers in the query, with their least value."""


def _operation(one: Endpoint, by_kind: dict[Any, Any]) -> dict[str, Any]:
    names = [part[1:-1] for part in one.path.split("/") if part.startswith("{")]
    id = {"type": "string", "pattern": "^[A-Za-z0-9._~-]{1,128}$"}
    parameters: list[dict[str, Any]] = [{"name": name, "in": "path", "required": True, "schema": id} for name in names]
    parameters += [
        {"name": name, "in": "query", "schema": {"type": "integer", "minimum": least}}
        for name, least in QUERY.get(one.path, ())
    ]
    answer: dict[str, Any] = by_kind.get(one.gives, {"type": "object"})
    content = {one.media: {"schema": answer if one.media == "application/json" else {}}}
    found: dict[str, Any] = {
        "summary": one.summary,
        "operationId": one.handle.__module__.rpartition(".")[2] + "_" + one.handle.__name__,
        "parameters": parameters,
        "responses": {
            "200": {"description": "Done", "content": content},
            "4XX": {
                "description": "The request was rejected, and nothing was stored",
                "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
            },
            "5XX": {
                "description": "The service cannot do it now",
                "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
            },
        },
    }
    if one.scope is not None:
        found["security"] = [{}, {"key": []}]
        found["description"] = f"Scope: {one.scope}."
    if one.takes is not None:
        found["requestBody"] = {"required": True, "content": {"application/json": {"schema": by_kind[one.takes]}}}
    return found


def route(service: Service, path: str, listed: Sequence[Endpoint]) -> Route:
    """One route for all methods of a path."""
    return Route(path, _Methods(service, listed), methods=sorted({one.method for one in listed}))


class _Methods:
    """ASGI application of one path."""

    def __init__(self, service: Service, listed: Sequence[Endpoint]) -> None:
        self._service = service
        self._by_method = {one.method: one for one in listed}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        method = scope["method"]
        endpoint = self._by_method["GET" if method == "HEAD" else method]
        response = await endpoint.serve(self._service, Request(scope, receive, send))
        await response(scope, receive, send)


class Admission:
    """ASGI middleware that rejects requests beyond the limit before anything of them is read, but those of monitors.

    The limit is `in_flight`, and lower while the event loop is slow: it falls by a twentieth with each request that
    sees it slow, and rises slowly with each that does not. What would wait in a queue is then answered at once,
    whereas a slow disk, or a policy that decisions may wait for, changes nothing.
    """

    def __init__(self, app: ASGIApp, service: Service, *, slow: float = SLOW, fewest: int = FEWEST) -> None:
        self._app, self._service, self._slow, self._fewest = app, service, slow, fewest
        self._most = float(service.settings.limits.in_flight)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in MONITORED:
            await self._app(scope, receive, send)
            return
        service = self._service
        if service.n_active >= self._most:
            problem = Problem("overloaded", f"More than {self._most:.0f} requests are in flight.")
            service.metrics.rejected(problem.code)
            await problem_response(problem)(scope, receive, send)
            return
        service.n_active += 1
        try:
            start = perf_counter()
            await asyncio.sleep(0)  # one turn of the event loop
            self._adapt(perf_counter() - start)
            await self._app(scope, receive, send)
        finally:
            service.n_active -= 1

    def _adapt(self, seconds: float) -> None:
        most = self._service.settings.limits.in_flight
        if seconds > self._slow:
            self._most = max(min(self._fewest, most), 0.95 * self._most)
        else:
            self._most = min(most, self._most + 0.05)


def create_app(
    learner: Learner, settings: Settings, *, routes: Callable[[Service], Sequence[BaseRoute]] | None = None
) -> Starlette:
    """Create the application around a learner; `routes` adds pages such as the dashboard.

    The learner starts with the application, in the background: until it has recovered, `/readyz` is 503. It stops with
    it: what is queued is answered, and snapshots are written.
    """
    service = Service(learner, settings)
    by_path: dict[str, list[Endpoint]] = {}
    for one in sorted(endpoints(), key=lambda one: one not in decisions.ENDPOINTS):  # the frequent ones first
        by_path.setdefault(one.path, []).append(one)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        loop = asyncio.get_running_loop()

        def begin() -> None:
            try:
                learner.start()
            except BaseException as error:
                learner.fail(error)
                return
            loop.call_soon_threadsafe(service.resume_builds)

        starting = threading.Thread(target=begin, name="kernelbandits-recovery", daemon=True)
        starting.start()
        yield
        service.stop_builds()
        await asyncio.to_thread(starting.join)
        await asyncio.to_thread(learner.stop)

    async def http_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        code = {404: "not-found", 405: "method-not-allowed"}.get(error.status_code, "malformed")
        response = problem_response(Problem(code, f"{request.method} {request.url.path[:200]}: {error.detail}."))
        response.headers.update(error.headers or {})
        return response

    async def failure(request: Request, error: Exception) -> Response:
        return problem_response(Problem("failed", "The service failed; its log says why."))

    app = Starlette(
        routes=[
            *(route(service, path, listed) for path, listed in by_path.items()),
            *(routes(service) if routes else ()),
        ],
        lifespan=lifespan,
        middleware=[Middleware(Admission, service=service)],
        exception_handlers={HTTPException: http_error, Exception: failure},
    )
    app.router.redirect_slashes = False  # no answer that this interface does not declare
    app.state.service = service
    return app
