import numpy as np
import pytest
from numpy.testing import assert_allclose

from kernelbandits.environments import DrawnRounds, Round, SyntheticRKHS
from kernelbandits.evaluation import simulate
from kernelbandits.evaluation.simulation import InformationGain
from kernelbandits.kernels import Delta, Gaussian, Linear
from kernelbandits.policies import CGPUCB, GPUCB, OFUL, KernelUCB, LinUCB, UniformRandom
from kernelbandits.posterior import posterior_factory
from kernelbandits.selection import Catalog
from kernelbandits.types import Pairs

KERNEL = Gaussian(length_scale=0.4)
ROWS = np.random.default_rng(2).random((12, 3))


class Shown:
    """The same round again and again, with Gaussian noise."""

    reward_range = None

    def __init__(self, contexts, n_actions=12):
        self.contexts, self.n_actions = contexts, n_actions

    def start(self, rng):
        return DrawnRounds((Round(self.contexts), rng.standard_normal(self.n_actions)) for _ in iter(int, 1))

    def describe(self):
        return {"class": "Shown"}


CASES = {
    "rows": (lambda: KernelUCB(KERNEL, regularization=0.3), ROWS),
    "catalog": (lambda: KernelUCB(KERNEL, regularization=0.3), Catalog(ROWS)),
    "window": (lambda: KernelUCB(KERNEL, posterior=posterior_factory("windowed", length=9)), ROWS),
    "played": (lambda: KernelUCB(Linear(), regularization=0.3), ROWS),
    "disjoint": (lambda: LinUCB(model="disjoint", regularization=0.3), ROWS),
    "process": (lambda: GPUCB(KERNEL, noise_variance=0.3), ROWS),
    "pairs": (
        lambda: CGPUCB(context_kernel=KERNEL, action_kernel=Delta(), noise_variance=0.3),
        Pairs(ROWS[0], list("abcdefghijkl")),
    ),
    "ellipsoid": (lambda: OFUL(regularization=0.3, norm_bound=1.0, noise_scale=1.0), ROWS),
}


@pytest.mark.parametrize("case", CASES)
def test_the_gain_of_every_round_is_what_the_posterior_would_say(case):
    policy, contexts = CASES[case][0](), CASES[case][1]
    again = CASES[case][0]()

    gains = simulate(Shown(contexts), policy, horizon=40, seed=1).log_det_gain

    expected, world = [], Shown(contexts).start(np.random.default_rng(np.random.SeedSequence(1).spawn(1)[0]))
    for _ in range(40):
        decision = again.choose(world.observe().contexts)
        again.learn(decision, world.reward(decision.action))
        expected.append(again.posterior.log_det_gain)
    assert_allclose(gains, expected, rtol=1e-10)


def test_what_is_pending_narrows_widths_and_is_no_gain():
    policy = KernelUCB(KERNEL, regularization=0.3)
    policy.expect(policy.choose(ROWS))

    gains = simulate(Shown(ROWS), policy, horizon=20, seed=1)

    assert_allclose(gains.log_det_gain[-1], policy.posterior.log_det_gain, rtol=1e-10)
    assert not np.isclose(np.log1p(gains.width**2).sum(), gains.log_det_gain[-1])


def test_it_begins_with_what_was_learned_before():
    policy = KernelUCB(KERNEL, regularization=0.3)
    policy.warm_start(ROWS, np.zeros(12))

    assert InformationGain(policy).now == policy.posterior.log_det_gain > 0.0


def test_a_catalog_keeps_its_posterior_from_being_queried(monkeypatch):
    expected = []
    kind = type(KernelUCB(KERNEL).posterior)
    gain = kind.log_det_gain.fget
    monkeypatch.setattr(kind, "log_det_gain", property(lambda self: expected.append(1) or gain(self)))

    simulate(Shown(Catalog(ROWS)), KernelUCB(KERNEL), horizon=30, seed=1)

    assert len(expected) == 1


def test_fresh_contexts_add_up_too():
    world = SyntheticRKHS(KERNEL, n_actions=5, n_features=2)
    policy = KernelUCB(KERNEL, regularization=0.3)

    trace = simulate(world, policy, horizon=60, seed=1)

    assert_allclose(trace.log_det_gain[-1], policy.posterior.log_det_gain, rtol=1e-10)


def test_beyond_a_budget_it_is_the_bound_of_the_certificate():
    world = SyntheticRKHS(KERNEL, n_actions=5, n_features=2)
    policy = KernelUCB(KERNEL, regularization=0.3, budget=10)

    trace = simulate(world, policy, horizon=60, seed=1)

    assert policy.posterior.certificate.n_atoms == 10
    assert_allclose(trace.log_det_gain[-1], policy.posterior.log_det_gain, rtol=1e-10)


@pytest.mark.parametrize("late", [False, True])
def test_the_inflation_of_every_round_is_that_of_the_certificate(late):
    rng = np.random.default_rng(4)
    contexts = rng.random((30, 12, 3))
    policies = [KernelUCB(KERNEL, regularization=0.3, budget=6) for _ in range(2)]
    rounds = [(Round(one), np.zeros(12)) for one in contexts]
    environment = Shown(ROWS)
    environment.start = lambda rng: DrawnRounds(iter(rounds))

    inflation = simulate(environment, policies[0], horizon=30, seed=0, learn_rounds=20 if late else None).inflation

    for t in range(30):
        if t < 20 or not late:
            policies[1].learn(policies[1].choose(contexts[t]), 0.0)
        certificate = policies[1].posterior.certificate
        assert inflation[t] == pytest.approx(1.0 if certificate is None else certificate.inflation)
    assert inflation[0] == 1.0
    assert inflation[-1] > 1.5


def test_inflation_is_one_for_exact_posteriors_and_unknown_without_one():
    played = simulate(Shown(ROWS), KernelUCB(Linear(), regularization=0.3), horizon=5, seed=0)
    without = simulate(Shown(ROWS), UniformRandom(), horizon=5, seed=0)

    assert played.inflation.tolist() == [1.0] * 5
    assert np.isnan(without.inflation).all()
