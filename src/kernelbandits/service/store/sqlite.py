"""SQLite store: one file in write-ahead logging mode, every commit flushed, through apsw."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from time import sleep
from typing import Any, ClassVar, Final, Literal

from kernelbandits._optional import import_optional
from kernelbandits.errors import InvalidParameter
from kernelbandits.service.store.base import (
    ZERO,
    Draft,
    Entry,
    Key,
    MarkDecision,
    MarkExtended,
    MarkReward,
    MarkStatus,
    NewerStore,
    RewardEntry,
    Row,
    SnapshotEntry,
    Store,
    StoreBusy,
    StoreDamaged,
    StoreError,
    StoreFailed,
    StoreFull,
    chained,
    checked,
    digest_of,
)

__all__ = ["SqliteStore"]

PAGE: Final = 500
"""Rows that a reader takes in one transaction: a long transaction would stop checkpoints."""

BUSY_MILLISECONDS: Final = 5_000

PROBE_BYTES: Final = 1 << 18
"""Room that a probe requires: with less, the next commits would fill the disk again."""

CHECKPOINT_ATTEMPTS: Final = 20
CHECKPOINT_PAUSE: Final = 0.05

APPLICATION_ID: Final = 0x6B62_7376
"""Marks a database of this service (`PRAGMA application_id`)."""

FIRST_SCHEMA: Final = """
CREATE TABLE log (
    seq INTEGER PRIMARY KEY,
    experiment TEXT NOT NULL,
    type TEXT NOT NULL,
    id TEXT NOT NULL,
    at REAL NOT NULL,
    body BLOB,
    digest BLOB NOT NULL,
    chain BLOB NOT NULL
);
CREATE INDEX log_by_experiment ON log (experiment, seq);
CREATE INDEX log_settings ON log (experiment, type, seq) WHERE type NOT IN ('decision', 'reward', 'learn', 'closed');
CREATE TABLE decisions (
    experiment TEXT NOT NULL,
    id TEXT NOT NULL,
    seq INTEGER NOT NULL,
    status TEXT NOT NULL,
    closes_at REAL NOT NULL,
    request TEXT NOT NULL,
    learned TEXT,
    subject TEXT,
    PRIMARY KEY (experiment, id)
) WITHOUT ROWID;
CREATE INDEX decisions_open ON decisions (experiment, seq) WHERE status IN ('open', 'waiting', 'due');
CREATE INDEX decisions_by_subject ON decisions (experiment, subject) WHERE subject IS NOT NULL;
CREATE TABLE rewards (
    experiment TEXT NOT NULL,
    decision TEXT NOT NULL,
    id TEXT NOT NULL,
    seq INTEGER NOT NULL,
    value REAL NOT NULL,
    place INTEGER NOT NULL,
    is_late INTEGER NOT NULL,
    request TEXT NOT NULL,
    PRIMARY KEY (experiment, decision, id)
) WITHOUT ROWID;
CREATE TABLE counts (experiment TEXT NOT NULL, type TEXT NOT NULL, n INTEGER NOT NULL, PRIMARY KEY (experiment, type))
    WITHOUT ROWID;
CREATE TABLE snapshots (
    experiment TEXT NOT NULL,
    policy TEXT NOT NULL,
    seq INTEGER NOT NULL,
    file TEXT NOT NULL,
    record TEXT NOT NULL,
    PRIMARY KEY (experiment, policy, seq)
) WITHOUT ROWID;
CREATE TABLE keys (
    id TEXT PRIMARY KEY,
    digest BLOB NOT NULL UNIQUE,
    scopes TEXT NOT NULL,
    experiments TEXT NOT NULL,
    created REAL NOT NULL,
    revoked REAL
) WITHOUT ROWID;
CREATE TABLE probe (id INTEGER PRIMARY KEY, n INTEGER NOT NULL);
"""

Upgrade = Callable[[Any], None]

FREQUENT: Final = frozenset(("decision", "reward", "learn", "closed"))
RARE: Final = "type NOT IN ('decision', 'reward', 'learn', 'closed')"

COLUMNS: Final = "seq, experiment, type, id, at, body, digest, chain"
ENTRY: Final = "experiment, id, seq, status, closes_at, request, learned"


class SqliteStore(Store):
    """SQLite database, in WAL mode with `synchronous=FULL`: every commit is flushed before it returns.

    Parameters
    ----------
    path
        The database; created if it does not exist.
    synchronous
        "FULL" keeps the promise of a store. "NORMAL" does not: commits since the last checkpoint are lost by a power
        cut. It exists so that tests can show that they would notice.
    vfs, is_exclusive
        Name of an apsw VFS, and whether the only connection holds the file alone, which needs no shared memory.
    is_read_only
        Whether to open an existing database for reading only, beside a running service.
    """

    _upgrades: ClassVar[Sequence[Upgrade]] = (lambda connection: connection.execute(FIRST_SCHEMA),)
    """Steps from one schema version to the next; the version of a database is the number of steps it has taken."""

    def __init__(
        self,
        path: str | Path,
        *,
        synchronous: Literal["FULL", "NORMAL"] = "FULL",
        vfs: str | None = None,
        is_exclusive: bool = False,
        is_read_only: bool = False,
    ) -> None:
        self._apsw = import_optional("apsw", "The store of the service", extra="service")
        self.path = Path(path)
        self._vfs, self._is_exclusive, self._is_read_only = vfs, is_exclusive, is_read_only
        self._synchronous = synchronous
        self._lock = threading.RLock()  # of the writing connection
        self._readers = threading.local()
        self._opened: list[Any] = []
        self._stamp: tuple[int, int] | None = None
        if is_read_only and not self.path.exists():
            raise StoreError(f"There is no database {str(self.path)!r}. Make one: kernelbandits init")
        with self._translated():
            self._writer = self._connect(self._apsw.SQLITE_OPEN_READONLY if is_read_only else None)
            if not is_read_only:
                self._prepare()
        self._check_version()
        with self._translated():
            last = self._writer.execute("SELECT seq, chain FROM log ORDER BY seq DESC LIMIT 1").fetchone()
        self._seq: int = 0 if last is None else last[0]
        self._chain: bytes = ZERO if last is None else last[1]
        self._stamp = self._file_stamp()

    # -- opening -----------------------------------------------------------------------------------------------------

    def _connect(self, flags: int | None = None) -> Any:
        apsw = self._apsw
        usual = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
        connection = apsw.Connection(
            str(self.path), flags=usual if flags is None else flags, **({"vfs": self._vfs} if self._vfs else {})
        )
        connection.set_busy_timeout(BUSY_MILLISECONDS)
        with self._lock:
            self._opened.append(connection)
        return connection

    def _prepare(self) -> None:
        """Set the mode of the writing connection, and create or upgrade the schema."""
        run = self._writer.execute
        if self._is_exclusive:
            run("PRAGMA locking_mode=EXCLUSIVE")
        (mode,) = run("PRAGMA journal_mode=WAL").fetchone()
        if mode != "wal":
            raise StoreError(
                f"The file system of {str(self.path)!r} does not support write-ahead logging. Use a local disk."
            )
        run(f"PRAGMA synchronous={self._synchronous}")
        run("PRAGMA secure_delete=ON")
        run("PRAGMA journal_size_limit=67108864")
        (version,) = run("PRAGMA user_version").fetchone()
        if version and version < len(self._upgrades):
            self.backup(self.path.with_name(f"{self.path.name}.version-{version}.backup"))
        if version < len(self._upgrades):
            with self._transaction():
                for step in self._upgrades[version:]:
                    step(self._writer)
                run(f"PRAGMA user_version={len(self._upgrades)}")
                run(f"PRAGMA application_id={APPLICATION_ID}")

    def _check_version(self) -> None:
        with self._translated():
            (version,) = self._writer.execute("PRAGMA user_version").fetchone()
            (owner,) = self._writer.execute("PRAGMA application_id").fetchone()
        if version > len(self._upgrades):
            self.close()
            raise NewerStore(
                f"{str(self.path)!r} has schema version {version}; this version of kernelbandits reads up to "
                f"{len(self._upgrades)}. Upgrade: pip install -U kernelbandits",
            )
        if owner != APPLICATION_ID or version < len(self._upgrades):
            self.close()
            raise StoreDamaged(
                f"{str(self.path)!r} is not a database of this service, or has not been upgraded. Name another."
            )

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        run = self._writer.execute
        run("BEGIN IMMEDIATE")
        try:
            yield
            run("COMMIT")
        except BaseException:
            with suppress(Exception):
                if self._writer.in_transaction:
                    run("ROLLBACK")
            raise

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Raise errors of SQLite as errors of a store."""
        apsw = self._apsw
        try:
            yield
        except apsw.FullError as error:
            raise StoreFull(f"The disk of {str(self.path)!r} is full: {error}.") from error
        except (apsw.CorruptError, apsw.NotADBError) as error:
            raise StoreDamaged(f"{str(self.path)!r} is damaged: {error}. Restore a backup.") from error
        except (apsw.BusyError, apsw.LockedError) as error:
            raise StoreBusy(f"Another process is writing into {str(self.path)!r}: {error}.") from error
        except (apsw.CantOpenError, apsw.ReadOnlyError, apsw.PermissionsError) as error:
            raise StoreError(f"{str(self.path)!r} cannot be opened for writing: {error}.") from error
        except apsw.Error as error:
            raise StoreFailed(f"{str(self.path)!r}: {type(error).__name__}: {error}.") from error

    def _file_stamp(self) -> tuple[int, int] | None:
        with suppress(OSError):
            status = self.path.stat()
            return status.st_dev, status.st_ino
        return None

    def is_replaced(self) -> bool:
        """Whether the file was deleted or replaced since it was opened."""
        return self._file_stamp() != self._stamp

    # -- writing -----------------------------------------------------------------------------------------------------

    def append(self, drafts: Sequence[Draft], *, erase: Sequence[int] = ()) -> list[Row]:
        rows: list[Row] = []
        seq, chain = self._seq, self._chain
        for draft in drafts:
            seq += 1
            digest = digest_of(draft.body)
            chain = chained(chain, seq, draft, digest)
            rows.append(Row(seq, draft.experiment, draft.type, draft.id, draft.at, draft.body, digest, chain))
        counts: dict[tuple[str, str], int] = {}
        for row in rows:
            key = row.experiment, row.type
            counts[key] = counts.get(key, 0) + 1
        with self._lock, self._translated(), self._transaction():
            writer = self._writer
            writer.executemany(f"INSERT INTO log ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
            for row, draft in zip(rows, drafts, strict=True):
                for mark in draft.marks:
                    self._index(row, mark)
            writer.executemany(
                "INSERT INTO counts VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET n = n + excluded.n",
                [(*key, n) for key, n in counts.items()],
            )
            if erase:
                self._erase(erase)
        self._seq, self._chain = seq, chain
        if erase:
            self._empty_wal()
        return rows

    def _empty_wal(self) -> None:
        """Take the write-ahead log into the database and empty it, so that it holds nothing that was erased."""
        for _ in range(CHECKPOINT_ATTEMPTS):
            with self._lock, self._translated():
                ((is_busy, _, _),) = self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            if not is_busy:
                return
            sleep(CHECKPOINT_PAUSE)  # a reader is in its short transaction

    def _index(self, row: Row, mark: Any) -> None:
        run = self._writer.execute
        match mark:
            case MarkDecision():
                run(
                    "INSERT INTO decisions VALUES (?, ?, ?, ?, ?, ?, NULL, ?)",
                    (row.experiment, row.id, row.seq, mark.status, mark.closes_at, mark.request, mark.subject),
                )
            case MarkReward():
                run(
                    "INSERT INTO rewards VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                    (
                        row.experiment, mark.decision, row.id, row.seq, mark.value, mark.place, int(mark.is_late),
                        mark.request,
                    ),
                )  # fmt: skip
            case MarkStatus():
                run(
                    "UPDATE decisions SET status = coalesce(?, status), closes_at = coalesce(?, closes_at), "
                    "learned = coalesce(?, learned) WHERE experiment = ? AND id = ?",
                    (mark.status, mark.closes_at, mark.learned, row.experiment, mark.decision),
                )
            case MarkExtended():
                run(
                    "UPDATE decisions SET closes_at = closes_at + ? WHERE experiment = ? AND status IN "
                    "('open', 'waiting')",
                    (mark.seconds, row.experiment),
                )

    def _erase(self, seqs: Sequence[int]) -> None:
        for seq in seqs:
            self._writer.execute("UPDATE log SET body = NULL WHERE seq = ?", (seq,))
            self._writer.execute(
                "UPDATE decisions SET subject = NULL, status = 'erased' WHERE (experiment, id) = "
                "(SELECT experiment, id FROM log WHERE seq = ? AND type = 'decision')",
                (seq,),
            )

    def probe(self) -> None:
        for statement in (f"INSERT OR REPLACE INTO probe VALUES (1, zeroblob({PROBE_BYTES}))", "DELETE FROM probe"):
            with self._lock, self._translated(), self._transaction():
                self._writer.execute(statement)

    # -- reading -----------------------------------------------------------------------------------------------------

    def _read(self, statement: str, values: Sequence[Any] = ()) -> list[Any]:
        """Run a query in a transaction of its own, on a connection of this thread."""
        if self._is_exclusive:
            with self._lock, self._translated():
                return self._writer.execute(statement, values).fetchall()  # type: ignore[no-any-return]
        with self._translated():
            reader = getattr(self._readers, "connection", None)
            if reader is None:
                reader = self._readers.connection = self._connect(self._apsw.SQLITE_OPEN_READONLY)
            return reader.execute(statement, values).fetchall()  # type: ignore[no-any-return]

    def head(self) -> Row | None:
        found = self._read(f"SELECT {COLUMNS} FROM log ORDER BY seq DESC LIMIT 1")
        return Row(*found[0]) if found else None

    def row(self, seq: int) -> Row | None:
        found = self._read(f"SELECT {COLUMNS} FROM log WHERE seq = ?", (seq,))
        return checked(Row(*found[0])) if found else None

    def rows(
        self,
        experiment: str | None = None,
        *,
        after: int = 0,
        upto: int | None = None,
        types: Iterable[str] = (),
        is_checked: bool = True,
    ) -> Iterator[Row]:
        listed = tuple(types)
        conditions = ["seq > ?", "seq <= ?"]
        if experiment is not None:
            conditions.append("experiment = ?")
        if listed:
            conditions.append(f"type IN ({', '.join(map(repr, listed))})")
            if FREQUENT.isdisjoint(listed):
                conditions.append(RARE)  # names the partial index
        last = 2**62 if upto is None else upto
        given = () if experiment is None else (experiment,)
        while True:
            page = self._read(
                f"SELECT {COLUMNS} FROM log WHERE {' AND '.join(conditions)} ORDER BY seq LIMIT {PAGE}",
                (after, last, *given),
            )
            for row in page:
                yield checked(Row(*row)) if is_checked else Row(*row)
            if len(page) < PAGE:
                return
            after = page[-1][0]

    def decision(self, experiment: str, id: str) -> Entry | None:
        found = self._read(f"SELECT {ENTRY} FROM decisions WHERE experiment = ? AND id = ?", (experiment, id))
        return Entry(*found[0]) if found else None

    def decisions(self, experiment: str, *, status: Sequence[str] = (), subject: str | None = None) -> Iterator[Entry]:
        conditions, given = ["experiment = ?", "seq > ?"], []
        if status:
            conditions.append(f"status IN ({', '.join(map(repr, status))})")
        if subject is not None:
            conditions.append("subject = ?")
            given.append(subject)
        after = 0
        while True:
            page = self._read(
                f"SELECT {ENTRY} FROM decisions WHERE {' AND '.join(conditions)} ORDER BY seq LIMIT {PAGE}",
                (experiment, after, *given),
            )
            for entry in page:
                yield Entry(*entry)
            if len(page) < PAGE:
                return
            after = page[-1][2]

    def rewards(self, experiment: str, decision: str) -> list[RewardEntry]:
        found = self._read(
            "SELECT decision, id, seq, value, place, is_late, request FROM rewards WHERE experiment = ? AND "
            "decision = ? ORDER BY seq",
            (experiment, decision),
        )
        return [
            RewardEntry(decision, reward, seq, value, place, bool(late), request)
            for decision, reward, seq, value, place, late, request in found
        ]

    def counts(self, experiment: str) -> dict[str, int]:
        return dict(self._read("SELECT type, n FROM counts WHERE experiment = ?", (experiment,)))

    # -- snapshots and keys ------------------------------------------------------------------------------------------

    def _write(self, statement: str, values: Sequence[Any]) -> None:
        if self._is_read_only:
            raise InvalidParameter("The store was opened for reading only.")
        with self._lock, self._translated(), self._transaction():
            self._writer.execute(statement, values)

    def add_snapshot(self, snapshot: SnapshotEntry) -> None:
        self._write("INSERT OR REPLACE INTO snapshots VALUES (?, ?, ?, ?, ?)", snapshot)

    def snapshots(self, experiment: str, policy: str | None = None) -> list[SnapshotEntry]:
        found = self._read(
            "SELECT experiment, policy, seq, file, record FROM snapshots WHERE experiment = ? ORDER BY seq DESC",
            (experiment,),
        )
        return [entry for entry in (SnapshotEntry(*row) for row in found) if policy in (None, entry.policy)]

    def remove_snapshots(self, experiment: str, *, upto: int, policy: str | None = None) -> list[SnapshotEntry]:
        removed = [entry for entry in self.snapshots(experiment, policy) if entry.seq <= upto]
        for entry in removed:
            self._write(
                "DELETE FROM snapshots WHERE experiment = ? AND policy = ? AND seq = ?",
                (entry.experiment, entry.policy, entry.seq),
            )
        return removed

    def add_key(self, key: Key) -> None:
        self._write(
            "INSERT INTO keys VALUES (?, ?, ?, ?, ?, ?)",
            (key.id, key.digest, " ".join(sorted(key.scopes)), " ".join(sorted(key.experiments)), key.created, None),
        )

    def keys(self) -> list[Key]:
        return [_key(row) for row in self._read("SELECT * FROM keys ORDER BY created")]

    def key(self, digest: bytes) -> Key | None:
        found = self._read("SELECT * FROM keys WHERE digest = ?", (digest,))
        return _key(found[0]) if found else None

    def revoke_key(self, id: str, at: float) -> bool:
        known = any(key.id == id for key in self.keys())
        self._write("UPDATE keys SET revoked = coalesce(revoked, ?) WHERE id = ?", (at, id))
        return known

    # -- operation ---------------------------------------------------------------------------------------------------

    def backup(self, path: Path) -> None:
        with self._lock, self._translated():
            target = self._apsw.Connection(str(path))
            try:
                with target.backup("main", self._writer, "main") as copying:
                    copying.step()
                target.execute("PRAGMA journal_mode=DELETE").fetchall()
            finally:
                target.close()

    def check(self) -> list[str]:
        return [text for (text,) in self._read("PRAGMA integrity_check") if text != "ok"]

    def size(self) -> int:
        total = 0
        for ending in ("", "-wal", "-shm"):
            with suppress(OSError):
                total += self.path.with_name(self.path.name + ending).stat().st_size
        return total

    def free(self) -> int:
        """Free bytes of the disk."""
        return shutil.disk_usage(self.path.parent).free

    def close(self) -> None:
        with self._lock:
            for connection in reversed(self._opened):  # the writing one last: it takes the log into the database
                with suppress(self._apsw.Error):
                    connection.close(True)
            self._opened.clear()


def _key(row: Sequence[Any]) -> Key:
    name, digest, scopes, experiments, created, revoked = row
    return Key(name, digest, frozenset(scopes.split()), frozenset(experiments.split()), created, revoked)
