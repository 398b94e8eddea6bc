import json
import pickle

import numpy as np
import pytest

from kernelbandits.errors import InvalidParameter
from kernelbandits.evaluation import simulate
from kernelbandits.experiments.policy_problems import PROBLEMS
from kernelbandits.experiments.policy_spec import RunInfo
from kernelbandits.experiments.policy_suite import (
    N_SEEDS,
    SUITE,
    TUNING_SEEDS,
    SuiteRun,
    read_constants,
    run_policy_suite,
    suite_studies,
    tune_policy_suite,
    write_numbers,
)
from kernelbandits.policies import Policy

BY_NAME = {policy.name: policy for policy in SUITE}
CONSTANTS = {"UCB1": {"smooth": {"exploration": 0.1}, "table": {"exploration": 0.2}}}
"""The second is the default of UCB1."""


def _trace(name, problem, seed, horizon=20, **values):
    environment = BY_NAME[name].environment(PROBLEMS[problem])
    policy = BY_NAME[name].make(SuiteRun(PROBLEMS[problem], RunInfo(environment, horizon, seed)), **values)
    return simulate(environment, policy, horizon=horizon, seed=seed)


APPROXIMATIONS = {"BKB", "BBKB", "CBBKB", "EKUCB", "MiniBatchGPUCB"}
"""Approximations of KernelUCB and GPUCB, which are in the suite; `benchmarks.long_histories` compares them."""


def test_every_policy_of_the_library_is_in_the_suite():
    import kernelbandits.policies as policies

    built = set()
    for policy in SUITE:
        problem = next(problem for problem in PROBLEMS.values() if policy.is_defined(problem))
        run = RunInfo(policy.environment(problem), 50, 0)
        built.add(type(policy.make(SuiteRun(problem, run))).__name__)

    known = {name for name in policies.__all__ if _is_policy(getattr(policies, name))}
    assert known - APPROXIMATIONS - {"Paced"} == built  # `studies.budgets` measures it: here nothing costs


def _is_policy(value):
    return isinstance(value, type) and issubclass(value, Policy) and not value.__abstractmethods__


@pytest.mark.parametrize("policy", SUITE, ids=lambda policy: policy.name)
def test_every_policy_runs_wherever_it_is_defined_with_every_setting(policy):
    for name, problem in PROBLEMS.items():
        if policy.is_defined(problem):
            grid = policy.settings()
            for values in [{}, grid[0], grid[-1], policy.theory or {}]:
                assert 0.0 <= _trace(policy.name, name, 0, horizon=100, **values).regret[-1] <= 100.0


@pytest.mark.parametrize(
    ("policy", "problems"),
    [
        ("KernelUCB", set(PROBLEMS)),
        ("CGPUCB", {"context × action"}),
        ("LinUCB", set(PROBLEMS) - {"table"}),
        ("LinUCB, hybrid", {"context × action"}),
        ("UCB1", set(PROBLEMS) - {"changing"}),
        ("PhasedElimination", {"linear", "smooth", "clustered", "table"}),
        ("PEGE", {"linear", "smooth", "clustered"}),
        ("PACBayes", {"linear", "smooth", "clustered", "context × action"}),
    ],
)
def test_policies_run_only_where_they_are_defined(policy, problems):
    assert {name for name, problem in PROBLEMS.items() if BY_NAME[policy].is_defined(problem)} == problems

    studies = suite_studies(horizon=50, n_seeds=1, only=[policy], constants={})
    assert {part.problem for part in studies} == problems


def test_policies_can_be_sent_to_other_processes():
    for part in suite_studies(horizon=50, n_seeds=1, constants=CONSTANTS):
        for row in part.study.policies.values():
            again = pickle.loads(pickle.dumps(row))
            assert (again.policy, again.problem, again.values) == (row.policy, row.problem, row.values)


def test_linear_models_see_rows_and_pair_kernels_see_pairs_of_the_same_runs():
    problem = PROBLEMS["context × action"]

    assert BY_NAME["LinUCB"].environment(problem) is problem.rows
    assert BY_NAME["KernelUCB"].environment(problem) is problem.environment
    one, other = _trace("LinUCB", "context × action", 3), _trace("KernelUCB", "context × action", 3)
    np.testing.assert_array_equal(one.best, other.best)


def test_rows_with_equal_settings_run_once():
    parts = suite_studies(horizon=50, n_seeds=1, only=["UCB1"], constants=CONSTANTS)
    table = next(part for part in parts if part.problem == "table")
    smooth = next(part for part in parts if part.problem == "smooth")

    assert table.run_as["UCB1, tuned"] == "UCB1, default"
    assert set(table.study.policies) == {"UCB1, default"}
    assert smooth.run_as["UCB1, tuned"] == "UCB1, tuned"


def test_numbers_are_those_of_the_runs(tmp_path):
    numbers = run_policy_suite(
        tmp_path, horizon=20, n_seeds=2, only=["UCB1", "KernelUCB", "Random"], constants=CONSTANTS, workers=1
    )

    rows = {(row["name"], row["setting"]): row for row in numbers["rows"]}
    assert list(rows) == [
        ("UCB1", "default"),
        ("UCB1", "tuned"),
        ("KernelUCB", "default"),
        ("KernelUCB", "theory"),
        ("Random", "default"),
    ]
    tuned = rows["UCB1", "tuned"]
    assert tuned["values"] == {"smooth": {"exploration": "0.1"}, "table": {"exploration": "0.2"}}
    expected = [_trace("UCB1", "smooth", seed, exploration=0.1).regret[-1] for seed in (0, 1)]
    np.testing.assert_allclose(tuned["regret"]["smooth"], expected, atol=0.005)
    assert set(tuned["regret"]) == {"smooth", "table"}
    assert tuned["regret"]["table"] == rows["UCB1", "default"]["regret"]["table"]
    assert numbers["horizon"] == 20
    assert numbers["n_seeds"] == 2
    json.dumps(numbers)


def test_a_second_run_repeats_nothing(tmp_path):
    def finished():
        return {path: path.stat().st_mtime_ns for path in tmp_path.glob("*/jobs/*.parquet")}

    sizes = {"horizon": 15, "n_seeds": 1, "only": ["Random"], "constants": {}, "workers": 1}
    first, files = run_policy_suite(tmp_path, **sizes), finished()
    again = run_policy_suite(tmp_path, **sizes)

    assert len(files) == len(PROBLEMS)
    assert finished() == files
    assert again["rows"] == first["rows"]


def test_tuning_chooses_the_lowest_mean_regret(tmp_path):
    found = tune_policy_suite(tmp_path / "tuning", horizon=30, seeds=[1_000, 1_001], only=["UCB1", "Random"], workers=1)

    assert set(found["constants"]) == {"UCB1"}
    assert set(found["constants"]["UCB1"]) == set(PROBLEMS) - {"changing"}
    for problem, chosen in found["constants"]["UCB1"].items():
        means = {
            values["exploration"]: np.mean(
                [_trace("UCB1", problem, seed, horizon=30, **values).regret[-1] for seed in (1_000, 1_001)]
            )
            for values in BY_NAME["UCB1"].settings()
        }
        assert means[chosen["exploration"]] == min(means.values())
    write_numbers(tmp_path / "constants.json", found)
    assert read_constants(tmp_path / "constants.json") == found["constants"]


def test_settings_are_tuned_on_other_seeds():
    assert not set(TUNING_SEEDS) & set(range(N_SEEDS))


def test_the_constants_of_the_package_are_settings_of_the_grids():
    constants = read_constants()

    assert set(constants) == {policy.name for policy in SUITE if policy.grid}
    for name, chosen in constants.items():
        policy = BY_NAME[name]
        assert set(chosen) == {problem for problem in PROBLEMS if policy.is_defined(PROBLEMS[problem])}
        assert all(values in policy.settings() for values in chosen.values())


def test_progress_ends_at_the_number_of_all_rounds(tmp_path):
    moves = []
    run_policy_suite(
        tmp_path,
        horizon=10,
        n_seeds=1,
        only=["Random"],
        constants={},
        workers=1,
        progress=lambda done, of: moves.append((done, of)),
    )

    assert moves[-1] == (10 * len(PROBLEMS), 10 * len(PROBLEMS))
    assert [done for done, _ in moves] == sorted(done for done, _ in moves)


@pytest.mark.parametrize("size", [{"horizon": 10**23}, {"n_seeds": 10**23}])
def test_a_suite_without_end_is_rejected(tmp_path, size):
    with pytest.raises(InvalidParameter, match="must be a whole number of at most 100"):
        run_policy_suite(tmp_path, constants={}, **size)


def test_an_unknown_name_is_rejected_with_the_known_ones(tmp_path):
    with pytest.raises(InvalidParameter, match=r"'NoPolicy'. There are: 'KernelUCB', .*'Random'"):
        run_policy_suite(tmp_path, only=["NoPolicy"])


@pytest.mark.parametrize("text", [None, "no json", "[]", "{}"])
def test_a_file_without_constants_is_rejected(tmp_path, text):
    if text is not None:
        (tmp_path / "constants.json").write_text(text, encoding="utf-8")

    with pytest.raises(InvalidParameter, match="holds no tuned settings"):
        read_constants(tmp_path / "constants.json")
