import sys
from io import BytesIO, TextIOWrapper

import pytest

from kernelbandits._text import EQUIVALENTS, encodable
from kernelbandits.errors import InvalidParameter


@pytest.mark.parametrize(
    ("encoding", "text", "shown"),
    [
        ("utf-8", "1 ± 2", "1 ± 2"),
        ("latin-1", "1 ± 2 …", "1 ± 2 ..."),
        ("ascii", "1 ± 2 … ‖f‖ ≤ ü", "1 +- 2 ... ||f|| <= ?"),
        ("utf-8", "\ud800", "?"),
        ("no such encoding", "±", "+-"),
    ],
)
def test_letters_are_replaced_where_the_output_cannot_show_them(monkeypatch, encoding, text, shown):
    class Output(TextIOWrapper):
        pass

    output = Output(BytesIO(), encoding="utf-8")
    monkeypatch.setattr(Output, "encoding", encoding, raising=False)
    monkeypatch.setattr(sys, "stdout", output)

    found = encodable(text), str(InvalidParameter(text))

    monkeypatch.undo()
    assert found == (shown, shown)


def test_every_equivalent_is_ascii():
    assert all(text.isascii() and not letter.isascii() for letter, text in EQUIVALENTS.items())
