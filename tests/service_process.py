"""A service in a process of its own, for tests that kill it: python service_process.py FOLDER POINT COUNT.

At the COUNT-th time that it reaches POINT it is killed, or, if POINT begins with "fail at", a thread of it fails.
"""

import os
import signal
import sys
import threading
from pathlib import Path

from disks import Disk, store_on
from kernelbandits.service import serve as server
from kernelbandits.service.settings import Settings
from kernelbandits.service.store import SqliteStore

IN_STORE = {"inside commit": "log.db-wal", "checkpoint": "log.db"}
"""Points that are writes to a file: a commit writes to the log, and a checkpoint to the database."""


def main():
    folder, point, count = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    seen = 0
    lock = threading.Lock()

    def at(name):
        nonlocal seen
        if name == point.removeprefix("fail at "):
            with lock:
                seen += 1
                if seen == count and name != point:
                    raise RuntimeError("a fault")
                if seen == count:
                    os.kill(os.getpid(), signal.SIGKILL)

    if point in IN_STORE:
        server.SqliteStore = lambda path: watched(path, point, at)
    elif point == "migration":
        server.SqliteStore = lambda path: later_store(path, at)
    settings = Settings(data=folder, port=int(sys.argv[4]) if len(sys.argv) > 4 else 0, snapshot_rows=40)
    sys.exit(server.serve(settings, say=lambda text: print(text, flush=True), at=at))


def watched(path, point, at):
    """A store on a disk that names its writes."""
    disk = Disk()
    store = store_on(disk, path)
    store._writer.execute("PRAGMA wal_autocheckpoint=5")
    disk.before = lambda operation, file: (
        at(point) if (operation, Path(file).name) == ("write", IN_STORE[point]) else None
    )
    return store


def later_store(path, at):
    """A store of a later version, with a point in the middle of the upgrade to it."""

    def upgrade(connection):
        connection.execute("CREATE TABLE later (id INTEGER PRIMARY KEY)")
        at("migration")
        connection.execute("INSERT INTO later SELECT seq FROM log")

    class LaterStore(SqliteStore):
        _upgrades = (*SqliteStore._upgrades, upgrade)

    return LaterStore(path)


if __name__ == "__main__":
    main()
