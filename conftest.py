"""Fixtures of all tests and examples."""

import pytest

import kernelbandits as kb


@pytest.fixture(scope="session", autouse=True)
def compiled_loops():
    """Selectors answer from the first round on: before loops are compiled, all actions are scored."""
    kb.compile_ahead()


@pytest.fixture(autouse=True)
def folder_of_its_own(request, monkeypatch):
    """Examples in the docs may write files: each runs in a folder of its own."""
    if isinstance(request.node, pytest.DoctestItem):
        monkeypatch.chdir(request.getfixturevalue("tmp_path"))
