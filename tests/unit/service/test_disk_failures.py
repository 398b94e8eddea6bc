"""Power cuts, torn logs, full disks and I/O errors: nothing acknowledged is lost, nothing is acknowledged falsely."""

import errno
import shutil
import sqlite3
from contextlib import suppress

import pytest

from disks import Disk, failing, store_on
from kernelbandits.service.log import verify_chain
from kernelbandits.service.model import Model
from kernelbandits.service.problems import Problem
from kernelbandits.service.store import Draft, SqliteStore, StoreDamaged, StoreError, StoreFull
from services import (
    PATIENCE,
    check,
    decide,
    drive,
    eventually,
    experiment,
    learner_at,
    request,
    reward,
    running,
    settle,
)


def fill(store, n, acknowledged, size=300):
    for number in range(n):
        rows = store.append([Draft("e", "state", "", 0.0, b'{"state":"%d%s"}' % (number, b"x" * size))])
        acknowledged.extend(rows)


def losses(tmp_path, n_cuts, synchronous):
    """Cut the power at many points of one run; return lost rows, acknowledged rows and damaged databases."""
    disk = Disk()
    acknowledged = []
    cuts = []

    def before(operation, path):
        disk.n_operations += 1
        if len(cuts) < n_cuts and disk.n_operations % step == 0:
            folder = tmp_path / f"{synchronous}-{len(cuts)}"
            folder.mkdir()
            disk.cut(folder, len(cuts))
            cuts.append((folder, len(acknowledged)))

    step = 10**9
    disk.before = before
    (tmp_path / synchronous).mkdir()
    store = store_on(disk, tmp_path / synchronous / "log.db", synchronous=synchronous)
    step = 7
    store._writer.execute("PRAGMA wal_autocheckpoint=20")
    while len(cuts) < n_cuts:
        fill(store, 20, acknowledged)
    store.close()
    lost = total = damaged = 0
    for folder, n_acknowledged in cuts:
        total += n_acknowledged
        try:
            left = SqliteStore(folder / "log.db")
            n_rows, findings = verify_chain(left)
            damaged += bool(findings or left.check())
            left.close()
        except StoreError:
            damaged, n_rows = damaged + 1, 0
        lost += max(0, n_acknowledged - n_rows)
        shutil.rmtree(folder)
    return lost, total, damaged


def test_a_power_cut_loses_nothing_that_was_acknowledged(tmp_path):
    lost, total, damaged = losses(tmp_path, 40, "FULL")

    assert (lost, damaged) == (0, 0)
    assert total > 100


def test_without_flushes_the_same_power_cuts_lose_rows(tmp_path):
    lost, total, _ = losses(tmp_path, 40, "NORMAL")

    assert lost > total / 50


@pytest.mark.long
def test_two_thousand_power_cuts_lose_nothing(tmp_path):
    lost, total, damaged = losses(tmp_path, 2_000, "FULL")

    assert (lost, damaged) == (0, 0)
    assert total > 100_000


def test_a_log_that_is_truncated_anywhere_keeps_every_whole_commit(tmp_path):
    live = SqliteStore(tmp_path / "log.db")
    live._writer.execute("PRAGMA wal_autocheckpoint=0")
    ends = [(tmp_path / "log.db-wal").stat().st_size]
    acknowledged = []
    for _ in range(8):
        fill(live, 1, acknowledged, size=3_000)
        ends.append((tmp_path / "log.db-wal").stat().st_size)
    frame, head = 4_096 + 24, 32
    sizes = sorted({head + frame * n + offset for n in range((ends[-1] - head) // frame + 1) for offset in (-1, 0, 1)})

    for size in sizes:
        folder = tmp_path / f"cut-{size}"
        folder.mkdir()
        shutil.copy(tmp_path / "log.db", folder)
        data = (tmp_path / "log.db-wal").read_bytes()
        (folder / "log.db-wal").write_bytes(data[: max(0, size)])
        expected = sum(end <= size for end in ends[1:])
        if size < ends[0]:  # the schema itself
            continue
        left = SqliteStore(folder / "log.db")
        assert verify_chain(left) == (expected, []), size
        left.close()
    live.close()


def test_a_full_disk_makes_the_service_read_only_until_it_has_room(tmp_path):
    with running(tmp_path) as learner:
        experiment(learner)
        acknowledged = drive(learner, 10)
        settle(learner)
        store = learner.store
        (pages,) = store._writer.execute("PRAGMA page_count").fetchone()
        store._writer.execute(f"PRAGMA max_page_count={pages + 1}").fetchall()

        problems = []
        for number in range(100, 140):
            try:
                acknowledged.append(decide(learner, f"d{number}", request(number, n=20)))
            except Problem as problem:
                problems.append((problem.code, problem.status, problem.retry_after))
        assert len(problems) > 10
        assert set(problems) == {("read-only", 503, 5)}
        assert learner.state == "read-only"
        with pytest.raises(StoreFull):  # there is a page, which is too little to go on
            store.probe()
        assert learner.experiments["e"].stored_answer("d3").replayed  # reads go on
        assert verify_chain(store)[1] == []

        store._writer.execute("PRAGMA max_page_count=1000000").fetchall()
        eventually(lambda: learner.is_ready)
        acknowledged.append(decide(learner, "again"))
        acknowledged.append(reward(learner, "again", 0.5))
        settle(learner)
        check(learner, acknowledged)


def test_a_disk_without_room_for_a_snapshot_does_not_end_the_service(tmp_path, monkeypatch):
    def full(self, path):
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    with running(tmp_path, snapshot_rows=10) as learner:
        experiment(learner)
        with monkeypatch.context() as patch:
            patch.setattr(Model, "save", full)
            acknowledged = drive(learner, 20)
            assert learner.store.snapshots("e") == []
        acknowledged += drive(learner, 20, start=20)
        eventually(lambda: learner.store.snapshots("e"))
        assert learner.is_ready
        check(learner, acknowledged)


def fails_at(tmp_path, number, n_decisions=6):
    """Let the n-th write or flush of a running service fail; return whether it did, after checking everything."""
    folder = tmp_path / str(number)
    folder.mkdir()
    disk = Disk()
    ended = []
    learner = learner_at(folder, store=store_on(disk, folder / "log.db"), fatal=ended.append)
    learner.start()
    experiment(learner)
    acknowledged = []
    failing(disk, number)
    try:
        for each in range(n_decisions):
            acknowledged.append(decide(learner, f"d{each}"))
            acknowledged.append(reward(learner, f"d{each}", 0.5))
    except Problem:
        eventually(lambda: ended)
        assert learner.state == "failed"
        assert not learner.is_ready
    disk.before = lambda operation, path: None
    learner.stop(snapshot=False)
    with suppress(Exception):  # what the disk refused before
        learner.store.close()
    with running(folder) as recovered:
        settle(recovered)
        check(recovered, acknowledged)
    shutil.rmtree(folder)
    return bool(ended)


def test_an_io_error_ends_the_process_and_recovery_finds_all_that_was_acknowledged(tmp_path):
    failed = [fails_at(tmp_path, number) for number in (1, 2, 3, 4, 5, 7, 10, 14, 20, 30)]

    assert sum(failed) >= 8


@pytest.mark.long
def test_an_io_error_at_each_of_three_hundred_operations(tmp_path):
    failed = [fails_at(tmp_path, number, n_decisions=40) for number in range(1, 301)]

    assert sum(failed) > 250


def test_a_flipped_bit_makes_the_service_read_only_and_is_named(tmp_path):
    with running(tmp_path) as learner:
        experiment(learner)
        drive(learner, 12)
    with sqlite3.connect(tmp_path / "log.db") as other:
        ((seq, body),) = other.execute("SELECT seq, body FROM log WHERE type = 'learn' ORDER BY seq LIMIT 1 OFFSET 3")
        flipped = bytes([*body[:-4], body[-4] ^ 1, *body[-3:]])
        other.execute("UPDATE log SET body = ? WHERE seq = ?", (flipped, seq))
    other.close()

    learner = learner_at(tmp_path)
    learner.start()

    assert learner.state == "read-only"
    assert f"Row {seq} (learn )" in str(learner.error)
    with pytest.raises(Problem, match="The log is damaged"):
        decide(learner, "new")
    assert learner.experiments["e"].stored_answer("d1").replayed
    assert verify_chain(learner.store)[1] == [f"row {seq} (learn ) has another body than was written"]
    learner.stop()
    learner.store.close()


def test_requests_that_wait_when_damage_is_found_are_answered(tmp_path):
    waiting = []

    def at(point):
        if point == "apply" and is_damaged:
            waiting.extend(learner.decide("e", f"x{number}", request(number)).future for number in range(3))
            raise StoreDamaged("A row is damaged.")

    is_damaged = False
    learner = learner_at(tmp_path, at=at)
    learner.start()
    experiment(learner)
    decide(learner, "d1")
    settle(learner)
    is_damaged = True
    decide(learner, "d2")

    eventually(lambda: learner.state == "read-only")
    for future in eventually(lambda: waiting):
        with pytest.raises(Problem, match="The log is damaged"):
            future.result(PATIENCE)
    learner.stop()
    learner.store.close()


def test_a_damaged_snapshot_is_passed_over(tmp_path):
    with running(tmp_path, snapshot_rows=20) as learner:
        live = experiment(learner)
        drive(learner, 40)
        settle(learner)
        record = live.model.record
        files = [tmp_path / entry.file for entry in learner.store.snapshots("e")]
    assert len(files) == 2

    for damaged in files:  # the latest, then the older one too: a full replay
        data = bytearray(damaged.read_bytes())
        data[len(data) // 2] ^= 1
        damaged.write_bytes(bytes(data))
        with running(tmp_path) as learner:
            assert learner.experiments["e"].model.record == record
            check(learner)
