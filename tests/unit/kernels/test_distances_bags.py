import numpy as np
import pytest
from numpy.testing import assert_allclose

from kernelbandits.kernels._distances import bag_products


def bag(weights):
    return np.array(list(weights), dtype=np.int32), np.array(list(weights.values()), dtype=np.float64)


WEIGHTS = [{0: 2.0, 3: 1.5}, {}, {3: -1.0, 1: 4.0}, {4: 1.0, 0: 0.5}]


@pytest.mark.parametrize("limit", [0, 10**6], ids=["sparse", "written out"])
@pytest.mark.parametrize(("n_first", "n_second"), [(4, 4), (4, 2), (2, 4), (1, 1), (0, 3), (3, 0)])
def test_products_are_sums_over_shared_things(limit, n_first, n_second):
    first, second = WEIGHTS[:n_first], WEIGHTS[::-1][:n_second]

    products = bag_products([bag(x) for x in first], [bag(z) for z in second], 5, dense_entries=limit)

    expected = [[sum(x[thing] * z[thing] for thing in x if thing in z) for z in second] for x in first]
    assert products.shape == (n_first, n_second)
    assert_allclose(products, np.reshape(expected, (n_first, n_second)))


def test_a_side_compared_with_itself_is_symmetric():
    side = [bag(weights) for weights in WEIGHTS]

    products = bag_products(side, side, 5)

    assert_allclose(products, products.T)
    assert_allclose(np.diagonal(products), [6.25, 0.0, 17.0, 1.25])
