"""A log that is cut at any byte and ingested again after it grew gives the items of the whole."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import helix
from helix.errors import InputRefused
from helix.settings import Settings
from helix.sources import registry as sources
from helix.types import Document
from pipelines.ingest import increments as links
from tests.support.draws import draw_share
from tests.support.paths import DATA
from tests.support.replay import Replay

FOLDERS = (Path(helix.__file__).parent / "sample", DATA / "logs")


def _grows(path: Path) -> bool:
    data = path.read_bytes()
    return bool(links.detect_growing(data, True, str(path), "auto", Settings()))


LOGS = [path for folder in FOLDERS for path in sorted(folder.iterdir()) if path.is_file() and _grows(path)]


def test_the_logs_cover_every_growing_format() -> None:
    found = {sources.detect(Document(str(path), path.read_text())).NAME for path in LOGS}
    assert found == {name for name, adapter in sources.FORMATS.items() if adapter.GROWS}


@pytest.mark.parametrize("log", LOGS, ids=lambda path: path.name)
@given(st.data())
@draw_share(0.08)
def test_cut_anywhere(log: Path, data: st.DataObject) -> None:
    content = log.read_bytes()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(content)), min_size=1, max_size=4), label="cuts"))
    with tempfile.TemporaryDirectory() as folder:
        replay = Replay(Path(folder) / "store")
        path = Path(folder) / log.name
        for cut in (*cuts, len(content)):
            path.write_bytes(content[:cut])
            if cut < len(content):
                os.utime(path)  # somebody is writing
            else:
                os.utime(path, (1_700_000_000, 1_700_000_000))
            try:
                replay.offer(path)
            except InputRefused:  # nothing in it yet, or no whole line
                assert cut < len(content)
        whole = Replay(Path(folder) / "other")
        whole.offer(path)
        assert replay.compare_fields() == whole.compare_fields()
        assert whole.items


@pytest.mark.parametrize("log", LOGS, ids=lambda path: path.name)
@pytest.mark.parametrize("block", [1, 400, 5_000])
def test_blocks_of_any_size(log: Path, block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Replay(tmp_path / "whole")
    path = tmp_path / log.name
    path.write_bytes(log.read_bytes())
    os.utime(path, (1_700_000_000, 1_700_000_000))
    whole.offer(path)
    monkeypatch.setattr(links, "BLOCK", block)
    parts = Replay(tmp_path / "parts")
    documents = parts.offer(path)
    assert parts.compare_fields() == whole.compare_fields()
    assert len(documents) >= min(len(log.read_bytes()) // max(block, 1_000) // 2, 2)
