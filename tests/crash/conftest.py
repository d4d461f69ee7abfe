"""Fixtures of the tests of crashes, which take long."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def processes() -> None:
    """The mark of tests that start processes, for all tests of this folder."""
