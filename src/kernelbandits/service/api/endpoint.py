"""Endpoints: what every request passes through before and after its handler.

Limits, the key and its scope, strict decoding and the answer in JSON are the same for all; a handler takes a `Call`,
calls one function of the service and returns a value.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from kernelbandits.errors import KernelBanditError
from kernelbandits.service.keys import find_key, require
from kernelbandits.service.problems import Problem, problem_of
from kernelbandits.service.schemas import check_id, decode, encode
from kernelbandits.service.settings import is_loopback
from kernelbandits.service.store import Key, StoreError

if TYPE_CHECKING:
    from kernelbandits.service.api.app import Service

__all__ = ["COOKIE", "HEADERS", "Call", "Endpoint", "key_of", "problem_response", "read_body", "reject_other_sites"]

COOKIE: Final = "kernelbandits_session"
"""Cookie that holds a key for reading, as the dashboard sets it: HttpOnly, SameSite=Strict."""

HEADERS: Final = {"cache-control": "no-store", "x-content-type-options": "nosniff"}

PROBLEM: Final = "application/problem+json"


@dataclass(slots=True)
class Call:
    """One request."""

    service: Service
    request: Request
    body: Any
    key: Key | None

    def path(self, name: str) -> str:
        """A checked parameter of the path."""
        return check_id(self.request.path_params[name], f"{name.capitalize()}")

    @property
    def experiment(self) -> str:
        """The name of the experiment."""
        return self.path("experiment")

    def number(self, name: str, default: int, *, least: int = 0, most: int = 2**62) -> int:
        """A whole number of the query."""
        text = self.request.query_params.get(name)
        if text is None:
            return default
        if not (text.isascii() and text.isdigit() and len(text) < 20 and least <= int(text) <= most):
            raise Problem("invalid", f"{name} is a whole number from {least} to {most}, got {text[:40]!r}.")
        return int(text)


@dataclass(frozen=True)
class Endpoint:
    """One method of one path."""

    method: str
    path: str
    scope: str | None
    """Scope that the key needs; None: anyone."""

    handle: Callable[[Call], Awaitable[Any]]
    takes: Any = None
    """Form of the body; None: it has none."""

    gives: Any = None
    """Form of the answer; None: any JSON object."""

    is_batch: bool = False
    """Whether the limit of batches holds for the body."""

    media: str = "application/json"

    is_filtered: bool = False
    """Whether the handler itself looks at the experiments of the key."""

    @property
    def summary(self) -> str:
        """First line of the handler's docstring."""
        return (self.handle.__doc__ or "").partition("\n")[0].rstrip(".")

    async def serve(self, service: Service, request: Request) -> Response:
        """Check the request, call the handler, and answer; every error leaves as problem details."""
        start = perf_counter()
        response: Response | None = None
        try:
            response = await self._answer(service, request)
        except ClientDisconnect:
            response = Response(status_code=400)
        except KernelBanditError as error:
            if isinstance(error, StoreError):
                error = Problem("read-only", "The store cannot be read now.")
            problem = problem_of(error)
            service.metrics.rejected(problem.code)
            response = self.refused(service, request, problem)
        finally:
            status = 500 if response is None else response.status_code
            service.metrics.answered(self.path, self.method, status, perf_counter() - start)
        return response

    def refused(self, service: Service, request: Request, problem: Problem) -> Response:
        """The answer to a request that was rejected."""
        return problem_response(problem)

    async def _answer(self, service: Service, request: Request) -> Response:
        if self.scope is None:
            return _response(await self.handle(Call(service, request, None, None)))
        key = key_of(service, request)
        require(key, self.scope, None if self.is_filtered else request.path_params.get("experiment", ""))
        body = None if self.takes is None else decode(await self._read(service, request), self.takes)
        return _response(await self.handle(Call(service, request, body, key)))

    async def _read(self, service: Service, request: Request) -> bytes:
        limits = service.settings.limits
        return await read_body(service, request, limits.batch_body if self.is_batch else limits.body)


async def read_body(service: Service, request: Request, most: int, media: str = "application/json") -> bytes:
    """The body, within its limit and deadline."""
    limits = service.settings.limits
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != media:
        raise Problem("unsupported-media-type", f"The body must be {media}, got {kind[:100]!r}.")
    length = request.headers.get("content-length", "0")
    if not length.isdigit() or int(length) > most:
        raise Problem("too-large", f"A body has at most {most:,} bytes here.")
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(limits.body_seconds):
            async for part in request.stream():
                size += len(part)
                if size > most:
                    raise Problem("too-large", f"A body has at most {most:,} bytes here.")
                parts.append(part)
    except TimeoutError:
        raise Problem("timeout", f"The body did not arrive within {limits.body_seconds:g} s.") from None
    return b"".join(parts)


def key_of(service: Service, request: Request) -> Key | None:
    """The key of a request; None if none is needed."""
    given = request.headers.get("authorization")
    if given is not None:
        kind, _, secret = given.partition(" ")
        if kind.lower() != "bearer":
            raise Problem("unauthorized", "The key is sent as: Authorization: Bearer KEY")
        return find_key(service.store, secret.strip())
    cookie = request.cookies.get(COOKIE)
    if cookie and request.method in ("GET", "HEAD"):
        return find_key(service.store, cookie)
    if service.needs_key:
        raise Problem("unauthorized", "This service needs a key: Authorization: Bearer KEY")
    if request.method not in ("GET", "HEAD"):
        reject_other_sites(request)
    host = re.sub(r":\d*$", "", request.headers.get("host", "localhost")).strip("[]")
    if not is_loopback(host):  # a page whose host name was made to point here, or a proxy
        raise Problem(
            "unauthorized",
            f"Without a key only requests to localhost are answered, got host {host!r:.140}. Create one: "
            "kernelbandits keys create",
        )
    return None


def reject_other_sites(request: Request) -> None:
    """Reject what a page of another host made a browser send; other clients do not have the header."""
    if request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
        raise Problem("forbidden", "This request came from a page of another host.")


def _response(value: Any) -> Response:
    if isinstance(value, Response):
        return value
    return Response(encode(value), media_type="application/json", headers=HEADERS)


def problem_response(problem: Problem) -> Response:
    """Problem details as RFC 9457 has them."""
    headers = dict(HEADERS)
    if problem.retry_after is not None:
        headers["retry-after"] = str(problem.retry_after)
    if problem.status == 401:
        headers["www-authenticate"] = "Bearer"
    return Response(encode(problem.body()), problem.status, headers, media_type=PROBLEM)
