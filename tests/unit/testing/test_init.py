import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
STRANGER = """
import pytest
import kernelbandits as kb
from kernelbandits.testing import PolicyContract


class TestOne(PolicyContract):
    @pytest.fixture
    def make_policy(self):
        return lambda: kb.UCB1()

    @pytest.fixture
    def make_round(self):
        return lambda rng, n_actions: rng.normal(size=(3, 2))
"""


def test_without_pytest_the_extra_is_named():
    code = (
        "import sys\nsys.modules['pytest'] = None\n"
        "import kernelbandits as kb\n"
        "try: kb.testing\n"
        "except kb.errors.MissingExtra as error: print(error)\n"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert 'need pytest, which is not installed. Add it with: pip install "kernelbandits[testing]"' in done.stdout


@pytest.mark.parametrize("with_plugin", [True, False])
def test_a_project_without_configuration_runs_a_contract_with_strict_marks(tmp_path, with_plugin):
    """The plugin is named here, since an editable installation may be older than its entry point."""
    (tmp_path / "test_stranger.py").write_text(STRANGER, encoding="utf-8")
    plugin = ["-p", "kernelbandits._pytest_plugin"] if with_plugin else []
    options = ["--strict-markers", "-W", "error", "--collect-only", "-q", "-m", "not long"]

    done = subprocess.run(
        [sys.executable, "-m", "pytest", *plugin, *options, "test_stranger.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode == 0) == with_plugin, done.stdout
    assert ("1 deselected" in done.stdout) == with_plugin


def test_pytest_loads_the_plugin_wherever_the_library_is_installed():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

    assert project["entry-points"]["pytest11"] == {"kernelbandits": "kernelbandits._pytest_plugin"}
