"""How well a policy does: in worlds that know the answers, on logs of other rules' decisions, and live.

`simulate` lets a policy choose and learn for a number of rounds and returns a `Trace`: one row a round, with the
cumulative regret where expected rewards are known. The seed belongs to the world, so policies that are compared under
the same seed meet the same contexts and the same luck.

A `Log` of decisions that were made and paid for, with their probabilities, can judge a policy that was never live:
`SelfNormalizedIPS` is the estimator to try first, `DoublyRobust` the one to trust with a good kernel, and `Replay` the
one that lets the policy learn on the way. Each gives an `Estimate`: a value, its interval, and warnings as sentences.
`ConfidenceSequence` and `ABComparison` are intervals that may be looked at after every round; `coverage` tells whether
the intervals of a policy keep what they promise.
"""

from kernelbandits.environments import Log
from kernelbandits.evaluation.collect import collect_log, true_value
from kernelbandits.evaluation.doubly_robust import DirectMethod, DoublyRobust, Switch
from kernelbandits.evaluation.interval_coverage import Coverage, calibration, coverage, share_interval
from kernelbandits.evaluation.off_policy import IPS, Estimate, Estimator, SelfNormalizedIPS, mean_reward
from kernelbandits.evaluation.replay import Replay
from kernelbandits.evaluation.reward_models import FittedModel, RewardModel
from kernelbandits.evaluation.sequential import ABComparison, ConfidenceSequence, compare_on_log
from kernelbandits.evaluation.simulation import simulate, start_world
from kernelbandits.evaluation.trace import NO_STAGE, Recorder, Trace

__all__ = [
    "IPS",
    "NO_STAGE",
    "ABComparison",
    "ConfidenceSequence",
    "Coverage",
    "DirectMethod",
    "DoublyRobust",
    "Estimate",
    "Estimator",
    "FittedModel",
    "Log",
    "Recorder",
    "Replay",
    "RewardModel",
    "SelfNormalizedIPS",
    "Switch",
    "Trace",
    "calibration",
    "collect_log",
    "compare_on_log",
    "coverage",
    "mean_reward",
    "share_interval",
    "simulate",
    "start_world",
    "true_value",
]
