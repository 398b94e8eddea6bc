from studies.off_policy import held_in_words


def make_row(log, estimator, low, high):
    return {"log": log, "estimator": estimator, "coverage_low": low, "coverage_high": high}


def test_intervals_that_hold_under_one_log_only_are_reported_of_that_log_only():
    rows = [
        make_row("uniform", "IPS", 0.89, 0.96),
        make_row("uniform", "clipped", 0.03, 0.1),
        make_row("learner", "IPS", 0.85, 0.94),
        make_row("learner", "clipped", 0.01, 0.05),
    ]

    assert held_in_words(rows) == "log: uniform (IPS); log: learner (none)"
