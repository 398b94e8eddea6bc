"""Files with a right checksum and hostile content are rejected, or hold a policy that works."""

import os
import threading

import pytest

import kernelbandits as kb
from kernelbandits.policies import serialization
from saved_files import FAMILIES, PATIENCE, extreme_file, outcomes, same_file

N_CASES = 400
N_EXTREMES, N_EXTREMES_LONG = 48, 150
"""Per family."""
N_CASES_LONG = int(os.environ.get("KERNELBANDITS_FUZZ_CASES", "20000"))


def without_boundary():
    """`load` as it would be without its last resort, in the process that reads the files."""
    serialization.DamagedFile = type("Raw", (Exception,), {})
    serialization.SavedFileError = ()


def complaints(bad):
    return "\n".join(f"case {number} ({family}): {word}: {detail}" for number, family, word, detail in bad)


def test_every_family_is_saved_and_works():
    counts, bad = outcomes(len(FAMILIES), change=same_file)

    assert counts == {"works": len(FAMILIES)}, complaints(bad)


def test_a_changed_file_is_rejected_or_holds_a_policy_that_works():
    counts, bad = outcomes(N_CASES)

    assert not bad, complaints(bad)
    assert sum(counts.values()) == N_CASES
    assert counts["refused"] > N_CASES / 2
    assert counts["works"] > N_CASES / 10  # a change that says nothing new is none


@pytest.mark.long
def test_a_file_changed_in_thousands_of_ways_is_rejected_or_holds_a_policy_that_works():
    counts, bad = outcomes(N_CASES_LONG, seed=1)

    assert not bad, complaints(bad)
    assert sum(counts.values()) == N_CASES_LONG


def test_a_file_full_of_extreme_numbers_is_rejected_or_holds_a_policy_that_works():
    counts, bad = outcomes(N_EXTREMES * len(FAMILIES), change=extreme_file)

    assert not bad, complaints(bad)
    assert counts["refused"] > 5 * len(FAMILIES)
    assert counts["works"] > len(FAMILIES)


@pytest.mark.long
def test_so_it_is_with_extreme_numbers_in_any_array():
    counts, bad = outcomes(N_EXTREMES_LONG * len(FAMILIES), change=extreme_file)

    assert not bad, complaints(bad)
    assert counts["nothing"] > N_EXTREMES_LONG  # all of a family's arrays were changed


def test_a_raw_error_would_be_noticed():
    counts, _ = outcomes(150, setup=without_boundary)

    assert counts["raw error"] > 10


def crash():
    kb.load = lambda _path: os.abort()


def hang():
    kb.load = lambda _path: threading.Event().wait()


@pytest.mark.parametrize(("setup", "patience"), [(crash, PATIENCE), (hang, 0.5)])
def test_a_crash_or_a_hang_ends_its_reader_and_is_counted(setup, patience):
    counts, bad = outcomes(1, setup=setup, patience=patience)

    assert counts == {setup.__name__: 1}
    assert bad[0][2] == setup.__name__
