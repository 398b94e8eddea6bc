import sqlite3
from pathlib import Path

import pytest

from kernelbandits.service.log import verify_chain
from kernelbandits.service.store import (
    Draft,
    Key,
    MarkDecision,
    MarkReward,
    MarkStatus,
    NewerStore,
    SnapshotEntry,
    SqliteStore,
    StoreDamaged,
    StoreError,
)


def draft(number, type="decision", marks=None):
    mark = (MarkDecision("open", 10.0 + number, f"q{number}", "someone"),) if marks is None else marks
    return Draft("e", type, f"d{number}", float(number), f'{{"n":{number}}}'.encode(), mark)


class StoreContract:
    """Promises of every store; a subclass supplies the fixtures `store` and `again`, which opens it once more."""

    def test_rows_are_numbered_without_a_gap_and_read_back(self, store, again):
        first = store.append([draft(1), draft(2)])
        second = store.append([draft(3)])

        assert [row.seq for row in (*first, *second)] == [1, 2, 3]
        assert list(store.rows()) == [*first, *second]
        assert verify_chain(store) == (3, [])
        assert again(store).head() == second[-1]

    def test_an_append_that_fails_leaves_nothing(self, store):
        store.append([draft(1)])

        with pytest.raises(StoreError):
            store.append([draft(2), draft(1)])  # the index of decisions has d1 already

        assert [row.id for row in store.rows()] == ["d1"]
        assert store.decision("e", "d2") is None
        assert [row.seq for row in store.append([draft(4)])] == [2]

    def test_indexes_follow_the_marks(self, store, again):
        store.append([draft(1), draft(2)])
        reward = MarkReward("d1", 0.5, 0, False, "digest")
        store.append(
            [draft(9, "reward", (reward,)), draft(0, "closed", (MarkStatus("d2", "closed", learned="[0.5]"),))]
        )
        store = again(store)

        assert store.decision("e", "d1")[2:] == (1, "open", 11.0, "q1", None)
        assert (store.decision("e", "d2").status, store.decision("e", "d2").learned) == ("closed", "[0.5]")
        assert [entry.id for entry in store.decisions("e", status=("open",))] == ["d1"]
        assert [one[:6] for one in store.rewards("e", "d1")] == [("d1", "d9", 3, 0.5, 0, False)]
        assert store.counts("e") == {"decision": 2, "reward": 1, "closed": 1}

    def test_an_erased_row_keeps_its_place_in_the_chain(self, store):
        store.append([draft(1), draft(2)])

        store.append([draft(0, "erased", ())], erase=[1])

        assert store.row(1).body is None
        assert verify_chain(store) == (3, [])
        assert store.decision("e", "d1").status == "erased"
        assert [entry.id for entry in store.decisions("e", subject="someone")] == ["d2"]

    def test_rows_can_be_read_by_experiment_type_and_part(self, store):
        store.append([draft(number) for number in range(1, 1300)])
        store.append([Draft("other", "state", "", 0.0, b"{}")])

        assert len(list(store.rows("e"))) == 1299
        assert [row.seq for row in store.rows("e", after=2, upto=4)] == [3, 4]
        assert [row.experiment for row in store.rows(types=("state",))] == ["other"]

    def test_keys_and_snapshots(self, store, again):
        key = Key("k", b"digest", frozenset({"read"}), frozenset({"e"}), 1.0, None)
        store.add_key(key)
        store.add_snapshot(SnapshotEntry("e", "p1", 5, "file", "record"))
        store.add_snapshot(SnapshotEntry("e", "p1", 9, "later", "record"))
        store = again(store)

        assert store.key(b"digest") == key
        assert store.revoke_key("k", 2.0)
        assert not store.revoke_key("none", 2.0)
        assert store.key(b"digest").revoked == 2.0
        assert [entry.seq for entry in store.snapshots("e")] == [9, 5]
        assert [entry.file for entry in store.remove_snapshots("e", upto=5)] == ["file"]
        assert [entry.seq for entry in store.snapshots("e", "p1")] == [9]

    def test_a_backup_is_a_store(self, store, tmp_path):
        store.append([draft(1)])

        store.backup(tmp_path / "copy.db")

        copy = SqliteStore(tmp_path / "copy.db", is_read_only=True)
        assert verify_chain(copy) == (1, [])
        copy.close()
        assert store.check() == []


class TestSqliteStore(StoreContract):
    @pytest.fixture
    def opened(self):
        return []

    @pytest.fixture
    def store(self, tmp_path, opened):
        opened.append(SqliteStore(tmp_path / "log.db"))
        yield opened[0]
        for store in opened:
            store.close()

    @pytest.fixture
    def again(self, opened):
        def reopen(store):
            store.close()
            opened.append(SqliteStore(store.path))
            return opened[-1]

        return reopen


def test_commits_are_flushed(tmp_path):
    store = SqliteStore(tmp_path / "log.db")

    assert store._writer.execute("PRAGMA synchronous").fetchone() == (2,)
    assert store._writer.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    store.close()


def test_a_changed_body_is_named(tmp_path):
    path = tmp_path / "log.db"
    store = SqliteStore(path)
    store.append([draft(1), draft(2), draft(3)])
    store.close()
    with sqlite3.connect(path) as other:
        other.execute("UPDATE log SET body = ? WHERE seq = 2", (b'{"n":7}',))
    other.close()

    store = SqliteStore(path)

    assert verify_chain(store) == (3, ["row 2 (decision d2) has another body than was written"])
    store.close()


@pytest.mark.parametrize(
    ("statement", "finding"),
    [
        ("UPDATE log SET at = 5 WHERE seq = 2", "row 2 .* does not follow"),
        ("DELETE FROM log WHERE seq = 2", "row 2 is missing"),
        ("UPDATE log SET body = NULL, digest = x'00' WHERE seq = 2", "row 2 .* does not follow"),
    ],
)
def test_a_changed_log_is_found(tmp_path, statement, finding):
    path = tmp_path / "log.db"
    store = SqliteStore(path)
    store.append([draft(1), draft(2), draft(3)])
    store.close()
    with sqlite3.connect(path) as other:
        other.execute(statement)
    other.close()

    store = SqliteStore(path)
    with pytest.raises(AssertionError, match=finding):
        assert not verify_chain(store)[1], verify_chain(store)[1][0]
    store.close()


def test_a_newer_database_is_rejected(tmp_path):
    path = tmp_path / "log.db"
    SqliteStore(path).close()
    with sqlite3.connect(path) as other:
        other.execute("PRAGMA user_version = 99")
    other.close()

    with pytest.raises(NewerStore, match=r"schema version 99; .* up to 1\. Upgrade"):
        SqliteStore(path)


def later_store(step):
    """The store of a later version, whose schema has one more step."""
    return type("LaterStore", (SqliteStore,), {"_upgrades": (*SqliteStore._upgrades, step)})


def test_an_older_database_is_upgraded_after_a_backup(tmp_path):
    path = tmp_path / "log.db"
    store = SqliteStore(path)
    store.append([draft(1)])
    store.close()

    def step(connection):
        connection.execute("CREATE TABLE later (n)")

    store = later_store(step)(path)

    assert store._read("SELECT count(*) FROM later") == [(0,)]
    assert verify_chain(store) == (1, [])
    store.close()
    backup = SqliteStore(path.with_name("log.db.version-1.backup"), is_read_only=True)
    assert verify_chain(backup) == (1, [])
    backup.close()


def test_an_upgrade_that_fails_changes_nothing(tmp_path):
    path = tmp_path / "log.db"
    SqliteStore(path).close()

    def step(connection):
        connection.execute("CREATE TABLE later (n)")
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        later_store(step)(path)

    store = SqliteStore(path)
    assert store._read("SELECT count(*) FROM sqlite_master WHERE name = 'later'") == [(0,)]
    store.close()


def test_a_file_of_something_else_is_rejected(tmp_path):
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as other:
        other.execute("PRAGMA user_version = 1")
        other.execute("CREATE TABLE mine (n)")
    other.close()

    with pytest.raises(StoreDamaged, match="not a database of this service"):
        SqliteStore(path)

    Path(tmp_path / "text.db").write_bytes(b"not a database at all, but long enough to look at" * 100)
    with pytest.raises(StoreDamaged, match="damaged"):
        SqliteStore(tmp_path / "text.db")


def test_a_reader_needs_a_database(tmp_path):
    with pytest.raises(StoreError, match="kernelbandits init"):
        SqliteStore(tmp_path / "none.db", is_read_only=True)
