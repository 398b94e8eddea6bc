"""Stored descriptions hold every parameter, so that a changed default changes the id of a job and no stored study."""

import inspect

import pytest

from fuzz.baselines import TARGETS, callable_of
from kernelbandits.experiments.policy_spec import PolicySpec
from kernelbandits.policies import UniformRandom
from small_studies import small_study

UNDER_ANOTHER_NAME = {
    "kernels.FromCallable": {"diagonal"},  # its name, where there is one (tests/unit/kernels/test_wrappers.py)
    "kernels.Precomputed": {"table", "ids"},  # a digest of both
    "kernels.TfIdf": {"corpus"},  # its digest
    "policies.KernelUCB": {"engine"},  # every engine gives the same choices
}
"""Parameters that a description holds in another form, or that change no result."""

DESCRIBED = sorted(
    name
    for name in TARGETS
    if name.startswith(("kernels.", "theory.", "policies.", "environments."))
    and inspect.isclass(callable_of(name))
    and hasattr(callable_of(name), "describe")
)


def undescribed(make, described):
    """Parameters that are not part of a description; `seed` is set by the run, and no device changes a result."""
    parameters = inspect.signature(make).parameters.values()
    named = {part.name for part in parameters if part.kind not in (part.VAR_POSITIONAL, part.VAR_KEYWORD)}
    return named - set(described) - {"seed", "device"}


@pytest.mark.parametrize("name", DESCRIBED)
def test_a_description_holds_every_parameter(name):
    make = callable_of(name)

    described = make(**TARGETS[name].arguments()).describe()

    assert undescribed(make, described) == UNDER_ANOTHER_NAME.get(name, set())


def test_jobs_and_studies_hold_the_defaults_of_environments_policies_and_kernels():
    study = small_study()
    (job, *_) = study.jobs

    for described in (job.described, job.metadata()["described"]):
        assert {"n_actions", "n_features", "n_clusters", "fixed_actions"} <= set(described["environment"])
        assert {"regularization", "exploration", "posterior", "reward_range", "ties"} <= set(described["policy"])
        assert described["policy"]["kernel"] == {"class": "Gaussian", "length_scale": 0.3}
    assert study.describe()["policies"][job.policy]["policy"] == job.described["policy"]
    assert study.describe()["environments"]["groups"] == job.described["environment"]


def make_class(default, *, is_complete):
    class Versioned(UniformRandom):
        def __init__(self, *, temperature=default, seed=None):
            super().__init__(seed=seed)
            self.temperature = temperature

        def describe(self):
            return {**super().describe(), **({"temperature": self.temperature} if is_complete else {})}

    return Versioned


def test_a_changed_default_is_another_job():
    first, second = (
        small_study(policies={"A": PolicySpec(make_class(default, is_complete=True))}).jobs[0].id for default in (1, 2)
    )

    assert first != second


def test_an_incomplete_description_would_be_noticed():
    """Negative control: without the default in the description, two versions share an id, and the check fails."""
    first, second = (
        small_study(policies={"A": PolicySpec(make_class(default, is_complete=False))}).jobs[0].id for default in (1, 2)
    )
    incomplete = make_class(1, is_complete=False)

    assert first == second
    assert undescribed(incomplete, incomplete().describe()) == {"temperature"}
