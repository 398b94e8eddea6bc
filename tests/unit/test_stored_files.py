"""Files of every format version that was ever stored in tests/data are read, and answer as they did."""

import json
from pathlib import Path

import numpy as np
import pytest

import kernelbandits as kb
from data.write import answers
from kernelbandits._files import VERSION
from kernelbandits.experiments import Results
from kernelbandits.experiments.study import FORMAT
from reliability.policies import CASES

DATA = Path(__file__).parents[1] / "data"
POLICIES = sorted(DATA.glob("policies-*"))
RESULTS = sorted(DATA.glob("results-*"))


def expected_of(folder):
    return json.loads((folder / "expected.json").read_text())


def test_there_is_a_folder_for_every_format_version():
    """A changed format needs a new version number and, in tests/, `python -m data.write`."""
    assert DATA / f"policies-{VERSION}" in POLICIES
    assert DATA / f"results-{FORMAT}" in RESULTS


@pytest.mark.parametrize("folder", POLICIES, ids=lambda folder: folder.name)
def test_every_family_is_stored(folder):
    stored = {path.stem for path in folder.glob("*.kb")}

    assert stored == {name.replace(" ", "-") for name in expected_of(folder)["policies"]}
    assert {type(CASES[name].make()).__name__ for name in expected_of(folder)["policies"]} == {
        type(case.make()).__name__ for case in CASES.values()
    }


@pytest.mark.filterwarnings("ignore::kernelbandits.errors.GuaranteeVoid")
@pytest.mark.parametrize(
    ("folder", "name"), [(folder, name) for folder in POLICIES for name in expected_of(folder)["policies"]],
    ids=lambda value: value if isinstance(value, str) else value.name,
)  # fmt: skip
def test_a_stored_policy_answers_as_it_did(folder, name):
    case, expected = CASES[name], expected_of(folder)["policies"][name]
    kernel = None if "function" not in name else kb.kernels.as_kernel(case.make().kernel)

    policy = kb.load(folder / f"{name.replace(' ', '-')}.kb", kernel=kernel)

    found = answers(policy, case)
    for key in ("action", "round_index", "pending", "expired"):
        assert found[key] == expected[key]
    np.testing.assert_allclose(found["probabilities"], expected["probabilities"], atol=1e-9)
    assert found["propensity"] == pytest.approx(expected["propensity"], abs=1e-9)
    description = json.loads(json.dumps(found["description"]))
    assert _known_then(description, expected["description"]) == expected["description"]
    policy.learn(policy.choose(case.contexts(1)), 0.5)
    assert policy.round_index == expected["round_index"] + 1


def _known_then(description, expected):
    """The description, also of nested policies, without parameters that did not exist when the file was written."""
    if not isinstance(expected, dict):
        return description
    return {key: _known_then(description[key], value) for key, value in expected.items()}


@pytest.mark.parametrize("folder", RESULTS, ids=lambda folder: folder.name)
def test_a_stored_study_has_the_results_that_it_had(folder):
    results = Results(folder)

    assert results.is_complete
    found = [{"policy": one.policy, "regret": one.regret.mean, "n_runs": one.n_runs} for one in results.summary()]
    expected = expected_of(folder)["results"]
    assert [one["policy"] for one in found] == [one["policy"] for one in expected]
    for one, other in zip(found, expected, strict=True):
        assert (one["regret"], one["n_runs"]) == (pytest.approx(other["regret"]), other["n_runs"])


def test_a_file_that_answers_otherwise_would_be_noticed(tmp_path):
    """Negative control: a policy that learned something else does not pass."""
    folder, name = POLICIES[-1], "LinUCB"
    policy = kb.load(folder / f"{name}.kb")
    policy.learn(policy.choose(CASES[name].contexts(3)), 1.0)

    assert answers(policy, CASES[name]) != expected_of(folder)["policies"][name]
