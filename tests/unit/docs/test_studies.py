"""The study of the guide is one study: the file and the Python on the page play the same jobs."""

import doctest
from pathlib import Path

import pytest

from kernelbandits.experiments import Study
from pages import blocks_of

PAGE = (Path(__file__).parents[3] / "docs" / "guides" / "studies.md").read_text(encoding="utf-8")
(TOML,) = (block.code for block in blocks_of(PAGE) if block.language == "toml")


def study_in_python():
    """What the examples define up to the study; nothing is played."""
    names = {}
    for example in doctest.DocTestParser().get_examples(PAGE):
        exec(example.source, names)
        if "study" in names:
            return names["study"]
    raise AssertionError("The page defines no study.")


def study_in_toml(folder, text):
    path = folder / "smooth.toml"
    path.write_text(text, encoding="utf-8")
    return Study.from_toml(path)


def ids(study):
    return [job.id for job in study.jobs]


def test_file_and_python_of_the_page_are_the_same_study(tmp_path):
    from_file = study_in_toml(tmp_path, TOML)

    in_python = study_in_python()

    assert ids(from_file) == ids(in_python)
    assert from_file.describe() == in_python.describe()


@pytest.mark.parametrize(("was", "now"), [("exploration = 0.1", "exploration = 0.2"), ("seeds = 4", "seeds = 3")])
def test_a_difference_between_the_two_is_noticed(tmp_path, was, now):
    assert was in TOML

    changed = study_in_toml(tmp_path, TOML.replace(was, now))

    assert ids(changed) != ids(study_in_python())
