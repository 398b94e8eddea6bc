import os

import pytest

from kernelbandits.errors import FolderInUse
from kernelbandits.experiments import durable
from kernelbandits.experiments.durable import leftovers, locked, write_durably


def test_a_file_is_replaced_whole(tmp_path):
    path = tmp_path / "file"
    write_durably(path, b"old")
    write_durably(path, b"new")

    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["file"]


def test_a_write_that_fails_leaves_what_was_there(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_durably(path, b"old")

    def full(_):
        raise OSError("No space left on device")

    monkeypatch.setattr(durable.os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_durably(path, b"new")

    assert path.read_bytes() == b"old"
    assert leftovers(tmp_path) == []


def test_leftovers_are_what_was_not_renamed(tmp_path):
    (tmp_path / ".file.1.partial").touch()
    (tmp_path / ".hidden").touch()
    (tmp_path / "file.partial").touch()

    assert [path.name for path in leftovers(tmp_path)] == [".file.1.partial"]


def test_one_at_a_time_holds_the_lock(tmp_path):
    with locked(tmp_path) as is_held:
        assert is_held
        with pytest.raises(FolderInUse, match="Another run"), locked(tmp_path):
            pass
    with locked(tmp_path) as is_held:
        assert is_held
