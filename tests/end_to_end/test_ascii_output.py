"""Text comes out whole where the output knows ASCII only."""

import os
import subprocess
import sys

import pytest

STUDY = """
name = "letters \u00e4\u2026"
horizon = 5
seeds = 2

[environments.groups]
class = "Clustered"
n_actions = 3

[policies."Zufall \u00b1"]
class = "UniformRandom"
"""

PRINTED = """
import numpy as np
import kernelbandits as kb

policy = kb.KernelUCB(kb.kernels.Spectrum(n=1))
policy.learn(policy.choose(["caf\u00e9"]), 1.0)
print(policy.explain(policy.choose(["caf\u00e9"])))
try:
    policy.learn(kb.Decision(action=0, context="x", id=policy.choose(["a"]).id, policy="other"), 1.0)
except kb.errors.KernelBanditError as error:
    print(error)
try:
    kb.GridGP(kb.kernels.Linear(), np.eye(2))
except kb.errors.KernelBanditError as error:
    print(error)
print(kb.evaluation.Estimate(
    value=1.0, standard_error=0.5, low=0.0, high=2.0, confidence=0.95, n_rounds=9, n_matched=9,
    effective_sample_size=9.0, warnings=("a \u00b1 b",),
))
print(kb.theory.Mixture(noise_scale=0.1, norm_bound=2.0, failure_probability=0.05).assumes)
print(kb.theory.format_bounds(kb.theory.compare_bounds(horizon=100, n_actions=5, n_features=3)))
"""


def in_ascii(*arguments):
    """What a Python process writes to streams that know ASCII only and fail at anything else."""
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "COLUMNS": "100"}
    return subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, check=False)


def assert_fine(ended):
    result = ended.stdout + ended.stderr
    assert ended.returncode == 0, result.decode("ascii", "replace")[-2000:]
    assert b"UnicodeEncodeError" not in result
    assert result.isascii()


def test_what_a_script_prints_is_written_in_ascii(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(PRINTED, encoding="utf-8")

    ended = in_ascii(str(script))

    assert_fine(ended)
    assert b"1 +- 0.5" in ended.stdout
    assert b"exploration 1 * width" in ended.stdout
    assert b"caf?" in ended.stdout
    assert b"n_points=..." in ended.stdout


def test_a_stream_that_knows_ascii_only_would_be_noticed():
    ended = in_ascii("-c", r"print('1 \u00b1 0.5')")

    assert ended.returncode != 0
    assert b"UnicodeEncodeError" in ended.stderr


@pytest.mark.parametrize("command", ["demo", "compare", "run", "report"])
def test_help_is_written_in_ascii(command):
    assert_fine(in_ascii("-m", "kernelbandits", command, "--help"))


def test_a_study_and_its_report_are_written_in_ascii(tmp_path):
    path, into = tmp_path / "study.toml", tmp_path / "results"
    path.write_text(STUDY, encoding="utf-8")

    for arguments in (
        ["run", str(path), "--into", str(into), "--workers", "1"],
        ["run", str(path), "--into", str(into), "--dry-run"],
        ["report", str(into), "--into", str(tmp_path / "report")],
    ):
        assert_fine(in_ascii("-m", "kernelbandits", *arguments))


@pytest.mark.long
def test_the_demo_and_the_comparison_are_written_in_ascii(tmp_path):
    for arguments in (
        ["demo", "--quick", "--into", str(tmp_path / "demo")],
        ["compare", "--quick", "--into", str(tmp_path / "compare")],
    ):
        ended = in_ascii("-m", "kernelbandits", *arguments)

        assert_fine(ended)
        assert b"+- " in ended.stdout
