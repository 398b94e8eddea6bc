import numpy as np
import pytest
from numpy.testing import assert_array_equal

import kernelbandits as kb
from kernelbandits.kernels import Gaussian
from kernelbandits.posterior import ExactPosterior, Posterior

ROWS = np.random.default_rng(0).uniform(size=(6, 2))


class OwnPosterior(ExactPosterior):
    """A posterior from outside: it records copies of itself, as the default of `Posterior` does."""

    _note_change = Posterior._note_change

    def _observe_one(self, points, reward):
        super().observe(points, [reward])
        self.last_reward = reward  # a change that its parts do not record


def refuse(event):
    raise RuntimeError("the listener is full")


def test_a_listener_that_raises_takes_back_what_a_posterior_of_ones_own_learned():
    policy = kb.KernelUCB(
        Gaussian(length_scale=0.5), posterior=lambda kernel, gamma: OwnPosterior(kernel, regularization=gamma)
    )
    policy.learn(policy.choose(ROWS), 0.25)
    before = policy.posterior.predict(ROWS)
    policy.subscribe(refuse)

    with pytest.raises(RuntimeError, match="full"):
        policy.learn(policy.choose(ROWS), 0.75)

    assert policy.posterior.last_reward == 0.25
    assert policy.posterior.size == 1
    after = policy.posterior.predict(ROWS)
    assert_array_equal([after.mean, after.width], [before.mean, before.width])


class AtTheMirrorImage(kb.KernelUCB):
    """A policy whose model lives at other points than those of the round."""

    def _point(self, decision):
        return -super()._point(decision)


@pytest.mark.parametrize(("policy", "sign"), [(kb.KernelUCB, 1.0), (AtTheMirrorImage, -1.0)])
def test_a_reward_is_learned_at_the_point_that_the_policy_names(policy, sign):
    policy = policy(Gaussian(length_scale=0.5))

    decision = policy.choose(ROWS)
    policy.learn(decision, 1.0)

    assert_array_equal(policy.posterior.record.points, sign * decision.context[None])
