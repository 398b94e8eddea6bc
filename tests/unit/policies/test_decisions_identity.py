import copy
import os

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kernelbandits.policies.decisions import ISSUED, IdIssuer, LearnedIds

NAMES = st.one_of(
    st.text(min_size=1),
    st.builds("{}-{}".format, st.sampled_from(["0123456789abcdef", "fedcba9876543210"]), st.integers(0, 10**15)),
)


def test_ids_are_unique_across_issuers_and_copies():
    issuer = IdIssuer()
    first = [issuer.next() for _ in range(3)]
    copied = copy.deepcopy(issuer)

    names = first + [made.next() for made in (issuer, copied, IdIssuer()) for _ in range(3)]

    assert len(set(names)) == 12


def test_a_forked_process_issues_its_own():
    issuer = IdIssuer()
    issuer.next()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, issuer.next().encode())
        os._exit(0)
    os.waitpid(child, 0)

    assert os.read(reader, 100).decode() != issuer.next()


@given(st.lists(NAMES), st.lists(NAMES))
def test_it_is_a_set_that_can_be_saved(added, discarded):
    learned, model = LearnedIds(), set()
    for name in added:
        learned.add(name)
        if ISSUED.fullmatch(name):  # ids that callers chose are kept by the ledger
            model.add(name)
    for name in discarded:
        learned.discard(name)
        model.discard(name)

    opened = LearnedIds()
    opened.restore(learned.state())

    for name in [*added, *discarded, "0123456789abcdef-7", "never"]:
        assert (name in learned) == (name in model)
        assert (name in opened) == (name in model)


def test_issued_ids_take_about_a_bit_each():
    issuer, learned = IdIssuer(), LearnedIds()
    for _ in range(100_000):
        learned.add(issuer.next())

    assert sum(array.nbytes for array in learned.state().values()) < 20_000


def test_a_huge_number_takes_no_huge_memory():
    learned = LearnedIds()

    learned.add("0123456789abcdef-9999999999999999")

    assert "0123456789abcdef-9999999999999999" in learned
    assert sum(array.nbytes for array in learned.state().values()) < 10_000


def test_the_state_depends_on_the_set_and_not_on_its_history():
    first, second = LearnedIds(), LearnedIds()
    for name in ("a", "b", "0123456789abcdef-5", "0123456789abcdef-99999"):
        first.add(name)
    for name in ("b", "0123456789abcdef-99999", "fedcba9876543210-1", "a", "0123456789abcdef-5"):
        second.add(name)
    second.discard("fedcba9876543210-1")

    left, right = first.state(), second.state()

    assert left.keys() == right.keys()
    assert all(np.array_equal(left[key], right[key]) for key in left)
