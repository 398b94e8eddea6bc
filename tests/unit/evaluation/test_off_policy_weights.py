import numpy as np
import pytest
from numpy.testing import assert_allclose

from kernelbandits import Catalog
from kernelbandits.errors import InvalidParameter
from kernelbandits.evaluation import Log
from kernelbandits.evaluation._inputs import DistinctRounds
from kernelbandits.evaluation.off_policy import Target, checked_clip, clipped, effective_sample_size
from kernelbandits.kernels import Delta, Spectrum
from kernelbandits.policies import KernelUCB, Softmax, UniformRandom
from logs import slow_weights, string_log


class Counting(UniformRandom):
    """Counts its queries."""

    n_queries = 0

    def probabilities_many(self, rounds, *, ids=None):
        self.n_queries += len(rounds)
        return super().probabilities_many(rounds, ids=ids)


def test_weights_are_probabilities_over_propensities():
    log = string_log()
    policy = Softmax(KernelUCB(Spectrum(n=2), exploration=0.5), temperature=0.3, seed=0)

    assert_allclose(Target.of(log, policy).weights, slow_weights(log, policy))


def test_a_set_that_is_shown_again_is_queried_once():
    items, policy = ["a", "b", "c"], Counting()
    log = Log([items, ["d"], items, items], [0, 0, 1, 2], [0.5, 1.0, 0.25, 0.1], [1.0, 2.0, 3.0, 4.0])

    weights = Target.of(log, policy).weights

    assert policy.n_queries == 2
    assert_allclose(weights, np.array([1 / 3, 1.0, 1 / 3, 1 / 3]) / log.propensities)


def test_rounds_of_one_array_are_distinguished():
    """Each look at an array makes a new object, whose identity is free again a moment later."""
    rounds = np.random.default_rng(0).random((5, 3, 2))

    distinct = DistinctRounds.of_log(Log(rounds, [0] * 5, [0.5] * 5, [0.0] * 5))

    assert distinct.which.tolist() == [0, 1, 2, 3, 4]
    assert_allclose(np.array(distinct.contexts), rounds)


def test_the_same_actions_under_other_names_are_another_set():
    items = ["a", "b"]
    log = Log([items, items], [0, 0], [0.5] * 2, [0.0] * 2, ids=[["x", "y"], ["y", "x"]])

    assert len(DistinctRounds.of_log(log)) == 2


def test_a_part_of_a_catalog_counts_its_own_actions():
    catalog = Catalog(list("abcd"))
    policy = KernelUCB(Delta())
    policy.warm_start(["c"], [9.0])
    log = Log([catalog.without([0]), catalog], [1, 0], [0.5, 0.25], [1.0, 1.0])

    target = Target.of(log, policy)

    assert [row.tolist() for row in target.probabilities] == [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0, 0.0]]
    assert_allclose(target.weights, [2.0, 0.0])
    assert target.n_matched == 1


def test_the_effective_sample_counts_equal_weights_and_shrinks_with_uneven_ones():
    assert effective_sample_size(np.full(7, 0.3)) == pytest.approx(7.0)
    assert effective_sample_size(np.array([100.0, 1.0, 1.0])) == pytest.approx(102**2 / 10002)
    assert effective_sample_size(np.zeros(3)) == 0.0


def test_clipping_lowers_what_is_above():
    weights = np.array([0.5, 3.0, 10.0])

    assert clipped(weights, None) is weights
    assert_allclose(clipped(weights, 2.5), [0.5, 2.5, 2.5])


@pytest.mark.parametrize("clip", [0.0, -1.0, np.nan, np.inf, "5"])
def test_a_largest_weight_that_is_none_is_rejected(clip):
    with pytest.raises(InvalidParameter, match="The largest weight must be"):
        checked_clip(clip)


def test_an_empty_log_is_rejected():
    with pytest.raises(InvalidParameter, match="at least one round"):
        Target.of(Log([], [], [], []), UniformRandom())
