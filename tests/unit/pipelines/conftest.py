"""Stores without a router of questions, which takes seconds to train and makes no difference here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def no_router(cache: Path) -> Iterator[None]:
    """Also makes the default encoder available."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pipelines.ingest.commit.load_router", lambda *_: "not here")
        yield
