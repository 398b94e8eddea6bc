"""One policy per family and engine, with rounds that it takes, for tests of threads, interrupts and copies."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import kernelbandits as kb
from kernelbandits.kernels import (
    Delta,
    Gaussian,
    Linear,
    PairProduct,
    Precomputed,
    RandomFourier,
    SimilarityTable,
    Spectrum,
)
from kernelbandits.policies.experts import StumpClass, constant_experts
from kernelbandits.posterior import DevicePosterior, LowRankPosterior, Refit, posterior_factory

ROWS = np.random.default_rng(0).uniform(size=(12, 2)).round(1)  # some rows are equal
WORDS = ["apple", "apply", "pear", "peach", "plum", "plumber", "fig", "figure"]
FIXED = np.random.default_rng(1).normal(size=(6, 2)) / 3.0


@dataclass(frozen=True)
class Case:
    """How a policy is made, and the contexts of round t."""

    make: Callable[[], Any]
    contexts: Callable[[int], Any]

    def reward(self, decision: Any) -> float:
        """Depends on the action alone, and lies in [0, 1]."""
        if isinstance(self.contexts(0), kb.Box | kb.Product):
            return float(decision.context[-1].round(1))
        return (decision.action % 5) / 4.0

    def learn(self, policy: Any, n_rounds: int, *, start: int = 0) -> list[Any]:
        """Play rounds; gives the decisions."""
        decisions = []
        for t in range(start, start + n_rounds):
            decision = policy.choose(self.contexts(t))
            policy.learn(decision, self.reward(decision))
            decisions.append(decision)
        return decisions


def rows(t: int) -> Any:
    """Five rows, which repeat after a while."""
    return ROWS[[(t + place) % 12 for place in range(5)]]


def words(t: int) -> Any:
    """Four strings."""
    return [WORDS[(t + place) % 8] for place in range(4)]


def always(contexts: Any) -> Callable[[int], Any]:
    """The same contexts in every round."""
    return lambda _: contexts


def gaussian(posterior: Any = "auto", **options: Any) -> Any:
    """KernelUCB over rows."""
    return kb.KernelUCB(
        Gaussian(length_scale=0.4), regularization=0.3, exploration=0.5, posterior=posterior, seed=3, **options
    )


def compressed(kernel: Any, regularization: float) -> Any:
    """The posterior that the automatic one takes for points of low rank."""
    return LowRankPosterior(kernel, regularization=regularization)


def on_a_device(kernel: Any, regularization: float) -> Any:
    """The posterior of a GPU, on the processor."""
    return DevicePosterior(kernel, regularization=regularization, device="cpu", array_library="array_api_strict")


def similar(first: Any, second: Any) -> Any:
    """A kernel function as a user writes it."""
    return np.exp(-np.abs(first[:, None] - second[None]).sum(axis=2))


def table() -> SimilarityTable:
    """Similarities of eight words."""
    places = np.arange(8.0)
    return SimilarityTable(np.exp(-np.abs(places[:, None] - places) / 3.0), ids=WORDS)


def features() -> RandomFourier:
    """Random features of rows."""
    return RandomFourier(Gaussian(length_scale=0.4), n_columns=2, n_frequencies=6, seed=0)


CATALOG = kb.Catalog(np.random.default_rng(2).uniform(size=(40, 2)))
PAIRS = PairProduct(Gaussian(length_scale=0.5), Delta())

CASES: dict[str, Case] = {
    "KernelUCB rows": Case(gaussian, rows),
    "KernelUCB exact": Case(lambda: gaussian("exact"), rows),
    "KernelUCB compressed": Case(lambda: gaussian(compressed), rows),
    "KernelUCB logistic": Case(lambda: gaussian("logistic"), rows),
    "KernelUCB windowed": Case(lambda: gaussian(posterior_factory("windowed", length=6)), rows),
    "KernelUCB forgetting": Case(lambda: gaussian(posterior_factory("forgetting", rate=0.8)), rows),
    "KernelUCB catalog": Case(gaussian, always(CATALOG)),
    "KernelUCB strings": Case(lambda: kb.KernelUCB(Spectrum(n=2), regularization=0.2, exploration=0.4), words),
    "KernelUCB table": Case(lambda: kb.KernelUCB(Precomputed(table()), regularization=0.2), words),
    "KernelUCB function": Case(lambda: kb.KernelUCB(similar, regularization=0.2), rows),
    "KernelUCB pairs": Case(
        lambda: kb.KernelUCB(PAIRS, regularization=0.2, exploration=0.4), lambda t: kb.Pairs(ROWS[t % 12], ["a", "b"])
    ),
    "KernelUCB linear": Case(lambda: kb.KernelUCB(Linear(), regularization=0.5, exploration=0.4), rows),
    "LinUCB": Case(lambda: kb.LinUCB(regularization=0.5, exploration=0.4), rows),
    "LinUCB disjoint": Case(lambda: kb.LinUCB(model="disjoint", regularization=0.5, exploration=0.4), rows),
    "LinUCB hybrid": Case(lambda: kb.LinUCB(model="hybrid", shared_columns=[0], exploration=0.4), rows),
    "GPUCB": Case(lambda: kb.GPUCB(Gaussian(length_scale=0.4), noise_variance=0.1), rows),
    "CGPUCB": Case(
        lambda: kb.CGPUCB(context_kernel=Gaussian(length_scale=0.5), action_kernel=Spectrum(n=2), noise_variance=0.1),
        lambda t: kb.Pairs(ROWS[t % 12], WORDS[:3]),
    ),
    "OFUL": Case(lambda: kb.OFUL(noise_scale=0.2, norm_bound=1.0, switching=0.3), rows),
    "SupKernelUCB": Case(lambda: kb.SupKernelUCB(Gaussian(length_scale=0.4), exploration=1.5), rows),
    "SupLinUCB": Case(lambda: kb.SupLinUCB(exploration=1.5, regularization=0.5), rows),
    "SupLinRel": Case(lambda: kb.SupLinRel(horizon=100, n_actions=6, exploration=0.5), lambda t: rows(t) / 2.0),
    "KernelThompson": Case(lambda: kb.KernelThompson(Gaussian(length_scale=0.4), propensity_draws=16, seed=1), rows),
    "KernelThompson logistic": Case(
        lambda: kb.KernelThompson(Gaussian(length_scale=0.4), posterior="logistic", propensity_draws=16, seed=1), rows
    ),
    "KernelThompson with a budget": Case(
        lambda: kb.KernelThompson(Gaussian(length_scale=0.4), budget=5, propensity_draws=16, seed=1), rows
    ),
    "KernelSquareCB": Case(lambda: kb.KernelSquareCB(Gaussian(length_scale=0.4), seed=1), rows),
    "KernelEpochGreedy": Case(lambda: kb.KernelEpochGreedy(Gaussian(length_scale=0.4), n_actions=5, seed=1), rows),
    "KernelUCB with a budget": Case(lambda: kb.KernelUCB(Gaussian(length_scale=0.4), budget=8), rows),
    "KernelUCB with a budget, catalog": Case(lambda: gaussian(budget=8), always(CATALOG)),
    "KernelUCB with an accuracy": Case(lambda: gaussian(accuracy=0.5), rows),
    "KernelUCB with a budget, pairs": Case(
        lambda: kb.KernelUCB(PairProduct(Gaussian(length_scale=0.5), Gaussian(length_scale=0.3)), budget=4),
        lambda t: kb.Pairs(ROWS[t % 12], FIXED[:4]),
    ),
    "KernelUCB random features": Case(lambda: kb.KernelUCB(features(), regularization=0.3), rows),
    "KernelUCB random features, catalog": Case(lambda: kb.KernelUCB(features()), always(CATALOG)),
    "KernelUCB refit": Case(lambda: gaussian(refit=Refit(every=4, most=8)), rows),
    "KernelUCB logistic, catalog": Case(lambda: gaussian("logistic"), always(CATALOG)),
    "KernelUCB on a device": Case(lambda: gaussian(on_a_device), rows),
    "KernelUCB on a device, catalog": Case(lambda: gaussian(on_a_device), always(CATALOG)),
    "BKB": Case(lambda: kb.BKB(Gaussian(length_scale=0.4), seed=1), rows),
    "BBKB": Case(lambda: kb.BBKB(Gaussian(length_scale=0.4), threshold=4.0, seed=1), rows),
    "EKUCB": Case(lambda: kb.EKUCB(Gaussian(length_scale=0.4), seed=1), rows),
    "CBBKB": Case(lambda: kb.CBBKB(Gaussian(length_scale=0.4), threshold=4.0, seed=1), rows),
    "MiniBatchGPUCB": Case(lambda: kb.MiniBatchGPUCB(Gaussian(length_scale=0.4), noise_variance=0.5), rows),
    "Mixed": Case(lambda: kb.Mixed(gaussian(), epsilon=0.3, seed=1), rows),
    "Softmax": Case(lambda: kb.Softmax(kb.LinUCB(), temperature=0.5, seed=1), rows),
    "Guarded": Case(lambda: kb.Guarded(gaussian(), baseline=0), rows),
    "Paced": Case(
        lambda: kb.Paced(
            kb.KernelThompson(Gaussian(length_scale=0.4), propensity_draws=16, seed=1),
            allowance=5e4,
            horizon=90_000,
            costs=0.5,
        ),
        rows,
    ),
    "Paced observed": Case(lambda: kb.Paced(gaussian(), allowance=5e4, costs=0.5, observed_costs=True), rows),
    "Paced Mixed, costs of rounds": Case(
        lambda: kb.Paced(kb.Mixed(gaussian(), epsilon=0.2, seed=1), allowance=5e4, price=0.3),
        lambda t: kb.WithCosts(rows(t), np.arange(5) / 9.0),
    ),
    "UCB1": Case(kb.UCB1, rows),
    "KLUCB": Case(lambda: kb.KLUCB(ties="random", seed=1), rows),
    "PhasedElimination": Case(
        lambda: kb.PhasedElimination(Gaussian(length_scale=0.4), FIXED, exploration=0.3, regularization=0.1),
        always(FIXED),
    ),
    "PEGE": Case(lambda: kb.PEGE(FIXED), always(FIXED)),
    "GridGP": Case(lambda: kb.GridGP(kb.kernels.Linear(), FIXED, n_points=4), always(FIXED)),
    "UncertaintyEllipsoid": Case(lambda: kb.UncertaintyEllipsoid(FIXED, exploration=0.3), always(FIXED)),
    "ConfidenceBall": Case(lambda: kb.ConfidenceBall(FIXED, exploration=0.03), always(FIXED)),
    "ContextualZooming": Case(
        lambda: kb.ContextualZooming(Gaussian(length_scale=0.4), horizon=100, exploration=0.05), rows
    ),
    "EXP4": Case(lambda: kb.EXP4(constant_experts(5), horizon=100, seed=1), rows),
    "EXP4P": Case(lambda: kb.EXP4P(constant_experts(5), horizon=100, seed=1), rows),
    "VE": Case(
        lambda: kb.VE(StumpClass(1), horizon=60, vc_dimension=2, uniform_rounds=6, seed=1),
        lambda t: kb.Pairs(ROWS[t % 12], ["a", "b"]),
    ),
    "EpochGreedy": Case(lambda: kb.EpochGreedy(constant_experts(5), n_actions=5, seed=1), rows),
    "PACBayes": Case(lambda: kb.PACBayes([[0.0, 0.0], [1.0, 1.0]], n_actions=5, seed=1), rows),
    "PolicyElimination": Case(lambda: kb.PolicyElimination(constant_experts(5), n_actions=5, seed=1), rows),
    "RandomizedUCB": Case(lambda: kb.RandomizedUCB(constant_experts(5), n_actions=5, seed=1), rows),
    "ILOVETOCONBANDITS": Case(lambda: kb.ILOVETOCONBANDITS(constant_experts(5), n_actions=5, seed=1), rows),
    "UniformRandom": Case(lambda: kb.UniformRandom(seed=1), rows),
}

BOX = kb.Box([0.0, 0.0], [1.0, 1.0])

BOXES: dict[str, Case] = {
    "KernelUCB box": Case(gaussian, always(BOX)),
    "KernelUCB box after a context": Case(gaussian, lambda t: kb.Product(ROWS[t % 12][:1], kb.Box([0.0], [1.0]))),
    "KernelThompson box": Case(
        lambda: kb.KernelThompson(Gaussian(length_scale=0.4), draws="features", n_features=20, seed=1), always(BOX)
    ),
    "LinUCB box": Case(kb.LinUCB, always(BOX)),
    "BKB box": Case(lambda: kb.BKB(Gaussian(length_scale=0.4), seed=1), always(BOX)),
}
"""Policies whose actions cannot be listed, so that these have no probabilities."""

SEARCHING = {*BOXES, "KernelUCB refit"}
"""Policies with calls that search, in tens of thousands of lines."""
