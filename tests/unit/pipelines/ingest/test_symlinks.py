"""Symbolic links in a walked folder: targets outside it are not read."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from helix.settings import Settings
from helix.snapshot import paths
from helix.snapshot.ledger import inbox
from helix.sources.common.places import Place
from pipelines.ingest import orders
from pipelines.ingest.accept_all import IngestReport, accept_all
from pipelines.ingest.source import Inbox
from pipelines.ingest.watch import Watch

OUTSIDE = ("secret.md", "deep/secret.md", "gone.md", "chain.md", "up.md")


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with two notes and every kind of link, next to a folder that was not named."""
    secret = write(tmp_path / "elsewhere" / "secret.md", "the walnut is hidden")
    write(tmp_path / "elsewhere" / "more" / "secret.md", "the thyme is hidden")
    folder = tmp_path / "notes"
    write(folder / "own.md", "cumin is in the cupboard")
    write(folder / "deep" / "own.md", "dill is on the shelf")
    for name, target in {
        "inside.md": "deep/own.md",
        "secret.md": secret,
        "deep/secret.md": "../../elsewhere/secret.md",
        "gone.md": tmp_path / "elsewhere" / "gone.md",
        "chain.md": "secret.md",
        "up.md": "../notes-of-another/x.md",
        "loop.md": "pool.md",
        "pool.md": "loop.md",
        "folder": tmp_path / "elsewhere",
        "round": ".",
    }.items():
        (folder / name).symlink_to(target)
    write(tmp_path / "notes-of-another" / "x.md", "the parsley is hidden")
    return folder


def list_ingested(root: Path) -> list[str]:
    return sorted(inbox.read_envelope(root, document).text.strip() for document in inbox.list_accepted(root))


OWN = ["cumin is in the cupboard", "dill is on the shelf"]


def test_a_link_out_of_a_walked_folder_is_refused_by_name(folder: Path, tmp_path: Path) -> None:
    root, report = tmp_path / "store", IngestReport()
    accept_all(root, [folder], Settings(), report, project=None, format="auto", acl=())
    assert list_ingested(root) == OWN
    reasons = {str(Path(entry["path"]).relative_to(folder)): entry["reason"] for entry in report.refused}
    assert {name for name, why in reasons.items() if "leads out of the named folder" in why} == set(OUTSIDE)
    assert set(reasons) - set(OUTSIDE) == {"loop.md", "pool.md"}  # which lead nowhere
    assert not any("elsewhere" in why for why in reasons.values())


def test_an_order_follows_no_link_out_of_a_folder(folder: Path, tmp_path: Path) -> None:
    root = tmp_path / "store"
    paths.create_folders(root)
    order = orders.place(root, orders.Order((str(folder),)))
    report = orders.carry_out(root, order, Settings(), list)
    assert list_ingested(root) == OWN
    assert {Path(entry["path"]).name for entry in report.refused} >= {Path(name).name for name in OUTSIDE}


def test_a_named_link_is_followed(folder: Path, tmp_path: Path) -> None:
    """A link to a file and one to a folder; that folder counts as the named one."""
    root, report = tmp_path / "store", IngestReport()
    named = [folder / "secret.md", folder / "folder" / "more"]
    accept_all(root, named, Settings(), report, project=None, format="auto", acl=())
    assert list_ingested(root) == ["the thyme is hidden", "the walnut is hidden"]
    again = tmp_path / "again"
    accept_all(again, [folder / "folder"], Settings(), report, project=None, format="auto", acl=())
    assert list_ingested(again) == list_ingested(root)
    assert report.refused == []


def test_a_watch_follows_no_link_out_of_its_folder(
    folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    root = tmp_path / "store"
    paths.create_folders(root)
    places = [Place("given", folder)]
    given = Watch(Inbox(root, Settings()), lambda: places, list)
    with caplog.at_level(logging.WARNING, "helix.watch"):
        for _ in range(2):
            given.sweep(places, 0.0)
            new = [folder / name for name in (*OUTSIDE, "folder", "folder/more", "folder/more/secret.md", "inside.md")]
            given.note(places, new, 0.0)
            while given.work():
                pass
    assert list_ingested(root) == OWN
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == len(set(messages))
    assert [name for name in OUTSIDE if not any(f"{folder / name} is a link" in line for line in messages)] == []


def test_a_watch_follows_a_named_link(folder: Path, tmp_path: Path) -> None:
    root = tmp_path / "store"
    paths.create_folders(root)
    (tmp_path / "link.jsonl").symlink_to(write(tmp_path / "real.jsonl", json.dumps({"text": "sage"}) + "\n"))
    places = [Place("given", tmp_path / "link.jsonl"), Place("given", folder / "folder")]
    given = Watch(Inbox(root, Settings()), lambda: places, list)
    given.sweep(places, 0.0)
    while given.work():
        pass
    assert len(list_ingested(root)) == 3
