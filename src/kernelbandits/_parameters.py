"""Parameters of a model, each declared once in the body of its class.

    class Softmax(Policy):
        policy: Policy = parameter(check_policy, kw_only=False)
        temperature: float = parameter(partial(check_positive, name="The temperature"))
        seed: Seed = parameter(SEED, default=None)

The constructor and its signature, validation, read-only attributes, `get_params`, `clone`, `describe`, `repr` and the
content of files follow from the declaration. `_setup` runs after all parameters are set, as `__post_init__` of a
dataclass does: it validates how they fit together, and builds the model.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from operator import attrgetter, methodcaller
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Final,
    Generic,
    Self,
    TypeVar,
    dataclass_transform,
    get_args,
    get_origin,
    overload,
)

import numpy as np

from kernelbandits._text import brief
from kernelbandits.errors import InvalidParameter, KernelBanditError, NotAssignable
from kernelbandits.validation import short_repr

__all__ = ["THEORY", "Parameter", "Parametrized", "ValueType", "described", "did_you_mean", "one_of", "parameter"]

Given = TypeVar("Given", contravariant=True)
Held = TypeVar("Held", covariant=True)

REQUIRED: Final = inspect.Parameter.empty
"""Default of a parameter without a default."""

THEORY: Final = "theory"
"""Value of a parameter that stands for the constant of the algorithm's theorem."""

OTHER_WORDS: Final[Mapping[str, tuple[str, ...]]] = {
    "beta_factor": ("exploration",),
    "centres": ("centers",),
    "confidence_factor": ("exploration",),
    "delta": ("failure_probability",),
    "exploration_factor": ("uniform_factor", "exploration"),
    "random_state": ("seed",),
    "regularisation": ("regularization",),
    "scale": ("exploration",),
}
"""Right words for names that other spellings, papers, libraries or earlier drafts use."""


described: Final[Callable[[Any], Any]] = methodcaller("describe")
"""Description of a value that describes itself."""


def _identity(value: Any) -> Any:
    return value


@dataclass(frozen=True, slots=True)
class ValueType:
    """How the values of a parameter are validated, described and stored."""

    check: Callable[[Any], Any]
    """Returns the value that is held, or raises InvalidParameter."""

    describe: Callable[[Any], Any] = _identity
    """Plain values that identify a held value."""

    pack: Callable[[Any], Any] | None = None
    """Content of a file from which `unpack` restores it; None: its description. May raise CannotSave."""

    unpack: Callable[[Any], Any] = _identity
    """The argument of the constructor, from the content of a file."""


class Parameter(Generic[Given, Held]):
    """Declaration of one parameter; as an annotation, the type of an argument and of the attribute built from it.

    In a class, a property that reads the held value takes its place.
    """

    __slots__ = (
        "annotation", "attribute", "default", "is_assignable", "is_described", "is_optional", "is_positional",
        "is_public", "name", "theory", "type",
    )  # fmt: skip

    def __init__(self, value_type: ValueType, default: Any, is_positional: bool, attribute: str | None) -> None:
        self.type, self.default, self.is_positional = value_type, default, is_positional
        self.is_optional = default is None
        self.attribute: str = attribute or ""
        self.is_assignable, self.is_described, self.is_public = False, True, True
        self.theory: Any = None
        self.name, self.annotation = "", REQUIRED

    def __set_name__(self, owner: type, name: str) -> None:
        self.name, self.attribute = name, self.attribute or f"_{name}"

    if TYPE_CHECKING:

        @overload
        def __get__(self, model: None, owner: type) -> Self: ...
        @overload
        def __get__(self, model: object, owner: type) -> Held: ...
        def __get__(self, model: Any, owner: type) -> Any: ...
        def __set__(self, model: object, value: Given) -> None: ...

    def checked(self, value: Any) -> Any:
        """Return the value to hold; None for a parameter that is None by default."""
        if value is None and self.is_optional:
            return None
        if self.theory is not None and isinstance(value, str):
            if value != THEORY:
                raise InvalidParameter(f"{self.name!r} is a number, or 'theory', got {short_repr(value)}.")
            return THEORY if self.theory == THEORY else self.type.check(self.theory)
        try:
            return self.type.check(value)
        except KernelBanditError:
            raise
        except (TypeError, ValueError, OverflowError) as error:  # of a check such as `float`
            raise InvalidParameter(f"The parameter {self.name!r} got {short_repr(value)}: {error}.") from error

    def described(self, value: Any) -> Any:
        """Return the description of a held value."""
        is_plain = value is None or (self.theory is not None and isinstance(value, str))
        return value if is_plain else self.type.describe(value)

    def unpacked(self, held: Mapping[str, Any]) -> Any:
        """Return the argument of the constructor from the content of a file.

        Files of earlier versions hold no value, or None, where the constant of the theorem was the only one or the
        default.
        """
        value = held.get(self.name)
        if value is None:
            return None if self.theory is None else THEORY
        return self.type.unpack(value)


def parameter(
    value_type: ValueType | Callable[[Any], Any],
    *,
    default: Any = REQUIRED,
    kw_only: bool = True,
    attribute: str | None = None,
    is_assignable: bool = False,
    is_described: bool = True,
    is_public: bool = True,
    theory: Any = None,
) -> Any:
    """Declare a parameter of a class. Returns Any, so that the annotation is the type of the attribute.

    Parameters
    ----------
    value_type
        How values are validated, described and stored; a function only validates: it returns the value to hold.
    default
        Default of the argument. If it is None, None is not validated and held as it is.
    kw_only
        Whether the argument is given by name only.
    attribute
        Name of the instance attribute that holds the value; an underscore and the name by default.
    is_assignable
        Whether the attribute may be assigned at any time.
    is_described
        Whether descriptions and files contain the value. Not for seeds, nor for what changes no result.
    is_public
        Whether the value can be read under the parameter's name. Not if the model built from it has that name.
    theory
        Constant of the algorithm's theorem, for which the value "theory" stands. If the class computes the constant,
        this is "theory" itself: the attribute then holds that word.
    """
    known = value_type if isinstance(value_type, ValueType) else ValueType(value_type)
    declared: Parameter[Any, Any] = Parameter(known, default, not kw_only, attribute)
    declared.is_assignable, declared.is_described, declared.is_public = is_assignable, is_described, is_public
    declared.theory = theory
    return declared


def one_of(*words: str, message: str) -> Callable[[Any], str]:
    """Return a check for one of these strings; `message` states the rule, and the value follows it.

    >>> one_of("auto", "exhaustive", message="The engine is 'auto' or 'exhaustive'")("fast")
    Traceback (most recent call last):
    kernelbandits.errors.InvalidParameter: The engine is 'auto' or 'exhaustive', got 'fast'.
    """

    def check(value: Any) -> str:
        if isinstance(value, str) and value in words:
            return value
        raise InvalidParameter(f"{message}, got {short_repr(value)}.")

    return check


@dataclass_transform(kw_only_default=True, field_specifiers=(parameter,))
class Parametrized:
    """Base class of models whose parameters are declared in the body of their class."""

    _own_parameters: ClassVar[Mapping[str, Parameter[Any, Any]]] = {}
    _declared: ClassVar[Mapping[str, Parameter[Any, Any]]] = {}
    _reserved: ClassVar[frozenset[str]] = frozenset()
    """Attributes of instances that no parameter may take."""

    _methods: ClassVar[frozenset[str]] = frozenset()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls._methods = frozenset(name for base in cls.__mro__ for name, value in vars(base).items() if callable(value))
        own = {name: value for name, value in vars(cls).items() if isinstance(value, Parameter)}
        for name in cls._declared.keys() & vars(cls).keys() - own.keys():
            if not isinstance(vars(cls)[name], property):
                raise TypeError(f"{cls.__name__}.{name} hides a parameter. Declare it: {name} = parameter(…).")
        with suppress(NameError):  # an annotation that cannot be evaluated yet
            for name, annotation in inspect.get_annotations(cls).items():
                if name in own:
                    own[name].annotation = _type_of_argument(annotation)
        for name, declared in own.items():
            if callable(getattr(cls, declared.attribute, None)):
                raise TypeError(
                    f"{cls.__name__} has a method {declared.attribute}: name another attribute for {name!r}."
                )
            hides_method = declared.is_public and callable(getattr(super(cls, cls), name, None))
            if declared.attribute in cls._reserved or hides_method:
                raise TypeError(f"{cls.__name__} cannot have a parameter {name!r}: its base class uses that name.")
            if declared.is_public:
                setattr(cls, name, _property(declared))
            else:
                delattr(cls, name)
        cls._own_parameters = own
        cls._declared = _in_order(cls)
        # A class with its own constructor has the signature of that.
        cls.__signature__ = None if "__init__" in vars(cls) else _signature(cls._declared.values())  # type: ignore[attr-defined]

    if not TYPE_CHECKING:  # the signature that type checkers see follows from the declarations

        def __init__(self, *arguments: Any, **options: Any) -> None:
            declared, values = self._declared, vars(self)
            if arguments:
                options = _with_positional(type(self), arguments, options)
            if not declared.keys() >= options.keys():
                raise _unknown(type(self), next(name for name in options if name not in declared))
            for name, one in declared.items():
                value = options.get(name, one.default)
                if value is REQUIRED:
                    raise InvalidParameter(f"{type(self).__name__} needs the parameter {name!r}: {name}=….")
                values[one.attribute] = one.checked(value)
            self._resolved = frozenset()
            self._set_up()

    _resolved = frozenset[str]()
    """Names of parameters that were given as None and hold what follows from the others."""

    def _setup(self) -> None:
        """Validate how the parameters fit together, and build the model. Called again by `set_params`."""

    def _set_up(self) -> None:
        """Call `_setup`, and raise TypeError if it replaced a method by an attribute of the same name."""
        self._setup()
        for name in self._methods & vars(self).keys():
            raise TypeError(f"{type(self).__name__} has a method {name}: give the attribute another name.")

    def _checked(self, changes: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values to hold for parameters given by name, or raise InvalidParameter."""
        for name in changes:
            if name not in self._declared:
                raise _unknown(type(self), name)
        return {name: self._declared[name].checked(value) for name, value in changes.items()}

    def _reset(self, values: Mapping[str, Any]) -> None:
        """Hold other values, and build the model again."""
        held = vars(self)
        for name, value in {**dict.fromkeys(self._resolved), **values}.items():
            held[self._declared[name].attribute] = value
        self._resolved = frozenset()
        self._set_up()

    def _resolve(self, **values: Any) -> None:
        """Hold these values for parameters that were given as None: what follows from the others."""
        for name, value in values.items():
            vars(self)[self._declared[name].attribute] = value
        self._resolved = self._resolved | values.keys()

    def get_params(self) -> dict[str, Any]:
        """Return the parameters by name, in a form that the constructor accepts: `type(model)(**model.get_params())`.

        A parameter that was given as None is None, even where the attribute shows the value that is used instead.
        """
        values = vars(self)
        return {
            name: None if name in self._resolved else values[declared.attribute]
            for name, declared in self._declared.items()
        }

    def clone(self, **changes: Any) -> Self:
        """Return a new model without data, with the same parameters and seed, except for the given changes.

        A generator given as the seed is copied in its current state. `copy` keeps what was learned.
        """
        unchanged = {name: _cloned(value) for name, value in self.get_params().items() if name not in changes}
        return type(self)(**unchanged, **changes)

    def _description(self) -> dict[str, Any]:
        """Return every parameter that changes results, as plain values."""
        values = vars(self)
        return {
            name: declared.described(values[declared.attribute])
            for name, declared in self._declared.items()
            if declared.is_described
        }

    def _packed_parameters(self) -> dict[str, Any]:
        """Return what a file holds of the parameters whose description is not enough, by name."""
        values = vars(self)
        return {
            name: declared.type.pack(value)
            for name, declared in self._declared.items()
            if declared.type.pack is not None and (value := values[declared.attribute]) is not None
        }

    @classmethod
    def _unpacked_parameters(cls, description: Mapping[str, Any], packed: Mapping[str, Any]) -> dict[str, Any]:
        """Return arguments of the constructor from the results of `_description` and `_packed_parameters`."""
        held = {**description, **packed}
        return {
            name: declared.unpacked(held)
            for name, declared in cls._declared.items()
            if name in held or declared.theory is not None
        }

    def __repr__(self) -> str:
        changed = [
            f"{name}={value!r}" if isinstance(value, Parametrized) else f"{name}={brief(value)}"
            for name, value in self.get_params().items()
            if not _is_default(value, self._declared[name])
        ]
        return f"{type(self).__name__}({', '.join(changed)})"


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return the right word for a wrong name, as the end of a message; all names where no word is close.

    >>> did_you_mean("regularisation", ["kernel", "regularization"])
    " Did you mean 'regularization'?"
    """
    known = sorted(names)
    lowered = {one.lower(): one for one in known}
    close = [word for word in OTHER_WORDS.get(name, ()) if word in known][:1]
    close = close or [lowered[found] for found in get_close_matches(name.lower(), lowered)]
    if close:
        return f" Did you mean {' or '.join(map(repr, close))}?"
    return f" There are: {', '.join(known) or 'none'}."


def _property(declared: Parameter[Any, Any]) -> property:
    getter = attrgetter(declared.attribute)  # compiled: reading a parameter calls no Python function

    def reject(model: Any, _value: Any) -> None:
        name = declared.name
        raise NotAssignable(
            f"{type(model).__name__}.{name} cannot be assigned. Before anything is learned: set_params({name}=…); "
            f"later: refit({name}=…), which keeps what was learned; a new policy with this value: clone({name}=…)."
        )

    def assign(model: Any, value: Any) -> None:
        if value is None:  # None is for constructors
            declared.type.check(value)
        model._assign({declared.name: declared.checked(value)})

    if not declared.is_assignable:
        return property(getter, reject)

    return property(getter, assign)


def _in_order(model: type[Parametrized]) -> dict[str, Parameter[Any, Any]]:
    """Return all parameters of a class, own before inherited ones; positional ones first, those not described last."""
    origin: dict[str, int] = {}
    nearest: dict[str, Parameter[Any, Any]] = {}
    for place, base in reversed(list(enumerate(model.__mro__))):
        for name, declared in vars(base).get("_own_parameters", {}).items():
            origin.setdefault(name, place)
            nearest[name] = declared
    places = {name: (not one.is_positional, not one.is_described, origin[name]) for name, one in nearest.items()}
    return dict(sorted(nearest.items(), key=lambda item: places[item[0]]))


def _signature(declared: Iterable[Parameter[Any, Any]]) -> inspect.Signature:
    kinds = {True: inspect.Parameter.POSITIONAL_OR_KEYWORD, False: inspect.Parameter.KEYWORD_ONLY}
    return inspect.Signature(
        [
            inspect.Parameter(one.name, kinds[one.is_positional], default=one.default, annotation=one.annotation)
            for one in declared
        ]
    )


def _type_of_argument(annotation: Any) -> Any:
    """Return the first type of Parameter[…, …], and any other annotation as it is.

    >>> _type_of_argument("Parameter[dict[str, int] | None, int]")
    'dict[str, int] | None'
    """
    if not isinstance(annotation, str):
        return get_args(annotation)[0] if get_origin(annotation) is Parameter else annotation
    if not annotation.startswith("Parameter["):
        return annotation
    inside = annotation.removeprefix("Parameter[")
    commas = (place for place, letter in enumerate(inside) if letter == ",")
    return next(inside[:place] for place in commas if inside[:place].count("[") == inside[:place].count("]"))


def _with_positional(
    model: type[Parametrized], arguments: tuple[Any, ...], options: Mapping[str, Any]
) -> dict[str, Any]:
    names = [name for name, one in model._declared.items() if one.is_positional]
    if len(arguments) > len(names):
        rule = f"takes {' and '.join(map(repr, names))} by position" if names else "takes parameters by name only"
        raise InvalidParameter(f"{model.__name__} {rule}, got {len(arguments)} positional arguments. Name the others.")
    given = dict(zip(names, arguments, strict=False))
    for name in given:
        if name in options:
            raise InvalidParameter(f"{model.__name__} got the parameter {name!r} twice: by position and by name.")
    return {**given, **options}


def _unknown(model: type[Parametrized], name: str) -> InvalidParameter:
    hint = did_you_mean(name, model._declared)
    return InvalidParameter(f"{model.__name__} has no parameter {name!r}.{hint}")


def _cloned(value: Any) -> Any:
    if isinstance(value, Parametrized):
        return value.clone()
    return copy.deepcopy(value) if isinstance(value, np.random.Generator | np.random.BitGenerator) else value


def _is_default(value: Any, declared: Parameter[Any, Any]) -> bool:
    if declared.default is REQUIRED:
        return False
    if value is None or declared.default is None:
        return value is declared.default
    return bool(np.all(declared.described(value) == declared.described(declared.checked(declared.default))))
