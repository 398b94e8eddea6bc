"""Arguments of which no study can be made are rejected with a clear message, before anything is written."""

import numpy as np
import pytest

from kernelbandits.environments import Clustered
from kernelbandits.errors import InvalidParameter
from kernelbandits.evaluation import IPS, collect_log, simulate
from kernelbandits.evaluation.estimator_study import estimator_study
from kernelbandits.experiments import PolicySpec, Results, Study, mean_band, report, run, summarize, tune
from kernelbandits.policies import KernelUCB, UniformRandom
from small_studies import KERNEL, small_study

WORLD = Clustered(n_actions=3)
LOG = collect_log(WORLD, UniformRandom(seed=0), horizon=8, seed=0)
STRANGE = [None, 3, float("nan"), [1], object(), np.ones((2, 2)), WORLD, LOG]
SPEC = PolicySpec(KernelUCB, KERNEL)


def study_of_estimators(**changes):
    usual = {"environment": WORLD, "estimators": {"IPS": IPS()}, "log_with": lambda seed: UniformRandom(seed=seed)}
    usual |= {"target": UniformRandom(), "horizon": 5, "n_logs": 2}
    return estimator_study(**{**usual, **changes})


CALLS = {
    "run, study": (lambda strange: run(strange, "never"), "The study must be a Study"),
    "run, folder": (lambda strange: run(small_study(), strange), "must be the name of a file"),
    "run, engine": (lambda strange: run(small_study(), "never", engine=strange), "The engine is 'local' or 'ray'"),
    "results": (Results, "must be the name of a file"),
    "report": (report, "must be the name of a file"),
    "report, formats": (
        lambda strange: report("never", formats=strange),
        "formats must be|written as",
    ),
    "from_toml": (Study.from_toml, "must be the name of a file"),
    "tune on a log": (lambda strange: tune(strange, on=LOG, estimator=IPS()), "Candidates must be given by name"),
    "tune, estimator": (lambda strange: tune(SPEC, on=LOG, estimator=strange), "estimator"),
    "tune, world": (
        lambda strange: tune(SPEC, on=strange, horizon=2, seeds=1),
        "is an environment|an estimator|On a log settings are ranked",
    ),
    "estimators": (lambda strange: study_of_estimators(estimators=strange), "The estimators must be given by name"),
    "an estimator": (lambda strange: study_of_estimators(estimators={"A": strange}), "The estimator 'A' needs"),
    "target": (lambda strange: study_of_estimators(target=strange), "The target needs"),
    "log_with": (lambda strange: study_of_estimators(log_with=strange), "What makes a logging policy must be"),
    "traces": (lambda strange: summarize(strange, reference="A"), "The traces must be given by name"),
    "runs": (lambda strange: summarize({"A": [strange]}, reference="A"), "needs at least one trace"),
}


@pytest.mark.parametrize("strange", STRANGE, ids=lambda strange: type(strange).__name__)
@pytest.mark.parametrize(("call", "message"), CALLS.values(), ids=CALLS)
def test_errors_name_what_is_needed(call, message, strange, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    if call is CALLS["tune, world"][0] and strange is WORLD:
        assert call(strange).results  # nothing strange about it
        return
    with pytest.raises(InvalidParameter, match=message):
        call(strange)

    assert not list(tmp_path.iterdir())


def test_a_summary_names_the_policies_that_it_has():
    traces = {"A": [simulate(WORLD, KernelUCB(KERNEL), horizon=2, seed=0)]}

    with pytest.raises(InvalidParameter, match="There is no policy 'B' to compare with, only A"):
        summarize(traces, reference="B")
    assert summarize(traces, reference="A")[0].policy == "A"


@pytest.mark.parametrize("values", [[], 3.0, "text"])
def test_a_mean_needs_a_repeat(values):
    with pytest.raises(InvalidParameter, match=r"A mean needs at least one repeat|must be real numbers"):
        mean_band(values)
