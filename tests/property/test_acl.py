"""Non-interference (Goguen & Meseguer 1982): items that a principal may not see do not change any answer.

A store with hidden items and a store that never held them give the same bytes: items, scores, reasons, context, counts
of each stage, candidates, why an item is missing, and the words of a refusal.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
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
from helix.snapshot.index.dense import build_dense
from helix.snapshot.index.doc2query import KIND, write_queries
from helix.snapshot.ledger.access_events import AccessTimes, dump_access
from helix.snapshot.manifest import Index, Lineage, describe_file, describe_tree, make_id
from helix.snapshot.reader.snapshot import Snapshot
from helix.snapshot.segment.batch import hash_parts
from helix.snapshot.segment.write import write_segment
from helix.stages import dense as stage
from helix.stages.dense import search_dense
from helix.stages.route import route
from helix.types import F32, TYPES, Query
from helix.util.threads import defer_work
from pipelines.ingest.part import build_rows
from query.rest import create_app
from query.schema.answers import render_bundle
from query.schema.requests import PrincipalRequest
from query.service import QueryService
from tests.support.tiny import BASE, fact, make_store, publish_segments, record

pytestmark = pytest.mark.usefixtures("stores")  # for its mark

DIM = 8
WORDS = ("walnut", "parsley", "saffron", "queue", "timeout", "harbour", "lantern", "ledger", "orchid", "granite")
PEOPLE = ("ana", "bo", "cleo", "dmitri", "esme")
PLACES = ("oslo", "rome", "lima")
ABSENT = "f" * 16
HIDDEN = {"project": "vault", "session": "cellar", "speaker": "Mallory", "type": "procedural"}
"""Values that only hidden items have."""

AXES = {word: np.random.default_rng(i).normal(size=DIM) for i, word in enumerate((*WORDS, *PEOPLE, *PLACES))}


class Entry(NamedTuple):
    """An item and everything else that a store holds for it."""

    text: str
    given: Mapping[str, Any]  # of its record
    mentions: Sequence[tuple[str, str, str]] = ()
    links: Sequence[tuple[int, int]] = ()
    facts: Sequence[Mapping[str, Any]] = ()  # arguments of `tests.support.tiny.fact`
    asked: Sequence[str] | None = None  # questions that a model wrote for it; None: it was not processed
    accesses: int = 0

    @property
    def id(self) -> str:
        return str(self.given["id"])


Parts = Sequence[Sequence[Entry]]


def vector(text: str) -> F32:
    """Return the sum of the words' axes, of unit length, as an encoder would."""
    found = sum((AXES[word] for word in text.lower().split() if word in AXES), np.full(DIM, 0.1))
    return np.asarray(found / np.linalg.norm(found), np.float32)


class Words:
    """An encoder without a network."""

    def query(self, text: str) -> F32:
        return self.start_query(text)()

    def start_query(self, text: str) -> Callable[[], F32]:
        return lambda: vector(text.replace("?", ""))

    def queries(self, texts: Sequence[str]) -> F32:
        return np.stack([self.query(text) for text in texts])


def build(root: Path, parts: Parts) -> Path:
    """Make a store with one segment for each part that is not empty."""
    paths.create_folders(root)
    with writer.acquire_lock(root, 1.0) as held:
        segments, indexes = [], []
        for part in filter(None, parts):
            records = [
                record(one.given["place"], one.text, one.given)
                | {"source": "jsonl"}  # sessions are named by source
                | {name: one.given[name] for name in ("priority", "pinned") if name in one.given}
                | ({"t_ingested": one.given["accepted"]} if "accepted" in one.given else {})  # microseconds
                for one in part
            ]
            facts = [[fact(row, **stated) for stated in one.facts] for row, one in zip(records, part, strict=True)]
            sentences = [f"{stated['subject']} {stated['object']}" for row in facts for stated in row]
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
            processed = [i for i, one in enumerate(part) if one.asked is not None]
            if processed:
                target = root / "indexes" / make_id()
                asked = [part[i].asked or () for i in processed]
                write_queries(target / KIND, np.array(processed, np.uint32), [part[i].id for i in processed], asked)
                indexes.append(
                    Index(target.name, KIND, (segments[-1].id,), describe_tree(root, target), {"model": "m"})
                )
        used = sorted((int(one.id, 16), one.accesses) for part in parts for one in part if one.accesses)
        access = root / "access" / "known.npz"
        key, count = (np.array([entry[i] for entry in used], kind) for i, kind in enumerate((np.uint64, np.uint32)))
        access.write_bytes(dump_access(AccessTimes(key, np.full(len(used), BASE + 5_000, np.int64), count)))
        more = {"lineage": Lineage("none", "words", DIM, "none"), "access": describe_file(root, access)}
        publish_segments(held, segments, DIM, sum(map(len, parts)), indexes=tuple(indexes), **more)
    return root


def open_store(root: Path, settings: Settings | None = None) -> Memory:
    """Open a store with an encoder of the words of these tests."""
    memory = Memory(root, settings or Settings())
    memory.snapshot.files.__dict__["encoder"] = cast("Encoder", Words())
    memory.snapshot.files.__dict__["counter"] = EstimatedCounter()
    return memory


def recall_all(memory: Memory, **arguments: Any) -> str:
    """Return everything that a caller can see of a recall without its milliseconds, or the words of the refusal."""
    try:
        bundle = memory.recall(explain=True, **arguments)
    except UsageError as error:
        return f"refused: {error}"
    found = render_bundle(bundle)
    stages = [{name: value for name, value in entry.items() if name != "ms"} for entry in found["trace"]["stages"]]
    found |= {"ms": sorted(found["ms"]), "trace": {**found["trace"], "stages": stages, "spans": None}}
    return json.dumps({**found, "packed": [item.id for item in bundle.packed]}, sort_keys=True)


def may_see(principal: str | None, one: Entry) -> bool:
    acl = one.given["acl"]
    return not acl or principal in acl


def make_world(rng: random.Random, n: int = 40) -> list[list[Entry]]:
    """Make items in three segments: a third has an ACL and shares sessions, entities, facts and words with the rest."""
    items: list[Entry] = []
    for i in range(n):
        acl = rng.choice([[], [], [], [], ["ana"], ["ana", "bo"], ["zoe"]])
        repeated = rng.choice(items).text if items and rng.random() < 0.2 else None
        people = rng.sample(PEOPLE, rng.randint(0, 2))
        text = repeated or " ".join([*rng.choices(WORDS, k=rng.randint(3, 9)), *people])
        given = {
            **{"place": i, "id": hash_parts("acl", str(i)), "acl": acl},
            **{"session": f"s{rng.randint(0, 4)}", "ord": rng.randint(0, 20), "project": rng.choice("pqr")},
            **{
                "speaker": rng.choice([None, "Ana", "ANA", "Bo"]),
                "role": rng.choice(["user", "assistant", "document"]),
            },
            "title": rng.choice([None, rng.choice(WORDS), " ".join(rng.sample(WORDS, 2))]),
            "type": rng.choice([kind for kind in TYPES if kind != HIDDEN["type"]]),
            **{"time": rng.choice([None, BASE + rng.randint(0, 9_000)]), "t_valid": BASE, "t_ingested": BASE},
            **{"t_invalid": rng.choice([None, None, None, BASE + 6_000]), "salience": rng.random()},
            **{"confidence": rng.random(), "pinned": rng.random() < 0.2, "priority": rng.choice([1.0, 1.5])},
        }
        if acl == ["zoe"]:
            given |= HIDDEN if rng.random() < 0.5 else {"speaker": "Cleo"}
        facts = [
            {
                **{"subject": rng.choice(PEOPLE), "relation": rng.choice(["lives_in", "likes"])},
                **{"object_": rng.choice(PLACES), "confidence": rng.random(), "closes": rng.random() < 0.2},
            }
            for _ in range(rng.randint(0, 2))
        ]
        mentioned = {*people, *(one["subject"] for one in facts if rng.random() < 0.5)}
        links = [(int(rng.choice(items).id, 16), rng.randint(0, 1)) for _ in range(rng.randint(0, 1)) if items]
        asked = rng.choice([None, [], [" ".join(rng.choices(WORDS, k=3))]]) if acl == ["zoe"] or i % 2 else None
        found = [("person", name, name.title()) for name in sorted(mentioned)]
        items.append(Entry(text, given, found, links, facts, asked, rng.choice([0, 0, 3])))
    first, second = sorted(rng.sample(range(1, n), 2))
    return [items[:first], items[first:second], items[second:]]


def drop_hidden(parts: Parts, principal: str | None, *, unnamed: bool) -> list[list[Entry]]:
    """Return the items that a principal may see; `unnamed` drops their ACLs."""
    return [
        [one._replace(given={**one.given, "acl": []}) if unnamed else one for one in part if may_see(principal, one)]
        for part in parts
    ]


def draw_arguments(rng: random.Random) -> dict[str, Any]:
    """Draw the arguments of a recall, with filters."""
    words = " ".join([*rng.choices(WORDS, k=rng.randint(1, 3)), *rng.sample(PEOPLE, rng.randint(0, 2))])
    filters = {
        **{"project": rng.choice("pqr"), "type": rng.choice(TYPES), "session": f"s{rng.randint(0, 4)}"},
        **{"speaker": rng.choice(["ana", "Bo"]), "since": "2023-11-14T22:30", "until": "2023-11-15T00:00"},
        **{"as_of": "2023-11-15T00:30", "current_only": True, "entities": ("Cleo",)},
    }
    chosen = rng.sample(sorted(filters), rng.choice([0, 0, 1, 1, 2]))
    query = f"What did I say of {words} recently?" if rng.random() < 0.5 else words
    given = {"query": query, "k": rng.choice([3, 10]), "budget": rng.choice([60, 400, 2000]), "now": "2023-11-16T00:00"}
    return {**given, **{name: filters[name] for name in chosen}}


class Pair(NamedTuple):
    """A random store, and one that never held what its principal may not see."""

    seed: int
    parts: Parts
    principal: str | None
    hidden: list[Entry]
    holds: Memory
    never: Memory
    identities: list[str]  # of all items


def make_pair(folder: Path, seed: int) -> Pair:
    parts, principal = make_world(random.Random(seed)), (None, "ana", "stranger")[seed % 3]
    if seed % 2:  # a model wrote questions for hidden items only
        parts = [[one if not may_see(principal, one) else one._replace(asked=None) for one in part] for part in parts]
    hidden = [one for part in parts for one in part if not may_see(principal, one)]
    seen = drop_hidden(parts, principal, unnamed=seed % 4 == 0)
    holds, never = open_store(build(folder / "a", parts)), open_store(build(folder / "b", seen))
    return Pair(seed, parts, principal, hidden, holds, never, [one.id for part in parts for one in part])


@pytest.fixture(scope="module", params=range(6))
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return make_pair(tmp_path_factory.mktemp("pair"), request.param)


def test_a_store_answers_as_if_it_never_held_what_is_hidden(pair: Pair) -> None:
    rng, principal = random.Random(pair.seed), pair.principal
    assert pair.hidden
    differing = False
    for profile in names():
        for _ in range(3):
            asked = {**draw_arguments(rng), "profile": profile, "principal": principal}
            missing = rng.choice([*(one.id for one in pair.hidden), ABSENT])
            answer = recall_all(pair.holds, **asked)
            assert answer == recall_all(pair.never, **asked), (profile, asked)
            absent = recall_all(pair.holds, **asked, why_not=missing)
            assert absent == recall_all(pair.never, **asked, why_not=missing)
            assert f"no live item has the id '{missing}'" in absent
            differing = differing or answer != recall_all(pair.holds, **{**asked, "principal": "zoe"})
    assert differing  # a principal who may see more gets more


def test_a_refusal_does_not_know_a_hidden_name(pair: Pair) -> None:
    """An unknown project, speaker or session is refused in the same words, with any suggestion."""
    for name in ("project", "speaker", "session"):
        for value in (HIDDEN[name], HIDDEN[name][:-1] + "x", "nothing like it"):
            asked = {"query": "walnut", "principal": pair.principal, "now": "2023-11-16", name: value}
            answer = recall_all(pair.holds, **asked)
            assert answer == recall_all(pair.never, **asked)
            assert answer.startswith(f"refused: unknown {name}")
            if value != HIDDEN[name]:
                assert HIDDEN[name] not in answer
    if any(one.given["project"] == "vault" for one in pair.hidden):  # the principal who may see them may name them
        assert recall_all(pair.holds, query="walnut", principal="zoe", **{**HIDDEN, "type": None}).startswith("{")


def browse_all(memory: Memory, identities: Sequence[str], **whom: Any) -> str:
    """Return everything that a caller can see without a question."""
    seen: dict[str, Any] = {"timeline": memory.timeline(**whom), "choices": memory.choices(**whom)}
    seen["choices"].pop("snapshot")
    seen["decisions"] = memory.decisions(as_of="2030-01-01", history=True, limit=1000, **whom)
    seen["facts"] = {name: memory.facts(name, **whom) for name in (*PEOPLE, *PLACES, "Mallory")}
    seen["sessions"] = {name: memory.session(name, **whom) for name in (*(f"s{i}" for i in range(5)), "cellar")}
    for one in identities:
        seen[one] = [memory.around(one, **whom), memory.neighbours(one, **whom)]
    return json.dumps(seen, sort_keys=True)


def test_browsing_knows_nothing_that_is_hidden(pair: Pair) -> None:
    whom = {"principal": pair.principal}
    answer = browse_all(pair.holds, pair.identities, **whom)
    assert answer == browse_all(pair.never, pair.identities, **whom)
    assert answer != browse_all(pair.holds, pair.identities, principal="zoe")
    hidden = {one.id for one in pair.hidden}
    for one in pair.identities:
        stored = [memory.item(one, **whom) for memory in (pair.holds, pair.never)]
        assert stored[0] == stored[1]
        assert (stored[0] is None) == (pair.holds.around(one, **whom) is None) == (one in hidden)


def test_other_projects_are_as_if_they_never_were(pair: Pair, tmp_path: Path) -> None:
    rng, principal = random.Random(pair.seed), (None, "ana")[pair.seed % 2]
    projects = tuple(rng.sample("pqr", rng.choice([1, 2])))
    seen = [
        [one for one in part if may_see(principal, one) and one.given["project"] in projects] for part in pair.parts
    ]
    whole, rest = pair.holds, open_store(build(tmp_path, seen))
    whom: dict[str, Any] = {"principal": principal, "projects": projects}
    assert browse_all(whole, pair.identities, **whom) == browse_all(rest, pair.identities, **whom)
    assert browse_all(whole, pair.identities, **whom) != browse_all(whole, pair.identities, principal=principal)
    for profile in names():
        for _ in range(2):
            asked = {**draw_arguments(rng), "profile": profile, "why_not": rng.choice(pair.identities)}
            assert recall_all(whole, **asked, **whom) == recall_all(rest, **asked, **whom), (profile, asked)
    assert whole.choices(projects=())["items"] == 0
    assert '"items": []' in recall_all(whole, query="walnut", projects=())


# ---------------------------------------------------------------- one thing at a time

ANA = {"subject": "ana", "relation": "lives_in"}
MENTION = [("person", "ana", "Ana")]
BOSS = {"acl": ["boss"]}
NAMED = {"role": "document"}

PLAIN = [
    Entry("walnut ledger ana", {}, MENTION, facts=[{**ANA, "object_": "rome"}], asked=["harbour lantern"]),
    Entry("parsley queue", {}, MENTION),
    Entry("walnut saffron", {"session": "t"}),
    Entry("granite orchid bo", {"session": "t"}, [("person", "bo", "Bo")]),
    Entry(
        "lantern",
        {"session": "u", "type": "semantic"},
        facts=[{"subject": "eva", "relation": "likes", "object_": "figs"}],
    ),
]

SECRETS = {
    "a neighbour in a session": Entry("walnut walnut ana rome", {**BOSS, "ord": 0}),
    "a session of its own": Entry("walnut walnut walnut", {**BOSS, "session": "cellar"}),
    "the same entities": Entry("granite", {**BOSS, "session": "v"}, [*MENTION, ("person", "bo", "Bo")]),
    "a fact that supersedes": Entry("ana oslo", {**BOSS, "time": BASE + 900}, facts=[{**ANA, "object_": "oslo"}]),
    "a fact that closes": Entry("no", {**BOSS, "time": BASE + 900}, facts=[{**ANA, "object_": "rome", "closes": True}]),
    "a near-duplicate": Entry("walnut ledger ana", {**BOSS, "session": "w", "salience": 1.0}),
    "a whole project": Entry("walnut", {**BOSS, "project": "walnut vault"}),
    "a speaker": Entry("walnut", {**BOSS, "speaker": "Walnut"}),
    "a speaker a question names": Entry("lantern", {**BOSS, "speaker": "Bo", "session": "v"}),
    "a document a question names": Entry("lantern", {**BOSS, **NAMED, "title": "Walnut Vault", "session": "v"}),
    "a document an item names": Entry("lantern", {**BOSS, **NAMED, "title": "Parsley Queue", "session": "v"}),
    "a question before an answer": Entry("walnut granite?", {**BOSS, "ord": 1}),
    "another title of a document's": Entry("walnut", {**BOSS, **NAMED, "title": "Ledger"}),
    "a type": Entry("walnut", {**BOSS, "type": "code"}),
    "questions of a model": Entry("ledger", BOSS, asked=["walnut walnut granite"]),
    "a subject no other item names": Entry(
        "x", {**BOSS, "session": "v"}, [("person", "bo", "Bo"), ("person", "eva", "Eva")]
    ),
    "the target of links": Entry("lantern", {**BOSS, "session": "v"}, links=[(int(hash_parts("acl", "1"), 16), 1)]),
}


def place_items(items: Sequence[Entry]) -> list[Entry]:
    return [
        one._replace(given={"acl": [], "ord": i + 1, **one.given, "place": i, "id": hash_parts("acl", str(i))})
        for i, one in enumerate(items)
    ]


def hide_last(folder: Path, *items: Entry, together: bool = True) -> tuple[Path, list[Entry], Entry]:
    """Make a store of `PLAIN` and items of which the last is hidden; return it, the plain items and the hidden one."""
    *plain, hidden = place_items([*PLAIN, *items])
    return build(folder, [[*plain, hidden]] if together else [plain, [hidden]]), plain, hidden


ASKED = [
    {"query": query, "now": "2023-11-16", "profile": profile}
    for profile in names()
    for query in ("walnut ana?", "where does Ana live", "granite walnut Bo", "walnut vault")
]


@pytest.fixture(scope="module")
def plain_answers(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, str]]:
    """The answers of a store without hidden items, and of a profile's first with the reason why an item is missing."""
    never = open_store(build(tmp_path_factory.mktemp("plain"), [place_items(PLAIN)]))
    missing = hash_parts("acl", str(len(PLAIN)))
    explained = [ASKED[0], *(asked for before, asked in pairwise(ASKED) if asked["profile"] != before["profile"])]
    return [
        (recall_all(never, **asked), recall_all(never, **asked, why_not=missing) if asked in explained else "")
        for asked in ASKED
    ]


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("together", [True, False], ids=["one segment", "two segments"])
def test_each_way_a_hidden_item_could_show(
    tmp_path: Path, plain_answers: list[tuple[str, str]], secret: str, together: bool
) -> None:
    root, _, hidden = hide_last(tmp_path, SECRETS[secret], together=together)
    holds = open_store(root)
    differing = False
    for asked, (answer, absent) in zip(ASKED, plain_answers, strict=True):
        assert recall_all(holds, **asked) == answer, asked
        assert not absent or recall_all(holds, **asked, why_not=hidden.id) == absent, asked
        differing = differing or answer != recall_all(holds, **asked, principal="boss")
    assert differing  # the item would change the answer


@pytest.mark.parametrize("words", ["granite", "orchid granite orchid"])
def test_hidden_items_do_not_count_as_uses_of_a_title(tmp_path: Path, words: str) -> None:
    """A title of one word is searched while few items contain it; hidden ones do not count."""
    (tmp_path / "rare.toml").write_text('base = "helix"\n[sim]\ntitle = 1.0\n[link]\ntitle_df = 1\n')
    book = Entry("a stone", {**NAMED, "session": "v", "title": "Granite"})
    secret, settings = Entry(words, {**BOSS, "session": "w"}), Settings(profiles=str(tmp_path))
    asked = {"query": "who wrote Granite", "now": "2023-11-16", "profile": "rare"}
    never = open_store(build(tmp_path / "b", [place_items([*PLAIN, book])]), settings)
    for together in (True, False):
        root, *_ = hide_last(tmp_path / str(together), book, secret, together=together)
        assert recall_all(open_store(root, settings), **asked) == recall_all(never, **asked)


def test_an_index_trained_on_hidden_rows_changes_nothing(tmp_path: Path) -> None:
    """An index misses rows. Under an ACL the answer comes from a scan of all allowed rows instead."""
    rng = np.random.default_rng(0)
    n, hidden = 3_000, np.arange(0, 3_000, 5)
    vectors = rng.normal(size=(n, DIM)).astype(np.float32)
    given = [{"acl": ["boss"] if i % 5 == 0 else []} for i in range(n)]
    snap = build_index(make_store(tmp_path, ["w"] * n, vectors, given))
    seen = snap.seen_by(None)
    allowed = np.setdiff1d(np.arange(n), hidden)
    asked = rng.normal(size=(20, DIM)).astype(np.float32)
    for question in asked:
        plan = route(make_query("w"), question, seen)
        found = search_dense(question, seen, plan, 50)
        block = snap.vectors.blocks[0]
        scores = (block.codes[allowed].astype(np.float32) @ question) * block.scale[allowed]
        best = allowed[select_top(scores, snap.lexical.key[allowed], 50)]
        assert set(found.rows.tolist()) == set(best.tolist())


def make_query(text: str) -> Query:
    from datetime import UTC, datetime

    return Query(text=text, k=10, budget=100, now=datetime(2023, 11, 16, tzinfo=UTC))


def build_index(snap: Snapshot) -> Snapshot:
    """Index the one segment, with one probed list only: the index misses much."""
    from helix.snapshot.index.dense import open_dense

    (block,) = snap.vectors.blocks
    path = snap.root / "ivf.faiss"
    params = build_dense(block.codes, block.scale, path)
    snap.files.dense = {snap.files.segments[0].id: open_dense(path, {**params, "probes": 1})}
    return snap


def send_requests(
    root: Path, *requests: tuple[str, str, Mapping[str, Any]]
) -> list[tuple[int, Mapping[str, str], str]]:
    """Return (status, headers, body) for each (method, path, arguments), in this process."""
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
        memory.snapshot.files.adopt(open_store(root).snapshot.files)  # the encoder
        return asyncio.run(run())
    finally:
        service.stop()


def test_over_rest_a_hidden_item_equals_an_unknown_one(tmp_path: Path) -> None:
    root, plain, hidden = hide_last(tmp_path / "a", SECRETS["a neighbour in a session"])
    roots = root, build(tmp_path / "b", [plain])
    for principal in ({}, {"principal": "ana"}):
        answer = {}
        for identity in (hidden.id, ABSENT):
            requests = (
                ("GET", f"/v1/items/{identity}", principal),
                ("POST", "/v1/feedback", {"item": identity, "kind": "used", **principal}),
                ("POST", "/v1/feedback", {"item": identity, "kind": "wrong", **principal}),
                ("GET", "/v1/recall", {"query": "walnut", "project": "walnut vault", **principal}),
            )
            for root in roots:
                found = send_requests(root, *requests)
                assert [status for status, *_ in found] == [404, 404, 404, 400]
                answer[root, identity] = [(s, h, body.replace(identity, "ID")) for s, h, body in found]
        assert all(found == answer[roots[0], ABSENT] for found in answer.values())
    shown = send_requests(roots[0], ("GET", f"/v1/items/{hidden.id}", {"principal": "boss"}))
    assert shown[0][0] == 200
    assert not list((roots[1] / "events").glob("*.jsonl"))  # a refusal writes nothing


# ---------------------------------------------------------------- time

# Milliseconds vary on a busy machine, so these tests compare the work: the lines of Helix that run, in order. They are
# the same for a hidden id and an unknown one, and so are the lengths of NumPy's arguments: all rows' keys are searched
# before deletions are applied. A recall scores, fuses, walks, ranks and reads the same rows with hidden items as
# without them. Postings and key arrays are longer by the hidden entries: that shows the size of the store, not what it
# hides.


def trace_lines(run: Callable[[], Any]) -> list[tuple[str, int]]:
    """Return the lines of Helix that a call runs, in order."""
    ran: list[tuple[str, int]] = []
    ours = str(Path(paths.__file__).parents[2])

    def is_ours(code: CodeType) -> bool:
        return code.co_filename.startswith((f"{ours}/helix/", f"{ours}/query/"))

    def record_line(frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            ran.append((frame.f_code.co_filename, frame.f_lineno))
        return record_line

    before = sys.gettrace()
    sys.settrace(lambda frame, event, _: record_line if is_ours(frame.f_code) else None)
    try:
        run()
    finally:
        sys.settrace(before)
    return ran


@pytest.fixture
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in this thread: the order of two is not defined, and the tracer sees one."""
    monkeypatch.setattr(Snapshot, "start_work", staticmethod(defer_work))


@pytest.mark.usefixtures("one_thread")
def test_a_hidden_id_takes_the_path_of_an_unknown_one(tmp_path: Path) -> None:
    root, plain, hidden = hide_last(tmp_path / "a", SECRETS["a neighbour in a session"])
    memory, service = open_store(root), QueryService(root, Settings(reload_interval=60))
    service.start()
    try:
        asked, others = {"query": "walnut ana", "now": "2023-11-16"}, []
        for call in (
            lambda identity: service.fetch(identity, PrincipalRequest(principal="ana")),
            lambda identity: memory.snapshot.seen_by(None).find(identity),
            lambda identity: recall_all(memory, **asked, why_not=identity),
        ):
            for warm in (hidden.id, ABSENT, plain[0].id):
                call(warm)  # views are made once
            taken = {identity: trace_lines(lambda: call(identity)) for identity in (hidden.id, ABSENT, plain[0].id)}  # noqa: B023
            assert taken[hidden.id] == taken[ABSENT]
            others.append(taken[plain[0].id] != taken[ABSENT])
        assert others == [True, True, True]  # the beginning of an id is searched for only if no item has the id
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
        pair = make_pair(tmp_path / str(seed), seed)
        asked = draw_arguments(random.Random(seed)) | {"principal": pair.principal, "query": "walnut ana"}
        work = []
        for memory in (pair.holds, pair.never):
            scored.clear()
            recall_all(memory, **asked)
            work.append(list(filter(None, scored)))
        assert work[0] == work[1]
        assert sum(work[0]) <= pair.holds.snapshot.rows - len(pair.hidden)
