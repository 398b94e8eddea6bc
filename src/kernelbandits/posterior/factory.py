"""Posteriors by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

from kernelbandits.errors import ForeignFile, InvalidParameter
from kernelbandits.kernels import Kernel, Linear
from kernelbandits.kernels.wrappers import function_name
from kernelbandits.posterior.auto import AutoPosterior
from kernelbandits.posterior.base import Posterior
from kernelbandits.posterior.discounted import ForgettingPosterior, WindowedPosterior
from kernelbandits.posterior.exact import ExactPosterior
from kernelbandits.posterior.logistic import LogisticPosterior
from kernelbandits.posterior.per_label import PartitionedPosterior, is_block_diagonal
from kernelbandits.posterior.primal import PrimalPosterior
from kernelbandits.types import Parameters
from kernelbandits.validation import check_mapping, short_repr

__all__ = [
    "NamedPosterior",
    "PosteriorFactory",
    "cheapest_exact",
    "describe_posterior",
    "make_posterior",
    "posterior_factory",
    "posterior_from",
]

PosteriorFactory: TypeAlias = Callable[[Kernel, float], Posterior]


def cheapest_exact(
    kernel: Kernel, *, regularization: float, budget: int | None = None, accuracy: float | None = None
) -> Posterior:
    """One posterior per label if different labels have similarity zero, otherwise the cheapest exact form.

    With a budget or an accuracy one `AutoPosterior` for all labels, whose dictionary they share.
    """
    if budget is not None or accuracy is not None:
        return AutoPosterior(kernel, regularization=regularization, budget=budget, accuracy=accuracy)
    form = PartitionedPosterior if is_block_diagonal(kernel) else AutoPosterior
    return form(kernel, regularization=regularization)


class _Form(NamedTuple):
    make: Callable[..., Posterior]
    options: tuple[str, ...] = ()
    """Names of its required arguments."""

    may_have: tuple[str, ...] = ()
    """Names of its optional arguments."""


_FORMS: Final = {
    "auto": _Form(cheapest_exact, may_have=("budget", "accuracy")),
    "exact": _Form(ExactPosterior),
    "primal": _Form(PrimalPosterior),
    "logistic": _Form(LogisticPosterior),
    "windowed": _Form(WindowedPosterior, ("length",)),
    "forgetting": _Form(ForgettingPosterior, ("rate",)),
}

_CLASSES: Final[dict[Any, str]] = {form.make: name for name, form in _FORMS.items()}


@dataclass(frozen=True)
class NamedPosterior:
    """Function (kernel, regularization) → posterior that can describe itself.

    >>> NamedPosterior("windowed", {"length": 200}).describe()
    {'name': 'windowed', 'length': 200}
    """

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or self.name not in _FORMS:
            raise InvalidParameter(
                f"The posterior must be one of {', '.join(map(repr, _FORMS))} or a function, got "
                f"{short_repr(self.name)}."
            )
        options, optional = _FORMS[self.name].options, _FORMS[self.name].may_have
        check_mapping(
            self.options, "The options of a posterior", "posterior_factory('windowed', length=200) takes one."
        )
        if not set(options) <= set(self.options) <= {*options, *optional}:
            takes = f"needs {', '.join(options)}" if options else "takes no options"
            takes = f"takes {' or '.join(optional)}" if optional else takes
            example = ", length=200" if "length" in options else ", rate=0.99" if options else ""
            raise InvalidParameter(
                f"The posterior {self.name!r} {takes}, got {', '.join(map(str, self.options)) or 'none'}. "
                f"Write posterior_factory({self.name!r}{example})."
            )
        made = self(Linear(), 1.0)  # rejects invalid values, and converts them to plain numbers
        object.__setattr__(self, "options", {option: getattr(made, option) for option in self.options})

    def __call__(self, kernel: Kernel, regularization: float) -> Posterior:
        return _FORMS[self.name].make(kernel, regularization=regularization, **self.options)

    def describe(self) -> str | Parameters:
        """Name and options as plain values; the name alone if there are no options."""
        return {"name": self.name, **self.options} if self.options else self.name


def make_posterior(factory: PosteriorFactory, kernel: Kernel, regularization: float) -> Posterior:
    """Call a factory; raise InvalidParameter if a user-defined function returns anything but a posterior."""
    posterior = factory(kernel, regularization)
    if not isinstance(posterior, Posterior):
        raise InvalidParameter(
            f"A posterior is 'auto', 'exact', 'primal' or a function (kernel, regularization) → Posterior, and this "
            f"one returned {short_repr(posterior)}."
        )
    return posterior


def posterior_factory(name: str | PosteriorFactory, **options: float) -> PosteriorFactory:
    """Function (kernel, regularization) → posterior, by name or user-defined.

    Names: "auto" (the cheapest exact form; approximate beyond budget=… points, or with accuracy=…), "exact", "primal";
    for binary rewards "logistic"; for rewards that change with time "windowed" (length=…)
    and "forgetting" (rate=…).

    >>> from kernelbandits.kernels import Linear
    >>> posterior_factory("exact")(Linear(), 0.5).regularization
    0.5
    >>> posterior_factory("windowed", length=200)(Linear(), 0.5).length
    200
    """
    if not callable(name) or (isinstance(name, type) and not issubclass(name, Posterior)):
        return NamedPosterior(name, options)  # type: ignore[arg-type]
    if options:
        raise InvalidParameter(f"Options belong to a posterior's name, and here is a function: {', '.join(options)}.")
    if isinstance(name, type) and name in _CLASSES:
        raise InvalidParameter(f"{name.__name__} takes the regularization by name: pass {_CLASSES[name]!r} instead.")
    return name


def posterior_from(description: str | Mapping[str, Any]) -> NamedPosterior:
    """Inverse of `NamedPosterior.describe`; raises ForeignFile for anything else.

    >>> posterior_from({"name": "forgetting", "rate": 0.9}).options
    {'rate': 0.9}
    """
    values = (
        {"name": description} if isinstance(description, str) else dict(check_mapping(description, "The posteriors"))
    )
    try:
        return NamedPosterior(str(values.pop("name", "")), values)
    except InvalidParameter as error:
        raise ForeignFile(f"The file names a posterior that is not known here: {error}") from error


def describe_posterior(factory: PosteriorFactory) -> str | Parameters:
    """Description of a factory as plain values: its own, or the name of a user-defined function."""
    if hasattr(factory, "describe") and not isinstance(factory, type):
        described: str | Parameters = factory.describe()
        return described
    return {"function": function_name(factory)}
