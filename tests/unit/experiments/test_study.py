import pytest

from kernelbandits.environments import Clustered
from kernelbandits.errors import InvalidParameter
from kernelbandits.experiments.policy_spec import PolicySpec
from kernelbandits.experiments.study import Study
from kernelbandits.policies import KernelUCB
from small_studies import KERNEL, small_study


def test_jobs_are_all_combinations_seed_by_seed():
    jobs = small_study().jobs

    assert [(job.policy, job.seed) for job in jobs] == [
        (label, seed)
        for seed in (3, 8)
        for label in ("KernelUCB, regularization=0.5", "KernelUCB, regularization=2.0", "Random")
    ]
    assert len({job.id for job in jobs}) == 6


def test_a_number_of_seeds_counts_from_zero():
    assert small_study(seeds=3).seeds == (0, 1, 2)


def test_it_describes_itself_in_plain_values():
    described = small_study().describe()

    assert described["environments"]["groups"]["class"] == "Clustered"
    entry = described["policies"]["KernelUCB, regularization=2.0"]
    assert (entry["spec_name"], entry["parameters"]) == ("KernelUCB", {"regularization": 2.0})
    assert entry["policy"]["regularization"] == 2.0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": ""}, "needs a name"),
        ({"environments": {}}, "needs environments by name"),
        ({"policies": [1]}, "needs policies by name"),
        ({"environments": {"a": Clustered}}, r"environments\.a must be made already, got the class Clustered"),
        ({"environments": {"": Clustered(n_actions=3)}}, "A name in environments must be a text of one line"),
        ({"environments": {"a\nb": Clustered(n_actions=3)}}, "a text of one line, got 'a.+nb'"),
        ({"policies": {7: PolicySpec(KernelUCB, KERNEL)}}, "A name in policies must be a text of one line"),
        ({"name": " "}, "A study needs a name, a text of one line, got ' '"),
        ({"name": "a\0b"}, "A study needs a name, a text of one line"),
        ({"horizon": 0}, "The horizon must be a whole number"),
        ({"every": 0}, "rounds per row must be a whole number"),
        ({"every": 10**23}, "rounds per row must be a whole number of at most 100000000"),
        ({"seeds": range(10**23)}, r"at most 1,000,000 seeds, got range\(0, 10{23}\)"),
        ({"seeds": [1, 1]}, "each only once"),
        ({"seeds": []}, "at least one seed"),
        ({"seeds": "12"}, "Seeds are whole numbers from 0"),
        ({"seeds": [-1]}, "A seed must be a whole number"),
    ],
)
def test_a_study_checks_itself(changes, message):
    with pytest.raises(InvalidParameter, match=message):
        small_study(**changes)


def test_policies_that_cannot_be_distinguished_are_rejected():
    near = {"a": PolicySpec(KernelUCB, KERNEL), "b": PolicySpec(KernelUCB, KERNEL, engine="exhaustive")}

    with pytest.raises(InvalidParameter, match=r"policies\.a and policies\.b have equal descriptions"):
        _ = small_study(policies=near).jobs


def test_the_same_policy_that_stops_learning_is_another():
    pair = {"a": PolicySpec(KernelUCB, KERNEL), "b": PolicySpec(KernelUCB, KERNEL, learn_rounds=4)}

    assert len(small_study(policies=pair).jobs) == 4


def test_a_bad_value_in_a_grid_names_the_policy():
    study = small_study(policies={"A": PolicySpec(KernelUCB, KERNEL, regularization=-1)})

    with pytest.raises(InvalidParameter, match=r"policies\.A: The regularization"):
        _ = study.jobs
    assert isinstance(study, Study)
