"""The loop, driven by a simulated world."""

from __future__ import annotations

from collections.abc import Callable
from math import log1p, nan
from time import perf_counter
from typing import Any, Final

import numpy as np

from kernelbandits.checks import a_count
from kernelbandits.environments.base import Environment, ForeseeableWorld, World
from kernelbandits.evaluation.recorder import Recorder
from kernelbandits.evaluation.trace import Trace
from kernelbandits.policies.base import Policy
from kernelbandits.types import Decision, Parameters, Seed

__all__ = ["simulate", "start_world"]

ROUNDS_AT_ONCE: Final = 256
"""Rounds, at least, that are played together where the world can foresee them and the policy has a loop of its own."""


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
        Learn from the first so many rounds only, and just choose afterwards. None: learn from all.

    Examples
    --------
    >>> import kernelbandits as kb
    >>> kernel = kb.kernels.Gaussian(length_scale=0.3)
    >>> world = kb.environments.SyntheticRKHS(kernel, n_actions=5, n_features=2)
    >>> trace = kb.simulate(world, kb.KernelUCB(kernel), horizon=20, seed=1)
    >>> len(trace), trace.regret.shape
    (20, (20,))
    """
    horizon = a_count(horizon, "The horizon")
    learning = horizon if learn_rounds is None else a_count(learn_rounds, "The number of rounds to learn from", least=0)
    sequence = _seed_sequence(seed)
    spec: Parameters = {
        "environment": environment.describe(),
        "policy": policy.describe(),
        "horizon": horizon,
        "seed": _plain_seed(sequence),
    }
    world = start_world(environment, sequence)
    recorder = Recorder()
    n_finished = 0
    while n_finished < horizon:
        # Whatever chooses and learns will do as a policy, so it need not have heard of playing.
        learns = n_finished < learning
        if learns and isinstance(world, ForeseeableWorld) and getattr(policy, "is_fused", False):
            # Blocks that grow: a policy puts its whole state aside for each, to be able to go back.
            at_once = max(ROUNDS_AT_ONCE, n_finished // 4)
            n_played = _play(world, policy, recorder, min(at_once, min(horizon, learning) - n_finished))
        else:
            n_played = _step(world, policy, recorder, learns=learns)
        if not n_played:
            break
        for _ in range(n_played):
            n_finished += 1
            if progress is not None:
                progress(n_finished)
    return recorder.trace(spec)


def _step(world: World, policy: Policy, recorder: Recorder, *, learns: bool = True) -> int:
    """One round, or none where the world has ended."""
    try:
        shown = world.show()
    except StopIteration:
        return 0
    began = perf_counter()
    decision = policy.choose(shown.contexts, ids=shown.ids)
    choosing = perf_counter() - began

    reward = world.pay(decision.action)

    began = perf_counter()
    if learns:
        policy.learn(decision, reward)
    seconds = choosing + perf_counter() - began

    recorder.record(shown, decision, reward, log_det_gain=_log_det_gain(policy), seconds=seconds)
    return 1


def _play(world: ForeseeableWorld, policy: Policy, recorder: Recorder, n_rounds: int) -> int:
    """Many rounds at once, with the rows that steps would give; none where the world has ended."""
    foreseen = world.foresee(n_rounds)
    if not foreseen:
        return 0
    gain = _log_det_gain(policy)
    began = perf_counter()
    plays = policy.play([shown.contexts for shown, _ in foreseen], [rewards for _, rewards in foreseen])
    seconds = (perf_counter() - began) / len(foreseen)
    for t, (shown, rewards) in enumerate(foreseen):
        gain += log1p(plays.width[t] ** 2)  # a round multiplies det(I + K/γ) by 1 + width²
        decision = Decision(
            action=int(plays.action[t]),
            context=None,
            mean=plays.mean[t],
            width=plays.width[t],
            score=plays.score[t],
            propensity=plays.propensity[t],
            n_actions=len(rewards),
        )
        recorder.record(shown, decision, plays.reward[t], log_det_gain=gain, seconds=seconds)
    return len(foreseen)


def start_world(environment: Environment, seed: Seed) -> World:
    """The very run of a world that `simulate` plays under this seed, to look at it again: `trace.spec["seed"]`."""
    (world_seed,) = _seed_sequence(seed).spawn(1)  # the first child; others stay free for what may need chance later
    return environment.start(np.random.default_rng(world_seed))


def _log_det_gain(policy: Policy) -> float:
    posterior = getattr(policy, "posterior", None)  # not every policy has one
    return nan if posterior is None else float(posterior.log_det_gain)


def _seed_sequence(seed: Seed) -> np.random.SeedSequence:
    """A sequence of our own: spawning from the caller's would give the next run with it other luck."""
    if isinstance(seed, np.random.Generator):
        return np.random.SeedSequence(int(seed.integers(2**63)))
    if isinstance(seed, np.random.SeedSequence):
        return np.random.SeedSequence(seed.entropy, spawn_key=seed.spawn_key, pool_size=seed.pool_size)
    if seed is None:
        return np.random.SeedSequence()
    return np.random.SeedSequence(a_count(seed, "The seed", least=0))


def _plain_seed(sequence: np.random.SeedSequence) -> Any:
    """The number that starts the same run again, or, for a spawned sequence, its parts."""
    if not sequence.spawn_key:
        return sequence.entropy
    return {"entropy": sequence.entropy, "spawn_key": list(sequence.spawn_key)}
