"""pytest plugin: registers the mark that the contracts of `kernelbandits.testing` use.

pytest loads it by its entry point wherever the library is installed, so contracts run with `--strict-markers` without
any configuration. It imports nothing of the library but its root, which costs little more than importing NumPy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Register the mark `long`."""
    config.addinivalue_line("markers", 'long: a long statistical test of a contract; leave it out with -m "not long"')
