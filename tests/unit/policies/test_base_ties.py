import numpy as np
import pytest

from kernelbandits.errors import InvalidParameter
from kernelbandits.kernels import Delta, Gaussian
from kernelbandits.policies import KLUCB, KernelThompson, KernelUCB
from kernelbandits.selection.ties import pick_best, tied_rows

NEARLY = np.array([0.5, 0.5 + 1e-12, 0.2])


def test_scores_that_differ_by_rounding_are_tied_unless_ties_are_exact():
    rng = np.random.default_rng(0)

    assert tied_rows(NEARLY, "random").tolist() == [0, 1]
    assert pick_best(NEARLY, "lowest", rng) == (0, 1.0)
    assert pick_best(NEARLY, "exact", rng) == (1, 1.0)


def test_a_policy_with_exact_ties_is_a_plain_argmax():
    policy = KernelUCB(Gaussian(length_scale=0.1), regularization=0.3, exploration=0.4, ties="exact")
    contexts = np.array([[3.0], [0.75], [0.76], [9.0]])  # exp(-28) is less than a tie, and not nothing
    policy.warm_start([[0.0]], [1.0])

    decision = policy.choose(contexts)

    prediction = policy.posterior.predict(contexts)
    assert decision.action == int(np.argmax(prediction.mean + 0.4 * prediction.width)) == 1
    assert policy.probabilities(contexts).tolist() == [0.0, 1.0, 0.0, 0.0]
    assert KernelUCB(Gaussian(length_scale=0.1), regularization=0.3, exploration=0.4).choose(contexts).action == 0


def test_exact_ties_are_kept_in_files(tmp_path):
    from kernelbandits import load

    policy = KernelUCB(Delta(), ties="exact")
    policy.save(tmp_path / "policy.kb")

    assert load(tmp_path / "policy.kb").describe()["ties"] == "exact"


@pytest.mark.parametrize("make", [KLUCB, lambda **rule: KernelThompson(Delta(), **rule)])
def test_policies_that_know_no_exact_ties_reject_them(make):
    with pytest.raises(InvalidParameter, match="ties='exact'"):
        make(ties="exact")
