"""The loop, driven by a simulated world."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kernelbandits.checks import a_count, a_function, a_seed
from kernelbandits.environments.base import Environment, World
from kernelbandits.evaluation.arguments import a_policy, an_environment
from kernelbandits.evaluation.driver import Driver
from kernelbandits.evaluation.trace import Trace
from kernelbandits.policies.base import Policy
from kernelbandits.types import Parameters, Seed

__all__ = ["simulate", "start_world"]


def simulate(
    environment: Environment,
    policy: Policy,
    *,
    horizon: int,
    seed: Seed = None,
    progress: Callable[[int], None] | None = None,
    learn_rounds: int | None = None,
) -> Trace:
    """Let a policy choose and learn, round after round, in a fresh run of a world.

    Parameters
    ----------
    environment
        The world's description; a run of it is started.
    policy
        Goes on learning from where it is: give a fresh one for a fresh start.
    horizon
        Most rounds to play; the trace is shorter when the world ends before.
    seed
        Of the world alone (a policy has a seed of its own). The same seed shows the same contexts and the same luck
        to any policy. None draws one, and `trace.spec["seed"]` tells it.
    progress
        Called with the number of finished rounds after each.
    learn_rounds
        Learn from the first so many rounds only, and just choose in all others; None learns from all.

    Notes
    -----
    A world that pays nan says that this reward is not known: the round is recorded and nothing is learnt from it. A
    world with a method `delay` says in how many rounds the reward of the round last shown will be told. A reward of
    round t with delay d > 0 is learnt at the start of round t + d, before that round's choice, in order of arrival;
    until then the policy is told to `expect` it. What is not due when the run ends stays pending in the policy.

    Examples
    --------
    >>> import kernelbandits as kb
    >>> kernel = kb.kernels.Gaussian(length_scale=0.3)
    >>> world = kb.environments.SyntheticRKHS(kernel, n_actions=5, n_features=2)
    >>> trace = kb.simulate(world, kb.KernelUCB(kernel), horizon=20, seed=1)
    >>> len(trace), trace.regret.shape
    (20, (20,))
    """
    an_environment(environment)
    a_policy(policy)
    horizon = a_count(horizon, "The horizon")
    if progress is not None:
        a_function(progress, "What is told of progress")
    sequence = _seed_sequence(seed)
    spec: Parameters = {
        "environment": environment.describe(),
        "policy": policy.describe(),
        "horizon": horizon,
        "seed": _plain_seed(sequence),
        "learn_rounds": None
        if learn_rounds is None
        else a_count(learn_rounds, "The number of rounds to learn from", least=0),
    }
    driver = Driver(start_world(environment, sequence), policy, learn_rounds=spec["learn_rounds"])
    while driver.n_finished < horizon:
        n_played = driver.advance(horizon - driver.n_finished)
        if not n_played:
            break
        if progress is not None:
            for done in range(driver.n_finished - n_played, driver.n_finished):
                progress(done + 1)
    return driver.recorder.trace(spec)


def start_world(environment: Environment, seed: Seed) -> World:
    """The very run of a world that `simulate` plays under this seed, to look at it again: `trace.spec["seed"]`."""
    an_environment(environment)
    (world_seed,) = _seed_sequence(seed).spawn(1)  # the first child; others stay free for what may need chance later
    return environment.start(np.random.default_rng(world_seed))


def _seed_sequence(seed: Seed) -> np.random.SeedSequence:
    """A sequence of our own: spawning from the caller's would give the next run with it other luck."""
    if isinstance(seed, np.random.Generator):
        return np.random.SeedSequence(int(seed.integers(2**63)))
    if isinstance(seed, np.random.SeedSequence):
        return np.random.SeedSequence(seed.entropy, spawn_key=seed.spawn_key, pool_size=seed.pool_size)
    if seed is None:
        return np.random.SeedSequence()
    return np.random.SeedSequence(a_seed(seed))


def _plain_seed(sequence: np.random.SeedSequence) -> Any:
    """The number that starts the same run again, or, for a spawned sequence, its parts."""
    if not sequence.spawn_key:
        return sequence.entropy
    return {"entropy": sequence.entropy, "spawn_key": list(sequence.spawn_key)}
