import errno
import json
import os
import sys

import numpy as np
import pyarrow.parquet as pq
import pytest

from kernelbandits._files import locked
from kernelbandits.errors import (
    DamagedFile,
    FolderInUse,
    ForeignFile,
    InvalidParameter,
    MissingExtra,
    NewerFile,
    StudyIncomplete,
)
from kernelbandits.experiments import runner, store
from kernelbandits.experiments import study as study_module
from kernelbandits.experiments.backends import run_serial
from kernelbandits.experiments.policy_spec import PolicySpec
from kernelbandits.experiments.results import Results, read_results
from kernelbandits.experiments.runner import run
from kernelbandits.policies import KernelUCB, UniformRandom
from small_studies import KERNEL, DiesOnArrival, FailsLater, bytes_of, deadly, failing, mixed, small_study


@pytest.fixture
def played(monkeypatch):
    """Labels of the jobs that are really played."""
    labels = []
    honest = runner.run_job

    def noted(study, job, progress=None):
        labels.append((job.policy, job.seed))
        return honest(study, job, progress)

    monkeypatch.setattr(runner, "run_job", noted)
    return labels


def test_the_folder_holds_what_is_promised(tmp_path):
    study = small_study()
    run(study, tmp_path / "new" / "folder", workers=1)

    folder = tmp_path / "new" / "folder"
    files = {f"{job.id}.parquet" for job in study.jobs}
    assert {path.name for path in (folder / "jobs").iterdir()} == files
    assert {path.name for path in (folder / "timings").iterdir()} == files
    result = json.loads((folder / "study.json").read_text(encoding="utf-8"))
    assert result["jobs"] == [job.id for job in study.jobs]
    assert (result["format"], result["name"], result["horizon"], result["seeds"], result["every"]) == (
        3,
        "small",
        23,
        [3, 8],
        5,
    )
    assert result["study"] == json.loads(json.dumps(study.describe()))
    assert {"numpy", "scipy", "kernelbandits", "pyarrow"} <= result["versions"].keys()
    assert result["machine"]["n_processors"] == os.cpu_count()


def test_finished_jobs_are_never_repeated(tmp_path, played):
    run(small_study(), tmp_path, workers=1)
    before = bytes_of(tmp_path)
    n_played = len(played)

    results = run(small_study(), tmp_path, workers=1)

    assert (n_played, len(played)) == (6, 6)
    assert bytes_of(tmp_path) == before
    assert results.is_complete


def test_a_changed_study_keeps_what_did_not_change(tmp_path, played):
    run(small_study(), tmp_path, workers=1)
    played.clear()

    results = run(small_study(seeds=[8, 9]), tmp_path, workers=1)

    assert {seed for _, seed in played} == {9}
    assert len(results.study["jobs"]) == 6
    assert set(results.table()["seed"].to_pylist()) == {8, 9}
    assert len(bytes_of(tmp_path)) == 9


def test_a_renamed_policy_is_not_played_again_and_gets_its_name(tmp_path, played):
    spec = PolicySpec(KernelUCB, KERNEL)
    run(small_study(policies={"Before": spec}), tmp_path / "a", workers=1)
    run(small_study(policies={"After": spec}), tmp_path / "b", workers=1)
    played.clear()

    results = run(small_study(policies={"After": spec}), tmp_path / "a", workers=1)

    assert played == []
    assert set(results.table()["policy"].to_pylist()) == {"After"}
    assert bytes_of(tmp_path / "a") == bytes_of(tmp_path / "b")


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "foreign", "text"])
def test_a_damaged_or_foreign_file_is_made_again(tmp_path, played, damage):
    study = small_study()
    run(study, tmp_path, workers=1)
    before = bytes_of(tmp_path)
    name, other = sorted(before)[:2]
    content = before[name]
    middle = len(content) // 4
    damaged = {
        "cut": content[: len(content) // 2],
        "flipped": content[:middle] + bytes([content[middle] ^ 0xFF]) + content[middle + 1 :],
        "empty": b"",
        "foreign": before[other],
        "text": b"not Parquet at all",
    }[damage]
    (tmp_path / "jobs" / name).write_bytes(damaged)
    played.clear()

    run(study, tmp_path, workers=1)

    assert len(played) == 1
    assert bytes_of(tmp_path) == before


def test_a_damaged_file_does_not_count_as_finished(tmp_path):
    results = run(small_study(), tmp_path, workers=1)
    name = results.study["jobs"][2]
    (tmp_path / "jobs" / f"{name}.parquet").write_bytes(b"half")

    assert results.missing == (name,)
    assert not results.is_complete
    assert len(results.jobs) == 5


def written_in_format(number, study, folder, monkeypatch):
    """A folder as an earlier version left it."""
    with monkeypatch.context() as earlier:
        for module in (study_module, store):
            earlier.setattr(module, "FORMAT", number)
        run(study, folder, workers=1)


def test_a_folder_of_an_earlier_format_is_rejected(tmp_path, monkeypatch):
    written_in_format(1, small_study(), tmp_path, monkeypatch)

    with pytest.raises(DamagedFile, match=r"has format 1, this version reads format 3\. Run the study again"):
        Results(tmp_path)


def test_a_study_of_an_earlier_format_is_run_again_and_nothing_of_it_is_mixed_in(tmp_path, monkeypatch):
    written_in_format(1, small_study(), tmp_path, monkeypatch)

    results = run(small_study(), tmp_path, workers=1)

    assert {job["format"] for job in results.jobs} == {3}
    assert (len(results.jobs), results.table().num_rows) == (6, 30)
    assert len(bytes_of(tmp_path)) == 12  # the files of before are left alone


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        (b'{"name":', DamagedFile, r"study\.json' cannot be read.*Run the study again"),
        (b"\xff", DamagedFile, r"study\.json' cannot be read"),
        (b"[]", DamagedFile, "does not list the jobs"),
        (b'{"format": 3}', DamagedFile, "does not list the jobs"),
    ],
)
def test_a_damaged_description_is_named_and_mended_by_running_again(tmp_path, text, error, message):
    run(small_study(), tmp_path, workers=1)
    (tmp_path / "study.json").write_bytes(text)

    with pytest.raises(error, match=message):
        Results(tmp_path)

    assert run(small_study(), tmp_path, workers=1).is_complete


def test_what_a_later_version_wrote_is_left_alone(tmp_path):
    run(small_study(), tmp_path, workers=1)
    (tmp_path / "study.json").write_bytes(b'{"format": 99}')

    for read in (Results, lambda folder: run(small_study(), folder, workers=1)):
        with pytest.raises(NewerFile, match="has format 99, this version reads format 3"):
            read(tmp_path)

    assert (tmp_path / "study.json").read_bytes() == b'{"format": 99}'


@pytest.mark.parametrize(("damage", "n_played"), [("cut", 1), ("gone", 0)])
def test_damaged_times_are_made_again_and_missing_ones_are_not(tmp_path, played, damage, n_played):
    results = run(small_study(), tmp_path, workers=1)
    before, timing = bytes_of(tmp_path), tmp_path / "timings" / f"{results.study['jobs'][2]}.parquet"
    timing.write_bytes(timing.read_bytes()[:50])
    if damage == "gone":
        timing.unlink()
    played.clear()

    run(small_study(), tmp_path, workers=1)

    assert len(played) == n_played
    assert bytes_of(tmp_path) == before
    assert read_results(tmp_path).n_missing == 0


def test_a_full_disk_names_the_file_and_keeps_what_is_finished(tmp_path, monkeypatch):
    def full(number):
        raise OSError(errno.ENOSPC, "No space left on device")

    run(small_study(seeds=[3]), tmp_path, workers=1)
    before = bytes_of(tmp_path)
    monkeypatch.setattr(os, "fsync", full)

    with pytest.raises(OSError, match=r"No space left on device: '.*study\.json'"):
        run(small_study(), tmp_path, workers=1)

    assert bytes_of(tmp_path) == before
    assert not list(tmp_path.rglob("*.partial"))


def test_what_a_killed_run_left_behind_is_cleaned_up(tmp_path):
    run(small_study(), tmp_path, workers=1)
    left = [tmp_path / "jobs" / ".x.parquet.123.partial", tmp_path / ".study.json.4.partial"]
    for path in left:
        path.write_bytes(b"half")

    run(small_study(), tmp_path, workers=1)

    assert not any(path.exists() for path in left)


def test_a_failed_job_is_named_and_the_others_are_kept(tmp_path, played):
    policies = {"Good": mixed, "Bad": failing}
    with pytest.raises(
        StudyIncomplete, match=r"2 of 4 jobs failed.*'Bad' in 'groups' with seed 3 and 1 more: ZeroDivisionError"
    ) as raised:
        run(small_study(policies=policies), tmp_path, workers=1)

    assert len(bytes_of(tmp_path)) == 2
    assert "nine is too many" in raised.value.failures["'Bad' in 'groups' with seed 8"]
    played.clear()
    with pytest.raises(StudyIncomplete, match="run the study again"):
        run(small_study(policies=policies), tmp_path, workers=1)
    assert {policy for policy, _ in played} == {"Bad"}


def test_a_cause_that_strikes_many_jobs_is_reported_once(tmp_path):
    with pytest.raises(StudyIncomplete) as raised:
        run(small_study(policies={"Bad": failing}, seeds=4), tmp_path, workers=1)

    message = str(raised.value)
    assert message.count("nine is too many") == 1
    assert "4 of 4 jobs failed, none is finished. 'Bad' in 'groups' with seed 0 and 3 more: Zero" in message


def test_the_traceback_of_a_failed_job_lies_in_the_folder_until_it_is_finished(tmp_path, monkeypatch):
    study = small_study(policies={"Good": mixed, "Bad": failing}, seeds=[3])
    bad = next(job for job in study.jobs if job.policy == "Bad")
    with pytest.raises(StudyIncomplete, match=rf"traceback in '.*failures/{bad.id}\.txt'"):
        run(study, tmp_path, workers=1)

    (file,) = (tmp_path / "failures").iterdir()

    text = file.read_text(encoding="utf-8")
    assert text.startswith("'Bad' in 'groups' with seed 3\n\nTraceback")
    assert 'raise ZeroDivisionError("nine is too many")' in text
    monkeypatch.setattr(FailsLater, "_pick", UniformRandom._pick)
    run(study, tmp_path, workers=1)
    assert not (tmp_path / "failures").exists()


def test_a_traceback_goes_with_its_job_and_others_stay(tmp_path):
    both = small_study(policies={"Bad": failing}, seeds=[3, 4])
    with pytest.raises(StudyIncomplete):
        run(both, tmp_path, workers=1)
    left = tmp_path / "failures" / ".x.txt.1.partial"
    left.write_bytes(b"half")

    with pytest.raises(StudyIncomplete):
        run(small_study(policies={"Bad": failing}, seeds=[4]), tmp_path, workers=1)

    assert [path.stem for path in (tmp_path / "failures").iterdir()] == [both.jobs[1].id]


def test_a_policy_that_exits_fails_its_job_only(tmp_path):
    with pytest.raises(StudyIncomplete, match=r"2 of 4 jobs failed, the others are finished.*SystemExit: enough"):
        run(small_study(policies={"Exits": exits, "Random": PolicySpec(UniformRandom)}), tmp_path, workers=1)

    assert len(bytes_of(tmp_path)) == 2


def exits(rng):
    policy = mixed(rng)
    policy.choose = lambda *_, **__: sys.exit("enough")
    return policy


def test_an_interrupt_leaves_what_is_finished(tmp_path, monkeypatch):
    honest, calls = runner.run_job, []

    def interrupted(study, job, progress=None):
        calls.append(job)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return honest(study, job, progress)

    monkeypatch.setattr(runner, "run_job", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(small_study(), tmp_path, workers=1)

    assert len(bytes_of(tmp_path)) == 2
    assert run(small_study(), tmp_path, workers=1).is_complete


def test_a_second_run_into_the_same_folder_has_to_wait(tmp_path):
    with locked(tmp_path), pytest.raises(FolderInUse, match="Another run is writing into"):
        run(small_study(), tmp_path, workers=1)


def test_progress_counts_rounds(tmp_path):
    reported = []
    run(small_study(horizon=120), tmp_path, workers=1, progress=lambda done, total: reported.append((done, total)))

    done = [finished for finished, _ in reported]
    assert done == sorted(done)
    assert (reported[0], reported[-1]) == ((1, 720), (720, 720))


@pytest.mark.parametrize(
    ("poll_seconds", "expected"),
    [(0.0, [(1, -1), (2, -1), (3, -1), (3, -1), (3, 1), (3, 2), (3, 3), (3, 3)]), (3600.0, [(1, -1), (3, -1), (3, 3)])],
)
def test_progress_moves_within_a_job_but_not_more_often_than_anyone_looks(poll_seconds, expected):
    study, reported = small_study(horizon=3, seeds=2, policies={"A": mixed}), []
    work = runner._StudyWork(study, study.jobs)

    outcomes = list(run_serial(work, lambda rounds: reported.append(tuple(rounds)), poll_seconds=poll_seconds))

    assert [number for number, _ in outcomes] == [0, 1]
    assert reported == expected


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"engine": "dask"}, "The engine is 'local' or 'ray', got 'dask'"),
        ({"address": "auto"}, "An address is that of a Ray cluster"),
        ({"engine": "ray", "address": "nonsense"}, "is HOST:PORT or 'auto', got 'nonsense'"),
        ({"workers": 0}, "The number of workers must be"),
    ],
)
def test_bad_options_are_rejected_before_anything_is_written(tmp_path, options, message):
    with pytest.raises(InvalidParameter, match=message):
        run(small_study(), tmp_path / "none", **options)

    assert not (tmp_path / "none").exists()


def test_a_lambda_is_rejected_for_processes_and_taken_here(tmp_path):
    study = small_study(policies={"A": lambda rng: mixed(rng)}, horizon=5)

    with pytest.raises(InvalidParameter, match=r"policies\.A cannot be sent to other processes.*workers=1"):
        run(study, tmp_path, workers=2)
    assert run(study, tmp_path, workers=1).is_complete


@pytest.mark.parametrize(("package", "options"), [("ray", {"engine": "ray"}), ("pyarrow", {})])
def test_a_missing_package_names_its_extra(tmp_path, monkeypatch, package, options):
    monkeypatch.setitem(sys.modules, package, None)

    with pytest.raises(MissingExtra, match=r'pip install "kernelbandits\[(experiments,ray|experiments)\]"'):
        run(small_study(), tmp_path, **options)


@pytest.mark.long
def test_processes_give_the_same_bytes_and_name_their_failures(tmp_path):
    policies = {"Mixed": mixed, "Bad": failing}
    reported = []
    for folder, workers in (("one", 1), ("two", 2)):
        with pytest.raises(StudyIncomplete, match="ZeroDivisionError: nine is too many"):
            run(
                small_study(policies=policies, seeds=2),
                tmp_path / folder,
                workers=workers,
                progress=lambda done, total: reported.append((done, total)),
            )

    assert bytes_of(tmp_path / "one") == bytes_of(tmp_path / "two")
    assert len(bytes_of(tmp_path / "two")) == 2
    assert reported[-1] == (92, 92)


@pytest.mark.long
def test_a_job_that_kills_its_process_fails_alone(tmp_path):
    others = {f"Random {n}": PolicySpec(UniformRandom, learn_rounds=n) for n in range(4)}
    study = small_study(policies={"Deadly": deadly, **others}, seeds=[5])
    reported = []

    with pytest.raises(
        StudyIncomplete, match=r"1 of 5 jobs failed.*'Deadly' in 'groups' with seed 5: its process ended"
    ) as raised:
        run(study, tmp_path, workers=2, progress=lambda *at: reported.append(at))

    assert list(raised.value.failures) == ["'Deadly' in 'groups' with seed 5"]
    assert set(bytes_of(tmp_path)) == {f"{job.id}.parquet" for job in study.jobs if job.policy != "Deadly"}
    assert reported[-1] == (5 * 23, 5 * 23)


@pytest.mark.long
@pytest.mark.parametrize("n_deaths", [1, 2, 12])
def test_processes_that_die_before_their_first_job_are_started_again(tmp_path, n_deaths):
    folder = tmp_path / "deaths"
    folder.mkdir()
    for number in range(n_deaths):
        (folder / str(number)).touch()
    study = small_study(environments={"late": DiesOnArrival(n_actions=4, folder=str(folder))}, seeds=[5])

    if n_deaths <= 2:
        assert run(study, tmp_path / "results", workers=2).is_complete
        assert not list(folder.iterdir())
    else:
        with pytest.raises(StudyIncomplete, match=r"3 of 3 jobs failed, none is finished.*no worker process started"):
            run(study, tmp_path / "results", workers=2)


@pytest.mark.long
def test_ray_gives_the_same_bytes(tmp_path):
    pytest.importorskip("ray")
    study = small_study(horizon=60)
    run(study, tmp_path / "local", workers=1)

    run(study, tmp_path / "ray", engine="ray")

    assert bytes_of(tmp_path / "ray") == bytes_of(tmp_path / "local")


def test_nothing_of_a_results_file_depends_on_what_was_played_before(tmp_path):
    whole, part = small_study(), small_study(seeds=[8])
    run(whole, tmp_path / "whole", workers=1)

    run(part, tmp_path / "part", workers=1)

    assert bytes_of(tmp_path / "part").items() <= bytes_of(tmp_path / "whole").items()
    assert len(bytes_of(tmp_path / "part")) == 3


def flipped(content, place, bit):
    damaged = bytearray(content)
    damaged[place] ^= 1 << bit
    return bytes(damaged)


@pytest.fixture
def unnoticed(tmp_path):
    """How many of this many flips, anywhere in the file of a result, leave it finished."""
    (name, *_) = run(small_study(), tmp_path, workers=1).study["jobs"]
    path = tmp_path / "jobs" / f"{name}.parquet"
    content, rng = path.read_bytes(), np.random.default_rng(0)
    assert store.ResultFolder(tmp_path).is_finished(name)

    def count(n_flips):
        found = 0
        for place, bit in zip(rng.integers(len(content), size=n_flips), rng.integers(8, size=n_flips), strict=True):
            path.write_bytes(flipped(content, place, bit))
            found += store.ResultFolder(tmp_path).is_finished(name)
        return found

    return count


@pytest.mark.parametrize("n_flips", [500, pytest.param(20_000, marks=pytest.mark.long)])
def test_any_flipped_bit_of_a_result_is_noticed(unnoticed, n_flips):
    """Wherever it lies: data, footer, digest, and the names of the digest."""
    assert unnoticed(n_flips) == 0


def test_without_a_digest_of_the_whole_flips_go_unnoticed(unnoticed, monkeypatch):
    monkeypatch.setattr(store, "_digest_of", lambda content, start, end: content[start:end])

    assert unnoticed(200) > 20


def test_a_damaged_result_is_named_by_a_report_and_made_again_by_a_run(tmp_path, played):
    results = run(small_study(), tmp_path, workers=1)
    before, path = bytes_of(tmp_path), tmp_path / "jobs" / f"{results.study['jobs'][1]}.parquet"
    content = path.read_bytes()
    path.write_bytes(flipped(content, len(content) - 20, 3))
    played.clear()

    with pytest.raises(DamagedFile, match=rf"{path.stem}.*checksum does not match.*run the study again"):
        read_results(tmp_path)
    run(small_study(), tmp_path, workers=1)

    assert len(played) == 1
    assert bytes_of(tmp_path) == before


def test_files_without_a_digest_are_not_results(tmp_path, played):
    results = run(small_study(), tmp_path, workers=1)
    before = bytes_of(tmp_path)
    for path in (tmp_path / "jobs").iterdir():
        table = store.read_parquet(path)
        metadata = {key: value for key, value in table.schema.metadata.items() if key != store.DIGEST_KEY}
        pq.write_table(table.replace_schema_metadata(metadata), path, compression="zstd", write_page_checksum=True)
    played.clear()

    assert not results.is_complete
    with pytest.raises(ForeignFile, match="was not written by a study"):
        read_results(tmp_path)
    run(small_study(), tmp_path, workers=1)

    assert len(played) == 6
    assert bytes_of(tmp_path) == before
