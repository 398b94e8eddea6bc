"""A job: one policy in one environment under one seed, known by a digest of what is run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kernelbandits import __version__
from kernelbandits.environments.base import Environment
from kernelbandits.errors import InvalidParameter
from kernelbandits.experiments.studies.contender import Entrant
from kernelbandits.experiments.studies.grid import plain_value
from kernelbandits.policies.base import Policy
from kernelbandits.posterior import Posterior
from kernelbandits.types import Parameters

__all__ = ["FORMAT", "Job", "canonical", "planned_jobs"]

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
    posterior = getattr(policy, "posterior", None)
    forgets = isinstance(posterior, Posterior) and posterior.capabilities.forgets
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
