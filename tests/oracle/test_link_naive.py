"""Sums of a snapshot over its segments, against dictionaries and loops over one flat list of items."""

from __future__ import annotations

import random
from bisect import bisect_right
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helix.snapshot.segment.batch import hash_parts
from helix.snapshot.segment.columns import link_sessions
from helix.text.cues import read_cues
from helix.text.titles import hash_title
from helix.text.tokenize import hash_terms, tokenise
from helix.types import TYPES
from tests.support.tiny import BASE
from tests.support.worlds import World

WORDS = ("red", "green", "blue", "walnut", "parsley", "redis", "timeout", "queue", "worker", "snapshot")
ENTITIES = [("name", name, name.title()) for name in ("ana", "bo", "priya", "zoe")]
TITLES = ("Red Hen", "Walnut", "The Red Hen of Oslo")
ABSENT = 2**64 - 1


def draw_world(folder: Path, seed: int) -> World:
    """Draw items of which some replace an earlier one."""
    rng = random.Random(seed)
    n = rng.randint(30, 80)
    cuts = sorted(rng.sample(range(1, n), rng.randint(0, 5)))
    sessions = rng.choice([2, 8, n])
    items: list[dict[str, Any]] = []
    versions: dict[str, int] = {}  # turn → the row that lives
    for row in range(n):
        turn = rng.choice(sorted(versions)) if versions and rng.random() < 0.2 else f"t{row}"
        if turn in versions and bisect_right(cuts, versions[turn]) == bisect_right(cuts, row):
            turn = f"t{row}"  # a commit holds one version of a turn
        if turn in versions:
            items[versions[turn]]["alive"] = False
        versions[turn] = row
        items.append(
            {
                **{"id": hash_parts(turn), "turn": turn, "session": f"s{rng.randrange(sessions)}", "time": BASE + row},
                "ord": rng.randrange(6),  # logs overlap, so places repeat
                "text": " ".join(rng.choices(WORDS, k=rng.randint(0, 8))) + rng.choice(["", "?", " I", " my?"]),
                **{"role": rng.choice(["user", "assistant", "document"]), "title": rng.choice([None, *TITLES])},
                **{"type": rng.choice(TYPES), "project": rng.choice(["p", "q", "r"])},
                "speaker": rng.choice([None, "Ana Lopez", "Bo"]),
                "acl": rng.sample(["team", "boss", "me"], rng.choice([0, 0, 1, 2])),
                **{"mentions": rng.sample(ENTITIES, rng.randint(0, 3)), "alive": rng.random() > 0.1},
            }
        )
    return World(folder, items, cuts, np.random.default_rng(seed).normal(size=(n, 8)).astype(np.float32))


@pytest.fixture(scope="module", params=range(12))
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> World:
    return draw_world(tmp_path_factory.mktemp("world") / "store", request.param)


def test_sessions_and_neighbours(world: World) -> None:
    snap = world.snap
    before, after = world.find_neighbours()
    assert snap.columns.previous.tolist() == [before.get(row, -1) for row in range(world.n)]
    assert snap.columns.next.tolist() == [after.get(row, -1) for row in range(world.n)]
    keys = {session: int(hash_parts("tiny", session), 16) for session in {item["session"] for item in world.items}}
    assert snap.sessions.tolist() == sorted(keys.values())
    codes = {session: sorted(keys.values()).index(key) for session, key in keys.items()}
    assert snap.columns.session.tolist() == [codes[item["session"]] for item in world.items]
    lengths = [sum(terms.values()) for terms in world.terms]
    windows = []
    for row in world.live:
        around = [row]
        for step in (before, after):
            at = row
            for _ in range(2):
                at = step.get(at, -1)
                around.append(at)
        windows.append(sum(lengths[at] for at in around if at >= 0))
    assert snap.lexical.mean_window_length == pytest.approx(max(1.0, sum(windows) / len(windows)))


def test_the_order_of_the_terms(world: World) -> None:
    snap, rng = world.snap, random.Random(3)
    asked = [rng.randrange(len(world.items)) for _ in range(40)]
    at, terms = snap.lexical.order_of(np.array(asked))
    for i, row in enumerate(asked):
        assert terms[at == i].tolist() == short(world.items[row]["text"])
    assert [len(found) for found in snap.lexical.order_of(np.empty(0, np.int64))] == [0, 0]
    for word in (*WORDS, "absent"):
        (key,) = short(word)
        holding = sum(key in short(world.items[row]["text"]) for row in world.live)
        assert snap.lexical.short_df(np.uint32(key)) >= holding


def short(text: str) -> list[int]:
    return [key >> 32 for key in hash_terms(tokenise(text)).tolist()]


def test_cues(world: World) -> None:
    asked = np.array([random.Random(4).randrange(len(world.items)) for _ in range(40)])
    items = [world.items[row] for row in asked.tolist()]
    assert world.snap.lexical.cues(asked).tolist() == [read_cues(item["text"], item["role"]) for item in items]
    assert {read_cues(item["text"], item["role"]) for item in world.items} >= {0, 1, 2}


def test_titles(world: World) -> None:
    """The live documents of a title, and of no other."""
    snap = world.snap
    keys = np.array([hash_title(np.array(short(title), np.uint32)) for title in (*TITLES, "absent")], np.uint64)
    at, rows = snap.lexical.find_titled(keys)
    wanted = [
        (i, row)
        for i, title in enumerate(TITLES)
        for row in world.live
        if (world.items[row]["title"], world.items[row]["role"]) == (title, "document")
    ]
    assert sorted(zip(at.tolist(), rows.tolist(), strict=True)) == wanted


def test_speakers_by_project(world: World) -> None:
    found: dict[int | None, set[str]] = {None: set()}
    for item in (world.items[row] for row in world.live):
        words = set((item["speaker"] or "").lower().split())
        found.setdefault(world.snap.projects.index(item["project"]), set()).update(words)
        found[None] |= words
    assert world.snap.catalog.speaker_names == found


def test_linking_does_not_depend_on_the_cuts(world: World, tmp_path: Path) -> None:
    """The same rows in one segment link the same way."""
    # One segment holds an id once: the versions that are dead get another.
    items = [item if item["alive"] else {**item, "id": hash_parts(str(i))} for i, item in enumerate(world.items)]
    one = World(tmp_path / "one", items, (), np.eye(world.n, 8)).snap
    for name in ("session", "previous", "next"):
        assert getattr(one.columns, name).tolist() == getattr(world.snap.columns, name).tolist()


def test_no_segments() -> None:
    session, previous, following, keys = link_sessions([], np.empty(0, np.int64), np.empty(0, bool))
    assert [len(array) for array in (session, previous, following, keys)] == [0] * 4


def test_rows_by_key(world: World) -> None:
    snap = world.snap
    rows = {int(item["id"], 16): row for row, item in enumerate(world.items) if item["alive"]}
    keys = sorted({int(item["id"], 16) for item in world.items})
    asked = [ABSENT, *keys, 0, *reversed(keys)]
    assert snap.row_map.by_key(np.array(asked, np.uint64)).tolist() == [rows.get(key, -1) for key in asked]
    assert snap.row_map.by_key(np.empty(0, np.uint64)).tolist() == []
    assert [snap.find(f"{key:016x}") for key in asked] == [rows.get(key) for key in asked]
    assert [snap.find(odd) for odd in ("", "no hex", "f" * 20)] == [None] * 3


def test_terms(world: World) -> None:
    snap = world.snap
    for word in (*WORDS, "absent"):
        (stem,) = tokenise(word)
        (key,) = hash_terms([stem])
        holds = {row: terms[stem] for row, terms in enumerate(world.terms) if terms[stem]}
        assert snap.lexical.df(key) == sum(world.items[row]["alive"] for row in holds)
        found = {
            start + row: tf
            for start, rows, tfs in snap.lexical.term(key)
            for row, tf in zip(rows.tolist(), tfs.tolist(), strict=True)
        }
        assert found == holds
        assert all((np.diff(rows.astype(np.int64)) > 0).all() for _, rows, _ in snap.lexical.term(key))
        rows, tf = snap.lexical.postings(key)
        assert list(zip(rows.tolist(), tf.tolist(), strict=True)) == [
            (row, count) for row, count in sorted(holds.items()) if world.items[row]["alive"]
        ]
    assert snap.live == len(world.live)
    mean = sum(sum(world.terms[row].values()) for row in world.live) / max(1, len(world.live))
    assert snap.lexical.mean_length == pytest.approx(max(1.0, mean))


def test_entities(world: World) -> None:
    snap, rng = world.snap, random.Random(1)
    hashes = {entity: int(hash_parts(*entity[:2]), 16) for entity in ENTITIES}
    asked = [rng.randrange(len(world.items)) for _ in range(50)]
    at, keys = snap.graph.entities_of(np.array(asked))
    mentions = [(i, hashes[entity]) for i, row in enumerate(asked) for entity in world.items[row]["mentions"]]
    assert sorted(zip(at.tolist(), keys.tolist(), strict=True)) == sorted(mentions)
    wanted = [*hashes.values(), ABSENT, next(iter(hashes.values()))]
    at, rows = snap.graph.rows_of(np.array(wanted, np.uint64))
    expected = [
        (i, row)
        for i, key in enumerate(wanted)
        for row in world.live
        if key in [hashes[entity] for entity in world.items[row]["mentions"]]
    ]
    assert sorted(zip(at.tolist(), rows.tolist(), strict=True)) == sorted(expected)
    nothing = (*snap.graph.entities_of(np.empty(0, np.int64)), *snap.graph.rows_of(np.empty(0, np.uint64)))
    assert [len(found) for found in nothing] == [0] * 4


def test_facts_of_rows(world: World) -> None:
    snap, rng = world.snap, random.Random(2)
    asked = [rng.randrange(len(world.items)) for _ in range(40)]
    fields = ("id", "text", "session", "turns", "speaker")
    shown = [tuple(entry[name] for name in fields) for entry in snap.text(asked)]
    items = [world.items[row] for row in asked]
    assert shown == [(item["id"], item["text"], item["session"], [item["turn"]], item["speaker"]) for item in items]
    columns = snap.columns
    assert [snap.projects[code] for code in columns.project] == [item["project"] for item in world.items]
    names = [snap.speakers[code] if code >= 0 else None for code in columns.speaker.tolist()]
    assert names == [item["speaker"] for item in world.items]
    assert [TYPES[code] for code in columns.type.tolist()] == [item["type"] for item in world.items]
    assert columns.time.tolist() == [item["time"] for item in world.items]
    for who in ("team", "boss", "nobody"):
        assert snap.catalog.named_in_acl(who).tolist() == [who in item["acl"] for item in world.items]
    assert snap.files.restricted.tolist() == [bool(item["acl"]) for item in world.items]


def test_centroids(world: World) -> None:
    snap = world.snap
    vectors = snap.vectors.dequantise(np.arange(snap.rows))
    for i, kind in enumerate((*TYPES, None)):
        rows = [row for row in world.live if kind in (None, world.items[row]["type"])]
        mean = vectors[rows].mean(axis=0) if rows else np.zeros(8)
        np.testing.assert_allclose(snap.vectors.centroids[i], mean, atol=1e-5)
