import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from kernelbandits.environments.datasets import open_bandit
from kernelbandits.errors import ForeignFile, InvalidParameter

HEADER = "item_id,position,click,propensity_score,user_feature_0,user_feature_1,user_feature_2,user_feature_3"
LOG = f"""timestamp,{HEADER},user-item_affinity_0,user-item_affinity_1,user-item_affinity_2
t0,2,1,0,0.25,a,x,x,x,0,0,0
t1,0,3,1,0.5,b,x,x,x,0,0,1
t2,1,1,0,0.125,a,x,y,x,0,0,0
"""
ITEMS = """item_id,item_feature_0,item_feature_1,item_feature_2,item_feature_3
1,4.0,p,u,w
0,0.0,q,u,w
2,2.0,p,u,w
"""


@pytest.fixture
def files(tmp_path):
    (tmp_path / "log.csv").write_text(LOG)
    (tmp_path / "items.csv").write_text(ITEMS)
    return tmp_path


def test_the_log_has_every_item_in_every_round(files):
    log = open_bandit(files / "log.csv")

    assert log.n_actions.tolist() == [3, 3, 3]
    assert log.actions.tolist() == [2, 0, 1]
    assert_array_equal(log.propensities, [0.25, 0.5, 0.125])
    assert_array_equal(log.rewards, [0.0, 1.0, 0.0])
    assert log.rounds[0] == log.ids_of(2) == [0, 1, 2]


def test_a_position_keeps_its_own_decisions(files):
    assert open_bandit(files / "log.csv", position=1).actions.tolist() == [2, 1]
    with pytest.raises(InvalidParameter, match=r"one of \[1, 2, 3\], got 4"):
        open_bandit(files / "log.csv", position=4)


def test_items_are_rows_in_the_order_of_their_ids(files):
    log = open_bandit(files / "log.csv", item_context=files / "items.csv")

    first = (np.array([0.0, 4.0, 2.0]) - 2.0) / np.std([0.0, 4.0, 2.0])
    expected = np.column_stack([first, [0, 1, 1], [1, 0, 0], [1, 1, 1], [1, 1, 1]])
    assert_allclose(log.rounds[0], expected)
    assert log.rounds[0] is log.rounds[2]


def test_users_are_indicators_of_their_features(files):
    log = open_bandit(files / "log.csv", user_context=True)

    assert_array_equal(
        [shown.context for shown in log.rounds], [[1, 0, 1, 1, 0, 1], [0, 1, 1, 1, 0, 1], [1, 0, 1, 0, 1, 1]]
    )
    assert log.rounds[1].actions == [0, 1, 2]


def test_other_files_are_rejected(files):
    (files / "two.csv").write_text(ITEMS.replace("2,2.0,p,u,w\n", ""))

    with pytest.raises(ForeignFile, match=r"items 0 to 2.*describes 2"):
        open_bandit(files / "log.csv", item_context=files / "two.csv")
    with pytest.raises(ForeignFile, match="not the 'obd' table"):
        open_bandit(files / "items.csv")
    with pytest.raises(ForeignFile, match="not the 'obd items' table"):
        open_bandit(files / "log.csv", item_context=files / "log.csv")
