"""A chat export in a real store: every item once, in whichever form it came before."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from helix.settings import load
from helix.snapshot import paths
from helix.snapshot.ledger import inbox
from helix.snapshot.sql import run_statement
from helix.snapshot.verify import verify_store
from helix.sources.common.places import Place
from pipelines.embedded.ingest import finish, ingest
from pipelines.embedded.publisher import Publisher
from pipelines.ingest.accept import accept_source, prepare_store
from pipelines.ingest.accept_all import IngestReport
from pipelines.ingest.source import AcceptOptions, Inbox
from pipelines.ingest.watch import Watch
from tests.support.exports import chatgpt, whole, write

TALKS = [
    chatgpt("c-1", "Where do we keep the walnuts?", "In the pantry, behind the flour.", id="a"),
    chatgpt("c-2", "Which window has the thyme?", "The one to the south.", "And the salt?", "In the blue tin.", id="b"),
]


def rows(store: Path, columns: str = "id, session, ord, text, content, path, t_ingested") -> Sequence[Any]:
    with run_statement(store, f"SELECT {columns} FROM items ORDER BY id") as found:
        return list(found.rows)


def test_a_source_accepted_whole_is_not_accepted_twice(tmp_path: Path, cache: Path) -> None:
    export, store = write(tmp_path / "conversations.json", TALKS), tmp_path / "store"
    paths.create_folders(store)
    whole(store, export)
    finish(store, load(), IngestReport())
    before = rows(store)
    assert len(before) == 6
    again = ingest(store, [export], load())
    assert (again.accepted, again.items) == (1, 0)
    assert len(inbox.list_accepted(store)) == 3  # the whole and both conversations
    assert rows(store) == before
    longer = [TALKS[0], chatgpt("c-3", "Who made the bread?", id="c")]
    third = ingest(store, [write(export, longer)], load())
    assert (third.accepted, third.items) == (1, 1)
    assert [row for row in rows(store) if row in before] == before  # missing conversations stay
    assert len(inbox.list_accepted(store)) == 4
    assert verify_store(store).problems == ()


def test_exports_in_a_watched_folder_are_accepted_zipped_and_not(tmp_path: Path, cache: Path) -> None:
    folder, store, settings = tmp_path / "exports", tmp_path / "store", load()
    folder.mkdir()
    prepare_store(store, "auto")
    publisher = Publisher(store, settings)
    watch = Watch(Inbox(store, settings), lambda: [Place("given", folder)], publisher.add)

    def look() -> int:
        """Return the documents after a look at the folder."""
        watch.sweep(watch.places(), 0.0)
        watch.work()
        while publisher.step(busy=True):
            pass
        return len(inbox.list_accepted(store))

    write(folder / "may.json", TALKS[:1])
    assert look() == 1
    with zipfile.ZipFile(folder / "june.zip", "w") as archive:
        archive.writestr("conversations.json", json.dumps(TALKS))
    assert look() == 2  # the other one
    assert look() == 2
    publisher.close()
    assert len(rows(store)) == 6
    assert accept_source(watch.inbox, folder / "june.zip", AcceptOptions()).documents == ()
    assert verify_store(store).problems == ()
