import sys
from io import StringIO

import pytest

from kernelbandits.errors import InvalidParameter
from kernelbandits.experiments import progress, run
from kernelbandits.experiments.progress import progress_bar, rounds_bar, study_progress, task_progress, time_left
from small_studies import small_study


@pytest.mark.parametrize(
    ("elapsed", "done", "total", "text"),
    [(10.0, 1, 4, "0:00:30 left"), (3600.0, 1, 49, "2 days, 0:00:00 left"), (5.0, 0, 9, ""), (5, 9, 9, "0:00:00 left")],
)
def test_what_is_left_is_as_slow_as_what_was_done(elapsed, done, total, text):
    assert time_left(elapsed, done, total) == text


def test_progress_is_silent_without_a_terminal(capsys):
    with progress_bar(3, "Playing") as step:
        for _ in range(3):
            step()

    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(("seconds", "text"), [(90.4, "0:01:30 left"), (None, "")])
def test_a_bar_says_what_it_is_given_to_expect(seconds, text):
    with rounds_bar("Playing", 100) as bar:
        bar.move(50, 100)
        bar.expect(seconds)
        bar.move(60, 100)

        (task,) = bar._display.tasks

        assert (task.completed, task.fields["left"]) == (60, text)


def test_tasks_are_lines_without_a_terminal(capsys):
    with task_progress(2) as begin:
        begin("first")
        begin("second")

    first, second = capsys.readouterr().err.splitlines()
    assert first.endswith("1/2  first")
    assert second.endswith("2/2  second")


class Terminal(StringIO):
    def isatty(self):
        return True


@pytest.fixture
def written(monkeypatch):
    """A function that sets the error stream, calls a function and returns what was written to the stream."""
    for name in ("TERM", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)

    def call(stream, show, *arguments, **named):
        monkeypatch.setattr(sys, "stderr", stream)
        show(*arguments, **named)
        return stream.getvalue()

    return call


def run_study(folder, shown):
    run(small_study(seeds=1), folder, workers=1, progress=shown)


def display(shown, *, delay):
    with study_progress(shown, delay=delay) as shows:
        if shows is not None:
            shows.move(1, 2)


def test_progress_is_shown_on_a_terminal_and_nothing_elsewhere(written, tmp_path):
    assert "Running" in written(Terminal(), display, None, delay=0.0)
    assert written(StringIO(), display, None, delay=0.0) == ""
    assert written(StringIO(), run_study, tmp_path, None) == ""


def test_a_run_shorter_than_two_seconds_shows_nothing(written):
    assert progress.DISPLAY_DELAY == 2.0
    assert "Running" not in written(Terminal(), display, None, delay=60.0)


def test_progress_can_be_turned_off_and_on(written, tmp_path):
    assert written(Terminal(), run_study, tmp_path / "a", False) == ""
    lines = written(StringIO(), run_study, tmp_path / "b", True).splitlines()
    assert lines[-1] == "69 of 69 rounds"
    assert len(lines) == 2  # the first at once, none within ten seconds of it, and the last
    assert "Running" in written(Terminal(), run_study, tmp_path / "c", True)
    assert "Running" in written(Terminal(), display, True, delay=60.0)


def test_lines_say_what_is_left(monkeypatch, capsys):
    now = iter([0.0, 0.0, 3.0, 11.0, 12.0])
    monkeypatch.setattr(progress, "monotonic", lambda: next(now))
    lines = progress.ProgressLines()

    lines.move(0, 2000)
    lines.expect(90.0)
    lines.move(600, 2000)
    lines.move(1200, 2000)
    lines.move(2000, 2000)

    assert capsys.readouterr().err.splitlines() == [
        "0 of 2,000 rounds", "1,200 of 2,000 rounds, 0:01:30 left", "2,000 of 2,000 rounds"
    ]  # fmt: skip


def test_without_rich_a_terminal_shows_nothing_unless_requested(written, monkeypatch, tmp_path):
    monkeypatch.setattr(progress, "find_spec", lambda name: None)

    assert written(Terminal(), display, None, delay=0.0) == ""
    assert "69 of 69 rounds" in written(Terminal(), run_study, tmp_path, True)


def test_a_progress_that_is_not_a_function_is_rejected(tmp_path):
    with pytest.raises(InvalidParameter, match=r"The progress must be a function, got 'yes'\. Or True, False or None"):
        run(small_study(), tmp_path, progress="yes")
