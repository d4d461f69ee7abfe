"""Random lives of a store against a model of dictionaries.

Whatever is ingested, changed, forgotten, merged, reindexed, rolled back or collected, in any order, the store holds and
reports the items of the model.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

import pipelines.ingest.commit
import pipelines.maintain.reindex
from helix.encoders.dense import Encoder
from helix.encoders.token_counter import TokenCounter
from helix.errors import UsageError
from helix.sdk.memory import Memory
from helix.settings import Settings, load
from helix.snapshot.gc import collect_garbage
from helix.snapshot.ledger import access_events, cursors, inbox
from helix.snapshot.ledger.access_events import AccessEvent
from helix.snapshot.manifest import list_generations
from helix.snapshot.paths import create_folders
from helix.snapshot.reader.snapshot import Snapshot
from helix.snapshot.segment.batch import hash_parts
from helix.snapshot.sql import run_statement
from helix.snapshot.verify import verify_store
from helix.stages.lexical import search_lexical
from helix.stages.route import route
from pipelines.ingest.accept import accept
from pipelines.ingest.commit import commit
from pipelines.ingest.enrich import try_enrich
from pipelines.ingest.lineage import open_encoder
from pipelines.ingest.part import pipeline_fingerprint
from pipelines.maintain.compact import compact
from pipelines.maintain.deletion_plan import Selection
from pipelines.maintain.forget import forget
from pipelines.maintain.reindex import reindex
from pipelines.maintain.rollback import rollback
from pipelines.maintain.touch import touch
from tests.contract.test_forget import traces
from tests.support.queries import make_query

SESSIONS, TURNS = ("s0", "s1", "s2"), ("t0", "t1", "t2", "t3")
WORDS = ("walnut", "parsley", "saffron", "thyme")
PROJECTS = ("kitchen", "garden")
TURN = st.tuples(*map(st.sampled_from, (SESSIONS, TURNS, WORDS, PROJECTS)))
SAID = st.tuples(st.sampled_from(WORDS), st.sampled_from(PROJECTS))
CUTS = (150, 140)  # words an item: two pipelines that cut short turns alike

Key = tuple[str, str]  # session, turn


def identity(key: Key) -> str:
    return hash_parts("jsonl", *key, "0")


def write_line(key: Key, text: str, project: str) -> str:
    line = {"session": key[0], "id": key[1], "text": text, "project": project, "ts": "2026-01-01T00:00:00Z"}
    return json.dumps(line) + "\n"


KEYS = {identity((session, turn)): (session, turn) for session in SESSIONS for turn in TURNS}


@dataclass(frozen=True)
class Version:
    """One document's version of a turn."""

    text: str
    project: str
    document: str
    accepted: int  # the later counts
    place: int  # in its session

    @property
    def content(self) -> tuple[str, str]:
        return self.text, self.project


@dataclass
class Document:
    accepted: int
    says: dict[Key, Version]


@dataclass
class State:
    """One generation."""

    items: dict[Key, Version] = field(default_factory=dict)
    done: dict[str, set[Key]] = field(default_factory=dict)  # and what each held when it was published
    pipeline: int = 0

    def copy(self) -> State:
        return State(dict(self.items), dict(self.done), self.pipeline)


def newest(versions: Iterable[Version]) -> Version:
    """Return the last accepted version; of equal copies the earliest."""
    ordered = sorted(versions, key=lambda version: version.accepted)
    return next(version for version in ordered if version.content == ordered[-1].content)


class Life(RuleBasedStateMachine):
    """The store and its model, step by step. The test sets `encoder` and `base`."""

    encoder: Encoder
    counter: TokenCounter
    base: Settings

    def __init__(self) -> None:
        super().__init__()
        self.work = Path(tempfile.mkdtemp(prefix="life-"))
        self.root = self.work / "store"
        create_folders(self.root)
        self.cut = CUTS[0]
        self.documents: dict[str, Document] = {}
        self.files: list[Path] = []
        self.read: dict[Path, int] = {}  # accepted lines of each
        self.chains: dict[Path, list[str]] = {}  # the documents of each
        self.blank: set[str] = set()  # documents a part of which was forgotten
        self.loose: set[str] = set()  # sessions of logs with missing predecessors: places unknown
        self.dead: set[str] = set()
        self.gone: set[Key] = set()  # forgotten
        self.used: dict[Key, int] = {}  # folded accesses
        self.waiting: list[Key] = []  # events
        self.state = State()
        self.history: dict[int, State] = {}

    def teardown(self) -> None:
        try:
            assert verify_store(self.root).problems == ()
        finally:
            shutil.rmtree(self.work)

    @property
    def settings(self) -> Settings:
        return replace(self.base, item_words=self.cut)

    # ------------------------------------------------------------ the model

    def pending(self) -> list[str]:
        return [name for name in self.documents if name not in self.state.done.keys() | self.dead]

    def publish_pending(self) -> None:
        """Apply a commit of the pending documents to the model."""
        if not self.history:  # the first commit begins the lineage, and only a reindex changes it
            self.state.pipeline = self.cut
        names = self.pending()
        documents = [self.documents[name] for name in names]
        for key in {key for document in documents for key in document.says} - self.gone:
            versions = [document.says[key] for document in documents if key in document.says]
            there = self.state.items.get(key)
            last = max(
                (self.documents[name].accepted for name, keys in self.state.done.items() if key in keys), default=-1
            )
            if there is None or (
                newest(versions).content != there.content and max(version.accepted for version in versions) > last
            ):
                self.state.items[key] = newest(versions)
        self.state.done |= {name: set(self.documents[name].says) for name in names}

    def rebuilt(self) -> State:
        """Return the model after a reindex: every published document again, or its residue."""
        names = [name for name in self.documents if name in self.state.done]
        says: dict[Key, list[Version]] = {}
        for name in names:
            for key, version in self.documents[name].says.items():
                says.setdefault(key, []).append(version)
        items = {key: newest(versions) for key, versions in says.items() if key not in self.gone}
        return State(items, {name: set(self.documents[name].says) for name in names}, self.cut)

    def fold(self) -> None:
        live = [key for key in self.waiting if key in self.state.items]
        if live:
            self.used = {key: count for key, count in self.used.items() if key in self.state.items}
            for key in live:
                self.used[key] = self.used.get(key, 0) + 1
        self.waiting = []

    # ------------------------------------------------------------ what can happen to a store

    @rule(turns=st.lists(TURN, min_size=1, max_size=6, unique_by=lambda turn: turn[:2]), tail=st.booleans())
    def add(self, turns: list[tuple[str, str, str, str]], tail: bool) -> None:
        """Add a new log, or more and changed turns to the last one."""
        lines: dict[Key, tuple[str, str]] = {}
        if tail and self.files:
            for line in map(json.loads, self.files[-1].read_text().splitlines()):
                lines[line["session"], line["id"]] = (line["text"], line["project"])
        for session, turn, word, project in turns:
            lines[session, turn] = (f"{word} of {session} in turn {turn}", project)
        path = self.work / f"{len(self.files)}.jsonl"
        path.write_text("".join(write_line(key, *said) for key, said in lines.items()))
        self.files.append(path)
        self.offer(path)

    @precondition(lambda self: self.files)
    @rule(
        i=st.integers(0, 20), turns=st.lists(st.tuples(st.sampled_from(WORDS), st.sampled_from(PROJECTS)), max_size=3)
    )
    def grow(self, i: int, turns: list[tuple[str, str]]) -> None:
        """Append turns: only they are accepted."""
        path = self.files[i % len(self.files)]
        held = {(line["session"], line["id"]) for line in map(json.loads, path.read_text().splitlines())}
        free = [key for key in sorted(KEYS.values()) if key not in held]
        with path.open("a") as file:
            for (session, turn), (word, project) in zip(free, turns, strict=False):
                file.write(write_line((session, turn), f"{word} of {session} in turn {turn}", project))
        self.offer(path)

    @precondition(lambda self: self.files)
    @rule(i=st.integers(0, 20))
    def offer_again(self, i: int) -> None:
        """Offer a file again."""
        self.offer(self.files[i % len(self.files)])

    def offer(self, path: Path) -> None:
        taken = accept(self.root, path, self.settings)
        cursor = cursors.read_cursor(self.root, cursors.make_key(str(path), "auto", None, ()))
        assert cursor is not None
        name = cursor.document  # the one with its end
        chain = self.chains.setdefault(path, [])
        if name not in self.documents:
            assert taken.documents == (name,)
        elif name not in chain:  # another file has the same lines
            assert set(taken.documents) == {name} & self.dead
        else:  # dead documents of it are retried
            assert set(taken.documents) == {link for link in chain if link in self.dead}
        self.dead -= set(taken.documents)
        if name not in chain:
            chain.append(name)
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        if name not in self.documents:
            places = dict.fromkeys(SESSIONS, 0)
            says = {}
            for i, line in enumerate(lines):
                place = places[line["session"]]
                places[line["session"]] += 1
                if i < self.read.get(path, 0):
                    continue
                version = Version(line["text"], line["project"], name, len(self.documents), place)
                says[line["session"], line["id"]] = version
            self.documents[name] = Document(len(self.documents), says)
        self.read[path] = len(lines)
        for document in inbox.list_pending(self.root):
            assert try_enrich(self.root, document, self.encoder, self.counter, self.settings).part
        commit(self.root, self.encoder, self.settings)
        self.publish_pending()
        self.check()

    @precondition(lambda self: self.history)
    @rule(full=st.booleans())
    def compact(self, full: bool) -> None:
        before = self.answers()
        compact(self.root, self.settings, full=full)
        self.check()
        assert before == pytest.approx(self.answers(), abs=1e-5)
        if full:
            manifest = Snapshot.open(self.root).manifest
            assert manifest is not None
            assert (len(manifest.segments), manifest.deletes) == (bool(self.state.items), ())

    def answers(self) -> Any:
        """Return ids and scores of a few questions: of the whole recall as one mapping, of the BM25 leg bit by bit."""
        memory = Memory(self.root, self.settings)
        if "encoder" not in memory.snapshot.files.__dict__:
            memory.snapshot.files.__dict__["encoder"] = self.encoder
        out: dict[str, float] = {}
        for question in (f"{WORDS[0]} of s1", f"the {WORDS[1]} in turn t2"):
            bundle = memory.recall(question, k=20, now="2026-02-01")
            assert not bundle.degraded
            out |= {f"{question} {item.id}": item.score for item in bundle.items}
            query = make_query(question, memory.snapshot, self.settings)
            leg = search_lexical(query, memory.snapshot.lexical, route(query, None, memory.snapshot), 20, 0.9, 0.6)
            for i, (row, score) in enumerate(zip(leg.rows.tolist(), leg.scores.tolist(), strict=True)):
                key = memory.snapshot.columns.key[row]
                out |= {f"{question} leg {i} {key:016x} {score!r}": score}
        return out

    @precondition(lambda self: self.history)
    @rule(kind=st.sampled_from(["item", "session", "project"]), i=st.integers(0, 11))
    def forget(self, kind: str, i: int) -> None:
        if kind == "item":
            name = sorted(KEYS)[i]
            selection = Selection(items=(name,))
            meant = {KEYS[name]}
        elif kind == "session":
            selection = Selection(session=SESSIONS[i % len(SESSIONS)])
            meant = {key for key in KEYS.values() if key[0] == selection.session}
        else:
            selection = Selection(project=PROJECTS[i % len(PROJECTS)])
            pairs = [*self.state.items.items()]
            pairs += [pair for document in self.documents.values() for pair in document.says.items()]
            meant = {key for key, version in pairs if version.project == selection.project}
            meant -= {key for key, version in self.state.items.items() if version.project != selection.project}
        unfinished = [document for name, document in self.documents.items() if name not in self.state.done]
        waiting = [pair for document in unfinished for pair in document.says.items()]
        if kind == "project":
            waiting = [(key, version) for key, version in waiting if version.project == selection.project]
        must = meant & (self.state.items.keys() | {key for key, _ in waiting})
        try:
            receipt = forget(self.root, selection, self.settings)
        except UsageError:
            assert not must
            return
        went = {KEYS[name] for name in receipt["items"]}
        assert must <= went <= meant
        self.gone |= went
        self.state.items = {key: version for key, version in self.state.items.items() if key not in went}
        self.update_owners()
        self.blank |= set(receipt["documents"])
        for name in receipt["documents"]:  # a published one keeps its rows, another its other items
            document = self.documents[name]
            mine = {key: version for key, version in self.state.items.items() if version.document == name}
            left = {
                key: version
                for key, version in document.says.items()
                if key not in went and selection.project != version.project
            }
            document.says = mine if name in self.state.done else left
            if not document.says:
                self.dead.discard(name)
        for document in self.documents.values():  # no text of it waits anywhere
            assert not went & document.says.keys()
            assert kind != "project" or selection.project not in {v.project for v in document.says.values()}
        self.fold()
        self.used = {key: count for key, count in self.used.items() if key not in went}
        assert not list((self.root / "purges").iterdir())
        needles = {f"of {session} in turn {turn}": f"of {session} in turn {turn}".encode() for session, turn in went}
        assert traces(self.root, needles) == []
        self.check()

    def update_owners(self) -> None:
        """Check the document of each item: the last one that changed its salience or confidence."""
        with run_statement(self.root, "SELECT id, document FROM items") as found:
            owner = {KEYS[name]: document for name, document in found.rows}
        for key, version in self.state.items.items():
            name = owner[key]
            assert name == version.document or self.documents[name].says[key].content == version.content
            accepted = self.documents[name].accepted
            self.state.items[key] = replace(version, document=name, accepted=accepted)

    @precondition(lambda self: self.history)
    @rule(cut=st.sampled_from(CUTS))
    def reindex(self, cut: int) -> None:
        self.cut = cut
        done = reindex(self.root, self.settings, work=self.make_parts)
        assert done.swapped == (self.state.pipeline != cut)
        if done.swapped:
            self.state = self.rebuilt()
        self.check()

    def make_parts(
        self, root: Path, documents: Sequence[str], encoder: Encoder, settings: Settings, made: Callable[[int], None]
    ) -> None:
        for document in documents:
            assert try_enrich(root, document, self.encoder, self.counter, settings).part

    @precondition(lambda self: self.history)
    @rule(back=st.integers(1, 6))
    def rollback(self, back: int) -> None:
        earlier = [manifest.generation for _, manifest in list_generations(self.root)][1:]
        if not earlier:
            with pytest.raises(UsageError):
                rollback(self.root, self.settings)
            return
        to = earlier[min(back, len(earlier)) - 1]
        done = rollback(self.root, self.settings, to)
        was = self.history[to]
        assert set(done.set_aside) == self.state.done.keys() - was.done.keys()
        self.dead = (self.dead | self.state.done.keys()) - was.done.keys()
        self.state = was.copy()
        assert not self.gone & self.state.items.keys()
        self.check()

    @precondition(lambda self: self.history)
    @rule(keep=st.integers(1, 4))
    def collect(self, keep: int) -> None:
        done = collect_garbage(self.root, keep, 0.0, 1.0)
        assert 1 <= done.kept <= keep
        report = verify_store(self.root)
        assert report.problems == report.orphans == ()
        self.check()

    @precondition(lambda self: self.history)
    @rule(which=st.lists(st.sampled_from(sorted(KEYS)), max_size=4), fold=st.booleans())
    def touch(self, which: list[str], fold: bool) -> None:
        access_events.append_events(self.root, [AccessEvent(name, "used", 1_800_000_000) for name in which])
        self.waiting += [KEYS[name] for name in which]
        if fold:
            touch(self.root, self.settings)
            self.fold()
        self.check()

    # ------------------------------------------------------------ what must hold

    def check(self) -> None:
        snapshot = Snapshot.open(self.root)
        assert snapshot.manifest is not None
        rows = np.flatnonzero(snapshot.alive).tolist()
        entries = snapshot.text(rows)
        where = {(entry["session"], entry["turns"][0]): row for entry, row in zip(entries, rows, strict=True)}
        assert len(where) == len(rows)
        assert {key: snapshot.find(identity(key)) for key in KEYS.values() if key in where} == where
        found = {key: (entry["text"], entry["project"]) for entry, key in zip(entries, where, strict=True)}
        assert found == {key: version.content for key, version in self.state.items.items()}
        assert {entry["id"] for entry in entries} == {identity(key) for key in where}
        assert not self.gone & where.keys()
        assert all(snapshot.find(identity(key)) is None for key in self.gone)

        counts = {"items": len(where), "sessions": len({key[0] for key in where}), "documents": len(self.state.done)}
        assert snapshot.manifest.counts == counts
        assert set(snapshot.manifest.coverage["embedding"].values()) == {len(where)}
        assert snapshot.manifest.lineage.pipeline == pipeline_fingerprint(
            self.encoder.spec.fingerprint, replace(self.base, item_words=self.state.pipeline)
        )
        assert set(inbox.list_dead(self.root)) == self.dead
        assert set(inbox.list_pending(self.root)) == set(self.pending())

        for path, chain in self.chains.items():
            if len(chain) > 1 and not (self.dead | self.blank).isdisjoint(chain):
                self.loose |= {json.loads(line)["session"] for line in path.read_text().splitlines()}
        rows = [row for key, row in where.items() if key[0] not in self.loose]
        before, after = dict.fromkeys(rows, -1), dict.fromkeys(rows, -1)
        for session in set(SESSIONS) - self.loose:
            talk = [key for key in where if key[0] == session]
            talk.sort(key=lambda key: (self.state.items[key].place, where[key]))
            for left, right in pairwise(talk):
                after[where[left]], before[where[right]] = where[right], where[left]
        assert dict(zip(rows, snapshot.columns.previous[rows].tolist(), strict=True)) == before
        assert dict(zip(rows, snapshot.columns.next[rows].tolist(), strict=True)) == after
        counted = {key: int(snapshot.catalog.access_count[row]) for key, row in where.items()}
        assert counted == {key: self.used.get(key, 0) for key in where}

        for generation in range(max(self.history, default=0) + 1, snapshot.generation + 1):
            self.history[generation] = self.state.copy()


@pytest.fixture
def life(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> type[Life]:
    """The machine with one encoder for all stores, without slow steps."""
    (tmp_path / "inbox").mkdir()
    encoder = open_encoder(tmp_path, load())
    monkeypatch.setattr(pipelines.ingest.commit, "load_router", lambda *_: "not in this test")
    monkeypatch.setattr(pipelines.maintain.reindex, "_open_encoder", lambda *given: encoder)
    given = {"encoder": encoder, "counter": TokenCounter(encoder.folder), "base": load()}
    return type("Life", (Life,), given)


@pytest.mark.parametrize(
    ("lives", "steps"), [(3, 12), pytest.param(400, 25, marks=[pytest.mark.soak, pytest.mark.timeout(3_600)])]
)
def test_every_sequence_of_operations_matches_the_model(life: type[Life], lives: int, steps: int) -> None:
    slow = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
    drawn = settings(max_examples=lives, stateful_step_count=steps, deadline=None, suppress_health_check=slow)
    run_state_machine_as_test(life, settings=drawn)
