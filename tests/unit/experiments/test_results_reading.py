import json

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from kernelbandits.environments import SyntheticRKHS
from kernelbandits.errors import DamagedFile, ForeignFile, InvalidParameter, NewerFile
from kernelbandits.evaluation import simulate
from kernelbandits.experiments.results import read_results, report_warnings
from kernelbandits.kernels import Gaussian
from kernelbandits.policies import KernelUCB
from study_folders import job_columns, simple_columns, write_head, write_job


def make_folder(folder, policies=("good", "bad"), seeds=(0, 1), **head):
    jobs = [
        write_job(
            folder, environment="world", policy=policy, seed=seed, seconds=np.full(10, 0.5),
            columns=simple_columns(np.arange(1.0, 11.0) * (seed + 1)),
        )
        for policy in policies
        for seed in seeds
    ]  # fmt: skip
    write_head(folder, jobs, seeds=list(seeds), **head)
    return jobs


def test_curves_are_those_of_the_runs(tmp_path):
    kernel = Gaussian(length_scale=0.3)
    world = SyntheticRKHS(kernel, n_actions=4, n_features=2, noise="bernoulli")
    traces = [simulate(world, KernelUCB(kernel, exploration=0.3), horizon=11, seed=seed) for seed in (7, 3)]
    jobs = [
        write_job(tmp_path, environment="w", policy="k", seed=trace.spec["seed"], columns=job_columns(trace, every=4))
        for trace in traces
    ]
    write_head(tmp_path, jobs)

    played = read_results(tmp_path).environments["w"]["k"]

    assert_array_equal(played.rounds, [4, 8, 11])
    assert [run.seed for run in played.runs] == [3, 7]
    for row, trace in zip(played.curves("regret"), reversed(traces), strict=True):
        assert_allclose(row, trace.regret[[3, 7, 10]])
    assert_allclose(played.final("log_det_gain"), [traces[1].log_det_gain[-1], traces[0].log_det_gain[-1]])
    assert_allclose(played.mean_rewards, [traces[1].reward.mean(), traces[0].reward.mean()])


def test_a_column_that_an_earlier_version_did_not_write_is_unknown(tmp_path):
    jobs = [
        write_job(tmp_path, environment="w", policy=name, seed=0, columns=simple_columns([1.0, 2.0], inflation=values))
        for name, values in (("earlier", None), ("now", [1.0, 1.5]))
    ]
    write_head(tmp_path, jobs, seeds=[0])

    played = read_results(tmp_path).environments["w"]

    assert np.isnan(played["earlier"].curves("inflation")).all()
    assert_array_equal(played["now"].curves("inflation"), [[1.0, 1.5]])


def test_a_complete_study_has_no_gaps(tmp_path):
    make_folder(tmp_path)

    recorded = read_results(tmp_path)

    assert list(recorded.environments["world"]) == ["good", "bad"]
    assert report_warnings(recorded) == ()


def test_what_is_not_finished_is_named_and_the_rest_is_there(tmp_path):
    jobs = make_folder(tmp_path)
    (tmp_path / "jobs" / f"{jobs[3]}.parquet").unlink()

    recorded = read_results(tmp_path)

    assert recorded.n_missing == 1
    assert recorded.environments["world"]["bad"].n_runs == 1
    (first, second) = report_warnings(recorded)
    assert first.startswith("The study is not complete: 3 of 4 jobs are finished.")
    assert "bad in world (seed 1)" in first
    assert second == "Some policies have one run only, and no interval."


def test_results_that_are_not_of_the_study_are_left_out(tmp_path):
    jobs = make_folder(tmp_path)
    write_head(tmp_path, jobs[:2])

    recorded = read_results(tmp_path)

    assert list(recorded.environments["world"]) == ["good"]
    assert report_warnings(recorded) == (
        "2 results in the folder are not part of the study as it is now, and left out.",
    )


def test_runs_of_unequal_length_are_drawn_as_far_as_all_go_and_judged_at_their_ends(tmp_path):
    jobs = [
        write_job(tmp_path, environment="w", policy="p", seed=seed, columns=simple_columns(np.arange(float(n))))
        for seed, n in enumerate((10, 6))
    ]
    write_head(tmp_path, jobs)

    recorded = read_results(tmp_path)
    played = recorded.environments["w"]["p"]

    assert_array_equal(played.rounds, [1, 2, 3, 4, 5, 6])
    assert_array_equal(played.final("regret"), [9.0, 5.0])
    assert report_warnings(recorded)[0].endswith("p in w (6 to 10 rounds).")


def test_a_run_without_any_round_is_left_out(tmp_path):
    columns = simple_columns(np.empty(0), rounds=np.empty(0, dtype=int))
    jobs = [*make_folder(tmp_path), write_job(tmp_path, environment="world", policy="none", seed=0, columns=columns)]
    write_head(tmp_path, jobs)

    recorded = read_results(tmp_path)

    assert "none" not in recorded.environments["world"]
    assert any("had no round" in sentence for sentence in report_warnings(recorded))


def test_one_seed_is_reported_to_be_alone(tmp_path):
    make_folder(tmp_path, seeds=(5,))

    assert "no intervals" in report_warnings(read_results(tmp_path))[0]


def test_times_count_as_many_rounds_as_they_stand_for(tmp_path):
    columns = simple_columns([1.0, 2.0], rounds=[8, 10])
    job = write_job(tmp_path, environment="w", policy="p", seed=0, columns=columns, seconds=[0.1, 1.1])
    write_head(tmp_path, [job])

    assert_allclose(read_results(tmp_path).environments["w"]["p"].seconds_per_round, [(8 * 0.1 + 2 * 1.1) / 10])


def test_without_times_they_are_unknown(tmp_path):
    jobs = make_folder(tmp_path)
    (tmp_path / "timings" / f"{jobs[0]}.parquet").unlink()

    seconds = read_results(tmp_path).environments["world"]["good"].seconds_per_round

    assert_array_equal(seconds, [np.nan, 0.5])


@pytest.mark.parametrize("part", ["jobs", "timings"])
@pytest.mark.parametrize("damage", [lambda data: data[: len(data) // 2], lambda _: b"", lambda _: b"nonsense"])
def test_a_damaged_file_is_named(tmp_path, part, damage):
    path = tmp_path / part / f"{make_folder(tmp_path)[1]}.parquet"
    path.write_bytes(damage(path.read_bytes()))

    with pytest.raises(DamagedFile, match=f"{path.name}.*Delete it and run the study again"):
        read_results(tmp_path)


def test_a_lacking_column_is_named(tmp_path):
    columns = simple_columns([1.0])
    del columns["potential"]
    write_head(tmp_path, [write_job(tmp_path, environment="w", policy="p", seed=0, columns=columns)])

    with pytest.raises(DamagedFile, match="lacks the column 'potential'"):
        read_results(tmp_path)


def test_rounds_that_go_back_are_rejected(tmp_path):
    columns = simple_columns([1.0, 2.0], rounds=[4, 3])
    write_head(tmp_path, [write_job(tmp_path, environment="w", policy="p", seed=0, columns=columns)])

    with pytest.raises(DamagedFile, match="do not increase"):
        read_results(tmp_path)


def test_two_results_of_the_same_run_are_rejected(tmp_path):
    jobs = make_folder(tmp_path)
    again = write_job(
        tmp_path, environment="world", policy="good", seed=0, columns=simple_columns([1.0]), learn_rounds=3
    )
    write_head(tmp_path, [*jobs, again])

    with pytest.raises(DamagedFile, match="two results of 'good' in 'world' under seed 0"):
        read_results(tmp_path)


def test_a_file_of_somebody_else_is_rejected(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    jobs = make_folder(tmp_path)
    pq.write_table(pa.table({"round": [1]}), tmp_path / "jobs" / f"{jobs[0]}.parquet")

    with pytest.raises(ForeignFile, match="was not written by a study"):
        read_results(tmp_path)


def test_later_formats_are_rejected(tmp_path):
    jobs = make_folder(tmp_path)
    write_head(tmp_path, jobs, format=4)
    with pytest.raises(NewerFile, match="has format 4"):
        read_results(tmp_path)

    newer = write_job(tmp_path, environment="w", policy="p", seed=0, columns=simple_columns([1.0]), format=4)
    write_head(tmp_path, [newer])
    with pytest.raises(NewerFile, match="has format 4"):
        read_results(tmp_path)


def test_a_folder_that_is_none_is_rejected(tmp_path):
    with pytest.raises(InvalidParameter, match="There is no folder"):
        read_results(tmp_path / "nowhere")
    with pytest.raises(ForeignFile, match=r"is not a result folder: it has no study\.json"):
        read_results(tmp_path)


def test_nothing_finished_is_reported(tmp_path):
    write_head(tmp_path, ["a", "b"])

    with pytest.raises(InvalidParameter, match="is finished yet: it has 2 jobs and no result"):
        read_results(tmp_path)


@pytest.mark.parametrize("text", ["{", "[]", json.dumps({"jobs": 3})])
def test_a_damaged_head_is_named(tmp_path, text):
    (tmp_path / "study.json").write_text(text)

    with pytest.raises(DamagedFile, match=r"study\.json"):
        read_results(tmp_path)
