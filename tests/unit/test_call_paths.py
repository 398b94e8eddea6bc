"""A warm round passes through few functions and modules: the counts of scripts/call_paths.py are bounded."""

import pytest
from scripts.call_paths import Size, cases, size_of, warm_round

import kernelbandits as kb

BOUNDS = {
    "KernelUCB, 40 fresh rows": (55, 12),
    "KernelUCB, catalog of 2,000": (25, 13),
    "LinUCB shared": (15, 9),
    "LinUCB disjoint": (60, 18),
    "Mixed(LinUCB)": (25, 12),
}
"""Most Python calls and most modules of `choose`."""


@pytest.mark.parametrize("name", BOUNDS)
def test_a_choice_passes_through_few_functions_and_modules(name):
    pytest.importorskip("numba")
    kb.compile_ahead()
    calls, modules = BOUNDS[name]

    path = warm_round(name)["choose"]

    assert 0 < path.calls <= calls
    assert 0 < path.modules <= modules


def test_bounds_name_policies_that_are_counted():
    assert BOUNDS.keys() <= cases().keys()


def test_the_size_of_source_leaves_out_docstrings_comments_and_blank_lines(tmp_path):
    (tmp_path / "one.py").write_text(
        '"""What it is.\n\nMore.\n"""\n\nN = 1  # a number\n"""What N is."""\n# a comment\n'
    )

    assert size_of(tmp_path) == Size(modules=1, lines=8, code=1, docstrings=5)
