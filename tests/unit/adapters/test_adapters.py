"""What holds for the package as a whole."""

import subprocess
import sys

import pytest

import kernelbandits as kb
from kernelbandits._optional import import_optional
from kernelbandits.errors import MissingExtra

OTHERS = ("sklearn", "coba", "pandas", "polars", "pyarrow", "duckdb", "vowpalwabbit", "obp")


def in_a_fresh_process(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_all_names_can_be_had_and_are_sorted():
    names = kb.adapters.__all__

    assert all(getattr(kb.adapters, name) is not None for name in names)
    assert names == sorted(names, key=lambda name: (name[0].islower(), name))
    with pytest.raises(AttributeError, match="no attribute 'KernelUBCRegressor'"):
        kb.adapters.KernelUBCRegressor  # noqa: B018


def test_importing_loads_none_of_the_other_libraries():
    loaded = in_a_fresh_process(
        "import sys, kernelbandits as kb; kb.adapters.CobaLearner, kb.adapters.read_dsjson, kb.adapters.log_from_frame;"
        f"print([name for name in {(*OTHERS, 'scipy', 'numba')!r} if name in sys.modules])"
    )

    assert loaded == "[]"


def test_works_without_the_other_libraries_up_to_where_one_is_called():
    answer = in_a_fresh_process(
        f"import sys\nfor name in {OTHERS!r}: sys.modules[name] = None\n"
        "import numpy as np, kernelbandits as kb\n"
        "from kernelbandits.adapters import *\n"
        "from kernelbandits.adapters import KernelUCBRegressor\n"
        "log = kb.environments.Log([np.eye(2)], [1], [0.5], [2.0])\n"
        "assert from_obp(to_obp(log)).rewards.tolist() == [2.0]\n"
        "CobaLearner(kb.KernelUCB(kb.kernels.Linear())).predict(None, [(1, 0), (0, 1)])\n"
        "for call in (KernelUCBRegressor, lambda: log_to_frame(log), lambda: log_to_frame(log, 'arrow')):\n"
        "    try: call()\n"
        "    except kb.errors.MissingExtra as error: print(error)\n"
    )

    sklearn, pandas, arrow = answer.splitlines()
    assert "needs scikit-learn, which is not installed" in sklearn
    assert "needs pandas" in pandas
    assert "needs pyarrow" in arrow
    assert all('pip install "kernelbandits[adapters]"' in line for line in (sklearn, pandas, arrow))


def test_what_is_missing_is_named_with_its_way_out():
    with pytest.raises(MissingExtra, match=r"Reading tables needs no_such_package.*kernelbandits\[adapters\]"):
        import_optional("no_such_package", "Reading tables", extra="adapters")
