from io import StringIO

import pytest

from kernelbandits.experiments import Row
from kernelbandits.experiments.terminal import cells, regret_table


def a_row(**values):
    usual = {"name": "KernelUCB", "regret": 12.34, "half_width": 1.26, "share": 0.25, "seconds_per_round": 0.002}
    return Row(**(usual | values))


def test_numbers_are_rounded_for_people():
    assert cells(a_row()) == ("12.3", "1.3", "25%", "2.00 ms")


@pytest.mark.parametrize(("seconds", "text"), [(5e-6, "5 µs"), (0.0123, "12.30 ms"), (2.5, "2.50 s")])
def test_times_have_their_unit(seconds, text):
    assert cells(a_row(seconds_per_round=seconds))[3] == text


def test_what_is_unknown_is_a_dash():
    assert cells(a_row(half_width=float("nan"), share=float("nan")))[1:3] == ("–", "–")


def test_the_table_fits_an_ordinary_terminal_and_lines_up():
    from rich.console import Console

    console = Console(width=80, record=True, file=StringIO())
    console.print(regret_table([a_row(), a_row(name="SupKernelUCB, proved", regret=1234.5)], title="Regret"))
    lines = [line for line in console.export_text().splitlines() if "KernelUCB" in line]

    assert len(lines) == 2
    assert lines[0].index("12.3") + 4 == lines[1].index("1234.5") + 6
