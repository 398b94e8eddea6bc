import numpy as np
import pytest

from kernelbandits.errors import InvalidParameter
from kernelbandits.experiments.policy_spec import Contender, Grid, entrants_of
from kernelbandits.kernels import Gaussian
from kernelbandits.policies import KernelUCB, Mixed, UniformRandom

KERNEL = Gaussian(length_scale=0.3)


def test_positional_arguments_get_their_names():
    (entrant, other) = Contender(KernelUCB, Grid(KERNEL, Gaussian(length_scale=1.0)), exploration=0.1).entrants("A")

    assert entrant.label == "A, kernel=Gaussian(length_scale=0.3)"
    assert other.parameters == {"kernel": {"class": "Gaussian", "length_scale": 1.0}}
    assert other.fresh(0).kernel.length_scale == 1.0


def test_every_run_gets_a_fresh_policy():
    (entrant,) = Contender(KernelUCB, KERNEL).entrants("A")

    first, second = entrant.fresh(1), entrant.fresh(1)
    first.learn(first.choose(np.eye(2)), 1.0)

    assert second.round_index == 1


def remembering(notes):
    notes.append("made")
    policy = UniformRandom()
    policy.notes = notes
    return policy


def test_what_one_run_does_to_an_argument_is_not_there_in_the_next():
    (entrant,) = Contender(remembering, []).entrants("A")

    assert [entrant.fresh(0).notes, entrant.fresh(0).notes] == [["made"], ["made"]]


def actions_of(policy):
    return [policy.choose(np.zeros((50, 1))).action for _ in range(9)]


def test_the_chance_of_a_policy_is_the_second_child_of_the_seed():
    (entrant,) = entrants_of({"plain": lambda rng: UniformRandom(seed=rng)})

    second_child = np.random.SeedSequence(7).spawn(2)[1]

    assert actions_of(entrant.fresh(7)) == actions_of(UniformRandom(seed=np.random.default_rng(second_child)))


def test_a_contender_is_seeded_by_the_run():
    (entrant,) = Contender(UniformRandom).entrants("Random")

    assert actions_of(entrant.fresh(7)) == actions_of(entrant.fresh(7))
    assert actions_of(entrant.fresh(7)) != actions_of(entrant.fresh(8))


def test_a_policy_inside_is_a_contender_too():
    contender = Contender(Mixed, Contender(KernelUCB, KERNEL, regularization=Grid(3.0, 5.0)), epsilon=0.1)

    labels = {entrant.label: entrant.fresh(0).policy.posterior.regularization for entrant in contender.entrants("M")}

    assert labels == {"M, policy.regularization=3.0": 3.0, "M, policy.regularization=5.0": 5.0}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Contender(KernelUCB, KERNEL, explorations=1), "takes no 'explorations'. Did you mean 'exploration'"),
        (lambda: Contender(KernelUCB, KERNEL, seed=1), "seeded by the run"),
        (lambda: Contender(KernelUCB, KERNEL, kernel=KERNEL), "'kernel' twice"),
        (lambda: Contender(KernelUCB, 1, 2, 3), "Give the arguments by name"),
        (lambda: Contender("KernelUCB"), "a class of policies or a function"),
        (lambda: Contender(Mixed, KernelUCB(KERNEL), epsilon=0.1), r"Give a recipe: Contender\(KernelUCB"),
        (lambda: Contender(KernelUCB, KERNEL, learn_rounds=-1), "rounds to learn from has to be a whole number"),
        (lambda: entrants_of({"a": KernelUCB(KERNEL)}), r"policies\.a: a policy of a study is a recipe"),
        (lambda: entrants_of({"a": Contender(KernelUCB, KERNEL, exploration=Grid(1, 1))}), "called 'a, exploration=1'"),
        (
            lambda: entrants_of({"a": Contender(KernelUCB, KERNEL, exploration=Grid(1)), "a, exploration=1": print}),
            "Two policies would be called 'a, exploration=1'. Give every grid different values",
        ),
        (lambda: entrants_of({"a": KernelUCB}), r"policies\.a: a policy of a study is a recipe"),
    ],
)
def test_what_is_no_recipe_is_refused(make, message):
    with pytest.raises(InvalidParameter, match=message):
        make()


def test_what_makes_no_policy_is_refused_by_name():
    (entrant,) = entrants_of({"odd": lambda _: 5})

    with pytest.raises(InvalidParameter, match=r"What policies\.odd makes needs the methods choose, describe, got int"):
        entrant.fresh(0)
