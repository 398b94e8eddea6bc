from __future__ import annotations

import benchmarks.__main__ as command
import pytest
from benchmarks.results import CaseReport, Outcome, Report

from kernelbandits.experiments.plotting.style import VARIANTS


@pytest.fixture
def found(monkeypatch):
    """What the workers would have found, so that the command only has to write it."""
    ours = Outcome(name="kernelbandits", how="one run", total=1.0, rounds=[1, 100, 300], seconds=[1e-3, 1e-3, 2e-3])
    peer = Outcome(name="Algorithm 1", how="from checkpoints", total=9.0, rounds=[100, 300], seconds=[0.1, 0.5])
    sizes = (20, 100)
    report = Report(
        is_quick=True,
        machine={},
        versions={},
        date="2013-07-11",
        load=[0.0, 0.0],
        minutes=1.0,
        cases=[
            CaseReport(name=f"w2-{n}-300", title=f"W2, N = {n}", n_actions=n, horizon=300, outcomes=[ours, peer])
            for n in sizes
        ],
        threads=[],
    )
    monkeypatch.setattr(command, "_run", lambda *_, **__: report)
    return report


def test_table_figures_and_raw_values_are_written(found, tmp_path, capsys):
    pytest.importorskip("matplotlib")

    status = command.main(["--quick", "--into", str(tmp_path / "results.md")])

    assert status == 0
    names = {path.name for path in tmp_path.iterdir()}
    figures = {f"results-{name}-{variant}.svg" for name in ("rounds", "actions") for variant in VARIANTS}
    assert names == {"results.md", "results.json", *figures}
    assert "results.md" in capsys.readouterr().out


def test_a_different_choice_ends_the_command_with_an_error(found, tmp_path, capsys):
    found.cases[0].outcomes[1].differs_at = 12

    status = command.main(["--quick", "--into", str(tmp_path / "results.md")])

    assert status == 1
    assert "choices differ" in capsys.readouterr().err
    assert "**different in round 12**" in (tmp_path / "results.md").read_text()


def test_an_unknown_case_is_rejected(capsys):
    assert command.main(["--only", "w9"]) == 2
    assert "No case begins with 'w9'" in capsys.readouterr().err
