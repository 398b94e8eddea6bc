"""Paired differences and ranks, against the slow definitions."""

import csv
from io import StringIO

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from kernelbandits.errors import InvalidParameter
from kernelbandits.experiments.reports.tables import (
    comparison_table,
    csv_table,
    durations,
    latex_tables,
    numbers_with_intervals,
    rank_table,
)
from kernelbandits.experiments.results import EndValue, read_results
from study_folders import simple_columns, write_head, write_job

SEEDS = range(6)
POLICIES = ("a", "b", "c", "copy of c")


def finals(environment, *, shared=10.0):
    """Final regret by policy and seed: the seeds differ much more than the policies, as hard worlds do."""
    rng = np.random.default_rng(7 if environment == "w" else 8)
    hardness = shared * rng.random(len(SEEDS)) + 5.0
    found = {label: hardness + place + rng.normal(size=len(SEEDS)) for place, label in enumerate(POLICIES[:3])}
    return found | {"copy of c": found["c"]}


def write(folder, *, environments=("w", "v"), leave_out=(), by_reward=False):
    jobs = []
    for environment in environments:
        for label, values in finals(environment).items():
            for seed, value in zip(SEEDS, values, strict=True):
                if (environment, label, seed) in leave_out:
                    continue
                columns = simple_columns([value / 2.0, value])
                if by_reward:
                    columns |= {"regret": np.full(2, np.nan), "total_reward": np.array([0.0, value])}
                jobs.append(write_job(folder, environment=environment, policy=label, seed=seed, columns=columns))
    write_head(folder, jobs, horizon=2, seeds=list(SEEDS))
    return read_results(folder)


def by_policy(results, environment="w", reference=None):
    return {row.policy: row for row in results.ranking(reference)[environment]}


def test_differences_are_those_of_pairs_with_the_same_seed(tmp_path):
    found, values = by_policy(write(tmp_path)), finals("w")

    for label in POLICIES:
        differences = values[label] - values["a"]
        row = found[label]
        assert (row.reference, row.n_pairs, row.n_better) == ("a", len(SEEDS), int((differences < 0).sum()))
        assert row.difference.mean == pytest.approx(differences.mean())
        if label != "a":
            low, high = stats.t.interval(0.95, len(SEEDS) - 1, differences.mean(), stats.sem(differences))
            assert_allclose([row.difference.low, row.difference.high], [low, high])
    assert found["b"].difference.half_width < found["b"].regret.half_width / 2  # what pairing is for


def test_a_reference_can_be_named(tmp_path):
    results, values = write(tmp_path), finals("w")

    found = by_policy(results, reference="b")

    assert found["a"].reference == "b"
    assert found["a"].difference.mean == pytest.approx((values["a"] - values["b"]).mean())
    with pytest.raises(InvalidParameter, match=r"There is no policy 'B' to compare with\. Did you mean 'b'"):
        results.ranking("B")


def test_a_larger_reward_is_better(tmp_path):
    found, values = by_policy(write(tmp_path, by_reward=True)), finals("w")

    assert found["a"].measure == "total_reward"
    assert found["a"].reference == "c"
    assert found["a"].n_better == int((values["a"] > values["c"]).sum())
    assert found["a"].mean_rank.mean > found["c"].mean_rank.mean


def test_ranks_are_those_under_each_seed_and_ties_share_theirs(tmp_path):
    found, values = by_policy(write(tmp_path)), finals("w")

    for label in POLICIES:
        ranks = [
            1.0
            + sum(values[other][seed] < values[label][seed] for other in POLICIES)
            + 0.5 * sum(values[other][seed] == values[label][seed] for other in POLICIES if other != label)
            for seed in SEEDS
        ]
        assert found[label].mean_rank.mean == pytest.approx(np.mean(ranks))
    assert found["c"].mean_rank == found["copy of c"].mean_rank
    assert sum(row.mean_rank.mean for row in found.values()) == pytest.approx(1 + 2 + 3 + 4)


def test_seeds_that_a_policy_lacks_count_for_none(tmp_path):
    found = by_policy(write(tmp_path, leave_out={("w", "b", 0), ("w", "b", 3)}))
    kept, values = [1, 2, 4, 5], finals("w")

    assert (found["b"].n_pairs, found["c"].n_pairs) == (4, 6)
    assert found["b"].difference.mean == pytest.approx((values["b"] - values["a"])[kept].mean())
    ranks = stats.rankdata([values[label][kept] for label in POLICIES], axis=0)
    assert [found[label].mean_rank.mean for label in POLICIES] == pytest.approx(ranks.mean(axis=1).tolist())


def test_ranks_over_all_environments_are_means_under_each_seed(tmp_path):
    results = write(tmp_path)
    ranks = np.mean([stats.rankdata(list(finals(name).values()), axis=0) for name in ("w", "v")], axis=0)

    overall = results.overall_ranks()

    assert [overall[label].mean for label in POLICIES] == pytest.approx(ranks.mean(axis=1).tolist())
    assert overall["b"].deviation == pytest.approx(ranks[1].std(ddof=1))


def test_there_are_no_ranks_over_environments_that_lack_a_policy(tmp_path):
    results = write(tmp_path, leave_out={("v", "b", seed) for seed in SEEDS})

    assert results.overall_ranks() == {}
    table = rank_table(results.ranking(), results.overall_ranks())
    assert list(table.headings) == ["Policy", "w", "v"]
    assert {row[0]: row[2] for row in table.rows}["b"] == "–"


def test_one_policy_has_nothing_to_compare_with(tmp_path):
    left_out = {(name, label, seed) for name in ("w", "v") for label in POLICIES[1:] for seed in SEEDS}
    results = write(tmp_path, leave_out=left_out)

    (row,) = results.ranking()["w"]
    assert (row.reference, row.n_pairs) == ("", 0)
    assert comparison_table([row]) is None
    assert rank_table(results.ranking(), results.overall_ranks()) is None


def test_tables_of_differences_and_ranks_have_all_forms(tmp_path):
    results = write(tmp_path)
    ranking = results.ranking("c")
    tables = [*map(comparison_table, ranking.values()), rank_table(ranking, results.overall_ranks())]

    first = tables[0]
    rows = {row[0]: row for row in first.rows}
    assert list(first.headings) == ["Policy", "Difference in regret", "Better", "Mean rank"]
    assert tuple(rows["c"][1:3]) == ("reference", "–")
    assert rows["a"][1].startswith("−")
    assert rows["a"][2].endswith(" of 6")
    assert "minus that of c under the same seed" in first.caption
    assert "which favors it" not in first.caption
    assert "which favors it" in comparison_table(results.ranking()["w"]).caption
    assert "$-$" in latex_tables(tables)
    assert all(table.section == "Differences and ranks" for table in tables)
    assert "−" in first.to_markdown()
    assert "−" in first.to_html()
    read = {row["policy"]: row for row in csv.DictReader(StringIO(csv_table(ranking))) if row["environment"] == "w"}
    assert float(read["a"]["difference"]) == {row.policy: row for row in ranking["w"]}["a"].difference.mean < 0.0
    assert read["a"]["reference"] == "c"


# Precision of a column


def end(mean, half):
    return EndValue(mean=mean, low=mean - half, high=mean + half)


@pytest.mark.parametrize(
    ("column", "texts"),
    [
        ([end(8.13, 9.1), end(9.5, 9.7), end(-71.02, 10.13)], ["8.1 ± 9.1", "9.5 ± 9.7", "−71.0 ± 10.1"]),
        ([end(1234.5, 67.8), end(3.2, 12.0)], ["1234 ± 68", "3 ± 12"]),
        ([end(0.1234, 0.0345), end(100.0, 20.0), end(90.0, 20.0)], ["0.12 ± 0.03", "100.00 ± 20.00", "90.00 ± 20.00"]),
        ([end(5.0, 0.0), end(40.0, 12.0), end(41.0, 13.0)], ["5 ± 0", "40 ± 12", "41 ± 13"]),
        ([EndValue(mean=0.123), EndValue(mean=12.0), EndValue(mean=0.5)], ["0.123", "12.000", "0.500"]),
        ([EndValue(), end(1.0, 0.5)], ["–", "1.00 ± 0.50"]),
        ([EndValue()], ["–"]),
        ([end(-0.04, 2.5), end(3.0, 2.5)], ["0.0 ± 2.5", "3.0 ± 2.5"]),
    ],
)
def test_a_column_has_one_precision(column, texts):
    assert numbers_with_intervals(column) == texts


def test_no_interval_is_rounded_to_nothing():
    column = [end(100.0, half) for half in (90.0, 80.0, 70.0, 0.004)]

    assert [text.partition(" ± ")[2] for text in numbers_with_intervals(column)][-1] == "0.004"


def test_times_have_one_unit():
    assert durations([5e-6, 120e-6, 1.23e-3, float("nan")]) == ["5 µs", "120 µs", "1230 µs", "–"]
    assert durations([0.5, 4.0]) == ["0.50 s", "4.00 s"]
