"""Simulated disks for SQLite, as VFS of apsw: power cuts that lose what was not flushed, and I/O errors at any call."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import apsw

from kernelbandits.service.store import SqliteStore

SECTOR = 512
NUMBERS = itertools.count()


class _File(apsw.VFSFile):
    def __init__(self, disk, name, flags):
        self.disk = disk
        self.path = name.filename() if hasattr(name, "filename") else str(name)
        super().__init__("", name, flags)
        disk.opened(self.path)

    def xWrite(self, data, offset):
        self.disk.before("write", self.path)
        super().xWrite(data, offset)
        self.disk.written(self.path, offset, bytes(data))

    def xTruncate(self, size):
        self.disk.before("truncate", self.path)
        super().xTruncate(size)
        self.disk.truncated(self.path, size)

    def xSync(self, flags):
        self.disk.before("sync", self.path)
        super().xSync(flags)
        self.disk.synced(self.path)


class Disk(apsw.VFS):
    """A disk that notes what was flushed. `before` is called with each operation, and may raise."""

    def __init__(self):
        self.name = f"simulated-{next(NUMBERS)}"
        self.durable: dict[str, bytes] = {}
        self.waiting: dict[str, list[tuple[int | None, bytes | int]]] = {}
        self.n_operations = 0
        self.before = self._count
        super().__init__(self.name, "")

    def xOpen(self, name, flags):
        return _File(self, name, flags)

    def xDelete(self, name, sync):
        super().xDelete(name, sync)
        self.durable.pop(name, None)
        self.waiting.pop(name, None)

    def _count(self, operation, path):
        self.n_operations += 1

    def opened(self, path):
        if path not in self.durable:
            self.durable[path] = Path(path).read_bytes() if Path(path).exists() else b""
            self.waiting[path] = []

    def written(self, path, offset, data):
        self.waiting[path].append((offset, data))

    def truncated(self, path, size):
        self.waiting[path].append((None, size))

    def synced(self, path):
        content = bytearray(self.durable[path])
        for change in self.waiting[path]:
            _apply(content, change)
        self.durable[path], self.waiting[path] = bytes(content), []

    def cut(self, folder, seed):
        """Write what a power cut now could leave: flushed content, and any part of the rest, in any order, torn."""
        draw = random.Random(seed)
        for path, content in self.durable.items():
            if path.endswith("-shm"):
                continue
            left = bytearray(content)
            kept = [change for change in self.waiting[path] if draw.random() < 0.5]
            draw.shuffle(kept)
            for change in kept:
                _apply(left, _torn(change, draw))
            (Path(folder) / Path(path).name).write_bytes(bytes(left))


def _apply(content, change):
    offset, data = change
    if offset is None:
        del content[data:]
        return
    if len(content) < offset:
        content.extend(bytes(offset - len(content)))
    content[offset : offset + len(data)] = data


def _torn(change, draw):
    """A write of which only some sectors arrived."""
    offset, data = change
    if offset is None or draw.random() < 0.5:
        return change
    return offset, data[: SECTOR * draw.randrange(len(data) // SECTOR + 1)]


def store_on(disk, path, **options):
    """A store on a simulated disk."""
    return SqliteStore(path, vfs=disk.name, is_exclusive=True, **options)


def failing(disk, number, kinds=("write", "sync", "truncate")):
    """Let the n-th operation fail with an I/O error, and all after it."""
    seen = itertools.count(1)

    def before(operation, path):
        if operation in kinds and next(seen) >= number:
            raise apsw.IOError(f"simulated failure of a {operation}")

    disk.before = before
