"""Studies and jobs: what is run, as values with ids."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any, Final

from kernelbandits import __version__
from kernelbandits.environments.base import Environment
from kernelbandits.errors import InvalidParameter
from kernelbandits.experiments.policy_spec import Contender, Entrant, MakePolicy, entrants_of, plain_value
from kernelbandits.experiments.study_file import LOADERS, Loader
from kernelbandits.policies.base import Policy
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

__all__ = ["FORMAT", "Job", "Study", "canonical", "checked_seeds", "planned_jobs"]

FORMAT: Final = 2
"""Of the files of results; a part of every id, so that no study mixes two. 2 knows effective dimensions in catalog
worlds and beyond 2,000 distinct points."""

NAMELESS: Final = ("<lambda>", "<locals>", "partial of ")
"""Marks of functions that share their names with others: lambdas, those made inside others, those with arguments filled
in."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Job:
    """Says all about one run but how to make its policy; plain values throughout."""

    id: str
    """First 32 hexadecimal digits of SHA-256 over what is run: the same job has the same id in any study."""

    environment: str
    policy: str
    """Name of the environment and label of the policy in the study."""

    contender: str
    parameters: Parameters
    seed: int
    horizon: int
    every: int
    learn_rounds: int | None
    described: Parameters
    """What environment and policy say of themselves."""

    claims: Parameters | None
    """What the policy's exploration schedule is proved under, and its failure probability; None where none is."""

    def metadata(self) -> Parameters:
        """What the job's file says of it."""
        return {"format": FORMAT, **vars(self)}

    def __str__(self) -> str:
        return f"{self.policy!r} in {self.environment!r} with seed {self.seed}"


def planned_jobs(
    *,
    environments: Mapping[str, Environment],
    entrants: Sequence[Entrant],
    horizon: int,
    seeds: Sequence[int],
    every: int,
) -> tuple[Job, ...]:
    """Every policy in every environment under every seed; InvalidParameter where two could not be told apart."""
    worlds = {name: plain_value(environment) for name, environment in environments.items()}
    players = [(entrant, entrant.fresh(seeds[0])) for entrant in entrants]
    described = [(entrant, plain_value(policy), _claims(policy)) for entrant, policy in players]
    for said in (
        {f"environments.{name}": world for name, world in worlds.items()},
        {f"policies.{entrant.label}": [policy, entrant.learn_rounds] for entrant, policy, _ in described},
    ):
        _refuse_nameless(said)
        _refuse_twins(said)
    return tuple(
        Job(
            id=_digest(world, policy, horizon, seed, every, entrant.learn_rounds),
            environment=name,
            policy=entrant.label,
            contender=entrant.contender,
            parameters=entrant.parameters,
            seed=seed,
            horizon=horizon,
            every=every,
            learn_rounds=entrant.learn_rounds,
            described={"environment": world, "policy": policy},
            claims=claims,
        )
        for seed in seeds
        for name, world in worlds.items()
        for entrant, policy, claims in described
    )


def canonical(value: Any) -> str:
    """JSON that is the same for the same values, whatever order they were given in."""
    return json.dumps(plain_value(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _digest(
    environment: Parameters, policy: Parameters, horizon: int, seed: int, every: int, learn_rounds: int | None
) -> str:
    run = {
        "environment": environment,
        "policy": policy,
        "horizon": horizon,
        "seed": seed,
        "every": every,
        "learn_rounds": learn_rounds,
        "version": __version__,
        "format": FORMAT,
    }
    return hashlib.sha256(canonical(run).encode()).hexdigest()[:32]


def _claims(policy: Policy) -> Parameters | None:
    """What is proved of the policy's exploration schedule, unless it is tuned or the posterior forgets."""
    schedule = getattr(policy, "exploration", None)
    forgets = getattr(getattr(policy, "posterior", None), "forgets", False)
    if schedule is None or forgets or getattr(schedule, "is_tuned", True):
        return None
    return {"assumes": schedule.assumes, "failure_probability": getattr(schedule, "failure_probability", None)}


def _refuse_nameless(described: Mapping[str, Any]) -> None:
    """A function is known by its name, so one without a name of its own could be taken for another."""
    for place, description in described.items():
        for text in _texts(description):
            if any(mark in text for mark in NAMELESS):
                raise InvalidParameter(
                    f"{place} is described by the function {text!r}, and others may be called so too: their results "
                    "could not be told apart. Define it with `def` at the top of a module, under a name of its own."
                )


def _texts(value: Any) -> Iterator[str]:
    """All texts in plain values."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list):
        for part in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(part)


def _refuse_twins(described: Mapping[str, Any]) -> None:
    """Results are found by what describes them, so equal descriptions would share one file."""
    seen: dict[str, str] = {}
    for name, description in described.items():
        twin = seen.setdefault(canonical(description), name)
        if twin != name:
            raise InvalidParameter(
                f"{twin} and {name} are described alike, so that their results could not be told apart. Leave one out, "
                "or let describe() say what differs."
            )


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
        from kernelbandits.experiments.study_file import read_study

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
