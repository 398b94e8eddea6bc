import errno
import os
import pathlib
import signal
import subprocess
import sys

import pytest

import kernelbandits as kb
from kernelbandits import _files
from kernelbandits._files import atomic_write, find_partial_files, remove_leftovers


def write(path, content):
    with atomic_write(path) as file:
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

    with pytest.raises(TypeError), atomic_write(path) as file:
        file.writelines([b"half", "of it"])

    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_an_error_of_another_file_keeps_its_name(tmp_path):
    with pytest.raises(FileNotFoundError, match="elsewhere"), atomic_write(tmp_path / "file"):
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

    assert [path.name for path in find_partial_files(tmp_path)] == [".file.1.partial"]


def test_what_a_killed_write_left_is_removed_and_what_is_under_way_is_not(tmp_path):
    path = tmp_path / "file"
    for name in (".file.dead.partial", ".other.dead.partial"):
        (tmp_path / name).write_bytes(b"half")

    with atomic_write(path) as file:
        file.write(b"new")
        remove_leftovers(path)
        during = sorted(os.listdir(tmp_path))

    assert len(during) == 2  # the one under way, and that of another file
    assert ".file.dead.partial" not in during
    assert sorted(os.listdir(tmp_path)) == [".other.dead.partial", "file"]


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_a_save_that_is_killed_leaves_nothing_to_the_next(tmp_path):
    path = tmp_path / "policy.kb"
    program = (
        "import os, signal, kernelbandits as kb\n"
        "os.fsync = lambda number: os.kill(os.getpid(), signal.SIGKILL)\n"
        f"kb.UniformRandom(seed=1).save({str(path)!r})\n"
    )
    killed = subprocess.run([sys.executable, "-c", program], check=False)
    left = os.listdir(tmp_path)

    kb.UniformRandom(seed=1).save(path)

    assert killed.returncode == -signal.SIGKILL
    assert [name.endswith(".partial") for name in left] == [True]
    assert os.listdir(tmp_path) == ["policy.kb"]


def test_without_locks_an_open_file_is_left_to_the_system(tmp_path, monkeypatch):
    """On Windows an open file cannot be removed, so that all others can."""
    path, honest = tmp_path / "file", pathlib.Path.unlink
    (tmp_path / ".file.dead.partial").write_bytes(b"half")
    (tmp_path / ".file.open.partial").write_bytes(b"half")
    monkeypatch.setattr(_files, "fcntl", None)

    def unlink(place, missing_ok=False):
        if "open" in place.name:
            raise PermissionError(errno.EACCES, "in use")
        honest(place, missing_ok=missing_ok)

    monkeypatch.setattr(pathlib.Path, "unlink", unlink)
    remove_leftovers(path)
    write(path, b"new")

    assert sorted(os.listdir(tmp_path)) == [".file.open.partial", "file"]
