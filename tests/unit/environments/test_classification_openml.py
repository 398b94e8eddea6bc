"""`from_openml` through scikit-learn itself, which finds answers of openml.org in its folder and sends no request."""

import gzip
import hashlib
import json

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from kernelbandits.environments import Classification
from kernelbandits.errors import DataUnavailable, InvalidParameter

TABLE = """@RELATION fruit
@ATTRIBUTE size NUMERIC
@ATTRIBUTE color {red,'dark green'}
@ATTRIBUTE kind {no,yes}
@DATA
1.5,red,no
2.5,'dark green',yes
-3.5,red,yes
"""
COLUMNS = {"size": "numeric", "color": "nominal", "kind": "nominal"}
FILE = "data/v1/download/7/fruit.arff"
ANY_VERSION = "api/v1/json/data/list/data_name/fruit/limit/2"


@pytest.fixture
def home(tmp_path, monkeypatch):
    """The folder of a set that was fetched before; a request to the network fails."""
    pytest.importorskip("sklearn")
    pytest.importorskip("pandas")
    monkeypatch.setattr("sklearn.datasets._openml.urlopen", reject)
    listed = {"data": {"dataset": [{"did": 1, "name": "fruit", "version": 3, "status": "active", "format": "ARFF"}]}}
    keep(tmp_path, f"{ANY_VERSION}/data_version/3", json.dumps(listed))
    keep(tmp_path, f"{ANY_VERSION}/status/active/", json.dumps(listed))
    keep(tmp_path, "api/v1/json/data/1", json.dumps({"data_set_description": description(TABLE)}))
    keep(tmp_path, "api/v1/json/data/features/1", json.dumps({"data_features": {"feature": features()}}))
    keep(tmp_path, "api/v1/json/data/qualities/1", json.dumps({"data_qualities": {"quality": []}}))
    keep(tmp_path, FILE, TABLE)
    return tmp_path


def reject(*_):
    raise OSError("the network must not be used")


def keep(home, path, text):
    """Put an answer where scikit-learn keeps it."""
    file = home / "openml" / "openml.org" / f"{path}.gz"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(gzip.compress(text.encode()))


def description(table):
    return {
        "id": "1", "name": "fruit", "version": "3", "format": "ARFF", "status": "active", "file_id": "7",
        "description": "made up", "url": f"https://www.openml.org/{FILE}", "default_target_attribute": "kind",
        "md5_checksum": hashlib.md5(table.encode(), usedforsecurity=False).hexdigest(),
    }  # fmt: skip


def features(missing_labels="0"):
    return [
        {
            "index": str(place), "name": name, "data_type": kind, "is_target": str(name == "kind").lower(),
            "is_ignore": "false", "is_row_identifier": "false",
            "number_of_missing_values": missing_labels if name == "kind" else "0",
        }
        for place, (name, kind) in enumerate(COLUMNS.items())
    ]  # fmt: skip


@pytest.mark.parametrize("version", [3, "active"])
def test_a_set_that_was_fetched_before_is_read_from_its_folder(home, version):
    world = Classification.from_openml("fruit", version=version, data_home=str(home), encoding="pairs", shuffle=False)

    assert world.classes == ("no", "yes")
    colors = world.features[:, 1:]
    assert_array_equal(world.features[:, 0], [1.5, 2.5, -3.5])
    assert_array_equal(colors[0], colors[2])
    assert not np.array_equal(colors[0], colors[1])
    observed = world.start(np.random.default_rng(0))
    observed.observe()
    assert (observed.reward(0), observed.reward(1)) == (1.0, 0.0)


def test_what_scikit_learn_rejects_is_reported_with_its_reason(home):
    reported = {"data_features": {"feature": features(missing_labels="1")}}
    keep(home, "api/v1/json/data/features/1", json.dumps(reported))

    with pytest.raises(
        InvalidParameter, match=r"no data set that scikit-learn can read: 'fruit', version 3.*1 missing values"
    ):
        Classification.from_openml("fruit", version=3, data_home=str(home))


def test_negative_control_a_set_that_was_not_fetched_needs_the_network(home):
    with (
        pytest.warns(RuntimeWarning, match="redownloading"),  # scikit-learn tries once more
        pytest.raises(DataUnavailable, match=r"'shells' could not be fetched.*the network must not be used"),
    ):
        Classification.from_openml("shells", version=3, data_home=str(home))
