"""An agent's narration ranks below what says something."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from helix.stages.narration import demote_narration
from helix.types import Candidates
from tests.support.tiny import make_store

TEXTS = ("Now let me check the queue test.", "The queue test needs redis.", "Now let me check the queue test.")


def test_narration_loses_its_share(tmp_path: Path) -> None:
    given = [{"role": "assistant"}, {"role": "assistant"}, {"role": "user"}]
    snap = make_store(tmp_path, TEXTS, given=given)
    nothing = np.full(3, np.nan, np.float32)
    pool = Candidates(np.arange(3, dtype=np.uint32), *([nothing] * 12), np.array([0.9, 0.6, 0.5], np.float32))
    found = demote_narration(pool, snap, 0.5)
    assert found.row.tolist() == [1, 2, 0]
    assert found.final.tolist() == pytest.approx([0.6, 0.5, 0.45])
    assert demote_narration(pool, snap, 0.0).row.tolist() == [0, 1, 2]
