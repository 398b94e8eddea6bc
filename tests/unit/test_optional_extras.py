import sys

import pytest

from kernelbandits._optional import import_optional
from kernelbandits.errors import MissingExtra
from kernelbandits.experiments import regret_figure
from kernelbandits.experiments.progress import progress_bar
from kernelbandits.experiments.reports.tables import Table


def test_an_installed_package_is_no_news(capsys):
    assert import_optional("numpy", "This").ndarray is not None

    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("package", "use"),
    [
        ("matplotlib", lambda: regret_figure([])),
        ("rich", lambda: Table(title="", headings=(), rows=()).to_rich()),
        ("rich", lambda: progress_bar(1, "").__enter__()),
    ],
)
def test_a_missing_package_is_named_with_the_command_that_adds_it(monkeypatch, package, use):
    monkeypatch.setitem(sys.modules, package, None)

    with pytest.raises(MissingExtra, match=rf'needs {package}, .*pip install "kernelbandits\[experiments\]"'):
        use()
