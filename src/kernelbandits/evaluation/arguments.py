"""What evaluation is given: worlds, policies, logs and traces, or a sentence that says what was given instead."""

from __future__ import annotations

from kernelbandits.checks import an_instance, an_object
from kernelbandits.environments import Log
from kernelbandits.environments.base import Environment
from kernelbandits.evaluation.trace import Trace
from kernelbandits.policies.base import Policy

__all__ = ["a_log", "a_policy", "a_trace", "an_environment"]


def an_environment(value: Environment) -> Environment:
    """What can be started and described, or InvalidParameter."""
    swapped = " This is a policy: the world comes first, the policy second." if hasattr(value, "choose") else ""
    return an_object(value, "The environment", "start", "describe", way_out=f"Clustered(n_actions=3) is one.{swapped}")


def a_policy(value: Policy, *methods: str, name: str = "The policy") -> Policy:
    """What has these methods, `choose`, `learn` and `describe` where none are named, or InvalidParameter."""
    swapped = " This is a world: the world comes first, the policy second." if hasattr(value, "start") else ""
    needed = methods or ("choose", "learn", "describe")
    return an_object(value, name, *needed, way_out=f"KernelUCB(kernel) is one.{swapped}")


def a_log(value: Log) -> Log:
    """A log, or InvalidParameter."""
    return an_instance(value, Log, "The log", "Log(rounds, actions, propensities, rewards) and collect_log make one.")


def a_trace(value: Trace) -> Trace:
    """A trace, or InvalidParameter."""
    return an_instance(value, Trace, "The trace", "simulate(world, policy, horizon=100) gives one.")
