"""Pages: each calls the functions behind the HTTP interface and writes what they return."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs, quote

import msgspec
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute

from kernelbandits import __version__
from kernelbandits._optional import import_optional
from kernelbandits.errors import KernelBanditError
from kernelbandits.service.api import route
from kernelbandits.service.api.decisions import audit
from kernelbandits.service.api.endpoint import COOKIE, Call, Endpoint, read_body, reject_other_sites
from kernelbandits.service.api.experiments import evaluate, show, show_all
from kernelbandits.service.dashboard.words import FILTERS
from kernelbandits.service.keys import find_key, require
from kernelbandits.service.problems import Problem
from kernelbandits.service.schemas import EvaluationRequest, decode

if TYPE_CHECKING:
    from kernelbandits.service.api.app import Service

__all__ = ["PAGES", "routes"]

HEADERS: Final = {
    "content-security-policy": (
        "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'self'; object-src 'none'"
    ),
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
}

MEDIA: Final = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml", "txt": "text/plain"}

ESTIMATORS: Final = {
    "SNIPS": "Importance weights, self-normalized",
    "IPS": "Importance weights",
    "DM": "Reward model",
    "DR": "Doubly robust",
}

MOST_FORM: Final = 4_096
"""Bytes of the form that a key is entered in."""


@cache
def environment() -> Any:
    """The templates; text is escaped, and an unknown name is an error."""
    jinja2: Any = import_optional("jinja2", "The dashboard", extra="service")
    made = jinja2.Environment(
        loader=jinja2.PackageLoader("kernelbandits.service.dashboard"), autoescape=True,
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    made.filters.update(FILTERS)
    made.globals["version"] = __version__
    return made


def written(template: str, code: int = 200, **values: Any) -> Response:
    """A page."""
    text = environment().get_template(template).render(values)
    return Response(text, code, {**HEADERS, "cache-control": "no-store"}, media_type="text/html")


@dataclass(frozen=True)
class Page(Endpoint):
    """One page: an endpoint whose errors are pages too."""

    def refused(self, service: Service, request: Request, problem: Problem) -> Response:
        """The form for a key, or what is wrong."""
        if problem.status == 401:
            asked = request.url.path if request.method == "GET" and request.url.path != "/login" else "/"
            response: Response = RedirectResponse(f"/login?next={quote(asked)}", 303, HEADERS)
            response.delete_cookie(COOKIE)
            return response
        return written("problem.html", problem.status, problem=problem, frame=_frame(service, request))


def _frame(service: Service, request: Request) -> dict[str, Any]:
    """What every page shows: the state of the service."""
    return {
        "state": service.learner.state,
        "is_damaged": service.learner.error is not None,
        "alarm": service.learner.alarm,
        "now": service.learner.clock.now(),
        "has_session": COOKIE in request.cookies,
        "path": request.url.path,
    }


def _page(call: Call, template: str, **values: Any) -> Response:
    return written(template, frame=_frame(call.service, call.request), **values)


def _status(call: Call) -> dict[str, Any] | None:
    """The state of the service, for a key of all experiments."""
    bound = call.key is not None and call.key.experiments
    return None if bound else {**call.service.status(), "rejections": call.service.metrics.rejections}


async def overview(call: Call) -> Any:
    """All experiments, and whether the service is safe."""
    listed = (await show_all(call))["experiments"]
    return _page(call, "overview.html", experiments=listed, status=_status(call), url=_url(call))


async def experiment(call: Call) -> Any:
    """One experiment: the questions that a person has about it."""
    info = await show(call)
    found = await call.service.run(lambda: call.service.insights.summary(info["name"]))
    return _page(call, "experiment.html", one=info, found=found, status=_status(call), url=_url(call))


async def decision(call: Call) -> Any:
    """One decision, and the past actions that it resembles."""
    id = call.path("decision")
    try:
        found = await call.service.run(lambda: audit(call, id, is_explained=True))
    except Problem as problem:
        if problem.code not in ("read-only", "recovering"):
            raise
        found = await call.service.run(lambda: audit(call, id, is_explained=False))
    return _page(call, "decision.html", name=call.experiment, found=found)


async def evaluation(call: Call) -> Any:
    """What another policy would have earned on this log."""
    info, query = await show(call), call.request.query_params
    policy, estimator = query.get("policy"), query.get("estimator", "SNIPS")
    found = problem = None
    if policy is not None:
        reject_other_sites(call.request)
        given = decode(msgspec.json.encode({"policy": policy, "estimator": estimator}), EvaluationRequest)
        try:
            found = await evaluate(replace(call, body=given))
        except KernelBanditError as error:
            problem = str(error)
    return _page(
        call, "evaluation.html", one=info, policy=policy, estimator=estimator, estimators=ESTIMATORS, found=found,
        problem=problem,
    )  # fmt: skip


def _url(call: Call) -> str:
    return str(call.request.base_url).rstrip("/")


async def ask_key(call: Call) -> Any:
    """The form for a key."""
    return _page(call, "login.html", next=_local(call.request.query_params.get("next", "/")), wrong=None)


async def take_key(call: Call) -> Any:
    """Keep a key that may read in a cookie of this session."""
    reject_other_sites(call.request)
    data = await read_body(call.service, call.request, MOST_FORM, "application/x-www-form-urlencoded")
    form = parse_qs(data.decode("ascii", errors="replace"))
    secret, following = form.get("key", [""])[0].strip(), _local(form.get("next", ["/"])[0])
    try:
        require(find_key(call.service.store, secret), "read", None)
    except Problem as problem:
        frame = _frame(call.service, call.request)
        return written("login.html", problem.status, frame=frame, next=following, wrong=problem.detail)
    response = RedirectResponse(following, 303, HEADERS)
    is_secure = call.request.url.scheme == "https"
    response.set_cookie(COOKIE, secret, httponly=True, samesite="strict", secure=is_secure)
    return response


async def end_session(call: Call) -> Any:
    """Forget the key of this session."""
    reject_other_sites(call.request)
    response = RedirectResponse("/login", 303, HEADERS)
    response.delete_cookie(COOKIE)
    return response


def _local(path: str) -> str:
    """A path of this service: never another host."""
    return path if path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable() else "/"


async def static(call: Call) -> Any:
    """Style, script and license of the pages."""
    name = call.request.path_params["file"]
    content = assets().get(name)
    if content is None:
        raise Problem("not-found", f"There is no file {name!r:.100}.")
    headers = {**HEADERS, "cache-control": "max-age=3600"}
    return Response(content, headers=headers, media_type=MEDIA[name.rpartition(".")[2]])


@cache
def assets() -> dict[str, bytes]:
    """The files of `static`, by name."""
    return {path.name: path.read_bytes() for path in files(__package__).joinpath("static").iterdir() if path.is_file()}


PAGES: Final = (
    Page("GET", "/", "read", overview, is_filtered=True),
    Page("GET", "/experiments/{experiment}", "read", experiment),
    Page("GET", "/experiments/{experiment}/decisions/{decision}", "read", decision),
    Page("GET", "/experiments/{experiment}/evaluation", "read", evaluation),
    Page("GET", "/login", None, ask_key),
    Page("POST", "/login", None, take_key),
    Page("POST", "/logout", None, end_session),
    Page("GET", "/static/{file}", None, static),
)


def routes(service: Service) -> Sequence[BaseRoute]:
    """Routes of the pages, for `create_app`."""
    by_path: dict[str, list[Endpoint]] = {}
    for one in PAGES:
        by_path.setdefault(one.path, []).append(one)
    return [route(service, path, listed) for path, listed in by_path.items()]
