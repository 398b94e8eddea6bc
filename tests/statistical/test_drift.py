"""When the reward function changes, a posterior that forgets loses less; when it does not, forgetting has a price."""

import numpy as np
import pytest

import kernelbandits as kb
from kernelbandits.environments import DrawnRounds, Drifting, Round, SyntheticRKHS
from kernelbandits.kernels import Gaussian
from kernelbandits.posterior import posterior_factory

KERNEL = Gaussian(length_scale=0.2)
HALF = SyntheticRKHS(
    KERNEL, n_actions=15, n_features=1, norm=2.0, noise_scale=0.1, fixed_actions=True, action_seed=3
)  # a function of its own in either half, over the same actions


class Hill:
    """Ten actions on a line, the best of them at the top of a hill."""

    reward_range = None

    def __init__(self, top):
        self.top = top

    def start(self, rng):
        return DrawnRounds(self._rounds(rng))

    def _rounds(self, rng):
        contexts = np.linspace(0.0, 1.0, 10)[:, None]
        expected = np.exp(-((contexts[:, 0] - self.top) ** 2) / 0.08)
        while True:
            yield Round(contexts, expected=expected), expected + 0.1 * rng.standard_normal(10)

    def describe(self):
        return {"class": "Hill", "top": self.top}


def regrets(posterior, environment, *, n_runs, horizon):
    """Regret before and from the half of the horizon on, one row a run."""
    rows = []
    for run in range(n_runs):
        policy = kb.KernelUCB(KERNEL, regularization=0.1, exploration=0.1, posterior=posterior)
        regret = kb.simulate(environment, policy, horizon=horizon, seed=run).regret
        rows.append((regret[horizon // 2 - 1], regret[-1] - regret[horizon // 2 - 1]))
    return np.array(rows)


def gain_in_errors(plain, other):
    """Mean gain of the same runs, in its standard errors."""
    gains = plain - other
    return gains.mean() / (gains.std(ddof=1) / np.sqrt(len(gains)))


@pytest.mark.parametrize(("name", "options"), [("windowed", {"length": 40}), ("forgetting", {"rate": 0.95})])
def test_after_a_change_forgetting_loses_less(name, options):
    environment, problem = Drifting(Hill(0.2), Hill(0.8), change_at=80), {"n_runs": 5, "horizon": 160}

    plain = regrets("auto", environment, **problem)
    other = regrets(posterior_factory(name, **options), environment, **problem)

    assert gain_in_errors(plain[:, 1], other[:, 1]) > 4.0
    assert other[:, 1].mean() < 0.6 * plain[:, 1].mean()
    assert other[:, 0].mean() < plain[:, 0].mean() + 1.0  # before the change it has a price, and a small one


@pytest.mark.long
@pytest.mark.parametrize("gradual", [0, 150])
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("windowed", {"length": 50}),
        ("windowed", {"length": 100}),
        ("forgetting", {"rate": 0.95}),
        ("forgetting", {"rate": 0.98}),
    ],
)
def test_after_a_change_at_once_or_gradual_forgetting_loses_less_in_the_long_run(name, options, gradual):
    environment = Drifting(HALF, HALF, change_at=300, gradual=gradual)
    problem = {"n_runs": 40, "horizon": 600}

    plain = regrets("auto", environment, **problem)
    other = regrets(posterior_factory(name, **options), environment, **problem)

    assert gain_in_errors(plain[:, 1], other[:, 1]) > 3.0
    assert other[:, 1].mean() < 0.6 * plain[:, 1].mean()


@pytest.mark.long
@pytest.mark.parametrize(("name", "options"), [("windowed", {"length": 50}), ("forgetting", {"rate": 0.95})])
def test_where_nothing_changes_forgetting_has_a_price(name, options):
    problem = {"n_runs": 20, "horizon": 400}

    plain = regrets("auto", Hill(0.2), **problem)
    other = regrets(posterior_factory(name, **options), Hill(0.2), **problem)

    assert gain_in_errors(plain[:, 1], other[:, 1]) < -4.0
