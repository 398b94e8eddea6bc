"""Kernel ridge regression: posterior mean and confidence width of the reward at any point.

`AutoPosterior` is the recommended default: it uses the cheapest of three exact forms, `ExactPosterior` (any kernel, a
growing Cholesky factor over distinct points), `PrimalPosterior` (kernels with finitely many features) and
`LowRankPosterior` (many points of low numerical rank), and switches between them as data arrive.
`LogisticPosterior` is for binary rewards.
`WindowedPosterior` and `ForgettingPosterior` are for rewards that change with time: the exact posterior of the latest
observations, and one in which older observations have smaller weights. `PartitionedPosterior` holds one posterior per
label if different labels have similarity zero. `PerActionPosterior` is the linear model with weights per action.
`DevicePosterior` is the exact posterior on a GPU (extra `gpu`). `NystroemPosterior` approximates on a dictionary of
points and certifies its error; `AutoPosterior(…, budget=1000)` uses it beyond a budget.
`fit_kernel` selects kernel parameters on a warm-up sample, and `optimize_kernel` searches for them by gradients;
`Refit` says when a policy does so itself.
"""

from kernelbandits.posterior.auto import AutoPosterior
from kernelbandits.posterior.base import Capabilities, Posterior
from kernelbandits.posterior.device import DevicePosterior
from kernelbandits.posterior.dictionaries import (
    BatchedResampling,
    Dictionary,
    OnlineRowSampling,
    Resampling,
    ResidualDictionary,
)
from kernelbandits.posterior.discounted import ForgettingPosterior, WindowedPosterior
from kernelbandits.posterior.exact import ExactPosterior
from kernelbandits.posterior.factory import (
    NamedPosterior,
    PosteriorFactory,
    cheapest_exact,
    describe_posterior,
    posterior_factory,
    posterior_from,
)
from kernelbandits.posterior.logistic import LogisticPosterior, Probabilities
from kernelbandits.posterior.low_rank import LowRankPosterior
from kernelbandits.posterior.model_selection import KernelFit, fit_kernel
from kernelbandits.posterior.nystroem import NystroemPosterior
from kernelbandits.posterior.parameter_search import Refit, optimize_kernel
from kernelbandits.posterior.pending import Pending, Placed
from kernelbandits.posterior.per_label import PartitionedPosterior, PerActionPosterior
from kernelbandits.posterior.primal import PrimalPosterior

__all__ = [
    "AutoPosterior",
    "BatchedResampling",
    "Capabilities",
    "DevicePosterior",
    "Dictionary",
    "ExactPosterior",
    "ForgettingPosterior",
    "KernelFit",
    "LogisticPosterior",
    "LowRankPosterior",
    "NamedPosterior",
    "NystroemPosterior",
    "OnlineRowSampling",
    "PartitionedPosterior",
    "Pending",
    "PerActionPosterior",
    "Placed",
    "Posterior",
    "PosteriorFactory",
    "PrimalPosterior",
    "Probabilities",
    "Refit",
    "Resampling",
    "ResidualDictionary",
    "WindowedPosterior",
    "cheapest_exact",
    "describe_posterior",
    "fit_kernel",
    "optimize_kernel",
    "posterior_factory",
    "posterior_from",
]
