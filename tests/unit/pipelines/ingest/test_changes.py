"""Links that commits bring: by topic, the same in any order of ingestion, and never across projects or readers."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helix.enrich import changes
from helix.errors import StoreError
from helix.settings import load
from helix.snapshot.reader.snapshot import Snapshot
from pipelines.embedded.ingest import ingest
from pipelines.ingest.changes import find_changes
from pipelines.maintain.compact import compact
from pipelines.maintain.deletion_plan import Selection
from pipelines.maintain.forget import forget
from pipelines.maintain.reindex import reindex
from tests.compat.history import current, publish
from tests.support.publishing import make_serially
from tests.support.tiny import BASE, make_store

pytestmark = [pytest.mark.usefixtures("no_router", "plain_links"), pytest.mark.xdist_group("changes")]

Links = dict[tuple[str, str], float]
"""Certainty by (turn, turn that changes it)."""

TOPICS = (("CI", "Jenkins", "Drone"), ("docs site", "Sphinx", "Hugo"), ("log store", "Loki", "Elastic"))
SAYINGS = ("We set the {} up on {}.", "We moved the {} from {} to {}.", "The {} went back to {}.")
TURNS = [
    {
        **{"session": f"s{i}", "id": f"{topic[0]} {i}", "role": "user", "ts": f"2026-03-{3 * i + n + 1:02}T09:00:00Z"},
        "text": saying.format(*topic),
    }
    for i, saying in enumerate(SAYINGS)
    for n, topic in enumerate(TOPICS)
]
LINKED = {(f"{topic[0]} {i}", f"{topic[0]} {j}") for topic in TOPICS for i, j in ((0, 1), (0, 2), (1, 2))}
SESSIONS = (TURNS[:3], TURNS[3:6], TURNS[6:])


@pytest.fixture(scope="module")
def plain_links() -> Iterable[None]:
    """Give each pair that shares a rare word a certainty of its likeness and rivals, not that of the trained model."""
    rare, own = changes.FEATURES.index("rare"), changes.FEATURES.index("own")
    rivals = [changes.FEATURES.index(name) for name in ("lead_own", "between_own", "ahead_lean")]

    def rate(trees: object, rows: Any) -> Any:
        likeness = 4 * rows[:, own] + (rows[:, rivals] @ np.float32([0.5, 0.5, -0.05]))
        return np.where(rows[:, rare] > 0, likeness, np.float32(-9))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(changes, "predict", rate)
        yield


def write_log(path: Path, turns: Sequence[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(turn) + "\n" for turn in turns))
    return path


def build(root: Path, *batches: Sequence[dict[str, Any]]) -> Path:
    """Ingest batches of turns, one log each, one after the other."""
    for number, turns in enumerate(batches):
        ingest(root, [write_log(root.parent / "logs" / root.name / f"{number}.jsonl", turns)], load(), format="jsonl")
    return root


def read_links(root: Path) -> Links:
    snap = Snapshot.open(root)
    old, new, certainty = snap.changes.links
    names = [[entry["turns"][0] for entry in snap.text(rows)] for rows in (old, new)]
    return dict(zip(zip(*names, strict=True), certainty.tolist(), strict=True))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of all turns, ingested at once."""
    return build(tmp_path_factory.mktemp("whole") / "store", TURNS)


@pytest.fixture
def store(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "store"))


def compare(root: Path, *batches: Sequence[dict[str, Any]]) -> Links:
    """Return the links that batches of turns bring, one segment after the other, without an encoder."""
    turns = [turn for batch in batches for turn in batch]
    texts = [turn["text"] for turn in turns]
    places = [next(i for i, turn in enumerate(TURNS) if turn["text"] == text) for text in texts]
    topics = np.tile(np.eye(len(TOPICS), 16), (len(SAYINGS), 1))
    vectors = (topics + np.random.default_rng(7).normal(size=topics.shape) / 8)[places]
    given = [
        {"session": turn["session"], "turn": turn["id"], "time": BASE + 86_400 * place, "ord": place % 3}
        | {name: turn[name] for name in ("project", "acl") if name in turn}
        for turn, place in zip(turns, places, strict=True)
    ]
    cuts = np.cumsum([len(batch) for batch in batches])[:-1].tolist()
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    snap = make_store(root, texts, vectors, given, cuts=cuts)
    name = dict(zip(snap.columns.key.tolist(), (turn["id"] for turn in turns), strict=True))
    segments = snap.row_map.segments
    alive = [np.ones(segment.rows, bool) for segment in segments]
    found: Links = {}
    for at, segment in enumerate(segments):
        judged = find_changes(segments[: at + 1], alive[: at + 1], at, np.arange(segment.rows), at + 1)
        links, items = judged.links, {name[key] for key in judged.items.tolist()}
        found = {pair: certainty for pair, certainty in found.items() if pair[1] not in items}
        pairs = [(name[old], name[new]) for old, new in zip(links.old.tolist(), links.new.tolist(), strict=True)]
        assert items.issuperset(new for _, new in pairs)
        found |= dict(zip(pairs, links.certainty.tolist(), strict=True))
    return found


def test_the_order_of_ingestion_changes_no_link(tmp_path: Path) -> None:
    first, second, third = SESSIONS
    expected = compare(tmp_path / "whole", TURNS)
    assert {pair for pair, certainty in expected.items() if certainty > 0.5} == LINKED
    for name, batches in {
        "turn by turn": [[turn] for turn in TURNS],
        "session by session": SESSIONS,
        "the newest first": [third, second, first],
        "an older log later": [[*third, *first], second],
        "a longer session later": [[*second, third[0]], [first[0]], first[1:], third[1:]],
    }.items():
        assert compare(tmp_path / name, *batches) == pytest.approx(expected, abs=1e-6), name


def test_no_link_crosses_projects_or_readers(tmp_path: Path) -> None:
    scopes = ({"project": "a"}, {"project": "b"}, {"project": "a", "acl": ["ana"]}, {"project": "a", "acl": ["ben"]})
    turns = [
        {**turn, **scope, "session": f"{turn['session']}-{n}", "id": f"{turn['id']}-{n}"}
        for turn in TURNS[::3]
        for n, scope in enumerate(scopes)
    ]
    links = compare(tmp_path, turns[:5], turns[5:])
    assert links.keys() == {(f"{old}-{n}", f"{new}-{n}") for old, new in LINKED if "CI" in old for n in range(4)}


def test_commits_link_the_turns_of_a_topic(whole: Path, tmp_path: Path) -> None:
    expected = read_links(whole)
    assert {pair for pair, certainty in expected.items() if certainty > 0.5} == LINKED
    found = read_links(build(tmp_path / "store", *SESSIONS[::-1]))
    assert found == pytest.approx(expected, abs=0.05)  # a vector depends a little on those it was computed with


def find_row(snap: Snapshot, turn: str) -> int:
    names = [entry["turns"][0] for entry in snap.text(np.arange(snap.rows))]
    return names.index(turn)


def forget_turn(root: Path, turn: str) -> None:
    snap = Snapshot.open(root)
    forget(root, Selection(items=(f"{int(snap.columns.key[find_row(snap, turn)]):016x}",)), load())


def read_successor(root: Path, turn: str) -> str | None:
    snap = Snapshot.open(root)
    (new,) = snap.changes.successors(np.array([find_row(snap, turn)]), int(snap.changes.said_at.max()))
    return str(snap.text(np.array([new]))[0]["turns"][0]) if new >= 0 else None


def test_a_forgotten_turn_frees_what_it_changed(store: Path) -> None:
    before = read_links(store)
    assert [read_successor(store, turn) for turn in ("CI 0", "CI 1", "CI 2")] == ["CI 2", "CI 2", None]
    forget_turn(store, "CI 2")
    assert read_links(store) == {pair: certainty for pair, certainty in before.items() if "CI 2" not in pair}
    assert [read_successor(store, turn) for turn in ("CI 0", "CI 1")] == ["CI 1", None]


def test_a_compaction_keeps_links(tmp_path: Path) -> None:
    root = build(tmp_path / "store", SESSIONS[1], SESSIONS[0], SESSIONS[2])
    forget_turn(root, "log store 1")
    before = read_links(root)
    compact(root, load(), full=True)
    (segment,) = Snapshot.open(root).row_map.segments
    assert segment.rows == len(TURNS) - 1
    assert read_links(root) == before
    assert before.keys() == {pair for pair in LINKED if "log store 1" not in pair}


def test_a_link_holds_for_the_words_that_were_compared(tmp_path: Path) -> None:
    root, path = tmp_path / "store", tmp_path / "log.jsonl"
    old, new = (turn | {"session": "s"} for turn in (TURNS[0], TURNS[3]))
    for text, links in ((new["text"], 1), ("Lunch was good.", 0), (f"Done: {new['text']}", 1)):
        ingest(root, [write_log(path, [old, {**new, "text": text}])], load(), format="jsonl")
        assert len(read_links(root)) == links, text


def test_a_damaged_index_is_named(store: Path) -> None:
    (index,) = (index for index in current(store).indexes if index.kind == "changes")
    path = store / "indexes" / index.id / "changes" / "old.npy"
    path.chmod(0o600)
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(StoreError, match=r"changes/old\.npy is damaged: .*"):
        _ = Snapshot.open(store).changes.links


def test_an_older_store_opens_and_gets_links_by_a_reindex(store: Path) -> None:
    expected = read_links(store)
    new = ("/claims.npy", "/alters.npy", "/former.npy")
    segments = [
        replace(one, files=tuple(file for file in one.files if not file.path.endswith(new)))
        for one in current(store).segments
    ]
    indexes = tuple(index for index in current(store).indexes if index.kind != "changes")
    publish(
        store, segments=tuple(segments), indexes=indexes, lineage=replace(current(store).lineage, pipeline="0" * 16)
    )
    assert read_links(store) == {}
    late = {
        "session": "s9",
        "id": "late",
        "role": "user",
        "text": "We moved the CI from Jenkins to Travis.",
        "ts": "2026-04-01",
    }
    ingest(store, [write_log(store.parent / "late.jsonl", [late])], load(), format="jsonl")
    assert read_links(store) == {}  # nothing is known of what the earlier turns set
    assert current(store).coverage["changes"]["items"] == 1
    reindex(store, load(), work=make_serially)
    found = read_links(store)
    assert {pair: n for pair, n in found.items() if "late" not in pair} == pytest.approx(expected, abs=1e-6)
    assert any("late" in pair for pair in found)
