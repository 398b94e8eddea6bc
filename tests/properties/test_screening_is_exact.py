"""Screening chooses what scoring every action would choose, in every round."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import kernelbandits as kb
from kernelbandits.kernels import (
    Constant,
    Delta,
    Gaussian,
    Laplacian,
    Linear,
    Matern,
    PairProduct,
    PairSum,
    Polynomial,
    RationalQuadratic,
    Spectrum,
)
from kernelbandits.posterior import ExactPosterior
from kernelbandits.posterior.cholesky import GrowingCholesky
from kernelbandits.selection import screening as module
from kernelbandits.selection import tied_for_best
from kernelbandits.selection.screening import BatchSizes
from kernelbandits.selection.similarities import AnyKernel, Distances

REGIMES = {
    "A": (0.1, 0.2),
    "B": (1.0, 0.5),
    "D": (0.1, 1.0),
    "greedy": (0.5, 0.0),
    "tiny": (1e-6, 0.01),
    "ten": (10, 3.0),
}


def rows(rng, n):
    contexts = rng.uniform(size=(n, 3))
    contexts[n // 2] = contexts[0]  # a duplicate
    return contexts


def far_rows(rng, n):
    """Large, small and far from the origin at once."""
    return rows(rng, n) * np.array([1e-3, 1.0, 50.0]) + np.array([0.0, 1e6, -3.0])


def huge_rows(rng, n):
    contexts = rows(rng, n)
    contexts[1] *= 1e9
    return contexts


def words(rng, n):
    return ["".join(rng.choice(list("abc"), size=5)) for _ in range(n)]


def pairs(rng, n):
    actions = rng.choice(["red", "blue", "green", "gray"], size=min(n, 6)).tolist()
    return kb.Pairs(rng.uniform(size=2), actions)


def row_pairs(rng, n):
    return kb.Pairs(rng.uniform(size=2), np.round(rng.uniform(size=(n, 2)), 1))


WORLDS = {
    "gaussian": (Gaussian(length_scale=0.5), rows),
    "per column": (Gaussian(length_scale=[0.3, 1.0, 2.0]), rows),
    "mixed scales": (Gaussian(length_scale=[1e-3, 0.5, 20.0]), far_rows),
    "huge": (Gaussian(length_scale=0.5), huge_rows),
    "matern 1/2": (Matern(smoothness=0.5, length_scale=0.7), rows),
    "matern 3/2": (Matern(smoothness=1.5, length_scale=[0.7, 0.3, 1.0]), rows),
    "matern 5/2": (Matern(smoothness=2.5, length_scale=0.7), rows),
    "scaled": (3.0 * Gaussian(length_scale=0.5) * 0.01, rows),
    "rational quadratic": (RationalQuadratic(length_scale=0.5, mixture=2.0), rows),
    "laplacian": (Laplacian(length_scale=0.5), rows),
    "linear": (Linear(), rows),
    "polynomial": (Polynomial(degree=2), rows),
    "sum": (Gaussian(length_scale=0.5) + Constant(0.5), rows),
    "product": (Gaussian(length_scale=0.5) * Linear(), rows),
    "strings": (Spectrum(n=2), words),
    "pairs": (PairProduct(context=Gaussian(length_scale=0.5), action=Delta()), pairs),
    "pairs of rows": (
        PairProduct(context=Matern(smoothness=1.5, length_scale=0.5), action=Gaussian(length_scale=0.4)),
        row_pairs,
    ),
    "scaled pairs": (2.0 * PairProduct(context=Gaussian(length_scale=0.5), action=Delta()), pairs),
    "sums of pairs": (PairSum(context=Gaussian(length_scale=0.5), action=Delta()), pairs),
}


SMALL = BatchSizes(first=5, later=4, incumbents=2)


def in_small_parts(policy):
    """Screen in small batches, over many small panels."""
    policy._selectors.screening._sizes = SMALL
    policy.posterior._factor = GrowingCholesky(rows_per_panel=7, first_capacity=2)
    return policy


class Watched:
    """A policy beside a posterior that scores everything and observes only rewards."""

    def __init__(self, kernel, regularization, exploration, ties="lowest", *, prepare=in_small_parts):
        self.policy = prepare(
            kb.KernelUCB(
                kernel, regularization=regularization, exploration=exploration, posterior="exact", ties=ties, seed=0
            )
        )
        self.plain = ExactPosterior(kernel, regularization=regularization)
        self.exploration = exploration
        self.n_screened = 0
        self.n_widths = self.n_actions = 0

    def choose(self, contexts):
        decision = self.policy.choose(contexts)
        report = decision.cost
        self.n_screened += report.engine == "screened"
        self.n_widths += report.widths_computed
        self.n_actions += report.n_actions
        prediction = self.plain.predict(contexts)
        scores = prediction.upper(self.exploration)
        rounding = 1e-13 * max(1.0, self.plain.n_observations / self.plain.regularization) ** 0.75
        best = float(scores.max())
        if decision.action != tied_for_best(scores)[0]:
            # Where rounding is larger than the tolerance of ties, a choice that is as good as rounding tells.
            assert rounding > 1e-11
            assert best - scores[decision.action] <= rounding * max(1.0, abs(best))
        tolerance = max(1e-11, 100.0 * rounding)
        assert_allclose(decision.mean, prediction.mean[decision.action], rtol=tolerance, atol=tolerance)
        squared, scale = (
            prediction.width[decision.action] ** 2,
            float(self.policy.posterior.kernel.diagonal(self.policy.posterior.kernel.kind.check(contexts)).max())
            / self.plain.regularization,
        )
        assert_allclose(decision.width**2, squared, rtol=tolerance, atol=tolerance * scale)
        return decision

    def learn(self, decision, reward):
        self.policy.learn(decision, reward)
        self.plain.observe(self.policy._point(decision), [reward])


@pytest.mark.parametrize("regime", REGIMES)
@pytest.mark.parametrize("world", WORLDS)
def test_every_choice_is_that_of_brute_force(world, regime):
    play(world, regime)


def play(world, regime, n_rounds=32):
    rng = np.random.default_rng(len(world))
    kernel, contexts_of = WORLDS[world]
    watched = Watched(kernel, *REGIMES[regime])
    for _ in range(n_rounds):
        contexts = contexts_of(rng, int(rng.integers(2, 30)))
        decision = watched.choose(contexts)
        watched.learn(decision, float(rng.uniform()))
    assert watched.n_screened > n_rounds - 12
    return watched


def play_many(worlds, regimes):
    for world in worlds:
        for regime in regimes:
            play(world, regime, 100)


def test_most_actions_need_no_width():
    rng = np.random.default_rng(0)
    watched = Watched(Gaussian(length_scale=0.3), 0.1, 0.2)
    center = np.full(3, 0.5)
    for _ in range(300):
        contexts = rng.uniform(size=(100, 3))
        decision = watched.choose(contexts)
        watched.learn(decision, float(np.exp(-np.sum((decision.context - center) ** 2) / 0.1)))

    assert watched.n_widths < 0.2 * watched.n_actions


@pytest.mark.parametrize(("n_actions", "is_recomputed"), [(2, False), (3, False), (5, True)])
def test_for_a_few_actions_the_factor_is_read_once(n_actions, is_recomputed):
    """New weights would read it again; noise makes old ones useless at once."""
    rng = np.random.default_rng(n_actions)
    watched = Watched(Matern(smoothness=0.5, length_scale=1.0), 1.0, 0.1, prepare=lambda policy: policy)
    sizes = set()
    for t in range(260):
        decision = watched.choose(rng.uniform(size=(n_actions, 6)))
        watched.learn(decision, float(rng.integers(2)))
        if t > 160:
            sizes.add(watched.policy._selectors.screening._weights.size)

    assert (len(sizes) > 5) is is_recomputed


EVENTS = st.lists(
    st.sampled_from(
        ["learn"] * 8 + ["again"] * 2 + ["late", "other", "amend", "unlearn", "warm", "batch", "expect", "ask", "copy"]
    ),
    min_size=10,
    max_size=40,
)


@given(events=EVENTS, seed=st.integers(0, 2**32 - 1), regularization=st.sampled_from([0.01, 0.1, 1.0, 7.0]))
@settings(max_examples=50, suppress_health_check=[HealthCheck.too_slow])
def test_whatever_happens_in_between_is_followed(events, seed, regularization):
    rng = np.random.default_rng(seed)
    watched = Watched(Gaussian(length_scale=0.6), regularization, 0.7)
    policy, plain = watched.policy, watched.plain
    waiting, learned = [], []
    for event in ["warm", *events]:
        contexts = rows(rng, int(rng.integers(2, 20)))
        if event == "again" and learned:
            contexts[0] = learned[0][0].context  # an action that is known already
        decision = watched.choose(contexts)
        reward = float(rng.normal())
        if event in ("late", "expect", "ask"):
            if event == "expect":
                policy.expect(decision)  # pending: all are scored until it is learned
                policy.choose(contexts)
                policy.withdraw(decision)
            waiting.append(decision)
        elif event == "other":
            plain.observe(contexts[:1], [reward])
            policy.warm_start(contexts[:1], [reward])
        elif event == "warm":
            plain.observe(contexts, np.zeros(len(contexts)))
            policy.warm_start(contexts, np.zeros(len(contexts)))
        elif event == "batch" and waiting:
            rewards = rng.normal(size=len(waiting))
            plain.observe(np.array([one.context for one in waiting]), rewards)
            policy.learn_many(waiting, rewards)
            learned += zip(waiting, rewards, strict=True)
            waiting = []
        elif event == "amend" and learned:
            one, was = learned[-1]
            policy.amend(one, was=was, now=was + 0.5)
            plain.amend(one.context[None], was=[0.0], now=[0.5])
            learned[-1] = one, was + 0.5
        elif event == "unlearn" and learned:
            one, was = learned.pop(int(rng.integers(len(learned))))
            policy.unlearn(one, was)
            plain.remove(one.context[None], [was])
        elif event == "copy":
            watched.policy = policy = policy.copy()
            policy._selectors.screening._sizes = SMALL
        else:
            watched.learn(decision, reward)
            learned.append((decision, reward))
    watched.choose(rows(rng, 12))


def test_ties_are_those_of_brute_force():
    rng = np.random.default_rng(1)
    watched = Watched(Gaussian(length_scale=0.5), 0.5, 0.4, ties="random")
    for reward in rng.uniform(size=30):
        contexts = rng.uniform(size=(8, 2))
        watched.plain.observe(contexts[:1], [reward])
        watched.policy.warm_start(contexts[:1], [reward])
    contexts = np.repeat(rng.uniform(size=(5, 2)), 9, axis=0)

    tied = tied_for_best(watched.plain.predict(contexts).upper(0.4))
    taken = {watched.policy.choose(contexts).action for _ in range(100)}

    assert watched.policy.choose(contexts).cost.engine == "screened"
    assert len(tied) == 9
    assert taken == set(tied.tolist())


@pytest.mark.parametrize("loosened", ["innovation bound", "explained"])
def test_a_bound_that_is_too_low_is_noticed(monkeypatch, loosened):
    """Negative control: an action that would win is left behind."""
    if loosened == "innovation bound":
        right = module.bound_terms

        def too_low(*arguments):
            terms = right(*arguments)
            return terms._replace(innovation_bound=0.3 * terms.innovation_bound)

        monkeypatch.setattr(module, "bound_terms", too_low)
    else:
        for way in (AnyKernel, Distances):
            scan = way.scan
            monkeypatch.setattr(
                way, "scan", lambda *given, scan=scan: (found := scan(*given))._replace(explained=found.explained + 0.4)
            )

    with pytest.raises(AssertionError):
        play_many(["gaussian", "matern 3/2", "laplacian"], ["B", "D", "ten"])


def test_a_wrong_row_of_the_factor_is_noticed(monkeypatch):
    """Negative control: what is expected to be observed next belongs to another point."""
    expect = ExactPosterior.expect
    monkeypatch.setattr(
        ExactPosterior, "expect", lambda self, point, column, prior: expect(self, point, 0.99 * column, prior)
    )

    with pytest.raises(AssertionError):
        play("gaussian", "B")
