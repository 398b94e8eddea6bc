"""The server: one process that owns a data folder, with uvicorn in front of the application."""

from __future__ import annotations

import gc
import json
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any, Final

from kernelbandits._files import locked, writable_folder
from kernelbandits._optional import import_optional
from kernelbandits.errors import FolderInUse, InvalidParameter
from kernelbandits.service.learner import Learner
from kernelbandits.service.schemas import Experiment
from kernelbandits.service.settings import Settings
from kernelbandits.service.store import SqliteStore

__all__ = ["FIRST", "hold_folder", "open_learner", "serve"]

logger = logging.getLogger("kernelbandits.service")

SERVER_FILE: Final = "server.json"

EXIT_FAILED: Final = 74
"""Exit status after an I/O error or the death of a thread (EX_IOERR): a supervisor starts the process again."""

NETWORK: Final = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs", "fuse.sshfs"})

SWITCH_SECONDS: Final = 5e-4
"""Time after which a thread that computes lets another one go on; the default of Python, 5 ms, delays every answer."""

NEW_OBJECTS: Final = 50_000
"""New objects after which the garbage collector runs. By default it is 700, so that with hundreds of requests in flight
it looks at all objects again and again: at five times the capacity, the 99th percentile of all answers was 158 ms
instead of 96."""

FIRST: Final = {
    "policy": {"class": "KernelUCB", "kernel": {"class": "Spectrum", "n": 3}, "exploration": 0.5, "budget": 500},
    "wait": 3600.0,
    "default_reward": 0.0,
    "description": "Made by `kernelbandits serve`: actions are strings, such as headlines; rewards are 0 or 1.",
}
"""Settings of the experiment that a new data folder begins with."""


@contextmanager
def hold_folder(settings: Settings) -> Iterator[None]:
    """Hold the data folder alone; raise FolderInUse, which names the server that holds it."""
    folder = writable_folder(settings.data)
    kind = file_system(folder)
    if kind in NETWORK:
        raise InvalidParameter(
            f"{str(folder)!r} is on a network file system ({kind}), which does not keep what is promised. Use a local "
            "disk: --data FOLDER"
        )
    note = folder / SERVER_FILE
    try:
        with locked(folder):
            note.write_text(json.dumps({"pid": os.getpid(), "url": settings.url}), encoding="utf-8")
            try:
                yield
            finally:
                note.unlink(missing_ok=True)
    except FolderInUse as error:
        raise FolderInUse(f"{str(folder)!r} belongs to {_holder(note)}. Stop it, or name another folder.") from error


def _holder(note: Path) -> str:
    with suppress(OSError, ValueError, KeyError, TypeError):
        known = json.loads(note.read_text(encoding="utf-8"))
        return f"the server with process id {known['pid']} at {known['url']}"
    return "another server"


def file_system(folder: Path) -> str:
    """Type of the file system of a folder, where the system says it."""
    with suppress(OSError):
        mounts = [line.split() for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines()]
        place = str(folder.resolve())
        over = [mount for mount in mounts if f"{place}/".startswith(mount[1].rstrip("/") + "/")]
        return max(over, key=lambda mount: len(mount[1]))[2] if over else ""
    return ""


def open_learner(settings: Settings, **options: Any) -> Learner:
    """A learner over the database of the data folder."""
    store = SqliteStore(settings.database)
    return Learner(store, settings.data, limits=settings.limits, snapshot_rows=settings.snapshot_rows, **options)


def serve(
    settings: Settings,
    *,
    first: str | None = "first",
    say: Callable[[str], None] = print,
    as_json: bool = False,
    at: Callable[[str], None] | None = None,
) -> int:
    """Serve until SIGTERM or SIGINT, and return the exit status.

    A new folder begins with the experiment `first`, if it is named. `say` is called with the address once the service
    is ready, in words or as JSON.
    """
    uvicorn = import_optional("uvicorn", "The service", extra="service")
    import_optional("starlette", "The service", extra="service")
    import_optional("msgspec", "The service", extra="service")
    from kernelbandits.service.api import create_app
    from kernelbandits.service.dashboard import routes

    sys.setswitchinterval(SWITCH_SECONDS)
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS, 20, 10)
    with hold_folder(settings):
        check_address(settings)
        learner = open_learner(settings, fatal=_end, **({} if at is None else {"at": at}))
        try:
            if not settings.is_loopback and not _has_key(learner):
                raise InvalidParameter(
                    f"Beyond this machine ({settings.host}) a service needs a key. Create one: "
                    f"kernelbandits keys create --data {settings.data} --scope decide --scope reward"
                )
            app = create_app(learner, settings, routes=routes)
            config = uvicorn.Config(
                app,
                host=settings.host,
                port=settings.port,
                log_level="warning",
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=5,
                timeout_keep_alive=30,
                lifespan="on",
            )
            server = _announcing(uvicorn, config, learner, settings, first, say, as_json)
            for number in (signal.SIGTERM, signal.SIGINT):  # uvicorn raises them again when it has ended
                signal.signal(number, lambda *_: None)
            server.run()
        finally:
            learner.store.close()
    return EXIT_FAILED if learner.error is not None else 0


def check_address(settings: Settings) -> None:
    """Raise InvalidParameter if nothing can listen at the address."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        socket.create_server((settings.host, settings.port), family=family).close()
    except OSError as error:
        raise InvalidParameter(
            f"The service cannot listen at {settings.url}: {error.strerror}. Name another address, such as --port "
            f"{settings.port % 65_535 + 1}."
        ) from error


def _has_key(learner: Learner) -> bool:
    listed = learner.store.keys()
    return any(key.revoked is None for key in listed)


def _announcing(
    uvicorn: Any, config: Any, learner: Learner, settings: Settings, first: str | None, say: Callable[[str], None],
    as_json: bool,
) -> Any:  # fmt: skip
    """A server that says where it is once it listens and has recovered."""
    import asyncio

    class Announcing(uvicorn.Server):  # type: ignore[misc]
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets=sockets)
            if self.started and self.servers:
                port = self.servers[0].sockets[0].getsockname()[1]
                self._announcing = asyncio.create_task(self._announce(settings.with_port(port)))

        async def _announce(self, found: Settings) -> None:
            while learner.state == "recovering":
                await asyncio.sleep(0.02)
            if learner.state == "ready":
                await asyncio.to_thread(_begin_first, learner, first)
                told = _announcement(found, learner)
                say(json.dumps(told) if as_json else _words(told))

    return Announcing(config)


def _begin_first(learner: Learner, first: str | None) -> None:
    """Create the first experiment of a new folder."""
    if first is None or learner.experiments:
        return
    learner.create(Experiment(name=first, **FIRST)).result()  # type: ignore[arg-type]
    learner.transition(first, "start").result()


def _announcement(settings: Settings, learner: Learner) -> dict[str, Any]:
    """What is printed when the service is ready."""
    found: dict[str, Any] = {"data": str(settings.data), "url": settings.url, "examples": []}
    takes_strings = [
        one for one in learner.experiments.values() if one.state == "running" and one.spec.policy == FIRST["policy"]
    ]
    if takes_strings:
        name = takes_strings[0].name
        id = next(id for id in map("d{}".format, count(1)) if learner.store.decision(name, id) is None)
        base = f"{settings.url}/v1/experiments/{name}/decisions/{id}"
        body = '{"actions":[{"id":"a","x":"Cheap flights to Rome"},{"id":"b","x":"Rome wins the cup"}]}'
        sending = "curl -X PUT -H 'content-type: application/json'"
        found["examples"] = [f"{sending} {base} -d '{body}'", f"{sending} {base}/rewards/r1 -d '{{\"reward\":1}}'"]
    return found


def _words(found: dict[str, Any]) -> str:
    lines = [f"kernelbandits serves {found['data']} at {found['url']}", f"Dashboard: {found['url']}/"]
    if found["examples"]:
        lines += ["", "A decision, and its reward:", *(f"  {example}" for example in found["examples"])]
    return "\n".join([*lines, ""])


def _end(error: BaseException) -> None:
    """End the process at once: nothing more is acknowledged, and the log is what recovery reads."""
    print(f"kernelbandits: the service ends: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
    os._exit(EXIT_FAILED)
