import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy.sparse import csr_array

from kernelbandits import Catalog, Pairs
from kernelbandits.adapters import from_obp, to_obp
from kernelbandits.environments import Log
from kernelbandits.errors import InvalidContexts, InvalidParameter, NotSupported
from unit.adapters.logs import assert_same_log


def make_log(with_context=True, n_rounds=9, seed=2):
    rng = np.random.default_rng(seed)
    actions = rng.normal(size=(4, 3))
    rounds = [Pairs(rng.normal(size=2), actions.copy()) if with_context else actions for _ in range(n_rounds)]
    return Log(rounds, rng.integers(4, size=n_rounds), 1.0 - rng.random(n_rounds), rng.normal(size=n_rounds))


def feedback(**changes):
    known = {
        "n_rounds": 3,
        "n_actions": 4,
        "context": np.arange(6.0).reshape(3, 2),
        "action_context": None,
        "action": np.array([3, 0, 1]),
        "position": None,
        "reward": np.array([0.0, 1.0, 1.0]),
        "pscore": np.array([0.25, 0.5, 0.125]),
        "expected_reward": np.zeros((3, 4)),
    }
    return {**known, **changes}


@pytest.mark.parametrize("with_context", [True, False])
def test_there_and_back_is_the_same_log(with_context):
    log = make_log(with_context)

    again = from_obp(to_obp(log))

    assert_same_log(log, again)


def test_negative_control_a_shifted_action_or_turned_reward_shows():
    log, sent = make_log(), to_obp(make_log())

    for wrong in ({"action": (sent["action"] + 1) % 4}, {"reward": -sent["reward"]}):
        with pytest.raises(AssertionError):
            assert_same_log(log, from_obp({**sent, **wrong}))


def test_the_dictionary_has_the_keys_shapes_and_types_of_the_pipeline():
    log = make_log()

    sent = to_obp(log, expected_reward=np.full((9, 4), 0.5))

    assert (sent["n_rounds"], sent["n_actions"], sent["position"]) == (9, 4, None)
    assert sent["context"].shape == (9, 2)
    assert sent["action_context"].shape == (4, 3)
    assert sent["action"].dtype.kind == "i"
    assert sent["expected_reward"].shape == (9, 4)
    assert_array_equal(sent["reward"], log.rewards)
    assert_array_equal(sent["pscore"], log.propensities)
    assert_array_equal(sent["context"][5], log.rounds[5].context)
    assert to_obp(make_log(with_context=False))["context"].shape == (9, 0)


def test_what_was_sent_is_a_copy():
    log = make_log()
    sent = to_obp(log)

    sent["reward"][:] = 7.0
    sent["pscore"][:] = 7.0

    assert_same_log(log, make_log())


def test_actions_without_a_description_are_unit_vectors():
    log = from_obp(feedback())

    assert_array_equal(log.rounds[2].actions, np.eye(4))
    assert_array_equal(log.rounds[2].context, [4.0, 5.0])
    assert log.actions.tolist() == [3, 0, 1]


def test_sparse_rows_are_sent_dense():
    rounds = [Pairs(csr_array([[0.0, 2.0]]), csr_array(np.eye(3)))] * 2

    sent = to_obp(Log(rounds, [0, 2], [0.5, 0.5], [1.0, 0.0]))

    assert_array_equal(sent["context"], [[0.0, 2.0]] * 2)
    assert_array_equal(sent["action_context"], np.eye(3))


def test_one_position_is_taken_where_there_are_several():
    several = feedback(position=np.array([0, 2, 2]))

    with pytest.raises(InvalidParameter, match=r"2 positions.*position=0"):
        from_obp(several)
    assert from_obp(several, position=2).actions.tolist() == [0, 1]
    assert len(from_obp(feedback(position=np.zeros(3, dtype=int)))) == 3
    with pytest.raises(InvalidParameter, match="has no positions"):
        from_obp(feedback(), position=2)


@pytest.mark.parametrize(
    ("rounds", "error", "message"),
    [
        ([np.eye(2), np.eye(2)[::-1]], NotSupported, "round 1 has others than round 0"),
        ([np.eye(2), np.eye(3)], NotSupported, "round 1 has others than round 0"),
        ([np.eye(2), Pairs([1.0], np.eye(2))], NotSupported, "All rounds must have a shared context, or none"),
        ([["a", "b"], ["a", "b"]], InvalidContexts, "rows of numbers, got list in round 0"),
        ([Catalog(np.eye(2))] * 2, InvalidContexts, "rows of numbers, got Catalog in round 0"),
        ([Pairs([1.0], np.eye(2)), Pairs([1.0, 2.0], np.eye(2))], InvalidContexts, "equally long"),
    ],
)
def test_logs_that_the_format_cannot_hold_are_rejected(rounds, error, message):
    with pytest.raises(error, match=message):
        to_obp(Log(rounds, [0, 1], [0.5, 0.5], [1.0, 0.0]))


def test_an_empty_log_and_wrong_expectations_are_rejected():
    with pytest.raises(InvalidParameter, match="at least one round"):
        to_obp(Log([], [], [], []))
    with pytest.raises(InvalidParameter, match=r"\(9, 4\), got shape \(4, 9\)"):
        to_obp(make_log(), expected_reward=np.zeros((4, 9)))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pscore": None}, "has no pscore"),
        ({"action": np.array([4, 0, 1])}, "Round 0 has actions 0 to 3, got 4"),
        ({"pscore": np.array([0.0, 0.5, 0.5])}, "above 0 and at most 1"),
        ({"context": np.zeros((2, 2))}, "one row per round, 3 in all"),
        ({"action_context": np.eye(3)}, "each of the 4 actions"),
        ({"n_actions": None}, "has neither"),
        ({"n_actions": "four"}, "n_actions of feedback must be one number, got 'four'"),
        ({"position": np.zeros(2)}, r"one per round, 3 in all, got shape \(2,\)"),
    ],
)
def test_feedback_that_is_not_a_log_is_rejected(changes, message):
    with pytest.raises(InvalidParameter, match=message):
        from_obp(feedback(**changes))


def test_a_position_that_no_round_has_is_rejected():
    reported = {"n_actions": 2, "action": [0, 1], "reward": [1.0, 0.0], "pscore": [0.5, 0.5], "position": [0, 2]}

    with pytest.raises(InvalidParameter, match=r"No round has position 5; there are \[0, 2\]"):
        from_obp(reported, position=5)
