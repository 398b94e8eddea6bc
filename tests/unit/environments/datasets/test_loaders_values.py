import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from kernelbandits.environments.datasets import abalone, onlinenews
from kernelbandits.environments.datasets.loaders import ABALONE_NUMBERS
from kernelbandits.errors import ForeignFile, InvalidParameter

ARTICLES = """url,timedelta,n_words,rate,shares
http://news.com/2013/01/08/cats-and-dogs/,730,12,0.5,100
http://news.com/2013/01/09/rain/,729,10,0.25,9000
http://news.com/2013/01/09/snow-in-may,729,11,1.0,150
"""


@pytest.fixture
def articles(tmp_path):
    path = tmp_path / "articles.csv"
    path.write_text(ARTICLES)
    return path


def test_abalone_is_standardized_with_rings_from_0_to_1(tmp_path):
    path = tmp_path / "abalone.csv"
    lines = [",".join(["sex", *ABALONE_NUMBERS]), "M,1,1,1,1,1,1,1,5", "F,2,1,1,1,1,1,1,9", "I,6,1,1,1,1,1,1,25"]
    path.write_text("\n".join(lines))

    environment = abalone(path)

    columns = np.array([[2.0, 0.0, 1.0], [1.0, 2.0, 6.0]]).T  # F, I, M in sorted order; length
    assert_allclose(environment.items[:, :2], (columns - columns.mean(axis=0)) / columns.std(axis=0))
    assert_array_equal(environment.items[:, 2:], 0.0)
    assert_array_equal(environment.values, [0.0, 0.2, 1.0])
    assert environment.noise_scale == 0.1
    assert abalone(path, categories="one_hot").items.shape == (3, 10)


def test_articles_are_numbers_without_age_and_ranked_by_shares(articles):
    environment = onlinenews(articles, scaling="none")

    assert_array_equal(environment.items, [[12, 0.5], [10, 0.25], [11, 1]])
    assert_array_equal(environment.values, [0.0, 1.0, 0.5])


def test_articles_may_be_known_by_their_links_or_titles(articles):
    assert onlinenews(articles, features="words").items == ["cats and dogs", "rain", "snow in may"]
    assert onlinenews(articles, features="url", noise_scale=0.0).items[1] == "http://news.com/2013/01/09/rain/"
    with pytest.raises(InvalidParameter, match="The features of an article must be one of"):
        onlinenews(articles, features="title")


def test_another_table_is_rejected(articles, tmp_path):
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")

    with pytest.raises(ForeignFile, match="not the 'abalone' table"):
        abalone(articles)
    for features in ("numbers", "url"):
        with pytest.raises(ForeignFile, match="not the 'onlinenews' table"):
            onlinenews(tmp_path / "other.csv", features=features)
