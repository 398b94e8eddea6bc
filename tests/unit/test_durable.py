import errno
import os

import pytest

from kernelbandits.durable import leftovers, whole_file


def write(path, content):
    with whole_file(path) as file:
        file.write(content)


def test_a_file_is_replaced_whole(tmp_path):
    path = tmp_path / "file"
    write(path, b"old")
    write(path, b"new")

    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["file"]


def test_a_write_that_fails_leaves_what_was_there(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write(path, b"old")

    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"No space left on device: '.*/file'$"):
        write(path, b"new")

    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_what_is_raised_meanwhile_leaves_what_was_there(tmp_path):
    path = tmp_path / "file"
    write(path, b"old")

    with pytest.raises(TypeError), whole_file(path) as file:
        file.writelines([b"half", "of it"])

    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_an_error_of_another_file_keeps_its_name(tmp_path):
    with pytest.raises(FileNotFoundError, match="elsewhere"), whole_file(tmp_path / "file"):
        (tmp_path / "elsewhere").read_bytes()


@pytest.mark.parametrize(("place", "error"), [("none/file", FileNotFoundError), ("folder", IsADirectoryError)])
def test_errors_name_the_place_and_not_what_lay_beside_it(tmp_path, place, error):
    (tmp_path / "folder").mkdir()

    with pytest.raises(error, match=f"'{tmp_path / place}'$"):
        write(tmp_path / place, b"new")

    assert os.listdir(tmp_path) == ["folder"]


def test_leftovers_are_what_was_not_renamed(tmp_path):
    (tmp_path / ".file.1.partial").touch()
    (tmp_path / ".hidden").touch()
    (tmp_path / "file.partial").touch()

    assert [path.name for path in leftovers(tmp_path)] == [".file.1.partial"]
