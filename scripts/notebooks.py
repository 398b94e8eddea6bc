"""Runs the notebooks in examples/ and writes what their cells print, without Jupyter.

python -m scripts.notebooks              # run all and write their outputs
python -m scripts.notebooks strings      # one of them

Cells run in order, in one namespace. An output is what a cell prints, the value of its last line, and the figures it
draws. Run counts and times are not kept, so that running a notebook again changes nothing but what has changed.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

FOLDER: Final = Path(__file__).resolve().parents[1] / "examples"
DETERMINISTIC: Final = "deterministic"
"""Tag of a cell whose text is the same on every machine; tests compare it with what is stored."""


def read(path: Path) -> dict[str, Any]:
    """The notebook in a file."""
    notebook: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return notebook


def code_cells(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    """Those that run."""
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def text_of(outputs: list[dict[str, Any]]) -> str:
    """What the outputs of a cell say in words: what was printed and the value of the last line, no figures."""
    printed = "".join("".join(out["text"]) for out in outputs if out["output_type"] == "stream")
    values = ["".join(out["data"]["text/plain"]) for out in outputs if out["output_type"] == "execute_result"]
    return printed + "".join(values)


def outputs_of(notebook: dict[str, Any]) -> Iterator[list[dict[str, Any]]]:
    """Run one code cell after the other and give the outputs of each."""
    names: dict[str, Any] = {"__name__": "__main__"}
    for number, cell in enumerate(code_cells(notebook), start=1):
        source = "".join(cell["source"])
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            value = _run(source, f"<cell {number}>", names)
        outputs: list[dict[str, Any]] = []
        if printed.getvalue():
            outputs.append({"name": "stdout", "output_type": "stream", "text": _lines(printed.getvalue())})
        if value is not None:
            outputs.append(
                {
                    "data": {"text/plain": _lines(repr(value))},
                    "execution_count": None,
                    "metadata": {},
                    "output_type": "execute_result",
                }
            )
        yield outputs + [_figure(picture) for picture in _pictures()]


def _run(source: str, name: str, names: dict[str, Any]) -> Any:
    """Run a cell; the value of its last line where that is an expression without a semicolon."""
    tree = ast.parse(source, name)
    last = tree.body[-1] if tree.body else None
    if not isinstance(last, ast.Expr) or source.rstrip().endswith(";"):
        exec(compile(tree, name, "exec"), names)
        return None
    exec(compile(ast.Module(tree.body[:-1], []), name, "exec"), names)
    return eval(compile(ast.Expression(last.value), name, "eval"), names)


def _pictures() -> Iterator[bytes]:
    """Figures that a cell left open, as PNG, without a date or a version in the file."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is None:
        return
    for number in pyplot.get_fignums():
        buffer = io.BytesIO()
        pyplot.figure(number).savefig(buffer, format="png", dpi=80, bbox_inches="tight", metadata={"Software": None})
        yield buffer.getvalue()
    pyplot.close("all")


def _figure(picture: bytes) -> dict[str, Any]:
    data = {"image/png": base64.b64encode(picture).decode("ascii"), "text/plain": ["<Figure>"]}
    return {"data": data, "metadata": {}, "output_type": "display_data"}


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def write(path: Path) -> None:
    """Run a notebook in a folder of its own and write its outputs into its file."""
    notebook = read(path)
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            for cell, outputs in zip(code_cells(notebook), list(outputs_of(notebook)), strict=True):
                cell["outputs"], cell["execution_count"] = outputs, None
        finally:
            os.chdir(before)
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    os.environ.setdefault("MPLBACKEND", "Agg")
    wanted = sys.argv[1:] or sorted(path.stem for path in FOLDER.glob("*.ipynb"))
    for stem in wanted:
        write(FOLDER / f"{stem}.ipynb")
        print(FOLDER / f"{stem}.ipynb")
