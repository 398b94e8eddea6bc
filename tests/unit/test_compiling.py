"""Loops that are compiled in the background."""

import subprocess
import sys

import numpy as np
import pytest

import kernelbandits as kb
from kernelbandits.compiling import PATIENCE, VECTOR, Loop, Loops, compiled, groups


def total_loop(numbers):
    total = 0.0
    for number in numbers:
        total += number
    return total


def make_loops():
    return Loops(total=Loop(loop=total_loop, twin=np.sum, signature=f"float64({VECTOR})"))


def test_the_twin_answers_until_there_was_enough_work():
    loops = make_loops()
    loops.note(10)
    assert loops.total is np.sum
    assert not loops.is_compiled

    loops.note(PATIENCE)
    loops._thread.join()

    assert loops.is_compiled
    assert loops.total(np.arange(4.0)) == 6.0


def test_there_are_no_other_names():
    with pytest.raises(AttributeError, match="mean"):
        make_loops().mean(np.ones(2))


def test_a_loop_is_compiled_where_nothing_can_be_written(monkeypatch):
    import numba

    whole = numba.njit

    def no_folder(*given, cache=False, **options):
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return whole(*given, **options)

    monkeypatch.setattr(numba, "njit", no_folder)
    assert compiled(total_loop, f"float64({VECTOR})")(np.ones(3)) == 3.0


def test_everything_can_be_compiled_ahead():
    kb.compile_ahead()

    assert len(groups) >= 2
    assert all(group.is_compiled for group in groups)


def test_a_forked_process_can_compile():
    loops = make_loops()
    loops._compiling.acquire()  # as if another thread were at it
    loops._thread = object()

    loops.begin_in_child()
    loops.ensure()

    assert loops.is_compiled


@pytest.mark.parametrize(
    ("first", "scheme"),
    [
        ("", "NOPColorScheme"),
        ("import numba;", "HighlightColorScheme"),  # negative control: colours are on where nobody asks
    ],
)
def test_messages_of_the_compiler_are_not_coloured(first, scheme):
    """Colouring would swap sys.stdout under the feet of other threads."""
    pytest.importorskip("colorama")
    code = (
        f"import os, sys; {first} from kernelbandits.compiling import numba; numba();"
        "from numba.core.errors import termcolor;"
        "print(type(termcolor()).__name__, 'NUMBA_DISABLE_ERROR_MESSAGE_HIGHLIGHTING' in os.environ)"
    )

    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert said.split() == [scheme, "False"]
