import pytest

from kernelbandits.experiments.backends import NOT_BEGUN
from kernelbandits.experiments.runner import Outlook, Pace, run
from small_studies import failing, mixed, small_study

HORIZON = 100


class Clock:
    """Stands still until it is moved."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


def play(outlook, clock, place, rounds, *, cost, until=HORIZON, step=5):
    """Play one job: `cost(t)` seconds up to round t."""
    began = clock.now
    for t in range(0, until + 1, step):
        clock.now = began + cost(t)
        rounds[place] = t
        outlook.look(rounds)
    if until == HORIZON:
        outlook.finish(place, cost(HORIZON))


def play_two_at_once(outlook, clock, rounds):
    """Play the first two jobs side by side to their end."""
    for t in range(0, HORIZON + 1, 10):
        clock.now = 1000.0 + flat(t)
        rounds[:2] = [t, t]
        outlook.look(rounds)
    for place in (0, 1):
        outlook.finish(place, flat(HORIZON))


def flat(t):
    return 0.3 * t


def growing(t):
    return 0.1 * t + 0.02 * t**2


@pytest.mark.parametrize("cost", [flat, growing])
@pytest.mark.parametrize("done", [30, 60, 95])
def test_one_job_is_judged_by_its_own_rounds_even_if_they_become_slower(cost, done):
    clock, rounds = Clock(), [NOT_BEGUN]
    outlook = Outlook(["A"], HORIZON, clock=clock)

    play(outlook, clock, 0, rounds, cost=cost, until=done)

    assert outlook.seconds_left() == pytest.approx(cost(HORIZON) - cost(done))


def test_equally_slow_rounds_would_promise_too_much():
    """What was said before is far from the truth where rounds become slower: the fit is needed."""
    done = 30
    said = growing(done) * (HORIZON - done) / done

    assert said < 0.35 * (growing(HORIZON) - growing(done))


def test_finished_jobs_of_the_same_kind_are_believed():
    clock, rounds = Clock(), [NOT_BEGUN] * 5
    outlook = Outlook(["slow", "fast", "slow", "fast", "slow"], HORIZON, clock=clock)
    play(outlook, clock, 0, rounds, cost=growing)
    play(outlook, clock, 1, rounds, cost=flat)

    left = outlook.seconds_left()

    assert left == pytest.approx(2 * growing(HORIZON) + flat(HORIZON))


def test_a_job_that_runs_is_owed_what_is_left_of_its_kind():
    clock, rounds = Clock(), [NOT_BEGUN] * 2
    outlook = Outlook(["slow", "slow"], HORIZON, clock=clock)
    play(outlook, clock, 0, rounds, cost=growing)

    play(outlook, clock, 1, rounds, cost=growing, until=10)

    assert outlook.seconds_left() == pytest.approx(growing(HORIZON) - growing(10))


def test_a_job_that_is_overdue_is_judged_by_its_own_rounds():
    clock, rounds = Clock(), [NOT_BEGUN] * 2
    outlook = Outlook(["slow", "slow"], HORIZON, clock=clock)
    play(outlook, clock, 0, rounds, cost=flat)

    play(outlook, clock, 1, rounds, cost=lambda t: 10 * flat(t), until=50)

    assert outlook.seconds_left() == pytest.approx(10 * flat(50))


def test_kinds_that_nobody_has_seen_take_as_long_as_the_others_on_average():
    clock, rounds = Clock(), [NOT_BEGUN] * 3
    outlook = Outlook(["slow", "fast", "unknown"], HORIZON, clock=clock)
    play(outlook, clock, 0, rounds, cost=growing)
    play(outlook, clock, 1, rounds, cost=flat)

    assert outlook.seconds_left() == pytest.approx((growing(HORIZON) + flat(HORIZON)) / 2)


def test_jobs_that_are_played_at_once_share_the_time():
    clock, rounds = Clock(), [NOT_BEGUN] * 8
    outlook = Outlook(["A"] * 8, HORIZON, clock=clock)

    play_two_at_once(outlook, clock, rounds)

    assert outlook.seconds_left() == pytest.approx(3 * flat(HORIZON))


def test_the_last_job_takes_its_time_however_many_play():
    clock, rounds = Clock(), [NOT_BEGUN] * 3
    outlook = Outlook(["A"] * 3, HORIZON, clock=clock)

    play_two_at_once(outlook, clock, rounds)

    assert outlook.seconds_left() == pytest.approx(flat(HORIZON))


def test_before_anything_is_seen_nothing_is_said():
    outlook = Outlook(["A", "B"], HORIZON, clock=Clock())

    outlook.look([0, NOT_BEGUN])

    assert outlook.seconds_left() is None


def test_failures_say_nothing_and_need_no_more_time():
    outlook = Outlook(["A", "A"], HORIZON, clock=Clock())

    said = []
    for place in (0, 1):
        outlook.finish(place, None)
        said.append(outlook.seconds_left())

    assert said == [None, 0.0]


def test_a_job_that_was_lost_begins_again():
    clock, rounds = Clock(), [NOT_BEGUN]
    outlook = Outlook(["A"], HORIZON, clock=clock)
    play(outlook, clock, 0, rounds, cost=growing, until=90)

    play(outlook, clock, 0, rounds, cost=flat, until=50)

    assert outlook.seconds_left() == pytest.approx(flat(50))


@pytest.mark.parametrize("cost", [flat, growing, lambda t: 3.0 * t**0.5])
def test_a_pace_never_promises_rounds_that_become_faster(cost):
    pace = Pace(0, 0.0)
    for t in range(1, 50):
        pace.look(t, cost(t))

    early, late = pace.seconds(50, 60), pace.seconds(90, 100)

    assert late >= early > 0.0


def test_a_run_tells_how_long_it_will_take(tmp_path):
    told = []
    run(small_study(policies={"A": mixed}), tmp_path, workers=1, time_left=told.append)

    assert told[-1] == 0.0
    assert all(left is None or left >= 0.0 for left in told)


def test_a_run_whose_jobs_fail_still_ends_its_estimate(tmp_path):
    told = []
    with pytest.raises(RuntimeError, match="2 of 2 jobs failed"):
        run(small_study(policies={"A": failing}), tmp_path, workers=1, time_left=told.append)

    assert told[-1] == 0.0
