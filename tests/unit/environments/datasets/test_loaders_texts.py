import pytest

from kernelbandits.environments import Candidates, Classification, FixedCatalog
from kernelbandits.environments.datasets import agnews, newsfeeds, splice
from kernelbandits.errors import ForeignFile, InvalidParameter

FEEDS = "site,language,topic,feed_url\na.it,it,tech,http://a.it/rss\nb.de,de,sport,http://b.de/f\nc.de,de,tech,http://c.de\n"
NEWS = 'class,title,description\nSports,"Goal, again",Late.\nWorld,Vote,Soon.\nSports,Match,Lost.\n'
GENES = "class,sequence\nEI,ACGT\nN,TTTT\nIE,CCGA\nN,ACCT\n"


@pytest.fixture
def write(tmp_path):
    def written(text):
        path = tmp_path / "table.csv"
        path.write_text(text)
        return path

    return written


def test_feeds_of_the_wanted_topic_pay(write):
    environment = newsfeeds(write(FEEDS), n_actions=2)

    assert isinstance(environment, Candidates)
    assert environment.items == ["http://a.it/rss", "http://b.de/f", "http://c.de"]
    assert environment.values.tolist() == [1.0, 0.0, 1.0]
    assert newsfeeds(write(FEEDS), wanted="it", column="language", n_actions=1).values.tolist() == [1.0, 0.0, 0.0]


def test_news_are_known_by_title_or_description(write):
    assert agnews(write(NEWS), n_actions=3, noise_scale=0.5).items == ["Goal, again", "Vote", "Match"]
    assert agnews(write(NEWS), wanted="World", text="description", n_actions=3).values.tolist() == [0.0, 1.0, 0.0]


def test_sequences_are_classified_as_pairs_unless_specified(write):
    environment = splice(write(GENES), shuffle=False)

    assert isinstance(environment, Classification)
    assert environment.encoding == "pairs"
    assert environment.classes == ("EI", "IE", "N")
    assert environment.features == ["ACGT", "TTTT", "CCGA", "ACCT"]


@pytest.mark.parametrize(("wanted", "values"), [("junction", [1, 0, 1, 0]), ("N", [0, 1, 0, 1])])
def test_texts_may_be_a_catalog_without_noise(write, wanted, values):
    environment = splice(write(GENES), task="catalog", wanted=wanted)

    assert isinstance(environment, FixedCatalog)
    assert environment.values.tolist() == values
    assert environment.reward_range == (0.0, 1.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"wanted": "sport"}, r"class 'sport'.*\['Sports', 'World'\]"),
        ({"task": "regression"}, "task must be one of"),
        ({"text": "class"}, "text of an article"),
    ],
)
def test_what_makes_no_sense_is_rejected(write, options, message):
    with pytest.raises(InvalidParameter, match=message):
        agnews(write(NEWS), **{"n_actions": 2, **options})


def test_another_table_is_rejected(write):
    with pytest.raises(ForeignFile, match="not the 'agnews' table"):
        agnews(write(GENES))
