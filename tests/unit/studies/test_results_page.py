"""The page of results says what the studies found, and nothing else."""

import json
import os
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from studies.__main__ import NUMBERS, PAGE, SECTIONS, collected, page
from studies.numbers import at_rounds, by_policy, spread

from kernelbandits.experiments import Results, Study, run

FILES = sorted(Path(NUMBERS).parents[2].glob("studies/*.toml"))


def test_the_page_is_made_of_the_numbers_alone():
    numbers = json.loads(NUMBERS.read_text(encoding="utf-8"))

    assert PAGE.read_text(encoding="utf-8") == page(numbers)
    assert set(numbers) == set(SECTIONS)


def test_another_number_makes_another_page():
    numbers = json.loads(NUMBERS.read_text(encoding="utf-8"))
    numbers["abalone"]["rows"][0]["1000"]["mean"] += 0.01

    assert PAGE.read_text(encoding="utf-8") != page(numbers)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_study_can_be_read(path):
    if "KERNELBANDITS_DATA" in path.read_text(encoding="utf-8") and "KERNELBANDITS_DATA" not in os.environ:
        pytest.skip("reads data sets: set KERNELBANDITS_DATA to their folder")

    study = Study.from_toml(path)

    assert study.jobs


def test_every_study_stands_on_the_page():
    shown = {study for section in SECTIONS.values() for study in getattr(section, "STUDIES", ())}

    assert shown == {path.stem for path in FILES}


def test_values_are_those_of_the_runs(tmp_path):
    study = Study.from_toml(_short_study(tmp_path))
    results: Results = run(study, tmp_path / "results", workers=1)

    curves = by_policy(results, "regret")

    frame = results.frame()
    for policy in ("LinUCB", "Random"):
        rows = frame[(frame["policy"] == policy) & (frame["round"] == 6)]
        assert at_rounds(curves["clustered", policy], 6).tolist() == rows["regret"].tolist()
        assert at_rounds(curves["clustered", policy], 999).shape == (3,)


def test_a_section_plays_what_is_missing_of_its_studies(tmp_path):
    section = SimpleNamespace(STUDIES=("short",), collect=lambda results: {"n_jobs": len(results["short"].jobs)})

    numbers = collected(section, tmp_path / "results", workers=1, files=_short_study(tmp_path).parent)

    assert numbers == {"n_jobs": 6}


def test_a_spread_has_a_sample_standard_deviation():
    assert spread(np.array([1.0, 3.0])) == {"mean": 2.0, "deviation": pytest.approx(2.0**0.5), "n_runs": 2}
    assert spread(np.array([1.0]))["deviation"] is None


def _short_study(folder):
    path = folder / "short.toml"
    path.write_text(
        'name = "short"\nhorizon = 10\nseeds = 3\nevery = 2\n'
        '[environments.clustered]\nclass = "Clustered"\nn_actions = 4\n'
        '[policies.LinUCB]\nclass = "LinUCB"\n[policies.Random]\nclass = "UniformRandom"\n',
        encoding="utf-8",
    )
    return path
