"""Problems: errors of the service with a stable code, sent as RFC 9457 problem details."""

from __future__ import annotations

from typing import Any, Final

from kernelbandits.errors import KernelBanditError

__all__ = ["CODES", "Problem", "problem_of"]

CODES: Final = {
    "malformed": (400, "The request is not valid JSON of the expected form"),
    "unauthorized": (401, "A valid key is needed"),
    "forbidden": (403, "The key does not allow this"),
    "not-found": (404, "There is no such thing"),
    "method-not-allowed": (405, "The resource does not have this method"),
    "timeout": (408, "The body did not arrive in time"),
    "wrong-state": (409, "The resource is in a state that does not allow this"),
    "too-large": (413, "The request is too large"),
    "unsupported-media-type": (415, "The body must be application/json"),
    "invalid": (422, "A value violates its rule"),
    "id-reused": (422, "The id belongs to another request"),
    "failed": (500, "The service failed"),
    "extra-missing": (501, "An optional package is not installed"),
    "overloaded": (503, "The service is overloaded"),
    "read-only": (503, "The service cannot write now"),
    "recovering": (503, "The service is recovering from its log"),
}
"""Status and title of every code."""


class Problem(KernelBanditError):
    """An error with a stable code; `pointer` is the path of the bad field, as a JSON pointer."""

    def __init__(
        self, code: str, detail: str, *, pointer: str | None = None, retry_after: int | None = None, **more: Any
    ) -> None:
        super().__init__(detail)
        self.status, self.title = CODES[code]
        self.code, self.detail, self.pointer, self.more = code, detail, pointer, more
        self.retry_after = retry_after if retry_after is not None or self.status != 503 else 1

    def body(self) -> dict[str, Any]:
        """The problem details."""
        found: dict[str, Any] = {
            "type": f"urn:kernelbandits:problem:{self.code}",
            "title": self.title,
            "status": self.status,
            "code": self.code,
            "detail": self.detail,
        }
        if self.pointer is not None:
            found["pointer"] = self.pointer
        return {**found, **self.more}


def problem_of(error: KernelBanditError) -> Problem:
    """The problem for an error of the library: what a client sent violates a rule."""
    return error if isinstance(error, Problem) else Problem("invalid", str(error))
