"""The version of a turn that a commit publishes."""

from __future__ import annotations

import itertools
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from helix.encoders.dense import Encoder
from helix.settings import load
from helix.snapshot.ledger import inbox
from helix.snapshot.reader.snapshot import Snapshot
from helix.snapshot.sql import run_statement
from helix.snapshot.verify import verify_store
from pipelines.embedded.ingest import ingest
from pipelines.ingest.accept import accept, prepare_store
from pipelines.ingest.accept_all import IngestReport
from pipelines.ingest.commit import Committed, commit
from pipelines.ingest.lineage import open_encoder
from pipelines.maintain.deletion_plan import Selection
from pipelines.maintain.forget import forget
from pipelines.maintain.reindex import reindex
from tests.support.marks import soak_all_but
from tests.support.publishing import make_part, make_serially


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Encoder:
    root = tmp_path_factory.mktemp("encoder")
    prepare_store(root, "auto")
    return open_encoder(root, load())


@pytest.fixture
def store(tmp_path: Path, encoder: Encoder) -> tuple[Path, Encoder, Callable[..., str]]:
    root = tmp_path / "store"
    prepare_store(root, "auto")

    def accept_turns(*turns: tuple[str, str, str]) -> str:
        path = tmp_path / "log.jsonl"
        path.write_text("".join(json.dumps({"session": s, "id": i, "text": t}) + "\n" for s, i, t in turns))
        return accept(root, path, load()).documents[0]

    return root, encoder, accept_turns


def texts(root: Path) -> list[str]:
    snapshot = Snapshot.open(root)
    return sorted(e["text"] for e in snapshot.text([row for row in range(snapshot.rows) if snapshot.alive[row]]))


def test_an_older_version_that_is_enriched_later_does_not_win(store) -> None:
    root, encoder, accept_turns = store
    older = accept_turns(("s", "1", "take it out at noon"), ("s", "2", "only the older one has this"))
    newer = accept_turns(("s", "1", "take it out at one"))
    make_part(root, newer, encoder, load())
    first = commit(root, encoder, load())
    assert (first.added, first.replaced) == (1, 0)
    make_part(root, older, encoder, load())
    second = commit(root, encoder, load())
    assert (second.added, second.replaced, second.duplicates) == (1, 0, 1)
    assert texts(root) == ["only the older one has this", "take it out at one"]


def test_of_two_versions_in_one_commit_the_later_counts(store) -> None:
    root, encoder, accept_turns = store
    for turns in ([("s", "1", "noon")], [("s", "1", "one"), ("s", "2", "slice it")], [("s", "1", "one")]):
        make_part(root, accept_turns(*turns), encoder, load())
    done = commit(root, encoder, load())
    assert (done.generation, len(done.documents), done.added, done.duplicates) == (1, 3, 2, 2)
    assert texts(root) == ["one", "slice it"]
    assert commit(root, encoder, load()).documents == ()


ORDERS = [*itertools.permutations([0, 1, 2]), (1, (0, 2)), ((0, 2), 1), ((0, 1), 2), (2, (0, 1))]


@pytest.mark.parametrize("number", soak_all_but(range(len(ORDERS)), 0, 5, 6, 9))
def test_the_last_accepted_version_stays_in_any_order_of_work(store, number: int) -> None:
    """A turn is changed and changed back; workers may finish the three documents in any order."""
    root, encoder, accept_turns = store
    extra = [("s", "2", "slice it"), ("s", "2", "cut it"), ("s", "3", "cool it")]
    documents = [
        accept_turns(("s", "1", when), turn) for when, turn in zip(["noon", "one", "noon"], extra, strict=True)
    ]
    for step in ORDERS[number]:
        for i in step if isinstance(step, tuple) else [step]:
            make_part(root, documents[i], encoder, load())
        commit(root, encoder, load())
    assert texts(root) == ["cool it", "cut it", "noon"]
    assert verify_store(root).problems == ()


def test_a_resumed_session_does_not_repeat_its_prefix(tmp_path: Path, cache: Path) -> None:
    """Claude Code copies earlier turns, uuids and all, under a new session id."""

    def log(session: str, *uuids: str) -> str:
        records = [
            {
                "type": "user", "uuid": uuid, "parentUuid": uuids[i - 1] if i else None, "sessionId": session,
                "cwd": "/home/ana/bakery", "timestamp": f"2026-05-01T10:0{i}:00Z",
                "message": {"role": "user", "content": f"remark {uuid} about walnut bread"},
            }
            for i, uuid in enumerate(uuids)
        ]  # fmt: skip
        return "".join(json.dumps(record) + "\n" for record in records)

    first, second = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    first.write_text(log("one", "u1", "u2"))
    second.write_text(log("two", "u1", "u2", "u3"))
    root = tmp_path / "store"
    report = ingest(root, [first], load())
    assert report.items == 2
    report = ingest(root, [second], load())
    assert (report.turns, report.items) == (3, 1)
    snapshot = Snapshot.open(root)
    sessions = {entry["turns"][0]: entry["session"] for entry in snapshot.text(range(snapshot.rows))}
    assert sessions == {"u1": "one", "u2": "one", "u3": "two"}
    assert verify_store(root).problems == ()


def test_a_dead_document_offered_again_is_retried(store) -> None:
    root, _, accept_turns = store
    document = accept_turns(("s", "1", "noon"))
    inbox.give_up(root, document, "a fault since mended")
    assert inbox.list_pending(root) == []
    assert accept_turns(("s", "1", "noon")) == document  # written again, with the same words
    assert inbox.list_pending(root) == [document]


def test_an_adapters_mistake_costs_its_document_and_no_other(tmp_path: Path, cache: Path, monkeypatch) -> None:
    from helix.sources import markdown

    parse = markdown.parse

    def faulty(document, tool_chars):
        if "poison" in document.text:
            raise KeyError("mapping")
        return parse(document)

    monkeypatch.setattr(markdown, "parse", faulty)
    (tmp_path / "a.md").write_text("# A\n\npoison")
    (tmp_path / "b.md").write_text("# B\n\nwalnut bread")
    report = ingest(tmp_path / "store", [tmp_path / "a.md", tmp_path / "b.md"], load())
    assert [Path(entry["path"]).name for entry in report.refused] == ["a.md"]
    assert "KeyError" in report.refused[0]["reason"]
    assert texts(tmp_path / "store") == ["walnut bread"]


def test_a_later_reference_raises_salience(tmp_path: Path, cache: Path) -> None:
    """An earlier turn is published again with its new salience and its first time."""
    log, root = tmp_path / "log.jsonl", tmp_path / "store"
    turns = [
        ("t0", "user", "The deploy of zephyrline goes through the blue pipeline."),
        ("t1", "assistant", "Noted."),
        ("t2", "user", "As I said, zephyrline needs the blue pipeline; what was wrong with zephyrline?"),
    ]

    def ingest_turns(upto: int) -> IngestReport:
        lines = [{"session": "s", "id": turn, "role": role, "text": text} for turn, role, text in turns[:upto]]
        log.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return ingest(root, [log], load())

    def first() -> dict[str, object]:
        with run_statement(
            root, "SELECT salience, salience_parts, t_ingested, ord, document FROM items WHERE turns = ['t0']"
        ) as found:
            (row,) = [dict(zip(found.columns, row, strict=True)) for row in found.rows]
            return row

    assert ingest_turns(2).items == 2
    before = first()
    assert ingest_turns(3).items == 1  # an updated item is no new one
    after = first()
    assert after["salience"] > before["salience"]
    assert "referred to" in after["salience_parts"]
    assert "referred to" not in before["salience_parts"]
    for name in ("t_ingested", "ord", "document"):
        assert after[name] == before[name]
    manifest = inbox.load_current(root)[1]
    assert manifest is not None
    assert manifest.counts["items"] == 3
    generation = manifest.generation
    log.touch()
    assert ingest(root, [log], load()).duplicates == 1
    assert inbox.load_current(root)[1].generation == generation  # type: ignore[union-attr]


def _make_line(turn: str, role: str, text: str, session: str = "s") -> str:
    return json.dumps({"session": session, "id": turn, "role": role, "text": text}) + "\n"


PROPOSED = _make_line("t0", "user", "How do we ship zephyrline?") + _make_line(
    "t1", "assistant", "I propose the blue pipeline."
)
AGREED = _make_line("t2", "user", "Yes, do that.")


def _proposal(root: Path) -> dict[str, object]:
    columns = "vouched, salience, confidence, t_ingested, document, near, text"
    with run_statement(root, f"SELECT {columns} FROM items WHERE turns = ['t1']") as found:
        (row,) = [dict(zip(found.columns, row, strict=True)) for row in found.rows]
        return row


@pytest.mark.parametrize("at_once", [False, True])
def test_a_later_agreement_raises_confidence(tmp_path: Path, encoder: Encoder, at_once: bool) -> None:
    """An agent's proposal and the user's yes are seldom accepted together."""
    log, root = tmp_path / "log.jsonl", tmp_path / "store"
    log.write_text(PROPOSED)
    prepare_store(root, "auto")

    def publish() -> Committed:
        for document in inbox.list_waiting(root, inbox.list_done(root, inbox.load_current(root)[1])):
            make_part(root, document, encoder, load())
        return commit(root, encoder, load())

    accept(root, log, load())
    if not at_once:
        publish()
        assert _proposal(root)["vouched"] == "claim"
    first = inbox.list_waiting(root, set()) if at_once else [_proposal(root)["document"]]
    log.write_text(PROPOSED + AGREED)
    accept(root, log, load())
    done = publish()
    assert (done.added, done.replaced, done.duplicates) == ((3, 0, 0) if at_once else (1, 0, 0))
    proposal = _proposal(root)
    assert (proposal["vouched"], proposal["confidence"]) == ("confirmed", pytest.approx(0.95))
    assert proposal["document"] == first[0]  # its words are there
    whole = tmp_path / "whole"
    assert ingest(whole, [log], load()).items == 3
    for name in ("vouched", "salience", "confidence"):
        assert proposal[name] == _proposal(whole)[name]
    assert verify_store(root).problems == ()


def test_a_revalued_row_does_not_replace_newer_content(tmp_path: Path, cache: Path) -> None:
    """The turn was edited in another file, and the first file grew since."""
    log, other, root = tmp_path / "log.jsonl", tmp_path / "other.jsonl", tmp_path / "store"
    log.write_text(PROPOSED)
    ingest(root, [log], load())
    other.write_text(PROPOSED.replace("blue", "green"))
    ingest(root, [other], load())
    log.write_text(PROPOSED + AGREED)
    ingest(root, [log], load())
    assert _proposal(root)["text"] == "I propose the green pipeline."
    assert _proposal(root)["vouched"] == "claim"


def test_forgetting_a_turn_keeps_revalued_items(tmp_path: Path, cache: Path) -> None:
    """Also the turn that revalued them."""
    log, first = tmp_path / "log.jsonl", tmp_path / "t0"
    for text in (PROPOSED, PROPOSED + AGREED):
        log.write_text(text)
        ingest(first, [log], load())
    shutil.copytree(first, tmp_path / "t2")
    words = {"t0": "How do we ship zephyrline?", "t1": "I propose the blue pipeline.", "t2": "Yes, do that."}
    for turn in ("t0", "t2"):
        root = tmp_path / turn
        with run_statement(root, f"SELECT id FROM items WHERE turns = ['{turn}']") as found:
            ((item,),) = found.rows
        forget(root, Selection(items=(item,)), load())
        left = sorted(text for place, text in words.items() if place != turn)
        assert texts(root) == left
        reindex(root, replace(load(), item_words=100))
        assert texts(root) == left


@pytest.fixture
def chain(tmp_path: Path) -> tuple[Path, list[str]]:
    """A store whose inbox holds three increments of a log; the last one is the oldest file, as in a copy."""
    log, root, links = tmp_path / "log.jsonl", tmp_path / "store", list[str]()
    prepare_store(root, "auto")
    for text in (PROPOSED, PROPOSED + AGREED, PROPOSED + AGREED + _make_line("t3", "user", "Tell Ana.")):
        log.write_text(text)
        links += accept(root, log, load()).documents
    for age, link in enumerate(links):
        os.utime(root / "inbox" / link, (1_700_000_000 - age,) * 2)
    assert inbox.list_pending(root) == links[::-1]
    return root, links


def test_increments_are_published_in_order_despite_file_times(chain, encoder: Encoder) -> None:
    root, links = chain
    make_serially(root, inbox.list_pending(root), encoder, load())
    assert list(commit(root, encoder, load()).documents) == links


def test_a_reindex_accepts_increments_in_any_order(chain, encoder: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    """It waits for no increment that is not published."""
    root, links = chain
    inbox.give_up(root, links[0], "unreadable")
    make_serially(root, inbox.list_pending(root), encoder, load())
    assert list(commit(root, encoder, load()).documents) == links[1:]
    inbox.revive_document(root, links[0])
    monkeypatch.setattr("pipelines.maintain.reindex.BATCH", 1)
    assert reindex(root, replace(load(), item_words=100)).documents == 2
    assert inbox.list_pending(root) == links[:1]
    assert texts(root) == ["Tell Ana.", "Yes, do that."]


def test_forgetting_leaves_a_document_its_place(chain) -> None:
    root, _ = chain
    for link in inbox.list_accepted(root):  # as it is accepted
        inbox.accept_envelope(root, inbox.read_envelope(root, link))
    before = inbox.list_pending(root)
    inbox.forget_text(root, before[0])
    assert inbox.list_pending(root) == before


def log_of(name: str, turns: int) -> list[tuple[str, str, str]]:
    return [(name, f"{name}{i}", f"remark {i} of {name} about walnut bread") for i in range(turns)]


def test_small_documents_precede_a_large_one(store) -> None:
    root, encoder, accept_turns = store
    large, *small = [accept_turns(*log_of(name, turns)) for name, turns in (("a", 80), ("b", 3), ("c", 4))]
    make_serially(root, (large, *small), encoder, load())
    first = commit(root, encoder, load(), limit=10)
    assert (first.documents, first.left) == (tuple(small), 1)
    second = commit(root, encoder, load(), limit=10)  # one at least, however large
    assert (second.documents, second.left) == ((large,), 0)
    assert len(texts(root)) == 87
    assert commit(root, encoder, load(), limit=10).documents == ()


def test_an_overdue_large_document_joins_the_small_ones(store) -> None:
    root, encoder, accept_turns = store
    large, small = accept_turns(*log_of("a", 80)), accept_turns(*log_of("b", 3))
    make_serially(root, (large, small), encoder, load())
    (part,) = (root / "parts").glob(f"{large}-*")
    os.utime(part, (1_700_000_000,) * 2)
    assert set(commit(root, encoder, load(), limit=10).documents) == {large, small}


def test_no_increment_precedes_the_one_it_continues(chain, encoder: Encoder) -> None:
    root, links = chain
    make_serially(root, inbox.list_pending(root), encoder, load())
    for i, link in enumerate(links):
        done = commit(root, encoder, load(), limit=1)
        assert (done.documents, done.left) == ((link,), len(links) - i - 1)


def test_many_small_commits_equal_one(store) -> None:
    root, encoder, accept_turns = store
    documents = [accept_turns(*log_of(f"s{i}", 1 + 7 * i % 5), ("shared", "x", f"version {i}")) for i in range(8)]
    make_serially(root, documents, encoder, load())
    left = len(documents)
    while left:
        done = commit(root, encoder, load(), limit=6)
        assert done.documents
        left -= len(done.documents)
        assert done.left == left
    assert len(texts(root)) == sum(1 + 7 * i % 5 for i in range(8)) + 1
    assert "version 7" in texts(root)
    assert verify_store(root).problems == ()
