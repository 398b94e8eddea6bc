import pytest

from kernelbandits.environments import datasets, from_file
from kernelbandits.environments.datasets import LOADERS
from kernelbandits.errors import InvalidParameter

NEWS = "class,title,description\nSports,Goal,Late.\nWorld,Vote,Soon.\n"


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "news.csv"
    file.write_text(NEWS)
    return str(file)


def test_a_name_finds_the_function_of_that_name(path):
    named = from_file("agnews", path, n_actions=1, wanted="World")

    assert named.describe() == datasets.agnews(path, n_actions=1, wanted="World").describe()
    assert all(getattr(datasets, name) is loader for name, loader in LOADERS.items())


def test_an_unknown_name_is_rejected_with_those_that_are_known(path):
    with pytest.raises(InvalidParameter, match=r"abalone, adult.*'obd'.*open_bandit"):
        from_file("obd", path)


def test_options_that_do_not_fit_are_rejected_by_name(path):
    with pytest.raises(InvalidParameter, match=r"data set 'agnews': \['actions'\].*unexpected keyword"):
        from_file("agnews", path, actions=3)
