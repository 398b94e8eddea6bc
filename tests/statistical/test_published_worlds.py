"""Exact K-UCB in the worlds of Zenati et al. (2022), with their draws, from an independent run of their protocol."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from kernelbandits.environments import Chessboard
from kernelbandits.evaluation import simulate
from kernelbandits.kernels import Gaussian
from kernelbandits.posterior import ExactPosterior
from kernelbandits.types import Decision


class StrictUCB:
    """Highest mean + 0.1 width to the last bit: the authors know no ties, and those below 1e-10 make a difference."""

    def __init__(self, regularisation):
        self.posterior = ExactPosterior(Gaussian(length_scale=0.1), regularisation=regularisation)

    def choose(self, contexts, *, ids=None):
        assert ids is None
        row = int(np.argmax(self.posterior.predict(contexts).upper(0.1)))
        return Decision(action=row, context=contexts[row], n_actions=len(contexts))

    def learn(self, decision, reward):
        self.posterior.observe(decision.context[None], [reward])

    def describe(self):
        return {"class": "StrictUCB"}


@pytest.mark.long
@pytest.mark.parametrize(
    ("regularisation", "printed", "pseudo"),
    [(1.0, [150.1, 286.7, 561.8], [22.3, 32.3, 48.0]), (10.0, [169.6, 311.4, 597.0], [41.8, 57.0, 83.2])],
)
def test_the_chessboard_gives_the_published_protocols_regret(regularisation, printed, pseudo):
    steps, ours, attainable = np.array([500, 1_000, 2_000]), [], []
    for seed in range(3):
        environment, policy = Chessboard(published_seed=seed), StrictUCB(regularisation)
        policy.posterior.observe(*environment.warm_up())

        trace = simulate(environment, policy, horizon=2_001, seed=0)

        ours.append(environment.printed_regret(trace.reward)[steps])
        attainable.append(trace.regret[steps])

    assert_allclose(np.mean(ours, axis=0), printed, atol=0.06)
    assert_allclose(np.mean(attainable, axis=0), pseudo, atol=0.06)
