import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kernelbandits.evaluation import simulate
from kernelbandits.experiments.policy_spec import PolicySpec
from kernelbandits.experiments.runner import run_job
from kernelbandits.experiments.store import SCHEMA, job_table, stored_rounds, timing_table, to_parquet
from kernelbandits.policies import KernelUCB, UniformRandom
from small_studies import KERNEL, Unknowing, mixed, small_study


def of_one_policy(spec, **changes):
    study = small_study(policies={"A": spec}, **changes)
    return study, study.jobs[0]


@pytest.mark.parametrize(("n_rounds", "every", "kept"), [(6, 2, [2, 4, 6]), (7, 3, [3, 6, 7]), (2, 5, [2]), (0, 5, [])])
def test_every_so_many_rounds_and_the_last_are_kept(n_rounds, every, kept):
    assert stored_rounds(n_rounds, every).tolist() == kept


def test_sums_are_over_all_rounds_up_to_theirs():
    study, job = of_one_policy(PolicySpec(KernelUCB, KERNEL, exploration=0.8, regularization=0.4))
    trace = simulate(study.environments["groups"], study.variants[0].build(3), horizon=23, seed=3)

    table = job_table(job, trace, {5: 2})

    assert table.column_names == list(SCHEMA)
    assert table["round"].to_pylist() == [5, 10, 15, 20, 23]
    for row, t in enumerate([5, 10, 15, 20, 23]):
        half = 0.8 * trace.width[:t]
        assert table["total_reward"][row].as_py() == pytest.approx(sum(trace.reward[:t]))
        assert table["regret"][row].as_py() == pytest.approx(sum(trace.best[:t] - trace.expected[:t]))
        assert table["potential"][row].as_py() == pytest.approx(sum(half))
        within = [abs(trace.expected[i] - trace.mean[i]) <= half[i] for i in range(t)]
        assert table["n_covered"][row].as_py() == sum(within)
        assert table["action"][row].as_py() == trace.action[t - 1]
    np.testing.assert_array_equal(table["effective_dimension"].to_numpy(), [2.0] + 4 * [np.nan])
    assert 0 < table["n_covered"][-1].as_py() < 23


def test_what_is_not_known_is_reported():
    study, job = of_one_policy(PolicySpec(UniformRandom), environments={"u": Unknowing()})
    table = pq.read_table(pa.BufferReader(run_job(study, job).job))

    assert table["round"].to_pylist() == [5, 7]  # the world ends early
    assert table["n_covered"].to_pylist() == [-1, -1]
    assert np.isnan(table["regret"].to_numpy()).all()
    assert np.isnan(table["effective_dimension"].to_numpy()).all()


def test_a_reward_that_are_unknown_adds_nothing():
    study, job = of_one_policy(PolicySpec(KernelUCB, KERNEL))
    trace = simulate(study.environments["groups"], study.variants[0].build(3), horizon=23, seed=3)
    known = trace.reward.sum() - trace.reward[4]
    trace.reward[4] = np.nan

    assert job_table(job, trace, {})["total_reward"][-1].as_py() == pytest.approx(known)


def test_types_and_metadata_are_as_promised():
    study, job = of_one_policy(PolicySpec(KernelUCB, KERNEL))
    table = pq.read_table(pa.BufferReader(run_job(study, job).job))

    result = json.loads(table.schema.metadata[b"kernelbandits"])
    assert result["id"] == job.id
    assert result["described"]["policy"] == json.loads(json.dumps(KernelUCB(KERNEL).describe()))
    assert set(result) == {
        "format", "id", "environment", "policy", "spec_name", "parameters", "seed", "horizon", "every",
        "learn_rounds", "described", "claims",
    }  # fmt: skip
    assert table.schema.field("policy").type == pa.dictionary(pa.int32(), pa.string())
    whole = [field.name for field in table.schema if field.type == pa.int64()]
    assert whole == ["seed", "round", "action", "stage", "n_actions", "n_covered"]


def test_timings_are_means_since_the_previous_row():
    study, job = of_one_policy(PolicySpec(KernelUCB, KERNEL))
    trace = simulate(study.environments["groups"], study.variants[0].build(3), horizon=23, seed=3)

    table = timing_table(job, trace)

    assert table["round"].to_pylist() == [5, 10, 15, 20, 23]
    assert table["seconds"][4].as_py() == pytest.approx(trace.seconds[20:23].mean())


def test_equal_tables_are_equal_bytes():
    study, job = of_one_policy(mixed)

    first, second = run_job(study, job), run_job(study, job)

    assert first.job == second.job
    assert first.job == to_parquet(pq.read_table(pa.BufferReader(first.job)))


def test_learning_stops_on_request():
    study, job = of_one_policy(PolicySpec(KernelUCB, KERNEL, learn_rounds=6), every=1)
    table = pq.read_table(pa.BufferReader(run_job(study, job).job))

    gains = table["log_det_gain"].to_numpy()
    assert np.all(np.diff(gains[:6]) > 0)
    assert np.all(np.diff(gains[5:]) == 0)


THREADS_OF_A_READ = """
import os, sys
from pathlib import Path
import pyarrow as pa
from pyarrow import parquet
from kernelbandits.experiments.store import read_parquet
path = Path(sys.argv[1])
before = len(os.listdir("/proc/self/task"))
table = read_parquet(path) if sys.argv[2] == "ours" else parquet.ParquetFile(pa.BufferReader(path.read_bytes())).read()
print(table.num_rows, len(os.listdir("/proc/self/task")) - before)
"""


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="Threads of a process are counted in /proc.")
@pytest.mark.parametrize(("reader", "has_threads"), [("ours", False), ("pyarrow's default", True)])
def test_reading_leaves_no_thread_that_could_abort_the_end_of_a_program(tmp_path, reader, has_threads):
    path = tmp_path / "table.parquet"
    path.write_bytes(to_parquet(pa.table({"a": [1.0, 2.0], "b": [3.0, 4.0]})))

    command = [sys.executable, "-c", THREADS_OF_A_READ, str(path), reader]
    ended = subprocess.run(command, capture_output=True, text=True)

    assert ended.stdout, ended.stderr  # the default may abort later, at its end
    n_rows, n_threads = map(int, ended.stdout.split())
    assert (n_rows, n_threads > 0) == (2, has_threads)
