"""Ridge regression in the feature space of a kernel: mean and confidence width of the reward at any point.

`AutoPosterior` is the one to try first: it takes the cheapest of three exact forms, `ExactPosterior` (any kernel, a
growing Cholesky factor over distinct points), `PrimalPosterior` (kernels with finitely many features) and
`CompressedPosterior` (many points of low numerical rank), and changes between them as data arrive.
`PerActionPosterior` is the linear model with weights per action. `fit_kernel` chooses kernel parameters on a warm-up
sample.
"""

from kernelbandits.posterior.auto import AutoPosterior
from kernelbandits.posterior.base import Posterior
from kernelbandits.posterior.compressed import CompressedPosterior
from kernelbandits.posterior.exact import ExactPosterior
from kernelbandits.posterior.factory import PosteriorFactory, posterior_factory
from kernelbandits.posterior.fitting import KernelFit, fit_kernel
from kernelbandits.posterior.pending import Pending, Placed
from kernelbandits.posterior.per_action import PerActionPosterior
from kernelbandits.posterior.primal import PrimalPosterior

__all__ = [
    "AutoPosterior",
    "CompressedPosterior",
    "ExactPosterior",
    "KernelFit",
    "Pending",
    "PerActionPosterior",
    "Placed",
    "Posterior",
    "PosteriorFactory",
    "PrimalPosterior",
    "fit_kernel",
    "posterior_factory",
]
