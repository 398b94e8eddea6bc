"""The page of policies says what the study found: tables, figure, and every claim about numbers."""

import json
from pathlib import Path

import numpy as np
import pytest

from kernelbandits.experiments.policy_page import difference_of, figures, section, section_place, source_of
from kernelbandits.experiments.policy_suite import HORIZON, N_SEEDS, SUITE, TUNING_SEEDS, read_constants

DOCS = Path(__file__).parents[3] / "docs"
PAGE = DOCS / "policies.md"
TEXT = " ".join(PAGE.read_text(encoding="utf-8").split())
NUMBERS = json.loads((DOCS / "policies" / "policies.json").read_text(encoding="utf-8"))
ROWS = {(row["name"], row["setting"]): row for row in NUMBERS["rows"]}
PROBLEMS = list(NUMBERS["problems"])
LINEAR = [policy.name for policy in SUITE if policy.family == "linear"]


def _mean(name, problem, setting="default"):
    return float(np.mean(ROWS[name, setting]["regret"][problem]))


def _places(name, setting="default"):
    return list(ROWS[name, setting]["regret"])


def _shares(name, setting="default"):
    return {problem: _mean(name, problem, setting) / _mean("Random", problem) for problem in _places(name, setting)}


def _gap(name, problem, setting="default"):
    return difference_of(ROWS[name, setting], ROWS["KernelUCB", setting], problem)


def _says(text):
    assert text in TEXT


def test_the_tables_are_those_of_the_numbers():
    before, after = section_place(PAGE)

    assert PAGE.read_text(encoding="utf-8") == f"{before}\n{section(NUMBERS)}\n{after}"


def test_other_numbers_make_another_page():
    changed = json.loads(json.dumps(NUMBERS))
    changed["rows"][0]["regret"]["smooth"][0] += 60.0

    assert section(changed) != section(NUMBERS)


def test_the_figure_is_that_of_the_numbers():
    files = {path.name: path.read_text(encoding="utf-8") for path in (DOCS / "policies").glob("*.svg")}

    assert set(files) == set(figures(NUMBERS))
    assert all(source_of(NUMBERS) in text for text in files.values())


def test_the_study_has_the_size_that_the_code_says():
    assert NUMBERS["horizon"] == HORIZON
    assert NUMBERS["n_seeds"] == N_SEEDS
    assert all(len(values) == N_SEEDS for row in NUMBERS["rows"] for values in row["regret"].values())
    assert {name for name, _ in ROWS} == {policy.name for policy in SUITE}
    _says(f"({TUNING_SEEDS[0]} to {TUNING_SEEDS[-1]})")


def test_tuned_rows_have_the_constants_of_the_package():
    for name, chosen in read_constants().items():
        assert ROWS[name, "tuned"]["values"] == {
            problem: {parameter: str(value) for parameter, value in values.items()}
            for problem, values in chosen.items()
        }


def test_kernel_ucb_is_a_good_first_choice():
    shares = _shares("KernelUCB").values()
    _says(f"loses {min(shares) * 100:.0f} to {max(shares) * 100:.0f} % of the regret of uniform choices")

    for name, setting in ROWS:
        if setting == "default" and name != "KernelUCB":
            better = [problem for problem in _places(name) if _gap(name, problem).high < 0.0]
            assert len(better) <= 1, name
    everywhere = [name for name, setting in ROWS if setting == "default" and len(_places(name)) == len(PROBLEMS)]
    order = sorted(everywhere, key=lambda name: np.mean(list(_shares(name).values())))
    assert order[:3] == ["KernelUCB", "KernelThompson", "GPUCB"]


def test_linear_policies_win_where_they_are_right_and_fail_where_not():
    _says(f"`LinUCB` loses {_mean('LinUCB', 'linear'):.0f} where KernelUCB loses {_mean('KernelUCB', 'linear'):.0f}")
    assert _gap("LinUCB", "linear").high < 0.0
    assert _mean("OFUL", "linear") / _mean("LinUCB", "linear") == pytest.approx(2.0, abs=0.25)
    lowest = min(
        share for name in LINEAR for problem, share in _shares(name).items() if problem in ("smooth", "changing")
    )
    _says(f"at least {np.floor(lowest * 100):.0f} % of uniform regret. - **Context")


def test_context_and_action():
    place = "context × action"
    disjoint = _gap("LinUCB, disjoint", place)
    assert disjoint.low < 0.0 < disjoint.high
    assert _mean("LinUCB", place) / _mean("KernelUCB", place) == pytest.approx(2.0, abs=0.25)
    assert all(_gap(f"LinUCB{model}", place, "tuned").low > 0.0 for model in ("", ", disjoint", ", hybrid"))


def test_constants_of_proofs():
    ratios = [_mean("KernelUCB", problem, "theory") / _mean("KernelUCB", problem) for problem in PROBLEMS]
    _says(f"loses {min(ratios):.0f} to {max(ratios):.0f} times as much with them")
    names = ("SupKernelUCB", "SupLinUCB", "SupLinRel", "PhasedElimination")
    lowest = min(share for name in names for share in _shares(name, "theory").values())
    _says(f"at least {np.floor(lowest * 100):.0f} % of uniform regret on every problem")


def test_tuning():
    """Words that compare are those of the paired intervals."""
    tuned, default = ROWS["KernelUCB", "tuned"], ROWS["KernelUCB", "default"]
    change = {problem: difference_of(tuned, default, problem) for problem in PROBLEMS}
    ends = {
        problem: f"({_mean('KernelUCB', problem):.0f} to {_mean('KernelUCB', problem, 'tuned'):.0f})"
        for problem in change
    }
    better, worse = ([p for p in change if sign * change[p].mean > 0.0 and _is_clear(change[p])] for sign in (-1, 1))
    unclear = [p for p in change if change[p].mean != 0.0 and not _is_clear(change[p])]
    assert (better, worse, unclear) == (["context × action"], ["clustered"], ["changing"])
    _says(f"clearly better with it on {better[0]} {ends[better[0]]}")
    _says(f"clearly worse on the clustered problem {ends[worse[0]]}")
    _says(f"not clearly different on the changing one {ends[unclear[0]]}, and keeps its default on the other three")


def _is_clear(end):
    return end.low > 0.0 or end.high < 0.0


def _shares_of_runs(name, problem):
    """Regret of each run over that of uniform choices in the same run."""
    return np.divide(ROWS[name, "default"]["regret"][problem], ROWS["Random", "default"]["regret"][problem])


def test_runs_that_fail():
    worst = max(
        _shares_of_runs(name, problem).max() for name in ("KernelUCB", "KernelThompson") for problem in PROBLEMS
    )
    failed = {
        name: {place: n for place in _places(name) if (n := int(np.sum(_shares_of_runs(name, place) > 0.8)))}
        for name in ("GPUCB", "SupKernelUCB", "PhasedElimination")
    }

    _says(f"with their defaults lost more than {worst * 100:.0f} % of uniform regret")
    assert failed["GPUCB"] == {"clustered": 2}
    assert failed["SupKernelUCB"]["clustered"] == 2
    assert failed["PhasedElimination"] == {"clustered": 1, "table": 2}
    _says(
        "`GPUCB` in 2 of 20 runs on the clustered problem, SupKernelUCB in 2, and PhasedElimination in 1 there and in 2"
    )


def test_index_policies():
    assert len(_places("UCB1")) == 5
    assert all(_mean("UCB1", problem) < _mean("KLUCB", problem) for problem in _places("UCB1"))
    assert all(_gap("UCB1", problem).low > 0.0 for problem in _places("UCB1"))
    ratios = [_mean("UCB1", problem) / _mean("KernelUCB", problem) for problem in _places("UCB1")]
    _says(f"`UCB1` loses {min(ratios):.1f} to {max(ratios):.1f} times as much as KernelUCB")


def test_randomizing_and_windows():
    added = [_gap("Mixed KernelUCB, 5 %", problem).mean for problem in PROBLEMS]
    _says(f"5 % random actions add {min(added):.0f} to {max(added):.0f} to KernelUCB's regret")
    ratios = [_mean("KernelUCB, window of 300", problem) / _mean("KernelUCB", problem) for problem in PROBLEMS]
    _says(f"KernelUCB loses {min(ratios):.1f} to {max(ratios):.1f} times as much")


def test_policies_of_experts():
    names = [policy.name for policy in SUITE if policy.family == "experts"]
    lowest = min(share for name in names for share in _shares(name).values())
    _says(f"none loses less than {np.floor(lowest * 100):.0f} % of uniform regret")


def _not_better(places, threshold=0.0):
    """Policies with their defaults that are not clearly better than uniform choices on some of these problems."""
    return {
        name
        for name, setting in ROWS
        if setting != "tuned" and "default" in setting and name != "Random"
        for problem in set(_places(name, setting)) & set(places)
        if difference_of(ROWS[name, setting], ROWS["Random", "default"], problem).high >= threshold
    }


def test_policies_that_are_not_clearly_better_than_uniform_choices():
    _says("every linear policy with one model for all actions on the smooth and on the changing problem")
    _says("SupLinUCB also on the clustered one, and OFUL, SupLinUCB and SupLinRel on context × action")
    _says("`Guarded` everywhere but on the linear problem; and on the changing problem `PolicyElimination`. All others")
    linear, guarded = set(LINEAR), {"Guarded KernelUCB"}

    assert _not_better(["linear"]) == set()
    assert _not_better(["smooth"]) == linear - {"LinUCB, disjoint", "LinUCB, hybrid"} | guarded
    assert _not_better(["clustered"]) == {"SupLinUCB"} | guarded
    assert _not_better(["changing"]) == {"LinUCB", "OFUL", "SupLinUCB", "SupLinRel", "PolicyElimination"}
    assert _not_better(["context × action"]) == {"OFUL", "SupLinUCB", "SupLinRel"} | guarded
    assert _not_better(["table"]) == guarded


def test_with_stricter_evidence_more_policies_are_not_clearly_better():
    assert {"EXP4P", "RandomizedUCB"} <= _not_better(["changing"], threshold=-100.0)
