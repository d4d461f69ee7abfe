"""Real exports: zipped, with lists and settings next to the conversations, in one very long line."""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path

import pytest

from helix.errors import InputRefused
from helix.settings import Settings
from helix.snapshot.ledger import inbox
from pipelines.ingest.accept import accept
from pipelines.ingest.source import walk_inputs
from tests.support.paths import DATA
from tests.support.replay import Replay

LOGS = DATA / "logs"


@pytest.fixture
def replay(tmp_path: Path) -> Replay:
    return Replay(tmp_path / "store")


def make_zip(path: Path, *files: Path, base: Path = LOGS, **texts: str) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for file in files:
            archive.write(file, file.relative_to(base))
        for name, text in texts.items():
            archive.writestr(name.replace("__", "."), text)
    return path


def test_a_zip_is_a_folder(replay: Replay, tmp_path: Path) -> None:
    export = make_zip(tmp_path / "export.zip", LOGS / "chatgpt.json", user__json='{"id": "u", "email": "a@b.org"}')
    documents = replay.offer(export)
    plain = Replay(tmp_path / "other")
    plain.offer(LOGS / "chatgpt.json")
    assert sorted(replay.texts()) == sorted(plain.texts())
    assert plain.texts()
    assert {inbox.read_envelope(replay.root, name).path for name in documents} == {f"{export}/chatgpt.json"}
    assert replay.offer(export) == ()
    os.utime(export)
    assert replay.offer(export) == ()


def test_a_later_export_adds_only_new_conversations(replay: Replay, tmp_path: Path) -> None:
    conversations = json.loads((LOGS / "claude_ai.json").read_text())
    export = make_zip(tmp_path / "export.zip", conversations__json=json.dumps(conversations[:1]))
    replay.offer(export)
    (first,) = replay.made
    export.unlink()
    make_zip(export, conversations__json=json.dumps(conversations))
    replay.offer(export)
    plain = Replay(tmp_path / "other")
    plain.offer(LOGS / "claude_ai.json")
    assert sum(replay.made) == len(plain.items) > first


def test_names_come_from_the_list_of_users(replay: Replay, tmp_path: Path) -> None:
    slack = LOGS / "slack"
    export = make_zip(tmp_path / "slack.zip", *(path for path in slack.rglob("*") if path.is_file()), base=slack)
    replay.offer(export)
    folder = Replay(tmp_path / "other")
    for path in walk_inputs([slack]):
        folder.offer(path)
    assert sorted(replay.texts()) == sorted(folder.texts())
    assert not any((record["speaker"] or "").startswith("U0") for record in replay.items.values())


@pytest.mark.parametrize("name", ["../evil.md", "/etc/evil.md"])
def test_a_hostile_zip_and_one_of_nothing_are_refused_whole(replay: Replay, tmp_path: Path, name: str) -> None:
    path = tmp_path / "evil.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("good.md", "# Good\n\nWalnuts.")
        archive.writestr(name, "# Evil\n\nHemlock.")
    with pytest.raises(InputRefused, match="evil"):
        replay.offer(path)
    assert inbox.list_accepted(replay.root) == []
    assert not (tmp_path / "evil.md").exists()
    with pytest.raises(InputRefused, match="holds no readable source"):
        replay.offer(make_zip(tmp_path / "a.zip", rows__json='{"rows": [1, 2]}'))


def test_a_list_in_one_long_line(replay: Replay, tmp_path: Path) -> None:
    conversations = json.loads((LOGS / "chatgpt.json").read_text())
    path = tmp_path / "conversations.json"
    path.write_text(json.dumps(conversations))
    documents = accept(replay.root, path, Settings(max_line_bytes=1_000)).documents
    assert len(documents) == len(conversations)
    for document in documents:
        replay.apply(document)
    assert replay.items
