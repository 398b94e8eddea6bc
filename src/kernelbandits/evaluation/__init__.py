"""Evaluation of policies: simulation, off-policy estimation from logs, and live comparison.

`simulate` runs a policy for a number of rounds and returns a `Trace`: one row per round, with the cumulative regret if
expected rewards are known. The seed belongs to the environment, so policies that are compared under the same seed get
the same contexts and the same noise.

A `Log` of decisions with their rewards and propensities can be used to evaluate a policy that was never deployed. Start
with `SelfNormalizedIPS`; use `DoublyRobust` with a good kernel, and `Replay` to evaluate a policy while it learns. Each
returns an `Estimate`: a value, its interval, and warnings as sentences; `lift` of an estimator is the difference to the
logging policy. Logs of slates are evaluated by the same estimators. `PropensityModel` estimates propensities that were
not logged. The intervals of `ConfidenceSequence` and `ABComparison` are valid at any time, even if inspected after
every round. `coverage` measures whether the intervals of a policy have their nominal coverage, and `kernel_report`
whether a kernel fits.
"""

from kernelbandits.environments import Log, click_rewards
from kernelbandits.evaluation.collect import collect_log, true_value
from kernelbandits.evaluation.doubly_robust import DirectMethod, DoublyRobust, Switch
from kernelbandits.evaluation.interval_coverage import Coverage, calibration, coverage, share_interval
from kernelbandits.evaluation.kernel_fit import Disagreement, KernelReport, kernel_report
from kernelbandits.evaluation.marginalized import MarginalizedIPS
from kernelbandits.evaluation.off_policy import IPS, Estimate, Estimator, SelfNormalizedIPS, mean_reward
from kernelbandits.evaluation.propensities import EstimatedLog, PropensityModel
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
    "Disagreement",
    "DoublyRobust",
    "Estimate",
    "EstimatedLog",
    "Estimator",
    "FittedModel",
    "KernelReport",
    "Log",
    "MarginalizedIPS",
    "PropensityModel",
    "Recorder",
    "Replay",
    "RewardModel",
    "SelfNormalizedIPS",
    "Switch",
    "Trace",
    "calibration",
    "click_rewards",
    "collect_log",
    "compare_on_log",
    "coverage",
    "kernel_report",
    "mean_reward",
    "share_interval",
    "simulate",
    "start_world",
    "true_value",
]
