import gc
import gzip
import warnings

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from kernelbandits.environments.datasets.files import read_arrays, read_header, read_table
from kernelbandits.errors import ForeignFile

TEXT = 'name,size,color\n"a, b",1.5,red\nc,-2,?\n'


@pytest.fixture(params=["plain", "compressed"])
def path(request, tmp_path):
    file = tmp_path / "table.csv"  # compression is recognized by the content, not by the name
    file.write_bytes(TEXT.encode() if request.param == "plain" else gzip.compress(TEXT.encode()))
    return file


def test_columns_are_read_in_the_order_of_the_file(path):
    columns = read_table(path, name="test", words=["color", "name"], numbers=["size"])

    assert list(columns) == ["name", "size", "color"]
    assert columns["name"].tolist() == ["a, b", "c"]
    assert columns["color"].tolist() == ["red", "?"]
    assert_array_equal(columns["size"], [1.5, -2.0])
    assert read_header(str(path), name="test") == ["name", "size", "color"]


def test_columns_that_were_not_requested_are_left_out(path):
    assert list(read_table(path, name="test", words=["name"])) == ["name"]


def test_a_file_without_the_columns_is_rejected(path):
    with pytest.raises(ForeignFile, match=r"not the 'fruit' table.*\['weight'\].*name,size,color.*was expected"):
        read_table(path, name="fruit", words=["name"], numbers=["weight"])


def test_words_where_numbers_should_be_are_rejected(path):
    with pytest.raises(ForeignFile, match=r"'color'.*numbers only.*red"):
        read_table(path, name="test", numbers=["color"])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"name,size\nx\n", "Line 2 .* 1 entries under 2 names"),
        (b"name,size\n", "no rows"),
        (b"", "lacks the columns"),
        (b"name,name\na,b\n", "not the 'test' table"),
        (b"name\n\xff\xfe\n", "cannot be read"),
        (gzip.compress(TEXT.encode(), mtime=0)[:-12], "cannot be read"),
        (b"\x1f\x8b nonsense", "cannot be read"),
        (gzip.compress(TEXT.encode(), mtime=0)[:10] + b"\xff" * 40, "cannot be read"),
    ],
)
def test_damaged_files_are_rejected(tmp_path, content, message):
    file = tmp_path / "table.csv"
    file.write_bytes(content)

    with pytest.raises(ForeignFile, match=message):
        read_table(file, name="test", words=["name"])


def test_a_mark_of_the_encoding_at_the_beginning_is_passed_over(tmp_path):
    (tmp_path / "table.csv").write_bytes(b"\xef\xbb\xbf" + b"name,size\nx,1\n")

    assert read_table(tmp_path / "table.csv", name="test", words=["name"])["name"].tolist() == ["x"]


def test_a_file_that_is_not_there_is_the_usual_error(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        read_table(tmp_path / "nowhere.csv", name="test")


def test_arrays_of_an_archive_are_read(tmp_path):
    np.savez(tmp_path / "images.npz", X=np.eye(2), y=[1, 2])

    found, digits = read_arrays(tmp_path / "images.npz", name="test", arrays=["X", "y"])

    assert_array_equal(found, np.eye(2))
    assert digits.tolist() == [1, 2]


@pytest.mark.parametrize("damage", [lambda b: b[:200], lambda b: b[:80] + b"\xff" * 40 + b[120:], lambda _: b""])
def test_a_damaged_archive_is_rejected_and_closed(tmp_path, damage):
    np.savez_compressed(tmp_path / "whole.npz", X=np.arange(300.0), y=[1, 2])
    (tmp_path / "images.npz").write_bytes(damage((tmp_path / "whole.npz").read_bytes()))

    with warnings.catch_warnings():
        warnings.simplefilter("error", ResourceWarning)
        with pytest.raises(ForeignFile, match="not the 'test' archive"):
            read_arrays(tmp_path / "images.npz", name="test", arrays=["X", "y"])
        gc.collect()


def test_another_archive_is_rejected(tmp_path, path):
    np.savez(tmp_path / "images.npz", X=np.eye(2))
    np.save(tmp_path / "single.npy", np.eye(2))

    for file in (tmp_path / "images.npz", tmp_path / "single.npy", path):
        with pytest.raises(ForeignFile, match=r"not the 'test' archive.*\['X', 'y'\]"):
            read_arrays(file, name="test", arrays=["X", "y"])
