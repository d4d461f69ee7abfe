"""Fixtures of the tests of encoders, which export models."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def encoders() -> None:
    """The mark of tests that export or load an encoder, for all tests of this folder."""
