import numpy as np
import pytest
from scipy.sparse import csr_array

from kernelbandits.kernels import Gaussian, Spectrum
from kernelbandits.selection import synchronized_columns
from kernelbandits.selection.synchronized_columns import RowIndex


@pytest.mark.parametrize("as_kept", [np.asarray, csr_array])
def test_the_lowest_row_is_found(as_kept):
    rows = np.array([[1.0, 2.0], [0.0, 3.0], [1.0, 2.0], [4.0, 5.0]])
    kind = Gaussian(length_scale=1.0).kind
    index = RowIndex(kind, kind.check(as_kept(rows)))

    found = index.find(kind.check(as_kept(np.array([[1.0, 2.0], [4.0, 5.0], [-0.0, 3.0], [2.0, 1.0]]))))

    assert found.tolist() == [0, 3, 1, -1]
    assert index.n_bytes > 0


def test_a_fingerprint_alone_is_not_believed(monkeypatch):
    monkeypatch.setattr(synchronized_columns, "_fingerprints", lambda rows, _: np.zeros(len(rows), dtype=np.uint64))
    rows = np.arange(6.0).reshape(3, 2)

    assert RowIndex(Gaussian(length_scale=1.0).kind, rows).find(rows[[2, 0]]).tolist() == [2, 0]


def test_rows_of_another_length_are_not_found():
    index = RowIndex(Gaussian(length_scale=1.0).kind, np.ones((2, 3)))

    assert index.find(np.ones((1, 2))).tolist() == [-1]


def test_strings_are_found():
    assert RowIndex(Spectrum(n=2).kind, ["b", "a", "b"]).find(["b", "c"]).tolist() == [0, -1]
