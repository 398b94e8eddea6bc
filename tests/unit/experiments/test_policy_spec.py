import numpy as np
import pytest

from kernelbandits.errors import InvalidParameter
from kernelbandits.experiments.policy_spec import Grid, PolicySpec, all_variants
from kernelbandits.kernels import Gaussian
from kernelbandits.policies import KernelUCB, Mixed, UniformRandom

KERNEL = Gaussian(length_scale=0.3)


def test_positional_arguments_get_their_names():
    (variant, other) = PolicySpec(KernelUCB, Grid(KERNEL, Gaussian(length_scale=1.0)), exploration=0.1).variants("A")

    assert variant.label == "A, kernel=Gaussian(length_scale=0.3)"
    assert other.parameters == {"kernel": {"class": "Gaussian", "length_scale": 1.0}}
    assert other.build(0).kernel.length_scale == 1.0


def test_every_run_gets_a_fresh_policy():
    (variant,) = PolicySpec(KernelUCB, KERNEL).variants("A")

    first, second = variant.build(1), variant.build(1)
    first.learn(first.choose(np.eye(2)), 1.0)

    assert second.round_index == 1


def remembering(notes):
    notes.append("made")
    policy = UniformRandom()
    policy.notes = notes
    return policy


def test_what_one_run_does_to_an_argument_is_not_there_in_the_next():
    (variant,) = PolicySpec(remembering, []).variants("A")

    assert [variant.build(0).notes, variant.build(0).notes] == [["made"], ["made"]]


def actions_of(policy):
    return [policy.choose(np.zeros((50, 1))).action for _ in range(9)]


def test_the_random_state_of_a_policy_is_the_second_child_of_the_seed():
    (variant,) = all_variants({"plain": lambda rng: UniformRandom(seed=rng)})

    second_child = np.random.SeedSequence(7).spawn(2)[1]

    assert actions_of(variant.build(7)) == actions_of(UniformRandom(seed=np.random.default_rng(second_child)))


def test_a_policy_spec_is_seeded_by_the_run():
    (variant,) = PolicySpec(UniformRandom).variants("Random")

    assert actions_of(variant.build(7)) == actions_of(variant.build(7))
    assert actions_of(variant.build(7)) != actions_of(variant.build(8))


def test_a_policy_inside_is_a_policy_spec_too():
    spec = PolicySpec(Mixed, PolicySpec(KernelUCB, KERNEL, regularization=Grid(3.0, 5.0)), epsilon=0.1)

    labels = {variant.label: variant.build(0).policy.posterior.regularization for variant in spec.variants("M")}

    assert labels == {"M, policy.regularization=3.0": 3.0, "M, policy.regularization=5.0": 5.0}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PolicySpec(KernelUCB, KERNEL, explorations=1), "takes no 'explorations'. Did you mean 'exploration'"),
        (lambda: PolicySpec(KernelUCB, KERNEL, seed=1), "seeded by the run"),
        (lambda: PolicySpec(KernelUCB, KERNEL, kernel=KERNEL), "'kernel' twice"),
        (lambda: PolicySpec(KernelUCB, 1, 2, 3), "Give the arguments by name"),
        (lambda: PolicySpec("KernelUCB"), "a class of policies or a function"),
        (lambda: PolicySpec(Mixed, KernelUCB(KERNEL), epsilon=0.1), r"Give a specification: PolicySpec\(KernelUCB"),
        (lambda: PolicySpec(KernelUCB, KERNEL, learn_rounds=-1), "rounds to learn from must be a whole number"),
        (lambda: all_variants({"a": KernelUCB(KERNEL)}), r"policies\.a: every run builds a new policy"),
        (
            lambda: all_variants({"a": PolicySpec(KernelUCB, KERNEL, exploration=Grid(1, 1))}),
            "called 'a, exploration=1'",
        ),
        (
            lambda: all_variants({"a": PolicySpec(KernelUCB, KERNEL, exploration=Grid(1)), "a, exploration=1": print}),
            "Two policies would be called 'a, exploration=1'. Give every grid different values",
        ),
        (lambda: all_variants({"a": KernelUCB}), r"policies\.a: every run builds a new policy"),
    ],
)
def test_what_is_not_a_specification_is_rejected(make, message):
    with pytest.raises(InvalidParameter, match=message):
        make()


def test_what_makes_no_policy_is_rejected_by_name():
    (variant,) = all_variants({"odd": lambda _: 5})

    with pytest.raises(InvalidParameter, match=r"policies\.odd needs the methods choose, describe, got int"):
        variant.build(0)
