import pytest

from kernelbandits.experiments.progress import progress_bar, rounds_bar, task_progress, time_left


@pytest.mark.parametrize(
    ("elapsed", "done", "total", "text"),
    [(10.0, 1, 4, "0:00:30 left"), (3600.0, 1, 49, "2 days, 0:00:00 left"), (5.0, 0, 9, ""), (5, 9, 9, "0:00:00 left")],
)
def test_what_is_left_is_as_slow_as_what_was_done(elapsed, done, total, text):
    assert time_left(elapsed, done, total) == text


def test_progress_is_silent_where_nobody_looks(capsys):
    with progress_bar(3, "Playing") as step:
        for _ in range(3):
            step()

    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(("seconds", "text"), [(90.4, "0:01:30 left"), (None, "")])
def test_a_bar_says_what_it_is_told_to_expect(seconds, text):
    with rounds_bar("Playing", 100) as bar:
        bar.move(50, 100)
        bar.expect(seconds)
        bar.move(60, 100)

        (task,) = bar._shown.tasks

        assert (task.completed, task.fields["left"]) == (60, text)


def test_tasks_are_lines_without_a_terminal(capsys):
    with task_progress(2) as begin:
        begin("first")
        begin("second")

    first, second = capsys.readouterr().err.splitlines()
    assert first.endswith("1/2  first")
    assert second.endswith("2/2  second")
