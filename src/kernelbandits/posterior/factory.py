"""Posteriors by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from kernelbandits.errors import InvalidParameter
from kernelbandits.kernels import Kernel
from kernelbandits.posterior.auto import AutoPosterior
from kernelbandits.posterior.base import Posterior
from kernelbandits.posterior.exact import ExactPosterior
from kernelbandits.posterior.primal import PrimalPosterior

__all__ = ["PosteriorFactory", "posterior_factory"]

PosteriorFactory: TypeAlias = Callable[[Kernel, float], Posterior]

_FORMS: dict[str, type[Posterior]] = {"auto": AutoPosterior, "exact": ExactPosterior, "primal": PrimalPosterior}


def posterior_factory(name: str | PosteriorFactory) -> PosteriorFactory:
    """A function (kernel, regularisation) → posterior: "auto", "exact", "primal", or one of your own.

    >>> from kernelbandits.kernels import Linear
    >>> posterior_factory("exact")(Linear(), 0.5).regularisation
    0.5
    """
    if callable(name):
        return name
    if name not in _FORMS:
        raise InvalidParameter(
            f"The posterior has to be one of {', '.join(map(repr, _FORMS))} or a function, got {name!r}."
        )
    form = _FORMS[name]
    return lambda kernel, regularisation: form(kernel, regularisation=regularisation)  # type: ignore[call-arg]
