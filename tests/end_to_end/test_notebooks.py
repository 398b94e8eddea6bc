"""The notebooks run from top to bottom, and say what is stored in them."""

import json

import pytest
from scripts.notebooks import DETERMINISTIC, FOLDER, code_cells, outputs_of, read, text_of

NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def is_deterministic(cell):
    return DETERMINISTIC in cell["metadata"].get("tags", [])


def differences(notebook):
    """Ids of deterministic cells that say something else than what is stored; every cell is run."""
    pairs = zip(code_cells(notebook), list(outputs_of(notebook)), strict=True)
    return [
        cell["id"] for cell, outputs in pairs if is_deterministic(cell) and text_of(outputs) != text_of(cell["outputs"])
    ]


def make_notebook(*sources):
    cells = [
        {
            "cell_type": "code",
            "id": str(place),
            "metadata": {"tags": [DETERMINISTIC]},
            "outputs": [],
            "source": [source],
        }
        for place, source in enumerate(sources)
    ]
    return {"cells": cells}


def test_there_are_three():
    assert [path.stem for path in NOTEBOOKS] == ["catalog", "click_log", "strings"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_says_what_is_stored(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")

    assert differences(read(path)) == []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_small_and_carries_no_traces_of_its_run(path):
    notebook = read(path)

    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    assert len(notebook["cells"]) < 12
    assert len({cell["id"] for cell in notebook["cells"]}) == len(notebook["cells"])
    assert set(notebook["metadata"]) == {"kernelspec", "language_info"}
    for cell in notebook["cells"]:
        assert set(cell["metadata"]) <= {"tags"}
    for cell in code_cells(notebook):
        assert cell["execution_count"] is None
        assert is_deterministic(cell) == bool(text_of(cell["outputs"])), f"{cell['id']}: mark what it prints"
    assert path.read_text(encoding="utf-8") == json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def test_another_output_is_noticed():
    notebook = make_notebook("x = 1\nprint('one')\nx", "x + 1")
    assert differences(notebook) == ["0", "1"]

    for cell, outputs in zip(notebook["cells"], outputs_of(notebook), strict=True):
        cell["outputs"] = outputs

    assert [text_of(cell["outputs"]) for cell in notebook["cells"]] == ["one\n1", "2"]
    assert differences(notebook) == []


def test_an_error_in_a_cell_is_raised():
    with pytest.raises(ZeroDivisionError):
        differences(make_notebook("1 / 0"))
