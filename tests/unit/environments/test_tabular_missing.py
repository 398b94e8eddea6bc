import numpy as np
import pytest

from kernelbandits.environments.tabular import is_absent


@pytest.mark.parametrize("entry", [None, np.nan, float("nan"), np.float32("nan")])
def test_gaps_are_reported(entry):
    assert is_absent(entry)


def test_what_pandas_writes_for_a_gap_is_reported():
    pandas = pytest.importorskip("pandas")

    assert is_absent(pandas.NA)
    assert is_absent(pandas.NaT)


@pytest.mark.parametrize("entry", [0, 0.0, np.inf, "", "nan", False, [None]])
def test_all_else_is_there(entry):
    assert not is_absent(entry)
