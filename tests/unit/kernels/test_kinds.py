import json

import pytest

from kernelbandits.errors import CannotSave, ForeignFile
from kernelbandits.kernels import Ids, Objects, PairPoints, Precomputed, Rows, Sets, Strings
from kernelbandits.kernels.kinds import pack_kind, unpack_kind


@pytest.mark.parametrize(
    "kind", [Rows(), Strings(), Ids(), Sets(), PairPoints(Rows(), Sets()), PairPoints(Ids(), PairPoints(Rows(), Ids()))]
)
def test_a_kind_survives_packing(kind):
    assert unpack_kind(json.loads(json.dumps(pack_kind(kind)))) == kind


@pytest.mark.parametrize("kind", [Objects(), Precomputed([[1.0]]).kind, PairPoints(Rows(), Objects())])
def test_a_kind_with_a_life_of_its_own_is_not_saved(kind):
    with pytest.raises(CannotSave, match=r"A file can name rows, strings, .* and not (Objects|TableIds)"):
        pack_kind(kind)


@pytest.mark.parametrize("value", ["os.system", "Objects", None, 3, {"context": "Rows"}, ["Rows"]])
def test_a_kind_that_is_not_known_is_foreign(value):
    with pytest.raises(ForeignFile, match="names a kind of points that this version does not know"):
        unpack_kind(value)
