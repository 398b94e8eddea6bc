"""Studies: policies × environments × seeds as a frozen value, and the jobs it consists of.

A job is one policy in one environment with one seed. Its id is a digest of everything that determines its result.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from kernelbandits import __version__
from kernelbandits._text import repr_of_fields
from kernelbandits.environments.base import Environment
from kernelbandits.errors import InvalidParameter
from kernelbandits.experiments.own_files import OwnClass, OwnFile, collect_names
from kernelbandits.experiments.policy_spec import (
    MakePolicy,
    PolicySpec,
    PolicyVariant,
    RunInfo,
    all_variants,
    known_classes,
    needs_run,
    plain_value,
)
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

if TYPE_CHECKING:
    from kernelbandits.experiments.study_file import Loader

__all__ = ["FORMAT", "Job", "Study", "canonical", "check_seeds"]

FORMAT: Final = 3
"""Version of the format of result folders; part of every id, so that no study mixes two."""

ANONYMOUS: Final = ("<lambda>", "<locals>", "partial of ")
"""Marks of functions whose names are not unique: lambdas, nested functions, partial functions."""

LARGEST_SEED: Final = 2**63 - 1
"""Largest value of a column of whole numbers."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Job:
    """Description of one run in plain values: one policy in one environment with one seed."""

    id: str
    """First 32 hexadecimal digits of SHA-256 over what is run: the same job has the same id in any study."""

    environment: str
    policy: str
    """Name of the environment and label of the policy in the study."""

    spec_name: str
    """Name of the policy without grid values."""

    parameters: Parameters
    """Grid values, by dotted name."""

    seed: int
    horizon: int
    every: int
    learn_rounds: int | None
    described: Parameters
    """Complete descriptions of environment and policy, defaults included, and digests of a user's files they use."""

    claims: Parameters | None
    """Assumptions and failure probability of the policy's exploration schedule; None if nothing is proved."""

    def metadata(self) -> Parameters:
        """Description that the job's file holds."""
        return {"format": FORMAT, **vars(self)}

    def __str__(self) -> str:
        return f"{self.policy!r} in {self.environment!r} with seed {self.seed}"


@dataclass(frozen=True, kw_only=True, eq=False)
class Study:
    """Policies × environments × seeds: the frozen description of what `run` runs.

    Under one seed all policies have the same contexts and the same noise. Results depend on the study and its seeds
    only: not on the number of processes, nor on interruptions.

    Parameters
    ----------
    name
        Name of the study.
    environments
        Environments by name.
    policies
        Policies by name: a `PolicySpec`, or a function that builds a policy from a random generator, or
        from the `RunInfo` of its run if its parameter is named `run`.
    horizon
        Largest number of rounds of each run.
    seeds
        One run each; different whole numbers from 0, or their number.
    every
        Results store every `every`-th round, and the last one; sums are over all rounds.
    sources
        Files of a user whose classes the study uses, by "environments.NAME" or "policies.NAME"; `from_toml` fills it.

    Examples
    --------
    >>> import kernelbandits as kb
    >>> kernel = kb.kernels.Gaussian(length_scale=0.3)
    >>> study = Study(
    ...     name="first",
    ...     environments={"smooth": kb.environments.SyntheticRKHS(kernel, n_actions=5, n_features=2)},
    ...     policies={"KernelUCB": PolicySpec(kb.KernelUCB, kernel, exploration=0.1)},
    ...     horizon=20,
    ...     seeds=2,
    ... )
    >>> len(study.jobs), study.seeds
    (2, (0, 1))
    """

    __repr__ = repr_of_fields

    name: str
    environments: Mapping[str, Environment]
    policies: Mapping[str, PolicySpec | MakePolicy]
    horizon: int
    seeds: Sequence[int]
    every: int = 1
    sources: Mapping[str, tuple[OwnFile, ...]] = field(default_factory=dict)
    toml: bytes | None = field(default=None, init=False, repr=False)
    """The file that `from_toml` read; None for a study from Python, also for a changed copy of one from a file."""

    variants: tuple[PolicyVariant, ...] = field(init=False, repr=False)
    """The policies with every combination of grid values."""

    def __post_init__(self) -> None:
        if not _is_name(self.name):
            raise InvalidParameter(f"A study needs a name, a text of one line, got {self.name!r:.80}.")
        for kind in ("environments", "policies"):
            if not isinstance(getattr(self, kind), Mapping) or not getattr(self, kind):
                raise InvalidParameter(f"A study needs {kind} by name, at least one, got {getattr(self, kind)!r:.80}.")
            for name in getattr(self, kind):
                if not _is_name(name):
                    raise InvalidParameter(f"A name in {kind} must be a text of one line, got {name!r:.80}.")
        for name, environment in self.environments.items():
            hint = "Clustered(n_actions=3) is an environment."
            check_has_methods(environment, f"environments.{name}", "start", "describe", hint=hint)
        set_field = object.__setattr__
        set_field(self, "horizon", check_int(self.horizon, "The horizon", most=MOST_ROUNDS))
        hint = f"{self.horizon}, the horizon, stores the last round alone."
        set_field(self, "every", check_int(self.every, "The number of rounds per row", most=MOST_ROUNDS, hint=hint))
        set_field(self, "seeds", check_seeds(self.seeds))
        set_field(self, "variants", all_variants(self.policies))
        n_jobs = len(self.seeds) * len(self.environments) * len(self.variants)
        if n_jobs > MOST_RUNS:
            raise InvalidParameter(
                f"A study has at most {MOST_RUNS:,} jobs, one per policy, environment and seed, got {n_jobs:,}. Take "
                "fewer seeds, or several studies."
            )

    @classmethod
    def from_toml(
        cls,
        path: str | PathLike[str],
        *,
        loaders: Mapping[str, Loader] | None = None,
        classes: Sequence[OwnClass | str | PathLike[str]] = (),
    ) -> Study:
        """Read a study from a file of plain values that mirror `describe()`.

        Parameters
        ----------
        path
            TOML file with `name`, `horizon`, `seeds`, `every`, and a table for each environment and policy.
        loaders
            Functions (path, options) → environment by name, for tables with `load`, in addition to the built-in ones.
        classes
            Classes and functions of your own that the file may name, and paths of Python files that define them. A file
            given here is run, also in other processes; its digest is part of the ids of the jobs that use it. A class
            given itself is identified by its description alone, as in a study from Python.

        Notes
        -----
        A table names its `class` and gives its arguments; kernels, schedules, policies and environments inside are
        tables again. `grid` in a policy's table lists values to try by dotted name. `load` and `path` in an
        environment's table read data; `${VARIABLES}` in the path are expanded, and a relative path starts from the
        file's folder. `corpus = { items_of = "feeds" }` gives a kernel the items of an environment. `class` can name a
        function of your own that builds a policy, a kernel or an environment; `kernel = { function = "name" }` is the
        function itself.
        """
        from kernelbandits.experiments.study_file import LOADERS, read_study

        known = {**LOADERS, **check_mapping({} if loaders is None else loaders, "Loaders")}
        own = collect_names(classes, taken=known_classes())
        values, content = read_study(Path(check_path(path)), known, own)
        try:
            study = cls(**values)
            object.__setattr__(study, "toml", content)
            _ = study.jobs  # builds every policy once, so that an error is found before anything runs
        except InvalidParameter as error:
            raise InvalidParameter(f"{path}: {error}") from error
        return study

    @property
    def files(self) -> dict[str, OwnFile]:
        """Files of a user that the study uses, by name."""
        return {file.name: file for files in self.sources.values() for file in files}

    def __getstate__(self) -> dict[str, Any]:
        """State of a pickle, files first: unpickling them runs them, which what follows needs."""
        return {"sources": self.sources, **vars(self)}

    @cached_property
    def _described(self) -> tuple[Parameters, dict[str, list[_DescribedPolicy]]]:
        """Descriptions of the environments by name, and in each of them of every variant with its claims.

        A policy that is built for the actions of a run is described as for the first seed; environment and seed, which
        determine the actions, are part of a job's id.
        """
        environments = {name: plain_value(environment) for name, environment in self.environments.items()}
        built: dict[str, _DescribedPolicy] = {}
        policies: dict[str, list[_DescribedPolicy]] = {}
        for name, environment in self.environments.items():
            run = RunInfo(environment, self.horizon, self.seeds[0])
            for variant in self.variants:
                if variant.label not in built or needs_run(variant.make):
                    policy = variant.build(run.seed, run)
                    built[variant.label] = (variant, plain_value(policy.describe()), _claims(policy))
            policies[name] = [built[variant.label] for variant in self.variants]
        return environments, policies

    @cached_property
    def jobs(self) -> tuple[Job, ...]:
        """Every policy in every environment with every seed, seed by seed; the rest of a run is like its beginning.

        InvalidParameter if two environments or policies cannot be distinguished by their descriptions.
        """
        environments, policies = self._described
        for descriptions in (
            {f"environments.{name}": described for name, described in environments.items()},
            *(
                {f"policies.{variant.label}": [described, variant.learn_rounds] for variant, described, _ in group}
                for group in policies.values()
            ),
        ):
            _check_function_names(descriptions)
            _check_distinct(descriptions)
        return tuple(
            self._job(name, environment, variant, policy, claims, seed)
            for seed in self.seeds
            for name, environment in environments.items()
            for variant, policy, claims in policies[name]
        )

    def _job(
        self,
        name: str,
        environment: Parameters,
        variant: PolicyVariant,
        policy: Parameters,
        claims: Parameters | None,
        seed: int,
    ) -> Job:
        settings: dict[str, Any] = {
            "seed": seed,
            "horizon": self.horizon,
            "every": self.every,
            "learn_rounds": variant.learn_rounds,
        }
        content = {
            **settings,
            "environment": environment,
            "policy": policy,
            "version": __version__,
            "format": FORMAT,
        }
        described = {"environment": environment, "policy": policy}
        places = (f"environments.{name}", f"policies.{variant.spec_name}")
        if sources := {file.name: file.digest for place in places for file in self.sources.get(place, ())}:
            content["sources"] = described["sources"] = sources
        return Job(
            id=hashlib.sha256(canonical(content).encode()).hexdigest()[:32],
            environment=name,
            policy=variant.label,
            spec_name=variant.spec_name,
            parameters=variant.parameters,
            described=described,
            claims=claims,
            **settings,
        )

    def describe(self) -> Parameters:
        """The whole study as plain values, with every parameter."""
        environments, policies = self._described
        return {
            "name": self.name,
            "horizon": self.horizon,
            "seeds": list(self.seeds),
            "every": self.every,
            "environments": environments,
            "policies": {
                variant.label: {
                    "spec_name": variant.spec_name,
                    "parameters": variant.parameters,
                    "learn_rounds": variant.learn_rounds,
                    "policy": policy,
                }
                for variant, policy, _ in next(iter(policies.values()))
            },
        }


def canonical(value: Any) -> str:
    """JSON that is equal for equal values, in any order of their entries."""
    return json.dumps(plain_value(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def check_seeds(seeds: Any) -> tuple[int, ...]:
    """Return different whole numbers from 0; a single number is how many."""
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


_DescribedPolicy: TypeAlias = tuple[PolicyVariant, Parameters, Parameters | None]
"""A variant, its description and its claims."""


def _is_name(name: Any) -> bool:
    """Whether a name can stand in tables, captions and figures: one line with visible text."""
    return isinstance(name, str) and bool(name.strip()) and name.splitlines() == [name] and "\0" not in name


def _claims(policy: Policy) -> Parameters | None:
    """Guarantee of the policy's exploration schedule; None if it is tuned or the model voids it."""
    schedule = getattr(policy, "exploration", None)
    if schedule is None or bool(getattr(policy, "unproved", "")) or getattr(schedule, "is_tuned", True):
        return None
    return {"assumes": schedule.assumes, "failure_probability": getattr(schedule, "failure_probability", None)}


def _check_function_names(descriptions: Mapping[str, Any]) -> None:
    """A function is described by its name, so the name must be unique."""
    for place, description in descriptions.items():
        for text in _texts(description):
            if any(mark in text for mark in ANONYMOUS):
                raise InvalidParameter(
                    f"{place} is described by the function {text!r}, whose name is not unique: results of two such "
                    "functions could not be distinguished. Define it with `def` at the top of a module."
                )


def _texts(value: Any) -> Iterator[str]:
    """All texts in plain values."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list):
        for part in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(part)


def _check_distinct(descriptions: Mapping[str, Any]) -> None:
    """Results are found by their descriptions, so equal descriptions would share one file."""
    seen: dict[str, str] = {}
    for name, description in descriptions.items():
        other = seen.setdefault(canonical(description), name)
        if other != name:
            raise InvalidParameter(
                f"{other} and {name} have equal descriptions, so their results could not be distinguished. Leave one "
                "out, or let describe() return what differs."
            )
