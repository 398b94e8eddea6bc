"""Selection of kernel parameters and regularization on a warm-up sample (Valko et al. 2013, Remark 3)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf, log, pi
from typing import Any, Literal

import numpy as np

from kernelbandits._text import repr_of_fields
from kernelbandits.errors import InvalidParameter, NotPositiveSemidefinite
from kernelbandits.kernels import Kernel, KernelLike, as_kernel
from kernelbandits.posterior.base import check_no_overflow, checked_regularization, checked_rewards
from kernelbandits.types import Indices, Matrix, Parameters, Points, Seed, Vector
from kernelbandits.validation import as_generator, check_int, check_list, is_one_of, short_repr

__all__ = ["KernelFit", "fit_kernel"]

Criterion = Literal["marginal_likelihood", "cross_validation"]


@dataclass(frozen=True, kw_only=True)
class KernelFit:
    """Result of selecting kernel parameters and regularization on a warm-up sample."""

    __repr__ = repr_of_fields

    kernel: Kernel
    regularization: float
    criterion: Criterion | Literal["leave_one_out"]
    value: float
    """Log likelihood (higher is better), or mean squared error on left-out folds (lower is better)."""

    tried: tuple[Parameters, ...]
    """All evaluated pairs of `fit_kernel`, in order, or the given and the found one of `optimize_kernel`: kernel,
    regularization and value."""


def fit_kernel(
    candidates: Iterable[KernelLike] | KernelLike,
    points: Points,
    rewards: Vector,
    *,
    regularization: Sequence[float] | float,
    criterion: Criterion = "marginal_likelihood",
    folds: int = 5,
    seed: Seed = None,
) -> KernelFit:
    """Select the best kernel and regularization γ by a criterion; all evaluated pairs are reported.

    marginal_likelihood: ln p(y) for y ~ N(0, K + γI), so γ is the noise variance in the units of the rewards:

        −½ yᵀ(K + γI)⁻¹y − ½ ln det(K + γI) − (n/2) ln 2π

    cross_validation: mean squared error of kernel ridge regression on left-out folds (shuffled by `seed`).

    One eigendecomposition per kernel (and fold) is used for every γ. A confidence width stays valid only if the policy
    does not learn from this sample afterwards: the choice depends on its rewards.

    >>> from kernelbandits.kernels import Gaussian
    >>> x = np.linspace(0, 1, 30)[:, None]
    >>> candidates = [Gaussian(length_scale=scale) for scale in (0.01, 0.3)]
    >>> fit = fit_kernel(candidates, x, np.sin(6 * x[:, 0]), regularization=[1e-2, 1.0])
    >>> fit.kernel, fit.regularization
    (Gaussian(length_scale=0.3), 0.01)
    """
    kernels = tuple(as_kernel(kernel) for kernel in _several(candidates))
    gammas = [checked_regularization(value) for value in np.atleast_1d(np.asarray(regularization, dtype=object))]
    folds = check_int(folds, "The number of folds")
    if not kernels or not gammas:
        raise InvalidParameter("There must be at least one candidate kernel and one regularization to choose from.")
    if not is_one_of(criterion, ("marginal_likelihood", "cross_validation")):
        raise InvalidParameter(
            f"The criterion is 'marginal_likelihood' or 'cross_validation', got {short_repr(criterion)}."
        )
    tried: list[Parameters] = []
    best: tuple[float, Kernel, float] = (inf, kernels[0], gammas[0])
    for kernel in kernels:
        checked = kernel.kind.check(points)
        targets = checked_rewards(rewards, kernel.kind.count(checked))
        gram = kernel.gram(checked)
        check_no_overflow(gram)
        if criterion == "marginal_likelihood":
            values = _log_likelihoods(gram, targets, gammas)
        else:
            values = _errors_left_out(gram, targets, gammas, _folds(len(targets), folds, seed))
        for gamma, value in zip(gammas, values, strict=True):
            tried.append({"kernel": kernel.describe(), "regularization": gamma, "value": value})
            loss = -value if criterion == "marginal_likelihood" else value
            best = min(best, (loss, kernel, gamma), key=lambda found: found[0])
    loss, kernel, gamma = best
    value = -loss if criterion == "marginal_likelihood" else loss
    return KernelFit(kernel=kernel, regularization=gamma, criterion=criterion, value=value, tried=tuple(tried))


def _log_likelihoods(gram: Matrix, targets: Vector, gammas: Sequence[float]) -> list[float]:
    spectrum, basis = _eigen(gram)
    energies = (basis.T @ targets) ** 2
    values = []
    for gamma in gammas:
        variances = spectrum + gamma
        fit, volume = float((energies / variances).sum()), float(np.log(variances).sum())
        values.append(-0.5 * (fit + volume + len(targets) * log(2.0 * pi)))
    return values


def _errors_left_out(gram: Matrix, targets: Vector, gammas: Sequence[float], folds: Sequence[Indices]) -> list[float]:
    total = np.zeros(len(gammas))
    for left_out in folds:
        training = np.setdiff1d(np.arange(len(targets)), left_out)
        spectrum, basis = _eigen(gram[np.ix_(training, training)])
        rotated = basis.T @ targets[training]
        for place, gamma in enumerate(gammas):
            weights = basis @ (rotated / (spectrum + gamma))
            total[place] += float(((gram[np.ix_(left_out, training)] @ weights - targets[left_out]) ** 2).sum())
    return [float(value) for value in total / len(targets)]


def _several(candidates: Any) -> list[Any]:
    """Candidates as a list; a single candidate becomes a list of one."""
    is_one = isinstance(candidates, Kernel | np.ndarray) or callable(candidates) or not isinstance(candidates, Iterable)
    return [candidates] if is_one else check_list(candidates, "Candidate kernels")


def _eigen(gram: Matrix) -> tuple[Vector, Matrix]:
    """Eigenvalues, clipped at zero, and eigenvectors."""
    spectrum, basis = np.linalg.eigh(gram)
    if spectrum[0] < -1e-8 * max(spectrum[-1], 0.0):
        raise NotPositiveSemidefinite(
            f"The similarities of the sample are not positive semi-definite: their smallest eigenvalue is "
            f"{spectrum[0]:.3g}. Repair them first: kb.kernels.repair(table, method='clip')."
        )
    return np.maximum(spectrum, 0.0), np.asarray(basis, dtype=np.float64)


def _folds(n_points: int, folds: int, seed: Seed) -> list[Indices]:
    if not 2 <= folds <= n_points:
        raise InvalidParameter(f"Cross-validation needs 2 to {n_points} folds for {n_points} points, got {folds}.")
    return list(np.array_split(as_generator(seed).permutation(n_points), folds))
