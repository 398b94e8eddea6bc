import hashlib
import json
from functools import partial

import pytest

import kernelbandits
from kernelbandits.environments import Clustered, Delayed
from kernelbandits.errors import InvalidParameter
from kernelbandits.experiments.policy_spec import PolicySpec
from kernelbandits.kernels import FromCallable
from kernelbandits.policies import GPUCB, KernelUCB
from kernelbandits.posterior import posterior_factory
from kernelbandits.theory import GPUCBFinite, Mixture
from small_studies import KERNEL, small_study

WIDTH = Mixture(noise_scale=0.5, norm_bound=2.0, failure_probability=0.07)


def test_the_id_is_a_digest_of_what_is_run():
    (job,) = small_study(policies={"A": PolicySpec(KernelUCB, KERNEL, learn_rounds=9)}, seeds=[4]).jobs

    run = {
        "environment": Clustered(n_actions=4).describe(),
        "policy": KernelUCB(KERNEL).describe(),
        "horizon": 23,
        "seed": 4,
        "every": 5,
        "learn_rounds": 9,
        "version": kernelbandits.__version__,
        "format": 3,
    }
    text = json.dumps(run, sort_keys=True, separators=(",", ":"))
    assert job.id == hashlib.sha256(text.encode()).hexdigest()[:32]


@pytest.mark.parametrize(
    "change", [{"horizon": 24}, {"every": 4}, {"environments": {"groups": Clustered(n_actions=5)}}]
)
def test_another_run_has_another_id(change):
    assert not {job.id for job in small_study().jobs} & {job.id for job in small_study(**change).jobs}


def test_names_and_other_jobs_are_no_part_of_the_id():
    few = small_study(policies={"Other name": PolicySpec(KernelUCB, KERNEL, exploration=0.3, regularization=2.0)})

    assert {job.id for job in few.jobs} < {job.id for job in small_study().jobs}


def make_local_function():
    def delay(rng):
        return 3

    return delay


def three(rng, n=3):
    return n


class Always:
    def __init__(self, n):
        self.n = n

    def __call__(self, rng):
        return self.n

    def describe(self):
        return {"class": "Always", "n": self.n}


@pytest.mark.parametrize("delay", [lambda _: 3, make_local_function(), partial(three, n=4)])
def test_a_function_that_shares_its_name_is_rejected(delay):
    study = small_study(environments={"late": Delayed(Clustered(n_actions=4), delay=delay)})

    with pytest.raises(InvalidParameter, match=r"environments\.late is described by the function '.*Define it with"):
        _ = study.jobs


def test_a_kernel_that_shares_its_name_is_rejected():
    kernel = FromCallable(lambda first, second: first @ second.T)

    with pytest.raises(
        InvalidParameter, match=r"policies\.A is described by the function '.*<lambda>', whose name is not"
    ):
        _ = small_study(policies={"A": PolicySpec(KernelUCB, kernel + KERNEL)}).jobs


def test_functions_with_names_and_objects_that_describe_themselves_have_ids_of_their_own():
    delays = [three, Always(3), Always(4), 3]
    studies = [small_study(environments={"late": Delayed(Clustered(n_actions=4), delay=delay)}) for delay in delays]

    ids = [job.id for study in studies for job in study.jobs]

    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize(
    ("spec", "probability"),
    [
        (PolicySpec(KernelUCB, KERNEL, exploration=WIDTH), 0.07),
        (PolicySpec(GPUCB, KERNEL, noise_variance=0.2, exploration=GPUCBFinite(failure_probability=0.02)), 0.02),
        (PolicySpec(GPUCB, KERNEL, noise_variance=0.2, failure_probability=0.02), None),
        (PolicySpec(KernelUCB, KERNEL, exploration=0.3), None),
        (PolicySpec(KernelUCB, KERNEL, exploration=WIDTH, posterior=posterior_factory("windowed", length=5)), None),
    ],
)
def test_claims_are_those_of_proved_schedules(spec, probability):
    job = small_study(policies={"A": spec}).jobs[0]

    assert (job.claims and job.claims["failure_probability"]) == probability
    assert job.claims is None or len(job.claims["assumes"]) > 10
