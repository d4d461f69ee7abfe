"""Non-interference (Goguen & Meseguer 1982): what a principal may not see has no part in anything they are shown.

A store with hidden items answers, byte for byte, what a store says that never held them: items, scores, reasons,
context, every stage's counts, every candidate, why an item is missing, and the words of a refusal.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple, cast

import httpx
import numpy as np
import pytest

from helix.encoders.dense import Encoder
from helix.encoders.token_counter import EstimatedCounter
from helix.enrich.neardup import compute_signatures
from helix.errors import UsageError
from helix.ranking.topk import select_top
from helix.recipes.load_profile import names
from helix.sdk.memory import Memory
from helix.settings import Settings
from helix.snapshot import paths, writer
from helix.snapshot.index.dense import build as build_dense
from helix.snapshot.index.doc2query import KIND, write_queries
from helix.snapshot.ledger.access_events import Access, dump_access
from helix.snapshot.manifest import Index, Lineage, Manifest, describe, describe_tree, new_id
from helix.snapshot.reader.snapshot import Snapshot
from helix.snapshot.segment.batch import digest
from helix.snapshot.segment.write import write_segment
from helix.stages import dense as stage
from helix.stages.dense import search_dense
from helix.stages.route import route
from helix.types import F32, TYPES, Query
from helix.util.threads import defer_work
from pipelines.ingest.rows import build_rows
from query.rest import create_app
from query.schema.answers import render_bundle
from query.schema.requests import PrincipalRequest
from query.service import QueryService
from tests.support.tiny import BASE, fact, make_store, record

pytestmark = pytest.mark.usefixtures("stores")  # for its mark

DIM = 8
WORDS = ("walnut", "parsley", "saffron", "queue", "timeout", "harbour", "lantern", "ledger", "orchid", "granite")
PEOPLE = ("ana", "bo", "cleo", "dmitri", "esme")
PLACES = ("oslo", "rome", "lima")
NOBODY = "f" * 16
HIDDEN = {"project": "vault", "session": "cellar", "speaker": "Mallory", "type": "procedural"}
"""What only hidden items have."""

AXES = {word: np.random.default_rng(i).normal(size=DIM) for i, word in enumerate((*WORDS, *PEOPLE, *PLACES))}


class One(NamedTuple):
    """An item, and everything else a store keeps of it."""

    text: str
    given: Mapping[str, Any]  # of its record
    mentions: Sequence[tuple[str, str, str]] = ()
    links: Sequence[tuple[int, int]] = ()
    facts: Sequence[Mapping[str, Any]] = ()  # what `tests.support.tiny.fact` takes
    asked: Sequence[str] | None = None  # questions a model wrote for it; None: it was not looked at
    accesses: int = 0

    @property
    def id(self) -> str:
        return str(self.given["id"])


Parts = Sequence[Sequence[One]]


def vector(text: str) -> F32:
    """The sum of the words' axes, of unit length, as an encoder would give it."""
    found = sum((AXES[word] for word in text.lower().split() if word in AXES), np.full(DIM, 0.1))
    return np.asarray(found / np.linalg.norm(found), np.float32)


class Words:
    """An encoder without a network."""

    def query(self, text: str) -> F32:
        return vector(text.replace("?", ""))

    def queries(self, texts: Sequence[str]) -> F32:
        return np.stack([self.query(text) for text in texts])


def build(root: Path, parts: Parts) -> Path:
    """A store with one segment a part; an empty part is none."""
    paths.create(root)
    with writer.lock(root, 1.0) as held:
        segments, indexes = [], []
        for part in filter(None, parts):
            records = [
                record(one.given["place"], one.text, one.given)
                | {"source": "jsonl"}  # sessions are named by source, of those there are
                | {name: one.given[name] for name in ("priority", "pinned") if name in one.given}
                | ({"t_ingested": one.given["accepted"]} if "accepted" in one.given else {})  # microseconds
                for one in part
            ]
            facts = [[fact(row, **said) for said in one.facts] for row, one in zip(records, part, strict=True)]
            sentences = [f"{said['subject']} {said['object']}" for stated in facts for said in stated]
            texts = [one.text for one in part]
            rows = build_rows(
                records,
                texts,
                [list(one.mentions) for one in part],
                np.stack([vector(text) for text in texts]),
                compute_signatures(texts),
                links=[one.links for one in part],
                facts=facts,
                fact_vectors=np.array([vector(text) for text in sentences], np.float32).reshape(-1, DIM),
            )
            segments.append(write_segment(root, rows))
            looked = [i for i, one in enumerate(part) if one.asked is not None]
            if looked:
                target = root / "indexes" / new_id()
                asked = [part[i].asked or () for i in looked]
                write_queries(target / KIND, np.array(looked, np.uint32), [part[i].id for i in looked], asked)
                indexes.append(
                    Index(target.name, KIND, (segments[-1].id,), describe_tree(root, target), {"model": "m"})
                )
        used = sorted((int(one.id, 16), one.accesses) for part in parts for one in part if one.accesses)
        access = root / "access" / "known.npz"
        key, count = (np.array([entry[i] for entry in used], kind) for i, kind in enumerate((np.uint64, np.uint32)))
        access.write_bytes(dump_access(Access(key, np.full(len(used), BASE + 5_000, np.int64), count)))
        manifest = Manifest(
            generation=1,
            parent=None,
            created="2023-11-14T22:13:20+00:00",
            lineage=Lineage("none", "words", DIM, "none"),
            segments=tuple(segments),
            deletes=(),
            indexes=tuple(indexes),
            documents=(),
            encoder=(),
            coverage={},
            counts={"items": sum(map(len, parts)), "sessions": 1, "documents": 0},
            token=held.token,
            access=describe(root, access),
        )
        writer.publish(held, manifest)
    return root


def opened(root: Path, settings: Settings | None = None) -> Memory:
    """The store with an encoder that knows the words of these tests."""
    memory = Memory(root, settings or Settings())
    memory.snapshot.files.__dict__["encoder"] = cast("Encoder", Words())
    memory.snapshot.files.__dict__["counter"] = EstimatedCounter()
    return memory


def recalled(memory: Memory, **arguments: Any) -> str:
    """Everything a caller of any surface can see of one recall, but for milliseconds; or the words of the refusal."""
    try:
        bundle = memory.recall(explain=True, **arguments)
    except UsageError as error:
        return f"refused: {error}"
    found = render_bundle(bundle)
    stages = [{name: value for name, value in entry.items() if name != "ms"} for entry in found["trace"]["stages"]]
    found |= {"ms": sorted(found["ms"]), "trace": {**found["trace"], "stages": stages, "spans": None}}
    return json.dumps({**found, "packed": [item.id for item in bundle.packed]}, sort_keys=True)


# ---------------------------------------------------------------- random worlds


def sees(principal: str | None, one: One) -> bool:
    acl = one.given["acl"]
    return not acl or principal in acl


def world(rng: random.Random, n: int = 40) -> list[list[One]]:
    """Items in three segments, a third of them for some only: of the same sessions, entities, facts and words."""
    items: list[One] = []
    for i in range(n):
        acl = rng.choice([[], [], [], [], ["ana"], ["ana", "bo"], ["zoe"]])
        repeated = rng.choice(items).text if items and rng.random() < 0.2 else None
        people = rng.sample(PEOPLE, rng.randint(0, 2))
        text = repeated or " ".join([*rng.choices(WORDS, k=rng.randint(3, 9)), *people])
        given = {
            **{"place": i, "id": digest("acl", str(i)), "acl": acl},
            **{"session": f"s{rng.randint(0, 4)}", "ord": rng.randint(0, 20), "project": rng.choice("pqr")},
            **{
                "speaker": rng.choice([None, "Ana", "ANA", "Bo"]),
                "role": rng.choice(["user", "assistant", "document"]),
                "title": rng.choice([None, rng.choice(WORDS), " ".join(rng.sample(WORDS, 2))]),
            },
            **{"type": rng.choice([kind for kind in TYPES if kind != HIDDEN["type"]])},
            **{"time": rng.choice([None, BASE + rng.randint(0, 9_000)]), "t_valid": BASE, "t_ingested": BASE},
            **{"t_invalid": rng.choice([None, None, None, BASE + 6_000])},
            **{"salience": rng.random(), "confidence": rng.random(), "pinned": rng.random() < 0.2},
            **{"priority": rng.choice([1.0, 1.5])},
        }
        if acl == ["zoe"]:
            given |= HIDDEN if rng.random() < 0.5 else {"speaker": "Cleo"}
        said = [
            {
                **{"subject": rng.choice(PEOPLE), "relation": rng.choice(["lives_in", "likes"])},
                **{"object_": rng.choice(PLACES), "confidence": rng.random(), "closes": rng.random() < 0.2},
            }
            for _ in range(rng.randint(0, 2))
        ]
        mentioned = {*people, *(one["subject"] for one in said if rng.random() < 0.5)}
        links = [(int(rng.choice(items).id, 16), rng.randint(0, 1)) for _ in range(rng.randint(0, 1)) if items]
        asked = rng.choice([None, [], [" ".join(rng.choices(WORDS, k=3))]]) if acl == ["zoe"] or i % 2 else None
        found = [("person", name, name.title()) for name in sorted(mentioned)]
        items.append(One(text, given, found, links, said, asked, rng.choice([0, 0, 3])))
    first, second = sorted(rng.sample(range(1, n), 2))
    return [items[:first], items[first:second], items[second:]]


def without(parts: Parts, principal: str | None, *, unnamed: bool) -> list[list[One]]:
    """The same items as if what the principal may not see had never come in; `unnamed` drops the ACLs of the rest."""
    return [
        [one._replace(given={**one.given, "acl": []}) if unnamed else one for one in part if sees(principal, one)]
        for part in parts
    ]


def questions(rng: random.Random) -> dict[str, Any]:
    """The arguments of one recall, with filters."""
    said = " ".join([*rng.choices(WORDS, k=rng.randint(1, 3)), *rng.sample(PEOPLE, rng.randint(0, 2))])
    filters = {
        **{"project": rng.choice("pqr"), "type": rng.choice(TYPES), "session": f"s{rng.randint(0, 4)}"},
        **{"speaker": rng.choice(["ana", "Bo"]), "since": "2023-11-14T22:30", "until": "2023-11-15T00:00"},
        **{"as_of": "2023-11-15T00:30", "current_only": True, "entities": ("Cleo",)},
    }
    chosen = rng.sample(sorted(filters), rng.choice([0, 0, 1, 1, 2]))
    return {
        **{"query": f"What did I say of {said} recently?" if rng.random() < 0.5 else said, "k": rng.choice([3, 10])},
        **{
            "budget": rng.choice([60, 400, 2000]),
            "now": "2023-11-16T00:00",
            **{name: filters[name] for name in chosen},
        },
    }


SEEDS = range(6)


def pair(tmp_path: Path, seed: int) -> tuple[random.Random, list[One], str | None, Memory, Memory]:
    """(dice, the hidden items, who asks, the store with them, the store that never held them)."""
    rng = random.Random(seed)
    parts, principal = world(rng), (None, "ana", "stranger")[seed % 3]
    if seed % 2:  # a model wrote questions for hidden items only
        parts = [[one if not sees(principal, one) else one._replace(asked=None) for one in part] for part in parts]
    hidden = [one for part in parts for one in part if not sees(principal, one)]
    never = without(parts, principal, unnamed=seed % 4 == 0)
    return rng, hidden, principal, opened(build(tmp_path / "a", parts)), opened(build(tmp_path / "b", never))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_store_answers_as_if_it_never_held_what_is_hidden(tmp_path: Path, seed: int) -> None:
    rng, hidden, principal, holds, never = pair(tmp_path, seed)
    assert hidden
    telling = 0
    for profile in names():
        for _ in range(4):
            asked = {**questions(rng), "profile": profile, "principal": principal}
            missing = rng.choice([*(one.id for one in hidden), NOBODY])
            said = recalled(holds, **asked)
            assert said == recalled(never, **asked), (profile, asked)
            absent = recalled(holds, **asked, why_not=missing)
            assert absent == recalled(never, **asked, why_not=missing)
            assert f"no live item has the id '{missing}'" in absent
            telling += said != recalled(holds, **{**asked, "principal": "zoe"})
    assert telling  # whoever may see more is told more: the worlds differ


@pytest.mark.parametrize("seed", SEEDS)
def test_a_refusal_does_not_know_a_hidden_name(tmp_path: Path, seed: int) -> None:
    """An unknown project, speaker or session is refused in the same words, whatever is suggested instead."""
    _, hidden, principal, holds, never = pair(tmp_path, seed)
    for name in ("project", "speaker", "session"):
        for value in (HIDDEN[name], HIDDEN[name][:-1] + "x", "nothing like it"):
            asked = {"query": "walnut", "principal": principal, "now": "2023-11-16", name: value}
            said = recalled(holds, **asked)
            assert said == recalled(never, **asked)
            assert said.startswith(f"refused: unknown {name}")
            if value != HIDDEN[name]:
                assert HIDDEN[name] not in said
    if any(one.given["project"] == "vault" for one in hidden):  # who may see them may name them
        assert recalled(holds, query="walnut", principal="zoe", **{**HIDDEN, "type": None}).startswith("{")


@pytest.mark.parametrize("seed", SEEDS)
def test_a_stored_item_knows_no_hidden_neighbour(tmp_path: Path, seed: int) -> None:
    _, hidden, principal, holds, never = pair(tmp_path, seed)
    shown = 0
    for key in holds.snapshot.columns.key.tolist():
        identity = f"{key:016x}"
        stored = [memory.item(identity, principal=principal) for memory in (holds, never)]
        assert (stored[0] is None) == (stored[1] is None) == (identity in [one.id for one in hidden])
        assert stored[0] == stored[1]
        shown += stored[0] is not None
    assert shown + len(hidden) == holds.snapshot.rows


def browsed(memory: Memory, identities: Sequence[str], **whom: Any) -> str:
    """Everything a caller can see without a question."""
    told: dict[str, Any] = {"timeline": memory.timeline(**whom), "choices": memory.choices(**whom)}
    told["choices"].pop("snapshot")
    told["facts"] = {name: memory.facts(name, **whom) for name in (*PEOPLE, *PLACES, "Mallory")}
    told["sessions"] = {name: memory.session(name, **whom) for name in (*(f"s{i}" for i in range(5)), "cellar")}
    for one in identities:
        told[one] = [memory.around(one, **whom), memory.neighbours(one, **whom)]
    return json.dumps(told, sort_keys=True)


@pytest.mark.parametrize("seed", SEEDS)
def test_browsing_knows_nothing_that_is_hidden(tmp_path: Path, seed: int) -> None:
    _, hidden, principal, holds, never = pair(tmp_path, seed)
    identities = [f"{key:016x}" for key in holds.snapshot.columns.key.tolist()]
    said = browsed(holds, identities, principal=principal)
    assert said == browsed(never, identities, principal=principal)
    assert said != browsed(holds, identities, principal="zoe")
    assert all(holds.around(one.id, principal=principal) is None for one in hidden)


@pytest.mark.parametrize("seed", SEEDS)
def test_other_projects_are_as_if_they_never_were(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    parts, principal = world(rng), (None, "ana")[seed % 2]
    projects = tuple(rng.sample("pqr", rng.choice([1, 2])))
    never = [[one for one in part if sees(principal, one) and one.given["project"] in projects] for part in parts]
    all_of_it, rest = opened(build(tmp_path / "a", parts)), opened(build(tmp_path / "b", never))
    whom: dict[str, Any] = {"principal": principal, "projects": projects}
    identities = [f"{key:016x}" for key in all_of_it.snapshot.columns.key.tolist()]
    assert browsed(all_of_it, identities, **whom) == browsed(rest, identities, **whom)
    assert browsed(all_of_it, identities, **whom) != browsed(all_of_it, identities, principal=principal)
    for profile in names():
        for _ in range(3):
            asked = {**questions(rng), "profile": profile, "why_not": rng.choice(identities)}
            assert recalled(all_of_it, **asked, **whom) == recalled(rest, **asked, **whom), (profile, asked)
    assert all_of_it.choices(projects=())["items"] == 0
    assert '"items": []' in recalled(all_of_it, query="walnut", projects=())


# ---------------------------------------------------------------- one thing at a time

ANA = {"subject": "ana", "relation": "lives_in"}
MENTION = [("person", "ana", "Ana")]
BOSS = {"acl": ["boss"]}
NAMED = {"role": "document"}

PLAIN = [
    One("walnut ledger ana", {}, MENTION, facts=[{**ANA, "object_": "rome"}], asked=["harbour lantern"]),
    One("parsley queue", {}, MENTION),
    One("walnut saffron", {"session": "t"}),
    One("granite orchid bo", {"session": "t"}, [("person", "bo", "Bo")]),
    One(
        "lantern",
        {"session": "u", "type": "semantic"},
        facts=[{"subject": "eva", "relation": "likes", "object_": "figs"}],
    ),
]

SECRETS = {
    "a neighbour in a session": One("walnut walnut ana rome", {**BOSS, "ord": 0}),
    "a session of its own": One("walnut walnut walnut", {**BOSS, "session": "cellar"}),
    "the same entities": One("granite", {**BOSS, "session": "v"}, [*MENTION, ("person", "bo", "Bo")]),
    "a fact that supersedes": One("ana oslo", {**BOSS, "time": BASE + 900}, facts=[{**ANA, "object_": "oslo"}]),
    "a fact that closes": One("no", {**BOSS, "time": BASE + 900}, facts=[{**ANA, "object_": "rome", "closes": True}]),
    "a near-duplicate": One("walnut ledger ana", {**BOSS, "session": "w", "salience": 1.0}),
    "a whole project": One("walnut", {**BOSS, "project": "walnut vault"}),
    "a speaker": One("walnut", {**BOSS, "speaker": "Walnut"}),
    "a speaker a question names": One("lantern", {**BOSS, "speaker": "Bo", "session": "v"}),
    "a document a question names": One("lantern", {**BOSS, **NAMED, "title": "Walnut Vault", "session": "v"}),
    "a document an item names": One("lantern", {**BOSS, **NAMED, "title": "Parsley Queue", "session": "v"}),
    "a question before an answer": One("walnut granite?", {**BOSS, "ord": 1}),
    "another title of a document's": One("walnut", {**BOSS, **NAMED, "title": "Ledger"}),
    "a type": One("walnut", {**BOSS, "type": "code"}),
    "questions of a model": One("ledger", BOSS, asked=["walnut walnut granite"]),
    "a subject nobody else names": One(
        "x", {**BOSS, "session": "v"}, [("person", "bo", "Bo"), ("person", "eva", "Eva")]
    ),
    "what others lead to": One("lantern", {**BOSS, "session": "v"}, links=[(int(digest("acl", "1"), 16), 1)]),
}


def placed(items: Sequence[One]) -> list[One]:
    return [
        one._replace(given={"acl": [], "ord": i + 1, **one.given, "place": i, "id": digest("acl", str(i))})
        for i, one in enumerate(items)
    ]


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("together", [True, False], ids=["one segment", "two segments"])
def test_each_way_a_hidden_item_could_show(tmp_path: Path, secret: str, together: bool) -> None:
    plain, hidden = (found := placed([*PLAIN, SECRETS[secret]]))[:-1], found[-1]
    holds = opened(build(tmp_path / "a", [[*plain, hidden]] if together else [plain, [hidden]]))
    never = opened(build(tmp_path / "b", [plain]))
    telling = False
    for profile in names():
        for query in ("walnut ana?", "where does Ana live", "granite walnut Bo", "walnut vault"):
            asked = {"query": query, "now": "2023-11-16", "profile": profile}
            said = recalled(holds, **asked)
            assert said == recalled(never, **asked), profile
            assert recalled(holds, **asked, why_not=hidden.id) == recalled(never, **asked, why_not=hidden.id)
            telling |= said != recalled(holds, **asked, principal="boss")
    assert telling  # the item would change the answer


@pytest.mark.parametrize("words", ["granite", "orchid granite orchid"])
def test_how_common_a_title_is_hangs_on_what_is_shown(tmp_path: Path, words: str) -> None:
    """A title of one word is looked for as long as few items hold it: of those that are hidden none counts."""
    (tmp_path / "rare.toml").write_text('base = "helix"\n[sim]\ntitle = 1.0\n[link]\ntitle_df = 1\n')
    book = One("a stone", {**NAMED, "session": "v", "title": "Granite"})
    plain, hidden = (found := placed([*PLAIN, book, One(words, {**BOSS, "session": "w"})]))[:-1], found[-1]
    settings = Settings(profiles=str(tmp_path))
    for together in ([[*plain, hidden]], [plain, [hidden]]):
        folder = tmp_path / str(len(together))
        holds, never = (
            opened(build(folder / name, parts), settings) for name, parts in (("a", together), ("b", [plain]))
        )
        asked = {"query": "who wrote Granite", "now": "2023-11-16", "profile": "rare"}
        assert recalled(holds, **asked) == recalled(never, **asked)


# ---------------------------------------------------------------- where there is an index


def test_under_an_index_hidden_rows_move_nothing(tmp_path: Path) -> None:
    """An index is trained on hidden rows too, and misses a few. Under an ACL nothing is left to it: the answer is that
    of looking at all allowed rows, and so the same whatever else the segment holds.
    """
    rng = np.random.default_rng(0)
    n, hidden = 3_000, np.arange(0, 3_000, 5)
    vectors = rng.normal(size=(n, DIM)).astype(np.float32)
    given = [{"acl": ["boss"] if i % 5 == 0 else []} for i in range(n)]
    snap = indexed(make_store(tmp_path, ["w"] * n, vectors, given))
    seen = snap.seen_by(None)
    allowed = np.setdiff1d(np.arange(n), hidden)
    asked = rng.normal(size=(20, DIM)).astype(np.float32)
    for question in asked:
        plan = route(question_of("w"), question, seen)
        found = search_dense(question, seen, plan, 50)
        block = snap.vectors.blocks[0]
        scores = (block.codes[allowed].astype(np.float32) @ question) * block.scale[allowed]
        best = allowed[select_top(scores, snap.lexical.key[allowed], 50)]
        assert set(found.rows.tolist()) == set(best.tolist())


def question_of(text: str) -> Query:
    from datetime import UTC, datetime

    return Query(text=text, k=10, budget=100, now=datetime(2023, 11, 16, tzinfo=UTC))


def indexed(snap: Snapshot) -> Snapshot:
    """The store with an index of its one segment that looks into one list only, and so misses much."""
    from helix.snapshot.index.dense import open_dense

    (block,) = snap.vectors.blocks
    path = snap.root / "ivf.faiss"
    params = build_dense(block.codes, block.scale, path)
    snap.files.dense = {snap.files.segments[0].id: open_dense(path, {**params, "probes": 1})}
    return snap


# ---------------------------------------------------------------- REST


def asking(root: Path, *requests: tuple[str, str, Mapping[str, Any]]) -> list[tuple[int, Mapping[str, str], str]]:
    """(status, headers, body) of each (method, path, arguments), in one process."""
    service = QueryService(root, Settings(reload_interval=60))
    app = create_app(service)

    async def run() -> list[tuple[int, Mapping[str, str], str]]:
        out = []
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
            for method, path, arguments in requests:
                sent: Any = {"json": arguments} if method == "POST" else {"params": arguments}
                found = await client.request(method, path, **sent)
                out.append((found.status_code, dict(found.headers), found.text))
        return out

    service.start()
    try:
        memory = service.memory
        memory.snapshot.files.adopt(opened(root).snapshot.files)  # the encoder
        return asyncio.run(run())
    finally:
        service.stop()


def test_over_rest_a_hidden_item_and_none_are_the_same(tmp_path: Path) -> None:
    plain, hidden = (found := placed([*PLAIN, SECRETS["a neighbour in a session"]]))[:-1], found[-1]
    roots = build(tmp_path / "a", [[*plain, hidden]]), build(tmp_path / "b", [plain])
    for principal in ({}, {"principal": "ana"}):
        said = {}
        for identity in (hidden.id, NOBODY):
            requests = (
                ("GET", f"/v1/items/{identity}", principal),
                ("POST", "/v1/feedback", {"item": identity, "kind": "used", **principal}),
                ("POST", "/v1/feedback", {"item": identity, "kind": "wrong", **principal}),
                ("GET", "/v1/recall", {"query": "walnut", "project": "walnut vault", **principal}),
            )
            for root in roots:
                found = asking(root, *requests)
                assert [status for status, *_ in found] == [404, 404, 404, 400]
                said[root, identity] = [(s, h, body.replace(identity, "ID")) for s, h, body in found]
        assert all(found == said[roots[0], NOBODY] for found in said.values())
    shown = asking(roots[0], ("GET", f"/v1/items/{hidden.id}", {"principal": "boss"}))
    assert shown[0][0] == 200
    assert not list((roots[1] / "events").glob("*.jsonl"))  # a refusal leaves nothing behind either


# ---------------------------------------------------------------- time

# Milliseconds tell nothing on a busy machine, and what they measure is work. So the work is compared: which lines of
# Helix are run, in which order. They are the same for an id that is hidden and one that never was, and so is what numpy
# is given at each (arrays of the same lengths: all rows' keys are searched before any is asked whether it is alive).
# Of a recall the rows scored by the dense leg, and those that are fused, walked, ranked and read, are the same with
# hidden items as without them. What is left is that postings and key arrays of a segment are longer by the hidden
# entries, as they are by anybody else's: that tells how large the store is, not what it hides.


def lines_of(run: Callable[[], Any]) -> list[tuple[str, int]]:
    """The lines of Helix that a call runs, in order."""
    ran: list[tuple[str, int]] = []
    ours = str(Path(paths.__file__).parents[2])

    def mine(code: CodeType) -> bool:
        return code.co_filename.startswith((f"{ours}/helix/", f"{ours}/query/"))

    def local(frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            ran.append((frame.f_code.co_filename, frame.f_lineno))
        return local

    before = sys.gettrace()
    sys.settrace(lambda frame, event, _: local if mine(frame.f_code) else None)
    try:
        run()
    finally:
        sys.settrace(before)
    return ran


@pytest.fixture
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two threads nobody knows which is first, and the tracer sees one."""
    monkeypatch.setattr(Snapshot, "start_work", staticmethod(defer_work))


@pytest.mark.usefixtures("one_thread")
def test_a_hidden_id_takes_the_path_of_an_unknown_one(tmp_path: Path) -> None:
    plain, hidden = (found := placed([*PLAIN, SECRETS["a neighbour in a session"]]))[:-1], found[-1]
    root = build(tmp_path / "a", [[*plain, hidden]])
    memory, service = opened(root), QueryService(root, Settings(reload_interval=60))
    service.start()
    try:
        asked, others = {"query": "walnut ana", "now": "2023-11-16"}, []
        for call in (
            lambda identity: service.fetch(identity, PrincipalRequest(principal="ana")),
            lambda identity: memory.snapshot.seen_by(None).find(identity),
            lambda identity: recalled(memory, **asked, why_not=identity),
        ):
            for warm in (hidden.id, NOBODY, plain[0].id):
                call(warm)  # views and what hangs on them are made once
            taken = {identity: lines_of(lambda: call(identity)) for identity in (hidden.id, NOBODY, plain[0].id)}  # noqa: B023
            assert taken[hidden.id] == taken[NOBODY]
            others.append(taken[plain[0].id] != taken[NOBODY])
        assert others == [True, False, True]  # the search for an id is the same for all; what is there goes on
    finally:
        service.stop()


@pytest.mark.usefixtures("one_thread")
def test_as_many_rows_are_scored_with_hidden_items_as_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scored: list[int] = []
    score = stage.score
    monkeypatch.setattr(
        stage, "score", lambda vector, block, rows: scored.append(len(rows)) or score(vector, block, rows)
    )
    for seed in range(2):
        rng, hidden, principal, holds, never = pair(tmp_path / str(seed), seed)
        asked = questions(rng) | {"principal": principal, "query": "walnut ana"}
        work = []
        for memory in (holds, never):
            scored.clear()
            recalled(memory, **asked)
            work.append(list(filter(None, scored)))
        assert work[0] == work[1]
        assert sum(work[0]) <= holds.snapshot.rows - len(hidden)
