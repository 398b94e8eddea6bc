from io import StringIO

import pytest

from kernelbandits.experiments.reports.tables import Table, duration, print_table, summary_table
from kernelbandits.experiments.results import EndValue, Result


@pytest.mark.parametrize(("seconds", "text"), [(5e-6, "5 µs"), (0.0123, "12.30 ms"), (2.5, "2.50 s")])
def test_times_have_their_unit(seconds, text):
    assert duration(seconds) == text


def test_unknown_values_are_a_dash():
    end = EndValue(mean=1.0)
    result = Result(environment="w", policy="p", n_runs=1, regret=end, total_reward=end)

    (row,) = summary_table([result], horizon=3, n_seeds=1).rows

    assert row == ["w", "p", "1.0", "–", "1.0", "–"]


def test_the_table_fits_an_ordinary_terminal_and_lines_up():
    from rich.console import Console

    rows = [("KernelUCB", "12.3"), ("SupKernelUCB, proved", "1234.5")]
    console = Console(width=80, record=True, file=StringIO())
    console.print(Table(title="Regret", headings=("Policy", "Regret"), rows=rows).to_rich())
    lines = [line for line in console.export_text().splitlines() if "KernelUCB" in line]

    assert len(lines) == 2
    assert lines[0].index("12.3") + 4 == lines[1].index("1234.5") + 6


@pytest.mark.parametrize("name", ["a [/x] b", "[red]", "[bold]a[/bold]", "a\\"])
def test_brackets_in_names_are_brackets(name):
    from rich.console import Console

    end = EndValue(mean=-0.01, low=-0.01, high=-0.01)
    result = Result(environment=name, policy=f"of {name}", n_runs=2, regret=end, total_reward=end)
    console = Console(width=80, record=True, file=StringIO())

    console.print(summary_table([result], horizon=5, n_seeds=2).to_rich())

    text = console.export_text()
    assert text.count(name) == 2
    assert "-0.0" not in text


@pytest.mark.parametrize(("columns", "least"), [(30, 70), (79, 79), (100, 100)])
def test_a_narrow_terminal_does_not_take_the_names_away(columns, least, monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", str(columns))
    end = EndValue(mean=1234.5, low=1234.5 - 12345.6, high=1234.5 + 12345.6)
    result = Result(environment="groups", policy="KernelUCB, " + "x" * 90, n_runs=2, regret=end, total_reward=end)

    console = print_table(summary_table([result], horizon=5, n_seeds=2))

    assert least <= console.width <= max(columns, 80)
    shown = capsys.readouterr().out
    assert all(word in shown for word in ("groups", "Kernel", "1234.5", "12345.6"))
