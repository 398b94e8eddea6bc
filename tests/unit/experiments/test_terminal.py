from io import StringIO

import pytest

from kernelbandits.experiments.results import EndValue, Result
from kernelbandits.experiments.terminal import cells, regret_table, standings_table, table_console


def a_row(**values):
    usual = {"name": "KernelUCB", "regret": 12.34, "half_width": 1.26, "share": 0.25, "seconds_per_round": 0.002}
    given = usual | values
    return Result(
        policy=given["name"],
        regret=an_end(given["regret"], given["half_width"]),
        relative_regret=given["share"],
        seconds_per_round=given["seconds_per_round"],
    )


def an_end(mean, half_width):
    return EndValue(mean=mean, low=mean - half_width, high=mean + half_width, deviation=0.0)


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


@pytest.mark.parametrize("name", ["a [/x] b", "[red]", "[bold]a[/bold]", "a\\"])
def test_brackets_in_names_are_brackets(name):
    from rich.console import Console

    end = an_end(-0.01, 0.0)
    standing = Result(environment=name, policy=f"of {name}", n_runs=2, regret=end, total_reward=end)
    console = Console(width=80, record=True, file=StringIO())

    console.print(standings_table([standing], title="Standings"))
    console.print(regret_table([a_row(name=f"row {name}")], title="Regret"))

    text = console.export_text()
    assert text.count(name) == 3
    assert "-0.0" not in text


@pytest.mark.parametrize(("columns", "least"), [(30, 70), (79, 79), (100, 100)])
def test_a_narrow_terminal_does_not_take_the_names_away(columns, least, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", str(columns))
    end = an_end(1234.5, 12345.6)
    standing = Result(environment="groups", policy="KernelUCB, " + "x" * 90, n_runs=2, regret=end, total_reward=end)
    table = standings_table([standing], title="Standings")

    console = table_console(table)

    assert least <= console.width <= max(columns, 80)
    with console.capture() as shown:
        console.print(table)
    assert all(word in shown.get() for word in ("groups", "Kernel", "1234.5", "12345.6"))
