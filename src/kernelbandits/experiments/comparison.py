"""Several policies in the same worlds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from kernelbandits.environments.base import Environment
from kernelbandits.errors import InvalidParameter
from kernelbandits.evaluation import Trace, simulate
from kernelbandits.evaluation._inputs import an_environment
from kernelbandits.policies.base import Policy
from kernelbandits.types import Parameters
from kernelbandits.validation import (
    MOST_ROUNDS,
    MOST_RUNS,
    check_callable,
    check_int,
    check_mapping,
    length_of,
    short_repr,
)

__all__ = ["Comparison"]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Every policy plays every seed; under one seed all of them meet the same contexts and the same luck."""

    environment: Environment
    policies: Mapping[str, Callable[[int], Policy]]
    """A name, and what makes a fresh policy for a seed."""

    horizon: int
    seeds: Sequence[int]

    def __post_init__(self) -> None:
        check_int(self.horizon, "The horizon", most=MOST_ROUNDS)
        an_environment(self.environment)
        policies = check_mapping(self.policies, "The policies", "{'KernelUCB': make}, where make(seed) does.")
        for name, make in policies.items():
            check_callable(make, f"What makes the policy {name!r}", "lambda seed: KernelUCB(kernel) is one.")
        if not isinstance(self.seeds, Sequence) or isinstance(self.seeds, str):
            raise InvalidParameter(f"The seeds are a list of whole numbers, got {self.seeds!r:.80}.")
        if length_of(self.seeds) > MOST_RUNS:
            raise InvalidParameter(f"A comparison has at most {MOST_RUNS:,} seeds, got {short_repr(self.seeds)}.")
        if not self.policies or not self.seeds:
            raise InvalidParameter("A comparison needs at least one policy and one seed.")

    def run(self, progress: Callable[[], None] | None = None) -> dict[str, tuple[Trace, ...]]:
        """Traces of each policy, one a seed; `progress` is called after every round."""
        traces: dict[str, list[Trace]] = {name: [] for name in self.policies}
        for seed in self.seeds:  # outermost, so that what is left to do looks like what was done
            for name, make in self.policies.items():
                told = None if progress is None else lambda _: progress()
                traces[name].append(
                    simulate(
                        self.environment,
                        make(seed),
                        horizon=self.horizon,
                        seed=seed,
                        progress=told,
                        keep_contexts=True,
                    )
                )
        return {name: tuple(runs) for name, runs in traces.items()}

    def describe(self) -> dict[str, Parameters]:
        """Parameters of the environment and of each policy, as plain values, by name."""
        described = {name: make(self.seeds[0]).describe() for name, make in self.policies.items()}
        return {"Environment": self.environment.describe(), **described}

    @property
    def n_rounds(self) -> int:
        """Rounds of all runs together."""
        return len(self.policies) * len(self.seeds) * self.horizon
