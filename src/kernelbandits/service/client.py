"""A client of the service, with the standard library only. It retries by id, which is always safe."""

from __future__ import annotations

import http.client
import json
import random
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote, urlsplit

from kernelbandits.errors import InvalidParameter, KernelBanditError

__all__ = ["Client", "ServiceError"]

RETRIED: Final = frozenset({408, 429, 502, 503, 504})


BATCH: Final = 256
"""Rewards that are sent at once: the limit of a service, unless it has another one."""


class ServiceError(KernelBanditError, RuntimeError):
    """The service answered with a problem, or could not be reached."""

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        self.status, self.problem = status, dict(problem)
        super().__init__(f"{problem.get('code', status)}: {problem.get('detail', 'no answer')}")


class Client:
    """A client of one service.

    Decisions and rewards have ids, chosen here if the caller has none, so a request that got no answer is sent again
    under the same id and counts once. Not for several threads at once: make one client for each.

    Parameters
    ----------
    url
        Address of the service.
    key
        Key, if the service needs one.
    timeout
        Seconds to wait for an answer.
    retries
        How often a request without an answer, or rejected for the moment (503, 429), is sent again.
    """

    def __init__(
        self, url: str = "http://127.0.0.1:8090", *, key: str | None = None, timeout: float = 10.0, retries: int = 5
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidParameter(f"The address of a service is like http://127.0.0.1:8090, got {url!r}.")
        self._kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._host, self._port, self._base = parts.hostname, parts.port, parts.path.rstrip("/")
        self._key, self._timeout, self._retries = key, timeout, retries
        self._connection: http.client.HTTPConnection | None = None

    # -- decisions and rewards ---------------------------------------------------------------------------------------

    def decide(
        self, experiment: str, actions: Sequence[Mapping[str, Any]] | None = None, **more: Any
    ) -> dict[str, Any]:
        """Make a decision.

        Parameters
        ----------
        experiment
            Name of the experiment.
        actions
            Actions as {"id": …, "x": …}; None for the items of the catalog.
        more
            `id` of the decision, and other fields of the request: k, eligible, exclude, baseline, context, defer.
        """
        id = more.pop("id", None) or uuid.uuid4().hex
        body = {**more, **({} if actions is None else {"actions": [dict(one) for one in actions]})}
        return self.request("PUT", f"/v1/experiments/{quote(experiment)}/decisions/{quote(id)}", body)

    def reward(
        self, experiment: str, decision: str, reward: float, *, id: str | None = None, **more: Any
    ) -> dict[str, Any]:
        """Report a reward; by default under the id "r1", so that a decision has one reward."""
        path = f"/v1/experiments/{quote(experiment)}/decisions/{quote(decision)}/rewards/{quote(id or 'r1')}"
        return self.request("PUT", path, {"reward": reward, **more})

    def rewards(self, experiment: str, rewards: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Report many rewards: {"decision_id": …, "id": …, "reward": …}."""
        path, found = f"/v1/experiments/{quote(experiment)}/rewards/batch", []
        for first in range(0, len(rewards), BATCH):
            body = {"rewards": [dict(one) for one in rewards[first : first + BATCH]]}
            found += self.request("POST", path, body)["results"]
        return found

    # -- experiments -------------------------------------------------------------------------------------------------

    def create(self, name: str, policy: Mapping[str, Any], **settings: Any) -> dict[str, Any]:
        """Create an experiment; the same again changes nothing."""
        return self.request("POST", "/v1/experiments", {"name": name, "policy": dict(policy), **settings})

    def show(self, experiment: str) -> dict[str, Any]:
        """Show settings and state of an experiment."""
        return self.request("GET", f"/v1/experiments/{quote(experiment)}")

    def act(self, experiment: str, action: str) -> dict[str, Any]:
        """Start, pause, resume or end an experiment."""
        return self.request("POST", f"/v1/experiments/{quote(experiment)}/{quote(action)}")

    def status(self) -> dict[str, Any]:
        """State of the service."""
        return self.request("GET", "/v1/status")

    def log(self, experiment: str, *, start: int = 1, limit: int = 1_000) -> Iterator[dict[str, Any]]:
        """Rows of the log from a number on, as CloudEvents."""
        text = self._send("GET", f"/v1/experiments/{quote(experiment)}/log?from={start}&limit={limit}", None)
        for line in text.splitlines():
            yield json.loads(line)

    # -- requests ----------------------------------------------------------------------------------------------------

    def request(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        """Send a request until it is answered; raise ServiceError for a problem.

        What has no id of its own, such as a new version of a policy or a batch of decisions without ids, may be done
        twice when an answer is lost: use a client with `retries=0` for it.
        """
        found: dict[str, Any] = json.loads(self._send(method, path, body))
        return found

    def _send(self, method: str, path: str, body: Any) -> bytes:
        data = None if body is None else json.dumps(body, allow_nan=False).encode()
        for attempt in range(self._retries + 1):
            try:
                status, wait, text = self._once(method, path, data)
            except (OSError, http.client.HTTPException) as error:
                self.close()
                if attempt == self._retries:
                    raise ServiceError(
                        0, {"code": "unreachable", "detail": f"{self._host}:{self._port}: {error}"}
                    ) from error
                status, wait = 503, None
            else:
                if status < 400:
                    return text
                if status not in RETRIED or attempt == self._retries:
                    raise ServiceError(status, _problem(text))
            time.sleep(min(5.0, wait if wait is not None else 0.05 * 2**attempt) * random.uniform(0.5, 1.0))
        raise AssertionError("not reached")

    def _once(self, method: str, path: str, data: bytes | None) -> tuple[int, float | None, bytes]:
        if self._connection is None:
            self._connection = self._kind(self._host, self._port, timeout=self._timeout)
        headers = {"accept": "application/json"}
        if data is not None:
            headers["content-type"] = "application/json"
        if self._key is not None:
            headers["authorization"] = f"Bearer {self._key}"
        self._connection.request(method, self._base + path, data, headers)
        response = self._connection.getresponse()
        text = response.read()
        wait = response.headers.get("retry-after", "")
        return response.status, float(wait) if wait.isdigit() else None, text

    def close(self) -> None:
        """Close the connection; the next request opens another one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _problem(text: bytes) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {"detail": text[:200].decode(errors="replace")}
    return found if isinstance(found, dict) else {"detail": str(found)[:200]}
