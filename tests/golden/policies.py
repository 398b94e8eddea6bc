"""Every policy with every parameter set, for the golden traces."""

from collections.abc import Callable
from math import sqrt
from typing import Any

import kernelbandits as kb
from golden.worlds import World
from kernelbandits.kernels import Delta, Gaussian, Linear, PairProduct, Precomputed, SimilarityTable, Spectrum
from kernelbandits.policies import GrowingGapWeight
from kernelbandits.policies.experts import constant_experts, linear_experts
from kernelbandits.posterior import LowRankPosterior, posterior_factory
from kernelbandits.theory import IGPUCB, Constant, GPUCBFinite, Mixture

KERNEL = Gaussian(length_scale=0.4)
UNIT = (0.0, 1.0)

FOR_ROWS = ("fixed", "changing", "catalog")
"""Worlds of rows; a policy for one fixed set gets another fixed set instead of the changing one."""


def experts(world: World) -> Any:
    """Every action, and four linear rules."""
    return [*constant_experts(world.n_actions), *linear_experts(world.n_features, n_experts=4, seed=1)]


def kernel_ucb(
    seed: int, *, posterior: Any = "auto", kernel: Any = KERNEL, exploration: Any = 0.5, **other: Any
) -> Any:
    """KernelUCB with all its parameters."""
    arguments = {
        "budget": None, "accuracy": None, "device": "cpu", "refit": None,
        "reward_range": None, "ties": "lowest", "engine": "auto",
        **other,
    }  # fmt: skip
    return kb.KernelUCB(
        kernel, regularization=0.3, exploration=exploration, posterior=posterior, seed=seed, **arguments
    )


def sampled(seed: int) -> dict[str, Any]:
    """Parameters that the policies with a sampled dictionary share."""
    return {"regularization": 0.3, "exploration": 0.5, "ties": "lowest", "reward_range": None, "seed": seed}


def lin_ucb(seed: int, model: str = "shared", shared_columns: Any = None) -> Any:
    """LinUCB with all its parameters."""
    return kb.LinUCB(
        model=model,
        shared_columns=shared_columns,
        regularization=0.5,
        exploration=0.4,
        reward_range=None,
        ties="lowest",
        seed=seed,
    )


def compressed(kernel: Any, regularization: float) -> Any:
    """The low-rank posterior, whatever the automatic choice would be."""
    return LowRankPosterior(kernel, regularization=regularization)


def levels(policy: Any, world: World, **other: Any) -> Any:
    """SupKernelUCB or SupLinUCB with all their parameters."""
    arguments = {
        "regularization": 0.5,
        "horizon": world.horizon,
        "n_actions": world.n_actions,
        "failure_probability": 0.05,
        "norm_bound": None,
        "noise_scale": None,
        "reward_range": UNIT,
        "mode": "valid",
        "exploration": 0.7,
        "unknown_horizon": "anytime",
        "explore": "widest",
        **other,
    }
    return policy(**arguments)


def sup_kernel_ucb(**arguments: Any) -> Any:
    """SupKernelUCB over rows."""
    return kb.SupKernelUCB(KERNEL, **arguments)


Make = Callable[[World, int], Any]

ROW_POLICIES: dict[str, Make] = {
    "KernelUCB": lambda w, s: kernel_ucb(s),
    "KernelUCB exhaustive": lambda w, s: kernel_ucb(s, engine="exhaustive"),
    "KernelUCB exact": lambda w, s: kernel_ucb(s, posterior="exact"),
    "KernelUCB compressed": lambda w, s: kernel_ucb(s, posterior=compressed),
    "KernelUCB windowed": lambda w, s: kernel_ucb(s, posterior=posterior_factory("windowed", length=20)),
    "KernelUCB forgetting": lambda w, s: kernel_ucb(s, posterior=posterior_factory("forgetting", rate=0.9)),
    "KernelUCB linear": lambda w, s: kernel_ucb(s, kernel=Linear()),
    "KernelUCB mixture": lambda w, s: kernel_ucb(
        s, exploration=Mixture(noise_scale=0.2, norm_bound=1.5, failure_probability=0.05)
    ),
    "KernelUCB IGP-UCB": lambda w, s: kernel_ucb(
        s, exploration=IGPUCB(noise_scale=0.2, norm_bound=1.5, failure_probability=0.05, horizon=w.horizon)
    ),
    "KernelUCB random ties": lambda w, s: kernel_ucb(s, ties="random"),
    "LinUCB": lambda w, s: lin_ucb(s),
    "LinUCB disjoint": lambda w, s: lin_ucb(s, "disjoint"),
    "LinUCB hybrid": lambda w, s: lin_ucb(s, "hybrid", [0]),
    "GPUCB": lambda w, s: kb.GPUCB(
        KERNEL,
        noise_variance=0.1,
        exploration=GPUCBFinite(failure_probability=0.1),
        budget=None,
        accuracy=None,
        failure_probability=0.1,
        reward_range=None,
        ties="lowest",
        seed=s,
    ),
    "BKB": lambda w, s: kb.BKB(KERNEL, oversampling=3.0, **sampled(s)),
    "BBKB": lambda w, s: kb.BBKB(KERNEL, oversampling=3.0, threshold=1.5, **sampled(s)),
    "CBBKB": lambda w, s: kb.CBBKB(KERNEL, oversampling=3.0, threshold=1.5, **sampled(s)),
    "EKUCB": lambda w, s: kb.EKUCB(KERNEL, oversampling=1.5, accuracy=0.4, projection=0.9, **sampled(s)),
    "MiniBatchGPUCB": lambda w, s: kb.MiniBatchGPUCB(
        KERNEL,
        threshold=1.5,
        noise_variance=0.1,
        exploration=GPUCBFinite(failure_probability=0.1),
        failure_probability=0.1,
        budget=None,
        accuracy=None,
        reward_range=None,
        ties="lowest",
        seed=s,
    ),
    "OFUL": lambda w, s: kb.OFUL(
        regularization=0.7,
        noise_scale=0.2,
        norm_bound=1.0,
        failure_probability=0.05,
        switching=0.3,
        reward_range=None,
        ties="lowest",
        seed=s,
    ),
    "SupKernelUCB": lambda w, s: levels(sup_kernel_ucb, w),
    "SupKernelUCB paper": lambda w, s: levels(sup_kernel_ucb, w, mode="paper", explore="lowest"),
    "SupKernelUCB doubling": lambda w, s: levels(sup_kernel_ucb, w, horizon=None, unknown_horizon="doubling"),
    "SupLinUCB": lambda w, s: levels(kb.SupLinUCB, w),
    "SupLinRel": lambda w, s: kb.SupLinRel(
        horizon=w.horizon,
        n_actions=w.n_actions,
        failure_probability=0.05,
        norm_bound=1.0,
        reward_range=UNIT,
        exploration=0.3,
        explore="widest",
    ),
    "KernelThompson": lambda w, s: kb.KernelThompson(
        KERNEL,
        regularization=0.3,
        exploration=0.5 * sqrt(0.3),
        posterior="auto",
        budget=None,
        accuracy=None,
        device="cpu",
        draws="auto",
        n_features=100,
        propensity_draws=16,
        refit=None,
        reward_range=None,
        ties="lowest",
        seed=s,
    ),
    "KernelSquareCB": lambda w, s: kb.KernelSquareCB(
        KERNEL,
        regularization=0.3,
        gap_weight=GrowingGapWeight(scale=8.0),
        posterior="auto",
        budget=None,
        accuracy=None,
        device="cpu",
        refit=None,
        reward_range=None,
        seed=s,
    ),
    "KernelEpochGreedy": lambda w, s: kb.KernelEpochGreedy(
        KERNEL,
        n_actions=w.n_actions,
        regularization=0.3,
        complexity=2.0,
        horizon=w.horizon,
        uniform_factor=0.3,
        posterior="auto",
        budget=None,
        accuracy=None,
        device="cpu",
        refit=None,
        reward_range=None,
        seed=s,
    ),
    "Mixed": lambda w, s: kb.Mixed(kernel_ucb(s), epsilon=0.2, seed=s),
    "Mixed LinUCB": lambda w, s: kb.Mixed(lin_ucb(s), epsilon=0.2, seed=s),
    "Softmax": lambda w, s: kb.Softmax(kernel_ucb(s), temperature=0.1, seed=s),
    "Guarded": lambda w, s: kb.Guarded(kernel_ucb(s), baseline=0, margin=0.05, absent="refuse"),
    "Paced": lambda w, s: kb.Paced(
        kb.Mixed(kernel_ucb(s), epsilon=0.2, seed=s),
        allowance=0.2 * w.horizon,
        horizon=w.horizon,
        price=0.1,
        costs={action: 0.1 * (action % 5) for action in range(w.n_actions)},
        observed_costs=False,
        learning_factor=2.0,
    ),
    "UCB1": lambda w, s: kb.UCB1(exploration=0.3, reward_range=UNIT, ties="lowest", seed=s),
    "KLUCB": lambda w, s: kb.KLUCB(log_log_factor=0.5, reward_range=UNIT, ties="random", seed=s),
    "ContextualZooming": lambda w, s: kb.ContextualZooming(
        KERNEL,
        distance=None,
        kind=None,
        horizon=w.horizon,
        norm_bound=1.0,
        exploration=0.05,
        reward_range=UNIT,
    ),
    "EXP4": lambda w, s: kb.EXP4(
        experts(w), horizon=w.horizon, uniform_factor=0.5, learning_factor=5.0, reward_range=UNIT, seed=s
    ),
    "EXP4P": lambda w, s: kb.EXP4P(
        experts(w),
        horizon=w.horizon,
        failure_probability=0.05,
        exploration=1.0,
        uniform_factor=0.5,
        learning_factor=5.0,
        reward_range=UNIT,
        seed=s,
    ),
    "VE": lambda w, s: kb.VE(
        experts(w),
        horizon=w.horizon,
        vc_dimension=2,
        failure_probability=0.05,
        uniform_rounds=8,
        exploration=1.0,
        uniform_factor=0.5,
        learning_factor=5.0,
        reward_range=UNIT,
        seed=s,
    ),
    "EpochGreedy": lambda w, s: kb.EpochGreedy(
        experts(w), n_actions=w.n_actions, horizon=w.horizon, uniform_factor=0.3, reward_range=UNIT, seed=s
    ),
    "PACBayes": lambda w, s: kb.PACBayes(
        [[0.0] * w.n_features, [0.5] * w.n_features],
        n_actions=w.n_actions,
        uniform_factor=0.5,
        learning_factor=5.0,
        reward_range=UNIT,
        seed=s,
    ),
    "PolicyElimination": lambda w, s: kb.PolicyElimination(
        experts(w),
        n_actions=w.n_actions,
        failure_probability=0.05,
        uniform_factor=1.0,
        exploration=0.5,
        reward_range=UNIT,
        seed=s,
    ),
    "RandomizedUCB": lambda w, s: kb.RandomizedUCB(
        experts(w),
        n_actions=w.n_actions,
        failure_probability=0.05,
        uniform_factor=1.0,
        regret_factor=10.0,
        schedule="doubling",
        tolerance=0.01,
        most_steps=50,
        reward_range=UNIT,
        seed=s,
    ),
    "ILOVETOCONBANDITS": lambda w, s: kb.ILOVETOCONBANDITS(
        experts(w),
        n_actions=w.n_actions,
        failure_probability=0.05,
        uniform_factor=1.0,
        regret_factor=1.0,
        reward_range=UNIT,
        seed=s,
    ),
    "UniformRandom": lambda w, s: kb.UniformRandom(reward_range=None, seed=s),
}

FIXED_SET_POLICIES: dict[str, Make] = {
    "PhasedElimination": lambda w, s: kb.PhasedElimination(
        KERNEL,
        w.actions,
        regularization=0.2,
        horizon=w.horizon,
        failure_probability=0.05,
        norm_bound=None,
        noise_scale=None,
        exploration=0.2,
        posterior="auto",
        reward_range=UNIT,
    ),
    "PEGE": lambda w, s: kb.PEGE(w.actions, reward_range=None),
    "GridGP": lambda w, s: kb.GridGP(
        Linear(), w.actions, n_points=6, horizon=None, smoothness=2.0, dimension=None, reward_range=None
    ),
    "UncertaintyEllipsoid": lambda w, s: kb.UncertaintyEllipsoid(
        w.actions, exploration=Constant(0.3), reward_range=None
    ),
    "ConfidenceBall": lambda w, s: kb.ConfidenceBall(
        w.actions, norm=2, failure_probability=0.05, exploration=sqrt(0.001), reward_range=(-1.0, 1.0)
    ),
    "ConfidenceBall norm 1": lambda w, s: kb.ConfidenceBall(
        w.actions, norm=1, failure_probability=0.05, exploration=sqrt(0.001), reward_range=(-1.0, 1.0)
    ),
}

OTHER_POINTS: dict[str, tuple[str, Make]] = {
    "KernelUCB strings": ("words", lambda w, s: kernel_ucb(s, kernel=Spectrum(n=2))),
    "KernelUCB table": (
        "words",
        lambda w, s: kernel_ucb(s, kernel=Precomputed(SimilarityTable(w.similarities, ids=w.words))),
    ),
    "KernelUCB pairs": ("pairs", lambda w, s: kernel_ucb(s, kernel=PairProduct(KERNEL, Delta()))),
    "CGPUCB": (
        "pairs",
        lambda w, s: kb.CGPUCB(
            context_kernel=KERNEL,
            action_kernel=Spectrum(n=2),
            combine="product",
            noise_variance=0.1,
            exploration=GPUCBFinite(failure_probability=0.1),
            budget=None,
            accuracy=None,
            failure_probability=0.1,
            reward_range=None,
            ties="lowest",
            seed=s,
        ),
    ),
}

CASES: dict[str, tuple[str, Make]] = {
    **{f"{name}, {world}": (world, make) for name, make in ROW_POLICIES.items() for world in FOR_ROWS},
    **{
        f"{name}, {world}": (world, make)
        for name, make in FIXED_SET_POLICIES.items()
        for world in ("fixed", "other fixed", "catalog")
    },
    **{f"{name}, {world}": (world, make) for name, (world, make) in OTHER_POINTS.items()},
}
"""World and policy of each trace."""
