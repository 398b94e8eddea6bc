"""The mutants of scripts/mutants.py: what is changed, and that the sample can be found again."""

import ast

import pytest
from scripts.mutants import BATCHES, ROOT, SOURCE, TESTED, Judge, Run, TestMap, batches, mutants, report, sample

MODULE = '''"""A docstring with 1 + 1."""

LIMIT: int = 3


def f(x: int | None = 0, *, is_strict: bool = True) -> float:
    """Formula: x - 1."""
    if x is None or not x < 4:
        raise ValueError(f"{x + 1} is too large: {2 * x}")
    assert x > -5
    x += 1
    return min(x, LIMIT) * -0.5 ** 2
'''


@pytest.fixture
def module(tmp_path):
    path = tmp_path / SOURCE / "theory" / "module.py"
    path.parent.mkdir(parents=True)
    path.write_text(MODULE)
    return path


def changed_to(tmp_path, module, text):
    source = module.read_bytes()
    return [one for one in mutants(tmp_path, module, 0) if text in one.apply(source).decode()]


def test_operators_constants_and_names_change_one_at_a_time(tmp_path, module):
    found = list(mutants(tmp_path, module, 0))

    for text in (
        "LIMIT: int = 4", "x: int | None = 1", "is_strict: bool = False", "(x is not None) or not x < 4",
        "(x is None and (not x < 4))", "(x <= 4)", "(x < 4)", "x < 5", "x -= 1", "x += 2", "max(x, LIMIT)", "1.0 ** 2",
        "(0.5 * 2)", "** 3",
    ):  # fmt: skip
        assert len(changed_to(tmp_path, module, text)) >= 1, text
    assert len({one.key for one in found}) == len(found)
    for one in found:
        changed = one.apply(MODULE.encode()).decode()
        assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(MODULE))


def test_messages_assertions_docstrings_and_annotations_stay(tmp_path, module):
    for one in mutants(tmp_path, module, 0):
        changed = one.apply(MODULE.encode()).decode()
        for text in ("docstring with 1 + 1", "x - 1.", "{x + 1} is too large: {2 * x}", "assert x > -5", "int | None"):
            assert text in changed


def test_a_sample_is_found_again_when_other_lines_are_edited(tmp_path, module):
    before = {one.key: one.mutated for one in mutants(tmp_path, module, 7)}
    module.write_text(MODULE.replace('"""A docstring', '"""\nAnother docstring'))
    after = {one.key: one.mutated for one in mutants(tmp_path, module, 7)}

    assert before == after
    assert not before.keys() & {one.key for one in mutants(tmp_path, module, 8)}


def test_the_published_sample_is_spread_over_the_packages():
    chosen = sample(ROOT, seed=14, count=500)

    shares = {package: sum(f"/{package}/" in one.path for one in chosen) for package in ("policies", "theory")}
    assert len(chosen) == 500
    assert shares["policies"] > 100
    assert shares["theory"] > 25
    assert all((ROOT / name).exists() for name in TESTED)


def test_a_report_counts_and_lists_survivors(tmp_path, module):
    found = list(mutants(tmp_path, module, 0))[:4]
    known = {one.key: {"status": "killed"} for one in found[:3]}
    known[found[1].key] = {"status": "survived"}

    text = report(found, known)

    assert "all           3 run    2 killed    1 survived    0 open  score 66.7% to 66.7%" in text
    assert text.endswith(f"{found[1].original} → {found[1].mutated}")


@pytest.fixture
def tests():
    path = str(SOURCE / "theory" / "module.py")
    seconds = {"tests/unit/theory/test_module.py::test_f": 3.0, "tests/golden.py::test_all": 2.5, "a.py::test_g": 1.0}
    lines = {
        "tests/unit/theory/test_module.py::test_f": [8, 11],
        "tests/golden.py::test_all": [8],
        "a.py::test_g": [12],
    }
    return TestMap({test: {"seconds": seconds[test], "lines": {path: lines[test]}} for test in seconds})


def test_a_mutant_meets_the_tests_of_its_line_those_of_its_module_first(tmp_path, module, tests):
    found = {one.original: tests.tests_of(one) for one in mutants(tmp_path, module, 0)}

    assert found["x < 4"] == ["tests/unit/theory/test_module.py::test_f", "tests/golden.py::test_all"]
    assert found["min"] == ["a.py::test_g"]
    assert len(found["True"]) == 3  # a default: no test executes its line


def test_tests_are_run_in_batches_the_first_of_them_short():
    seconds = {str(number): 1.0 for number in range(100)}

    found = batches(list(seconds), seconds)

    assert [test for batch in found for test in batch] == list(seconds)
    assert [len(batch) for batch in found] == [BATCHES[0], BATCHES[1] - BATCHES[0], 100 - BATCHES[1]]
    assert batches(["1"], {"1": 99.0}) == [["1"]]


@pytest.mark.parametrize(
    ("statuses", "cpu_seconds", "expected"),
    [
        (["survived", "killed"], 1e9, ("killed", 2)),
        (["survived", "survived"], 1e9, ("survived", 2)),
        (["survived"], 3.5, ("open", 1)),
    ],
)
def test_a_verdict_leaves_the_source_as_it_was(tmp_path, module, tests, monkeypatch, statuses, cpu_seconds, expected):
    mutant = next(one for one in mutants(tmp_path, module, 0) if one.original == "x < 4")
    seen, statuses = [], iter(statuses)

    def run_tests(root, files, limits, *plugins):
        seen.append((root / mutant.path).read_bytes())
        return Run(next(statuses), "", 2.0)

    monkeypatch.setattr("scripts.mutants.run_tests", run_tests)

    run = Judge(tests, cpu_seconds=cpu_seconds, patience=1.0).verdict(tmp_path, mutant)

    assert (run.status, len(seen)) == expected
    assert all(source == mutant.apply(MODULE.encode()) for source in seen)
    assert module.read_text() == MODULE
