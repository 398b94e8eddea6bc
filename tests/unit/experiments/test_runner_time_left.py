import pytest

from kernelbandits.experiments.backends import NOT_STARTED
from kernelbandits.experiments.runner import TimeEstimator, run
from small_studies import failing, mixed, small_study

HORIZON = 100


class Clock:
    """Stands still until it is moved."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


def flat(t):
    return 0.3 * t


def growing(t):
    return 0.1 * t + 0.02 * t**2


def simulate_job(estimator, clock, number, rounds, *, cost, until=HORIZON, step=5):
    """Run one job: `cost(t)` seconds up to round t."""
    began = clock.now
    for t in range(0, until + 1, step):
        clock.now = began + cost(t)
        rounds[number] = t
        estimator.update(rounds)
    if until == HORIZON:
        estimator.finish(number, cost(HORIZON))


def simulate_two_in_parallel(estimator, clock, rounds):
    for t in range(0, HORIZON + 1, 10):
        clock.now = 1000.0 + flat(t)
        rounds[:2] = [t, t]
        estimator.update(rounds)
    for number in (0, 1):
        estimator.finish(number, flat(HORIZON))


def make_estimator(kinds):
    clock = Clock()
    return TimeEstimator(kinds, HORIZON, clock=clock), clock, [NOT_STARTED] * len(kinds)


def test_there_is_no_estimate_before_a_job_is_finished():
    """The first rounds of a job whose rounds become slower would promise far too little."""
    estimator, clock, rounds = make_estimator(["A", "A"])

    simulate_job(estimator, clock, 0, rounds, cost=growing, until=30)

    assert estimator.seconds_left() is None
    assert growing(30) / 30 * HORIZON < 0.35 * growing(HORIZON)


def test_finished_jobs_of_the_same_kind_are_the_measure():
    estimator, clock, rounds = make_estimator(["slow", "fast", "slow", "fast", "slow"])
    simulate_job(estimator, clock, 0, rounds, cost=growing)
    simulate_job(estimator, clock, 1, rounds, cost=flat)

    assert estimator.seconds_left() == pytest.approx(2 * growing(HORIZON) + flat(HORIZON))


def test_a_kind_without_a_finished_job_counts_as_the_mean_of_the_others():
    estimator, clock, rounds = make_estimator(["slow", "fast", "unknown"])
    simulate_job(estimator, clock, 0, rounds, cost=growing)
    simulate_job(estimator, clock, 1, rounds, cost=flat)

    assert estimator.seconds_left() == pytest.approx((growing(HORIZON) + flat(HORIZON)) / 2)


def test_a_running_job_counts_by_its_remaining_rounds():
    estimator, clock, rounds = make_estimator(["A", "A"])
    simulate_job(estimator, clock, 0, rounds, cost=flat)

    simulate_job(estimator, clock, 1, rounds, cost=flat, until=40)

    assert estimator.seconds_left() == pytest.approx(flat(60))


def test_parallel_jobs_share_the_time():
    estimator, clock, rounds = make_estimator(["A"] * 8)

    simulate_two_in_parallel(estimator, clock, rounds)

    assert estimator.seconds_left() == pytest.approx(3 * flat(HORIZON))


def test_the_last_job_takes_its_time_with_any_number_of_workers():
    estimator, clock, rounds = make_estimator(["A"] * 3)

    simulate_two_in_parallel(estimator, clock, rounds)

    assert estimator.seconds_left() == pytest.approx(flat(HORIZON))


def test_a_job_that_was_lost_counts_again():
    estimator, clock, rounds = make_estimator(["A", "A"])
    simulate_job(estimator, clock, 0, rounds, cost=flat)
    simulate_job(estimator, clock, 1, rounds, cost=flat, until=90)
    before = estimator.seconds_left()

    rounds[1] = 0
    estimator.update(rounds)

    assert before == pytest.approx(flat(10))
    assert estimator.seconds_left() == pytest.approx(flat(HORIZON))


def test_a_run_reports_how_long_it_will_take(tmp_path):
    reported = []
    run(small_study(policies={"A": mixed}), tmp_path, workers=1, time_left=reported.append)

    assert reported[0] is None
    assert reported[-1] == 0.0
    assert all(left is None or left >= 0.0 for left in reported)


def test_a_run_whose_jobs_fail_has_no_estimate(tmp_path):
    reported = []
    with pytest.raises(RuntimeError, match="2 of 2 jobs failed"):
        run(small_study(policies={"A": failing}), tmp_path, workers=1, time_left=reported.append)

    assert set(reported) == {None}
