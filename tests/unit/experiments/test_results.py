import numpy as np
import pytest

from kernelbandits.errors import ForeignFile
from kernelbandits.experiments.results import Results, mean_band
from kernelbandits.experiments.runner import run
from small_studies import small_study


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    return run(small_study(), tmp_path_factory.mktemp("results"), workers=1)


def test_all_rows_are_there(results):
    table = results.table()

    assert results.is_complete
    assert table.num_rows == 6 * 5
    assert set(table["policy"].to_pylist()) == {
        "KernelUCB, regularization=0.5",
        "KernelUCB, regularization=2.0",
        "Random",
    }


def test_frames_of_all_kinds_see_the_same_rows(results):
    duckdb, pd, pl = (pytest.importorskip(name) for name in ("duckdb", "pandas", "polars"))
    total = results.frame()["total_reward"].sum()

    ours = results.frame()
    pandas_frame = pd.read_parquet(results.folder / "jobs")
    polars_frame = pl.read_parquet(f"{results.folder}/jobs/*.parquet")
    ((duck_total, duck_rows),) = duckdb.sql(
        f"select sum(total_reward), count(*) from '{results.folder}/jobs/*.parquet' where round > 0"
    ).fetchall()

    assert len(ours) == len(pandas_frame) == len(polars_frame) == duck_rows == 30
    assert list(pandas_frame.columns) == polars_frame.columns == list(ours.columns)
    assert pandas_frame["total_reward"].sum() == pytest.approx(total)
    assert polars_frame["total_reward"].sum() == pytest.approx(total)
    assert duck_total == pytest.approx(total)


def test_the_summary_is_over_seeds_at_the_end(results):
    standing = results.summary()[1]

    rows = [row for row in results.table().to_pylist() if row["policy"] == "KernelUCB, regularization=2.0"]
    regret, total = (
        np.array([row[column] for row in rows if row["round"] == 23]) for column in ("regret", "total_reward")
    )
    assert (standing.environment, standing.policy, standing.n_runs) == ("groups", "KernelUCB, regularization=2.0", 2)
    assert standing.regret.mean == pytest.approx(regret.mean())
    assert standing.regret.deviation == pytest.approx(regret.std(ddof=1))
    assert standing.total_reward.half_width == pytest.approx(float(mean_band(total).half_width))


def test_jobs_say_what_they_are(results):
    assert [result["seed"] for result in results.jobs] == [3, 3, 3, 8, 8, 8]
    assert results.jobs[1]["parameters"] == {"regularization": 2.0}


def test_what_is_missing_is_reported(tmp_path):
    study = small_study()
    results = run(study, tmp_path, workers=1)
    (tmp_path / "jobs" / f"{study.jobs[4].id}.parquet").unlink()

    assert results.missing == (study.jobs[4].id,)
    assert not results.is_complete
    assert results.table().num_rows == 25
    one_seed = results.summary()[1]
    assert one_seed.n_runs == 1
    assert np.isnan(one_seed.regret.half_width)
    assert one_seed.to_dict()["regret_deviation"] is None


def test_a_folder_without_results_is_rejected(tmp_path):
    with pytest.raises(ForeignFile, match=r"has no study\.json"):
        Results(tmp_path)
