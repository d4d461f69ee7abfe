"""Mark of tests that make or open whole stores."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def stores() -> None:
    """Mark all tests of this folder as tests of stores."""
