"""The decision service: applications ask for decisions over HTTP and report rewards later.

`kernelbandits serve` starts it on this machine; `Client` talks to it with the standard library only. An append-only log
holds every decision and reward; the models are a fold over it. `create_app` makes the application around a `Learner`
for servers of your own; `Store` is the interface of the log, and `SqliteStore` its implementation.

The server needs the extra: `pip install "kernelbandits[service]"`.
"""

from typing import TYPE_CHECKING, Any

from kernelbandits.service.client import Client, ServiceError

if TYPE_CHECKING:
    from kernelbandits.service.api import create_app
    from kernelbandits.service.clock import Clock
    from kernelbandits.service.learner import Learner
    from kernelbandits.service.problems import Problem
    from kernelbandits.service.schemas import Experiment, Limits
    from kernelbandits.service.settings import Settings
    from kernelbandits.service.store import SqliteStore, Store

__all__ = [
    "Client",
    "Clock",
    "Experiment",
    "Learner",
    "Limits",
    "Problem",
    "ServiceError",
    "Settings",
    "SqliteStore",
    "Store",
    "create_app",
]

HOMES = {
    "Clock": "clock",
    "Experiment": "schemas",
    "Learner": "learner",
    "Limits": "schemas",
    "Problem": "problems",
    "Settings": "settings",
    "SqliteStore": "store",
    "Store": "store",
    "create_app": "api",
}
"""Modules of the names that need the extra; they are imported when they are used."""


def __getattr__(name: str) -> Any:
    """Import what the server consists of when it is used: the client needs none of it."""
    if name not in HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    from kernelbandits._optional import import_optional

    for module in ("msgspec", "starlette"):
        import_optional(module, "The service", extra="service")
    return getattr(import_module(f"{__name__}.{HOMES[name]}"), name)
