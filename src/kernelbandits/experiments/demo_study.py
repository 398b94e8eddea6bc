"""The demo's study: which policies, in which world."""

from __future__ import annotations

from functools import partial
from typing import Final

from kernelbandits.environments import SyntheticRKHS
from kernelbandits.experiments.comparison import Comparison
from kernelbandits.kernels import Gaussian, Linear
from kernelbandits.policies import GPUCB, KernelUCB, SupKernelUCB, UniformRandom
from kernelbandits.theory import Mixture
from kernelbandits.validation import MOST_ROUNDS, MOST_RUNS, check_int

__all__ = ["COLORS", "HORIZON", "N_SEEDS", "PROVED", "RANDOM", "SUP_PROVED", "WORLD", "demo_comparison"]

HORIZON: Final = 500
N_SEEDS: Final = 8

NORM: Final = 0.95
FAILURE_PROBABILITY: Final = 0.1
REGULARIZATION: Final = 0.25
"""The square of the noise scale, as for a Gaussian process; the same for all kernel policies."""

KERNEL: Final = Gaussian(length_scale=0.2)
WORLD: Final = SyntheticRKHS(KERNEL, n_actions=30, n_features=2, n_centers=5, norm=NORM, noise="bernoulli")
"""A few hills over the unit square: the chance of a click at each of 30 places, drawn anew every round."""

# Each the best of 0.0125, 0.025, 0.05, 0.1, 0.2, 0.4, 0.8 by mean regret after 500 rounds on seeds 100 to 109, which
# the demo does not play (unless asked for more than 100 seeds).
KERNEL_UCB_EXPLORATION: Final = 0.2
SUP_KERNEL_UCB_SCALE: Final = 0.05
LIN_UCB_EXPLORATION: Final = 0.1

TUNED, PROVED = "KernelUCB, tuned", "KernelUCB, proved"
SUP_TUNED, SUP_PROVED = "SupKernelUCB, tuned", "SupKernelUCB, proved"
GP, LINEAR, RANDOM = "GP-UCB", "LinUCB, tuned", "Random"

COLORS: Final = {
    TUNED: "blue",
    PROVED: "sky",
    GP: "orange",
    SUP_PROVED: "red",
    SUP_TUNED: "purple",
    LINEAR: "green",
    RANDOM: "gray",
}


def demo_comparison(*, horizon: int = HORIZON, n_seeds: int = N_SEEDS) -> Comparison:
    """The study: seven policies in the same worlds.

    "Tuned" policies explore by a constant that did best on other seeds; "proved" ones by the width that their theorem
    needs, which is far more careful.
    """
    horizon = check_int(horizon, "The number of rounds", least=2, most=MOST_ROUNDS)
    n_seeds = check_int(n_seeds, "The number of seeds", most=MOST_RUNS)
    width = Mixture(noise_scale=WORLD.noise_scale, norm_bound=NORM, failure_probability=FAILURE_PROBABILITY)
    kernel_ucb = partial(KernelUCB, KERNEL, regularization=REGULARIZATION)
    sup_kernel_ucb = partial(
        SupKernelUCB,
        KERNEL,
        regularization=REGULARIZATION,
        horizon=horizon,
        n_actions=WORLD.n_actions,
        failure_probability=FAILURE_PROBABILITY,
    )
    return Comparison(
        environment=WORLD,
        policies={
            TUNED: lambda _: kernel_ucb(exploration=KERNEL_UCB_EXPLORATION),
            PROVED: lambda _: kernel_ucb(exploration=width),
            GP: lambda _: GPUCB(KERNEL, noise_variance=REGULARIZATION, failure_probability=FAILURE_PROBABILITY),
            SUP_TUNED: lambda _: sup_kernel_ucb(exploration=SUP_KERNEL_UCB_SCALE),
            SUP_PROVED: lambda _: sup_kernel_ucb(norm_bound=NORM),
            # LinUCB on (x, 1): a constant added to the linear kernel is an intercept.
            LINEAR: lambda _: KernelUCB(Linear() + 1.0, exploration=LIN_UCB_EXPLORATION),
            RANDOM: lambda seed: UniformRandom(seed=seed),
        },
        horizon=horizon,
        seeds=range(n_seeds),
    )
