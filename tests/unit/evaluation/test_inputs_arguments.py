import numpy as np
import pytest

from kernelbandits import evaluation
from kernelbandits.environments import Clustered
from kernelbandits.errors import InvalidParameter
from kernelbandits.evaluation import Log
from kernelbandits.kernels import Delta, Gaussian
from kernelbandits.policies import KernelUCB, UniformRandom

WORLD = Clustered(n_actions=3)
LOG = Log([["a", "b"]] * 4, actions=[0, 1, 1, 0], propensities=[0.5] * 4, rewards=[0.0, 1.0, 1.0, 0.0])
STRANGE = [None, "text", 3, float("nan"), [], {}, object(), np.ones((2, 2)), LOG, KernelUCB, Clustered, len]


def make_policy():
    return KernelUCB(Gaussian(length_scale=0.3))


IN_WORLDS = {
    "simulate": lambda world, policy: evaluation.simulate(world, policy, horizon=3),
    "collect_log": lambda world, policy: evaluation.collect_log(world, policy, horizon=3),
    "true_value": lambda world, policy: evaluation.true_value(world, policy, horizon=3),
}
ON_LOGS = {
    "IPS": evaluation.IPS().estimate,
    "SelfNormalizedIPS": evaluation.SelfNormalizedIPS().estimate,
    "Replay": evaluation.Replay().estimate,
    "DirectMethod": evaluation.DirectMethod(Delta()).estimate,
    "DoublyRobust": evaluation.DoublyRobust(evaluation.DirectMethod(Delta())).estimate,
    "Switch": evaluation.Switch(evaluation.DirectMethod(Delta()), threshold=2.0).estimate,
    "compare_on_log": lambda log, policy: evaluation.compare_on_log(
        log, policy, UniformRandom(), smallest_propensity=0.5, reward_range=(0.0, 1.0)
    ),
}


@pytest.mark.parametrize("strange", [*STRANGE, make_policy()], ids=lambda strange: type(strange).__name__)
@pytest.mark.parametrize("play", IN_WORLDS.values(), ids=IN_WORLDS)
def test_what_is_no_world_is_reported(play, strange):
    with pytest.raises(InvalidParameter, match=r"The environment (needs|must be made).* is one\."):
        play(strange, make_policy())


@pytest.mark.parametrize("strange", [*STRANGE, WORLD], ids=lambda strange: type(strange).__name__)
@pytest.mark.parametrize("play", IN_WORLDS.values(), ids=IN_WORLDS)
def test_what_is_no_policy_is_reported(play, strange):
    with pytest.raises(InvalidParameter, match=r"The policy (needs|must be made).*KernelUCB\(kernel\) is one\."):
        play(WORLD, strange)


@pytest.mark.parametrize("play", IN_WORLDS.values(), ids=IN_WORLDS)
def test_world_and_policy_in_the_wrong_order_are_reported(play):
    with pytest.raises(InvalidParameter, match="This is a policy: pass the environment first, the policy second"):
        play(make_policy(), WORLD)


@pytest.mark.filterwarnings("ignore:KernelUCB is deterministic")
@pytest.mark.parametrize("play", IN_WORLDS.values(), ids=IN_WORLDS)
def test_a_world_and_a_policy_are_taken(play):
    assert play(WORLD, make_policy()) is not None


@pytest.mark.parametrize(
    "strange", [part for part in STRANGE if part is not LOG], ids=lambda strange: type(strange).__name__
)
@pytest.mark.parametrize("judge", ON_LOGS.values(), ids=ON_LOGS)
def test_what_is_no_log_is_reported(judge, strange):
    with pytest.raises(InvalidParameter, match=r"The log must be a Log, got .* collect_log make one"):
        judge(strange, UniformRandom())


@pytest.mark.parametrize("strange", STRANGE, ids=lambda strange: type(strange).__name__)
@pytest.mark.parametrize("judge", ON_LOGS.values(), ids=ON_LOGS)
def test_a_log_takes_policies_only(judge, strange):
    with pytest.raises(InvalidParameter, match=r"The policy (needs|must be made)"):
        judge(LOG, strange)


@pytest.mark.parametrize("judge", ON_LOGS.values(), ids=ON_LOGS)
def test_a_log_and_a_policy_are_taken(judge):
    assert judge(LOG, UniformRandom()).n_rounds == 4


OTHERS = {
    "calibration": (evaluation.calibration, "The trace must be a Trace"),
    "coverage": (
        lambda strange: evaluation.coverage(WORLD, strange, horizon=3, repeats=2),
        "What makes a policy must be a function",
    ),
    "mean_reward": (evaluation.mean_reward, "The log must be a Log"),
    "progress": (
        lambda strange: evaluation.simulate(WORLD, make_policy(), horizon=3, progress=strange),
        "The progress callback must be a function",
    ),
}


@pytest.mark.parametrize("strange", ["text", [], {}], ids=lambda strange: type(strange).__name__)
@pytest.mark.parametrize(("call", "message"), OTHERS.values(), ids=OTHERS)
def test_what_is_no_trace_or_log_or_function_is_reported(call, message, strange):
    with pytest.raises(InvalidParameter, match=message):
        call(strange)


@pytest.mark.parametrize("part", ["x", 1.5, [7], {}, object(), [0.5]])
def test_a_part_of_a_log_that_is_none_is_reported(part):
    with pytest.raises(InvalidParameter, match="A part of a log is"):
        LOG[part]


@pytest.mark.parametrize("ids", [3, "abcd", ["ab", "ab", "ab", "ab"], [1, 2, 3, 4], [None] * 4])
def test_names_that_are_no_lists_are_reported(ids):
    with pytest.raises(InvalidParameter, match="The ids of a log are a list of names for every round"):
        Log(LOG.rounds, LOG.actions, LOG.propensities, LOG.rewards, ids)
