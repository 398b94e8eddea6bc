import json
from dataclasses import replace

import numpy as np
import pytest

from kernelbandits.errors import InvalidParameter
from kernelbandits.experiments import demo_comparison, run_demo
from kernelbandits.experiments.demo_study import COLORS
from kernelbandits.experiments.demo_text import caption, remarks


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    return run_demo(tmp_path_factory.mktemp("demo"), horizon=15, n_seeds=2)


def test_every_policy_has_a_row_and_a_color_of_its_own(result):
    assert {row.policy for row in result.rows} == set(COLORS)
    assert len(set(COLORS.values())) == len(COLORS)


def test_rows_are_sorted_and_random_is_the_whole(result):
    regrets = [row.regret.mean for row in result.rows]

    assert regrets == sorted(regrets)
    assert {row.policy: row.relative_regret for row in result.rows}["Random"] == 1.0


def test_results_on_disk_are_the_results(result):
    stored = json.loads(result.files["results"].read_text(encoding="utf-8"))

    assert stored == json.loads(json.dumps(result.to_dict()))
    assert all(path.stat().st_size > 0 for path in result.files.values())


def test_the_same_demo_again_gives_the_same_regrets(result, tmp_path):
    again = run_demo(tmp_path, horizon=15, n_seeds=2)

    assert [(row.policy, row.regret.mean) for row in again.rows] == [
        (row.policy, row.regret.mean) for row in result.rows
    ]
    assert again.bounds == result.bounds


def test_the_caption_gives_repeats_and_kind_of_interval():
    assert "Mean over 3 seeds" in caption(demo_comparison(horizon=5, n_seeds=3))
    assert "95 % intervals (Student's t over seeds)" in caption(demo_comparison(horizon=5, n_seeds=3))
    assert "no interval" in caption(demo_comparison(horizon=5, n_seeds=1))


def test_a_bound_that_says_nothing_is_said_to_say_nothing(result):
    assert all(bound > 15 for bound in result.bounds.values())
    assert sum("true and says nothing" in remark for remark in result.remarks) == 2


def test_a_bound_that_says_something_is_not_talked_down():
    traces = demo_comparison(horizon=5, n_seeds=1).run()

    said = remarks(traces, {"KernelUCB, proved": 3.0})

    assert any("the bound after 5 rounds is 3, below the 5" in remark for remark in said)


def test_the_folder_is_checked_before_anything_is_played(tmp_path):
    (tmp_path / "file").write_text("here already")

    with pytest.raises(InvalidParameter, match="cannot be made"):
        run_demo(tmp_path / "file", progress=lambda: pytest.fail("played"))


@pytest.mark.parametrize("size", [{"horizon": 10**23}, {"n_seeds": 10**23}])
def test_a_demo_without_end_is_refused(tmp_path, size):
    with pytest.raises(InvalidParameter, match="has to be a whole number of at most 100"):
        run_demo(tmp_path, **size, progress=lambda: pytest.fail("played"))


def test_kernel_ucb_learns_what_a_linear_rule_cannot():
    """Under each seed both meet the same luck, so the difference is taken seed by seed."""
    study = demo_comparison(horizon=120, n_seeds=8)
    pair = {name: study.policies[name] for name in ("LinUCB, tuned", "KernelUCB, tuned")}
    traces = replace(study, policies=pair).run()

    linear, kernel = (np.array([run.regret[-1] for run in runs]) for runs in traces.values())
    gain = linear - kernel

    assert gain.mean() > 4 * gain.std(ddof=1) / np.sqrt(len(gain))
