"""How well a policy does: the loop driven by a world that knows the answers, and the record it leaves.

`simulate` lets a policy choose and learn for a number of rounds and returns a `Trace`: one row a round, with the
cumulative regret where expected rewards are known. The seed belongs to the world, so policies that are compared under
the same seed meet the same contexts and the same luck.
"""

from kernelbandits.environments import Log
from kernelbandits.evaluation.recorder import Recorder
from kernelbandits.evaluation.simulation import simulate, start_world
from kernelbandits.evaluation.trace import NO_STAGE, Trace

__all__ = ["NO_STAGE", "Log", "Recorder", "Trace", "simulate", "start_world"]
