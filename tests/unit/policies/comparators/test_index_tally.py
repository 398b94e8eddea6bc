import numpy as np

from kernelbandits.policies.comparators.index import Tally


def test_counts_and_sums_are_those_of_a_dictionary():
    rng, tally, plain = np.random.default_rng(0), Tally(), {}
    items = [*range(40), *(str(number) for number in range(40))]
    for _ in range(500):
        item, total = items[rng.integers(len(items))], float(rng.normal())
        tally.add(item, 2, total)
        count, before = plain.get(item, (0, 0.0))
        plain[item] = count + 2, before + total

    found = tally.of([*items, "never"])

    assert found.T.tolist() == [list(plain.get(item, (0, 0.0))) for item in [*items, "never"]]


def test_a_number_and_its_text_are_two_items():
    tally = Tally()
    tally.add(1, 3, 0.5)

    assert tally.of([1, "1"])[0].tolist() == [3.0, 0.0]


def test_what_was_taken_back_leaves_nothing():
    tally = Tally()
    tally.add("a", 1, 0.1)
    tally.add("a", 1, 0.2)
    tally.add("a", -1, -0.1)
    tally.add("a", -1, -0.2)

    assert tally.of(["a"]).tolist() == [[0.0], [0.0]]
    assert tally.state()["counts"].tolist() == []


def test_a_restored_tally_is_the_same():
    tally, other = Tally(), Tally()
    for number in range(30):
        tally.add(number if number % 2 else str(number), number, 0.25 * number)

    other.restore(tally.state())

    items = [*range(30), *map(str, range(30))]
    np.testing.assert_array_equal(other.of(items), tally.of(items))
