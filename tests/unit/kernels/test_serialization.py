import json

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from kernelbandits import kernels
from kernelbandits.errors import CannotSave, ForeignFile
from kernelbandits.kernels import (
    Columns,
    Constant,
    Delta,
    FromCallable,
    Gaussian,
    Linear,
    Normalized,
    Objects,
    PairProduct,
    PairSum,
    Precomputed,
    Product,
    Rows,
    SimilarityTable,
    Spectrum,
    Strings,
    Sum,
    TfIdf,
    repair,
    unpack_kernel,
)
from kernelbandits.kernels.serialization import known
from kernelbandits.types import Pairs

TABLE = SimilarityTable(np.array([[1.0, 0.3], [0.3, 2.0]]), ids=["a", "b"])


def through_a_file(kernel):
    parameters, arrays = kernel.pack()
    return unpack_kernel(json.loads(json.dumps(parameters)), {name: array.copy() for name, array in arrays.items()})


def test_deep_nests_survive():
    kernel = PairSum(
        context=2 * Precomputed(TABLE) + Normalized(Product((Precomputed(TABLE), Precomputed(TABLE)))) + 0.5,
        action=PairProduct(
            context=Columns(Gaussian(length_scale=[0.5, 2.0]), [2, 0]) * Delta(kind=Rows()) + Linear(),
            action=3 * TfIdf(["boat", "coat"]) + Spectrum(n=(1, 2)) * 0.1 + 2,
        ),
    )
    pairs = Pairs("b", Pairs([1.0, 2.0, 3.0], ["boat", "goat"]))

    loaded = through_a_file(kernel)

    assert loaded.describe() == kernel.describe()
    assert_array_equal(loaded.gram(pairs), kernel.gram(pairs))


def test_a_table_used_in_several_places_stays_one_table():
    kernel = 2 * Precomputed(TABLE) + Normalized(Precomputed(TABLE)) + 1

    loaded = through_a_file(kernel)
    table = loaded.parts[0].kernel.table
    table.add(["c"], to_known=[[0.1, 0.2]], among_new=[[1.0]])

    assert table is not TABLE
    assert loaded.parts[1].kernel.table is table
    assert loaded.gram(["c"]).shape == (1, 1)


def test_different_tables_stay_different():
    kernel = PairProduct(Precomputed(TABLE), Precomputed(repair(TABLE)[0]))

    loaded = through_a_file(kernel)

    assert loaded.context.table is not loaded.action.table
    assert loaded.action.table.method == "clip"


@pytest.mark.parametrize(
    "kernel",
    [
        Constant(2.0, kind=Strings()),
        Sum((Constant(2.0, kind=Strings()), 3 * Constant(1.0, kind=Strings()))),
        Spectrum() + 1,
        1 + Normalized(Constant(1.0)) * Spectrum(),
        PairSum(Constant(1.0, kind=Strings()), Linear()),
        Delta(kind=PairSum(Spectrum(), Linear()).kind),
    ],
)
def test_constants_keep_their_kind_of_points(kernel):
    loaded = through_a_file(kernel)

    assert loaded == kernel
    assert loaded.kind == kernel.kind


@pytest.mark.parametrize("name", ["FromCallable", "FromScikitLearn", "Kernel", "os.system", "", None, 3])
def test_a_kernel_that_is_not_known_is_foreign(name):
    with pytest.raises(ForeignFile, match="The file holds a kernel that this version does not know"):
        unpack_kernel({"class": name}, {})


@pytest.mark.parametrize(
    "parameters",
    [
        {"class": "Gaussian"},
        {"class": "Linear", "slope": 2.0},
        {"class": "Precomputed"},
        {"class": "TfIdf", "n": [2, 3]},
    ],
)
def test_parameters_that_are_not_known_are_foreign(parameters):
    with pytest.raises(ForeignFile, match=f"describes a {parameters['class']} kernel in a way this version does not"):
        unpack_kernel(parameters, {})


def test_a_foreign_kernel_inside_another_is_found():
    with pytest.raises(ForeignFile, match="does not know: 'Evil'"):
        unpack_kernel({"class": "Sum", "parts": [{"class": "Linear"}, {"class": "Evil"}]}, {})
    with pytest.raises(ForeignFile, match="does not know: None"):
        unpack_kernel({}, {})


@pytest.mark.parametrize(
    "kernel", [Delta(kind=Objects()), Linear() + FromCallable(lambda x, z: x @ z.T), Constant(1.0, kind=Objects())]
)
def test_what_cannot_be_saved_says_so(kernel):
    with pytest.raises(CannotSave, match=r"kb.load"):
        kernel.pack()


def test_every_kernel_of_ours_can_be_loaded():
    ours = {name for name in kernels.__all__ if isinstance(getattr(kernels, name), type)}
    ours = {name for name in ours if issubclass(getattr(kernels, name), kernels.Kernel)}

    assert set(known()) == ours - {"Kernel", "FromCallable", "FromScikitLearn"}
