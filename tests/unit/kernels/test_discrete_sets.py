import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from kernelbandits.kernels import Jaccard

MEMBERS = st.one_of(st.integers(0, 4), st.sampled_from(["0", "a", ""]))
COLLECTIONS = st.lists(st.frozensets(MEMBERS, max_size=5), min_size=1, max_size=6)


@given(COLLECTIONS, COLLECTIONS)
def test_jaccard_is_the_share_of_members_in_common(first, second):
    gram = Jaccard().gram(first, second)

    assert_allclose(gram, [[len(a & b) / len(a | b) if a | b else 1.0 for b in second] for a in first])


def test_two_empty_sets_are_alike_and_unlike_all_others():
    assert_allclose(Jaccard().gram([set(), {"a"}], [set()]), [[1.0], [0.0]])


def test_numbers_and_their_digits_are_different_members():
    assert_allclose(Jaccard().gram([{1, "a"}], [{"1", "a"}]), [[1 / 3]])


@given(COLLECTIONS)
def test_jaccard_is_positive_semi_definite(sets):
    assert np.linalg.eigvalsh(Jaccard().gram(sets)).min() > -1e-10
