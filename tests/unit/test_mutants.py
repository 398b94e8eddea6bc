"""The mutants of scripts/mutants.py: what is changed, and that the sample can be found again."""

import ast

import pytest
from scripts.mutants import ROOT, SOURCE, mutants, report, sample, stages

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
    assert all((ROOT / test).exists() for one in chosen[:50] for tests in stages(ROOT, one.path) for test in tests)


def test_a_report_counts_and_lists_survivors(tmp_path, module):
    found = list(mutants(tmp_path, module, 0))[:4]
    known = {one.key: {"status": "killed"} for one in found[:3]}
    known[found[1].key] = {"status": "survived"}

    text = report(found, known)

    assert "all           3 run    2 killed    1 survived    0 open  score 66.7% to 66.7%" in text
    assert text.endswith(f"{found[1].original} → {found[1].mutated}")
