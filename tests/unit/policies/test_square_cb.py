import numpy as np
import pytest

import kernelbandits as kb
from kernelbandits.errors import CannotSave, InvalidParameter
from kernelbandits.kernels import Gaussian
from kernelbandits.policies import GrowingGapWeight
from kernelbandits.policies.square_cb import inverse_gap_probabilities

KERNEL = Gaussian(length_scale=0.8)


def trained(**options):
    policy = kb.KernelSquareCB(KERNEL, **{"regularization": 0.2, "seed": 3, **options})
    rng = np.random.default_rng(1)
    policy.warm_start(rng.normal(size=(15, 2)), rng.normal(size=15))
    return policy


@pytest.mark.parametrize("weight", [0.5, 20.0])
def test_probabilities_are_inverse_gaps(weight):
    policy, contexts = trained(gap_weight=weight), np.random.default_rng(2).normal(size=(6, 2))
    means = policy.posterior.predict(contexts).mean

    probabilities = policy.probabilities(contexts)

    best = int(np.argmax(means))
    expected = [1.0 / (6 + weight * (means[best] - mean)) for mean in means]
    expected[best] = 1.0 - sum(p for row, p in enumerate(expected) if row != best)
    np.testing.assert_allclose(probabilities, expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("means", "expected"),
    [([3.0], [1.0]), ([0.0, 0.0], [0.5, 0.5]), ([1.0, 1.0 + 1e-12, 0.0], [1 - 1 / 3 - 1 / 5, 1 / 3, 1 / 5])],
)
def test_ties_go_to_the_lowest_row(means, expected):
    np.testing.assert_allclose(inverse_gap_probabilities(np.array(means), 2.0), expected, rtol=1e-9)


def test_huge_gaps_leave_no_probability_and_no_warning():
    probabilities = inverse_gap_probabilities(np.array([1e300, -1e300, 1e308]), 1e10)

    np.testing.assert_allclose(probabilities, [0.0, 0.0, 1.0], atol=1e-12)


def test_the_weight_grows_with_rounds_and_actions_or_knows_the_horizon():
    assert GrowingGapWeight(scale=3.0)(round_index=16, n_actions=9) == 36.0
    assert GrowingGapWeight(scale=3.0, horizon=100)(round_index=16, n_actions=9) == 90.0


def test_the_round_that_is_pending_counts_in_the_weight():
    policy, contexts = trained(gap_weight=GrowingGapWeight(scale=3.0)), np.random.default_rng(2).normal(size=(4, 2))
    means = policy.posterior.predict(contexts).mean
    policy.expect(policy.choose(contexts))

    probabilities = policy.probabilities(contexts)

    np.testing.assert_allclose(probabilities, inverse_gap_probabilities(means, 3.0 * np.sqrt(4 * 2)))


def test_a_schedule_of_ones_own_is_used_and_not_saved(tmp_path):
    class Own:
        value = 5.0

        def __call__(self, *, round_index, n_actions):
            return self.value

        def describe(self):
            return {"class": "Own"}

    policy, contexts = trained(gap_weight=Own()), np.random.default_rng(2).normal(size=(4, 2))

    np.testing.assert_array_equal(policy.probabilities(contexts), trained(gap_weight=5.0).probabilities(contexts))
    with pytest.raises(CannotSave, match="of your own"):
        policy.save(tmp_path / "policy")
    policy.gap_weight.value = np.nan
    with pytest.raises(InvalidParameter, match="finite number, zero or above, got nan"):
        policy.choose(contexts)


def test_weights_that_are_none_are_rejected():
    for weight in (0.0, -1.0, np.nan, "large"):
        with pytest.raises(InvalidParameter, match="weight of gaps"):
            kb.KernelSquareCB(KERNEL, gap_weight=weight)
    schedule = kb.theory.Mixture(noise_scale=0.1, norm_bound=1.0, failure_probability=0.1)
    with pytest.raises(InvalidParameter, match=r"of round_index and n_actions, got Mixture.*GrowingGapWeight\(scale"):
        kb.KernelSquareCB(KERNEL, gap_weight=schedule)
    with pytest.raises(InvalidParameter, match="class GrowingGapWeight itself"):
        kb.KernelSquareCB(KERNEL, gap_weight=GrowingGapWeight)
    with pytest.raises(InvalidParameter, match="horizon"):
        GrowingGapWeight(horizon=0)


def test_it_finds_the_best_action():
    contexts, rng = np.linspace(0, 1, 9)[:, None], np.random.default_rng(5)
    policy = kb.KernelSquareCB(Gaussian(length_scale=0.2), regularization=0.1, seed=0)

    late = 0
    for t in range(300):
        decision = policy.choose(contexts)
        policy.learn(decision, float(np.sin(4 * contexts[decision.action, 0]) + rng.normal(scale=0.1)))
        late += t >= 200 and decision.action == 3

    assert late > 50
