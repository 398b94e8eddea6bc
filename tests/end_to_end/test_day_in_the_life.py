"""The example that lives through a day of a service: nothing that was acknowledged is lost."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "examples" / "day_in_the_life.py"


@pytest.mark.long
def test_a_day_ends_with_a_verified_log():
    done = subprocess.run([sys.executable, SCRIPT], capture_output=True, text=True, timeout=1_800)

    assert done.returncode == 0, done.stderr
    assert "10,000 decisions; killed and restarted" in done.stdout
    assert "a replay gives the same record" in done.stdout
