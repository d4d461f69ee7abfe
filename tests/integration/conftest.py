"""Fixtures of tests that make or open whole stores."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def stores() -> None:
    """The mark of tests that need a store, for all tests of this folder."""
