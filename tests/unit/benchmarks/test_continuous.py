"""The functions are those of the literature, and a small run gives a page."""

import json

import numpy as np
import pytest
from benchmarks import continuous

OPTIMA = {
    "Branin, 2 columns": [(np.pi + 5.0) / 15.0, 2.275 / 15.0],
    "Ackley, 3 columns": [0.4, 0.4, 0.4],
    "Hartmann, 6 columns": [0.20169, 0.150011, 0.476874, 0.275332, 0.311652, 0.6573],
}


@pytest.mark.parametrize("name", continuous.FUNCTIONS)
def test_a_function_has_its_maximum_where_the_literature_says(name):
    function = continuous.FUNCTIONS[name]
    rows = np.random.default_rng(0).random((20_000, function.n_columns))

    values = function.evaluate(rows)

    assert function.evaluate(np.array([OPTIMA[name]]))[0] == pytest.approx(function.maximum, abs=1e-4)
    assert values.max() <= function.maximum
    assert function.standardized(values).mean() == pytest.approx(0.0, abs=0.05)
    assert function.standardized(values).std() == pytest.approx(1.0, abs=0.05)


def test_a_small_run_writes_numbers_and_a_page(tmp_path, capsys):
    into = tmp_path / "page.md"

    continuous.main(["--rounds", "4", "--seeds", "2", "--only", "Branin, 2 columns", "--into", str(into)])

    results = json.loads(into.with_suffix(".json").read_text(encoding="utf-8"))
    page = into.read_text(encoding="utf-8")
    assert {(one["system"], one["seed"]) for one in results} == {
        (system, seed) for system in continuous.SYSTEMS if system != "BoTorch" for seed in (0, 1)
    }
    assert all(len(one["regret"]) == continuous.N_FIRST + 4 for one in results)
    assert "| Branin, 2 columns | BoTorch | not run |" in page
    assert "| Branin, 2 columns | KernelUCB in a box | 2 | 4 |" in page
    assert "Branin, 2 columns KernelUCB in a box 1" in capsys.readouterr().out


def test_systems_begin_with_the_same_rows_and_regret_never_grows():
    first, second = (
        continuous.run("Branin, 2 columns", system, 3, 2) for system in ("random search", "KernelUCB in a box")
    )

    n = continuous.N_FIRST
    assert first["rows"][:n] == second["rows"][:n]
    assert first["regret"][:n] == second["regret"][:n]
    assert (np.diff(second["regret"]) <= 0.0).all()


def test_the_lead_is_the_difference_of_scores_on_the_same_model():
    result = continuous.run("Branin, 2 columns", "KernelUCB in a box", 0, 1)
    result["found by BoTorch"] = {"10": [0.5, 0.5]}

    (lead,) = continuous.leads(result)

    assert lead > 0.0
