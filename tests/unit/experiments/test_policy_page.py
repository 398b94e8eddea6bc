import pytest

from kernelbandits.errors import InvalidParameter
from kernelbandits.experiments.plotting.style import VARIANTS
from kernelbandits.experiments.policy_page import (
    constants_table,
    difference_table,
    figures,
    insert_section,
    regret_table,
    section,
)


def _row(name, setting, smooth=None, table=None, **values):
    regret = {problem: given for problem, given in (("smooth", smooth), ("table", table)) if given is not None}
    return {
        "name": name,
        "family": "kernel",
        "setting": setting,
        "values": dict.fromkeys(regret, values) if values else {},
        "regret": regret,
        "seconds_per_round": dict.fromkeys(regret, 1e-3),
    }


NUMBERS = {
    "horizon": 50,
    "n_seeds": 3,
    "confidence": 0.95,
    "problems": {"smooth": {}, "table": {}},
    "rows": [
        _row("KernelUCB", "default", [4.0, 5.0, 6.0], [10.0, 10.0, 10.0]),
        _row("KernelUCB", "tuned", [1.0, 2.0, 3.0], [7.0, 8.0, 9.0], exploration="0.2"),
        _row("UCB1", "default", [14.0, 15.5, 15.5], [10.0, 12.0, 8.0]),
        _row("UCB1", "tuned", [1.0, 2.5, 2.5], exploration="0.05"),
        _row("UCB1", "theory", [14.0, 15.5, 15.5], [10.0, 12.0, 8.0]),
        _row("Random", "default", [20.0, 20.0, 20.0], [40.0, 40.0, 40.0]),
    ],
}


def test_the_table_has_means_intervals_and_what_is_undefined():
    table = regret_table(NUMBERS)

    rows = {(row[0], row[1]): row[2:] for row in table.rows}
    assert list(table.headings) == ["Policy", "Settings", "smooth", "table", "Time per round"]
    assert rows["KernelUCB", "default"] == ["5 ± 2", "10 ± 0", "1.00 ms"]  # 4.30 · 1 / √3 = 2.48
    assert rows["UCB1", "tuned"] == ["2 ± 2", "—", "1.00 ms"]
    assert "After 50 rounds, mean over 3 seeds" in table.caption


def test_theory_that_is_the_default_shares_its_row():
    settings = [(row[0], row[1]) for row in regret_table(NUMBERS).rows]

    assert ("UCB1", "default, theory") in settings
    assert ("UCB1", "theory") not in settings


def test_differences_are_paired_with_the_same_kind_of_settings():
    rows = {(row[0], row[1]): row[2:] for row in difference_table(NUMBERS).rows}

    # 10, 10.5, 9.5 over the seeds: 10 ± 4.30 · 0.5 / √3
    assert rows["UCB1", "default, theory"] == ["**+10 ± 1**", "+0 ± 5"]
    assert rows["UCB1", "tuned"] == ["+0 ± 1", "—"]  # 0, 0.5, −0.5
    assert not any(name == "KernelUCB" for name, _ in rows)


def test_constants_stand_beside_their_parameter():
    assert constants_table(NUMBERS).rows == [
        ["KernelUCB", "`exploration`", "0.2", "0.2"],
        ["UCB1", "`exploration`", "0.05", "—"],
    ]


def test_the_section_has_all_tables_and_the_figure_in_every_variant():
    text = section(NUMBERS)

    assert text.count("\n| Policy ") == 3
    assert 'srcset="policies/policies-dark.svg"' in text
    assert set(figures(NUMBERS)) == {f"policies-{variant}.svg" for variant in VARIANTS}
    assert all(drawn.startswith("<?xml") or "<svg" in drawn for drawn in figures(NUMBERS).values())


def test_without_the_uniform_policy_there_is_no_figure():
    numbers = {**NUMBERS, "rows": NUMBERS["rows"][:-1]}

    assert figures(numbers) == {}
    assert "<figure>" not in section(numbers)


def test_a_section_is_inserted_between_the_marks_of_a_page(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- table: how -->\nold\n<!-- end of table -->\nafter\n", encoding="utf-8")

    for _ in range(2):
        insert_section(page, "| new |\n")

    assert page.read_text() == "before\n<!-- table: how -->\n\n| new |\n\n<!-- end of table -->\nafter\n"
    page.write_text("no marks", encoding="utf-8")
    with pytest.raises(InvalidParameter, match="no place for a table"):
        insert_section(page, "| new |\n")
