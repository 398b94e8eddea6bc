"""The example that routes prompts keeps to its limit, with made prompts and with real titles."""

import os
import re
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "examples" / "routing_prompts.py"


@pytest.fixture
def example():
    spec = spec_from_file_location("routing_prompts", SCRIPT)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def said(example, capsys, **options):
    example.main(**options)
    text = capsys.readouterr().out
    spent, allowance = map(float, re.search(r"spent ([\d.]+) of ([\d.]+) cents", text).groups())
    calls = {name: int(count) for name, count in re.findall(r"(\w+) (\d+)(?:,|\n)", text.partition("calls:")[2])}
    quality = float(re.search(r"mean quality: ([\d.]+)", text)[1])
    fixed = {name: float(value) for name, value in re.findall(r"always (\w+): ([\d.]+)", text)}
    return spent, allowance, calls, quality, fixed, text


def test_made_prompts_are_routed_within_the_limit(example, capsys, monkeypatch):
    monkeypatch.delenv("KERNELBANDITS_DATA", raising=False)

    spent, allowance, calls, quality, fixed, text = said(example, capsys, n_prompts=400, allowance=70.0)

    assert 0.8 * allowance < spent <= allowance + 0.05
    assert sum(calls.values()) == 400
    assert set(calls) == set(example.NAMES) == set(fixed)
    assert fixed["canned"] < fixed["tiny"] < quality < fixed["large"]  # the largest costs six times the limit
    assert quality > float(re.search(r"best mix .*: ([\d.]+)", text)[1]) > fixed["tiny"]
    assert re.search(r"without a limit, by the log: 0\.\d+ ± 0\.\d+; true: 0\.\d+", text)


def test_another_limit_makes_another_choice(example, capsys, monkeypatch):
    monkeypatch.delenv("KERNELBANDITS_DATA", raising=False)

    tight, wide = (said(example, capsys, n_prompts=250, allowance=allowance) for allowance in (15.0, 400.0))

    assert tight[0] <= 15.05
    assert wide[2]["large"] > tight[2]["large"] + 50
    assert wide[3] > tight[3] + 0.1


def test_titles_are_read_where_there_are_data(example, capsys):
    if not (Path(os.environ.get("KERNELBANDITS_DATA", "")) / "agnews").is_dir():
        pytest.skip("reads AG News: set KERNELBANDITS_DATA to the folder of data sets")

    spent, allowance, calls, *_ = said(example, capsys, n_prompts=150, allowance=20.0)

    assert spent <= allowance + 0.05
    assert sum(calls.values()) == 150
