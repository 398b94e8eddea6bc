import subprocess
import sys

import kernelbandits.theory as theory


def test_public_names_are_sorted_and_importable():
    def capitals_first(name):
        return not name.isupper(), not name[0].isupper(), name

    assert theory.__all__ == sorted(theory.__all__, key=capitals_first)
    assert all(hasattr(theory, name) for name in theory.__all__)


def test_importing_the_theory_leaves_scipy_alone():
    code = "import sys, kernelbandits.theory; sys.exit('scipy' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
