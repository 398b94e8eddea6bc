"""Numbers of the right type that no computer can work with: rejected, or computed with finite numbers."""

import numpy as np
import pytest

from kernelbandits import policies as p
from kernelbandits.errors import InvalidParameter, KernelBanditError
from kernelbandits.kernels import Gaussian, Linear
from kernelbandits.policies.experts import constant_experts, linear_experts
from kernelbandits.theory import Mixture

HUGE = pytest.param(10**400, id="no float")
ACTIONS = np.random.default_rng(5).random((4, 2))
KERNEL = Gaussian(length_scale=0.5)
EXPERTS = [*constant_experts(4), *linear_experts(2, n_experts=3, seed=0)]

MAKERS = {
    "KernelUCB, regularization": lambda x: p.KernelUCB(KERNEL, regularization=x),
    "KernelUCB, exploration": lambda x: p.KernelUCB(KERNEL, exploration=x),
    "KernelUCB, length scale": lambda x: p.KernelUCB(Gaussian(length_scale=x)),
    "KernelUCB, norm bound": lambda x: p.KernelUCB(
        KERNEL, exploration=Mixture(noise_scale=0.5, norm_bound=x, failure_probability=0.1)
    ),
    "GPUCB, exploration": lambda x: p.GPUCB(KERNEL, noise_variance=0.25, exploration=x),
    "KernelThompson, exploration": lambda x: p.KernelThompson(KERNEL, exploration=x, seed=0),
    "KernelSquareCB, gap weight": lambda x: p.KernelSquareCB(KERNEL, gap_weight=x, seed=0),
    "LinUCB, regularization": lambda x: p.LinUCB(regularization=x),
    "UncertaintyEllipsoid, exploration": lambda x: p.UncertaintyEllipsoid(ACTIONS, exploration=x),
    "SupLinRel, norm bound": lambda x: p.SupLinRel(horizon=50, n_actions=4, norm_bound=x),
    "UCB1, exploration factor": lambda x: p.UCB1(exploration=x, reward_range=(0.0, 1.0)),
    "PACBayes, learning factor": lambda x: p.PACBayes(ACTIONS, n_actions=4, learning_factor=x, seed=0),
    "EXP4, learning factor": lambda x: p.EXP4(EXPERTS, horizon=50, learning_factor=x, seed=0),
    "Softmax, temperature": lambda x: p.Softmax(p.LinUCB(), temperature=x, seed=0),
}


def play(policy, n_rounds=5):
    """What the policy says of its choices: everything it knows must be a number."""
    result = []
    for _ in range(n_rounds):
        decision = policy.choose(ACTIONS)
        policy.learn(decision, float(decision.action % 2))
        result += [decision.score, decision.width, decision.propensity]
    return np.array(result)


@pytest.mark.filterwarnings("ignore")  # ill-conditioned, overflow: what counts is the answer
@pytest.mark.parametrize("value", [5e-324, 1e-320, 1e-160, 1e-150, 1e-90, 1e90, 1e150, 1e160, 1e308, HUGE])
@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_a_number_is_rejected_or_gives_finite_answers(make, value):
    try:
        policy = make(value)
        result = play(policy)
    except KernelBanditError:  # what it says is for the tests of checks
        return

    assert not np.isinf(result[1:]).any()
    assert np.all(np.isin(np.flatnonzero(np.isnan(result)), np.flatnonzero(np.isnan(play(make(0.5))))))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: p.KernelUCB(KERNEL, regularization=1e-320), r"must be positive and finite \(1e-150 to 1e\+150\)"),
        (lambda: p.KernelUCB(KERNEL, exploration=1e308), r"must be at most 1e\+150, got 1e\+308"),
        (lambda: Gaussian(length_scale=1e-300), "must be at least 1e-150, got 1e-300"),
        (lambda: p.OFUL(noise_scale=0.1, norm_bound=10**400), "must be a number that a float can hold"),
        (lambda: p.EXP4P(EXPERTS, horizon=1e300, seed=0), "The horizon must be a whole number of at most 10{27}"),
        (lambda: p.EXP4P(EXPERTS, horizon=50, failure_probability=1e-320, seed=0), "must be at least 1e-300"),
        (lambda: p.PACBayes(ACTIONS, n_actions=2**40), "The number of actions must be .* at most 10000000"),
        (lambda: p.LinUCB(model="hybrid", shared_columns=3), "`shared_columns` is a list of column numbers, got 3"),
    ],
)
def test_the_message_names_the_limit(make, message):
    with pytest.raises(InvalidParameter, match=message):
        make()


def test_ordinary_numbers_are_taken_as_ever():
    assert np.isfinite(play(p.KernelUCB(Linear(), regularization=1e-6, exploration=1e6))).all()
