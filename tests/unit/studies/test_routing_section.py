import numpy as np
import pytest
from studies import routing
from studies.routing import NAMES, Bandit, Fixed, NeuralLinear, Task, route


@pytest.fixture
def given():
    """Forty prompts in two groups that the rows tell apart."""
    rng = np.random.default_rng(0)
    group = rng.integers(2, size=40)
    rows = np.eye(2)[group] + 0.1 * rng.normal(size=(40, 2))
    expected = routing.SKILLS.T[2 * group]
    costs = np.full((40, 1), 0.5) * routing.PRICES
    texts = [("goal", "profit")[one] for one in group]
    return Task(texts, rows, costs, expected, expected, np.arange(40) + 3.0, 6.0, texts)


ROUTERS = [name for name in routing.COLORS if name not in (routing.BEST, "best fixed choice")]


@pytest.mark.parametrize("name", ROUTERS)
def test_every_router_keeps_to_the_allowance(name, given):
    router = routing._router(name, given, 0)

    quality, spent = route(router, given)

    assert spent <= 6.0 + 1e-9
    assert (quality > 0.0).all()
    assert isinstance(router, NeuralLinear if name == "neural-linear" else Bandit)


def test_a_fixed_choice_ends_with_the_allowance(given):
    quality, spent = route(Fixed(NAMES.index("large"), given), given)

    assert spent == 6.0
    assert (quality > 0.9).sum() == 6
    assert (quality[6:] < 0.1).all()


def test_scores_arrive_when_they_are_known(given):
    class Recorder:
        def __init__(self):
            self.known = []

        def route(self, t):
            assert self.known == list(range(max(0, t - 3)))
            return 1

        def score(self, t, score):
            assert score == given.scores[t, 1]
            self.known.append(t)

    recorder = Recorder()
    route(recorder, given)

    assert recorder.known == list(range(36))


def test_the_network_is_trained_and_old_decisions_are_history(given):
    router = NeuralLinear(given, retrained=15)
    before = router._policy

    _, spent = route(router, given)

    assert spent <= 6.0 + 1e-9
    assert router._since == 30
    assert router._policy is not before
    inputs = router._inputs(0)
    hidden = router._features(inputs)
    outputs = hidden[:, :-1] @ router._network.coefs_[-1] + router._network.intercepts_[-1]
    np.testing.assert_allclose(outputs[:, 0], router._network.predict(inputs), rtol=1e-9)
    assert router._policy.policy.posterior.size == len(router._known)


def test_the_best_rounds_cost_no_more_than_the_allowance(given):
    best = routing.best_rounds(given)

    chosen = np.array([np.flatnonzero(row == value)[0] for row, value in zip(given.expected, best, strict=True)])
    assert given.costs[np.arange(40), chosen].sum() <= 6.0
    assert best.sum() > route(Fixed(1, given), given)[0].sum()
