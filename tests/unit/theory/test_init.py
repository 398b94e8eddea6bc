import ast
import inspect
import subprocess
import sys

import kernelbandits.theory as theory
from kernelbandits.theory import lemmas


def test_public_names_are_sorted_and_importable():
    def capitals_first(name):
        return not name.isupper(), not name[0].isupper(), name

    assert theory.__all__ == sorted(theory.__all__, key=capitals_first)
    assert all(hasattr(theory, name) for name in theory.__all__)


def test_importing_the_theory_leaves_scipy_alone():
    code = "import sys, kernelbandits.theory; sys.exit('scipy' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def texts(node):
    """All that a string in the source consists of, with the constant parts of formatted ones."""
    return [part.value for part in ast.walk(node) if isinstance(part, ast.Constant) and isinstance(part.value, str)]


def test_what_is_assumed_can_be_printed_anywhere():
    schedules = [kind for kind in vars(theory).values() if isinstance(kind, type) and hasattr(kind, "assumes")]
    claims = [kind.assumes for kind in schedules if isinstance(kind.assumes, str)]
    calls = [node for node in ast.walk(ast.parse(inspect.getsource(lemmas))) if isinstance(node, ast.Call)]
    given = [keyword.value for call in calls for keyword in call.keywords if keyword.arg == "assumes"]
    checks = [text for value in given for text in texts(value)]
    bounds = [row["assumes"] for row in theory.compare_bounds(horizon=100, n_actions=5, n_features=3)]

    assert (len(claims), len(bounds)) == (7, 16)
    assert len(checks) >= 9
    assert [text for text in (*claims, *checks, *bounds) if not text.isascii()] == []
