"""Fixtures of all tests and examples."""

import pytest
from hypothesis import HealthCheck, settings

import kernelbandits as kb

settings.register_profile("any speed", settings.default, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any speed")  # no test fails because the machine is slow, or does other work


def pytest_addoption(parser):
    parser.addoption("--part", type=_part, default=(1, 1), metavar="K/N", help="run the k-th of n parts of the tests")


def _part(text):
    k, n = map(int, text.split("/"))
    if not 1 <= k <= n:
        raise ValueError(text)
    return k, n


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    """Keep every n-th test, from the k-th on: parts take about as long as each other, and run on any machines."""
    k, n = config.getoption("part")
    left_out = [item for place, item in enumerate(items) if place % n != k - 1]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = items[k - 1 :: n]


@pytest.fixture(scope="session", autouse=True)
def compiled_loops():
    """Selectors answer from the first round on: before loops are compiled, all actions are scored."""
    kb.compile_ahead()


@pytest.fixture(autouse=True)
def folder_of_its_own(request, monkeypatch):
    """Examples in the docs may write files: each runs in a folder of its own."""
    if isinstance(request.node, pytest.DoctestItem):
        monkeypatch.chdir(request.getfixturevalue("tmp_path"))
