"""The example that lives through a day of a service: nothing that was acknowledged is lost."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "examples" / "day_in_the_life.py"
PAGE = (ROOT / "docs" / "guides" / "day-in-the-life.md").read_text(encoding="utf-8")


def without_numbers(text):
    return re.sub(r"[\d.,]+", "#", text).strip().splitlines()


def without_margin(text):
    return re.sub(r"^ +", "", text, flags=re.MULTILINE)


@pytest.mark.long
def test_a_day_ends_with_a_verified_log():
    done = subprocess.run([sys.executable, SCRIPT], capture_output=True, text=True, timeout=1_800)

    assert done.returncode == 0, done.stderr
    assert "10,000 decisions; killed and restarted" in done.stdout
    assert "a replay gives the same record" in done.stdout
    *_, shown = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)
    assert without_numbers(shown) == without_numbers(done.stdout)


def test_the_page_about_it_shows_the_script_as_it_is():
    *blocks, _ = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)

    assert len(blocks) >= 5
    for block in blocks:
        assert without_margin(block) in without_margin(SCRIPT.read_text(encoding="utf-8"))
