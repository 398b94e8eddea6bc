"""Examples in the docs may write files: each runs in a folder of its own."""

import pytest


@pytest.fixture(autouse=True)
def folder_of_its_own(request, monkeypatch):
    if isinstance(request.node, pytest.DoctestItem):
        monkeypatch.chdir(request.getfixturevalue("tmp_path"))
