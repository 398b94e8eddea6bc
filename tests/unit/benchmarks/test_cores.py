from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from benchmarks import cores
from benchmarks.cores import Bandwidth, CoresReport, main, markdown, measure
from benchmarks.peers import OURS
from benchmarks.peers.ours import kernel_of
from benchmarks.workloads import ROUGH, FreshContexts, similarity
from numpy.testing import assert_allclose

import kernelbandits as kb


@pytest.fixture(autouse=True)
def as_it_was():
    yield
    kb.set_threads(None)


def make_report(**changed):
    seconds = {1: [4e-3] * 100, 2: [2.5e-3] * 100}
    seconds[2][::10] = [1.0] * 10  # disturbed
    given = {
        "n_actions": 2,
        "horizon": 100,
        "seconds": seconds,
        "bandwidths": {1: [10e9, 9e9, 1e9], 2: [16e9, 20e9, 20e9]},
        "stretches": [(0, 80), (80, 100)],
    }
    return CoresReport(**{**given, **changed})


def page(report, load_before=0.0):
    return markdown([report], command="python -m benchmarks.cores", load_before=load_before, minutes=1.0)


def test_every_number_of_threads_plays_the_same_rounds():
    report = measure(3, [1, 2], 50, 40)

    assert {n_threads: len(seconds) for n_threads, seconds in report.seconds.items()} == {1: 50, 2: 50}
    assert report.differs_at is None
    assert report.stretches == [(0, 5), (5, 20), (20, 40), (40, 45), (45, 50)]


def test_a_difference_of_one_bit_is_found():
    start, made = OURS.start, []

    def start_differently(setting):
        made.append(start(setting))
        if len(made) == 2:
            made[1].posterior.observe(np.full((1, 20), 0.5), [1e-9])
        return made[-1]

    report = measure(2, [1, 2], 5, 4, peer=replace(OURS, start=start_differently))

    assert report.differs_at == 1
    assert "differ in round 1" in page(report)


def test_the_page_states_the_share_of_the_bandwidth():
    text = page(make_report())

    assert "1.6×" in text  # 4 ms / 2.5 ms, disturbed rounds left out
    assert "2.11×" in text  # 20 / 9.5 GB/s
    assert "76%" in text
    assert "equal to the bit in all 100 rounds" in text
    assert "Other programs" not in text
    assert "Other programs" in page(make_report(), load_before=3.0)


def test_the_product_reads_all_rows():
    bandwidth = Bandwidth(8 * 100**2, [1, 3])

    for n_threads in (1, 3):
        bandwidth._result[:] = np.nan
        assert bandwidth.measure(n_threads) > 0.0
        assert_allclose(bandwidth._result, bandwidth._matrix.sum(axis=1))


@pytest.mark.parametrize(("differs_at", "status"), [(None, 0), (7, 1)])
def test_the_command_writes_the_page(monkeypatch, tmp_path, differs_at, status):
    calls = []

    def found(n_actions, counts, horizon, judged_from):
        calls.append((n_actions, counts, horizon, judged_from))
        return make_report(differs_at=differs_at)

    monkeypatch.setattr(cores, "measure", found)

    assert main(["--threads", "1,2", "--quick", "--into", str(tmp_path / "cores.md")]) == status

    assert calls == [(2, [1, 2], 2_500, 2_000), (20, [1, 2], 2_500, 2_000)]
    assert "python -m benchmarks.cores --threads 1,2 --quick" in (tmp_path / "cores.md").read_text()


def test_the_rough_kernel_is_matern():
    rng = np.random.default_rng(0)
    first, second = rng.uniform(size=(5, 20)), rng.uniform(size=(4, 20))

    assert_allclose(similarity(ROUGH, first, second), kernel_of(ROUGH).gram(first, second), rtol=1e-6)
    assert next(FreshContexts(3, ROUGH, n_features=20).rounds()).contexts.shape == (3, 20)
