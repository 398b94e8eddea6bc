import pickle
from pathlib import Path

import numpy as np
import pytest

from kernelbandits.environments import SyntheticRKHS
from kernelbandits.errors import InvalidParameter
from kernelbandits.evaluation import simulate
from kernelbandits.experiments.policy_spec import RunInfo
from kernelbandits.experiments.policy_suite import (
    PROBLEMS,
    SUITE,
    InUnitBall,
    insert_table,
    run_policy_suite,
    suite_study,
)
from kernelbandits.kernels import Gaussian
from kernelbandits.policies import Policy
from kernelbandits.testing import EnvironmentContract


class TestInUnitBall(EnvironmentContract):
    @pytest.fixture
    def environment(self):
        kernel = Gaussian(length_scale=0.3)
        return InUnitBall(SyntheticRKHS(kernel, n_actions=4, n_features=3, noise="bernoulli"), 3)


@pytest.mark.parametrize("problem", PROBLEMS)
def test_every_problem_has_fixed_actions_in_the_unit_ball_and_rewards_of_0_and_1(problem):
    world = PROBLEMS[problem].start(np.random.default_rng(2))

    first, second = world.observe(), world.observe()

    np.testing.assert_array_equal(first.contexts, second.contexts)
    assert np.linalg.norm(first.contexts, axis=1).max() <= 1.0
    assert {world.reward(row) for row in range(len(first.contexts))} <= {0.0, 1.0}
    assert first.expected.max() - first.expected.min() > 0.05


def test_every_policy_of_the_library_is_in_the_suite():
    import kernelbandits.policies as policies

    run = RunInfo(PROBLEMS["smooth"], 50, 0)
    built = {type(policy(run)).__name__ for policy in SUITE}

    known = {name for name in policies.__all__ if _is_policy(getattr(policies, name))}
    assert known - built - NOT_FOR_FIXED_ROWS == set()


NOT_FOR_FIXED_ROWS = {"CGPUCB"}
"""Needs pairs of a context and an action."""


def _is_policy(value):
    return isinstance(value, type) and issubclass(value, Policy) and not value.__abstractmethods__


@pytest.mark.parametrize("policy", SUITE, ids=lambda policy: policy.name)
def test_every_policy_runs_on_every_problem(policy):
    for environment in PROBLEMS.values():
        trace = simulate(environment, policy(RunInfo(environment, 40, 0)), horizon=40, seed=0)

        assert 0.0 <= trace.regret[-1] <= 40.0


def test_policies_can_be_sent_to_other_processes():
    assert all(pickle.loads(pickle.dumps(policy)) is policy for policy in SUITE)


def test_the_study_has_every_policy_on_every_problem():
    jobs = suite_study(horizon=10, n_seeds=1).jobs

    assert {(job.environment, job.policy) for job in jobs} == {
        (problem, policy.name) for problem in PROBLEMS for policy in SUITE
    }


def test_the_suite_writes_a_report_of_its_results(tmp_path):
    made = run_policy_suite(tmp_path / "new", horizon=20, n_seeds=2, only=["KernelUCB", "Random"], workers=1)

    overview = made.tables[0]
    assert [row[:2] for row in overview.rows] == [["KernelUCB", "kernel"], ["Random", "baseline"]]
    assert list(overview.headings) == ["Policy", "Family", *PROBLEMS, "Time per round"]
    expected = {row.policy: row for row in made.ranking["smooth"]}["KernelUCB"].regret.mean
    traces = [_trace("KernelUCB", "smooth", seed) for seed in (0, 1)]
    assert expected == pytest.approx(np.mean([trace.regret[-1] for trace in traces]), rel=1e-9)
    assert f"{expected:.0f} ± " in overview.to_markdown()
    assert (made.files["figures"] / "final-regret-light.png").read_bytes().startswith(b"\x89PNG")


def _trace(name, problem, seed):
    (policy,) = (policy for policy in SUITE if policy.name == name)
    environment = PROBLEMS[problem]
    return simulate(environment, policy(RunInfo(environment, 20, seed)), horizon=20, seed=seed)


def test_several_workers_find_the_same(tmp_path):
    alone, together = (
        run_policy_suite(tmp_path / str(workers), horizon=15, n_seeds=1, only=["Random"], workers=workers)
        for workers in (1, 2)
    )

    finals = [[row.regret.mean for rows in made.ranking.values() for row in rows] for made in (alone, together)]
    assert finals[0] == finals[1]


@pytest.mark.parametrize("size", [{"horizon": 10**23}, {"n_seeds": 10**23}])
def test_a_suite_without_end_is_rejected(tmp_path, size):
    with pytest.raises(InvalidParameter, match="must be a whole number of at most 100"):
        run_policy_suite(tmp_path, **size)


def test_an_unknown_name_is_rejected_with_the_known_ones(tmp_path):
    with pytest.raises(InvalidParameter, match=r"'Nobody'. There are: .*'KernelUCB', 'KernelUCB, theory'"):
        run_policy_suite(tmp_path, only=["Nobody"])


def test_a_table_is_inserted_between_the_marks_of_a_page(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- table: how -->\nold\n<!-- end of table -->\nafter\n", encoding="utf-8")

    for _ in range(2):
        insert_table(page, "| new |\n")

    assert page.read_text() == "before\n<!-- table: how -->\n\n| new |\n\n<!-- end of table -->\nafter\n"
    page.write_text("no marks", encoding="utf-8")
    with pytest.raises(InvalidParameter, match="no place for a table"):
        insert_table(page, "| new |\n")


def test_the_page_of_the_docs_has_a_row_for_every_policy():
    page = (Path(__file__).parents[3] / "docs" / "policies.md").read_text(encoding="utf-8")

    assert all(f"| {policy.name} " in page for policy in SUITE)
