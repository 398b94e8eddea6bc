"""A study: what is played, as a value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any, Final

from kernelbandits.environments.base import Environment
from kernelbandits.errors import InvalidParameter
from kernelbandits.experiments.studies.contender import Contender, Entrant, MakePolicy, entrants_of
from kernelbandits.experiments.studies.grid import plain_value
from kernelbandits.experiments.studies.jobs import Job, planned_jobs
from kernelbandits.experiments.studies.loaders import LOADERS, Loader
from kernelbandits.types import Parameters
from kernelbandits.validation import (
    MOST_ROUNDS,
    MOST_RUNS,
    check_has_methods,
    check_int,
    check_mapping,
    check_path,
    length_of,
    short_repr,
)

__all__ = ["Study", "checked_seeds"]

LARGEST_SEED: Final = 2**63 - 1
"""What a column of results can hold."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Study:
    """Policies × environments × seeds: a frozen description, and what `run` plays.

    Under one seed all policies meet the same contexts and the same luck. Results depend on the study and its seeds
    only: not on how many processes play it, nor on how often it was interrupted.

    Parameters
    ----------
    name
        What the study is called.
    environments
        Worlds by name.
    policies
        Recipes by name: a `Contender`, or a function that makes a policy with a random generator.
    horizon
        Rounds of each run, at most.
    seeds
        One run each; different whole numbers from 0, or how many of them.
    every
        Results keep every so many rounds, and the last one; sums are over all rounds.

    Examples
    --------
    >>> import kernelbandits as kb
    >>> kernel = kb.kernels.Gaussian(length_scale=0.3)
    >>> study = Study(
    ...     name="first",
    ...     environments={"smooth": kb.environments.SyntheticRKHS(kernel, n_actions=5, n_features=2)},
    ...     policies={"KernelUCB": Contender(kb.KernelUCB, kernel, exploration=0.1)},
    ...     horizon=20,
    ...     seeds=2,
    ... )
    >>> len(study.jobs), study.seeds
    (2, (0, 1))
    """

    name: str
    environments: Mapping[str, Environment]
    policies: Mapping[str, Contender | MakePolicy]
    horizon: int
    seeds: Sequence[int]
    every: int = 1
    entrants: tuple[Entrant, ...] = field(init=False, repr=False)
    """The policies with every combination of grid values."""

    def __post_init__(self) -> None:
        if not _is_name(self.name):
            raise InvalidParameter(f"A study needs a name, a text of one line, got {self.name!r:.80}.")
        for kind in ("environments", "policies"):
            if not isinstance(getattr(self, kind), Mapping) or not getattr(self, kind):
                raise InvalidParameter(f"A study needs {kind} by name, at least one, got {getattr(self, kind)!r:.80}.")
            for name in getattr(self, kind):
                if not _is_name(name):
                    raise InvalidParameter(f"A name in {kind} has to be a text of one line, got {name!r:.80}.")
        for name, environment in self.environments.items():
            hint = "Clustered(n_actions=3) is an environment."
            check_has_methods(environment, f"environments.{name}", "start", "describe", hint=hint)
        set_field = object.__setattr__
        set_field(self, "horizon", check_int(self.horizon, "The horizon", most=MOST_ROUNDS))
        hint = f"{self.horizon}, the horizon, keeps the last round alone."
        set_field(self, "every", check_int(self.every, "The number of rounds a row", most=MOST_ROUNDS, hint=hint))
        set_field(self, "seeds", checked_seeds(self.seeds))
        set_field(self, "entrants", entrants_of(self.policies))
        n_jobs = len(self.seeds) * len(self.environments) * len(self.entrants)
        if n_jobs > MOST_RUNS:
            raise InvalidParameter(
                f"A study has at most {MOST_RUNS:,} jobs, one a policy, environment and seed, got {n_jobs:,}. Take "
                "fewer seeds, or several studies."
            )

    @classmethod
    def from_toml(cls, path: str | PathLike[str], *, loaders: Mapping[str, Loader] | None = None) -> Study:
        """The same from a file of plain values that mirror `describe()`.

        Parameters
        ----------
        path
            A TOML file with `name`, `horizon`, `seeds`, `every`, and a table for each environment and policy.
        loaders
            Functions (path, options) → environment by name, for tables with `load`, besides those known already.

        Notes
        -----
        A table names its `class` and gives its arguments; kernels, schedules, policies and environments inside are
        tables again. `grid` in a policy's table lists values to try by dotted name. `load` and `path` in an
        environment's table ask for data; `${VARIABLES}` in the path are filled in, and a relative one starts from the
        file's folder. `corpus = { items_of = "feeds" }` gives a kernel the items of an environment.
        """
        from kernelbandits.experiments.studies.study_file import read_study

        values = read_study(
            Path(check_path(path)), {**LOADERS, **check_mapping({} if loaders is None else loaders, "Loaders")}
        )
        try:
            study = cls(**values)
            _ = study.jobs  # makes every policy once, so that a mistake is found before anything is played
        except InvalidParameter as error:
            raise InvalidParameter(f"{path}: {error}") from error
        return study

    @cached_property
    def jobs(self) -> tuple[Job, ...]:
        """Everything to be played, seed by seed: what is left to do looks like what was done."""
        return planned_jobs(
            environments=self.environments,
            entrants=self.entrants,
            horizon=self.horizon,
            seeds=self.seeds,
            every=self.every,
        )

    def describe(self) -> Parameters:
        """The whole study as plain values."""
        made = {entrant.label: entrant.fresh(self.seeds[0]).describe() for entrant in self.entrants}
        return {
            "name": self.name,
            "horizon": self.horizon,
            "seeds": list(self.seeds),
            "every": self.every,
            "environments": {name: plain_value(world) for name, world in self.environments.items()},
            "policies": {
                entrant.label: {
                    "contender": entrant.contender,
                    "parameters": entrant.parameters,
                    "learn_rounds": entrant.learn_rounds,
                    "policy": plain_value(made[entrant.label]),
                }
                for entrant in self.entrants
            },
        }


def _is_name(name: Any) -> bool:
    """Whether it can stand in tables, captions and figures: one line of something to read."""
    return isinstance(name, str) and bool(name.strip()) and name.splitlines() == [name] and "\0" not in name


def checked_seeds(seeds: Any) -> tuple[int, ...]:
    """Different whole numbers from 0; a single number says how many."""
    if isinstance(seeds, int) and not isinstance(seeds, bool):
        return tuple(range(check_int(seeds, "The number of seeds", most=MOST_RUNS)))
    if isinstance(seeds, str) or not isinstance(seeds, Sequence):
        raise InvalidParameter(f"Seeds are whole numbers from 0, or how many of them, got {seeds!r}.")
    if length_of(seeds) > MOST_RUNS:
        raise InvalidParameter(f"A study has at most {MOST_RUNS:,} seeds, got {short_repr(seeds)}.")
    numbers = tuple(check_int(seed, "A seed", least=0, most=LARGEST_SEED) for seed in seeds)
    if not numbers or len(set(numbers)) < len(numbers):
        raise InvalidParameter(f"A study needs at least one seed, and each only once, got {list(numbers)}.")
    return numbers
