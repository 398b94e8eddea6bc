"""Calls with odd values, one or two at a time, and what each leads to."""

from __future__ import annotations

import inspect
import resource
import signal
import traceback
import warnings
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from dataclasses import dataclass
from functools import cache

import numpy as np

from fuzz.baselines import TARGETS, callable_of, folder
from fuzz.odd_values import FUNCTIONS, LARGE_COUNTS, ODD
from kernelbandits.errors import KernelBanditError, KernelBanditWarning

__all__ = ["RawError", "argument_calls", "limits", "outcome", "raw_error"]

MOST_MEMORY = 8 << 30
"""Bytes of address space, beyond what the process has already, that a call may ask for."""

MOST_SECONDS = 600
"""For one call; only a call that never ends takes as long, also on a machine that does other work."""


TAKE_FUNCTIONS = ("kernel", "kernels", "context_kernel", "action_kernel", "candidates", "posterior")
"""Parameters that take functions of the user wherever they occur."""


@dataclass(frozen=True)
class RawError:
    """A call that ended in an exception which is not of this library."""

    call: str
    error: str
    where: str

    def __str__(self) -> str:
        return f"{self.call}\n    {self.where}\n    {self.error}"


@contextmanager
def limits() -> Iterator[None]:
    """Bound what a call can ask of the machine: memory, time, and warnings as errors, except our own."""

    def too_long(_signal, _frame):
        raise TimeoutError(f"the call took more than {MOST_SECONDS} s")

    with open("/proc/self/statm", encoding="ascii") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    before = signal.signal(signal.SIGALRM, too_long)
    resource.setrlimit(resource.RLIMIT_AS, (used + MOST_MEMORY, hard))
    try:
        with warnings.catch_warnings(), np.errstate():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", KernelBanditWarning)
            yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        signal.signal(signal.SIGALRM, before)


def raw_error(call: str, step) -> RawError | None:
    """Run a step; the exception it ends in, unless it is one of this library. Odd values may be names of files."""
    signal.alarm(MOST_SECONDS)
    try:
        with chdir(folder()):
            step()
    except (KernelBanditError, OSError):  # what the system has against a file is its own error
        return None
    except Exception as error:
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/kernelbandits/" in frame.filename]
        last = frames[-1] if frames else None
        where = "outside the library" if last is None else f"{last.filename.split('/kernelbandits/')[-1]}:{last.lineno}"
        first = frames[0].name if frames else "?"
        place = f"{where} {last.name if last else ''} via {first}"
        return RawError(call, f"{type(error).__name__}: {error!s:.160}", place)
    finally:
        signal.alarm(0)
    return None


@cache
def parameters_of(name: str) -> list[str]:
    """Names of all parameters that can be given by name."""
    signature = inspect.signature(callable_of(name))
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return [parameter.name for parameter in signature.parameters.values() if parameter.kind in kinds]


def every_pair() -> list[tuple[str, str, str]]:
    """All (target, parameter, odd value)."""
    return [
        (name, parameter, odd)
        for name, target in TARGETS.items()
        for parameter in parameters_of(name)
        for odd in ODD
        if not (parameter in (*target.functions, *TAKE_FUNCTIONS) and raises_when_called(odd))
        if not (parameter in target.rounds and odd in LARGE_COUNTS)
    ]


@cache
def raises_when_called(odd: str) -> bool:
    """Whether a value can be called and raises: as a function of the user it would be the user's error."""
    return odd not in FUNCTIONS and callable(ODD[odd]())


def argument_calls(n_single: int | None, n_double: int, seed: int) -> Iterator[tuple[str, dict[str, str]]]:
    """Calls as (target, odd value of some parameters): `n_single` of all with one (None: all), then some with two."""
    rng = np.random.default_rng(seed)
    pairs = every_pair()
    order = rng.permutation(len(pairs)) if n_single is not None else np.arange(len(pairs))
    for place in order[:n_single]:
        name, parameter, odd = pairs[place]
        yield name, {parameter: odd}
    while n_double > 0:
        name, parameter, odd = pairs[rng.integers(len(pairs))]
        _, second, value = pairs[rng.integers(len(pairs))]
        if (
            second in parameters_of(name)
            and second != parameter
            and second not in (*TARGETS[name].functions, *TAKE_FUNCTIONS)
            and not (second in TARGETS[name].rounds and value in LARGE_COUNTS)
        ):
            yield name, {parameter: odd, second: value}
            n_double -= 1


def outcome(name: str, odd: dict[str, str]) -> RawError | None:
    """Call the target with these odd values, and use what it gives."""
    target = TARGETS[name]
    arguments = {**target.arguments(), **{parameter: ODD[value]() for parameter, value in odd.items()}}
    made = []
    shown = ", ".join(f"{parameter}={value}" for parameter, value in odd.items())
    failed = raw_error(f"{name}({shown})", lambda: made.append(callable_of(name)(**arguments)))
    if failed or not made:
        return failed
    return raw_error(f"use of {name}({shown})", lambda: target.use(made[0]))


def change_outcomes(name: str, odd: dict[str, str]) -> list[RawError]:
    """Set these odd values in a new policy, and in a clone of one; use both. A rejected change changes nothing."""
    target = TARGETS[name]
    shown = ", ".join(f"{parameter}={value}" for parameter, value in odd.items())
    policy = callable_of(name)(**target.arguments())
    before = policy.describe(), policy.get_params()

    def cloned() -> None:
        target.use(policy.clone(**{parameter: ODD[value]() for parameter, value in odd.items()}))

    def changed() -> None:
        try:
            policy.set_params(**{parameter: ODD[value]() for parameter, value in odd.items()})
        except KernelBanditError:
            assert policy.describe() == before[0], "a rejected change has changed the parameters"
            assert all(policy.get_params()[parameter] is value for parameter, value in before[1].items())
        target.use(policy)

    found = [raw_error(f"{name}.clone({shown})", cloned), raw_error(f"{name}.set_params({shown})", changed)]
    return [error for error in found if error is not None]
