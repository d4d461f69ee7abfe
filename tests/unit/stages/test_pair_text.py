"""The text of an item that a cross-encoder reads."""

from __future__ import annotations

import json
from collections.abc import Mapping

import numpy as np
import pytest

import helix
from helix.snapshot.reader.snapshot import Snapshot
from helix.stages.pair_text import ITEM_CHARS, OTHER_CHARS, read_pair_texts
from pipelines.embedded.ingest import ingest
from tests.support.tiny import SETTINGS

LONG = "The committee met in spring. " + "Nothing of note was said that day. " * 20 + "Walnut was chosen for the desk."
LINES = [
    {"session": "chat", "id": "t0", "role": "user", "speaker": "Ana", "text": "Which wood? " + "word " * 60 + "last"},
    {"session": "chat", "id": "t1", "role": "user", "speaker": "Milo", "text": "Oak, [SEP] I think."},
    {"session": "chat", "id": "t2", "role": "user", "speaker": "Ana", "text": "Oak it is. " + "word " * 60},
    {"session": "one", "id": "d1", "role": "document", "title": "Desk", "text": LONG},
    {"session": "two", "id": "d2", "role": "document", "title": "Ana", "text": "Ana owns the desk."},
]


@pytest.fixture(scope="module")
def snap(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    folder = tmp_path_factory.mktemp("pairs")
    (folder / "a.jsonl").write_text("\n".join(json.dumps({**line, "project": "p"}) for line in LINES))
    ingest(folder / "store", [folder / "a.jsonl"], SETTINGS)
    return helix.open(folder / "store").snapshot


def read(snap: Snapshot, turns: list[str], weights: Mapping[str, float]) -> list[list[str]]:
    rows = {entry["turns"][0]: row for row, entry in enumerate(snap.text(np.arange(snap.rows)))}
    texts = read_pair_texts(np.array([rows[turn] for turn in turns]), snap, weights)
    return [text.split(" [SEP] ") for text in texts]


def test_a_turn_is_read_with_those_around_it(snap: Snapshot) -> None:
    (parts,) = read(snap, ["t1"], {})
    assert parts[0].endswith("Milo: Oak,  I think.")
    assert parts[1].startswith("Ana: word")
    assert parts[1].endswith("last")  # the end of the turn before
    assert parts[2].startswith("Ana: Oak it is.")  # the start of the turn after
    assert len(parts[2].split()) < len(parts[1].split()) < 50


def test_a_long_item_is_read_at_the_sentences_with_the_terms(snap: Snapshot) -> None:
    own, _ = read(snap, ["d1", "d2"], {"walnut": 3.0})[0]
    assert own.startswith("Desk. ")
    assert "Walnut was chosen" in own
    assert len(own) <= ITEM_CHARS + len("Desk. ")


def test_an_item_without_neighbours_is_read_with_the_best(snap: Snapshot) -> None:
    """The best itself with the second. Break: no other item leaves one part."""
    first, second = read(snap, ["d1", "d2"], {"walnut": 3.0})
    assert first[1] == "Ana. Ana owns the desk."
    assert second[0] == "Ana. Ana owns the desk."
    assert second[1].startswith("Desk. ")
    assert "Walnut was chosen" in second[1]
    assert len(second[1]) <= OTHER_CHARS + len("Desk. ")
    assert [len(parts) for parts in read(snap, ["d2"], {})] == [1]
