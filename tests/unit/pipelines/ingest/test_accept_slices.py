"""A large log is accepted in slices of time, so that a watch has time for other files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from helix.settings import load
from helix.snapshot import paths
from helix.snapshot.ledger.inbox import read_envelope
from helix.sources.common.places import Place
from pipelines.ingest import increments as links
from pipelines.ingest.accept import accept_source
from pipelines.ingest.source import AcceptOptions, Inbox
from pipelines.ingest.watch import Watch


@pytest.fixture
def inbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Inbox:
    monkeypatch.setattr(links, "BLOCK", 1_000)
    paths.create_folders(tmp_path / "store")
    return Inbox(tmp_path / "store", load())


def log(path: Path, name: str, lines: int) -> Path:
    records = [{"session": name, "id": f"{name}:{i}", "text": f"word {i} of {name} " + "x" * 60} for i in range(lines)]
    path.write_text("".join(json.dumps(line) + "\n" for line in records))
    return path


def texts(inbox: Inbox, documents: list[str]) -> str:
    return "".join(read_envelope(inbox.root, document).text for document in documents)


def test_a_slice_leaves_the_rest_for_the_next_call(inbox: Inbox, tmp_path: Path) -> None:
    path = log(tmp_path / "large.jsonl", "large", 50)
    slices = []
    while True:
        taken = accept_source(inbox, path, AcceptOptions(seconds=0.0))
        slices.append(taken.documents)
        assert taken.waits == 0
        if not taken.more:
            break
    assert len(slices) > 3
    assert all(len(documents) == 1 for documents in slices)
    assert texts(inbox, [document for documents in slices for document in documents]) == path.read_text()
    assert accept_source(inbox, path, AcceptOptions(seconds=0.0)).is_duplicate
    taken = accept_source(inbox, log(tmp_path / "whole.jsonl", "whole", 50), AcceptOptions())  # without a limit
    assert not taken.more
    assert texts(inbox, list(taken.documents)) == (tmp_path / "whole.jsonl").read_text()


def test_a_watch_accepts_other_files_between_slices(
    inbox: Inbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipelines.ingest.watch.SLICE", 0.0)
    folder = tmp_path / "logs"
    folder.mkdir()
    places = [Place("given", folder)]
    order: list[str] = []

    def deliver(documents: object) -> None:
        order.extend(Path(read_envelope(inbox.root, document).path).stem for document in documents)

    watch = Watch(inbox, lambda: places, deliver)
    log(folder / "large.jsonl", "large", 50)
    watch.sweep(places, 0.0)
    watch.work()
    log(folder / "small.jsonl", "small", 1)
    watch.sweep(places, 0.0)
    for _ in range(20):
        watch.work()
    assert order[0] == "large"
    assert order.index("small") <= 2
    assert order.count("large") > 3
    assert watch.due == {}
